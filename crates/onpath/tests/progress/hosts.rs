//! A cluster whose hosts do not all answer: who starts says for whom it waits.

use super::text;
use crate::common::cluster::{Cluster, Shape, name};
use crate::common::running::{On, Running};
use crate::common::server::{Site, binary};
use crate::common::{process, wait_until};

#[test]
fn a_start_waits_for_hosts() {
    const TEST: &str = "progress of a start that waits for hosts";
    let Some(site) = Site::new(TEST) else { return };
    let Some(mut cluster) = Cluster::start(TEST, &site, Shape { clients: 0, ..Shape::default() }) else { return };
    cluster.stop_all();
    let serve = |host: usize, on: On| {
        let mut command = cluster.net.command(host, binary());
        command.args(["--log-json", "serve", "--host", &name(host), "--config", text(cluster.config())]);
        Running::of(on, command)
    };
    let (drawn, told) = (serve(0, On::Terminal), serve(1, On::Log));
    let missing = format!("1 of 2 others do not answer: {} ({}:4796)", name(2), cluster.net.address(2));
    drawn.wait_for(&format!("waiting for hosts {missing}, "));
    told.wait_for("waiting for hosts goes on");
    told.wait_for(&missing);
    for running in [&drawn, &told] {
        assert!(running.output().contains("onpath: serving "), "it serves meanwhile");
    }
    cluster.serve(2);
    for running in [drawn, told] {
        running.wait_for("waiting for hosts took ");
        process::send(running.pid(), libc::SIGTERM);
        running.succeeds();
    }
    cluster.stop();
}

#[test]
fn a_mount_waits_for_a_host() {
    const TEST: &str = "progress of a mount that waits for a host";
    let Some(site) = Site::new(TEST) else { return };
    let shape = Shape { servers: 1, clients: 2, ..Shape::default() };
    let Some(mut cluster) = Cluster::start(TEST, &site, shape) else { return };
    cluster.stop_all();
    let mount = |n: usize, on: On| {
        let mut command = cluster.net.command(1 + n, binary());
        command.args(["mount", &cluster.url(), text(&site.mountpoint(n))]);
        Running::of(on, command)
    };
    let (drawn, told) = (mount(0, On::Terminal), mount(1, On::Log));
    drawn.wait_for(&format!("waiting for a host that answers {}, ", cluster.url()));
    told.wait_for("connecting goes on");
    assert!(told.error().contains(&cluster.url()), "{}", told.error());
    cluster.serve(0);
    for running in [drawn, told] {
        wait_until("it is mounted", || running.output().contains("onpath: mounted on "));
        running.wait_for("connecting took ");
        process::send(running.pid(), libc::SIGTERM);
        running.succeeds();
    }
    cluster.stop();
}
