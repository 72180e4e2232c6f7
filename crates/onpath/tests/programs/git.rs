//! git: clone, fsck, checkout back and forth, gc.

use crate::common::server::Site;
use crate::common::tree::{Times, assert_same, list};
use crate::programs::{installed, prose, sh};
use std::fmt::Write;
use std::fs;
use std::path::Path;

const COMMITS: u64 = 200;

/// A history for `git fast-import`: every commit changes a few files in several directories, some are removed again.
fn history() -> String {
    let mut stream = String::new();
    for commit in 0..COMMITS {
        let message = format!("Change number {commit}\n");
        writeln!(stream, "commit refs/heads/main\ncommitter A <a@example.org> {} +0000", 1_700_000_000 + commit * 60)
            .expect("a string grows");
        writeln!(stream, "data {}\n{message}", message.len()).expect("a string grows");
        for change in 0..4 {
            let number = commit * 4 + change;
            let text = prose(number, 5 + (number as usize * 7) % 60);
            let path = format!("dir{}/sub{}/file{}.txt", number % 5, number % 11, number % 307);
            let mode = if number.is_multiple_of(13) { "100755" } else { "100644" };
            writeln!(stream, "M {mode} inline {path}\ndata {}\n{text}", text.len()).expect("a string grows");
        }
        if commit % 9 == 8 {
            writeln!(stream, "M 120000 inline link{commit}\ndata 9\ndir0/sub0").expect("a string grows");
        }
    }
    stream
}

fn worktree_of(clone: &Path) -> crate::common::tree::Listing {
    let mut listing = list(clone, Times::Ignored);
    listing.retain(|path, _| !path.starts_with(".git"));
    listing
}

#[test]
fn clone_fsck_and_checkout() {
    if !installed("git on the mount", &["git"]) {
        return;
    }
    let Some(site) = Site::new("git on the mount") else { return };
    let mount = site.dev(&[]);
    let (stream, origin, local) =
        (site.root().join("history"), site.root().join("origin.git"), site.root().join("local"));
    fs::write(&stream, history()).expect("the history");
    let import = r#"git init -q --bare -b main "$2" && git -C "$2" fast-import --quiet < "$1""#;
    sh(site.root(), import, &[&stream, &origin]);
    let clone = mount.path().join("clone");
    for target in [&local, &clone] {
        sh(site.root(), r#"git clone -q "file://$1" "$2""#, &[&origin, target]);
    }
    assert_same("the cloned worktree", &worktree_of(&local), &worktree_of(&clone));
    let clean = "git fsck --full --strict 2>&1; git status --porcelain";
    assert_eq!(sh(&clone, clean, &[]), sh(&local, clean, &[]), "fsck and status after the clone");
    for target in [&local, &clone] {
        sh(target, "git config user.name A; git config user.email a@example.org", &[]);
        sh(target, "git checkout -q HEAD~150 && git checkout -q -b side HEAD~20 && git rm -q -r dir1", &[]);
        sh(target, "GIT_COMMITTER_DATE='1800000000 +0000' git commit -q -m side --date='1800000000 +0000'", &[]);
        sh(target, "git repack -q -a -d && git gc -q --prune=now && git pack-refs --all", &[]);
    }
    assert_same("the worktree of another branch", &worktree_of(&local), &worktree_of(&clone));
    let all = format!("{clean}; git rev-parse HEAD main side; git log --format=%H --all | sort; git grep -c shard");
    assert_eq!(sh(&clone, &all, &[]), sh(&local, &all, &[]), "fsck and history after gc");
    sh(site.root(), r#"git clone -q "$1" "$2" && git -C "$2" fsck --full"#, &[&clone, &site.root().join("back")]);
    mount.stop();
    site.assert_clean("after git");
}
