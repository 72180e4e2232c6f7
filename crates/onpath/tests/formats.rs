//! A DIR of another format is told by its version, and is left as it is.

use crate::common::server::{Site, binary};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

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
