//! POSIX ACLs (acl(5)): what they mean, who sets them, how they go with the permission bits, what new objects inherit.

use crate::posix::prelude::*;

/// Whether the file system of the tests has no ACLs.
fn lacking(d: &Dir) -> bool {
    let f = d.file("probe");
    let lacking = setxattr(&f, ACCESS, acl("u::rw,u:1:r,g::r,m::r,o::r")).is_err();
    ok!(unlink(&f));
    if lacking {
        skipped("posix::acl", "the file system of the tests has no ACLs");
    }
    lacking
}

macro_rules! acl_area {
    () => {{
        let d = area!();
        if lacking(&d) {
            return;
        }
        d
    }};
}

/// The ACL of a path as text, "none" without one.
fn shown(path: impl AsRef<Path>, name: &str) -> String {
    match getxattr(&path, name) {
        Ok(value) => acl_text(&value),
        Err(libc::ENODATA) => "none".into(),
        Err(errno) => format!("errno {errno}"),
    }
}

fn perm(path: impl AsRef<Path>) -> u32 {
    ok!(stat(path)).perm()
}

/// An access ACL sets the permission bits, the group's to its mask; chmod sets owner, mask and others of it, and the rest stays.
#[test]
fn mode_and_acl_go_together() {
    let d = acl_area!();
    for path in [d.file("f"), d.dir("d").path().to_path_buf()] {
        ok!(setxattr(&path, ACCESS, acl("u::rwx,u:65502:rwx,g::r,m::rx,o::-")));
        assert_eq!(perm(&path), 0o750);
        assert_eq!(shown(&path, ACCESS), "u::rwx,u:65502:rwx,g::r,m::rx,o::-");
        ok!(chmod(&path, 0o6624));
        assert_eq!(perm(&path), 0o6624);
        assert_eq!(shown(&path, ACCESS), "u::rw,u:65502:rwx,g::r,m::w,o::r");
        ok!(chmod(&path, 0));
        assert_eq!(shown(&path, ACCESS), "u::-,u:65502:rwx,g::r,m::-,o::-");
        ok!(setxattr(&path, ACCESS, acl("u::rw,g::r,g:65510:rw,m::rw,o::r")));
        assert_eq!((perm(&path), shown(&path, ACCESS)), (0o664, "u::rw,g::r,g:65510:rw,m::rw,o::r".into()));
        assert_eq!(ok!(listxattr(&path)), [ACCESS]);
    }
}

/// An ACL that says no more than permission bits sets those and is not kept; one with a mask is, even if it names nobody.
#[test]
fn minimal_acls() {
    let d = acl_area!();
    let f = d.file("f");
    ok!(setxattr(&f, ACCESS, acl("u::rw,u:1:rw,g::r,m::rw,o::r")));
    ok!(setxattr(&f, ACCESS, acl("u::rwx,g::x,o::r")));
    assert_eq!((perm(&f), shown(&f, ACCESS), ok!(listxattr(&f)).len()), (0o714, "none".into(), 0));
    ok!(setxattr(&f, ACCESS, acl("u::rw,g::rx,m::r,o::-")));
    assert_eq!((perm(&f), shown(&f, ACCESS)), (0o640, "u::rw,g::rx,m::r,o::-".into()));
}

/// Without its ACL an inode keeps its permission bits, the group's being the mask; removing what is not there is no error. An ACL
/// without entries removes it too.
#[test]
fn removal() {
    let d = acl_area!();
    let f = d.file("f");
    ok!(removexattr(&f, ACCESS));
    ok!(setxattr(&f, ACCESS, acl("u::rw,u:1:rw,g::-,m::rw,o::r")));
    ok!(removexattr(&f, ACCESS));
    assert_eq!((perm(&f), shown(&f, ACCESS)), (0o664, "none".into()));
    let dir = d.dir("d").path().to_path_buf();
    for value in [Vec::new(), acl("u::rw,g::r,o::r")[..4].to_vec()] {
        for name in [ACCESS, DEFAULT] {
            ok!(setxattr(&dir, name, acl("u::rwx,u:1:rw,g::rx,m::rwx,o::rx")));
            ok!(setxattr(&dir, name, &value));
            assert_eq!(shown(&dir, name), "none");
        }
    }
    ok!(removexattr(&dir, DEFAULT));
}

