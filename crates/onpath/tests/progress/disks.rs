//! Work on the directory of a file system that nobody serves: fsck, reshape, format. The directory lies on a mount that stands still.

use super::{Inner, text};
use crate::common::running::{On, Running};
use crate::common::server::{Site, run};
use std::fs;
use std::path::Path;

/// Starts it on a terminal and with a log, on a disk that does not answer; gives what both have said at the end.
fn drawn_and_told(test: &str, words: &[&str], work: &str) -> Option<[String; 2]> {
    let site = Site::new(test)?;
    let inner = Inner::new(&site, 2);
    let still = inner.stands_still();
    let of = |on: On, dir: &Path| Running::start(on, &[&words[..1], &[text(dir)], &words[1..]].concat());
    let (drawn, told) = (of(On::Terminal, &inner.dirs[0]), of(On::Log, &inner.dirs[1]));
    drawn.wait_for(&format!("{work} "));
    told.wait_for(&format!("onpath: {work} for 1"));
    drop(still);
    let said = [drawn, told].map(|running| {
        let ended = running.succeeds();
        let summary = ended.error.lines().find(|line| line.contains(&format!("onpath: {work} took ")));
        summary.unwrap_or_else(|| panic!("no summary: {}", ended.error)).to_owned()
    });
    inner.stop();
    Some(said)
}

#[test]
fn a_check() {
    let Some(summaries) = drawn_and_told("progress of fsck", &["fsck", "--data"], "checking") else { return };
    for summary in summaries {
        for stage in ["reading the checkpoint ", "replaying the journal ", "sorting ", "comparing ", " blocks)"] {
            assert!(summary.contains(stage), "{stage}: {summary}");
        }
    }
}

#[test]
fn a_reshape() {
    let words = ["reshape", "--shards", "3"];
    let Some(summaries) = drawn_and_told("progress of reshape", &words, "reshaping") else { return };
    for summary in summaries {
        for stage in ["replaying the journal ", "writing the checkpoint ", "moving "] {
            assert!(summary.contains(stage), "{stage}: {summary}");
        }
    }
}

/// A format has nothing to show: it writes the same few bytes however many shards there are.
#[test]
fn a_format() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let formatted = |shards: &str| {
        let dir = root.path().join(shards);
        let output = run(["format".as_ref(), dir.as_os_str(), "--shards".as_ref(), shards.as_ref()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut found: Vec<(String, u64)> = Vec::new();
        for entry in fs::read_dir(&dir).expect("DIR") {
            let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).expect("an entry");
            let name = name.into_string().expect("text");
            if path.is_dir() {
                assert_eq!(fs::read_dir(&path).expect("a directory").count(), 0, "{name} is empty");
            }
            let bytes = path.metadata().ok().filter(|about| about.is_file()).map_or(0, |about| about.len());
            found.push((name, bytes));
        }
        found.sort();
        found
    };
    let (one, many) = (formatted("1"), formatted("256"));
    assert_eq!(one, many);
    assert!(many.iter().map(|(_, bytes)| bytes).sum::<u64>() < 4096, "{many:?}");
}
