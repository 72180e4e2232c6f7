//! Supplementary groups of a process, as the kernel knows them at this moment (FUSE.md §2).
//!
//! Read for each request for which they decide, never cached: setgroups(2) must take effect at once.

use std::fs;

/// The supplementary gids of a thread; none if it has ended, has no id here (0: it lives outside of our pid
/// namespace) or cannot be read. Who has no groups gets no more than "other" may.
pub fn supplementary_groups(pid: u32) -> Vec<u32> {
    if pid == 0 {
        return Vec::new();
    }
    fs::read_to_string(format!("/proc/{pid}/status")).map_or_else(|_| Vec::new(), |status| parse(&status))
}

fn parse(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    line.map_or_else(Vec::new, |gids| gids.split_ascii_whitespace().filter_map(|gid| gid.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_from_the_status_of_a_thread() {
        assert_eq!(parse("Name:\tx\nGroups:\t4 24 1000 \nNStgid:\t7\n"), [4, 24, 1000]);
        assert_eq!(parse("Name:\tx\nGroups:\t \n"), [0u32; 0]);
        let own = fs::read_to_string("/proc/self/status").unwrap();
        assert_eq!(supplementary_groups(std::process::id()), parse(&own));
        assert_eq!(supplementary_groups(0), [0u32; 0]);
        assert_eq!(supplementary_groups(u32::MAX), [0u32; 0]);
    }
}