/// Values that are no ACL are refused (EINVAL), those of another version too (EOPNOTSUPP), and change nothing.
#[test]
fn invalid_values() {
    let d = acl_area!();
    let f = d.file("f");
    for wrong in [
        "u::rw,g::r",
        "u::rw,u:1:rw,g::r,o::r",
        "u::rw,g::r,o::r,u:1:rw",
        "g::r,u::rw,o::r",
        "u::rw,u::rw,g::r,o::r",
        "u::rw,g::r,m::r,m::r,o::r",
        "m::r",
    ] {
        refused(wrong, setxattr(&f, ACCESS, acl(wrong)), &[libc::EINVAL]);
        refused(wrong, setxattr(d.path(), DEFAULT, acl(wrong)), &[libc::EINVAL]);
    }
    let good = acl("u::rw,u:1:rw,g::r,m::r,o::r");
    let changed = |at: usize, byte: u8| {
        let mut value = good.clone();
        value[at] = byte;
        value
    };
    expect_errno!(setxattr(&f, ACCESS, changed(0, 1)), EOPNOTSUPP);
    expect_errno!(setxattr(&f, ACCESS, changed(4, 0x40)), EINVAL);
    expect_errno!(setxattr(&f, ACCESS, changed(6, 0x08)), EINVAL);
    expect_errno!(setxattr(&f, ACCESS, &good[..good.len() - 1]), EINVAL);
    expect_errno!(setxattr(&f, ACCESS, &good[..3]), EINVAL);
    assert_eq!((perm(&f), ok!(listxattr(&f)).len()), (0o644, 0));
}

/// Only the owner and root set and remove ACLs (EPERM), whatever the permissions; everybody reads them.
#[test]
fn who_may() {
    let d = acl_area!();
    let dir = d.dir_of("d", 0o777, ALICE.uid, TEAM).path().to_path_buf();
    let f = d.file_of("f", 0o666, ALICE.uid, TEAM);
    let value = acl("u::rw,u:65502:rw,g::rw,m::rw,o::rw");
    ALICE.run(|| {
        ok!(setxattr(&f, ACCESS, &value));
        ok!(setxattr(&dir, DEFAULT, &value));
    });
    BOB.run(|| {
        assert_eq!(shown(&f, ACCESS), "u::rw,u:65502:rw,g::rw,m::rw,o::rw");
        assert_eq!(shown(&dir, DEFAULT), "u::rw,u:65502:rw,g::rw,m::rw,o::rw");
        expect_errno!(setxattr(&f, ACCESS, &value), EPERM);
        expect_errno!(removexattr(&f, ACCESS), EPERM);
        expect_errno!(setxattr(&dir, DEFAULT, &value), EPERM);
        expect_errno!(removexattr(&dir, DEFAULT), EPERM);
    });
}

/// Default ACLs are for directories (EACCES); symlinks have no ACLs at all.
#[test]
fn other_kinds() {
    let d = acl_area!();
    for (kind, path) in d.one_of_each() {
        let value = acl("u::rw,u:1:rw,g::r,m::r,o::r");
        if kind == "symlink" {
            refused(kind, lsetxattr(&path, ACCESS, &value), &[libc::EOPNOTSUPP]);
            refused(kind, lgetxattr(&path, ACCESS), &[libc::EOPNOTSUPP]);
            continue;
        }
        done(kind, setxattr(&path, ACCESS, &value));
        assert_eq!(shown(&path, ACCESS), "u::rw,u:1:rw,g::r,m::r,o::r", "{kind}");
        let default = setxattr(&path, DEFAULT, &value);
        if kind == "dir" {
            done(kind, default);
        } else {
            refused(kind, default, &[libc::EACCES]);
            refused(kind, getxattr(&path, DEFAULT), &[libc::ENODATA]);
        }
    }
}

/// Setting an ACL clears setgid unless the caller is root or in the group, as chmod does; setuid and sticky stay.
#[test]
fn setgid() {
    let d = acl_area!();
    let value = acl("u::rwx,u:1:rw,g::rx,m::rwx,o::rx");
    for (user, kept) in [(ROOT, true), (ALICE_IN_TEAM, true), (ALICE, false)] {
        let f = d.file_of("f", 0o6755, ALICE.uid, TEAM);
        user.run(|| ok!(setxattr(&f, ACCESS, &value)));
        assert_eq!(perm(&f), if kept { 0o6775 } else { 0o4775 }, "{user:?}");
        ok!(unlink(&f));
    }
    let dir = d.dir_of("d", 0o3755, 0, 0);
    ok!(setxattr(dir.path(), ACCESS, &value));
    assert_eq!(perm(dir.path()), 0o3775);
}

