//! What the kernel does not say of a caller, read from /proc: supplementary groups, capabilities, for which kind of lock it waits, and whether it has a
//! signal. Read only when that decides: it costs as much as half a create.

use super::asleep::read_call;
use super::capabilities::{capabilities, depend_on_call};
use onpath_session::{CallerQuestion, ReadCaller};
use onpath_wire::caller::Caps;
use std::fs;
use std::sync::OnceLock;
use std::task::Poll;

/// What a session wants to know of a caller: at once if it can be seen, else `later` is told, in another thread.
pub fn read_caller(question: CallerQuestion, later: impl FnOnce(ReadCaller) + Send + 'static) -> Poll<ReadCaller> {
    if !depend_on_call(&question) {
        return Poll::Ready(read_in_call(&question, ""));
    }
    read_call(question.pid, move |call| read_in_call(&question, call), later)
}

/// The same of a caller in this system call.
fn read_in_call(question: &CallerQuestion, call: &str) -> ReadCaller {
    let caps = if question.caps == 0 { Caps::default() } else { capabilities(question, call) };
    let enough = caps.had & question.caps != 0 && caps.within.is_none();
    let groups = (question.group.is_some() && !enough).then(|| supplementary_groups(question.pid));
    ReadCaller { groups, caps }
}

/// Whether every process of the machine has a number here. For others the kernel tells 0, and nothing can be read of them.
pub fn sees_all_processes() -> bool {
    // The number of the first pid namespace's file, PROC_PID_INIT_INO of Linux.
    const FIRST: &str = "pid:[4026531836]";
    proc_is_ours() && fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == FIRST)
}

/// Whether `/proc` counts processes as the kernel does for us. That of another pid namespace would tell of somebody else.
pub(super) fn proc_is_ours() -> bool {
    static OURS: OnceLock<bool> = OnceLock::new();
    let own =
        || fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() == std::process::id().to_string().as_str());
    *OURS.get_or_init(own)
}

/// A file of thread `pid` in `/proc`; nothing if it is 0 or gone.
pub(super) fn read_proc(pid: u32, name: &str) -> Option<Vec<u8>> {
    if pid == 0 || !proc_is_ours() {
        return None;
    }
    fs::read(format!("/proc/{pid}/{name}")).ok()
}

/// The supplementary gids of thread `pid`; none if it is 0 (not visible from here) or gone.
pub(super) fn supplementary_groups(pid: u32) -> Vec<u32> {
    let status = status(pid);
    let numbers = field(&status, b"Groups:").split(u8::is_ascii_whitespace);
    numbers.filter_map(|number| std::str::from_utf8(number).ok()?.parse().ok()).collect()
}

/// What /proc says of thread `pid`; nothing if it is 0 or gone.
pub(super) fn status(pid: u32) -> Vec<u8> {
    read_proc(pid, "status").unwrap_or_default()
}

pub(super) fn field<'a>(status: &'a [u8], name: &[u8]) -> &'a [u8] {
    status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name)).unwrap_or_default()
}

/// Signals that end nobody by themselves: SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH.
const END_NOBODY: [u32; 8] = [17, 18, 19, 20, 21, 22, 23, 28];

/// Whether thread `pid` has a signal that it has a handler for or that ends it. The kernel calls a request interrupted also for others: a
/// stop, a SIGCHLD that another thread of the process did not take (signal(7) has both restart a call, or not be noticed at all).
/// Nothing if that cannot be seen.
pub(super) fn has_signal(pid: u32) -> Option<bool> {
    is_signalled(&status(pid))
}

fn is_signalled(status: &[u8]) -> Option<bool> {
    let mask = |name| u64::from_str_radix(std::str::from_utf8(field(status, name)).ok()?.trim(), 16).ok();
    let pending = (mask(b"SigPnd:")? | mask(b"ShdPnd:")?) & !mask(b"SigBlk:")? & !mask(b"SigIgn:")?;
    let harmless = END_NOBODY.iter().fold(0, |all, signal| all | 1 << (signal - 1)) & !mask(b"SigCgt:")?;
    Some(pending & !harmless != 0)
}

/// Commands of fcntl(2) by which a process waits for a lock of its own: F_SETLKW, also as 32-bit programs call it.
const WAITS: [u64; 2] = [7, 14];

/// Whether thread `pid` waits for a record lock of its process, and not for one of an open file (F_OFD_SETLKW): a request of the kernel
/// names an owner, which may be either. Nothing if that cannot be seen; `later` is told where it cannot be seen yet.
pub fn waits_as_process(pid: u32, later: impl FnOnce(Option<bool>) + Send + 'static) -> Poll<Option<bool>> {
    read_call(pid, is_wait, later)
}

/// `call` is as /proc shows it: number, then arguments in hexadecimal.
fn is_wait(call: &str) -> Option<bool> {
    let command = call.split_ascii_whitespace().nth(2)?.strip_prefix("0x")?;
    Some(WAITS.contains(&u64::from_str_radix(command, 16).ok()?))
}

