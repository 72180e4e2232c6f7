//! `mv`, `ln` and `touch` without a mount, beside coreutils on one.

use super::shell::Shell;
use crate::common::server::{Mount, Site};
use crate::common::tree::{Times, list};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

fn plant(root: &Path) {
    fs::create_dir_all(root.join("dir/below")).expect("mkdir");
    fs::create_dir(root.join("full")).expect("mkdir");
    for name in ["a", "b", "dir/a", "full/x", "dir/below/deep"] {
        fs::write(root.join(name), name).expect("a file");
    }
    fs::hard_link(root.join("a"), root.join("again")).expect("link");
    symlink("dir", root.join("to-dir")).expect("symlink");
    symlink("nothing", root.join("dangling")).expect("symlink");
}

/// Each of these by our command on one file system, and by coreutils on another: both end alike, and so do the trees.
const CALLS: [&[&str]; 45] = [
    &["mv", "a", "c"],
    &["mv", "a", "b"],
    &["mv", "-n", "a", "b"],
    &["mv", "a", "dir"],
    &["mv", "a", "b", "dir"],
    &["mv", "-n", "a", "dir"],
    &["mv", "a", "to-dir"],
    &["mv", "-T", "a", "to-dir"],
    &["mv", "a", "again"],
    &["mv", "a", "a"],
    &["mv", "a", "./a"],
    &["mv", "dir/a", "to-dir/a"],
    &["mv", "dir", "full"],
    &["mv", "-T", "dir", "full"],
    &["mv", "full", "b"],
    &["mv", "missing", "a"],
    &["mv", "a", "missing/x"],
    &["mv", "a", "b", "missing"],
    &["mv", "dangling", "full"],
    &["mv", "dir", "dir/below"],
    &["mv", "dir/", "other/"],
    // Two sources of one name.
    &["mv", "a", "dir/a", "full"],
    &["mv", "dir/a", "a", "b", "full"],
    &["mv", "-n", "a", "dir/a", "full"],
    &["mv", "a", "a", "full"],
    &["mv", "a", "b", "dir/a", "missing", "full"],
    &["mv", "-n", "missing", "b"],
    &["mv", "-f", "missing", "b"],
    &["ln", "a", "dir/a", "full"],
    &["ln", "-f", "a", "dir/a", "full"],
    &["ln", "-f", "b", "a", "dir"],
    &["ln", "-sf", "a", "full/a", "full"],
    &["ln", "a", "c"],
    &["ln", "a", "b"],
    &["ln", "-f", "a", "b"],
    &["ln", "-f", "a", "again"],
    &["ln", "a", "b", "full"],
    &["ln", "dir", "linked"],
    &["ln", "-s", "b", "c"],
    &["ln", "-s", "b", "a"],
    &["ln", "-sf", "b", "a"],
    &["ln", "-s", "../b", "full"],
    &["ln", "-sfn", "full", "to-dir"],
    &["ln", "missing", "c"],
    &["ln", "a", "dangling"],
];

#[test]
fn names_move_as_with_coreutils() {
    const TEST: &str = "remote/moving::names_move_as_with_coreutils";
    let (Some(site), Some(other)) = (Site::new(TEST), Site::new(TEST)) else { return };
    let (ours, theirs) = (site.dev(&[]), other.dev(&[]));
    let shell = Shell::at(&site);
    for (n, words) in CALLS.iter().enumerate() {
        let place = |mount: &Mount| mount.path().join(n.to_string());
        [&ours, &theirs].map(place).iter().for_each(|root| plant(root));
        let (verb, args) = words.split_first().expect("a command");
        let status = Command::new(verb).args(args).current_dir(place(&theirs)).env("LC_ALL", "C").output();
        let status = status.expect("coreutils run");
        // Paths of ours begin at the root; the target of a symbolic link is what it is.
        let is_text = verb == &"ln" && words.iter().any(|word| word.starts_with("-s"));
        let paths = args.iter().filter(|word| !word.starts_with('-')).count();
        let mut seen = 0;
        let args: Vec<String> = args
            .iter()
            .map(|word| {
                seen += usize::from(!word.starts_with('-'));
                let is_path = !(word.starts_with('-') || is_text && seen < paths);
                if is_path { format!("{n}/{word}") } else { (*word).to_owned() }
            })
            .collect();
        let said = shell.run(verb, &args);
        assert_eq!(said.code, status.status.code(), "{words:?}: {said:?}, {status:?}");
        assert_eq!(said.code == Some(0), said.errors.is_empty(), "{words:?}: {said:?}");
        let (is, wanted) = (list(&place(&ours), Times::Ignored), list(&place(&theirs), Times::Ignored));
        crate::common::tree::assert_same(&format!("{words:?}"), &wanted, &is);
    }
    // coreutils of some years have no --exchange.
    shell.ok("mv", &["-T", "--exchange", "0/dir", "0/full"]);
    assert!(ours.path().join("0/full/below/deep").exists() && ours.path().join("0/dir/x").exists());
    // What is wrong is said of the path with which it is wrong.
    shell.fails(1, "mv", &["--exchange", "0/b", "0/missing"], &["0/missing: No such file"]);
    shell.fails(1, "mv", &["--exchange", "0/missing", "0/b"], &["0/missing: No such file"]);
    shell.fails(1, "mv", &["1/b", "1/missing/x"], &["1/missing/x: No such file"]);
    shell.fails(1, "mv", &["1/missing", "1/missing/x"], &["1/missing: No such file"]);
    shell.fails(1, "mv", &["-T", "2/dir", "2/full"], &["2/full: Directory not empty"]);
    shell.fails(1, "ln", &["1/b", "1/missing/x"], &["1/missing/x: No such file"]);
    shell.fails(1, "ln", &["1/b", "1/again"], &["1/again: File exists"]);
    shell.fails(1, "ln", &["1/missing", "1/new"], &["1/missing: No such file"]);
    shell.fails(1, "ln", &["-s", "onpath://127.0.0.1/x", "0/url"], &["is a URL"]);
    ours.stop();
    theirs.stop();
    site.assert_clean("after mv and ln");
}

