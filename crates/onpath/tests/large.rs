//! A tree that is larger than the memory it may take: everything is found, listed and changed as if it were in memory, also after
//! a kill. `ONPATH_LARGE_FILES` and `ONPATH_LARGE_MEMORY` make it large (`just large`).

use crate::common::server::{Mount, Site, status_of};
use crate::common::{number_from_env, report, wait_until, xattr};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Files of a directory.
const FAN: usize = 1000;
/// One of so many files has bytes.
const WITH_BYTES: usize = 10;
/// One of so many files has an extended attribute, and its bytes are read.
const LOOKED_AT: usize = 50;
/// Of so many files one is moved, one removed and one changed.
const TOUCHED: usize = 97;

fn directory(top: &Path, number: usize) -> PathBuf {
    top.join(format!("{}/{number}", number / 100))
}

fn path(top: &Path, file: usize) -> PathBuf {
    directory(top, file / FAN).join(format!("file-{file:09}"))
}

fn moved(top: &Path, file: usize) -> PathBuf {
    directory(top, (file + FAN) / FAN % 2).join(format!("moved-{file:09}"))
}

fn bytes_of(file: usize) -> String {
    if file.is_multiple_of(WITH_BYTES) { format!("bytes of {file}") } else { String::new() }
}

/// What became of a file.
enum Fate {
    As(PathBuf, u32),
    Gone(PathBuf),
}

fn fate(top: &Path, file: usize, touched: bool) -> Fate {
    match file % TOUCHED {
        1 if touched => Fate::As(moved(top, file), 0o644),
        2 if touched => Fate::Gone(path(top, file)),
        3 if touched => Fate::As(path(top, file), 0o600),
        _ => Fate::As(path(top, file), 0o644),
    }
}

/// Every name leads to its file, or nowhere; every directory lists what is in it, each once.
fn check(top: &Path, files: usize, touched: bool) {
    let mut listed: BTreeSet<PathBuf> = BTreeSet::new();
    for number in 0..files.div_ceil(FAN) {
        for entry in fs::read_dir(directory(top, number)).expect("a listing") {
            assert!(listed.insert(entry.expect("an entry").path()), "listed twice");
        }
    }
    for file in 0..files {
        match fate(top, file, touched) {
            Fate::As(path, mode) => {
                let about = fs::symlink_metadata(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                assert_eq!(about.mode() & 0o7777, mode, "{}", path.display());
                assert_eq!(about.len(), bytes_of(file).len() as u64, "{}", path.display());
                if file.is_multiple_of(LOOKED_AT) {
                    assert_eq!(fs::read_to_string(&path).expect("a file"), bytes_of(file));
                    let number = xattr::getxattr(&path, "user.number").expect("an attribute");
                    assert_eq!(number, file.to_string().into_bytes());
                }
                assert!(listed.remove(&path), "{} is not listed", path.display());
            }
            Fate::Gone(path) => assert!(!fs::exists(&path).expect("lookup"), "{}", path.display()),
        }
    }
    assert!(listed.is_empty(), "listed, but never made: {:?}", listed.first());
}

/// Whether the objects that shards and data nodes have in memory take no more than each host may use.
fn keeps_to(site: &Site, memory: usize) -> bool {
    let states = site.states();
    states.iter().all(|state| status_of(state).expect("status").sum("", &["object_bytes"]) <= memory as u64)
}

fn rss_kib(mount: &Mount) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", mount.pid())).expect("the server's status");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("VmRSS");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

#[test]
fn more_files_than_memory() {
    let Some(site) = Site::new("more files than memory") else { return };
    let files = number_from_env("ONPATH_LARGE_FILES", 40_000);
    let memory = number_from_env("ONPATH_LARGE_MEMORY", 2 << 20);
    let limit = memory.to_string();
    let journal = (memory / 4).clamp(1 << 16, 64 << 20).to_string();
    let args = ["--shards", "2", "--meta-memory", &limit, "--checkpoint-bytes", &journal];
    let mut mount = site.dev(&args);
    let top = mount.path().to_owned();
    let begin = Instant::now();
    for number in 0..files.div_ceil(FAN) {
        fs::create_dir_all(directory(&top, number)).expect("mkdir");
    }
    for file in 0..files {
        let mut made = File::create(path(&top, file)).expect("create");
        if file.is_multiple_of(WITH_BYTES) {
            made.write_all(bytes_of(file).as_bytes()).expect("write");
        }
        if file.is_multiple_of(LOOKED_AT) {
            xattr::fsetxattr(&made, "user.number", file.to_string()).expect("setxattr");
        }
    }
    report(&format!("large: {files} files made in {:?}, RSS {} KiB", begin.elapsed(), rss_kib(&mount)));
    wait_until("the shards keep to their memory", || keeps_to(&site, memory));
    check(&top, files, false);
    wait_until("the shards keep to their memory again", || keeps_to(&site, memory));
    report(&format!("large: all found, RSS {} KiB", rss_kib(&mount)));

    for file in 0..files {
        match file % TOUCHED {
            1 => fs::rename(path(&top, file), moved(&top, file)).expect("rename"),
            2 => fs::remove_file(path(&top, file)).expect("unlink"),
            3 => fs::set_permissions(path(&top, file), fs::Permissions::from_mode(0o600)).expect("chmod"),
            _ => {}
        }
    }
    site.kill_server(&mut mount);
    let begin = Instant::now();
    let mount = site.dev(&args);
    fs::symlink_metadata(path(&top, files - 4)).expect("the first answer");
    report(&format!("large: first answer {:?} after the start that followed a kill", begin.elapsed()));
    check(&top, files, true);
    mount.stop();
    let begin = Instant::now();
    let mount = site.dev(&args);
    fs::symlink_metadata(path(&top, files - 4)).expect("the first answer");
    report(&format!("large: first answer {:?} after a start that followed a stop", begin.elapsed()));
    mount.stop();
    site.assert_clean("of a large tree");
}
