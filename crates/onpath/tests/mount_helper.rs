//! `mount.onpath` as mount(8) and fstab call it, processes in the background, and the unit of systemd.

use crate::common::server::{Site, binary, is_mounted, run};
use crate::common::{process, skipped, sys, tool, wait_until};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A directory that holds the helper by the names that mount(8) looks for.
fn helpers(site: &Site) -> PathBuf {
    let dir = site.root().join("sbin");
    fs::create_dir(&dir).expect("mkdir");
    for name in ["mount.onpath", "mount.fuse.onpath"] {
        std::os::unix::fs::symlink(binary(), dir.join(name)).expect("symlink");
    }
    dir
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs the helper itself.
fn helper(dir: &Path, args: &[&OsStr]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-k", "2", "30"]).arg(dir.join("mount.onpath")).args(args).stdin(Stdio::null());
    command.output().expect("timeout and the helper run")
}

#[track_caller]
fn assert_code(what: &str, output: &Output, code: i32, words: &[&str]) {
    assert_eq!(output.status.code(), Some(code), "{what}: {}", said(output));
    assert!(words.iter().all(|words| said(output).contains(words)), "{what}: {}", said(output));
}

/// Runs a script in a mount namespace of its own, in which mount(8) finds the helpers. `$1` is the mountpoint, `$2` DIR.
fn in_namespace(site: &Site, script: &str) -> Output {
    const BEGIN: &str = r#"
        set -eu
        mount --bind "$3" "$(readlink -f /sbin)"
        trap 'umount -l "$1" 2>/dev/null || true' EXIT
        "#;
    let mut command = Command::new("timeout");
    command.args(["-k", "2", "60", "unshare", "-m", "sh", "-c"]).arg(format!("{BEGIN}{script}")).arg("sh");
    command.arg(site.mountpoint(1)).arg(site.state()).arg(helpers(site)).stdin(Stdio::null());
    command.env("FSTAB", site.root().join("fstab")).output().expect("unshare runs")
}

fn cannot_enter_namespaces(test: &str) -> bool {
    let missing = ["unshare", "mount", "umount"].into_iter().find(|name| tool(name).is_none());
    if let Some(name) = missing {
        skipped(test, &format!("{name} is missing"));
    }
    missing.is_some()
}

/// Waits until the process that served DIR has let go of it.
fn wait_until_free(site: &Site) {
    wait_until("DIR is free", || run(["fsck".as_ref(), site.state().as_os_str()]).status.success());
}

#[test]
fn a_line_of_fstab() {
    let Some(site) = Site::new("a line of fstab") else { return };
    if cannot_enter_namespaces("a line of fstab") {
        return;
    }
    let mount = site.dev(&[]);
    fs::write(mount.path().join("there"), "before").expect("a file");
    let line = "onpath _netdev,nofail,noatime,soft,x-systemd.requires=onpath@srv-onpath.service 0 0";
    let (dir, mountpoint) = (site.state(), site.mountpoint(1));
    let fstab = format!("{} {} {line}\n", dir.display(), mountpoint.display());
    fs::write(site.root().join("fstab"), fstab).expect("fstab");
    let output = in_namespace(
        &site,
        r#"
        mount -T "$FSTAB" -a
        grep " $1 " /proc/self/mountinfo
        cat "$1/there"
        echo after >"$1/here"
        mount -T "$FSTAB" -a # is a no-op
        test "$(grep -c " $1 " /proc/self/mountinfo)" = 1
        umount "$1"
        mount -T "$FSTAB" "$1"
        cat "$1/here"
        umount "$1"
        "#,
    );
    assert!(output.status.success(), "{}", said(&output));
    let said = said(&output);
    assert!(said.contains(" - fuse.onpath ") && said.contains("noatime"), "{said}");
    assert!(said.contains(text(&dir)) && said.contains("before") && said.contains("after"), "{said}");
    assert!(!is_mounted(&mountpoint), "only in its own namespace");
    assert_eq!(fs::read(mount.path().join("here")).expect("read"), b"after\n");
    mount.stop();
    site.assert_clean("after a line of fstab");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}

/// Devices work as mount(8) is told; it tells nothing of what is the default anyway.
#[test]
fn devices_as_mount_is_told() {
    let Some(site) = Site::new("devices of mounts") else { return };
    if cannot_enter_namespaces("devices of mounts") {
        return;
    }
    let mount = site.dev(&[]);
    let output = in_namespace(
        &site,
        r#"
        for options in defaults dev rw nodev,dev; do
            mount -t onpath -o $options "$2" "$1"
            test -e "$1/zero" || mknod -m 600 "$1/zero" c 1 5
            test "$(head -c 3 "$1/zero" | wc -c)" = 3
            umount "$1"
        done
        for options in nodev nodev,exec; do
            mount -t onpath -o $options "$2" "$1"
            if head -c 3 "$1/zero"; then exit 9; fi
            mount -o remount,dev "$1"
            test "$(head -c 3 "$1/zero" | wc -c)" = 3
            mount -o remount,nodev "$1"
            if head -c 3 "$1/zero"; then exit 9; fi
            umount "$1"
        done
        "#,
    );
    assert!(output.status.success(), "{}", said(&output));
    assert!(std::fs::File::open(mount.path().join("zero")).is_ok(), "the default of `onpath dev`");
    mount.stop();
}

#[test]
fn remounted_read_only() {
    let Some(site) = Site::new("remount") else { return };
    if cannot_enter_namespaces("remount") {
        return;
    }
    let mount = site.dev(&[]);
    let output = in_namespace(
        &site,
        r#"
        mount -t onpath -v "$2" "$1"
        touch "$1/f"
        mount -o remount,ro "$1"
        if touch "$1/g"; then exit 9; fi
        mount -o remount,rw "$1"
        touch "$1/h"
        umount "$1"
        "#,
    );
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("Read-only"), "{}", said(&output));
    assert_eq!(sys::names(mount.path()).expect("readdir").len(), 2);
    mount.stop();
}

