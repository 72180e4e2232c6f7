//! getdents64(2) and what readdir, seekdir, telldir and rewinddir make of it.

use crate::posix::prelude::*;
use std::collections::BTreeSet;
use std::ffi::OsStr;

fn open_dir(d: &Dir) -> std::os::fd::OwnedFd {
    ok!(open(d.path(), O_RDONLY | O_DIRECTORY, 0))
}

/// An empty directory lists "." and ".." with the right inode numbers, also after moves.
#[test]
fn dots() {
    let d = area!();
    let sub = d.dir("a").dir("sub");
    d.dir("b");
    let check = |dir: &Path, parent: &Path| {
        let list = ok!(getdents(ok!(open(dir, O_RDONLY, 0)), 4096));
        let mut found: Vec<_> = list.iter().map(|e| (e.name.to_str().unwrap_or("?"), e.ino, e.kind)).collect();
        found.sort_unstable();
        assert_eq!(found, [(".", ok!(stat(dir)).ino, libc::DT_DIR), ("..", ok!(stat(parent)).ino, libc::DT_DIR)]);
    };
    check(sub.path(), &d.p("a"));
    ok!(rename(sub.path(), d.p("b/sub")));
    check(&d.p("b/sub"), &d.p("b"));
}

/// Each entry has its kind and the inode number that stat gives.
#[test]
fn kinds_and_numbers() {
    let d = area!();
    let wanted: BTreeSet<_> = d
        .one_of_each()
        .iter()
        .map(|(kind, path)| {
            let s = ok!(lstat(path));
            (OsString::from(kind), s.ino, (s.kind() >> 12) as u8)
        })
        .collect();
    let found: BTreeSet<_> = ok!(entries(open_dir(&d))).into_iter().map(|e| (e.name, e.ino, e.kind)).collect();
    assert_eq!(found, wanted);
}

/// Every entry is listed exactly once, whatever the size of the buffer.
#[test]
fn exactly_once() {
    let d = area!();
    let wanted: BTreeSet<OsString> =
        (0..1500).map(|i| OsString::from(format!("{i}-{}", "x".repeat(i % 200)))).collect();
    for name in &wanted {
        ok!(mknod(d.p(name), S_IFREG | 0o644, 0));
    }
    for bytes in [280, 512, 1000, 4096, 32 << 10, 1 << 20] {
        let fd = open_dir(&d);
        let mut found = Vec::new();
        loop {
            let page = ok!(getdents(&fd, bytes));
            if page.is_empty() {
                break;
            }
            found.extend(page.into_iter().map(|e| e.name));
        }
        assert_eq!(found.len(), 1502, "buffer of {bytes}");
        assert!(found.iter().filter(|name| *name != "." && *name != "..").cloned().collect::<BTreeSet<_>>() == wanted);
        assert_eq!(ok!(getdents(&fd, bytes)).len(), 0);
    }
}

/// A buffer too small for one entry is EINVAL.
#[test]
fn small_buffer() {
    let d = area!();
    d.file("n".repeat(200));
    expect_errno!(getdents(open_dir(&d), 16), EINVAL);
}

