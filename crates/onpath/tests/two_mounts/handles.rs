//! File handles, as name_to_handle_at(2) and file servers use them: good as long as the inode is there, whatever the kernel remembers.

use crate::common::check::{content, done};
use crate::common::sys::{self, FileHandle, handle_of, open_by_handle};
use crate::common::wait_until;
use crate::ok;
use crate::two_mounts::Pair;
use libc::{ESTALE, O_DIRECTORY, O_PATH, O_RDONLY, O_RDWR};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The kernel drops every name and inode that nobody uses.
fn forget() {
    std::fs::write("/proc/sys/vm/drop_caches", "2").expect("root may");
}

fn mount(path: &Path) -> OwnedFd {
    done("open of a mount", sys::open(path, O_RDONLY | O_DIRECTORY, 0))
}

fn bytes(file: &OwnedFd) -> Vec<u8> {
    done("pread", sys::pread(file, 100, 0))
}

fn name(file: &OwnedFd) -> PathBuf {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("readlink")
}

/// They name a file and a directory, by whichever mount, when the kernel has forgotten them and when the server was started again.
#[test]
fn outlive_caches_and_servers() {
    let Some(mut pair) = Pair::new("file handles", &[]) else { return };
    let [top, _] = pair.both("a");
    ok!(sys::mkdir(&top, 0o700));
    ok!(sys::mkdir(top.join("b"), 0o755));
    std::fs::write(top.join("b/f"), "by its handle").expect("write");
    let [dir, file] = ["b", "b/f"].map(|path| done(path, handle_of(top.join(path))));
    let look = |pair: &Pair, number: usize, dir: &FileHandle, file: &FileHandle, wanted: &str| {
        let path = pair.mounts[number].path();
        let mount = mount(path);
        forget();
        let opened = done("a file by its handle", open_by_handle(&mount, file, O_RDWR));
        assert_eq!(bytes(&opened), b"by its handle");
        let open = || done("a directory by its handle", open_by_handle(&mount, dir, O_RDONLY | O_DIRECTORY));
        // This kernel hears of no rename by the other mount: it shows the old name as long as it remembers that, and it need not
        // drop at once what was used a moment ago.
        wait_until("the directory has its present name", || {
            forget();
            name(&open()) == path.join(wanted)
        });
        let opened = open();
        assert_eq!(bytes(&done("open below it", sys::openat(&opened, "f", O_RDONLY, 0))), b"by its handle");
        assert_eq!(done("stat of ..", sys::stat(format!("/proc/self/fd/{}/..", opened.as_raw_fd()))).perm(), 0o700);
    };
    for number in [0, 1] {
        look(&pair, number, &dir, &file, "a/b");
    }
    ok!(sys::rename(top.join("b"), top.join("c")));
    for number in [0, 1] {
        look(&pair, number, &dir, &file, "a/c");
    }
    pair.site.kill_server(&mut pair.mounts[0]);
    pair.mounts[0] = pair.site.dev(&[]);
    for number in [0, 1] {
        look(&pair, number, &dir, &file, "a/c");
    }
    let root = mount(pair.mounts[0].path());
    let [top, there] = pair.both("a");
    ok!(sys::unlink(top.join("c/f")));
    ok!(sys::rmdir(there.join("c")));
    for handle in [&file, &dir] {
        // The last close is told a moment later. O_PATH opens nothing again.
        wait_until("what is gone has no handle", || {
            forget();
            open_by_handle(&root, handle, O_PATH).map(drop) == Err(ESTALE)
        });
    }
    drop(root);
    pair.stop("after handles");
}

/// A file without a name has a handle as long as somebody has it open.
#[test]
fn of_an_open_file_without_a_name() {
    let Some(pair) = Pair::new("handles of files without a name", &[]) else { return };
    let [here, there] = pair.both("f");
    std::fs::write(&here, "no name").expect("write");
    let handle = done("handle", handle_of(&here));
    let open = done("open", sys::open(&here, O_RDWR, 0));
    ok!(sys::unlink(&there));
    let root = mount(pair.mounts[1].path());
    forget();
    assert_eq!(bytes(&done("by its handle", open_by_handle(&root, &handle, O_RDONLY))), b"no name");
    std::fs::write(&here, "another").expect("write");
    assert_eq!(content(&there), b"another");
    drop((open, root));
    pair.stop("after handles of files without a name");
}
