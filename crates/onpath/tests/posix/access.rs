//! access(2), faccessat(2), chdir(2): what one would be allowed.

use crate::posix::prelude::*;
use libc::{F_OK, R_OK, W_OK, X_OK};

/// access answers by the bits of the one class that applies, for files and directories.
#[test]
fn by_the_bits() {
    let d = area!();
    for class in CLASSES {
        let paths = [
            d.file_of(class.name, 0, class.uid, class.gid),
            d.dir_of(format!("{} dir", class.name), 0, class.uid, class.gid).path().to_path_buf(),
        ];
        for path in paths {
            for (bits, mode) in class.modes() {
                ok!(chmod(&path, mode));
                class.user.run(|| {
                    for need in 0..8 {
                        let (what, asked) = (format!("{}: {mode:03o}, access({need})", class.name), need as i32);
                        allowed_or(&what, bits & need == need, access(&path, asked), libc::EACCES);
                        allowed_or(&what, bits & need == need, eaccess(&path, asked), libc::EACCES);
                    }
                });
            }
        }
    }
}

/// Root may read and write always, search directories always, run a file only if some x bit is set.
#[test]
fn root() {
    let d = area!();
    let f = d.file_of("f", 0, ALICE.uid, ALICE.gid);
    let dir = d.dir_of("d", 0, ALICE.uid, ALICE.gid);
    ok!(access(&f, R_OK | W_OK));
    ok!(access(dir.path(), R_OK | W_OK | X_OK));
    for (mode, allowed) in [(0, false), (0o666, false), (0o100, true), (0o010, true), (0o001, true)] {
        ok!(chmod(&f, mode));
        allowed_or(format!("{mode:o}"), allowed, access(&f, X_OK), libc::EACCES);
    }
}

/// access uses the real ids, AT_EACCESS the effective ones.
#[test]
fn real_and_effective_ids() {
    let d = area!();
    let f = d.file_of("f", 0o600, ALICE.uid, ALICE.gid);
    ROOT.run(|| {
        set_effective(BOB.uid, BOB.gid);
        ok!(access(&f, R_OK));
        expect_errno!(eaccess(&f, R_OK), EACCES);
        expect_errno!(open(&f, O_RDONLY, 0), EACCES);
    });
    ROOT.run(|| {
        set_effective(ALICE.uid, ALICE.gid);
        ok!(eaccess(&f, R_OK | W_OK));
    });
}

/// F_OK asks only whether it is there; the way must be searchable.
#[test]
fn existence() {
    let d = area!();
    let dir = d.dir_of("d", 0o711, 0, 0);
    let f = dir.file_of("f", 0, 0, 0);
    ALICE.run(|| {
        ok!(access(&f, F_OK));
        expect_errno!(access(dir.p("missing"), F_OK), ENOENT);
        expect_errno!(access(f.join("x"), F_OK), ENOTDIR);
        expect_errno!(access(&f, 8), EINVAL);
    });
    ok!(chmod(dir.path(), 0o766));
    ALICE.run(|| expect_errno!(access(&f, F_OK), EACCES));
    expect_errno!(access(d.symlink("nowhere", "l"), F_OK), ENOENT);
}

/// chdir needs x on a directory (EACCES, ENOTDIR), not r.
#[test]
fn working_directory() {
    let d = area!();
    let dir = d.dir_of("d", 0, ALICE.uid, ALICE.gid);
    for (mode, allowed) in [(0o100, true), (0o600, false), (0o077, false), (0o700, true)] {
        ok!(chmod(dir.path(), mode));
        ALICE.run(|| allowed_or(format!("{mode:o}"), allowed, chdir(dir.path()), libc::EACCES));
    }
    in_thread(|| {
        expect_errno!(chdir(d.file("f")), ENOTDIR);
        ok!(chdir(d.symlink("d", "l")));
        assert_eq!(ok!(stat(".")).ino, ok!(stat(dir.path())).ino);
    });
}
