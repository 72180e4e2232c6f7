//! A command on a terminal of its own, as a person has one.
#![allow(unsafe_code)]

use super::wait_until;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

/// A command that runs on it; killed on drop.
pub struct Terminal {
    child: Child,
    keyboard: File,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Starts the command.
    pub fn run(mut command: Command) -> Terminal {
        let (mut ours, mut its) = (-1, -1);
        let (name, modes, size) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: openpty fills in two descriptors, which are nobody else's; the null pointers are not looked at.
        let (ours, its) = unsafe {
            assert_eq!(libc::openpty(&mut ours, &mut its, name, modes, size), 0, "a terminal");
            (File::from_raw_fd(ours), OwnedFd::from_raw_fd(its))
        };
        let copy = || its.try_clone().expect("dup of the terminal");
        command.stdin(copy()).stdout(copy()).stderr(copy());
        // SAFETY: between fork and exec only system calls are made.
        unsafe {
            command.pre_exec(|| match libc::setsid() != -1 && libc::ioctl(0, libc::TIOCSCTTY, 0) != -1 {
                true => Ok(()),
                false => Err(std::io::Error::last_os_error()),
            });
        }
        let child = command.spawn().expect("the command starts");
        let shown = Arc::<Mutex<Vec<u8>>>::default();
        let (mut screen, into) = (ours.try_clone().expect("dup of the terminal"), shown.clone());
        // It ends when nobody has the other side open any more.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = screen.read(&mut bytes) {
                into.lock().expect("nobody panics here").extend_from_slice(&bytes[..n]);
            }
        });
        Terminal { child, keyboard: ours, shown }
    }

    /// All that was written to it so far.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("nobody panics here")).into_owned()
    }

    /// Ctrl-C; the exit code.
    pub fn interrupt(mut self) -> Option<i32> {
        self.keyboard.write_all(b"\x03").expect("the terminal takes a key");
        let mut status = None;
        wait_until("the command ends after Ctrl-C", || {
            status = self.child.try_wait().expect("wait of our child");
            status.is_some()
        });
        status.expect("just seen").code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
