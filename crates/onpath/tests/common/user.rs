//! Other users, per thread: the raw system calls change one thread only, where glibc's functions change the whole process.
#![allow(unsafe_code)]

use super::sys::{self, call, errno};

/// Whose eyes a closure sees the mount with.
#[derive(Clone, Copy, Debug)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: &'static [u32],
}

/// A user with no rights of its own.
pub const ALICE: User = User { uid: 65_501, gid: 65_501, groups: &[] };
/// Another one.
pub const BOB: User = User { uid: 65_502, gid: 65_502, groups: &[] };
/// A group that neither is in by default.
pub const TEAM: u32 = 65_510;
/// One more such group.
pub const CREW: u32 = 65_511;
/// Alice, also in [`TEAM`].
pub const ALICE_IN_TEAM: User = User { groups: &[TEAM], ..ALICE };
/// Bob, also in [`TEAM`].
pub const BOB_IN_TEAM: User = User { groups: &[TEAM], ..BOB };

impl User {
    /// Runs the closure in a thread of its own with this user's ids, umask 0 and a working directory of its own.
    pub fn run<T: Send>(&self, job: impl FnOnce() -> T + Send) -> T {
        in_thread(|| {
            self.become_user();
            job()
        })
    }

    fn become_user(&self) {
        // SAFETY: the group list outlives the call; the raw calls change the credentials of this thread alone.
        unsafe {
            let groups = libc::syscall(libc::SYS_setgroups, self.groups.len(), self.groups.as_ptr());
            assert_eq!(groups, 0, "setgroups: errno {}", errno());
            let gid = libc::syscall(libc::SYS_setresgid, self.gid, self.gid, self.gid);
            assert_eq!(gid, 0, "setresgid: errno {}", errno());
            let uid = libc::syscall(libc::SYS_setresuid, self.uid, self.uid, self.uid);
            assert_eq!(uid, 0, "setresuid: errno {}", errno());
        }
    }
}

/// Sets only the effective ids of the calling thread, so that real and effective ones differ.
pub fn set_effective(uid: u32, gid: u32) {
    let keep = u32::MAX;
    assert_eq!(call!(libc::syscall(libc::SYS_setresgid, keep, gid, keep)), Ok(0));
    assert_eq!(call!(libc::syscall(libc::SYS_setresuid, keep, uid, keep)), Ok(0));
}

/// Runs the closure in a thread whose umask and working directory are its own (umask 0); panics are passed on.
pub fn in_thread<T: Send>(job: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            sys::unshare(libc::CLONE_FS).expect("unshare(CLONE_FS)");
            sys::umask(0);
            job()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs the closure in a thread with the given umask.
pub fn with_umask<T: Send>(mask: u32, job: impl FnOnce() -> T + Send) -> T {
    in_thread(|| {
        sys::umask(mask);
        job()
    })
}
