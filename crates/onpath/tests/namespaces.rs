//! What a mount does for callers that it cannot see: it runs in a pid namespace of its own, they do not.

use crate::common::server::{Site, binary, is_mounted};
use crate::common::user::{ALICE, ALICE_IN_TEAM, BOB, ROOT, TEAM};
use crate::common::{skipped, sys, tool, wait_until};
use std::fs::{self, File};
use std::process::{Command, Stdio};

#[test]
fn a_mount_in_a_pid_namespace_says_what_it_does_not_see_and_refuses() {
    const TEST: &str = "a mount in a pid namespace";
    let Some(site) = Site::new(TEST) else { return };
    if ["unshare", "umount"].into_iter().any(|name| tool(name).is_none()) {
        return skipped(TEST, "unshare or umount is missing");
    }
    sys::umask(0);
    let (dir, mountpoint, log) = (site.state(), site.mountpoint(0), site.root().join("said"));
    fs::create_dir_all(&mountpoint).expect("mkdir");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child"]).arg(binary()).arg("dev").args([&dir, &mountpoint]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).expect("a file"));
    let mut server = command.spawn().expect("unshare runs");
    wait_until("it is mounted", || is_mounted(&mountpoint));
    // It is said when the kernel has told the mount its protocol, which may be after the mount is seen.
    wait_until("it says what it does not see", || {
        let said = fs::read_to_string(&log).expect("text");
        said.contains("pid namespace") && said.contains("--pid=host")
    });

    let file = |name: &str, mode, uid, gid| {
        let path = mountpoint.join(name);
        fs::write(&path, name).expect("a file");
        sys::chmod(&path, mode).expect("chmod");
        sys::chown(&path, uid, gid).expect("root gives away nothing here, but what it owns");
        path
    };
    // Root owns what it makes, and root is who it is by its uid.
    let own = file("own", 0o600, 0, 0);
    assert_eq!(ROOT.run(|| fs::read(&own)).expect("the owner reads"), b"own");
    assert!(fs::write(mountpoint.join("new"), "x").is_ok());
    sys::chmod(&mountpoint, 0o777).expect("the owner changes it");
    // What capabilities would allow is refused: nobody can tell whether this root has them.
    let theirs = ALICE.run(|| {
        let path = mountpoint.join("theirs");
        fs::write(&path, "theirs").expect("a file");
        sys::chmod(&path, 0o600).expect("chmod");
        path
    });
    assert_eq!(ALICE.run(|| fs::read(&theirs)).expect("the owner reads"), b"theirs");
    let refused =
        |errno: Option<i32>, what: &str| assert!([Some(libc::EACCES), Some(libc::EPERM)].contains(&errno), "{what}");
    refused(fs::read(&theirs).expect_err("refused").raw_os_error(), "read");
    refused(sys::chown(&own, ALICE.uid, 0).expect_err("refused").into(), "chown");
    // Supplementary groups cannot be seen either; the primary one is told.
    let team = BOB.run(|| {
        let path = mountpoint.join("team");
        fs::write(&path, "team").expect("a file");
        path
    });
    let bob_of_team = crate::common::user::User { gid: TEAM, ..BOB };
    bob_of_team.run(|| sys::chown(&team, u32::MAX, TEAM)).expect("to their own primary group");
    BOB.run(|| sys::chmod(&team, 0o640)).expect("chmod");
    let alice_of_team = crate::common::user::User { gid: TEAM, ..ALICE };
    assert_eq!(alice_of_team.run(|| fs::read(&team)).expect("by the primary group"), b"team");
    refused(ALICE_IN_TEAM.run(|| fs::read(&team)).expect_err("refused").raw_os_error(), "by a supplementary group");

    assert!(Command::new("umount").arg(&mountpoint).status().expect("umount runs").success());
    assert!(server.wait().expect("it ends").success());
    site.assert_clean("after a mount in a pid namespace");
}