/// Setting and removing move ctime alone.
#[test]
fn times() {
    let d = acl_area!();
    let dir = d.dir("d").path().to_path_buf();
    let f = d.file("f");
    let value = acl("u::rwx,u:1:rw,g::rx,m::rwx,o::rx");
    moves("setting", &[(&f, "c")], || ok!(setxattr(&f, ACCESS, &value)));
    moves("removing", &[(&f, "c")], || ok!(removexattr(&f, ACCESS)));
    moves("setting a default", &[(&dir, "c")], || ok!(setxattr(&dir, DEFAULT, &value)));
    moves("reading", &[(&dir, "")], || ok!(getxattr(&dir, DEFAULT)));
}

/// What an ACL (of a file of Alice's and TEAM's) lets somebody do.
fn check(acl_of_file: &str, user: User, allowed: &str) {
    let Some(d) = crate::posix::fresh() else { return };
    let f = d.file_with("f", b"12345");
    ok!(chown(&f, ALICE.uid, TEAM));
    ok!(setxattr(&f, ACCESS, acl(acl_of_file)));
    user.run(|| {
        for (letter, mode, flags) in
            [('r', libc::R_OK, O_RDONLY), ('w', libc::W_OK, O_WRONLY), ('x', libc::X_OK, O_PATH)]
        {
            let may = allowed.contains(letter);
            let what = format!("{letter} of {acl_of_file} by {user:?}");
            allowed_or(format!("access: {what}"), may, eaccess(&f, mode), libc::EACCES);
            if letter != 'x' {
                allowed_or(format!("open: {what}"), may, open(&f, flags, 0), libc::EACCES);
            }
        }
        let both = allowed.contains('r') && allowed.contains('w');
        allowed_or(format!("open for both: {acl_of_file} by {user:?}"), both, open(&f, O_RDWR, 0), libc::EACCES);
    });
}

const BOB_IN_BOTH: User = User { groups: &[TEAM, CREW], ..BOB };
const BOB_IN_CREW: User = User { groups: &[CREW], ..BOB };

/// The owner's entry is for the owner, whatever else names them; others' entries do not matter.
#[test]
fn owners() {
    if lacking(&area!()) {
        return;
    }
    check("u::rw,u:65501:x,g::x,m::x,o::x", ALICE, "rw");
    check("u::-,u:65501:rwx,g::rwx,m::rwx,o::rwx", ALICE_IN_TEAM, "");
    check("u::-,u:1:rwx,g::rwx,m::rwx,o::rx", ROOT, "rwx");
    check("u::-,u:1:rwx,g::rwx,m::rw,o::-", ROOT, "rw");
}

/// A user who is named has what the entry and the mask both have, and no more, whatever groups and others may.
#[test]
fn named_users() {
    if lacking(&area!()) {
        return;
    }
    check("u::-,u:65502:rw,g::-,m::rwx,o::-", BOB, "rw");
    check("u::-,u:65502:rwx,g::-,m::r,o::-", BOB, "r");
    check("u::-,u:65502:-,g::rwx,m::rwx,o::rwx", BOB, "");
    check("u::-,u:65502:r,g::rwx,m::rwx,o::rwx", BOB_IN_TEAM, "r");
    check("u::-,u:65503:rwx,g::rwx,m::rwx,o::r", BOB, "r");
}

/// One of the group entries that fit must have all that is asked for, within the mask; if some fit and none has, others' do not count.
#[test]
fn groups() {
    if lacking(&area!()) {
        return;
    }
    check("u::-,g::r,g:65511:w,m::rwx,o::-", BOB_IN_TEAM, "r");
    check("u::-,g::r,g:65511:w,m::rwx,o::-", BOB_IN_CREW, "w");
    check("u::-,g::rw,g:65511:x,m::rwx,o::-", BOB_IN_BOTH, "rwx");
    check("u::-,g::rwx,g:65511:rwx,m::r,o::rwx", BOB_IN_CREW, "r");
    check("u::-,g::-,g:65511:-,m::rwx,o::rwx", BOB_IN_CREW, "");
    check("u::-,g::-,g:65511:-,m::rwx,o::rwx", BOB, "rwx");
    check("u::-,g::-,g:65511:rw,m::rwx,o::-", User { gid: CREW, ..BOB }, "rw");
}

