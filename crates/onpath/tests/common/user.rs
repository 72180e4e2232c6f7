//! Other users, per thread: the raw system calls change one thread only, where glibc's functions change the whole process.
#![allow(unsafe_code)]

use super::sys::{self, call};
use super::through;

/// Whose eyes a closure sees the mount with.
#[derive(Clone, Copy, Debug)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: &'static [u32],
}

/// The superuser.
pub const ROOT: User = User { uid: 0, gid: 0, groups: &[] };
/// A user with no rights of its own.
pub const ALICE: User = User { uid: 65_501, gid: 65_501, groups: &[] };
/// Another one.
pub const BOB: User = User { uid: 65_502, gid: 65_502, groups: &[] };
/// A group that nobody is in by default.
pub const TEAM: u32 = 65_510;
/// One more such group.
pub const CREW: u32 = 65_511;
/// Alice, also in [`TEAM`].
pub const ALICE_IN_TEAM: User = User { groups: &[TEAM], ..ALICE };
/// Bob, also in [`TEAM`].
pub const BOB_IN_TEAM: User = User { groups: &[TEAM], ..BOB };

impl User {
    /// Runs the closure in a thread of its own with this user's ids (also from inside another user's closure), umask 0 and a working directory of its own.
    pub fn run<T: Send>(&self, job: impl FnOnce() -> T + Send) -> T {
        in_thread(|| {
            self.become_user();
            job()
        })
    }

    fn become_user(&self) {
        let keep = u32::MAX;
        // The saved user id stays 0, so that a closure of one user can run one of another.
        assert_eq!(call!(libc::syscall(libc::SYS_setresuid, keep, 0, keep)), Ok(0));
        assert_eq!(call!(libc::syscall(libc::SYS_setgroups, self.groups.len(), self.groups.as_ptr())), Ok(0));
        assert_eq!(call!(libc::syscall(libc::SYS_setresgid, self.gid, self.gid, self.gid)), Ok(0));
        assert_eq!(call!(libc::syscall(libc::SYS_setresuid, self.uid, self.uid, 0)), Ok(0));
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
    let here = through::here();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            through::enter(here);
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

/// One of the ways the permission bits of an object apply to a user.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    pub name: &'static str,
    pub user: User,
    /// The ids of the object.
    pub uid: u32,
    pub gid: u32,
    shift: u32,
}

/// Owner, primary group, supplementary group, other.
pub const CLASSES: [Class; 4] = [
    Class { name: "owner", user: ALICE, uid: ALICE.uid, gid: CREW, shift: 6 },
    Class { name: "primary group", user: User { gid: TEAM, ..BOB }, uid: ALICE.uid, gid: TEAM, shift: 3 },
    Class { name: "supplementary group", user: BOB_IN_TEAM, uid: ALICE.uid, gid: TEAM, shift: 3 },
    Class { name: "other", user: BOB, uid: ALICE.uid, gid: TEAM, shift: 0 },
];

impl Class {
    /// All (rwx bits of this class, mode): with nothing and with everything granted to the other classes, which must not matter.
    pub fn modes(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let own = 0o7 << self.shift;
        let shift = self.shift;
        (0..8).flat_map(move |bits| [(bits, bits << shift), (bits, (bits << shift) | (0o777 & !own))])
    }
}
