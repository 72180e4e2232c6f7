//! import and export by root into a directory of a user, who at each of its steps puts something else in place of what it works on.
#![allow(unsafe_code)]

use crate::common::process;
use crate::common::server::{Site, binary};
use crate::common::sys;
use crate::common::tree::{Times, list};
use crate::common::user::ALICE;
use crate::tools::text;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

/// Steps before the copy leaves its first trace that are looked at, too.
const BEFORE: usize = 12;

/// Calls that take a path or a name: what it leads to may have changed since the one before.
fn is_step(nr: u64) -> bool {
    #[cfg(target_arch = "x86_64")]
    let old =
        [libc::SYS_open, libc::SYS_mkdir, libc::SYS_unlink, libc::SYS_chmod, libc::SYS_rename, libc::SYS_readlink];
    #[cfg(not(target_arch = "x86_64"))]
    let old: [i64; 0] = [];
    let now = [
        libc::SYS_openat,
        libc::SYS_openat2,
        libc::SYS_mkdirat,
        libc::SYS_unlinkat,
        libc::SYS_renameat,
        libc::SYS_renameat2,
        libc::SYS_linkat,
        libc::SYS_symlinkat,
        libc::SYS_mknodat,
        libc::SYS_fchmodat,
        libc::SYS_fchownat,
        libc::SYS_utimensat,
        libc::SYS_statx,
        libc::SYS_newfstatat,
        libc::SYS_readlinkat,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_fsync,
    ];
    old.iter().chain(&now).any(|call| *call as u64 == nr)
}

/// Runs the command under ptrace(2) and calls `at` before each step with its number. Gives the number of steps.
#[expect(clippy::zombie_processes, reason = "waitpid(2) waits, which tells of each step")]
fn stepped(command: &mut Command, mut at: impl FnMut(usize)) -> usize {
    // SAFETY: ptrace(2) is one system call, and this one takes no memory.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let child = process::spawn(command).expect("onpath starts");
    let pid = child.id().cast_signed();
    let (mut steps, mut status, mut signal, mut options) = (0, 0, 0, false);
    loop {
        // SAFETY: the status is ours.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid, "waitpid");
        if !libc::WIFSTOPPED(status) {
            assert!(libc::WIFEXITED(status) && matches!(libc::WEXITSTATUS(status), 0 | 1), "ended with {status:#x}");
            return steps;
        }
        if !options {
            let wanted = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
            // SAFETY: no memory is passed.
            assert_eq!(unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, wanted) }, 0);
            options = true;
        } else if libc::WSTOPSIG(status) == libc::SIGTRAP | 0x80 {
            // SAFETY: plain numbers, for which zeros are a value.
            let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
            // SAFETY: as many bytes as are passed are written at most.
            let got = unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, pid, size_of_val(&info), &raw mut info) };
            assert!(got > 0, "PTRACE_GET_SYSCALL_INFO");
            // SAFETY: the kernel has filled in what `op` says.
            if info.op == libc::PTRACE_SYSCALL_INFO_ENTRY && is_step(unsafe { info.u.entry.nr }) {
                steps += 1;
                at(steps);
            }
        } else {
            signal = libc::WSTOPSIG(status);
        }
        // SAFETY: no memory is passed.
        assert_eq!(unsafe { libc::ptrace(libc::PTRACE_SYSCALL, pid, 0, signal) }, 0);
        signal = 0;
    }
}

fn old() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 0)
}

fn file(path: &Path, content: &str, mode: u32, uid: u32) {
    fs::write(path, content).expect("a file");
    assert_eq!((sys::chown(path, uid, uid), sys::chmod(path, mode)), (Ok(()), Ok(())));
    fs::File::options().write(true).open(path).and_then(|file| file.set_modified(old())).expect("utimens");
}

/// A user's tree, and one of the same names that is none of the user's.
fn plant(top: &Path, uid: u32, mode: u32) {
    for dir in ["sub/inner", "other"] {
        fs::create_dir_all(top.join(dir)).expect("mkdir");
    }
    for name in ["sub/file", "sub/there", "sub/inner/deep", "other/one"] {
        file(&top.join(name), "as many bytes", mode, uid);
    }
    for dir in ["", "sub", "sub/inner", "other"] {
        assert_eq!(sys::chown(top.join(dir), uid, uid), Ok(()));
    }
    fs::hard_link(top.join("other/one"), top.join("sub/two")).expect("link");
    symlink("file", top.join("sub/link")).expect("symlink");
    assert_eq!(sys::mknod(top.join("sub/fifo"), libc::S_IFIFO | mode, 0), Ok(()));
}

