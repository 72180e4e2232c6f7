//! The screen.

use super::summary::{HostLine, MountLine, Pending, Slow, Summary};
use comfy_table::{Table, presets};
use indicatif::{BinaryBytes, HumanCount};
use onpath_wire::shown::Shown;
use std::fmt::Write;

/// How a file system is, for people.
pub(super) fn text(summary: &Summary) -> String {
    let mut text = format!("{}: {}\n", summary.what.shown(), summary.state.word());
    for reason in &summary.reasons {
        let _ = writeln!(text, "  ! {reason}");
    }
    if summary.hosts.iter().all(|host| host.age_seconds.is_none()) {
        text.truncate(text.trim_end().len());
        return text;
    }
    let capacity = &summary.capacity;
    let used = capacity.size_bytes.saturating_sub(capacity.free_bytes);
    let part = 100.0 * used as f64 / capacity.size_bytes.max(1) as f64;
    let lines = [
        (
            "capacity",
            format!(
                "{} of {} used ({part:.0} %), {} files and directories",
                BinaryBytes(used),
                BinaryBytes(capacity.size_bytes),
                HumanCount(capacity.inodes)
            ),
        ),
        (
            "activity",
            format!(
                "{:.0} operations/s, {} requests in progress",
                summary.operations_per_second, summary.requests_running
            ),
        ),
        ("pending", pending(&summary.pending)),
        ("slow", slow(&summary.slow)),
    ];
    for (name, what) in lines {
        let _ = writeln!(text, "{name:<9} {what}");
    }
    text.push('\n');
    text.push_str(&hosts(&summary.hosts, summary.hosts_known));
    text.push('\n');
    text.push_str(&mounts(&summary.mounts, summary.mounts_present));
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn pending(pending: &Pending) -> String {
    let updates = match pending.updates {
        0 => "no updates".to_owned(),
        updates => format!("{} updates, the oldest for {:.1} s", HumanCount(updates), pending.oldest_seconds),
    };
    format!(
        "{updates}; {} batches not on stable storage; {} of {} until a checkpoint, the last one {} ago",
        HumanCount(pending.volatile_batches),
        BinaryBytes(pending.checkpoint_bytes),
        BinaryBytes(pending.checkpoint_due_bytes),
        age(pending.checkpoint_age_seconds)
    )
}

fn slow(slow: &[Slow]) -> String {
    if slow.is_empty() {
        return "nothing: no request has waited for a second".to_owned();
    }
    let one = |slow: &Slow| {
        format!(
            "{} has {} requests waiting, the oldest for {:.1} s",
            slow.mount.shown(),
            slow.waiting,
            slow.oldest_seconds
        )
    };
    slow.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// A time in its two largest units.
pub(super) fn age(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3_600 => format!("{} min {} s", whole / 60, whole % 60),
        3_600..86_400 => format!("{} h {} min", whole / 3_600, whole % 3_600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3_600),
    }
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    table.column_iter_mut().for_each(|column| _ = column.set_padding((0, 2)));
    table
}

/// What another process tells of itself, in a table.
fn cell(told: &str) -> String {
    if told.is_empty() { String::new() } else { told.shown().to_string() }
}

fn hosts(hosts: &[HostLine], known: usize) -> String {
    let mut table = table(&["host", "address", "roles", "up", "version", "disk"]);
    for host in hosts {
        let up = match host.age_seconds {
            Some(seconds) => age(seconds),
            None if host.answers => "hangs".to_owned(),
            None => host.silent_seconds.map_or("silent".to_owned(), |seconds| format!("silent for {}", age(seconds))),
        };
        let disk = match host.size_bytes {
            0 => String::new(),
            size => format!("{} free of {}", BinaryBytes(host.free_bytes), BinaryBytes(size)),
        };
        let version = host.version.as_deref().unwrap_or_default();
        table.add_row([cell(&host.name), cell(&host.address), host.roles.clone(), up, cell(version), disk]);
    }
    format!("{table}\n{}", more(known, hosts.len()))
}

fn mounts(mounts: &[MountLine], present: usize) -> String {
    if mounts.is_empty() {
        return "no mounts".to_owned();
    }
    let with_keys = mounts.iter().any(|mount| mount.key.is_some());
    let mut header = vec!["mount", "process", "up", "version", "operations/s", "heard"];
    header.extend(with_keys.then_some("key"));
    let mut table = table(&header);
    for mount in mounts {
        let heard = mount.heard_seconds as u64; // whatever was told
        let heard = if heard < 2 { "now".to_owned() } else { format!("{heard} s ago") };
        let rate = format!("{:.0}", mount.operations_per_second);
        let (up, version) = (age(mount.age_seconds), cell(&mount.version));
        let mut row = vec![cell(&mount.mount), mount.pid.to_string(), up, version, rate, heard];
        row.extend(with_keys.then(|| cell(mount.key.as_deref().unwrap_or("-"))));
        table.add_row(row);
    }
    format!("{table}\n{}", more(present, mounts.len()))
}

fn more(all: usize, shown: usize) -> String {
    if all > shown { format!("and {} more\n", all - shown) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_cannot_be_are_shown() {
        let shown = |seconds: f64| {
            let mount = MountLine {
                mount: "m:/m".to_owned(),
                pid: 1,
                version: String::new(),
                key: None,
                age_seconds: seconds,
                operations_per_second: seconds,
                heard_seconds: seconds,
            };
            mounts(&[mount], 1)
        };
        assert!(shown(-5.0).contains("now") && shown(f64::NAN).contains("now"));
        assert!(shown(7.9).contains("7 s ago") && shown(1e300).contains("s ago"));
    }
}
