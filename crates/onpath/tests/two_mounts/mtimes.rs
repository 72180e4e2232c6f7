//! Programs that go by times of modification, on one mount, while files are written on the other: whoever has answered a write, its time is
//! later than all that was there before (R-19, V-7).

use super::Pair;
use crate::programs::{installed, sh};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How often a file is written and looked at.
const ROUNDS: usize = 20;
/// Writes of a round, so many that a data node answers the last ones by itself where it may.
const WRITES: usize = 8;
const BYTES: usize = 4_096;

/// Writes all of an open file anew; not closed, as by a program that goes on.
fn write(file: &File, round: usize) {
    let letter = b'a' + (round % 26) as u8;
    for number in 0..WRITES {
        file.write_all_at(&[letter; BYTES], (number * BYTES) as u64).expect("a write");
    }
}

/// make(1) builds again what the other mount has written since, and nothing else; and the other mount finds what was built.
#[test]
fn make_goes_by_what_the_other_mount_wrote() {
    const TEST: &str = "make beside another mount";
    if !installed(TEST, &["make"]) {
        return;
    }
    let Some(pair) = Pair::new(TEST, &[]) else { return };
    let [here, there] = pair.both("project");
    std::fs::create_dir(&here).expect("mkdir");
    std::fs::write(here.join("Makefile"), "out: in\n\tcp in out && echo built\n").expect("a file");
    let source = File::create(there.join("in")).expect("a file");
    let built = |dir: &Path| sh(dir, "make -s out", &[]).contains("built");
    for round in 0..ROUNDS {
        write(&source, round);
        assert!(
            built(&here),
            "round {round}: what the other mount has written is newer than what was built of it before"
        );
        assert!(!built(&there), "round {round}: what was built is newer than its source");
        assert_eq!(std::fs::read(there.join("out")).ok(), std::fs::read(here.join("in")).ok(), "round {round}");
        assert!(!built(&here), "round {round}: nothing was written since");
    }
    drop(source);
    pair.stop("after make");
}

/// rsync(1) finds by times what the other mount has written since, sizes being the same, and nothing else.
#[test]
fn rsync_goes_by_what_the_other_mount_wrote() {
    const TEST: &str = "rsync beside another mount";
    if !installed(TEST, &["rsync"]) {
        return;
    }
    let Some(pair) = Pair::new(TEST, &[]) else { return };
    let [here, there] = pair.both("tree");
    std::fs::create_dir(&here).expect("mkdir");
    let files: Vec<File> = (0..3).map(|n| File::create(there.join(format!("f{n}"))).expect("a file")).collect();
    files.iter().for_each(|file| write(file, 0));
    let copy = |dir: &Path| {
        // Without a window below zero, two times of one second are the same to rsync.
        let said = sh(dir, "rsync -a --modify-window=-1 --out-format=%n --include='f*' --exclude='*' ./ ../copy/", &[]);
        said.lines().filter(|name| name.starts_with('f')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(copy(&here), ["f0", "f1", "f2"]);
    for round in 1..ROUNDS {
        let (dir, other, name) = if round % 2 == 0 { (&here, &there, "f0") } else { (&there, &here, "f2") };
        write(&files[if round % 2 == 0 { 0 } else { 2 }], round);
        assert_eq!(copy(dir), [name], "round {round}: the one that was written");
        assert_eq!(copy(other), [""; 0], "round {round}: its copy has its time");
        let of = |top: &str| std::fs::read(other.parent().expect("a mount").join(top).join(name)).ok();
        assert_eq!(of("tree"), of("copy"), "round {round}");
    }
    drop(files);
    pair.stop("after rsync");
}