/// `mount -o serve` of a formatted DIR is all that one mount of a local disk needs.
#[test]
fn a_mount_that_serves() {
    let Some(site) = Site::new("a mount that serves") else { return };
    if cannot_enter_namespaces("a mount that serves") {
        return;
    }
    let formatted = run(["format".as_ref(), site.state().as_os_str(), "--shards=3".as_ref()]);
    assert!(formatted.status.success() && said(&formatted).contains("3 shards"), "{}", said(&formatted));
    let again = run(["format".as_ref(), site.state().as_os_str()]);
    assert!(!again.status.success() && said(&again).contains("left alone"), "{}", said(&again));
    let output = in_namespace(
        &site,
        r#"
        mount -t onpath -o serve,commit=sync,nosuid "$2" "$1"
        echo kept >"$1/f"
        grep " $1 " /proc/self/mountinfo
        mkdir "$1.second"
        mount -t onpath -o serve "$2" "$1.second" # somebody serves it: attaches
        cat "$1.second/f"
        umount "$1.second" "$1"
        "#,
    );
    assert!(output.status.success() && said(&output).contains("nosuid"), "{}", said(&output));
    assert!(said(&output).contains("kept"), "{}", said(&output));
    wait_until_free(&site);
    let mount = site.dev(&["--shards", "3"]);
    assert_eq!(fs::read(mount.path().join("f")).expect("read"), b"kept\n");
    mount.stop();
}

