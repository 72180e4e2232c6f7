//! The servers: `onpath serve` for each host of a configuration that is made for the measurement.

use super::apart::Apart;
use super::place::{Child, bind_to};
use crate::bench::fixed_secrets;
use crate::cli::WaitMode;
use crate::cluster::init::write_new;
use anyhow::{Context, ensure};
use onpath_client::key::{self, ClientLine};
use onpath_host::stream::{ANSWER_WITHIN, request_status};
use onpath_host::udp::ask_inspection;
use onpath_wire::identity::Identity;
use onpath_wire::ids::InodeId;
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where ports are looked for: below those that Linux gives to those who ask for any.
const PORTS: Range<u16> = 20_000..30_000;
/// So far apart two processes begin that were started one after the other.
const PORTS_APART: usize = 16;
/// Where the secrets are, beside the configuration.
const KEY_FILE: &str = "cluster.key";
/// That of a client, if there is a key.
const CLIENT_KEY_FILE: &str = "client.key";
/// A key that is no secret.
const KEY: [u8; key::KEY_BYTES] = [7; key::KEY_BYTES];
/// The keys of clients.
const ANY_USER: &str = "any-user";
const OWNER: &str = "owner";
/// Name and number of the host with the switch.
const SWITCH: &str = "s";
const SWITCH_HOST: u16 = 9;
/// Name and number of the host with a path node.
const PATH: &str = "q";
const PATH_HOST: u16 = 8;
/// Number of a host that serves nothing: the measurement sends as that host what only hosts may.
const MEASURING_HOST: u16 = 10;

/// Hosts that serve in processes of their own.
pub(in crate::bench) struct Servers {
    /// Hosts with shards, and then the one with a switch or a path node.
    children: Vec<Child>,
    /// Where clients find them.
    pub(in crate::bench) url: String,
    /// What clients need to come in; none without a key.
    pub(in crate::bench) key_file: Option<PathBuf>,
    /// Keys of clients of their own, if there is a key: one that allows any user, and one with an owner.
    pub(in crate::bench) any_user: Option<PathBuf>,
    pub(in crate::bench) owner: Option<PathBuf>,
    /// Where the host with the switch tells what that has counted.
    tells: Option<SocketAddr>,
    /// Where the switch is, if there is one.
    pub(in crate::bench) switch: SocketAddr,
    /// As which host the measurement sends to it.
    pub(in crate::bench) host: SocketAddr,
    /// Directories of the hosts that have one.
    dirs: Vec<PathBuf>,
}

/// Where the host with a switch is.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) enum Switch<'a> {
    /// Beside the others.
    Beside,
    /// In another network namespace, the switch in its process.
    Apart(&'a Apart),
    /// There, the switch in the kernel.
    Kernel(&'a Apart),
}

impl<'a> Switch<'a> {
    /// There, if a place is given, in its process or the kernel.
    pub(in crate::bench) fn at(apart: Option<&'a Apart>, kernel: bool) -> Switch<'a> {
        match apart {
            None => Switch::Beside,
            Some(apart) if kernel => Switch::Kernel(apart),
            Some(apart) => Switch::Apart(apart),
        }
    }

    fn apart(self) -> Option<&'a Apart> {
        match self {
            Switch::Beside => None,
            Switch::Apart(apart) | Switch::Kernel(apart) => Some(apart),
        }
    }
}

/// What is served.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Shape<'a> {
    /// Hosts with shards and data nodes.
    pub(in crate::bench) hosts: u16,
    /// A further host with a switch and nothing else: what such a host sends itself passes no switch in the kernel.
    pub(in crate::bench) switch: Option<Switch<'a>>,
    /// A further host with a path node and nothing else.
    pub(in crate::bench) path: bool,
    /// Whether there is a key, by which everything is sealed.
    pub(in crate::bench) key: bool,
    /// Settings of the cluster, each a word.
    pub(in crate::bench) settings: &'static [(&'static str, &'static str)],
}

