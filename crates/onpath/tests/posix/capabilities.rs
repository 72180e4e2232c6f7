//! capabilities(7) and user_namespaces(7): the same calls on a tmpfs and here, by callers of every kind.

use crate::posix::prelude::*;
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/posix/capabilities.py");

/// What came of every call: caller, call, mode and owner of its object | result | what is there afterwards.
fn calls(dir: &Path) -> Vec<String> {
    let output = Command::new("python3").arg(SCRIPT).arg(dir).output().expect("python3 runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

/// Who may do what to whose object: as capabilities and user namespace of the caller say, whatever its uid.
#[test]
fn as_on_a_local_file_system() {
    let d = area!();
    let tmpfs = tempfile::tempdir_in("/dev/shm").expect("a directory");
    if !is_tmpfs(&Dir::at(tmpfs.path().into())) || crate::common::tool("python3").is_none() {
        return skipped("capabilities", "/dev/shm is no tmpfs, or python3 is not installed");
    }
    let (local, here) = (calls(tmpfs.path()), calls(d.path()));
    assert!(here.len() == local.len() && here.len() > 10_000, "{} and {}", here.len(), local.len());
    let differing: Vec<_> = local.iter().zip(&here).filter(|(local, here)| local != here).collect();
    let shown: Vec<_> =
        differing.iter().take(20).map(|(local, here)| format!("tmpfs: {local}\nhere:  {here}")).collect();
    assert!(differing.is_empty(), "{} of {} calls differ:\n{}", differing.len(), here.len(), shown.join("\n"));
}
