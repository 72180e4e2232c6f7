//! Copies that are killed, or whose server is, and run again.

use crate::common::server::{Mount, binary};
use crate::common::{Over, process, sys, wait_until};
use crate::tools::copies::{look, marks, plant, prepared};
use crate::tools::{json, onpath, said, text};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Size of the file during whose copy is killed.
const LARGE: u64 = 192 << 20;

fn copying(verb: &str, source: &Path, destination: &Path) -> Child {
    let mut command = Command::new(binary());
    command.args([verb, "--jobs", "2"]).arg(source).arg(destination).stdout(Stdio::null()).stderr(Stdio::null());
    process::spawn(&mut command).expect("onpath starts")
}

fn kill(mut child: Child) {
    child.kill().expect("kill of our child");
    child.wait().expect("wait of our child");
}

/// What is being copied into a directory.
fn parts(dir: &Path) -> Vec<std::path::PathBuf> {
    let names = sys::names(dir).unwrap_or_default();
    let parts = names.iter().filter(|name| name.to_string_lossy().starts_with(".onpath-part-"));
    parts.map(|name| dir.join(name)).collect()
}

/// A file of so many bytes, none of which is 0.
pub(crate) fn large(source: &Path, size: u64) {
    let file = fs::File::create(source.join("large")).expect("a file");
    let mut bytes = vec![0; 1 << 20];
    for at in (0..size).step_by(1 << 20) {
        bytes.iter_mut().enumerate().for_each(|(n, byte)| *byte = (n as u64 * 31 + at / 4096) as u8 | 1);
        file.write_all_at(&bytes, at).expect("write");
    }
}

#[test]
fn a_killed_copy_goes_on() {
    let Some((site, mount, source)) = prepared("a killed import") else { return };
    for number in 0..4 {
        plant(&source.join(format!("more{number}")));
    }
    large(&source, LARGE);
    let there = mount.path().join("copy");
    // Killed whenever, several times; then in the middle of the large file.
    for entries in [1, 3, 5] {
        let child = copying("import", &source, &there);
        wait_until("the copy has begun", || sys::names(&there).is_ok_and(|names| names.len() > entries));
        kill(child);
        assert_eq!(marks(&there).len(), 1, "an unfinished copy is marked");
    }
    let half = || parts(&there).iter().any(|part| fs::metadata(part).is_ok_and(|stat| stat.len() > LARGE / 8));
    let child = copying("import", &source, &there);
    wait_until("the large file is being copied, or was", || half() || there.join("large").exists());
    kill(child);
    let (begun, was_half) = (fs::metadata(there.join("large")).is_ok(), half());
    let copied = json(&["import", text(&source), text(&there)]);
    if was_half && !begun {
        assert!(copied["resumed"].as_u64() >= Some(1), "{copied}");
        assert!(copied["bytes"].as_u64() < Some(LARGE), "what was there is not written again: {copied}");
    }
    assert_eq!(look(&there), look(&source));
    assert_eq!(same_bytes(&there.join("large"), &source.join("large")), Ok(()));
    assert!(marks(&there).is_empty());
    assert_eq!(json(&["import", "--verify", text(&source), text(&there)])["files"].as_u64(), Some(0));
    mount.stop();
    site.assert_clean("after killed imports");
}

fn same_bytes(a: &Path, b: &Path) -> Result<(), String> {
    let status = Command::new("cmp").arg(a).arg(b).status().expect("cmp runs");
    if status.success() { Ok(()) } else { Err(format!("{status}")) }
}

/// Parts of states that a source is not in any more go away.
#[test]
fn parts_of_what_has_changed_go() {
    let Some((_site, mount, source)) = prepared("parts of changed files") else { return };
    large(&source, LARGE);
    let there = mount.path().join("copy");
    let child = copying("import", &source, &there);
    wait_until("the large file is being copied", || {
        parts(&there).iter().any(|part| fs::metadata(part).is_ok_and(|stat| stat.len() > LARGE / 8))
    });
    kill(child);
    assert!(!parts(&there).is_empty(), "a part is left");
    fs::write(source.join("large"), "another state").expect("write");
    let back = source.with_file_name("back");
    json(&["export", text(&there), text(&back)]);
    assert!(parts(&back).is_empty() && marks(&back).is_empty(), "what is unfinished is not copied");
    json(&["import", text(&source), text(&there)]);
    assert_eq!(parts(&there), [] as [std::path::PathBuf; 0]);
    assert_eq!(look(&there), look(&source));
    mount.stop();
}

/// The server is killed under a copy: started again, everything goes on.
#[test]
fn a_killed_server_under_a_copy() {
    let Some((site, mut mount, source)) = prepared("an import whose server is killed") else { return };
    for number in 0..4 {
        plant(&source.join(format!("more{number}")));
    }
    for _ in 0..2 {
        let there = mount.path().join("copy");
        let child = copying("import", &source, &there);
        wait_until("the copy has begun", || sys::names(&there).is_ok_and(|names| names.len() > 2));
        site.kill_server(&mut mount);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(1), "its mount is gone");
        mount = site.dev(&[]);
    }
    let there = mount.path().join("copy");
    let copied = onpath(&["import", text(&source), text(&there)]);
    assert!(copied.status.success(), "{}", said(&copied));
    assert_eq!(look(&there), look(&source));
    stop(mount);
    site.assert_clean("after an import whose server was killed");
}

fn stop(mount: Mount) {
    mount.stop();
}

/// Files that others write while they are copied are copied as they are in the end, or it is said that they could not be.
#[test]
fn others_write_what_is_copied() {
    let Some((site, mount, source)) = prepared("an import of what changes") else { return };
    let there = mount.path().join("copy");
    let over = Over::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0_u64;
            while !over.is() {
                number += 1;
                fs::write(source.join("sub/f39"), number.to_string().repeat(100)).expect("write");
                let _ = fs::remove_file(source.join("sub/f38"));
            }
        });
        let _end = over.at_end();
        for _ in 0..5 {
            let output = onpath(&["import", text(&source), text(&there)]);
            let told = said(&output).contains("others go on writing") || said(&output).contains("No such file");
            assert!(output.status.success() || told, "{}", said(&output));
        }
    });
    json(&["import", text(&source), text(&there)]);
    assert_eq!(fs::read(there.join("sub/f39")).expect("read"), fs::read(source.join("sub/f39")).expect("read"));
    mount.stop();
    site.assert_clean("after an import of what changes");
}
