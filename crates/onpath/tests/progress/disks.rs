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

/// A format has nothing to show: it writes a few bytes, however many shards there are.
#[test]
fn a_format() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let formatted = |shards: &str| {
        let dir = root.path().join(shards);
        let output = run(["format".as_ref(), dir.as_os_str(), "--shards".as_ref(), shards.as_ref()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let files = files_below(&dir);
        assert!(files.iter().map(|(_, bytes)| bytes).sum::<u64>() < 16 << 10, "{files:?}");
        files.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(formatted("1"), formatted("256"));
}

/// Names and sizes of all files below a directory, sorted.
fn files_below(dir: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).expect("an entry");
        let name = name.into_string().expect("text");
        match path.metadata().expect("what it is") {
            about if about.is_dir() => found.extend(files_below(&path)),
            about => found.push((name, about.len())),
        }
    }
    found.sort();
    found
}
