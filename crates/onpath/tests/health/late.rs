//! What waits for too long: what the status says, and what the alerts ask Prometheus.

use super::{Said, status, wait_for};
use crate::common::cluster::{Cluster, Shape};
use crate::common::server::{Process, Site, binary};
use crate::common::stall::Stalled;
use crate::common::{Over, process, skipped, wait_until};
use crate::metrics::place_of;
use crate::metrics::prometheus::{Prometheus, alert};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// A process that stands still until this goes, however the test ends: who waits for it could not be waited for.
struct Still<'a>(&'a Process);

impl<'a> Still<'a> {
    fn new(process: &'a Process) -> Still<'a> {
        process.signal(libc::SIGSTOP);
        Still(process)
    }
}

impl Drop for Still<'_> {
    fn drop(&mut self) {
        self.0.signal(libc::SIGCONT);
    }
}

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

/// The owner of directories stands still: what others have for it waits.
#[test]
fn updates_that_are_pending() {
    let test = "health::updates_that_are_pending";
    let Some(site) = Site::new(test) else { return };
    let Some(mut cluster) = Cluster::start(test, &site, Shape { servers: 2, clients: 1, ..Shape::default() }) else {
        return;
    };
    let target = format!("{}:9469", cluster.net.address(0));
    cluster.stop_host(0);
    cluster.serve_with(0, &["--metrics", &target]);
    let mount = cluster.mount(&site, 0, &[]);
    let (client, listen) = (cluster.hosts(), format!("{}:9090", cluster.net.address(cluster.hosts())));
    let command = |program: &str| cluster.net.command(client, program);
    let Some(prometheus) = Prometheus::start(test, site.root(), &listen, &[target], &command) else { return };
    let config = cluster.config().display().to_string();
    let of_cluster = || {
        let mut command = cluster.net.command(client, binary());
        command.args(["status", &config]);
        status(command, &[])
    };
    let expression = alert("OnpathUpdatesPendingTooLong");
    let (over, dirs) = (Over::default(), 0..8);
    std::thread::scope(|scope| {
        for dir in dirs {
            let (path, over) = (mount.path().join(format!("d{dir}")), &over);
            fs::create_dir(&path).expect("mkdir");
            // Of names that the host has which goes on, until it comes to one of the other's.
            scope.spawn(move || {
                for number in (0..).take_while(|_| !over.is()) {
                    fs::write(path.join(format!("f{number}")), "").expect("a file");
                }
            });
        }
        let end = over.at_end();
        wait_until("there are files in all", || (0..8).all(|dir| mount.path().join(format!("d{dir}/f9")).exists()));
        assert!(prometheus.ask(&expression).is_empty(), "nothing has waited for long");
        let still = Still::new(cluster.process(1));
        let words = [
            "degraded",
            "Host n0 has ",
            " updates pending, the oldest for 1",
            "owners of directories do not take them",
        ];
        wait_for(3, &words, of_cluster);
        wait_until("the alert's question has an answer", || prometheus.number(&expression) > Some(10.0));
        drop((end, still));
    });
    wait_for(0, &["healthy", "no updates;"], of_cluster);
    wait_until("the alert's question has none", || prometheus.ask(&expression).is_empty());
    prometheus.process.stop();
    mount.stop();
    cluster.stop();
}

/// What writes checkpoints stands still, as on a disk that hangs, while the journal grows.
#[test]
fn a_checkpoint_that_is_late() {
    let test = "health::a_checkpoint_that_is_late";
    let Some(site) = Site::new(test) else { return };
    let mount = site.dev(&["--metrics", "0", "--checkpoint-bytes", "65536"]);
    let command = |program: &str| Command::new(program);
    let Some(prometheus) = beside(test, &site, place_of(&mount).to_string(), &command) else { return };
    let expression = alert("OnpathCheckpointLate");
    prometheus.tells("onpath_checkpoint_journal_bytes_due", 65_536.0);
    assert!(prometheus.ask(&expression).is_empty(), "it is in time");
    // It holds nothing that others need while it waits for work.
    let mut idle = None;
    wait_until("it waits for work", || {
        match Stalled::new(mount.pid(), "checkpoint") {
            Err(errno) => skipped(test, &format!("no thread can be stopped here: errno {errno}")),
            Ok(stalled) if process::is_in(mount.pid(), stalled.thread(), libc::SYS_futex) => idle = Some(stalled),
            Ok(stalled) => {
                stalled.let_go();
                return false;
            }
        }
        true
    });
    let Some(stalled) = idle else { return };
    let mut files = (0..).map(|number| mount.path().join(format!("f{number}")));
    let late =
        wait_for(3, &["degraded", "It is late with its checkpoint: ", "until a checkpoint, the last one"], || {
            files.by_ref().take(500).for_each(|file| fs::write(file, "").expect("a file"));
            of(&site.state())
        });
    assert!(late.contains(" times as much of the journal waits for it as should."), "{late}");
    wait_until("the alert's question has an answer", || prometheus.number(&expression) > Some(3.0 * 65_536.0));
    stalled.let_go();
    wait_for(0, &["healthy"], || of(&site.state()));
    wait_until("the alert's question has none", || prometheus.ask(&expression).is_empty());
    prometheus.process.stop();
    mount.stop();
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
