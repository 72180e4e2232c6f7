//! Mount options about times of access: each mount goes by its own.

use crate::common::check::{Dir, done, tick};
use crate::common::sys::{self, Time};
use crate::two_mounts::Pair;
use std::path::Path;

/// Reads the file, the directory or the symlink through this mount.
fn read(path: &Path) {
    let stat = done("lstat", sys::lstat(path));
    match stat.kind() {
        libc::S_IFDIR => drop(done("readdir", sys::names(path))),
        libc::S_IFLNK => drop(done("readlink", sys::readlink(path))),
        _ => drop(done("read", sys::open(path, libc::O_RDONLY, 0).and_then(|fd| sys::pread(fd, 10, 0)))),
    }
}

fn atime(path: &Path) -> Time {
    done("lstat", sys::lstat(path)).atime
}

/// Which of two reads after a change move the time of access, of a file, a directory and a symlink.
fn moved_by(dir: &Path) -> [[bool; 2]; 3] {
    let d = Dir::at(dir.to_owned());
    let (file, subdir) = (d.file_with("file", b"bytes"), d.dir("dir"));
    subdir.file("entry");
    let link = d.symlink("nowhere", "link");
    [file, subdir.path().to_owned(), link].map(|path| {
        [(); 2].map(|()| {
            tick();
            let before = atime(&path);
            read(&path);
            let after = atime(&path);
            assert!(after >= before, "{} went back", path.display());
            after > before
        })
    })
}

#[test]
fn options() {
    let (never, once, always) = ([false; 2], [true, false], [true; 2]);
    for (option, expected) in [
        ("relatime", [once; 3]),
        ("noatime", [never; 3]),
        ("nodiratime", [once, never, once]),
        ("strictatime", [always; 3]),
        ("strictatime,nodiratime", [always, never, always]),
    ] {
        let Some(pair) = Pair::with_options("times of access by mount options", option) else { return };
        let [_, second] = &pair.mounts;
        assert_eq!(moved_by(second.path()), expected, "{option}: file, directory, symlink");
        for name in ["file", "dir", "link"] {
            let both = pair.both(name).map(|path| atime(&path));
            assert_eq!(both[0], both[1], "{option}: {name} as both mounts tell it");
        }
        pair.stop(option);
    }
}