impl Shape<'_> {
    /// One host.
    pub(in crate::bench) const OWNER: Shape<'static> =
        Shape { hosts: 1, switch: None, path: false, key: false, settings: &[] };
    /// One host, and another one with a path node.
    pub(in crate::bench) const LED: Shape<'static> = Shape { path: true, ..Shape::OWNER };
    /// Two hosts and a third one with the switch, which tracks directories.
    pub(in crate::bench) const NETWORK: Shape<'static> =
        Shape { hosts: 2, switch: Some(Switch::Beside), settings: &[("tracking", "network")], ..Shape::OWNER };
    /// The same, where every update is marked.
    pub(super) const MARKED: Shape<'static> = Shape {
        settings: &[("tracking", "network"), ("marks", "every-update"), ("sync_directories", "never")],
        ..Shape::NETWORK
    };
}

impl Servers {
    /// Starts the hosts, with their state below `dir`, which is empty.
    pub(in crate::bench) fn start(
        shape: Shape<'_>,
        wait: WaitMode,
        shards: u16,
        dir: &Path,
        cpu: usize,
    ) -> anyhow::Result<Servers> {
        let ports = free_ports(shape.hosts + 4)?;
        let apart = shape.switch.and_then(Switch::apart);
        let own = apart.map_or(Ok(Ipv4Addr::LOCALHOST), Apart::seen_from)?;
        let of_switch = apart.map_or(own, Apart::address);
        let config = dir.join("cluster.toml");
        std::fs::write(&config, text(shape, wait, shards, dir, (own, of_switch), &ports)?)
            .context("the configuration")?;
        let clients = if shape.key { clients() } else { Vec::new() };
        let lines: String = clients.iter().map(ClientLine::text).collect();
        let shared = key::text(shape.key.then_some(&KEY), Some(&fixed_secrets()));
        write_new(&dir.join(KEY_FILE), &(shared + &lines), 0o600)?;
        let file_of = |name: &str| dir.join(format!("{name}.key"));
        for ClientLine { name, key, .. } in &clients {
            write_new(&file_of(name), &key::text(Some(key), None), 0o600)?;
        }
        let client_key = shape.key.then(|| dir.join(CLIENT_KEY_FILE));
        if let Some(file) = &client_key {
            write_new(file, &key::text(Some(&KEY), None), 0o600)?;
        }
        bind_to(cpu)?;
        let names: Vec<String> = (0..shape.hosts).map(|host| format!("h{host}")).collect();
        let further = [(shape.switch.is_some(), SWITCH), (shape.path, PATH)];
        let further: Vec<String> = further.iter().filter(|(is, _)| *is).map(|(_, name)| (*name).to_owned()).collect();
        let children = names.iter().chain(&further).map(|name| {
            let mut command = match apart {
                Some(apart) if name == SWITCH => apart.command()?,
                _ => Command::new("/proc/self/exe"),
            };
            command.args(["--log", "warn", "serve", "--host", name, "--config"]).arg(&config);
            Child::start(command, "serving").map(|(child, _)| child)
        });
        let children = children.collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Servers {
            children,
            url: format!("onpath://{own}:{}/", ports[0]),
            key_file: client_key,
            any_user: shape.key.then(|| file_of(ANY_USER)),
            owner: shape.key.then(|| file_of(OWNER)),
            tells: shape.switch.map(|_| (of_switch, ports[usize::from(shape.hosts)]).into()),
            switch: (of_switch, ports[usize::from(shape.hosts) + 1]).into(),
            host: (own, ports[usize::from(shape.hosts) + 2]).into(),
            dirs: names
                .iter()
                .chain(further.iter().filter(|name| *name != SWITCH))
                .map(|name| dir.join(name))
                .collect(),
        })
    }

    /// What all roles have counted, each with its name.
    pub(in crate::bench) fn counters(&self) -> anyhow::Result<Vec<(String, Value)>> {
        let mut all = Vec::new();
        for dir in &self.dirs {
            let mut status: Value = serde_json::from_str(&request_status(dir, ANSWER_WITHIN)?)?;
            all.extend(std::mem::take(status["counters"].as_object_mut().context("no counters")?));
        }
        if let Some(place) = self.tells {
            let keys = key::keys_of(self.key_file.as_deref())?;
            let told = ask_inspection(place, keys.as_ref(), InodeId::NONE, ANSWER_WITHIN)?;
            let told = told.context("the host with the switch does not tell what it has counted")?;
            all.extend(serde_json::from_str::<Map<String, Value>>(&told)?);
        }
        Ok(all)
    }

    /// Ids of the processes: of hosts with shards, and then of the one with a switch, and of the one with a path node.
    pub(in crate::bench) fn processes(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }
}

