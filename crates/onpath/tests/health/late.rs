//! What waits for too long: what the status says, and what the alerts ask Prometheus.

use super::{Said, status, wait_for};
use crate::common::server::{Site, binary};
use crate::common::wait_until;
use crate::metrics::place_of;
use crate::metrics::prometheus::{Prometheus, alert};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// Prometheus beside a `dev`.
fn beside<'a>(test: &str, site: &Site, target: String, command: &'a dyn Fn(&str) -> Command) -> Option<Prometheus<'a>> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
    Prometheus::start(test, site.root(), &free.to_string(), &[target], command)
}

fn of(path: &Path) -> Said {
    let mut command = Command::new(binary());
    command.arg("status").arg(path);
    status(command, &[])
}

/// A further mount of a `dev` stands still: it is silent as long as it does, and not forgotten.
#[test]
fn a_mount_of_a_dev_that_is_silent() {
    let test = "health::a_mount_of_a_dev_that_is_silent";
    let Some(site) = Site::new(test) else { return };
    let mount = site.dev(&["--metrics", "0"]);
    let second = site.mount(1, &[]);
    let command = |program: &str| Command::new(program);
    let Some(prometheus) = beside(test, &site, place_of(&mount).to_string(), &command) else { return };
    let expression = alert("OnpathMountSilent");
    prometheus.tells("onpath_mounts_present", 2.0);
    assert!(prometheus.ask(&expression).is_empty(), "both tell what they do");
    second.signal(libc::SIGSTOP);
    wait_until("the alert's question has an answer", || prometheus.number(&expression) == Some(1.0));
    wait_for(3, &["degraded", "has not answered for"], || of(&site.state()));
    second.signal(libc::SIGCONT);
    wait_until("the alert's question has none", || prometheus.ask(&expression).is_empty());
    prometheus.process.stop();
    second.stop();
    mount.stop();
}
