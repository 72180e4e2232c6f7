//! Effective capabilities of a caller and where they count, read where they decide.
//!
//! capget(2) tells what a thread has. The kernel may have asked with ids that are not the thread's: for access(2) it takes the real
//! ones, and NFS servers, overlays and io_uring borrow those of others. Then the thread's capabilities say nothing about the request.

use super::caller::{field, proc_is_ours, read_proc, status};
use onpath_session::CallerQuestion;
use onpath_wire::caller::{Caps, IdMaps, IdRange, cap};
use onpath_wire::limits::ID_RANGES_MAX;
use rustix::process::Pid;
use smallvec::SmallVec;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// System calls that ask for the real ids: access, faccessat, and faccessat2 without AT_EACCESS.
#[cfg(target_arch = "x86_64")]
const BY_REAL_IDS: [u64; 2] = [21, 269];
#[cfg(not(target_arch = "x86_64"))]
const BY_REAL_IDS: [u64; 1] = [48];
const FACCESSAT2: u64 = 439;
const AT_EACCESS: u64 = 0x200;

/// Whether the system call of who asks counts for [`capabilities`].
pub(super) fn depend_on_call(question: &CallerQuestion) -> bool {
    question.caps != 0 && sets(question.pid).is_some_and(|sets| !is_all_the_same(question, sets))
}

/// For root with all that it may have it makes no difference with which ids it asks.
fn is_all_the_same(question: &CallerQuestion, [effective, permitted]: [u32; 2]) -> bool {
    question.uid == 0 && effective == permitted
}

/// The effective and the permitted capabilities of a thread that has any.
fn sets(pid: u32) -> Option<[u32; 2]> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).filter(|_| proc_is_ours())?;
    let sets = rustix::thread::capabilities(Some(pid)).ok()?;
    let sets = [sets.effective, sets.permitted].map(|set| set.bits() as u32 & cap::ALL);
    (sets[1] != 0).then_some(sets)
}

/// What a thread can do by capabilities for the request that asks, in this system call; nothing where that cannot be seen.
pub(super) fn capabilities(question: &CallerQuestion, call: &str) -> Caps {
    let none = Caps::exactly(0);
    let Some(sets) = sets(question.pid) else { return none };
    let [effective, permitted] = sets;
    let real = if is_all_the_same(question, sets) { Some(false) } else { by_real_ids(call) };
    if effective == 0 && real == Some(false) || !asks_for_itself(question, real) {
        return none;
    }
    let Some(within) = maps(question.pid) else { return none };
    // With the real ids root has what it may have, and others have nothing (access(2)).
    let is_root = within.as_ref().map_or(Some(0), |(_, root)| *root) == Some(question.uid);
    let had = match real {
        Some(false) => effective,
        _ if !is_root => 0,
        Some(true) => permitted,
        None => effective,
    };
    Caps { within: within.map(|(maps, _)| maps), ..Caps::exactly(had) }
}

/// Whether the ids of the request are the thread's.
fn asks_for_itself(question: &CallerQuestion, real: Option<bool>) -> bool {
    // The owner of the directory is the effective uid, which mostly is the one for files.
    let effective =
        || fs::metadata(format!("/proc/{}", question.pid)).map(|of| std::os::unix::fs::MetadataExt::uid(&of));
    if real == Some(false) && effective().is_ok_and(|uid| uid == question.uid) {
        return true;
    }
    let status = status(question.pid);
    let uids: Vec<u32> = numbers(field(&status, b"Uid:"));
    let [of_real, _, _, of_files] = uids[..] else { return false };
    match real {
        Some(true) => of_real == question.uid,
        Some(false) => of_files == question.uid,
        None => of_real == question.uid && of_files == question.uid,
    }
}

/// Whether this system call asks for the thread's real ids; nothing if that cannot be seen.
fn by_real_ids(call: &str) -> Option<bool> {
    let mut words = call.split_ascii_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let flags = words.nth(3).and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok())?;
    Some(BY_REAL_IDS.contains(&number) || number == FACCESSAT2 && flags & AT_EACCESS == 0)
}

/// The ids of the thread's user namespace, and its root's uid: nothing inside if it is in ours, nothing at all if that cannot be seen.
fn maps(pid: u32) -> Option<Option<(Arc<IdMaps>, Option<u32>)>> {
    static OWN: OnceLock<Option<PathBuf>> = OnceLock::new();
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/user")).ok();
    let own = OWN.get_or_init(|| namespace("self"));
    if own.is_some() && namespace(&pid.to_string()) == *own {
        return Some(None);
    }
    // It is another one, or a process of which we may not know: its maps tell where its capabilities count.
    let (uids, gids) = (read_proc(pid, "uid_map")?, read_proc(pid, "gid_map")?);
    let root = lines(&uids).find_map(|[inside, outside, _]| (inside == 0).then_some(outside));
    Some(Some((Arc::new(IdMaps { uids: ranges(&uids), gids: ranges(&gids) }), root)))
}

pub(super) fn ranges(map: &[u8]) -> SmallVec<[IdRange; 1]> {
    lines(map).take(ID_RANGES_MAX).map(|[_, first, count]| IdRange { first, count }).collect()
}

/// Lines of a map: first id inside, first id outside, count.
fn lines(map: &[u8]) -> impl Iterator<Item = [u32; 3]> {
    map.split(|byte| *byte == b'\n').filter_map(|line| numbers(line).try_into().ok())
}

fn numbers(text: &[u8]) -> Vec<u32> {
    let words = text.split(u8::is_ascii_whitespace);
    words.filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pid: u32, uid: u32) -> Caps {
        capabilities(&CallerQuestion { pid, uid, caps: cap::ALL, group: None }, "")
    }

    #[test]
    fn of_this_thread_as_long_as_it_asks_with_its_own_ids() {
        let me = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let uid = rustix::process::geteuid().as_raw();
        let effective = rustix::thread::capabilities(None).unwrap().effective.bits() as u32;
        assert_eq!(of(me, uid), Caps::exactly(effective));
        assert_eq!(of(me, uid + 1), Caps::exactly(0), "somebody's ids are borrowed");
        assert_eq!(of(0, 0), Caps::exactly(0), "0 is nobody, and not this thread");
        assert_eq!(of(u32::MAX, 0), Caps::exactly(0));
    }

    #[test]
    fn maps_are_read_as_proc_shows_them() {
        let map = b"         0     100000      65536\n     65536       1000          1\n";
        let range = |first, count| IdRange { first, count };
        assert_eq!(ranges(map)[..], [range(100_000, 65_536), range(1_000, 1)]);
        assert!(ranges(b"").is_empty() && ranges(b"1 2\nx y z\n").is_empty());
    }
}