/// Whether this is an open(2) with O_CREAT of what may be there already. The flags of openat2(2) are in its memory, and are not looked for:
/// reading that can take as long as the caller likes.
pub(super) fn has_creating_call(call: &str) -> bool {
    let mut words = call.split_ascii_whitespace();
    let number = words.next().and_then(|number| number.parse().ok());
    let flags_at = match number {
        #[cfg(target_arch = "x86_64")]
        Some(libc::SYS_creat) => return true,
        #[cfg(target_arch = "x86_64")]
        Some(libc::SYS_open) => 1,
        Some(libc::SYS_openat) => 2,
        _ => return false,
    };
    let flags = words.nth(flags_at).and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    let flags = flags.unwrap_or_default() as i32;
    flags & (libc::O_CREAT | libc::O_EXCL | libc::O_PATH) == libc::O_CREAT
}

/// Whether this call asks for the target of a symlink in order to know it (readlink(2)), or is that of a file server in the kernel, and does not
/// follow it.
pub(super) fn is_readlink(call: &str) -> bool {
    const IN_THE_KERNEL: i64 = -1;
    let number = call.split_ascii_whitespace().next().and_then(|number| number.parse().ok());
    #[cfg(target_arch = "x86_64")]
    if number == Some(libc::SYS_readlink) {
        return true;
    }
    matches!(number, Some(libc::SYS_readlinkat | IN_THE_KERNEL))
}

/// Reads a text as each file of a thread in `/proc` that is read here.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_texts(text: &[u8]) {
    let _numbers = field(text, b"Groups:").split(u8::is_ascii_whitespace).count();
    let _read = (is_signalled(text), super::capabilities::ranges(text));
    if let Ok(call) = std::str::from_utf8(text) {
        let _read = (is_wait(call), has_creating_call(call), is_readlink(call));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_an_open_tell_whether_it_creates() {
        let openat =
            |flags: i32| format!("{} 0xffffff9c 0x7ffd {flags:#x} 0x1b6 0x0 0x0 0x7ffd 0x7f1", libc::SYS_openat);
        assert!(has_creating_call(&openat(libc::O_CREAT | libc::O_WRONLY)));
        for flags in [libc::O_RDWR, libc::O_CREAT | libc::O_EXCL, libc::O_CREAT | libc::O_PATH] {
            assert!(!has_creating_call(&openat(flags)), "{flags:o}");
        }
        for call in ["running", "", "-1 0x7ffd 0x7f1", "0 0x3 0x7f 0x41"] {
            assert!(!has_creating_call(call));
        }
        assert!(is_readlink(&format!("{} 0xffffff9c 0x7ffd 0x7ffd 0xff 0x0 0x0 0x1 0x2", libc::SYS_readlinkat)));
        assert!(is_readlink("-1 0x0 0x0") && !is_readlink(&openat(0)) && !is_readlink("running"));
    }

    #[test]
    fn the_command_tells_whose_lock_it_is() {
        assert_eq!(is_wait("72 0x3 0x7 0x7ffd8c0 0x0 0x0 0x0 0x7ffd8a8 0x7f1c2"), Some(true));
        assert_eq!(is_wait("72 0x3 0x26 0x7ffd8c0 0x0 0x0 0x0 0x7ffd8a8 0x7f1c2"), Some(false), "F_OFD_SETLKW");
        for unseen in ["running", "", "72 0x3", "72 0x3 zzz"] {
            assert_eq!(is_wait(unseen), None);
        }
        assert_eq!(waits_as_process(0, drop), Poll::Ready(None));
    }

    #[test]
    fn only_signals_that_are_caught_or_end_a_process_count() {
        let said = |pending: u64, shared: u64, blocked: u64, ignored: u64, caught: u64| {
            let status = format!(
                "Name:\tcat\nSigQ:\t0/15\nSigPnd:\t{pending:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\n\
                 SigIgn:\t{ignored:016x}\nSigCgt:\t{caught:016x}\n"
            );
            is_signalled(status.as_bytes()).expect("all masks")
        };
        let [int, kill, chld, stop, rtmax] = [2, 9, 17, 19, 64].map(|signal| 1_u64 << (signal - 1));
        assert!(said(kill, 0, 0, 0, 0) && said(0, int, 0, 0, 0) && said(rtmax, 0, 0, 0, 0));
        assert!(said(0, chld, 0, 0, chld), "it is caught");
        assert!(!said(0, 0, 0, 0, int | chld) && !said(stop, chld, 0, 0, int));
        assert!(!said(0, int, int, 0, int) && !said(0, int, 0, int, 0), "blocked or ignored");
        assert_eq!(has_signal(std::process::id()), Some(false));
        assert_eq!((has_signal(0), is_signalled(b"SigPnd:\t0\n")), (None, None));
    }
}
