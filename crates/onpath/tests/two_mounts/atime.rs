//! Mount options about times of access: each mount goes by its own.

use crate::common::check::{Dir, done, tick};
use crate::common::sys::{self, Time};
use crate::common::wait_until;
use crate::two_mounts::Pair;
use std::path::Path;
use std::process::Command;

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

fn remount(path: &Path, options: &str) {
    let status = Command::new("mount").args(["-i", "-o", &format!("remount,{options}")]).arg(path).status();
    assert!(status.expect("mount runs").success(), "remount,{options}");
}

/// A mount that becomes read-only writes nothing by itself any more, whatever is read and however long it has been open; by whatever other
/// options it goes later, reading moves what they say.
#[test]
fn remounted() {
    let Some(pair) = Pair::with_options("times of access of a remounted mount", "strictatime") else { return };
    let [_, second] = &pair.mounts;
    let d = Dir::at(second.path().to_owned());
    let (file, subdir) = (d.file_with("file", b"bytes"), d.dir("dir"));
    subdir.file("entry");
    let all = [file.clone(), subdir.path().to_owned(), d.symlink("nowhere", "link")];
    let open = done("open", sys::open(&file, libc::O_RDONLY, 0));
    let moved = || {
        tick();
        let before = all.each_ref().map(|path| atime(path));
        all.iter().for_each(|path| read(path));
        done("read", sys::pread(&open, 10, 0));
        let after = all.each_ref().map(|path| atime(path));
        [0, 1, 2].map(|n| after[n] > before[n])
    };
    assert_eq!(moved(), [true; 3], "file, directory, symlink");
    for (options, expected) in [
        ("ro", [false; 3]),
        ("rw", [true; 3]),
        ("noatime", [false; 3]),
        ("strictatime,nodiratime", [true, false, true]),
        ("ro,strictatime", [false; 3]),
    ] {
        remount(second.path(), options);
        let written = || pair.site.status().sum("journal", &["appended_lsn"]);
        wait_until("the mount goes by its new options", || moved() == expected);
        for _ in 0..5 {
            assert_eq!(moved(), expected, "remount,{options}: file, directory, symlink");
        }
        if expected == [false; 3] {
            // What was changed before may still be on its way to its directory.
            wait_until("reading writes nothing", || {
                let before = written();
                moved() == expected && written() == before
            });
        }
    }
    drop(open);
    pair.stop("remounted");
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
