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

/// Whether both are the same, but for what the kernel decides before it asks a FUSE server (docs/semantics.md, Deviations).
fn is_same(local: &str, here: &str) -> bool {
    let fields = |line: &str| line.split(" | ").map(str::to_owned).collect::<Vec<_>>();
    let (local, here) = (fields(local), fields(here));
    let [call, result, after] = [1, 3, 4].map(|field| (local[field].as_str(), here[field].as_str()));
    let both_refused = [result.0, result.1].iter().all(|errno| ["EACCES", "EPERM"].contains(errno));
    // It looks at O_NOATIME and at devices first, and takes file capabilities before it asks for a chown or a truncate.
    let before = matches!(call.0, "open noatime" | "device") && after.0 == after.1;
    let takes = (call.0.starts_with("chown") || call.0 == "truncate")
        && after.0.trim_end_matches(" caps") == after.1.trim_end_matches(" caps");
    local == here || local[..3] == here[..3] && both_refused && (before || takes)
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
    let differing: Vec<_> = local.iter().zip(&here).filter(|(local, here)| !is_same(local, here)).collect();
    let shown: Vec<_> =
        differing.iter().take(20).map(|(local, here)| format!("tmpfs: {local}\nhere:  {here}")).collect();
    assert!(differing.is_empty(), "{} of {} calls differ:\n{}", differing.len(), here.len(), shown.join("\n"));
}
