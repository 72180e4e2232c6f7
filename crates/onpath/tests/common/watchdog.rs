//! No test waits for ever: the mounts of a site that is too old are aborted, so that whoever waits for them gets an error and the test
//! fails; what everybody was waiting for is said before.

use super::{number_from_env, report};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Minutes that one site may live, unless `ONPATH_TEST_MINUTES` says otherwise.
const MINUTES: usize = 10;
/// How long the process may go on after that.
const LAST: Duration = Duration::from_secs(60);

/// How long a look at those who wait may take.
const LOOK: Duration = Duration::from_secs(10);

/// Watches a site until it is dropped.
pub struct Watchdog {
    _alive: Sender<()>,
}

impl Watchdog {
    pub fn new(site: &Path) -> Watchdog {
        let (alive, watched) = channel();
        let site = site.to_owned();
        let name = std::thread::current().name().unwrap_or("a test").to_owned();
        let minutes = number_from_env("ONPATH_TEST_MINUTES", MINUTES);
        std::thread::spawn(move || {
            let is_over = |wait| watched.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected);
            if is_over(Duration::from_secs(60 * minutes as u64)) {
                return;
            }
            // To look at a process may itself wait for a mount.
            let (tell, told) = channel();
            let looked_at = site.clone();
            std::thread::spawn(move || _ = tell.send(waiting(&looked_at)));
            let waiting_for = told.recv_timeout(LOOK).unwrap_or_else(|_| "who waits cannot be looked at".to_owned());
            report(&format!("{name} has not ended in {minutes} minutes; aborting its mounts\n{waiting_for}"));
            mounts(&site).iter().for_each(|mount| _ = super::sys::abort(mount));
            if !is_over(LAST) {
                report(&format!("{name} waits for something else than its mounts"));
                std::process::abort();
            }
        });
        Watchdog { _alive: alive }
    }
}

/// What is mounted there.
fn mounts(site: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let places = table.lines().filter_map(|line| line.split(' ').nth(4).map(PathBuf::from));
    places.filter(|place| place.starts_with(site)).collect()
}

/// Every thread of this process and of those that have to do with the site, with what it waits for; then what these said.
fn waiting(site: &Path) -> String {
    let mut said = String::new();
    let mine = std::process::id().to_string();
    for process in entries(Path::new("/proc")) {
        let command = fs::read(process.join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if !command.contains(&*site.to_string_lossy()) && process.file_name().is_none_or(|name| name != &*mine) {
            continue;
        }
        let _ = writeln!(said, "{} {command}", process.display());
        for thread in entries(&process.join("task")) {
            let read = |file| fs::read_to_string(thread.join(file)).unwrap_or_default().trim().to_owned();
            let stack: Vec<String> = read("stack").lines().take(4).map(|line| line.replace("[<0>] ", "")).collect();
            let _ = writeln!(said, "  {} in {}: {}", read("comm"), read("syscall"), stack.join(" < "));
        }
    }
    for log in entries(site).iter().filter(|path| path.is_file()) {
        let text = fs::read_to_string(log).unwrap_or_default();
        let _ = writeln!(said, "--- {}:\n{}", log.display(), super::server::tail(&text));
    }
    said
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    all.sort();
    all
}
