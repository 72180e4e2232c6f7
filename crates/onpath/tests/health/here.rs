//! Of a file system in one process.

use super::{Said, json, status, wait_for};
use crate::common::disk::Disk;
use crate::common::server::{Site, binary};
use crate::common::terminal::Terminal;
use crate::common::{process, skipped, wait_until};
use std::fs;
use std::path::Path;
use std::process::Command;

fn of(path: &Path, args: &[&str]) -> Said {
    let mut command = Command::new(binary());
    command.arg("status").arg(path);
    status(command, args)
}

#[test]
fn a_dev_that_is_well() {
    let Some(site) = Site::new("a dev that is well") else { return };
    let mount = site.dev(&[]);
    let second = site.mount(1, &[]);
    fs::create_dir(mount.path().join("d")).expect("mkdir");
    fs::write(second.path().join("d/f"), "x").expect("a file");
    let mountpoints = [mount.path().display().to_string(), second.path().display().to_string()];
    let words = ["healthy", "capacity", "no request has waited", &mountpoints[0], &mountpoints[1]];
    for path in [site.state().as_path(), mount.path(), &second.path().join("d")] {
        wait_for(0, &words, || of(path, &[]));
    }
    let told = json(&of(&site.state(), &["--json"]));
    assert_eq!((told["state"].as_str(), told["mounts"].as_array().map(Vec::len)), (Some("healthy"), Some(2)), "{told}");
    assert!(
        told["capacity"]["inodes"].as_u64() >= Some(3) && told["reasons"].as_array().is_some_and(Vec::is_empty),
        "{told}"
    );
    let counters = of(&site.state(), &["--counters"]);
    assert!(counters.code == Some(0) && counters.text.contains("entries_pending"), "{}", counters.text);
    let counters = json(&of(&site.state(), &["--counters", "--json"]));
    assert!(counters["host"]["uptime_ms"].as_u64() > Some(0), "{counters}");
    second.stop();
    mount.stop();
}

/// Exit codes: 1 error, 2 wrong use, 4 down.
#[test]
fn what_cannot_be_told() {
    let Some(site) = Site::new("what cannot be told") else { return };
    assert_eq!(of(&site.state(), &["--wrong"]).code, Some(2));
    let file = site.root().join("file");
    fs::write(&file, "x").expect("a file");
    assert_eq!(of(&file, &[]).code, Some(1));
    let mount = site.dev(&[]);
    mount.stop();
    let down = wait_for(4, &["down", "nobody serves", "onpath dev"], || of(&site.state(), &[]));
    assert_eq!(down.matches("os error").count(), 1, "{down}");
    assert_eq!(json(&of(&site.state(), &["--json"]))["state"], "down");
}

/// The process that serves stands still, and with it every look at its mount.
#[test]
fn a_server_that_stands_still() {
    let Some(site) = Site::new("a server that stands still") else { return };
    let mount = site.dev(&[]);
    let below = mount.path().join("d");
    fs::create_dir(&below).expect("mkdir");
    mount.signal(libc::SIGSTOP);
    for path in [site.state().as_path(), mount.path(), &below] {
        wait_for(4, &["down", "does not answer within 5 s"], || of(path, &[]));
    }
    mount.signal(libc::SIGCONT);
    wait_for(0, &["healthy"], || of(&site.state(), &[]));
    mount.stop();
}

#[test]
fn a_client_that_is_silent() {
    let Some(site) = Site::new("a client that is silent") else { return };
    let mount = site.dev(&[]);
    let second = site.mount(1, &[]);
    let name = second.path().display().to_string();
    wait_for(0, &[&name], || of(&site.state(), &[]));
    second.signal(libc::SIGSTOP);
    wait_for(3, &["degraded", &name, "has not answered for 5 s"], || of(&site.state(), &[]));
    second.signal(libc::SIGCONT);
    wait_for(0, &["healthy", &name], || of(&site.state(), &[]));
    second.stop();
    mount.stop();
}

/// Goes to the upper left corner and clears what is below.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Shown again and again, until Ctrl-C: the exit code is that of what was shown last.
#[test]
fn watched_on_a_terminal_and_not() {
    let Some(site) = Site::new("a status that is watched") else { return };
    let mount = site.dev(&[]);
    let second = site.mount(1, &[]);
    let watch = || {
        let mut command = Command::new(binary());
        command.args(["status", "--watch", "1"]).arg(site.state());
        command
    };
    let screens = |terminal: &Terminal| terminal.shown().split(CLEAR).map(str::to_owned).collect::<Vec<_>>();
    let healthy = Terminal::run(watch());
    wait_until("it is shown three times", || screens(&healthy).len() >= 4);
    let [before, first, again, ..] = &screens(&healthy)[..] else { panic!("{:?}", healthy.shown()) };
    assert!(before.is_empty() && first.contains(": healthy") && again.contains(": healthy"), "{first}\n{again}");
    assert_eq!(healthy.interrupt(), Some(0));
    // It is no screen, but a file: nothing is cleared there, and every status is a line.
    second.signal(libc::SIGSTOP);
    let log = site.root().join("log-watch");
    let mut command = watch();
    command.arg("--json").stdout(fs::File::create(&log).expect("a file"));
    let mut child = command.spawn().expect("onpath runs");
    let mut said = String::new();
    wait_until("it is degraded", || {
        said = fs::read_to_string(&log).expect("text");
        said.lines().count() >= 2 && said.lines().last().is_some_and(|line| line.contains(r#""state":"degraded""#))
    });
    assert!(said.lines().all(|line| line.starts_with('{') && !line.contains(CLEAR)), "{said}");
    process::send(child.id() as i32, libc::SIGINT);
    assert_eq!(child.wait().expect("wait of our child").code(), Some(3));
    second.signal(libc::SIGCONT);
    second.stop();
    mount.stop();
}

#[test]
fn a_full_disk() {
    let Some(site) = Site::new("status of a full disk") else { return };
    let below = site.root().join("disk");
    fs::create_dir(&below).expect("mkdir");
    let disk = match Disk::new(&below, 64 << 20) {
        Ok(disk) => disk,
        Err(why) => return skipped("health::a_full_disk", &why),
    };
    let state = disk.path().join("state");
    let mount = site.dev_on(&state, &["--shards", "1"]);
    let full = (0..).find(|number| fs::write(mount.path().join(format!("f{number}")), vec![7; 1 << 20]).is_err());
    assert!(full.is_some_and(|files| files > 4), "it is filled");
    wait_for(3, &["degraded", "has a full disk"], || of(&state, &[]));
    for name in fs::read_dir(mount.path()).expect("a listing").flatten() {
        fs::remove_file(name.path()).expect("removing frees space");
    }
    wait_for(0, &["healthy"], || of(&state, &[]));
    mount.stop();
}