/// Going back to a position of an entry continues right behind it, in any order of positions; 0 is the start.
#[test]
fn positions() {
    let d = area!();
    for i in 0..300 {
        d.file(format!("f{i}"));
    }
    let fd = open_dir(&d);
    let mut all = Vec::new();
    loop {
        let page = ok!(getdents(&fd, 2048));
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    assert_eq!(all.iter().map(|e| e.next).collect::<BTreeSet<_>>().len(), all.len(), "positions differ");
    for i in [0, 1, 2, 150, 7, 299, 300, 43, 100] {
        assert_eq!(ok!(lseek(&fd, all[i].next, libc::SEEK_SET)), all[i].next);
        assert_eq!(ok!(lseek(&fd, 0, libc::SEEK_CUR)), all[i].next);
        let page = ok!(getdents(&fd, 2048));
        assert!(!page.is_empty() && page == all[i + 1..i + 1 + page.len()], "behind entry {i}");
    }
    ok!(lseek(&fd, all[301].next, libc::SEEK_SET));
    assert_eq!(ok!(getdents(&fd, 2048)).len(), 0);
    ok!(lseek(&fd, 0, libc::SEEK_SET));
    assert_eq!(ok!(getdents(&fd, 2048))[0], all[0]);
    expect_errno!(lseek(&fd, -1, libc::SEEK_SET), EINVAL);
}

/// A rewound directory shows what was made and not what was removed meanwhile.
#[test]
fn rewound() {
    let d = area!();
    let fd = open_dir(&d);
    for i in 0..20 {
        d.file(format!("f{i}"));
        if i >= 5 {
            ok!(unlink(d.p(format!("f{}", i - 5))));
        }
        ok!(lseek(&fd, 0, libc::SEEK_SET));
        let found: BTreeSet<OsString> = ok!(entries(&fd)).into_iter().map(|e| e.name).collect();
        let wanted: BTreeSet<OsString> =
            ((i + 1_usize).saturating_sub(5)..=i).map(|j| OsString::from(format!("f{j}"))).collect();
        assert_eq!(found, wanted);
    }
}

/// Entries present during the whole scan are listed exactly once while others come and go.
#[test]
fn stable_entries_in_a_changing_directory() {
    let d = area!();
    for i in 0..400 {
        d.file(format!("stay{i}"));
        d.file(format!("go{i}"));
    }
    let fd = open_dir(&d);
    let mut found = Vec::new();
    for round in 0.. {
        let page = ok!(getdents(&fd, 600));
        if page.is_empty() {
            break;
        }
        found.extend(page.into_iter().map(|e| e.name).filter(|name| name.to_string_lossy().starts_with("stay")));
        let _ = unlink(d.p(format!("go{}", (round * 7) % 400)));
        // Bounded: a local file system may list new entries as long as they come.
        if round < 200 {
            d.file(format!("come{round}"));
            ok!(rename(d.p(format!("come{round}")), d.p(format!("came{round}"))));
        }
    }
    assert_eq!(found.len(), 400);
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>().len(), 400);
}

/// Removing each entry as it is listed removes all, in one scan.
#[test]
fn removal_while_scanning() {
    let d = area!();
    for i in 0..1000 {
        d.file(format!("f{i}"));
    }
    let fd = open_dir(&d);
    loop {
        let page = ok!(getdents(&fd, 1024));
        if page.is_empty() {
            break;
        }
        for e in page.iter().filter(|e| e.kind == libc::DT_REG) {
            ok!(unlinkat(&fd, &e.name, 0));
        }
    }
    assert_eq!(ok!(names(d.path())).len(), 0);
}

/// A change is in the very next listing by a new descriptor.
#[test]
fn seen_at_once() {
    let d = area!();
    for i in 0..50 {
        let name = OsString::from(format!("f{i}"));
        d.file(&name);
        assert!(ok!(names(d.path())).contains(&name));
        ok!(rename(d.p(&name), d.p("moved")));
        assert_eq!(ok!(names(d.path())), ["moved"]);
        ok!(unlink(d.p("moved")));
        assert!(ok!(names(d.path())).is_empty());
    }
}

/// Two descriptors of one directory have positions of their own, a dup shares it.
#[test]
fn positions_of_descriptors() {
    let d = area!();
    for i in 0..100 {
        d.file(format!("f{i}"));
    }
    let (a, b) = (open_dir(&d), open_dir(&d));
    let first = ok!(getdents(&a, 512));
    assert_eq!(ok!(getdents(&b, 512)), first);
    let second = ok!(getdents(ok!(dup(&a)), 512));
    assert_eq!(ok!(getdents(&b, 512)), second);
    assert_ne!(ok!(getdents(&a, 512)), second);
}

/// Listing needs a descriptor of a directory (ENOTDIR, EBADF), opened with read permission.
#[test]
fn errors() {
    let d = area!();
    expect_errno!(getdents(ok!(open(d.file("f"), O_RDONLY, 0)), 4096), ENOTDIR);
    expect_errno!(getdents(ok!(open(d.path(), O_PATH, 0)), 4096), EBADF);
    expect_errno!(getdents(bad_fd(), 4096), EBADF);
    let sub = d.dir_of("sub", 0o311, ALICE.uid, ALICE.gid);
    ALICE.run(|| expect_errno!(open(sub.path(), O_RDONLY, 0), EACCES));
}

/// Any bytes but "/" and NUL make a name, listed as they were given.
#[test]
fn bytes_of_names() {
    let d = area!();
    use std::os::unix::ffi::OsStrExt;
    let mut wanted = BTreeSet::new();
    for byte in (1..=255_u8).filter(|&b| b != b'/') {
        let name = [b'n', byte, byte];
        drop(d.file(OsStr::from_bytes(&name)));
        wanted.insert(OsString::from_vec(name.to_vec()));
    }
    assert_eq!(ok!(names(d.path())).into_iter().collect::<BTreeSet<_>>(), wanted);
    for name in wanted {
        ok!(unlink(d.p(name)));
    }
}