/// Whether a role is a switch.
pub(in crate::bench) fn is_switch(role: &str) -> bool {
    role.starts_with("switch-")
}

/// Keys of clients, none of which is a secret.
fn clients() -> Vec<ClientLine> {
    let owner = Identity { uid: 1_000, gids: [1_000].into_iter().collect(), caps: 0 };
    let line = |name: &str, byte, identity| ClientLine { name: name.to_owned(), key: [byte; key::KEY_BYTES], identity };
    vec![line(ANY_USER, 8, None), line(OWNER, 9, Some(owner))]
}

fn text(
    shape: Shape<'_>,
    wait: WaitMode,
    shards: u16,
    dir: &Path,
    (own, of_switch): (Ipv4Addr, Ipv4Addr),
    ports: &[u16],
) -> anyhow::Result<String> {
    let (hosts, wait) = (shape.hosts, wait.word());
    let mut text = format!(
        "[cluster]\nname = \"bench\"\nid = \"{:032x}\"\nshards = {shards}\nkey_file = {KEY_FILE:?}\n",
        u128::from(std::process::id()) << 64 | 1 << 96
    );
    for (key, word) in shape.settings {
        writeln!(text, "{key} = {word:?}")?;
    }
    let kept = |name: &str, role: &str| format!("directory = {:?}\n{role} = true\n", dir.join(name).to_string_lossy());
    for host in 0..hosts {
        let shards: Vec<u16> = (0..shards).filter(|shard| shard % hosts == host).collect();
        let (kept, port) = (kept(&format!("h{host}"), "data"), ports[usize::from(host)]);
        write!(
            text,
            "\n[[host]]\nname = \"h{host}\"\nnumber = {}\naddress = \"{own}\"\nport = {port}\nshards = {shards:?}\n\
             wait = {wait:?}\n{kept}",
            host + 1,
        )?;
    }
    if shape.path {
        let (kept, port) = (kept(PATH, "path"), ports[usize::from(hosts) + 3]);
        write!(
            text,
            "\n[[host]]\nname = {PATH:?}\nnumber = {PATH_HOST}\naddress = \"{own}\"\nport = {port}\nwait = {wait:?}\n{kept}"
        )?;
    }
    if let Some(switch) = shape.switch {
        let [port, switch_port, measuring] = [0, 1, 2].map(|more| ports[usize::from(hosts) + more]);
        let xdp = match switch {
            Switch::Kernel(apart) => format!("xdp = [{:?}]\n", apart.device()),
            Switch::Beside | Switch::Apart(_) => String::new(),
        };
        write!(
            text,
            "\n[[host]]\nname = {SWITCH:?}\nnumber = {SWITCH_HOST}\naddress = \"{of_switch}\"\nport = {port}\n\
             switch_port = {switch_port}\nwait = {wait:?}\n{xdp}\
             \n[[host]]\nname = \"m\"\nnumber = {MEASURING_HOST}\naddress = \"{own}\"\nport = {measuring}\n",
        )?;
    }
    Ok(text)
}

/// UDP ports that nobody uses: none that the system gives to those who ask for any, so that nobody gets them before the servers do, and
/// others for another process that looks at the same time.
fn free_ports(count: u16) -> anyhow::Result<Vec<u16>> {
    let first = std::process::id() as usize * PORTS_APART % PORTS.len();
    let ports = PORTS.skip(first).chain(PORTS.take(first));
    let free = ports.filter(|&port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok()).take(count.into());
    let free: Vec<u16> = free.collect();
    ensure!(free.len() == usize::from(count), "no {count} free UDP ports from {} on", PORTS.start);
    Ok(free)
}
