//! How a mount ends: whoever comes next waits for the server, umount(8) needs none, and other mount namespaces keep nobody.

use crate::common::server::{Mount, Site, binary};
use crate::common::{process, wait_until};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

/// Runs a command that must end soon; what it said.
fn soon(program: &str, args: &[&str]) -> Output {
    let _others = NAMESPACE.read().unwrap_or_else(PoisonError::into_inner);
    let output = Command::new("timeout").arg("30").arg(program).args(args).output().expect("timeout runs");
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    output
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of UTF-8")
}

/// A mountpoint that was unmounted can be mounted again at once: the next server waits for the one before.
#[test]
fn a_start_waits_for_the_server_before() {
    let Some(site) = Site::new("a start waits for the server before") else { return };
    let mut mount = site.dev(&[]);
    for round in 0..10 {
        fs::write(mount.path().join(format!("f{round}")), "kept").expect("write");
        soon("umount", &[text(mount.path())]);
        let next = site.dev(&[]);
        // It has let go of DIR; that its mountpoint is another's now is none of its business.
        drop(mount);
        assert_eq!(fs::read(next.path().join(format!("f{round}"))).expect("read"), b"kept");
        mount = next;
    }
    mount.stop();
    site.assert_clean("after ten starts");
}

/// Who is waited for is said, if it takes a moment; one that goes on serving is not waited for long.
#[test]
fn a_start_says_whom_it_waits_for() {
    let Some(site) = Site::new("a start says whom it waits for") else { return };
    let state = site.state();
    let mount = site.dev(&[]);
    let try_start = || {
        let mut command = Command::new("timeout");
        command
            .args(["60", binary(), "dev"])
            .arg(&state)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        process::spawn(&mut command).expect("onpath starts")
    };
    let refused = try_start().wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("is in use by process"), "{said}");
    mount.stop();
    // A process that takes its time: it holds the lock, and says that it is ending.
    let lock = File::options().read(true).write(true).open(state.join("lock")).expect("the lock");
    lock.lock().expect("nobody has it");
    fs::write(state.join("lock"), "77 ending\n").expect("write");
    let mut next = try_start();
    let mut said = std::io::BufReader::new(next.stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("waiting for the process") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut said, &mut line).expect("it says something") > 0, "it has ended");
    }
    assert!(line.contains("77"), "{line}");
    drop(lock);
    wait_until("it serves", || crate::common::server::status_of(&state).is_some());
    process::send(next.id().cast_signed(), libc::SIGTERM);
    assert!(next.wait().expect("it ends").success());
}

/// `onpath umount` returns when DIR is free.
#[test]
fn umount_returns_when_the_server_has_ended() {
    let Some(site) = Site::new("umount returns when the server has ended") else { return };
    for round in 0..5 {
        let mount = site.dev(&[]);
        if !tells_connections(&mount) {
            crate::common::skipped(
                "umount_returns_when_the_server_has_ended",
                "this kernel does not tell who serves a mount",
            );
            return mount.stop();
        }
        fs::write(mount.path().join(format!("f{round}")), "kept").expect("write");
        soon(binary(), &["umount", text(mount.path())]);
        let lock = File::open(site.state().join("lock")).expect("the lock");
        lock.try_lock().expect("nobody has it any more");
        drop(lock);
        mount.ends();
    }
}

/// Whether the kernel tells by which process a FUSE file system is served.
fn tells_connections(mount: &Mount) -> bool {
    let infos = fs::read_dir(format!("/proc/{}/fdinfo", mount.pid())).expect("fdinfo");
    infos.flatten().any(|info| fs::read_to_string(info.path()).is_ok_and(|text| text.contains("fuse_connection")))
}

/// A mount whose server has ended for good is unmounted by umount(8), which asks for attributes of the root.
#[test]
fn without_a_server_umount_succeeds() {
    let Some(site) = Site::new("without a server umount succeeds") else { return };
    for asked in [true, false] {
        let server = site.dev(&[]);
        let second = site.mount(1, &[]);
        let before = asked.then(|| second.path().metadata().expect("stat"));
        let path = second.path().to_owned();
        server.stop();
        wait_until("the server is missed", || second.said().contains("the server is gone"));
        if let Some(before) = before {
            let told = soon("stat", &["-c", "%i %a", text(&path)]);
            let mode = std::os::unix::fs::PermissionsExt::mode(&before.permissions()) & 0o7777;
            let wanted = format!("{} {mode:o}\n", std::os::unix::fs::MetadataExt::ino(&before));
            assert_eq!(String::from_utf8_lossy(&told.stdout), wanted, "what was known last");
        }
        soon("umount", &[text(&path)]);
        second.ends();
    }
}

/// A process that has a mount in a mount namespace of its own.
struct Holder(Child);

/// A new mount namespace has all mounts for a moment: no other test unmounts meanwhile, or its server would go on for that namespace.
static NAMESPACE: RwLock<()> = RwLock::new(());

/// Keeps one mount, so that those of other tests end as if there were no such namespace.
const HOLD: &str = r#"
    while read -r _ mountpoint kind _; do
        [ "$kind" = fuse.onpath ] && [ "$mountpoint" != "$1" ] && umount -l "$mountpoint"
    done </proc/mounts
    exec sleep 300
"#;

impl Holder {
    fn new(mount: &Mount) -> Option<Holder> {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", HOLD, "sh"]).arg(mount.path());
        command.stdin(Stdio::null());
        let _alone = NAMESPACE.write().unwrap_or_else(PoisonError::into_inner);
        let holder = Holder(process::spawn(&mut command).ok()?);
        let own = fs::read_link("/proc/self/ns/mnt").ok()?;
        let pid = holder.0.id();
        wait_until("it has a namespace of its own, or cannot", || {
            let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            comm.trim() == "sleep" || stat.contains(") Z ")
        });
        let there = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let has = there.contains(text(mount.path()));
        (has && fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()? != own).then_some(holder)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Another mount namespace has the mount: the server says who, and ends.
#[test]
fn other_mount_namespaces_keep_no_server() {
    const TEST: &str = "other mount namespaces keep no server";
    let Some(site) = Site::new(TEST) else { return };
    for serves in [true, false] {
        let server = site.dev(&[]);
        let second = (!serves).then(|| site.mount(1, &[]));
        let mount = second.as_ref().unwrap_or(&server);
        let Some(holder) = Holder::new(mount) else {
            crate::common::skipped(TEST, "no mount namespaces can be made");
            return;
        };
        mount.signal(libc::SIGTERM);
        let who = format!("sleep (pid {}", holder.0.id());
        wait_until("it says who has it", || mount.said().contains(&who));
        let begun = std::time::Instant::now();
        match second {
            Some(second) => {
                second.ends();
                server.stop();
            }
            None => server.ends(),
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        drop(holder);
    }
    site.assert_clean("after namespaces");
}