/// Any of very many groups may be the one.
#[test]
fn many_groups() {
    let d = acl_area!();
    let f = d.file("f");
    let groups: Vec<String> = (0..300).map(|i| format!("g:{}:r", 100_000 + i)).collect();
    let value = format!("u::-,g::-,{},g:200000:rw,m::rwx,o::-", groups.join(","));
    ok!(setxattr(&f, ACCESS, acl(&value)));
    assert_eq!(shown(&f, ACCESS), value);
    for (groups, read, write) in [(&[][..], false, false), (&[100_299], true, false), (&[200_000], true, true)] {
        User { groups, ..BOB }.run(|| {
            allowed_or(format!("read by {groups:?}"), read, open(&f, O_RDONLY, 0), libc::EACCES);
            allowed_or(format!("write by {groups:?}"), write, open(&f, O_WRONLY, 0), libc::EACCES);
        });
    }
    let directory = d.dir_of("d", 0o700, 0, 0);
    let inner = directory.file("f");
    ok!(setxattr(directory.path(), ACCESS, acl(&value.replace(":rw,", ":rx,"))));
    User { groups: &[200_000], ..BOB }.run(|| ok!(stat(&inner)));
    BOB.run(|| expect_errno!(stat(&inner), EACCES));
}

/// Reading by one group entry and writing by another is not reading and writing.
#[test]
fn permissions_do_not_add_up() {
    let d = acl_area!();
    let f = d.file("f");
    ok!(chown(&f, ALICE.uid, TEAM));
    ok!(setxattr(&f, ACCESS, acl("u::-,g::r,g:65511:w,m::rwx,o::-")));
    BOB_IN_BOTH.run(|| {
        ok!(open(&f, O_RDONLY, 0));
        ok!(open(&f, O_WRONLY, 0));
        expect_errno!(open(&f, O_RDWR, 0), EACCES);
    });
}

/// A directory's ACL decides about search, listing, making and removing names.
#[test]
fn directories() {
    let d = acl_area!();
    let dir = d.dir_of("d", 0o700, ALICE.uid, ALICE.gid);
    let f = dir.file_of("f", 0o644, 0, 0);
    let path = dir.path().to_path_buf();
    let try_all = |user: User, search: bool, list: bool, modify: bool| {
        user.run(|| {
            let what = |call: &str| format!("{call} by {user:?}");
            allowed_or(what("stat"), search, stat(&f), libc::EACCES);
            allowed_or(what("open"), search, open(&f, O_RDONLY, 0), libc::EACCES);
            allowed_or(what("list"), list, open(&path, O_RDONLY | O_DIRECTORY, 0), libc::EACCES);
            allowed_or(what("create"), modify, open(dir.p("new"), O_WRONLY | O_CREAT | O_EXCL, 0o644), libc::EACCES);
            allowed_or(what("rename"), modify, rename(&f, dir.p("other")), libc::EACCES);
            allowed_or(what("mkdir"), modify, mkdir(dir.p("sub"), 0o755), libc::EACCES);
            if modify {
                ok!(rename(dir.p("other"), &f));
                ok!(unlink(dir.p("new")));
                ok!(rmdir(dir.p("sub")));
            }
        });
    };
    try_all(BOB, false, false, false);
    ok!(setxattr(&path, ACCESS, acl("u::rwx,u:65502:rwx,g::-,m::rwx,o::-")));
    try_all(BOB, true, true, true);
    ok!(chmod(&path, 0o710));
    try_all(BOB, true, false, false);
    ok!(chmod(&path, 0o700));
    try_all(BOB, false, false, false);
    ok!(setxattr(&path, ACCESS, acl("u::rwx,g::-,g:65511:rx,m::rwx,o::-")));
    try_all(BOB, false, false, false);
    try_all(BOB_IN_CREW, true, true, false);
    ok!(removexattr(&path, ACCESS));
    try_all(BOB_IN_CREW, false, false, false);
}