#[test]
fn exit_codes_of_mount() {
    let Some(site) = Site::new("exit codes of mount") else { return };
    let sbin = helpers(&site);
    let (dir, mountpoint) = (site.state(), site.mountpoint(1));
    let paths = [dir.as_os_str(), mountpoint.as_os_str()];
    let call = |args: &[&str]| {
        let all: Vec<&OsStr> = paths.into_iter().chain(args.iter().map(OsStr::new)).collect();
        helper(&sbin, &all)
    };
    assert_code("no arguments", &helper(&sbin, &[]), 1, &["SRC", "DIR"]);
    assert_code("its version", &helper(&sbin, &["-V".as_ref()]), 0, &["mount.onpath"]);
    assert_code("nobody serves", &call(&[]), 32, &[text(&dir), "onpath dev", "-o serve"]);
    assert_code("no file system", &call(&["-o", "serve"]), 32, &[text(&dir)]);
    let mount = site.dev(&[]);
    assert_code("an unknown option", &call(&["-o", "rw,frobnicate"]), 1, &["frobnicate", "known are"]);
    assert_code("a value too many", &call(&["-o", "soft=1"]), 1, &["soft"]);
    assert_code("a value too few", &call(&["-o", "log"]), 1, &["log=VALUE"]);
    assert_code("only as if", &call(&["-f", "-o", "noexec"]), 0, &["would run onpath mount"]);
    assert!(!is_mounted(&mountpoint), "-f mounts nothing");
    assert_code("missing mountpoint", &helper(&sbin, &[paths[0], "/no/where".as_ref()]), 32, &["/no/where"]);
    let started = call(&["-s", "-n", "-v", "-t", "onpath", "-o", "frobnicate,noexec,soft"]);
    assert_code("unknown but sloppy", &started, 0, &["mounted on"]);
    assert!(is_mounted(&mountpoint));
    assert_code("already mounted", &call(&[]), 32, &[text(&mountpoint), "already mounted"]);
    let unmounted = run(["umount".as_ref(), mountpoint.as_os_str()]);
    assert!(unmounted.status.success() && !is_mounted(&mountpoint), "{}", said(&unmounted));
    assert_code("not mounted", &run(["umount".as_ref(), mountpoint.as_os_str()]), 32, &["not an Onpath mount"]);
    mount.stop();
}

/// Who is not root may not mount, and is told so.
#[test]
fn not_root() {
    let Some(site) = Site::new("mounting as another user") else { return };
    let Some(setpriv) = tool("setpriv") else { return skipped("mounting as another user", "setpriv is missing") };
    // The binary may be where only root gets to.
    let copy = site.root().join("mount.onpath");
    process::copy_program(binary(), &copy);
    let mount = site.dev(&[]);
    let output = Command::new(setpriv)
        .args(["--reuid=65534", "--clear-groups", "timeout", "20"])
        .arg(&copy)
        .args([site.state(), site.mountpoint(1)])
        .output()
        .expect("setpriv runs");
    let code = output.status.code().unwrap_or_default();
    assert!([1, 32].contains(&code) && !said(&output).contains("panicked"), "{}", said(&output));
    assert!(said(&output).contains("root"), "{}", said(&output));
    mount.stop();
}

#[test]
fn in_the_background() {
    let Some(site) = Site::new("in the background") else { return };
    let (dir, mountpoint, log) = (site.state(), site.mountpoint(0), site.root().join("log"));
    let args = ["dev".as_ref(), "-d".as_ref(), "--log-file".as_ref(), log.as_os_str()];
    let output = run(args.into_iter().chain([dir.as_os_str(), mountpoint.as_os_str()]));
    // The command and everybody who had its outputs have ended by now.
    assert_code("dev in the background", &output, 0, &["mounted on"]);
    fs::write(mountpoint.join("f"), "x").expect("a file");
    let second = run(["mount".as_ref(), "-d".as_ref(), dir.as_os_str(), mountpoint.as_os_str()]);
    assert_code("a second one at the same place", &second, 32, &["already mounted"]);
    let bad_log = ["mount", "-d", "--log-file", "/no/where/log"].map(OsStr::new);
    let bad_log = run(bad_log.into_iter().chain([dir.as_os_str(), mountpoint.as_os_str()]));
    assert_code("a log nowhere", &bad_log, 1, &["/no/where/log"]);
    let unmounted = run(["umount".as_ref(), mountpoint.as_os_str()]);
    assert!(unmounted.status.success(), "{}", said(&unmounted));
    wait_until_free(&site);
    assert!(log.exists());
}

