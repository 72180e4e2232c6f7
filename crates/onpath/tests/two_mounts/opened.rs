//! Open files and directories while the other mount changes them: mappings, files without a name, removed directories.

use crate::common::check::{content, done, refused};
use crate::common::process::{End, code, fork, set_limit};
use crate::common::sys;
use crate::common::user::in_thread;
use crate::common::wait_until;
use crate::two_mounts::Pair;
use libc::{F_OFD_SETLK, F_OFD_SETLKW, F_UNLCK, F_WRLCK};
use libc::{MAP_SHARED, O_APPEND, O_CREAT, O_DIRECTORY, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY, PROT_READ, PROT_WRITE};
use std::os::fd::OwnedFd;

/// A mapping made after an open shows what the other mount wrote before it.
#[test]
fn mappings_show_remote_writes() {
    let Some(pair) = Pair::new("mmap across mounts", &[]) else { return };
    for round in 0..20_u8 {
        let [here, there] = if round % 2 == 0 {
            pair.both("f")
        } else {
            {
                let [a, b] = pair.both("f");
                [b, a]
            }
        };
        std::fs::write(&here, vec![round; 10_000]).expect("write");
        let fd = done("open", sys::open(&there, O_RDONLY, 0));
        let map = done("mmap", sys::mmap(&fd, 10_000, PROT_READ, MAP_SHARED));
        assert!([0, 4095, 4096, 9999].iter().all(|&at| map.get(at) == round), "round {round}");
    }
    pair.stop("after mmap");
}

/// What msync wrote back is what the other mount reads.
#[test]
fn mappings_are_written_back() {
    let Some(pair) = Pair::new("msync across mounts", &[]) else { return };
    let [here, there] = pair.both("f");
    std::fs::write(&here, vec![b'.'; 10_000]).expect("write");
    let fd = done("open", sys::open(&here, O_RDWR, 0));
    let map = done("mmap", sys::mmap(&fd, 10_000, PROT_READ | PROT_WRITE, MAP_SHARED));
    for round in 1..20_u8 {
        map.set(usize::from(round) * 500, round);
        done("msync", map.msync());
        assert_eq!(content(&there)[usize::from(round) * 500], round, "round {round}");
    }
    drop((map, fd));
    pair.stop("after msync");
}

/// A file that the other mount unlinked or replaced stays what it was for who has it open.
#[test]
fn files_without_a_name() {
    let Some(pair) = Pair::new("unlinked on the other mount", &[]) else { return };
    let [here, there] = pair.both("f");
    std::fs::write(&here, "first").expect("write");
    let fd = done("open", sys::open(&there, O_RDWR, 0));
    done("unlink", sys::unlink(&here));
    assert_eq!(sys::stat(&there), Err(libc::ENOENT));
    assert_eq!(done("fstat", sys::fstat(&fd)).nlink, 0);
    assert_eq!(done("pread", sys::pread(&fd, 100, 0)), b"first");
    done("pwrite", sys::pwrite(&fd, "SECOND and more", 0));
    done("ftruncate", sys::ftruncate(&fd, 6));
    assert_eq!(done("pread", sys::pread(&fd, 100, 0)), b"SECOND");
    std::fs::write(&here, "another file").expect("write");
    assert_eq!(done("pread", sys::pread(&fd, 100, 0)), b"SECOND", "a new file of that name is another one");
    let [replacing, _] = pair.both("replacing");
    std::fs::write(&replacing, "replacing").expect("write");
    let old = done("open", sys::open(&there, O_RDONLY, 0));
    done("rename", sys::rename(&replacing, &here));
    assert_eq!(content(&there), b"replacing");
    assert_eq!(done("pread", sys::pread(&old, 100, 0)), b"another file");
    assert_eq!(done("fstat", sys::fstat(&old)).nlink, 0);
    drop((fd, old));
    pair.stop("after files without a name");
}

