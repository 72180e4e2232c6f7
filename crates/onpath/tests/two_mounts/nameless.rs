//! Files that are born without a name (O_TMPFILE), and names that change places, on two mounts and across deaths.

use crate::common::check::{content, done};
use crate::common::process::fork;
use crate::common::sys::{self, fd_path};
use crate::common::wait_until;
use crate::two_mounts::Pair;
use libc::{AT_SYMLINK_FOLLOW, O_RDWR, O_TMPFILE, RENAME_EXCHANGE};
use std::os::fd::OwnedFd;
use std::path::Path;

fn nameless(dir: &Path, bytes: &str) -> OwnedFd {
    let fd = done("open", sys::open(dir, O_TMPFILE | O_RDWR, 0o600));
    done("pwrite", sys::pwrite(&fd, bytes, 0));
    fd
}

fn name(fd: &OwnedFd, path: &Path) {
    done("linkat", sys::linkat(fd_path(fd), path, AT_SYMLINK_FOLLOW));
}

/// Inodes in use.
fn inodes(top: &Path) -> u64 {
    let stat = done("statvfs", sys::statvfs(top));
    stat.f_files - stat.f_ffree
}

/// A name given on one mount is seen on the other at once; so is an exchange.
#[test]
fn named_and_exchanged() {
    let Some(pair) = Pair::new("names given on the other mount", &[]) else { return };
    for i in 0..20 {
        let [here, there] = pair.both(&format!("f{i}"));
        let [first, _] = pair.both("first");
        let fd = nameless(pair.mounts[1].path(), &format!("{i}"));
        assert_eq!(sys::stat(&here), Err(libc::ENOENT));
        name(&fd, &there);
        assert_eq!(content(&here), format!("{i}").as_bytes());
        if i > 0 {
            let before = content(&first);
            done("exchange", sys::renameat2(&there, pair.both("first")[1].clone(), RENAME_EXCHANGE));
            assert_eq!((content(&first), content(&here)), (format!("{i}").into_bytes(), before));
        } else {
            done("rename", sys::rename(&here, &first));
        }
        drop(fd);
    }
    pair.stop("after names on the other mount");
}

/// The server dies; the second mount goes on with its nameless files and gives them names afterwards.
#[test]
fn outlive_the_server() {
    let Some(mut pair) = Pair::new("nameless files outlive the server", &[]) else { return };
    let top = pair.mounts[1].path().to_path_buf();
    let fds: Vec<_> = (0..8).map(|i| nameless(&top, &format!("file {i}"))).collect();
    let never = done("open", sys::open(&top, O_TMPFILE | O_RDWR | libc::O_EXCL, 0o600));
    pair.site.kill_server(&mut pair.mounts[0]);
    pair.mounts[0] = pair.site.dev(&[]);
    for (i, fd) in fds.iter().enumerate() {
        let [here, there] = pair.both(&format!("f{i}"));
        assert_eq!(done("fstat", sys::fstat(fd)).nlink, 0);
        name(fd, &there);
        assert_eq!(content(&here), format!("file {i}").as_bytes());
    }
    let [_, there] = pair.both("never");
    assert_eq!(sys::linkat(fd_path(&never), &there, AT_SYMLINK_FOLLOW), Err(libc::ENOENT));
    drop((fds, never));
    pair.stop("after nameless files");
}

/// Nothing is left of them when the last descriptor is closed, when their process is killed, nor when their mount is.
#[test]
fn leave_nothing_behind() {
    let Some(mut pair) = Pair::new("nameless files leave nothing", &[]) else { return };
    let top = pair.mounts[0].path().to_path_buf();
    let before = inodes(&top);
    let fds: Vec<_> = (0..50).map(|_| nameless(&top, "closed")).collect();
    assert_eq!(inodes(&top), before + 50);
    drop(fds);
    wait_until("closed files are gone", || inodes(&top) == before);
    let child = fork(|| {
        let fds: Vec<_> = (0..50).map(|_| nameless(&top, "killed")).collect();
        loop {
            std::thread::park();
            assert_eq!(fds.len(), 50);
        }
    });
    wait_until("the child has them", || inodes(&top) == before + 50);
    drop(child);
    wait_until("files of a killed process are gone", || inodes(&top) == before);
    let second = pair.mounts[1].path().to_path_buf();
    let fds: Vec<_> = (0..50).map(|_| nameless(&second, "of a dead mount")).collect();
    assert_eq!(inodes(&top), before + 50);
    pair.mounts[1].kill();
    wait_until("files of a killed mount are gone", || inodes(&top) == before);
    drop(fds);
    pair.mounts[1] = pair.site.mount(1, &[]);
    pair.stop("after nameless files that are gone");
}