/// Variables stand for what is not on the command line; what is there wins.
#[test]
fn variables_stand_for_options() {
    let Some(site) = Site::new("variables") else { return };
    let mut command = Command::new("timeout");
    command.args(["-k", "2", "30"]).arg(binary()).args(["dev", "--commit-interval-ms", "50"]).stdin(Stdio::null());
    command.env("ONPATH_DIR", site.state()).env("ONPATH_MOUNTPOINT", site.mountpoint(0));
    command.env("ONPATH_BACKGROUND", "true").env("ONPATH_OPTIONS", "noexec,nosuid");
    command.env("ONPATH_CHECKPOINT_BYTES", "1000000").env("ONPATH_COMMIT_INTERVAL_MS", "0").env("ONPATH_LOG", "warn");
    let output = command.output().expect("onpath runs");
    assert_code("everything by variables", &output, 0, &["mounted on"]);
    let table = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let ours = format!(" {} ", site.mountpoint(0).display());
    let line = table.lines().find(|line| line.contains(&ours));
    assert!(line.is_some_and(|line| line.contains("nosuid") && line.contains("noexec")), "{line:?}");
    assert!(run(["umount".as_ref(), site.mountpoint(0).as_os_str()]).status.success());
    wait_until_free(&site);
}

/// The unit's text with the binary under test in it.
fn unit() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd/onpath@.service");
    fs::read_to_string(path).expect("the unit").replace("/usr/bin/onpath", binary())
}

#[test]
fn the_unit_is_understood() {
    let Some(analyze) = tool("systemd-analyze") else {
        return skipped("the_unit_is_understood", "systemd-analyze is missing");
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("onpath@srv-onpath.service");
    fs::write(&path, unit()).expect("write");
    let output = Command::new(analyze).args(["verify", "--man=no"]).arg(&path).output().expect("it runs");
    let ours: Vec<String> = said(&output).lines().filter(|line| line.contains("onpath")).map(str::to_owned).collect();
    assert!(ours.is_empty(), "{}", ours.join("\n"));
}

/// What systemd does with the unit: ExecStart, wait for READY=1, mount by the helper, SIGTERM.
#[test]
fn the_unit_serves() {
    let Some(site) = Site::new("the unit serves") else { return };
    let unit = unit();
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("ExecStart");
    let start = start.replace("%f", text(&site.state()));
    let words: Vec<&str> = start.split(' ').collect();
    let socket = site.root().join("notify");
    let notified = UnixDatagram::bind(&socket).expect("a socket");
    notified.set_read_timeout(Some(crate::common::PATIENCE)).expect("a timeout");
    let log = fs::File::create(site.root().join("log")).expect("a log");
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env("NOTIFY_SOCKET", &socket).env("ONPATH_COMMIT", "sync");
    command.stdin(Stdio::null()).stdout(log.try_clone().expect("dup")).stderr(log);
    let mut service = crate::common::process::spawn(&mut command).expect("ExecStart runs");
    let mut state = [0; 64];
    let length = notified.recv(&mut state).expect("READY=1 comes");
    assert_eq!(&state[..length], b"READY=1");
    let sbin = helpers(&site);
    let mounted = helper(&sbin, &[site.state().as_os_str(), site.mountpoint(0).as_os_str()]);
    assert_code("mount beside the unit", &mounted, 0, &[]);
    fs::write(site.mountpoint(0).join("f"), "x").expect("a file");
    assert!(run(["umount".as_ref(), site.mountpoint(0).as_os_str()]).status.success());
    let stopped = Command::new("kill").args(["-s", "TERM"]).arg(service.id().to_string()).status();
    assert!(stopped.is_ok_and(|status| status.success()));
    let status = service.wait().expect("wait");
    assert!(status.success(), "{status}\n{}", fs::read_to_string(site.root().join("log")).unwrap_or_default());
    site.assert_clean("after the unit");
}