/// Moves what is there aside; what is put in its place leads to `outside`.
fn swap(path: &Path, outside: &Path, hard: bool) {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".aside");
    if fs::rename(path, aside).is_ok() || !hard {
        // Fails where the directory is not there yet, or the link is already.
        _ = if hard { fs::hard_link(outside, path) } else { symlink(outside, path) };
        _ = hard || sys::lchown(path, ALICE.uid, ALICE.gid).is_ok();
    }
}

/// Names of the copy's own in a directory.
fn hidden(dir: &Path) -> Vec<PathBuf> {
    let names = sys::names(dir).unwrap_or_default();
    names.iter().filter(|name| name.to_string_lossy().starts_with(".onpath")).map(|name| dir.join(name)).collect()
}

/// Swaps something of a copy for something outside.
type Swap = fn(&Path, &Path);

/// What is put in the place of what.
const SWAPS: [(&str, Swap); 5] = [
    ("the destination", |copy, outside| swap(copy, outside, false)),
    ("directories", |copy, outside| {
        swap(&copy.join("sub"), &outside.join("sub"), false);
        swap(&copy.join("other"), &outside.join("other"), false);
    }),
    ("a directory further below", |copy, outside| swap(&copy.join("sub/inner"), &outside.join("sub/inner"), false)),
    ("files, by symbolic links", |copy, outside| {
        for name in ["sub/file", "sub/there", "sub/two", "other/one", "sub/fifo", "sub/link"] {
            swap(&copy.join(name), &outside.join(name), false);
        }
        for dir in ["", "sub", "other", "sub/inner"] {
            hidden(&copy.join(dir)).iter().for_each(|name| swap(name, &outside.join("sub/file"), false));
        }
    }),
    ("files, by hard links", |copy, outside| {
        for name in ["sub/file", "sub/there", "sub/two", "other/one", "sub/fifo", "sub/link"] {
            swap(&copy.join(name), &outside.join(name), true);
        }
    }),
];

/// Whatever a user puts in place of the copy's directories, files and parts, nothing outside of the copy is changed.
#[test]
fn whatever_is_swapped_nothing_outside_is_touched() {
    let Some(site) = Site::new("import into what a user swaps") else { return };
    let mount = site.dev(&[]);
    nothing_outside_is_touched("import", site.root(), mount.path());
    mount.stop();
}

/// The same where the copy goes out of the file system.
#[test]
fn whatever_is_swapped_outside_of_the_mount_nothing_else_is_touched() {
    let Some(site) = Site::new("export into what a user swaps") else { return };
    let mount = site.dev(&[]);
    let local = site.root().join("local");
    fs::create_dir(&local).expect("mkdir");
    nothing_outside_is_touched("export", mount.path(), &local);
    mount.stop();
}

fn nothing_outside_is_touched(command: &str, from: &Path, to: &Path) {
    let (source, outside, home) = (from.join("source"), to.join("outside"), to.join("home"));
    plant(&source, ALICE.uid, 0o604);
    plant(&outside, 0, 0o600);
    let mut before = list(&outside, Times::Mtime);
    let copy = home.join("copy");
    let prepare = || {
        _ = fs::remove_dir_all(&home);
        fs::create_dir_all(copy.join("sub")).expect("mkdir");
        file(&copy.join("sub/there"), "as many bytes", 0o640, ALICE.uid);
        for path in [&home, &copy, &copy.join("sub")] {
            assert_eq!(sys::chown(path, ALICE.uid, ALICE.uid), Ok(()));
        }
    };
    let command = || {
        let mut run = Command::new(binary());
        run.args([command, "--jobs", "1", "--quiet", text(&source), text(&copy)]);
        run.stdout(Stdio::null()).stderr(Stdio::null());
        run
    };
    prepare();
    let mut first = None;
    let steps = stepped(&mut command(), |step| {
        if first.is_none() && !hidden(&copy).is_empty() {
            first = Some(step);
        }
    });
    let first = first.expect("a copy under way is marked").saturating_sub(BEFORE).max(1);
    let mut touched = Vec::new();
    for (what, swap) in SWAPS {
        for at in first..=steps {
            prepare();
            let done = stepped(&mut command(), |step| {
                if step == at {
                    swap(&copy, &outside);
                }
            });
            assert!(done > 0, "nothing was traced");
            fs::remove_dir_all(&home).expect("rm -r");
            let after = list(&outside, Times::Mtime);
            if after != before {
                let changed = after.iter().filter(|(path, line)| before.get(*path) != Some(line));
                touched.push(format!("{what} at step {at} of {steps}: {:?}", changed.collect::<Vec<_>>()));
                fs::remove_dir_all(&outside).expect("rm -r");
                plant(&outside, 0, 0o600);
                before = list(&outside, Times::Mtime);
                if touched.len() == 12 {
                    break;
                }
            }
        }
    }
    assert!(touched.is_empty(), "changed outside:\n{}", touched.join("\n"));
}
