//! A DIR of another format is told by its version, and is left as it is; one of this format is read, whichever build has written it.

use crate::common::check::content;
use crate::common::repository;
use crate::common::server::{Site, assert_clean, binary};
use crate::common::xattr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, UNIX_EPOCH};

fn run(args: &[&str], state: &Path, more: Option<&Path>) -> Output {
    Command::new(binary()).args(args).arg(state).args(more).output().expect("onpath runs")
}

#[test]
fn of_the_first_version() {
    let Some(site) = Site::new("a DIR of the first format") else { return };
    let state = site.state();
    site.dev(&[]).stop();
    let mut superblock = fs::read(state.join("superblock")).expect("the superblock");
    superblock[8..12].copy_from_slice(&1u32.to_le_bytes());
    fs::write(state.join("superblock"), &superblock).expect("write of the superblock");
    let mountpoint = site.mountpoint(1);
    for (args, more) in [(&["dev"][..], Some(&*mountpoint)), (&["fsck"], None), (&["fsck", "--repair"], None)] {
        let output = run(args, &state, more);
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(!output.status.success(), "{args:?}: {said}");
        for part in ["has format version 1, this program reads version 2", "onpath export", "onpath import"] {
            assert!(said.contains(part), "{args:?} without {part:?}: {said}");
        }
    }
    assert_eq!(fs::read(state.join("superblock")).expect("the superblock"), superblock, "it was left as it is");
}

/// A DIR that a build of this format has written stays readable by later ones, which add fields and kinds of records: half of it is in a
/// checkpoint, the other half in the journal of a process that was killed. How it was made stands in `tests/data/format-2.sh`.
#[test]
fn of_this_version() {
    let Some(site) = Site::new("a DIR that another build has written") else { return };
    let (data, state) = (repository().join("crates/onpath/tests/data"), site.state());
    fs::create_dir_all(&state).expect("mkdir of DIR");
    let unpacked = Command::new("tar").arg("-xzf").arg(data.join("format-2.tar.gz")).arg("-C").arg(&state).status();
    assert!(unpacked.expect("tar runs").success());
    assert_clean(&state, "before anything is changed");
    let mount = site.dev(&["--shards", "2"]);
    let listing = || {
        let mut find = Command::new("find");
        find.arg(mount.path()).args(["-mindepth", "1", "-printf", "%P %y %m %n %U %G %s %i >%l\n"]);
        let mut lines: Vec<String> = String::from_utf8(find.output().expect("find runs").stdout)
            .expect("text")
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines
    };
    let written = fs::read_to_string(data.join("format-2.listing")).expect("the listing");
    assert_eq!(listing(), written.lines().collect::<Vec<_>>());
    for (name, bytes) in [
        ("checkpointed/a/b/c/text", "written by checkpointed\n"),
        ("journaled/third", "written by checkpointed\n"),
        ("journaled/other/also", "written by journaled\n"),
        ("checkpointed/grows", "short\nmore\n"),
        ("journaled/grows2", "replaced\n"),
        ("journaled/other/here/n9", "9\n"),
    ] {
        assert_eq!(content(mount.path().join(name)), bytes.as_bytes(), "{name}");
    }
    for half in ["checkpointed", "journaled"] {
        let of = |name: &str| mount.path().join(half).join(name);
        assert_eq!(content(of("a/twenty")), vec![b'x'; 20_000]);
        let hole = content(of("a/hole"));
        assert!(hole.len() == 1 << 20 && hole.ends_with(b"\0end") && hole[..hole.len() - 3].iter().all(|b| *b == 0));
        let modified = fs::metadata(of("a/hole")).expect("stat").modified().expect("a time");
        assert_eq!(modified, UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789));
        let value = xattr::getxattr(of("a/b/c/text"), "user.color");
        assert_eq!(value, Ok(b"blue".to_vec()));
    }
    fs::write(mount.path().join("new"), "of the later build").expect("a write");
    mount.stop();
    site.assert_clean("after a later build has changed it");
}