/// O_TRUNC on one mount empties the file for a descriptor of the other; no old byte comes back when it grows again.
#[test]
fn truncated_by_the_other() {
    let Some(pair) = Pair::new("truncated on the other mount", &[]) else { return };
    let [here, there] = pair.both("f");
    std::fs::write(&there, vec![b'x'; 30_000]).expect("write");
    let fd = done("open", sys::open(&there, O_RDWR, 0));
    assert_eq!(done("pread", sys::pread(&fd, 30_000, 0)).len(), 30_000);
    drop(done("open", sys::open(&here, O_RDWR | O_TRUNC, 0)));
    assert_eq!(done("pread", sys::pread(&fd, 30_000, 0)), b"");
    done("pwrite", sys::pwrite(&fd, "end", 20_000));
    let mut expected = vec![0; 20_000];
    expected.extend(b"end");
    assert_eq!(content(&here), expected);
    drop(fd);
    pair.stop("after O_TRUNC");
}

/// A directory that the other mount removed is empty and takes no names.
#[test]
fn removed_directories() {
    let Some(pair) = Pair::new("removed on the other mount", &[]) else { return };
    let [here, there] = pair.both("d");
    done("mkdir", sys::mkdir(&here, 0o755));
    let dir = done("open", sys::open(&there, O_RDONLY | O_DIRECTORY, 0));
    done("rmdir", sys::rmdir(&here));
    assert_eq!(sys::stat(&there), Err(libc::ENOENT));
    assert_eq!(done("fstat", sys::fstat(&dir)).nlink, 0);
    assert_eq!(done("getdents", sys::entries(&dir)), []);
    assert_eq!(sys::openat(&dir, "f", O_RDWR | O_CREAT, 0o644).map(drop), Err(libc::ENOENT));
    assert_eq!(sys::mkdirat(&dir, "d", 0o755), Err(libc::ENOENT));
    drop(dir);
    pair.stop("after removed directories");
}

/// A working directory that the other mount has moved: the kernel tells its name, and "..", from its cache, which learns of the new place as soon
/// as somebody here looks at it.
#[test]
fn moved_working_directories() {
    let Some(pair) = Pair::new("working directories moved on the other mount", &[]) else { return };
    let [old_here, old] = pair.both("old");
    let [new_here, new] = pair.both("new");
    done("mkdir", sys::mkdir(&new_here, 0o755));
    done("mkdir", sys::mkdir(&old_here, 0o755));
    done("mkdir", sys::mkdir(old_here.join("sub"), 0o755));
    in_thread(|| {
        done("chdir", sys::chdir(old.join("sub")));
        done("rename", sys::rename(old_here.join("sub"), new_here.join("sub")));
        assert!(std::env::current_dir().is_ok_and(|dir| [old.join("sub"), new.join("sub")].contains(&dir)));
        done("create", sys::mkdir("by its old place", 0o755));
        done("stat of the new place", sys::stat(new.join("sub/by its old place")));
        assert_eq!(std::env::current_dir().expect("a name"), new.join("sub"));
        assert_eq!(done("stat", sys::stat("..")).ino, done("stat", sys::stat(&new)).ino);
        done("chdir", sys::chdir("/"));
    });
    pair.stop("after moved working directories");
}

/// One that it has removed is empty, and can be left. It can be listed only as long as somebody has it open, since no request tells of a
/// working directory.
#[test]
fn removed_working_directories() {
    let Some(pair) = Pair::new("working directories removed on the other mount", &[]) else { return };
    let [here, there] = pair.both("d");
    done("mkdir", sys::mkdir(&here, 0o755));
    in_thread(|| {
        done("chdir", sys::chdir(&there));
        let held = done("open", sys::open(".", O_RDONLY | O_DIRECTORY, 0));
        done("rmdir", sys::rmdir(&here));
        for _ in 0..2 {
            assert_eq!(done("list", sys::names(".")), [""; 0]);
            assert_eq!(done("stat", sys::stat(".")).nlink, 0);
        }
        assert_eq!(sys::mkdir("new", 0o755), Err(libc::ENOENT));
        assert_eq!(sys::stat("f"), Err(libc::ENOENT));
        drop(held);
        wait_until("nobody has it open", || sys::names(".") == Err(libc::ESTALE));
        done("chdir", sys::chdir(".."));
        assert_eq!(std::env::current_dir().expect("a name"), there.parent().expect("a mount"));
        done("chdir", sys::chdir("/"));
    });
    pair.stop("after removed working directories");
}

