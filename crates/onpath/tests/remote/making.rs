//! `mkdir`, `rm` and their kin without a mount.

use super::make_tree;
use super::shell::Shell;
use crate::common::server::Site;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).mode() & 0o7777
}

#[test]
fn directories_are_made() {
    let Some(site) = Site::new("remote/making::directories_are_made") else { return };
    let mount = site.dev(&[]);
    let shell = Shell::at(&site);
    let at = |name: &str| mount.path().join(name);
    shell.ok("mkdir", &["one", "/two"]);
    shell.ok("mkdir", &["-p", "one", "three/deep/down/"]);
    shell.ok("mkdir", &["-m", "2750", "set"]);
    shell.ok("mkdir", &["-p", "-m", "u=rwx,go=", "four/deep"]);
    let umask = mode(&at("one")) ^ 0o777;
    for (name, bits) in
        [("two", 0o777 & !umask), ("three/deep/down", 0o777 & !umask), ("set", 0o2750), ("four/deep", 0o700)]
    {
        assert_eq!(mode(&at(name)), bits, "{name}");
    }
    fs::write(at("file"), "x").expect("a file");
    let said = shell.fails(1, "mkdir", &["one", "missing/new", "five"], &["one: File exists", "2 failures"]);
    assert!(said.errors.contains("missing/new: No such file") && at("five").is_dir(), "{said:?}");
    shell.fails(1, "mkdir", &["-p", "file"], &["file: File exists"]);
    shell.fails(1, "mkdir", &["-p", "file/below"], &["file: File exists"]);
    shell.fails(1, "mkdir", &["-m", "nonsense", "six"], &["is no mode"]);
    assert!(!at("six").exists());
    mount.stop();
}

#[test]
fn names_are_removed() {
    let Some(site) = Site::new("remote/making::names_are_removed") else { return };
    let mount = site.dev(&[]);
    make_tree(mount.path());
    let shell = Shell::at(&site);
    let at = |name: &str| mount.path().join(name);
    fs::create_dir(at("empty")).expect("mkdir");
    shell.ok("rm", &["a/to-file", "fifo", "dangling"]);
    assert!(at("a/b/c/file").exists() && at("fifo").symlink_metadata().is_err());
    let said = shell.fails(1, "rm", &["missing", "a", "a/second", "empty"], &["3 failures"]);
    assert!(said.errors.contains("/a: Is a directory") && at("a/second").symlink_metadata().is_err(), "{said:?}");
    shell.ok("rm", &["-f", "missing", "also-missing", "a/b/c/file/x", "missing/x"]);
    shell.ok("rm", &["-rf", "a/b/c/file/x"]);
    shell.fails(1, "rm", &["-f", "a/b/c/file/x", "slash/"], &["slash/: Not a directory", "1 failure"]);
    shell.fails(1, "rm", &["a/b/c/file/x"], &["a/b/c/file/x: Not a directory"]);
    assert!(at("a/b/c/file").exists());
    shell.ok("rm", &["-d", "empty"]);
    shell.fails(1, "rm", &["-d", "a"], &["/a: Directory not empty"]);
    shell.fails(1, "rm", &["slash/"], &["slash/: Not a directory"]);
    mount.stop();
    site.assert_clean("after rm");
}
