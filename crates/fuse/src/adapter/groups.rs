//! The supplementary groups of a caller. Read only when they decide: it costs as much as half a create.

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