/// sendfile and mappings take the size of a file from the kernel, which asks for it when a file is opened by its name or looked at.
#[test]
fn sendfile_after_an_append() {
    let Some(pair) = Pair::new("sendfile after an append elsewhere", &[]) else { return };
    let [here, there] = pair.both("f");
    let sink = done("open", sys::open(pair.site.root().join("sink"), O_RDWR | O_CREAT, 0o644));
    let mut file = vec![b'.'; 4_096];
    std::fs::write(&here, &file).expect("write");
    let fd = done("open", sys::open(&there, O_RDONLY, 0));
    let asks: [(&str, &dyn Fn()); 3] = [
        ("open", &|| drop(done("open", sys::open(&there, O_RDONLY, 0)))),
        ("fstat", &|| _ = done("fstat", sys::fstat(&fd))),
        ("lseek", &|| _ = done("lseek", sys::lseek(&fd, 0, libc::SEEK_END))),
    ];
    for (name, ask) in asks {
        let before = file.len();
        file.resize(before + 4_096, b'x');
        let appending = done("open", sys::open(&here, O_WRONLY | O_APPEND, 0));
        assert_eq!(sys::write(&appending, &file[before..]), Ok(4_096));
        let unasked = done("sendfile", sys::sendfile(&sink, &fd, before as i64, 8_192));
        assert!(unasked == 0 || unasked == 4_096, "{name}: {unasked}");
        ask();
        assert_eq!(sys::sendfile(&sink, &fd, before as i64, 8_192), Ok(4_096), "{name}");
        let map = done("mmap", sys::mmap(&fd, before + 4_096, PROT_READ, MAP_SHARED));
        assert_eq!(map.get(before), b'x', "{name}");
    }
    drop(fd);
    pair.stop("after sendfile");
}

/// A client with 10,000 files open and locked: all count for the other mount, take the memory that docs/internals/bounds.md says, and go with it.
#[test]
fn ten_thousand_files_open_and_locked() {
    const FILES: usize = 10_000;
    let Some(pair) = Pair::new("10,000 files open and locked", &[]) else { return };
    let [here, there] = pair.both("d");
    done("mkdir", sys::mkdir(&here, 0o755));
    let [gate, _] = pair.both("gate");
    let gate_fd = done("open", sys::open(&gate, O_RDWR | O_CREAT, 0o644));
    done("lock", sys::lock(&gate_fd, F_OFD_SETLK, F_WRLCK, 0, 0));
    let table_bytes = || pair.site.status().sum("", &["table_bytes"]);
    let before = table_bytes();
    let child = fork(|| {
        set_limit(libc::RLIMIT_NOFILE, FILES as u64 + 100);
        let take = |n: usize| {
            let fd = sys::open(here.join(n.to_string()), O_RDWR | O_CREAT, 0o644)?;
            sys::lock(&fd, F_OFD_SETLK, F_WRLCK, 0, 1).map(|_| fd)
        };
        let held: sys::R<Vec<OwnedFd>> = (0..FILES).map(take).collect();
        code(held.and_then(|_held| sys::lock(done("open", sys::open(&gate, O_RDWR, 0)), F_OFD_SETLKW, F_WRLCK, 0, 0)))
    });
    child.wait_blocked_for_lock();
    let status = pair.site.status();
    assert!(status.sum("session", &["handles_open"]) >= FILES as u64);
    assert!(status.sum("shard", &["file_locks"]) >= FILES as u64);
    assert!(table_bytes() - before < 1_500 * FILES as u64, "{before} → {}", table_bytes());
    let theirs = |n: usize| {
        let fd = done("open", sys::open(there.join(n.to_string()), O_RDWR, 0));
        sys::lock(&fd, F_OFD_SETLK, F_WRLCK, 0, 1)
    };
    (0..FILES).step_by(100).for_each(|n| refused(n, theirs(n), &[libc::EAGAIN]));
    done("unlock", sys::lock(&gate_fd, F_OFD_SETLK, F_UNLCK, 0, 0));
    assert_eq!(child.wait(), End::Exit(0));
    // The kernel waits for nobody's close.
    (0..FILES).step_by(100).for_each(|n| wait_until("its lock is gone", || theirs(n).is_ok()));
    drop(gate_fd);
    pair.stop("after many files");
}
