//! A command on a terminal of its own, as a person has one.
#![allow(unsafe_code)]

use super::{sys, wait_until};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
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
        let (ours, its) = pair();
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

/// A terminal of 200 columns: this side of it, and that of a program. No process of another test inherits either.
pub fn pair() -> (File, File) {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    let ours = sys::call!(libc::posix_openpt(flags)).expect("posix_openpt");
    // SAFETY: the descriptor was just made, and belongs to nobody else.
    let ours = unsafe { File::from_raw_fd(ours) };
    let mut name = [0; 64];
    assert_eq!(sys::call!(libc::grantpt(ours.as_raw_fd())), Ok(0), "grantpt");
    assert_eq!(sys::call!(libc::unlockpt(ours.as_raw_fd())), Ok(0), "unlockpt");
    assert_eq!(sys::call!(libc::ptsname_r(ours.as_raw_fd(), name.as_mut_ptr(), name.len())), Ok(0), "ptsname_r");
    let theirs = sys::call!(libc::open(name.as_ptr(), flags)).expect("open of a terminal");
    // SAFETY: as above.
    let theirs = unsafe { File::from_raw_fd(theirs) };
    let size = libc::winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
    assert_eq!(sys::call!(libc::ioctl(theirs.as_raw_fd(), libc::TIOCSWINSZ, &raw const size)), Ok(0), "TIOCSWINSZ");
    (ours, theirs)
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
