//! `mount.onpath -N` mounts in a mount namespace in which nothing can be trusted: of what is in it nothing is executed.

use crate::common::server::{Site, binary};
use crate::common::{PATIENCE, skipped, tool, wait_until};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A process in a mount namespace of its own; ends with this value.
struct Container(Child);

impl Container {
    /// Runs a script in a new mount namespace, and waits until it says `ready`.
    fn new(script: &str, args: &[&Path]) -> Container {
        let script = format!("set -e\n{script}\necho ready\nexec sleep 1000");
        let mut command = Command::new("unshare");
        command.args(["-m", "--propagation", "private", "sh", "-c", &script, "sh"]).args(args);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("unshare runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Container(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// What is mounted at a path there.
    fn mounted(&self, at: &Path) -> usize {
        let table = fs::read_to_string(format!("/proc/{}/mountinfo", self.pid())).expect("mountinfo");
        let there = |line: &&str| line.split(' ').nth(4).map(Path::new) == Some(at) && line.contains(" - fuse.onpath ");
        table.lines().filter(there).count()
    }

    /// Runs a command of this namespace on its files.
    fn enter(&self, command: &str, args: &[&Path]) -> Output {
        let mut enter = Command::new("timeout");
        enter.arg(PATIENCE.as_secs().to_string()).args(["nsenter", "-m", "-t", &self.pid(), "sh", "-c", command, "sh"]);
        enter.args(args).stdin(Stdio::null()).output().expect("nsenter runs")
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// A site, and the helper's name; none where namespaces cannot be made.
fn site(test: &str) -> Option<(Site, PathBuf)> {
    let missing = ["unshare", "nsenter", "mount", "umount"].into_iter().find(|name| tool(name).is_none());
    if let Some(name) = missing {
        skipped(test, &format!("{name} is missing"));
        return None;
    }
    let site = Site::new(test)?;
    let helper = site.root().join("mount.onpath");
    symlink(binary(), &helper).expect("symlink");
    Some((site, helper))
}

fn helper(helper: &Path, site: &Site, at: &Path, namespace: &str, more: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-k", "2", "30"]).arg(helper).arg(site.state()).arg(at).args(["-N", namespace]).args(more);
    command.stdin(Stdio::null()).output().expect("timeout and the helper run")
}

/// A container has covered /proc: what it calls /proc/self/exe is a program of its own.
#[test]
fn nothing_of_it_is_executed() {
    let Some((site, mount_onpath)) = site("nothing of a foreign namespace is executed") else { return };
    let server = site.dev(&[]);
    fs::write(server.path().join("there"), "x").expect("a file");
    let (at, executed) = (site.mountpoint(1), site.root().join("executed"));
    let container = Container::new(
        r#"
        mount -t tmpfs tmpfs /proc
        mkdir /proc/self
        printf '#!/bin/sh\necho executed >>%s\nexit 3\n' "$1" >/proc/self/exe
        chmod 755 /proc/self/exe
        "#,
        &[&executed],
    );
    let output = helper(&mount_onpath, &site, &at, &container.pid(), &["-v"]);
    assert!(!executed.exists(), "a program of the container ran as root outside of it: {}", said(&output));
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(container.mounted(&at), 1);
    let read = container.enter(r#"cat "$1/there"; echo y >"$1/here""#, &[&at]);
    assert!(read.status.success() && read.stdout == b"x", "{}", said(&read));
    assert_eq!(fs::read(server.path().join("here")).expect("read"), b"y\n");
    let again = helper(&mount_onpath, &site, &at, &container.pid(), &[]);
    assert_eq!(again.status.code(), Some(32), "{}", said(&again));
    assert!(said(&again).contains("already mounted"), "{}", said(&again));
    assert!(container.enter(r#"umount "$1""#, &[&at]).status.success());
    // It has a copy of the server's own mount, too.
    drop(container);
    server.stop();
}

/// The same names mean other directories there: SRC is of the caller's namespace, the mountpoint of the other one, as mount(8) has it.
#[test]
fn the_mountpoint_is_looked_for_there() {
    let Some((site, mount_onpath)) = site("a mountpoint of another namespace") else { return };
    let server = site.dev(&[]);
    let hidden = site.root().join("only-there");
    fs::create_dir(&hidden).expect("mkdir");
    let container = Container::new(r#"mount -t tmpfs tmpfs "$1"; mkdir "$1/mnt""#, &[&hidden]);
    let at = hidden.join("mnt");
    let missing = helper(&mount_onpath, &site, &hidden.join("else"), &container.pid(), &[]);
    assert_eq!(missing.status.code(), Some(32), "{}", said(&missing));
    assert!(said(&missing).contains("does not exist"), "{}", said(&missing));
    let nowhere = helper(&mount_onpath, &site, &at, "/no/where", &[]);
    assert!(!nowhere.status.success() && said(&nowhere).contains("/no/where"), "{}", said(&nowhere));
    let namespace = format!("/proc/{}/ns/mnt", container.pid());
    let output = helper(&mount_onpath, &site, &at, &namespace, &["-o", "noexec"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(container.mounted(&at), 1);
    let remounted = helper(&mount_onpath, &site, &at, &namespace, &["-o", "remount,ro"]);
    assert_eq!(remounted.status.code(), Some(0), "{}", said(&remounted));
    assert!(!container.enter(r#"touch "$1/f""#, &[&at]).status.success());
    // The process that serves it unmounts it there when it is asked to end.
    wait_until("both mounts tell what they do", || site.status().sum("mounts", &["present"]) == 2);
    for process in serving(&at) {
        let killed = Command::new("kill").args(["-s", "TERM", &process]).status().expect("kill runs");
        assert!(killed.success());
    }
    wait_until("it is unmounted there", || container.mounted(&at) == 0);
    drop(container);
    server.stop();
}

/// The processes that serve a mount at `at`, by their arguments. None of them waits for a file system.
fn serving(at: &Path) -> Vec<String> {
    let pattern = format!("[m]ount .*{}", at.display());
    let output = Command::new("timeout").args(["10", "pgrep", "-f", "--", &pattern]).output().expect("pgrep runs");
    String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
}
