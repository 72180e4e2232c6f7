//! Extended attributes: setxattr(2), getxattr(2), listxattr(2), removexattr(2), xattr(7).

use crate::posix::prelude::*;
use libc::{XATTR_CREATE, XATTR_REPLACE};

const CAPABILITY: &str = "security.capability";
/// What the entries of a directory amount to.
const SUM: &str = "onpath.dir";

/// cap_net_raw+ep, as setcap(8) writes it.
fn capability() -> Vec<u8> {
    let words: [u32; 5] = [0x0200_0001, 1 << 13, 0, 0, 0];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Whether the file system of the tests has user attributes (tmpfs has them since Linux 6.6).
fn lacking(d: &Dir) -> bool {
    let f = d.file("probe");
    let lacking = setxattr(&f, "user.probe", "").is_err();
    ok!(unlink(&f));
    if lacking {
        skipped("posix::xattr", "the file system of the tests has no user attributes");
    }
    lacking
}

macro_rules! xattr_area {
    () => {{
        let d = area!();
        if lacking(&d) {
            return;
        }
        d
    }};
}

/// What is set is found, listed, replaced and removed, by path and by descriptor, on files and directories; empty values too.
#[test]
fn set_get_list_remove() {
    let d = xattr_area!();
    for path in [d.file("f"), d.dir("d").path().to_path_buf()] {
        expect_errno!(getxattr(&path, "user.a"), ENODATA);
        assert_eq!(ok!(listxattr(&path)), [""; 0]);
        ok!(setxattr(&path, "user.a", "one"));
        ok!(setxattr(&path, "user.b", [0, 1, 0xff]));
        ok!(setxattr(&path, "user.empty", ""));
        assert_eq!(ok!(getxattr(&path, "user.a")), b"one");
        assert_eq!(ok!(getxattr(&path, "user.b")), [0, 1, 0xff]);
        assert_eq!(ok!(getxattr(&path, "user.empty")), b"");
        assert_eq!(ok!(listxattr(&path)), ["user.a", "user.b", "user.empty"]);
        let fd = ok!(open(&path, O_RDONLY, 0));
        ok!(fsetxattr(&fd, "user.a", "another, longer one"));
        assert_eq!(ok!(fgetxattr(&fd, "user.a")), b"another, longer one");
        ok!(fremovexattr(&fd, "user.b"));
        ok!(removexattr(&path, "user.empty"));
        assert_eq!(ok!(listxattr(&path)), ["user.a"]);
        expect_errno!(removexattr(&path, "user.b"), ENODATA);
        ok!(removexattr(&path, "user.a"));
        assert_eq!(ok!(listxattr(&path)), [""; 0]);
    }
}

/// XATTR_CREATE refuses an attribute that exists (EEXIST), XATTR_REPLACE one that does not (ENODATA); other flags are EINVAL.
#[test]
fn create_and_replace() {
    let d = xattr_area!();
    let f = d.file("f");
    expect_errno!(setxattr_as(&f, "user.a", "1", XATTR_REPLACE), ENODATA);
    ok!(setxattr_as(&f, "user.a", "1", XATTR_CREATE));
    expect_errno!(setxattr_as(&f, "user.a", "2", XATTR_CREATE), EEXIST);
    assert_eq!(ok!(getxattr(&f, "user.a")), b"1");
    ok!(setxattr_as(&f, "user.a", "3", XATTR_REPLACE));
    assert_eq!(ok!(getxattr(&f, "user.a")), b"3");
    expect_errno!(setxattr_as(&f, "user.a", "4", 4), EINVAL);
}

/// A buffer of no bytes asks for the length; one that is too small is ERANGE.
#[test]
fn buffers() {
    let d = xattr_area!();
    let f = d.file("f");
    ok!(setxattr(&f, "user.a", "12345"));
    assert_eq!(ok!(getxattr_into(&f, "user.a", 0)).0, 5);
    assert_eq!(ok!(getxattr_into(&f, "user.a", 5)), (5, b"12345".to_vec()));
    expect_errno!(getxattr_into(&f, "user.a", 4), ERANGE);
    assert_eq!(ok!(listxattr_into(&f, 0)).0, 7);
    assert_eq!(ok!(listxattr_into(&f, 7)), (7, b"user.a\0".to_vec()));
    expect_errno!(listxattr_into(&f, 6), ERANGE);
}

/// Names have 1 to 255 bytes with their namespace (ERANGE), of which only the known ones exist (EOPNOTSUPP) and need a name behind
/// them (EINVAL).
#[test]
fn names() {
    let d = xattr_area!();
    let f = d.file("f");
    let long = |bytes: usize| format!("user.{}", "n".repeat(bytes - 5));
    ok!(setxattr(&f, long(255), "1"));
    assert_eq!(ok!(getxattr(&f, long(255))), b"1");
    expect_errno!(setxattr(&f, long(256), "1"), ERANGE);
    expect_errno!(setxattr(&f, "", "1"), ERANGE);
    expect_errno!(getxattr(&f, ""), ERANGE);
    expect_errno!(removexattr(&f, ""), ERANGE);
    for name in ["nowhere.a", "user", "a", "system.nothing", ".a"] {
        expect_errno!(setxattr(&f, name, "1"), EOPNOTSUPP);
        expect_errno!(getxattr(&f, name), EOPNOTSUPP);
        expect_errno!(removexattr(&f, name), EOPNOTSUPP);
    }
    expect_errno!(setxattr(&f, "user.", "1"), EINVAL);
    expect_errno!(setxattr(&f, "trusted.", "1"), EINVAL);
    let bytes = b"user.\xff\xfe\x01";
    ok!(setxattr(&f, bytes, "any bytes"));
    assert_eq!(ok!(getxattr(&f, bytes)), b"any bytes");
}

/// A value has up to 64 KiB (E2BIG); what all of an inode may have is bounded too (ENOSPC), and nothing is lost when it is reached.
#[test]
fn sizes() {
    let d = xattr_area!();
    let f = d.file("f");
    expect_errno!(setxattr(&f, "user.a", vec![1; (64 << 10) + 1]), E2BIG);
    if !is_fuse(&d) {
        return; // local file systems have bounds of their own
    }
    ok!(setxattr(&f, "user.a", vec![1; 64 << 10]));
    assert_eq!(ok!(getxattr(&f, "user.a")), vec![1; 64 << 10]);
    for name in ["user.b", "user.c"] {
        ok!(setxattr(&f, name, vec![2; 64 << 10]));
    }
    expect_errno!(setxattr(&f, "user.d", vec![3; 64 << 10]), ENOSPC);
    ok!(setxattr(&f, "user.a", vec![4; 64 << 10]));
    assert_eq!(ok!(listxattr(&f)), ["user.a", "user.b", "user.c"]);
    let many = d.file("many");
    let name = |i: u32| format!("user.{i:0250}");
    for i in 0..256 {
        ok!(setxattr(&many, name(i), ""));
    }
    expect_errno!(setxattr(&many, name(256), ""), ENOSPC);
    assert_eq!(ok!(listxattr_into(&many, 0)).0, 64 << 10);
    assert_eq!(ok!(listxattr(&many)).len(), 256);
}

/// Setting and removing move ctime alone, also of a directory; reading moves nothing. Links share attributes.
#[test]
fn times() {
    let d = xattr_area!();
    let (f, dir) = (d.file("f"), d.dir("d").path().to_path_buf());
    for path in [&f, &dir] {
        moves("setxattr", &[(path, "c")], || ok!(setxattr(path, "user.a", "1")));
        moves("setxattr again", &[(path, "c")], || ok!(setxattr(path, "user.a", "2")));
        moves("getxattr", &[(path, "")], || ok!(getxattr(path, "user.a")));
        moves("listxattr", &[(path, "")], || ok!(listxattr(path)));
        moves("a failed one", &[(path, "")], || expect_errno!(removexattr(path, "user.b"), ENODATA));
        moves("removexattr", &[(path, "c")], || ok!(removexattr(path, "user.a")));
    }
    ok!(setxattr(&f, "user.a", "1"));
    ok!(link(&f, d.p("l")));
    ok!(setxattr(d.p("l"), "user.a", "2"));
    assert_eq!(ok!(getxattr(&f, "user.a")), b"2");
    ok!(rename(&f, d.p("g")));
    assert_eq!(ok!(getxattr(d.p("g"), "user.a")), b"2");
}

/// Attributes die with their inode: a new file of the same name has none. An open file without a name keeps them.
#[test]
fn removal() {
    let d = xattr_area!();
    let f = d.file("f");
    ok!(setxattr(&f, "user.a", "1"));
    let fd = ok!(open(&f, O_RDWR, 0));
    ok!(unlink(&f));
    assert_eq!(ok!(fgetxattr(&fd, "user.a")), b"1");
    ok!(fsetxattr(&fd, "user.a", "2"));
    assert_eq!(ok!(fgetxattr(&fd, "user.a")), b"2");
    d.file("f");
    assert_eq!(ok!(listxattr(&f)), [""; 0]);
    expect_errno!(getxattr(d.p("nothing"), "user.a"), ENOENT);
    expect_errno!(setxattr(d.p("nothing"), "user.a", "1"), ENOENT);
}

/// user.* is for regular files and directories: on others it cannot be set (EPERM) and is not there (ENODATA); not on symlinks
/// themselves either.
#[test]
fn user_attributes_of_other_kinds() {
    let d = xattr_area!();
    for (kind, path) in d.one_of_each() {
        if matches!(kind, "file" | "dir") {
            continue;
        }
        let what = |call: &str| format!("{call} of a {kind}");
        refused(what("set"), lsetxattr(&path, "user.a", "1"), &[libc::EPERM]);
        refused(what("get"), lgetxattr(&path, "user.a"), &[libc::ENODATA]);
        refused(what("remove"), lremovexattr(&path, "user.a"), &[libc::EPERM]);
    }
    let l = d.symlink("file", "l");
    ok!(setxattr(&l, "user.a", "through the link"));
    assert_eq!(ok!(getxattr(d.p("file"), "user.a")), b"through the link");
}

/// trusted.* and security.* are for every kind of object, symlinks too.
#[test]
fn attributes_of_every_kind() {
    let d = xattr_area!();
    for (kind, path) in d.one_of_each() {
        for name in ["trusted.a", "security.a"] {
            done(kind, lsetxattr(&path, name, kind));
            assert_eq!(ok!(lgetxattr(&path, name)), kind.as_bytes(), "{kind}");
        }
        done(kind, lremovexattr(&path, "trusted.a"));
        refused(kind, lgetxattr(&path, "trusted.a"), &[libc::ENODATA]);
        assert_eq!(ok!(lgetxattr(&path, "security.a")), kind.as_bytes(), "{kind}");
    }
}

/// trusted.* is root's: others neither see, list nor set it. security.* everybody may read, root sets it.
#[test]
fn namespaces_of_root() {
    let d = xattr_area!();
    let f = d.file_of("f", 0o666, ALICE.uid, TEAM);
    for name in ["trusted.a", "security.a", "user.a"] {
        ok!(setxattr(&f, name, "root's"));
    }
    assert_eq!(ok!(listxattr(&f)), ["security.a", "trusted.a", "user.a"]);
    for user in [ALICE, BOB] {
        user.run(|| {
            expect_errno!(getxattr(&f, "trusted.a"), ENODATA);
            expect_errno!(setxattr(&f, "trusted.a", "mine"), EPERM);
            expect_errno!(removexattr(&f, "trusted.a"), EPERM);
            assert_eq!(ok!(getxattr(&f, "security.a")), b"root's");
            expect_errno!(setxattr(&f, "security.a", "mine"), EPERM);
            expect_errno!(removexattr(&f, "security.a"), EPERM);
            expect_errno!(setxattr(&f, CAPABILITY, capability()), EPERM);
            assert_eq!(ok!(listxattr(&f)), ["security.a", "user.a"]);
        });
    }
}

/// user.* is read by whoever may read the file, and set and removed by whoever may write it (EACCES); listing needs nothing.
#[test]
fn permissions() {
    let d = xattr_area!();
    for class in CLASSES {
        for (bits, mode) in class.modes() {
            let f = d.file_of("f", 0o644, 0, 0);
            ok!(setxattr(&f, "user.a", "1"));
            ok!(chown(&f, class.uid, class.gid));
            ok!(chmod(&f, mode));
            class.user.run(|| {
                let what = |call: &str| format!("{call} by {} of {mode:o}", class.name);
                allowed_or(what("get"), bits & 4 != 0, getxattr(&f, "user.a"), libc::EACCES);
                allowed_or(what("set"), bits & 2 != 0, setxattr(&f, "user.b", "1"), libc::EACCES);
                allowed_or(what("remove"), bits & 2 != 0, removexattr(&f, "user.a"), libc::EACCES);
                assert!(ok!(listxattr(&f)).len() == 1, "{}", what("list"));
            });
            ok!(unlink(&f));
        }
    }
}

/// In a sticky directory that everybody may write, only its owner sets attributes of the directory itself (EPERM).
#[test]
fn sticky_directories() {
    let d = xattr_area!();
    let dir = d.dir_of("sticky", 0o1777, ALICE.uid, TEAM).path().to_path_buf();
    ALICE.run(|| ok!(setxattr(&dir, "user.a", "mine")));
    BOB.run(|| {
        assert_eq!(ok!(getxattr(&dir, "user.a")), b"mine");
        expect_errno!(setxattr(&dir, "user.b", "1"), EPERM);
        expect_errno!(removexattr(&dir, "user.a"), EPERM);
    });
    ok!(setxattr(&dir, "user.b", "root's"));
    ok!(chmod(&dir, 0o777));
    BOB.run(|| ok!(setxattr(&dir, "user.b", "everybody's")));
}

/// A search permission that is missing on the way hides everything (EACCES).
#[test]
fn on_the_way() {
    let d = xattr_area!();
    let closed = d.dir_of("closed", 0o700, 0, 0);
    let f = closed.file_of("f", 0o666, BOB.uid, TEAM);
    ok!(setxattr(&f, "user.a", "1"));
    BOB.run(|| {
        expect_errno!(getxattr(&f, "user.a"), EACCES);
        expect_errno!(setxattr(&f, "user.a", "2"), EACCES);
        expect_errno!(removexattr(&f, "user.a"), EACCES);
        expect_errno!(listxattr(&f), EACCES);
    });
}

/// A write, a truncate and a chown take a file's capabilities, whoever does it; a chmod and a read do not.
#[test]
fn capabilities() {
    let d = xattr_area!();
    let with = |change: &dyn Fn(&Path)| {
        let f = d.file_with("f", b"12345");
        ok!(chmod(&f, 0o777));
        ok!(setxattr(&f, CAPABILITY, capability()));
        ok!(setxattr(&f, "user.a", "1"));
        change(&f);
        let left = ok!(listxattr(&f));
        ok!(unlink(&f));
        assert!(left.contains(&"user.a".to_string()), "{left:?}");
        left.contains(&CAPABILITY.to_string())
    };
    assert!(with(&|f| _ = content(f)));
    assert!(with(&|f| ok!(chmod(f, 0o700))));
    for user in [ROOT, BOB] {
        let as_user = |job: &(dyn Fn(&Path) + Sync)| with(&|f: &Path| user.run(|| job(f)));
        assert!(!as_user(&|f| _ = ok!(write(ok!(open(f, O_WRONLY, 0)), "x"))), "write by {user:?}");
        assert!(!as_user(&|f| ok!(truncate(f, 2))), "truncate by {user:?}");
        assert!(!as_user(&|f| _ = ok!(open(f, O_WRONLY | O_TRUNC, 0))), "O_TRUNC by {user:?}");
    }
    assert!(!with(&|f| ok!(chown(f, BOB.uid, TEAM))));
    let f = d.file_of("own", 0o444, ALICE.uid, ALICE.gid);
    ok!(setxattr(&f, CAPABILITY, capability()));
    ALICE_IN_TEAM.run(|| ok!(chown(&f, KEEP, TEAM)));
    expect_errno!(getxattr(&f, CAPABILITY), ENODATA);
}

/// Strangers may neither change its owner nor take its capabilities, which the kernel tries first where it leaves permissions to the mount.
#[test]
fn capabilities_of_others() {
    let d = xattr_area!();
    let f = d.file_of("f", 0o644, ALICE.uid, ALICE.gid);
    ok!(setxattr(&f, CAPABILITY, capability()));
    let errno = if is_left_to_server(&d) { libc::EACCES } else { libc::EPERM };
    refused("chown", BOB.run(|| chown(&f, BOB.uid, KEEP)), &[errno]);
    expect_errno!(BOB.run(|| chmod(&f, 0o777)), EPERM);
    ok!(getxattr(&f, CAPABILITY));
}

/// Who has a file open for writing may write it although it has capabilities and its mode has changed since.
#[test]
fn a_write_after_a_chmod_takes_capabilities() {
    let d = xattr_area!();
    let f = d.file_of("f", 0o666, 0, 0);
    BOB.run(|| {
        let fd = ok!(open(&f, O_WRONLY, 0));
        ROOT.run(|| {
            ok!(chmod(&f, 0o755));
            ok!(setxattr(&f, CAPABILITY, capability()));
        });
        assert_eq!(ok!(write(&fd, "x")), 1);
    });
    expect_errno!(getxattr(&f, CAPABILITY), ENODATA);
    assert_eq!(content(&f), b"x");
}

/// A new file can be written at once, and shows what is set while it is open.
#[test]
fn of_an_open_new_file() {
    let d = xattr_area!();
    let f = d.p("f");
    let fd = ok!(open(&f, O_RDWR | O_CREAT | O_EXCL, 0o644));
    assert_eq!(ok!(write(&fd, "1")), 1);
    ok!(setxattr(&f, CAPABILITY, capability()));
    assert_eq!(ok!(fgetxattr(&fd, CAPABILITY)).len(), 20);
    assert_eq!(ok!(write(&fd, "2")), 1);
    expect_errno!(fgetxattr(&fd, CAPABILITY), ENODATA);
    assert_eq!(content(&f), b"12");
}

/// Descriptors of O_PATH do not reach attributes (EBADF); read-only ones set them where the file's permissions allow it.
#[test]
fn by_descriptor() {
    let d = xattr_area!();
    let f = d.file_of("f", 0o444, ALICE.uid, TEAM);
    let path = ok!(open(&f, O_PATH, 0));
    expect_errno!(fsetxattr(&path, "user.a", "1"), EBADF);
    expect_errno!(fgetxattr(&path, "user.a"), EBADF);
    ALICE.run(|| expect_errno!(fsetxattr(ok!(open(&f, O_RDONLY, 0)), "user.a", "1"), EACCES));
    ok!(chmod(&f, 0o644));
    ALICE.run(|| ok!(fsetxattr(ok!(open(&f, O_RDONLY, 0)), "user.a", "1")));
    expect_errno!(fgetxattr(bad_fd(), "user.a"), EBADF);
}

/// `onpath.dir` tells what the entries of a directory amount to; nobody sets, removes or lists it, asking moves no time.
#[test]
fn sums_of_directories() {
    let d = area!();
    if !is_fuse(&d) {
        return; // no other file system has them
    }
    let value = |dir: &Dir| String::from_utf8(ok!(getxattr(dir.path(), SUM))).expect("text");
    let sub = d.dir("sub");
    let nothing = "entries 0\nfiles 0\ndirectories 0\nothers 0\nbytes 0\nallocated 0\nlinked 0\n";
    assert_eq!(value(&sub), nothing);
    assert_eq!(ok!(getxattr_into(sub.path(), SUM, 0)).0, nothing.len());
    expect_errno!(getxattr_into(sub.path(), SUM, nothing.len() - 1), ERANGE);
    sub.one_of_each();
    sub.file_with("large", &[1; 10_000]);
    let sparse = ok!(open(sub.p("sparse"), O_WRONLY | O_CREAT, 0o644));
    ok!(ftruncate(&sparse, 1 << 30));
    let blocks = |sum: i64, name| sum + ok!(lstat(sub.p(name))).blocks;
    let allocated =
        512 * ok!(crate::common::sys::names(sub.path())).into_iter().filter(|name| name != "dir").fold(0, blocks);
    let bytes = 10_000 + (1 << 30);
    let told = |linked| {
        format!("entries 8\nfiles 3\ndirectories 1\nothers 4\nbytes {bytes}\nallocated {allocated}\nlinked {linked}\n")
    };
    assert_eq!(value(&sub), told(0));
    ok!(link(sub.p("large"), d.p("elsewhere")));
    ok!(link(sub.p("fifo"), d.p("elsewhere too")));
    assert_eq!(value(&sub), told(2));
    let fd = ok!(open(sub.path(), O_RDONLY, 0));
    assert_eq!(ok!(fgetxattr(&fd, SUM)), told(2).into_bytes());
    for flags in [0, XATTR_CREATE, XATTR_REPLACE] {
        expect_errno!(setxattr_as(sub.path(), SUM, nothing, flags), EPERM);
    }
    expect_errno!(removexattr(sub.path(), SUM), EPERM);
    assert_eq!(ok!(listxattr(sub.path())), [""; 0]);
    moves("getxattr", &[(sub.path(), ""), (&sub.p("large"), "")], || value(&sub));
    expect_errno!(getxattr(sub.path(), "onpath.dirs"), EOPNOTSUPP);
    expect_errno!(getxattr(d.p("nothing"), SUM), ENOENT);
    ok!(unlink(sub.p("large")));
    ok!(rename(sub.p("sparse"), d.p("sparse")));
    assert!(value(&sub).starts_with("entries 6\nfiles 1\ndirectories 1\nothers 4\nbytes 0\n"), "{}", value(&sub));
}

/// Only directories have a sum (ENODATA); it is told to who may list and search one (EACCES).
#[test]
fn permissions_of_sums() {
    let d = area!();
    if !is_fuse(&d) {
        return; // no other file system has them
    }
    for (kind, path) in d.one_of_each() {
        if kind != "dir" {
            refused(kind, lgetxattr(&path, SUM), &[libc::ENODATA]);
            refused(kind, lsetxattr(&path, SUM, "1"), &[libc::EPERM]);
            refused(kind, lremovexattr(&path, SUM), &[libc::EPERM]);
        }
    }
    for class in CLASSES {
        for (bits, mode) in class.modes() {
            let sub = d.dir_of("sub", mode, class.uid, class.gid);
            class.user.run(|| {
                let what = format!("asked by {} of {mode:o}", class.name);
                allowed_or(what, bits & 5 == 5, getxattr(sub.path(), SUM), libc::EACCES);
            });
            ok!(rmdir(sub.path()));
        }
    }
    let sub = d.dir_of("shut", 0, ALICE.uid, ALICE.gid);
    ok!(getxattr(sub.path(), SUM));
    ok!(setxattr(sub.path(), ACCESS, acl(&format!("u::-,u:{}:rx,g::-,m::rx,o::-", BOB.uid))));
    BOB.run(|| ok!(getxattr(sub.path(), SUM)));
    ALICE.run(|| expect_errno!(getxattr(sub.path(), SUM), EACCES));
}
