//! What a client does to one file system and the kernel to another of the same kind: each call ends the same, and so do both trees.

use crate::common::check::errno_name;
use crate::common::random::Random;
use crate::common::server::Mount;
use crate::common::sys;
use crate::common::tree::{self, Times};
use crate::common::user::{ALICE, ALICE_IN_TEAM, BOB, BOB_IN_TEAM, ROOT, TEAM, User, in_thread};
use crate::common::xattr;
use onpath_client::blocking::Client;
use onpath_client::{Caller, Error, FileType, Link, Metadata, OpenOptions, Replace, SetXattr, Time};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What a call says: what it returns, as bytes, or an error.
type Said = Result<Vec<u8>, i32>;

#[derive(Clone, Debug)]
enum Call {
    Mkdir(u32),
    Mkfifo(u32),
    Unlink,
    Rmdir,
    Rename(String, u32),
    Link(String),
    Symlink(String),
    Readlink,
    Stat,
    Lstat,
    Access(u32),
    Chmod(u32),
    Chown(Option<u32>, Option<u32>, bool),
    Times(i64, bool),
    Truncate(u64),
    SetXattr(&'static str, Vec<u8>, i32),
    GetXattr(&'static str),
    RemoveXattr(&'static str),
    ListXattr,
    List,
    Read,
    /// Flags and mode of open(2), and where how many bytes are written.
    Write(i32, u32, u64, usize),
}

const USERS: [User; 7] = [ROOT, ROOT, ROOT, ALICE, BOB, ALICE_IN_TEAM, BOB_IN_TEAM];
const XATTRS: [&str; 5] = ["user.a", "user.b", "trusted.a", "security.a", "nonsense"];

/// A way through a tree of few names.
fn path(random: &mut Random) -> String {
    let mut path = String::new();
    for _ in 0..1 + random.below(4) {
        path += "/";
        path += *random.of(&["a", "b", "c", "d", "a", "b", "c", "d", "a", "b", "c", "d", ".", "..", ""]);
    }
    if random.below(8) == 0 {
        path += "/";
    }
    path
}

fn call(random: &mut Random) -> Call {
    let mode = *random.of(&[0o777, 0o777, 0o777, 0o755, 0o700, 0o750, 0o1777, 0o2775, 0o4755, 0o666, 0o640, 0o000]);
    let id = |random: &mut Random| *random.of(&[None, Some(0), Some(ALICE.uid), Some(BOB.uid), Some(TEAM)]);
    match random.below(36) {
        0..=4 => Call::Mkdir(mode),
        5 => Call::Mkfifo(mode & 0o777),
        6..=7 => Call::Unlink,
        8..=9 => Call::Rmdir,
        10..=13 => Call::Rename(path(random), *random.of(&[0, 0, 0, 1, 2])),
        14..=15 => Call::Link(path(random)),
        16..=17 => Call::Symlink(path(random)),
        18 => Call::Readlink,
        19 => Call::Stat,
        20 => Call::Lstat,
        21 => Call::Access(random.below(8) as u32),
        22..=23 => Call::Chmod(mode),
        24 => Call::Chown(id(random), id(random), random.below(2) == 0),
        25 => Call::Times(random.below(1 << 30) as i64, random.below(2) == 0),
        26 => Call::Truncate(random.below(10_000) as u64),
        27 => {
            let length = random.below(20);
            Call::SetXattr(random.of::<&str>(&XATTRS), random.bytes(length), random.below(3) as i32)
        }
        28 => Call::GetXattr(random.of::<&str>(&XATTRS)),
        29 => Call::RemoveXattr(random.of::<&str>(&XATTRS)),
        30 => Call::ListXattr,
        31 => Call::List,
        32 => Call::Read,
        _ => {
            let flags = [libc::O_CREAT, libc::O_EXCL, libc::O_TRUNC, libc::O_APPEND, libc::O_NOFOLLOW];
            let some = flags.iter().filter(|_| random.below(3) > 0).sum();
            Call::Write(some, mode & 0o777, random.below(5_000) as u64, random.below(5_000))
        }
    }
}

fn fields(fields: [u64; 6]) -> Vec<u8> {
    fields.iter().flat_map(|field| field.to_le_bytes()).collect()
}

fn of_kernel(path: &str, call: &Call) -> Said {
    let nothing = |()| Vec::new();
    let told = |is: sys::Stat| {
        // How long a directory is depends on the file system.
        let size = if is.kind() == libc::S_IFDIR { 0 } else { is.size as u64 };
        fields([is.mode.into(), is.nlink, is.uid.into(), is.gid.into(), size, is.rdev])
    };
    let id = |id: &Option<u32>| id.unwrap_or(u32::MAX);
    match call {
        Call::Mkdir(mode) => sys::mkdir(path, *mode).map(nothing),
        Call::Mkfifo(mode) => sys::mkfifo(path, *mode).map(nothing),
        Call::Unlink => sys::unlink(path).map(nothing),
        Call::Rmdir => sys::rmdir(path).map(nothing),
        Call::Rename(to, flags) => sys::renameat2(path, to, *flags).map(nothing),
        Call::Link(new) => sys::link(path, new).map(nothing),
        Call::Symlink(target) => sys::symlink(target, path).map(nothing),
        Call::Readlink => sys::readlink(path).map(|target| target.as_bytes().to_vec()),
        Call::Stat => sys::stat(path).map(told),
        Call::Lstat => sys::lstat(path).map(told),
        Call::Access(mask) => sys::access(path, *mask as i32).map(nothing),
        Call::Chmod(mode) => sys::chmod(path, *mode).map(nothing),
        Call::Chown(uid, gid, true) => sys::chown(path, id(uid), id(gid)).map(nothing),
        Call::Chown(uid, gid, false) => sys::lchown(path, id(uid), id(gid)).map(nothing),
        Call::Times(seconds, follow) => {
            let times = [sys::at(*seconds, 5), sys::at(*seconds, 5)];
            if *follow { sys::utimens(path, times) } else { sys::lutimens(path, times) }.map(nothing)
        }
        Call::Truncate(size) => sys::truncate(path, *size as i64).map(nothing),
        Call::SetXattr(name, value, flags) => xattr::setxattr_as(path, name, value, *flags).map(nothing),
        Call::GetXattr(name) => xattr::getxattr(path, name),
        Call::RemoveXattr(name) => xattr::removexattr(path, name).map(nothing),
        Call::ListXattr => xattr::listxattr(path).map(|names| sorted(names.into_iter().map(String::into_bytes))),
        Call::List => {
            sys::names(path).map(|names| sorted(names.into_iter().map(|name| name.as_os_str().as_bytes().to_vec())))
        }
        Call::Read => {
            let file = sys::open(path, libc::O_RDONLY | libc::O_NONBLOCK, 0)?;
            sys::pread(&file, 20_000, 0)
        }
        Call::Write(flags, mode, offset, length) => {
            let file = sys::open(path, flags | libc::O_WRONLY | libc::O_NONBLOCK, *mode)?;
            sys::pwrite(&file, written(*length), *offset as i64).map(|n| n.to_le_bytes().to_vec())
        }
    }
}

/// What so long a write writes.
fn written(length: usize) -> Vec<u8> {
    Random::new(length as u64).bytes(length)
}

fn sorted(names: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut names: Vec<_> = names.collect();
    names.sort();
    names.join(&b'/')
}

fn of_client(client: &Client, me: &Caller, path: &str, call: &Call) -> Result<Vec<u8>, Error> {
    let nothing = |()| Vec::new();
    let made = |_: Metadata| Vec::new();
    let told = |is: Metadata| {
        let size = if is.is_dir() { 0 } else { is.size };
        fields([is.mode().into(), is.nlink.into(), is.uid.into(), is.gid.into(), size, is.rdev])
    };
    let link = |follow: bool| if follow { Link::Follow } else { Link::Itself };
    match call {
        Call::Mkdir(mode) => client.mkdir(me, path, *mode).map(made),
        Call::Mkfifo(mode) => client.mknod(me, path, FileType::Fifo, *mode, 0).map(made),
        Call::Unlink => client.unlink(me, path).map(nothing),
        Call::Rmdir => client.rmdir(me, path).map(nothing),
        Call::Rename(to, flags) => {
            let replace = [Replace::Yes, Replace::No, Replace::Exchange][*flags as usize];
            client.rename(me, path, to.as_bytes(), replace).map(nothing)
        }
        Call::Link(new) => client.link(me, path, new.as_bytes()).map(made),
        Call::Symlink(target) => client.symlink(me, path, target.as_bytes()).map(made),
        Call::Readlink => client.readlink(me, path),
        Call::Stat => client.stat(me, path).map(told),
        Call::Lstat => client.lstat(me, path).map(told),
        Call::Access(mask) => client.access(me, path, *mask).map(nothing),
        Call::Chmod(mode) => client.chmod(me, path, *mode).map(nothing),
        Call::Chown(uid, gid, follow) => client.chown(me, path, *uid, *gid, link(*follow)).map(nothing),
        Call::Times(seconds, follow) => {
            let time = Time::At(seconds * 1_000_000_000 + 5);
            client.utimens(me, path, time, time, link(*follow)).map(nothing)
        }
        Call::Truncate(size) => client.truncate(me, path, *size).map(nothing),
        Call::SetXattr(name, value, flags) => {
            let how = [SetXattr::Any, SetXattr::Create, SetXattr::Replace][*flags as usize];
            client.setxattr(me, path, name.as_bytes(), value, how, Link::Follow).map(nothing)
        }
        Call::GetXattr(name) => client.getxattr(me, path, name.as_bytes(), Link::Follow),
        Call::RemoveXattr(name) => client.removexattr(me, path, name.as_bytes(), Link::Follow).map(nothing),
        Call::ListXattr => client.listxattr(me, path, Link::Follow).map(|names| sorted(names.into_iter())),
        Call::List => {
            let mut names = Vec::new();
            let mut listing = client.list(me, path, true)?;
            while let Some(page) = listing.next()? {
                names.extend(page.into_iter().map(|entry| entry.name));
            }
            Ok(sorted(names.into_iter()))
        }
        Call::Read => client.read(me, path, 20_000),
        Call::Write(flags, mode, offset, length) => {
            let has = |flag| flags & flag != 0;
            let create_new = has(libc::O_CREAT) && has(libc::O_EXCL);
            let options = OpenOptions {
                truncate: has(libc::O_TRUNC),
                append: has(libc::O_APPEND),
                no_follow: has(libc::O_NOFOLLOW),
                mode: *mode,
                create_new,
                ..OpenOptions::create()
            };
            let options = OpenOptions { create: has(libc::O_CREAT), ..options };
            let file = client.open(me, path, &options)?;
            file.write_at(*offset, written(*length))?;
            file.close()?;
            Ok(length.to_le_bytes().to_vec())
        }
    }
}

/// Where both are right. Of two reasons to refuse a call each tells one.
fn excused(call: &Call, kernel: &Said, client: &Said) -> bool {
    let (Err(kernel), Err(client)) = (kernel, client) else {
        // Without a name for it here: what a FIFO has.
        return matches!(call, Call::Read | Call::Write(..)) && *client == Err(libc::ENXIO);
    };
    let forbidden = |errno: &i32| [libc::EACCES, libc::EPERM].contains(errno);
    let unfit =
        |errno: &i32| [libc::EISDIR, libc::ENOTDIR, libc::ENOTEMPTY, libc::EINVAL, libc::EEXIST].contains(errno);
    match call {
        // A client opens no FIFO, and no directory as a file.
        Call::Read | Call::Write(..) => {
            [libc::ENXIO, libc::EISDIR].contains(client) || *client == libc::ELOOP && forbidden(kernel)
        }
        // What it is about does not fit for two reasons, or may not be changed either.
        Call::Rename(..) if unfit(kernel) && unfit(client) => true,
        Call::Link(_) | Call::Rename(..) | Call::Unlink | Call::Rmdir
            if forbidden(kernel) && (forbidden(client) || unfit(client)) || unfit(kernel) && forbidden(client) =>
        {
            true
        }
        // The name is there, and has a slash behind it.
        Call::Link(_) | Call::Symlink(_) | Call::Mkfifo(_) => *kernel == libc::ENOENT && *client == libc::EEXIST,
        // Of a file that may not be changed and a name that no file system has.
        Call::SetXattr("nonsense", ..) | Call::GetXattr("nonsense") | Call::RemoveXattr("nonsense") => {
            forbidden(kernel) && *client == libc::EOPNOTSUPP
        }
        _ => false,
    }
}

/// Does the same calls by a client and, on another file system, by the kernel. Both are empty at first.
pub(super) fn assert_ends_the_same(client: &Client, own: &Mount, other: &Mount, seed: u64, calls: usize) {
    let mut random = Random::new(seed);
    let mut succeeded = 0;
    let root = Path::new("/");
    in_thread(|| {
        sys::chroot(other.path()).expect("chroot");
        sys::chmod(root, 0o1777).expect("chmod");
        client.chmod(&Caller::root(), "/", 0o1777).expect("chmod");
        let mut steps = Vec::new();
        for step in 0..calls {
            let (user, path, call) = (*random.of(&USERS), path(&mut random), call(&mut random));
            if matches!(call, Call::Chmod(_) | Call::Chown(..)) && !path.contains(char::is_alphabetic) {
                continue; // everybody goes on through the root
            }
            let kernel = user.run(|| of_kernel(&path, &call));
            let capabilities = if user.uid == 0 { u64::MAX } else { 0 };
            let me = Caller { uid: user.uid, gid: user.gid, groups: user.groups.to_vec(), capabilities, umask: 0 };
            let client = of_client(client, &me, &path, &call)
                .map_err(|error| error.raw_os_error().unwrap_or_else(|| panic!("step {step}: {error}")));
            let say = |said: &Said| {
                said.as_ref().map_or_else(|errno| errno_name(*errno), |is| format!("{:?}", &is[..is.len().min(60)]))
            };
            steps.push(format!("{} {:?} {path} {call:?}: {}", user.uid, user.groups, say(&kernel)));
            assert!(
                kernel == client || excused(&call, &kernel, &client),
                "seed {seed}, step {step}: the kernel says {}, the client {}; the last steps:\n{}",
                say(&kernel),
                say(&client),
                steps[steps.len().saturating_sub(30)..].join("\n")
            );
            succeeded += usize::from(kernel.is_ok());
        }
    });
    assert!(succeeded > calls / 20, "{succeeded} of {calls} calls succeed");
    tree::assert_same(
        &format!("seed {seed}"),
        &tree::list(other.path(), Times::Ignored),
        &tree::list(own.path(), Times::Ignored),
    );
}
