//! Read-only views of the file system (EROFS), and names that something is mounted on (EBUSY), in a mount namespace of their own.

use crate::posix::prelude::*;

/// Runs the closure where mounts are private; false (said on standard error) where that is not allowed.
fn with_private_mounts(job: impl FnOnce() + Send) {
    in_thread(|| {
        if unshare(libc::CLONE_NEWNS).and_then(|()| make_mounts_private()).is_err() {
            skipped("mounts in a namespace of their own", "unshare(CLONE_NEWNS) is not allowed");
            return;
        }
        job();
    });
}

/// On a read-only view every change is EROFS and changes nothing; what needs no change works.
#[test]
fn read_only() {
    let d = area!();
    let (real, view) = (d.dir("real"), d.dir("view"));
    real.file_with("f", b"123");
    real.dir("sub");
    real.symlink("f", "l");
    with_private_mounts(|| {
        ok!(bind_mount(real.path(), view.path()));
        ok!(remount_bind(view.path(), libc::MS_RDONLY));
        let (f, x) = (view.p("f"), view.p("x"));
        let attempts: Vec<(&str, R)> = vec![
            ("open for writing", open(&f, O_WRONLY, 0).map(drop)),
            ("O_TRUNC", open(&f, O_RDONLY | O_TRUNC, 0).map(drop)),
            ("create", open(&x, O_WRONLY | O_CREAT, 0o644).map(drop)),
            ("mkdir", mkdir(&x, 0o755)),
            ("mkfifo", mkfifo(&x, 0o644)),
            ("mknod", mknod(&x, S_IFCHR | 0o644, 0)),
            ("symlink", symlink("y", &x)),
            ("link", link(&f, &x)),
            ("rename", rename(&f, &x)),
            ("unlink", unlink(&f)),
            ("rmdir", rmdir(view.p("sub"))),
            ("chmod", chmod(&f, 0o600)),
            ("chown", chown(&f, 1, 1)),
            ("lchown", lchown(view.p("l"), 1, 1)),
            ("truncate", truncate(&f, 0)),
            ("utimensat", utimens(&f, [NOW, NOW])),
            ("access W_OK", access(&f, libc::W_OK)),
        ];
        for (name, result) in attempts {
            refused(name, result, &[libc::EROFS]);
        }
        assert_eq!(content(&f), b"123");
        ok!(open(&f, O_RDONLY | O_CREAT, 0o644));
        ok!(access(&f, libc::R_OK));
        expect_errno!(mkdir(view.p("sub"), 0o755), EEXIST);
        expect_errno!(open(&f, O_WRONLY | O_CREAT | O_EXCL, 0o644), EEXIST);
        expect_errno!(unlink(view.p("missing")), ENOENT | EROFS);
    });
    assert_eq!(ok!(names(real.path())), ["f", "l", "sub"]);
}

/// A name that something is mounted on cannot be removed or renamed over (EBUSY); two views of one file system are EXDEV apart.
#[test]
fn mountpoints() {
    let d = area!();
    let (real, view) = (d.dir("real"), d.dir("view"));
    real.file("f");
    d.dir("empty");
    with_private_mounts(|| {
        ok!(bind_mount(real.path(), view.path()));
        expect_errno!(rmdir(view.path()), EBUSY);
        expect_errno!(rename(view.path(), d.p("x")), EBUSY);
        expect_errno!(rename(d.p("empty"), view.path()), EBUSY);
        expect_errno!(rename(view.p("f"), real.p("g")), EXDEV);
        expect_errno!(link(view.p("f"), real.p("g")), EXDEV);
        assert_eq!(ok!(stat(view.p("f"))), ok!(stat(real.p("f"))));
    });
    ok!(rmdir(view.path()));
}
