//! The servers: `onpath serve` for each host of a configuration that is made for the measurement.

use super::place::{Child, bind_to};
use crate::cli::WaitMode;
use anyhow::Context;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Command;

/// Hosts that serve in processes of their own.
pub(super) struct Servers {
    _children: Vec<Child>,
    /// Where clients find them.
    pub(super) url: String,
}

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One host.
    Owner,
    /// Two hosts and a third one with the switch, which tracks directories.
    Network,
}

impl Servers {
    /// Starts the hosts, with their state below `dir`, which is empty.
    pub(super) fn start(shape: Shape, wait: WaitMode, shards: u16, dir: &Path, cpu: usize) -> anyhow::Result<Servers> {
        let hosts = if shape == Shape::Network { 2 } else { 1 };
        let ports = free_ports(hosts + 2)?;
        let config = dir.join("cluster.toml");
        std::fs::write(&config, text(shape, wait, shards, dir, &ports)?).context("the configuration")?;
        bind_to(cpu)?;
        let names = (0..hosts).map(|host| format!("h{host}")).chain((shape == Shape::Network).then(|| "s".to_owned()));
        let children = names.map(|name| {
            let mut command = Command::new("/proc/self/exe");
            command.args(["--log", "warn", "serve", "--host", &name, "--config"]).arg(&config);
            Child::start(command, "serving").map(|(child, _)| child)
        });
        let children = children.collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Servers { _children: children, url: format!("onpath://127.0.0.1:{}/", ports[0]) })
    }
}

fn text(shape: Shape, wait: WaitMode, shards: u16, dir: &Path, ports: &[u16]) -> anyhow::Result<String> {
    let (tracking, hosts) = if shape == Shape::Network { ("network", 2) } else { ("owner", 1) };
    let wait = wait.word();
    let mut text = format!(
        "[cluster]\nname = \"bench\"\nid = \"{:032x}\"\nshards = {shards}\ntracking = {tracking:?}\n",
        u128::from(std::process::id()) << 64 | 1 << 96
    );
    for host in 0..hosts {
        let own: Vec<u16> = (0..shards).filter(|shard| shard % hosts == host).collect();
        let (directory, port) = (dir.join(format!("h{host}")), ports[usize::from(host)]);
        write!(
            text,
            "\n[[host]]\nname = \"h{host}\"\nnumber = {}\naddress = \"127.0.0.1\"\nport = {port}\ndirectory = {:?}\n\
             shards = {own:?}\ndata = true\nwait = {wait:?}\n",
            host + 1,
            directory.to_string_lossy(),
        )?;
    }
    if shape == Shape::Network {
        let (port, switch_port) = (ports[2], ports[3]);
        write!(
            text,
            "\n[[host]]\nname = \"s\"\nnumber = 9\naddress = \"127.0.0.1\"\nport = {port}\nswitch_port = {switch_port}\n\
             wait = {wait:?}\n"
        )?;
    }
    Ok(text)
}

/// UDP ports that nobody uses now.
fn free_ports(count: u16) -> anyhow::Result<Vec<u16>> {
    let sockets = (0..count).map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)));
    let sockets = sockets.collect::<Result<Vec<_>, _>>().context("a UDP port")?;
    Ok(sockets.iter().map(|socket| socket.local_addr().map(|address| address.port())).collect::<Result<_, _>>()?)
}
