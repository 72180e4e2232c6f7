//! What cannot be done is told, with what to do about it; nothing is half done.

use crate::common::server::{Site, is_mounted};
use crate::common::sys;
use crate::common::user::ALICE;
use crate::tools::copies::{look, marks, plant, prepared};
use crate::tools::{json, onpath, said, text};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

#[track_caller]
fn assert_refused(args: &[&str], words: &[&str]) {
    let output = onpath(args);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {}", said(&output));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(words.iter().all(|words| error.contains(words)), "{args:?}: {error}");
    assert!(!error.contains("panicked"), "{error}");
}

#[test]
fn bad_arguments() {
    let Some((_site, mount, source)) = prepared("bad arguments of tools") else { return };
    let (inside, outside) = (text(mount.path()), text(&source));
    assert_refused(&["rmr", "/"], &["root of everything"]);
    assert_refused(&["rmr", &format!("{inside}/..")], &["name the directory itself"]);
    assert_refused(&["import", outside, "/tmp/onpath-is-not-mounted-here"], &["not on a mount of Onpath"]);
    assert_refused(&["export", outside, inside], &["not on a mount of Onpath"]);
    assert_refused(&["import", &format!("{outside}/missing"), inside], &["cannot find", "missing"]);
    assert_refused(&["import", &format!("{outside}/seven"), inside], &["not a directory"]);
    assert_refused(&["export", inside, &format!("{inside}/copy")], &["within each other"]);
    symlink(&source, source.join("linked")).expect("symlink");
    assert_eq!(sys::lchown(source.join("linked"), ALICE.uid, ALICE.gid), Ok(()));
    let linked = source.join("linked/sub");
    assert_refused(&["import", text(&linked), inside], &["linked", "symbolic link of user 65501", "give the path"]);
    assert_refused(&["export", inside, text(&linked)], &["linked", "symbolic link of user 65501", "give the path"]);
    assert_refused(&["chmod", "999", inside], &[]);
    assert_refused(&["chown", "no-such-user-here", inside], &["no-such-user-here"]);
    assert_refused(&["find", inside, "--larger", "much"], &["no size"]);
    assert_refused(&["df", "/no/where"], &["/no/where"]);
    assert_refused(&["du", &format!("{inside}/nothing"), inside], &["nothing", "1 failure"]);
    assert_refused(&["du", "--jobs", "0", inside], &["jobs"]);
    mount.stop();
}

/// What stands in the way of a directory is not removed.
#[test]
fn something_in_the_way() {
    let Some((_site, mount, source)) = prepared("something in the way of an import") else { return };
    let there = mount.path().join("copy");
    fs::create_dir(&there).expect("mkdir");
    fs::write(there.join("sub"), "a file").expect("a file");
    assert_refused(&["import", text(&source), text(&there)], &["sub", "something else has its name", "1 failure"]);
    assert!(there.join("seven").exists() && marks(&there).len() == 1, "everything else is done");
    fs::remove_file(there.join("sub")).expect("unlink");
    json(&["import", text(&source), text(&there)]);
    assert_eq!(look(&there), look(&source));
    mount.stop();
}

/// A full disk ends a copy with words; with room it goes on where it was.
#[test]
fn a_full_disk() {
    let Some(site) = Site::new("an import into a full file system") else { return };
    let small = site.root().join("small");
    fs::create_dir(&small).expect("mkdir");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=96m", "onpath-test"]).arg(&small).status();
    assert!(mounted.is_ok_and(|status| status.success()), "tmpfs");
    let mount = site.dev_on(&small.join("state"), &["--shards", "1"]);
    let source = site.root().join("source");
    plant(&source);
    fs::write(source.join("sub/huge"), vec![7; 120 << 20]).expect("a file");
    let there = mount.path().join("copy");
    assert_refused(&["import", text(&source), text(&there)], &["No space left", "make room"]);
    fs::remove_file(source.join("sub/huge")).expect("unlink");
    assert!(onpath(&["rmr", text(&there)]).status.success(), "removing works on a full disk");
    json(&["import", text(&source), text(&there)]);
    assert_eq!(look(&there), look(&source));
    mount.stop();
    let unmounted = Command::new("umount").arg("-l").arg(&small).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
}

/// On a read-only mount and on one whose server is gone.
#[test]
fn mounts_that_do_not_take_it() {
    let Some((site, mut mount, source)) = prepared("tools on a dead mount") else { return };
    let second = site.mount(1, &["-o", "ro"]);
    let there = second.path().join("copy");
    assert_refused(&["import", text(&source), text(&there)], &["Read-only"]);
    json(&["import", text(&source), text(&mount.path().join("copy"))]);
    assert_refused(&["rmr", text(&there)], &["Read-only", "remount"]);
    assert_refused(&["chmod", "-R", "700", text(&there)], &["Read-only"]);
    second.stop();
    mount.kill();
    assert_refused(&["df", text(mount.path())], &["onpath umount --lazy"]);
    assert_refused(&["du", text(mount.path())], &["not connected", "onpath dev"]);
    assert!(onpath(&["umount", "--lazy", text(mount.path())]).status.success());
    assert!(!is_mounted(mount.path()));
}
