//! fs.protected_symlinks, protected_regular, protected_fifos and protected_hardlinks (proc(5)), as this host has them set. The same is tried on
//! a local disk.

use crate::common::check::{Dir, allowed_or, refused};
use crate::common::sys::{self, link, lstat, mkfifo, open, readlink, stat, symlink};
use crate::common::user::{ALICE, BOB, BOB_IN_TEAM, ROOT, TEAM};
use crate::common::wait_until;
use crate::two_mounts::Pair;
use crate::{expect_errno, ok};
use libc::{EACCES, EPERM, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_PATH, O_RDONLY, O_RDWR, O_WRONLY};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

/// The tests take turns, since the settings are those of the host.
static TURNS: Mutex<()> = Mutex::new(());

/// A setting, as it was before when this is dropped.
struct Setting {
    path: PathBuf,
    before: String,
    _turn: MutexGuard<'static, ()>,
}

impl Setting {
    fn of(name: &str) -> Setting {
        let turn = TURNS.lock().unwrap_or_else(|poison| poison.into_inner());
        let path = PathBuf::from(format!("/proc/sys/fs/protected_{name}"));
        let before = std::fs::read_to_string(&path).expect("a setting");
        Setting { path, before, _turn: turn }
    }

    /// `holds` must come to be so: a mount looks at the settings ten times a second.
    fn set(&self, level: u8, holds: impl Fn() -> bool) {
        std::fs::write(&self.path, level.to_string()).expect("root may set it");
        wait_until("the setting counts", holds);
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        std::fs::write(&self.path, &self.before).expect("root may set it");
    }
}

/// A directory of this mode and group on a local disk, on a mount that is alone, and on one of two; whether the mount decides or the kernel.
fn everywhere(test: &str, mode: u32, check: impl Fn(&Dir)) {
    let decides = [Pair::new(test, &[]), Pair::with_default_permissions(test)];
    decides.into_iter().flatten().for_each(|pair| on_each(pair, test, mode, &check));
}

fn on_each(pair: Pair, test: &str, mode: u32, check: impl Fn(&Dir)) {
    let local = pair.site.root().join("local");
    ok!(sys::mkdir(&local, 0o755));
    check(&Dir::at(local).dir_of("d", mode, 0, TEAM));
    for (mount, name) in [(0, "a"), (1, "b")] {
        check(&Dir::at(pair.mounts[mount].path().to_path_buf()).dir_of(name, mode, 0, TEAM));
    }
    let Pair { site, mounts: [first, second] } = pair;
    let before = site.status().sum("shard", &["alone_given"]);
    second.stop();
    site.wait_alone(before);
    check(&Dir::at(first.path().to_path_buf()).dir_of("alone", mode, 0, TEAM));
    first.stop();
    site.assert_clean(test);
}

/// In a sticky directory that everybody may write, a symlink is followed by its owner only, not even by root, unless it is the directory's owner's.
#[test]
fn symlinks() {
    let setting = Setting::of("symlinks");
    everywhere("protected symlinks", 0o1777, |dir| {
        dir.file_of("target", 0o666, 0, 0);
        ALICE.run(|| ok!(symlink("target", dir.p("link"))));
        ok!(symlink("target", dir.p("roots")));
        let follows = || stat(dir.p("link")).is_ok();
        setting.set(0, || BOB.run(follows) && ROOT.run(follows));
        setting.set(1, || !BOB.run(follows));
        for _ in 0..3 {
            for user in [BOB, ROOT] {
                user.run(|| {
                    expect_errno!(open(dir.p("link"), O_RDONLY, 0), EACCES);
                    expect_errno!(stat(dir.p("link")), EACCES);
                    expect_errno!(sys::truncate(dir.p("link"), 0), EACCES);
                    assert_eq!(ok!(readlink(dir.p("link"))), "target");
                    ok!(lstat(dir.p("link")));
                    ok!(open(dir.p("link"), O_PATH | O_NOFOLLOW, 0));
                    ok!(stat(dir.p("roots")));
                });
            }
            ALICE.run(|| ok!(open(dir.p("link"), O_RDONLY, 0)));
        }
        ok!(sys::chmod(dir.path(), 0o777));
        BOB.run(|| ok!(stat(dir.p("link"))));
        ok!(sys::chmod(dir.path(), 0o1775));
        BOB.run(|| ok!(stat(dir.p("link"))));
        ok!(sys::chmod(dir.path(), 0o1777));
        BOB.run(|| expect_errno!(stat(dir.p("link")), EACCES));
        ok!(sys::unlink(dir.p("link")));
    });
}

/// A file or FIFO of somebody else there is not opened with O_CREAT; without, it is.
#[test]
fn opened_with_o_creat() {
    for (name, flags) in [("regular", O_WRONLY), ("fifos", O_RDWR | O_NONBLOCK)] {
        let setting = Setting::of(name);
        everywhere("protected files and FIFOs", 0o1777, |dir| {
            let path = dir.p("f");
            ALICE.run(|| {
                if name == "fifos" {
                    ok!(mkfifo(&path, 0o666))
                } else {
                    drop(ok!(open(&path, O_CREAT | O_WRONLY, 0o666)))
                }
            });
            let creates = || open(&path, flags | O_CREAT, 0o666).map(drop);
            setting.set(0, || BOB.run(creates).is_ok());
            setting.set(1, || BOB.run(creates).is_err());
            for _ in 0..3 {
                for user in [BOB, ROOT] {
                    user.run(|| {
                        refused(name, creates(), &[EACCES]);
                        ok!(open(&path, flags, 0));
                        expect_errno!(open(&path, flags | O_CREAT | O_EXCL, 0o666), EEXIST);
                        ok!(open(dir.p("own"), flags | O_CREAT, 0o666));
                        ok!(sys::unlink(dir.p("own")));
                    });
                }
                ALICE.run(|| ok!(creates()));
            }
            ok!(sys::chmod(dir.path(), 0o1770));
            BOB_IN_TEAM.run(|| ok!(creates()));
            setting.set(2, || BOB_IN_TEAM.run(creates).is_err());
            BOB_IN_TEAM.run(|| refused(name, creates(), &[EACCES]));
            ok!(sys::chmod(dir.path(), 0o770));
            BOB_IN_TEAM.run(|| ok!(creates()));
            setting.set(0, || true);
        });
    }
}

/// Whether others than a file's owner may link to it without being allowed to write it.
#[test]
fn hardlinks() {
    let setting = Setting::of("hardlinks");
    everywhere("protected hardlinks", 0o777, |dir| {
        let names = (0..20).map(|number| dir.p(format!("f{number}"))).collect::<Vec<_>>();
        for (number, level) in [1, 0, 1].into_iter().enumerate() {
            let tried =
                |path: &PathBuf| BOB.run(|| link(path, dir.p("link")).and_then(|()| sys::unlink(dir.p("link"))));
            for path in &names {
                if number == 0 {
                    drop(ok!(open(path, O_CREAT | O_WRONLY, 0o644)));
                }
            }
            setting.set(level, || tried(&names[0]).is_ok() == (level == 0));
            for path in &names {
                allowed_or(format!("level {level}"), level == 0, tried(path), EPERM);
            }
        }
    });
}
