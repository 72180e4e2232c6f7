//! kill -9 of `onpath dev` under a mount in use: the next start takes the mountpoint back, and whoever used it hears so at once.

use crate::common::check::{content, done};
use crate::common::server::{Mount, Site, is_mounted};
use crate::common::{process, sys, wait_until};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Everything that keeps a mount busy: an open file, an open directory, and a process whose working directory it is.
struct Users {
    file: OwnedFd,
    dir: fs::ReadDir,
    shell: Child,
}

impl Users {
    fn new(root: &Path) -> Users {
        fs::create_dir_all(root.join("dir/below")).expect("mkdir");
        let file = done("open", sys::open(root.join("dir/f"), libc::O_RDWR | libc::O_CREAT, 0o644));
        done("write", sys::pwrite(&file, "written before", 0));
        let dir = fs::read_dir(root.join("dir")).expect("opendir");
        // Looks around when it is told to, and tells.
        let script = "while read word; do ls . >/dev/null 2>&1; echo $?; done";
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(root.join("dir/below"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Users { file, dir, shell: process::spawn(&mut command).expect("sh") }
    }

    /// All get ENOTCONN, at once and for ever.
    fn assert_cut_off(mut self, when: &str) {
        assert_eq!(sys::pread(&self.file, 1, 0).map(drop), Err(libc::ENOTCONN), "{when}: read");
        assert_eq!(sys::pwrite(&self.file, "x", 0).map(drop), Err(libc::ENOTCONN), "{when}: write");
        assert_eq!(sys::fstat(&self.file).map(drop), Err(libc::ENOTCONN), "{when}: fstat");
        let listed = self.dir.next().expect("a result").map(drop).map_err(|error| error.raw_os_error());
        assert_eq!(listed, Err(Some(libc::ENOTCONN)), "{when}: readdir");
        let mut input = self.shell.stdin.take().expect("piped");
        std::io::Write::write_all(&mut input, b"look\n").expect("sh reads");
        drop(input);
        let said = self.shell.wait_with_output().expect("sh ends").stdout;
        assert_ne!(said, b"0\n", "{when}: ls in a working directory that is gone");
    }
}

fn killed(site: &Site) -> (Mount, Users) {
    let mut mount = site.dev(&[]);
    let users = Users::new(mount.path());
    mount.kill();
    (mount, users)
}

#[test]
fn the_next_start_takes_the_mountpoint_back() {
    let Some(site) = Site::new("the next start takes the mountpoint back") else { return };
    let (_dead, users) = killed(&site);
    let mount = site.dev(&[]);
    assert_eq!(content(mount.path().join("dir/f")), b"written before");
    fs::write(mount.path().join("dir/f"), "written after").expect("a write by path");
    users.assert_cut_off("after the next start");
    assert_eq!(content(mount.path().join("dir/f")), b"written after");
    // Nothing of the dead mount keeps this one busy.
    mount.stop();
    site.assert_clean("after the next start");
}

/// Killed several times, users of all the mounts before still there.
#[test]
fn time_and_again() {
    let Some(site) = Site::new("killed time and again") else { return };
    let dead: Vec<(Mount, Users)> = (0..4).map(|_| killed(&site)).collect();
    let mount = site.dev(&[]);
    let table = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let here = format!(" {} ", mount.path().display());
    assert_eq!(table.lines().filter(|line| line.contains(&here)).count(), 1, "dead mounts are piled up");
    dead.into_iter().for_each(|(_, users)| users.assert_cut_off("after several starts"));
    mount.stop();
    site.assert_clean("after several starts");
}

/// Of a mount that was alone the kernel still answers for a while what it has cached, its root too, after the server is gone.
#[test]
fn what_the_kernel_has_cached() {
    let Some(site) = Site::new("killed with a cache") else { return };
    let second = site.mountpoint(1);
    for next in [0, 1] {
        let mut first = site.dev(&[]);
        site.wait_alone(0);
        done("stat", sys::stat(first.path()));
        first.kill();
        done("stat of the dead mount's root", sys::stat(first.path()));
        let mount = site.dev_at(next, &[]);
        assert!(next == 0 || !is_mounted(first.path()), "the dead mount is there");
        assert_eq!(mount.path() == second, next == 1);
        mount.stop();
    }
    site.assert_clean("after mounts that were alone");
}

/// The next start mounts elsewhere, or nowhere: the dead mount goes all the same.
#[test]
fn dead_mounts_elsewhere_are_detached() {
    let Some(site) = Site::new("dead mounts elsewhere") else { return };
    let second = site.mountpoint(1);
    for mountpoint in [Some(&second), None] {
        let mut first = site.dev(&[]);
        let users = Users::new(first.path());
        first.kill();
        assert!(is_mounted(first.path()));
        let mut command = Command::new(crate::common::server::binary());
        command.arg("dev").arg(site.state()).args(mountpoint).stdout(Stdio::null());
        let mut next = process::spawn(&mut command).expect("onpath dev");
        wait_until("the dead mount is detached", || !is_mounted(first.path()));
        users.assert_cut_off("detached");
        if let Some(mountpoint) = mountpoint {
            wait_until("it is mounted", || is_mounted(mountpoint));
            assert_eq!(content(mountpoint.join("dir/f")), b"written before");
        }
        let mut interrupt = Command::new("kill");
        assert!(interrupt.args(["-s", "INT"]).arg(next.id().to_string()).status().is_ok_and(|status| status.success()));
        assert!(next.wait().expect("wait").success());
        drop(first);
    }
    site.assert_clean("after dead mounts elsewhere");
}

/// A second mount lives on while the first is dead, with its open files and working directories.
#[test]
fn the_mounts_of_others_live_on() {
    let Some(site) = Site::new("the mounts of others live on") else { return };
    let mut first = site.dev(&[]);
    let second = site.mount(1, &[]);
    let users = Users::new(second.path());
    first.kill();
    let again = site.dev(&[]);
    done("write by a descriptor of before", sys::pwrite(&users.file, "still open", 0));
    assert!(content(again.path().join("dir/f")).starts_with(b"still open"));
    let Users { file, dir, mut shell } = users;
    drop((file, dir));
    let mut input = shell.stdin.take().expect("piped");
    std::io::Write::write_all(&mut input, b"look\n").expect("sh reads");
    drop(input);
    assert_eq!(shell.wait_with_output().expect("sh ends").stdout, b"0\n");
    second.stop();
    again.stop();
    site.assert_clean("after the mounts of others lived on");
}

/// Rounds of writes that a kill follows at once.
const ROUNDS: usize = 6;

/// What changed a file last, as it was seen when the write had returned.
fn written(root: &Path, round: usize) -> Vec<(String, sys::Stat)> {
    let write = |n: usize| {
        let name = format!("file{n}");
        let file = done("open", sys::open(root.join(&name), libc::O_WRONLY | libc::O_CREAT, 0o644));
        done("write", sys::pwrite(&file, format!("round {round}"), n as i64 * 5_000));
        if n % 4 == 3 {
            // What was set after the write stays too.
            done("utimensat", sys::futimens(&file, [sys::at(1_000, 1), sys::at(2_000 + round as i64, 2)]));
        }
        (name, done("fstat", sys::fstat(&file)))
    };
    (0..16).map(write).collect()
}

fn assert_times(root: &Path, before: &[(String, sys::Stat)], when: &str) {
    for (name, before) in before {
        let now = done("stat", sys::stat(root.join(name)));
        assert_eq!((now.mtime, now.ctime, now.size), (before.mtime, before.ctime, before.size), "{when}: {name}");
    }
}

/// Homes are told again of the writes of the last tenth of a second, also when nobody knows their sessions any more. The times of
/// the files stay those of the writes.
#[test]
fn times_of_the_last_writes() {
    let Some(site) = Site::new("times of the last writes") else { return };
    for round in 0..ROUNDS {
        let mut first = site.dev(&[]);
        let before = match round % 2 {
            // The session leaves before the kill.
            0 => {
                let second = site.mount(1, &[]);
                let before = written(second.path(), round);
                second.stop();
                before
            }
            _ => written(first.path(), round),
        };
        first.kill();
        // It is buried by this start, and the next one knows nothing of it.
        let mut again = site.dev(&[]);
        assert_times(again.path(), &before, &format!("round {round}, killed once"));
        again.kill();
        let last = site.dev(&[]);
        assert_times(last.path(), &before, &format!("round {round}, killed twice"));
        last.stop();
    }
    site.assert_clean("after the last writes");
}
