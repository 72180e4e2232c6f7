//! What the kernel does not say of a caller, read from /proc: supplementary groups, and for which kind of lock it waits. Read only
//! when that decides: it costs as much as half a create.

use std::fs;

/// The supplementary gids of thread `pid`; none if it is 0 (not visible from here) or gone.
pub fn supplementary_groups(pid: u32) -> Vec<u32> {
    if pid == 0 {
        return Vec::new();
    }
    let status = fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = status.split(|byte| *byte == b'\n');
    let groups = lines.find_map(|line| line.strip_prefix(b"Groups:")).unwrap_or_default();
    let numbers = groups.split(u8::is_ascii_whitespace).filter_map(|number| std::str::from_utf8(number).ok());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

/// Commands of fcntl(2) by which a process waits for a lock of its own: F_SETLKW, also as 32-bit programs call it.
const WAITS: [u64; 2] = [7, 14];

/// Whether thread `pid` waits for a record lock of its process, and not for one of an open file (F_OFD_SETLKW): a request of the kernel
/// names an owner, which may be either. Nothing if that cannot be seen.
pub fn waits_as_process(pid: u32) -> Option<bool> {
    is_wait(&fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default())
}

/// The system call that a thread is in, as /proc shows it: number, then arguments in hexadecimal.
fn is_wait(call: &str) -> Option<bool> {
    let command = call.split_ascii_whitespace().nth(2)?.strip_prefix("0x")?;
    Some(WAITS.contains(&u64::from_str_radix(command, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_tells_whose_lock_it_is() {
        assert_eq!(is_wait("72 0x3 0x7 0x7ffd8c0 0x0 0x0 0x0 0x7ffd8a8 0x7f1c2"), Some(true));
        assert_eq!(is_wait("72 0x3 0x26 0x7ffd8c0 0x0 0x0 0x0 0x7ffd8a8 0x7f1c2"), Some(false), "F_OFD_SETLKW");
        for unseen in ["running", "", "72 0x3", "72 0x3 zzz"] {
            assert_eq!(is_wait(unseen), None);
        }
        assert_eq!(waits_as_process(0), None);
    }
}
