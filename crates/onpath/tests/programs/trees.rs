//! tar and rsync of a source tree: contents, modes, links, and the times of everything, directories included.

use crate::common::server::Site;
use crate::common::sys::{self, at};
use crate::common::tree::{Times, assert_same, list};
use crate::common::user::ALICE;
use crate::programs::{installed, sh};
use std::fs;
use std::path::{Path, PathBuf};

/// How often the sources are in the tree.
const COPIES: usize = 4;

/// The tree: this workspace's own sources, several times, and what is rare in sources.
fn make_tree(top: &Path) {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/");
    for copy in 0..COPIES {
        copy_sources(crates, &top.join(format!("copy{copy}")));
    }
    let odd = top.join("odd");
    fs::create_dir(&odd).expect("mkdir");
    fs::create_dir(odd.join("empty")).expect("mkdir");
    fs::write(odd.join("nothing"), "").expect("a file");
    fs::write(odd.join("name with spaces and ünïcode\n"), "x").expect("a file");
    fs::write(odd.join("n".repeat(255)), "long").expect("a file");
    fs::write(odd.join("large"), "0123456789abcdef".repeat(400_000)).expect("a file");
    sys::symlink("../copy0", odd.join("symlink")).expect("symlink");
    sys::symlink("nowhere/".repeat(100), odd.join("dangling")).expect("symlink");
    sys::link(odd.join("large"), odd.join("hard link")).expect("link");
    sys::mkfifo(odd.join("fifo"), 0o640).expect("mkfifo");
    let sparse = fs::File::create(odd.join("sparse")).expect("a file");
    sparse.set_len(9 << 20).expect("truncate");
    sys::pwrite(&sparse, "island", 5 << 20).expect("pwrite");
    sys::chown(odd.join("nothing"), ALICE.uid, ALICE.gid).expect("chown");
    sys::chmod(odd.join("nothing"), 0o4751).expect("chmod");
    sys::chmod(&odd, 0o1775).expect("chmod");
    set_times(top);
}

fn copy_sources(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("mkdir");
    for name in sys::names(from).expect("readdir of the sources") {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            copy_sources(&from, &to);
        } else {
            fs::copy(&from, &to).expect("copy");
        }
    }
}

/// Every object gets an mtime of its own, with nanoseconds; directories after what is in them.
fn set_times(top: &Path) {
    let mut paths: Vec<PathBuf> = list(top, Times::Ignored).into_keys().collect();
    paths.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
    for (n, path) in (0_i64..).zip(paths) {
        let time = at(1_000_000_000 + n * 86_400, 123_456_789 + n);
        sys::lutimens(top.join(path), [time, time]).expect("utimensat");
    }
}

#[test]
fn tar() {
    if !installed("tar on the mount", &["tar"]) {
        return;
    }
    let Some(site) = Site::new("tar on the mount") else { return };
    let mount = site.dev(&[]);
    let (tree, archive) = (site.root().join("tree"), site.root().join("tree.tar"));
    make_tree(&tree);
    sh(&tree, r#"tar --format=posix --sparse -cf "$1" ."#, &[&archive]);
    let (local, there) = (site.root().join("local"), mount.path().join("there"));
    for target in [&local, &there] {
        fs::create_dir(target).expect("mkdir");
        sh(target, r#"tar -xpf "$1""#, &[&archive]);
    }
    assert_same("tar x", &list(&local, Times::Mtime), &list(&there, Times::Mtime));
    assert_same("tar x", &list(&tree, Times::Mtime), &list(&there, Times::Mtime));
    let again = site.root().join("again.tar");
    sh(&there, r#"tar --format=posix --sparse -cf "$1" . && tar -df "$2""#, &[&again, &archive]);
    sh(&mount.path().join("."), "rm -rf there && test -z \"$(ls -A)\"", &[]);
    mount.stop();
    site.assert_clean("after tar");
}

#[test]
fn rsync() {
    if !installed("rsync on the mount", &["rsync"]) {
        return;
    }
    let Some(site) = Site::new("rsync on the mount") else { return };
    let mount = site.dev(&[]);
    let (tree, there) = (site.root().join("tree"), mount.path().join("there"));
    make_tree(&tree);
    // Without a window below zero, two times of one second are the same to rsync, and it leaves such a directory as it is.
    let copy = r#"rsync -aH --modify-window=-1 --checksum --itemize-changes "$1/" "$2/""#;
    sh(site.root(), copy, &[&tree, &there]);
    assert_same("rsync", &list(&tree, Times::Mtime), &list(&there, Times::Mtime));
    assert_eq!(sh(site.root(), copy, &[&tree, &there]), "", "a second rsync finds nothing to do");
    fs::write(tree.join("odd/nothing"), "something").expect("a file");
    fs::remove_dir_all(tree.join("copy1")).expect("rm");
    fs::rename(tree.join("copy2"), tree.join("renamed")).expect("rename");
    sh(site.root(), r#"rsync -aH --checksum --delete "$1/" "$2/""#, &[&tree, &there]);
    // rsync leaves the time of the top alone when it deletes in it, on any file system.
    let [expected, got] = [&tree, &there].map(|top| {
        let mut listing = list(top, Times::Mtime);
        listing.remove(Path::new(""));
        listing
    });
    assert_same("rsync --delete", &expected, &got);
    let back = site.root().join("back");
    sh(site.root(), copy, &[&there, &back]);
    assert_same("rsync back", &list(&there, Times::Mtime), &list(&back, Times::Mtime));
    mount.stop();
    site.assert_clean("after rsync");
}