/// A pattern stands for what is moved or linked; where it goes is one place.
#[test]
fn a_pattern_is_no_destination() {
    let Some(site) = Site::new("remote/moving::a_pattern_is_no_destination") else { return };
    let mount = site.dev(&[]);
    plant(mount.path());
    let at = |name: &str| mount.path().join(name);
    let shell = Shell::at(&site);
    let before = list(mount.path(), Times::Ignored);
    for verb in ["mv", "ln"] {
        shell.fails(1, verb, &["b", "[df][iu]*"], &["'[df][iu]*' fits 2 paths"]);
        shell.fails(1, verb, &["?", "again", "[df][iu]*"], &["fits 2 paths"]);
        shell.fails(1, verb, &["*", "none*"], &["'none*' is not a directory"]);
    }
    shell.fails(1, "ln", &["-f", "[ab]", "c"], &["c is not a directory: several links need one"]);
    crate::common::tree::assert_same("nothing is done", &before, &list(mount.path(), Times::Ignored));
    shell.ok("mv", &["[ab]", "fu*"]);
    assert!(at("full/a").exists() && at("full/b").exists() && !at("a").exists());
    shell.ok("mv", &["full/a", "new*"]);
    assert_eq!(fs::read(at("new*")).expect("a name that fits nothing"), b"a");
    mount.stop();
}

#[test]
fn times_are_set() {
    let Some(site) = Site::new("remote/moving::times_are_set") else { return };
    let mount = site.dev(&[]);
    let shell = Shell::at(&site);
    let times = |name: &str| {
        let is = fs::symlink_metadata(mount.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        (is.atime(), is.mtime())
    };
    let begin = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_secs() as i64;
    shell.ok("touch", &["new", "other"]);
    assert!(times("new").1 >= begin - 1 && mount.path().join("other").metadata().expect("stat").len() == 0);
    shell.ok("touch", &["-d", "@1000", "new"]);
    assert_eq!(times("new"), (1000, 1000));
    shell.ok("touch", &["-a", "-t", "197001010100", "new"]);
    assert_eq!(times("new"), (3600, 1000));
    shell.ok("touch", &["-m", "-d", "1970-01-02", "new"]);
    assert_eq!(times("new"), (3600, 86_400));
    shell.ok("touch", &["-r", "new", "other", "made"]);
    assert_eq!((times("other"), times("made")), (times("new"), times("new")));
    shell.ok("touch", &["-c", "absent"]);
    assert!(!mount.path().join("absent").exists());
    symlink("new", mount.path().join("link")).expect("symlink");
    shell.ok("touch", &["-h", "-d", "@7", "link"]);
    assert_eq!((times("link").1, times("new").1), (7, 86_400));
    shell.fails(1, "touch", &["missing/x", "new"], &["missing/x: No such file", "1 failure"]);
    shell.fails(1, "touch", &["-d", "some day", "new"], &["is no time"]);
    shell.fails(1, "touch", &["-r", "absent", "new"], &["absent: No such file"]);
    mount.stop();
}