/// A new file or directory has what the default ACL and the mode asked for both have; the umask does not count. Directories pass the
/// default ACL on.
#[test]
fn inheritance() {
    let d = acl_area!();
    let dir = d.dir("d");
    let default = "u::rwx,u:65502:rwx,g::rx,g:65511:w,m::rwx,o::rx";
    ok!(setxattr(dir.path(), DEFAULT, acl(default)));
    assert_eq!((perm(dir.path()), shown(dir.path(), ACCESS)), (0o755, "none".into()));
    with_umask(0o077, || {
        ok!(open(dir.p("f"), O_WRONLY | O_CREAT | O_EXCL, 0o666));
        ok!(open(dir.p("closed"), O_WRONLY | O_CREAT | O_EXCL, 0o4600));
        ok!(mkdir(dir.p("sub"), 0o777));
        ok!(mkdir(dir.p("narrow"), 0o1750));
        ok!(mkfifo(dir.p("fifo"), 0o622));
        ok!(symlink("f", dir.p("l")));
    });
    let file = |mode: u32, acl: &str, name: &str| {
        assert_eq!((perm(dir.p(name)), shown(dir.p(name), ACCESS)), (mode, acl.to_string()), "{name}");
    };
    file(0o664, "u::rw,u:65502:rwx,g::rx,g:65511:w,m::rw,o::r", "f");
    file(0o4600, "u::rw,u:65502:rwx,g::rx,g:65511:w,m::-,o::-", "closed");
    file(0o775, "u::rwx,u:65502:rwx,g::rx,g:65511:w,m::rwx,o::rx", "sub");
    file(0o1750, "u::rwx,u:65502:rwx,g::rx,g:65511:w,m::rx,o::-", "narrow");
    file(0o620, "u::rw,u:65502:rwx,g::rx,g:65511:w,m::w,o::-", "fifo");
    for (name, wanted) in [("sub", default), ("narrow", default), ("f", "none"), ("fifo", "none")] {
        assert_eq!(shown(dir.p(name), DEFAULT), wanted, "{name}");
    }
    assert_eq!(ok!(lstat(dir.p("l"))).perm(), 0o777);
    BOB.run(|| ok!(open(dir.p("f"), O_RDWR, 0)));
    ok!(open(dir.p("sub/below"), O_WRONLY | O_CREAT | O_EXCL, 0o640));
    file(0o640, "u::rw,u:65502:rwx,g::rx,g:65511:w,m::r,o::-", "sub/below");
}

/// A default ACL that names nobody gives permission bits only, in place of the umask; it is kept all the same, and goes by itself.
#[test]
fn minimal_defaults() {
    let d = acl_area!();
    let dir = d.dir("d");
    ok!(setxattr(dir.path(), DEFAULT, acl("u::rwx,g::rwx,o::r")));
    assert_eq!(shown(dir.path(), DEFAULT), "u::rwx,g::rwx,o::r");
    with_umask(0o077, || ok!(open(dir.p("f"), O_WRONLY | O_CREAT, 0o666)));
    assert_eq!((perm(dir.p("f")), shown(dir.p("f"), ACCESS)), (0o664, "none".into()));
    ok!(removexattr(dir.path(), DEFAULT));
    with_umask(0o077, || ok!(open(dir.p("g"), O_WRONLY | O_CREAT, 0o666)));
    assert_eq!(perm(dir.p("g")), 0o600);
}

/// chown and rename leave ACLs as they are; setgid of the directory and its default ACL work together.
#[test]
fn with_other_changes() {
    let d = acl_area!();
    let f = d.file("f");
    ok!(setxattr(&f, ACCESS, acl("u::rw,u:65502:rw,g::r,m::rw,o::-")));
    ok!(chown(&f, ALICE.uid, TEAM));
    ok!(rename(&f, d.p("g")));
    assert_eq!(shown(d.p("g"), ACCESS), "u::rw,u:65502:rw,g::r,m::rw,o::-");
    let dir = d.dir_of("d", 0o2777, 0, TEAM);
    ok!(setxattr(dir.path(), DEFAULT, acl("u::rwx,u:65502:rwx,g::rx,m::rwx,o::-")));
    ALICE.run(|| {
        ok!(mkdir(dir.p("sub"), 0o777));
        ok!(open(dir.p("f"), O_WRONLY | O_CREAT, 0o666));
    });
    let (sub, f) = (ok!(stat(dir.p("sub"))), ok!(stat(dir.p("f"))));
    assert_eq!((sub.perm(), sub.gid, f.perm(), f.gid), (0o2770, TEAM, 0o660, TEAM));
}

/// utimes(NULL), truncate and link follow the ACL too.
#[test]
fn other_checks() {
    let d = acl_area!();
    ok!(chmod(d.path(), 0o777));
    let f = d.file_of("f", 0o600, ALICE.uid, ALICE.gid);
    BOB.run(|| {
        expect_errno!(touch(&f), EACCES);
        expect_errno!(truncate(&f, 0), EACCES);
        expect_errno!(setxattr(&f, "user.a", "1"), EACCES);
    });
    ok!(setxattr(&f, ACCESS, acl("u::rw,u:65502:rw,g::-,m::rw,o::-")));
    BOB.run(|| {
        ok!(touch(&f));
        ok!(truncate(&f, 0));
        ok!(setxattr(&f, "user.a", "1"));
        assert_eq!(ok!(getxattr(&f, "user.a")), b"1");
        expect_errno!(chmod(&f, 0o666), EPERM);
    });
}
