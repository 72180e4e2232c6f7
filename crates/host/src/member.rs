//! One host of a cluster: its part of the roles, and the way to the others.

use crate::dir::PartFormat;
use crate::journal::Commit;
use crate::known::{Admission, Directory, Known, Next};
use crate::node::{HostHooks, NoEffects, Node, NodeBuilder, Port};
use crate::progress::Watcher;
use crate::roles::add_controller;
use crate::server::{Server, ServerBuilder, ServerError, ServerOptions, Sessions};
use crate::sys;
use crate::udp::{
    COORDINATOR, ClusterIs, Endpoint, EndpointConfig, EndpointHooks, HostIs, JoinError, Keys, UdpError, Wait, ask_next,
    endpoint_of_host,
};
use onpath_controller::{Controller, ControllerIn};
use onpath_meta::Shard;
use onpath_switch::{Command, Elsewhere, Switch, SwitchConfig};
use onpath_wire::disk::superblock::Superblock;
use onpath_wire::identity::Holder;
use onpath_wire::ids::{NodeId, SessionNumber, Term};
use onpath_wire::secrets::{Pass, PassKey, Placement};
use onpath_wire::tracking::{Form, Switches};
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, Weak};
use std::time::{Duration, Instant};
use thiserror::Error;

/// What a host is started with.
pub struct MemberConfig {
    /// Its number.
    pub number: u16,
    /// Its directory and what that holds, if it has shards, data or a path node.
    pub part: Option<(PathBuf, PartFormat)>,
    /// Whether that shall take the place of any other directory that this host had.
    pub replaces: bool,
    /// Told, with the number of a host, when this one cannot serve together with that.
    pub strange: Box<dyn Fn(u16, Strange) + Send + Sync>,
    /// How its roles are run.
    pub options: ServerOptions,
    /// Told how far the recovery of its directory is.
    pub watcher: Arc<dyn Watcher>,
    /// Where it listens.
    pub bind: SocketAddr,
    /// What clients are told.
    pub cluster: ClusterIs,
    /// All hosts with their addresses.
    pub hosts: Vec<(HostIs, SocketAddr)>,
    /// The keys that all of them share.
    pub keys: Option<Keys>,
    /// How it waits for messages.
    pub wait: Wait,
    /// Number of the switch that answers hot metadata from its cache; the host that has the coordinator sees to it.
    pub cache: Option<u16>,
    /// The switch of this host, if it has one that is not this process.
    pub kernel_switch: Option<Box<dyn KernelSwitch>>,
}

/// Why a host cannot serve together with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strange {
    /// The other one knows another directory of it.
    Directory,
    /// The other one has heard of a later state of its directory.
    OldCopy,
    /// Its directory is new, and was formatted with other secrets than the other one's.
    Secrets,
}

/// A switch of this host outside this process.
pub trait KernelSwitch: Elsewhere {
    /// A process with these roles sends from there, and takes there what comes through the switch; if it has shards it may change the
    /// dirty set.
    fn reach(&mut self, roles: &[NodeId], place: SocketAddr);
}

/// Why a host does not start.
#[derive(Debug, Error)]
pub enum MemberError {
    /// Its directory or its roles.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Its sockets.
    #[error(transparent)]
    Udp(#[from] UdpError),
    /// Others cannot be asked.
    #[error(transparent)]
    Ask(#[from] JoinError),
    /// Nobody has heard of the directory that is lost.
    #[error(
        "no other host tells how far the lost directory was, so that the new one cannot begin above it: start one of the other hosts first, then this one again with --replace-lost-directory"
    )]
    NoBegin,
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}

/// How long a host whose directory is lost waits for another one.
const BEGIN_PATIENCE: Duration = Duration::from_secs(10);

/// Where a directory begins that takes the place of a lost one: above all that the others have heard of that.
fn begin(number: u16, others: &[SocketAddr], keys: Option<&Keys>) -> Result<Next, MemberError> {
    let end = Instant::now() + BEGIN_PATIENCE;
    while !others.is_empty() {
        let (heard, answers) = ask_next(others, keys, number)?;
        if heard != Next::default() {
            return Ok(heard.after_a_loss());
        }
        // One that has heard of nothing says nothing of what the others have heard.
        if answers == others.len() {
            return Ok(heard);
        }
        if Instant::now() >= end {
            return Err(MemberError::NoBegin);
        }
    }
    Ok(Next::default())
}

/// A host that serves.
pub struct Member {
    server: Option<Server>,
    node: Arc<Node>,
    endpoint: Endpoint,
    cluster: Arc<RwLock<ClusterIs>>,
    /// Beside the coordinator, if this host has that.
    controller: Option<Port<Controller>>,
    /// Directories shall be tracked by switches.
    network: Arc<AtomicBool>,
}

impl Member {
    /// Recovers the host's directory and begins to serve.
    pub fn start(config: MemberConfig) -> Result<Member, MemberError> {
        let MemberConfig { number, part, replaces, strange, options, watcher, .. } = config;
        let MemberConfig { bind, cluster, hosts, keys, wait, cache, kernel_switch, .. } = config;
        let (fsid, shards) = (cluster.fsid, cluster.shards);
        let (switch_port, shapes) = (switch_port(&hosts, number), Arc::new(OnceLock::new()));
        let has_coordinator =
            hosts.iter().any(|(host, _)| host.number == number && host.shards.contains(&COORDINATOR.0));
        let kernel_switch = kernel_switch.map(|switch| Controlled(Arc::new(Mutex::new(switch))));
        let cluster = Arc::new(RwLock::new(cluster));
        let (known, shard, passes) = (Arc::new(OnceLock::new()), Arc::new(OnceLock::new()), Arc::new(OnceLock::new()));
        let hooks = Hooks {
            cluster: cluster.clone(),
            sessions: shapes.clone(),
            passes: passes.clone(),
            kernel_switch: kernel_switch.clone(),
            known: known.clone(),
            shard: shard.clone(),
            strange,
        };
        let with_directories = |(host, _): &&(HostIs, SocketAddr)| host.number != number && host.has_directory();
        let (others, places): (BTreeSet<u16>, Vec<SocketAddr>) =
            hosts.iter().filter(with_directories).map(|(host, place)| (host.number, *place)).unzip();
        let with_paths = hosts.iter().filter(|(host, _)| host.path);
        let path_nodes: Vec<u16> = with_paths.map(|(host, _)| host.number).collect();
        let asked_with = keys.clone();
        let endpoint = EndpointConfig {
            me: endpoint_of_host(number),
            cluster: fsid as u32,
            keys,
            bind,
            hosts,
            serves: true,
            wait,
            pass: Pass::default(),
        };
        // The port is taken before anything of the directory changes.
        let endpoint = Endpoint::bind(endpoint, hooks)?;
        let boot = sys::random_bytes().map(u64::from_le_bytes);
        let boot = boot.map_err(|source| MemberError::Io { what: "random bytes", source })?;
        let add_switch = |builder: &mut NodeBuilder| {
            let config = SwitchConfig::whole(NodeId::switch(number), fsid as u32, boot);
            let port = switch_port?;
            let Some(elsewhere) = kernel_switch.clone() else {
                return Some((port, builder.add(config.node, Switch::new(config), NoEffects)));
            };
            // Its packets do not come by this process.
            builder.add(config.node, Switch::elsewhere(config, Box::new(elsewhere)), NoEffects);
            None
        };
        let (server, node, switch, controller) = match part {
            Some((path, format)) => {
                let begin = if replaces { begin(number, &places, asked_with.as_ref())? } else { Next::default() };
                let mut builder = ServerBuilder::open_part(&path, &format, begin, path_nodes, options, watcher)?;
                let of_map = (shards, COORDINATOR);
                let of_host = (number, fsid as u32);
                let controller = has_coordinator
                    .then(|| add_controller(&mut builder.builder, of_host, of_map, cache.map(NodeId::switch)));
                let switch = add_switch(&mut builder.builder);
                let server = builder.start()?;
                let Superblock { secrets, dir, .. } = server.dir.superblock();
                assert!(passes.set(secrets.inner.passes()).is_ok(), "set once");
                if let Some(sessions) = &server.sessions {
                    assert!(shapes.set((sessions.clone(), secrets.placement)).is_ok(), "set once");
                }
                let next = Next {
                    birth: server.first_birth,
                    term: Term(server.dir.superblock().journal().next_term),
                    session: server
                        .sessions
                        .as_ref()
                        .map_or(SessionNumber::NONE, |all| SessionNumber(all.taken().0 + 1)),
                };
                let directories =
                    Known::open(&path, (dir, secrets.digest()), others, replaces, next).map_err(ServerError::Dir)?;
                assert!(known.set(directories).is_ok(), "set once");
                let node = server.node.clone();
                let first = server.shards.first().map(|port| (Arc::downgrade(&node), port.clone()));
                first.into_iter().for_each(|first| assert!(shard.set(first).is_ok(), "set once"));
                (Some(server), node, switch, controller)
            }
            None => {
                let mut builder = NodeBuilder::new();
                builder.among_others();
                let switch = add_switch(&mut builder);
                (None, builder.start(Commit::Interval(1), None, Arc::new(NoJournal)), switch, None)
            }
        };
        let network = Arc::new(AtomicBool::new(options.tracking.form == Form::Network));
        let wanted = network.clone();
        let form = move || if wanted.load(Ordering::Relaxed) { "network" } else { "owner" };
        node.add_section("tracking", Box::new(move || form().into()));
        endpoint.start(&node)?;
        if let Some((port, role)) = switch {
            endpoint.switch(&node, role, SocketAddr::new(bind.ip(), port))?;
        }
        Ok(Member { server, node, endpoint, cluster, controller, network })
    }

    /// The runtime.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Numbers of the hosts that have not said yet that they take the messages of this one.
    pub fn missing(&self) -> Vec<u16> {
        self.endpoint.missing()
    }

    /// From now on these are the hosts, of which only those that are switches and nothing else may have changed, and clients are told
    /// so.
    pub fn set_hosts(&self, cluster: ClusterIs, hosts: &[(HostIs, SocketAddr)]) {
        self.endpoint.set_hosts(hosts);
        *self.cluster.write().expect("a description does not panic") = cluster;
    }

    /// From now on directories shall be tracked so. The host of the coordinator sees to it, and others do nothing.
    pub fn set_tracking(&self, form: Form, switches: Switches) {
        self.network.store(form == Form::Network, Ordering::Relaxed);
        for shard in self.server.iter().flat_map(|server| &server.shards) {
            self.node.with_role(shard, |shard| shard.set_tracking(sys::now(), form, switches));
        }
    }

    /// The switch of this number shall answer hot metadata from its cache from now on, or none.
    pub fn set_cache(&self, switch: Option<u16>) {
        let switch = switch.map(NodeId::switch);
        self.controller.iter().for_each(|controller| self.node.submit(controller, ControllerIn::Switch(switch)));
    }

    /// What is to be told other keys of the cluster, if it seals messages.
    pub fn keyring(&self) -> impl Fn(Keys) + Send + 'static {
        self.endpoint.keyring()
    }

    /// Stops serving, after a checkpoint.
    pub fn stop(self) -> Result<(), MemberError> {
        let result = match self.server {
            Some(server) => server.stop().map_err(MemberError::from),
            None => {
                self.node.stop();
                Ok(())
            }
        };
        self.endpoint.stop();
        result
    }
}

/// The UDP port of the switch of a host, if it has one.
fn switch_port(hosts: &[(HostIs, SocketAddr)], number: u16) -> Option<u16> {
    let this = hosts.iter().find(|(host, _)| host.number == number);
    this.map(|(host, _)| host.switch_port).filter(|&port| port != 0)
}

struct Hooks {
    cluster: Arc<RwLock<ClusterIs>>,
    /// Of the host of the coordinator.
    sessions: Arc<OnceLock<(Arc<Sessions>, Placement)>>,
    /// What passes of clients are made with, if this host has a directory.
    passes: Arc<OnceLock<PassKey>>,
    kernel_switch: Option<Controlled>,
    /// The directories of all, if this host has one.
    known: Arc<OnceLock<Known>>,
    /// A shard of this host, if it has one.
    shard: Arc<OnceLock<(Weak<Node>, Port<Shard>)>>,
    strange: Box<dyn Fn(u16, Strange) + Send + Sync>,
}

/// The switch outside this process, for its control plane and for who hears of nodes.
#[derive(Clone)]
struct Controlled(Arc<Mutex<Box<dyn KernelSwitch>>>);

impl Controlled {
    fn lock(&self) -> MutexGuard<'_, Box<dyn KernelSwitch>> {
        self.0.lock().expect("a switch does not panic")
    }
}

impl Elsewhere for Controlled {
    fn control(&mut self, command: &Command) -> bool {
        self.lock().control(command)
    }
    fn tracking(&self) -> Option<(u16, bool)> {
        self.lock().tracking()
    }
    fn visibility(&self) -> Option<(u16, bool)> {
        self.lock().visibility()
    }
    fn cache(&self) -> Option<(u16, u32)> {
        self.lock().cache()
    }
    fn hits(&self, index: u32) -> u32 {
        self.lock().hits(index)
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.lock().counters()
    }
}

impl EndpointHooks for Hooks {
    fn began_anew(&self, _node: &Node, _roles: &[NodeId]) {}

    fn reached_at(&self, roles: &[NodeId], place: SocketAddr) {
        if let Some(switch) = &self.kernel_switch {
            switch.lock().reach(roles, place);
        }
    }

    fn directory(&self) -> Directory {
        self.known.get().map(Known::own).unwrap_or_default()
    }

    fn admits(&self, host: u16, told: Directory) -> Admission {
        let Some(known) = self.known.get() else { return Admission::Admitted };
        let admission = known.admits(host, told);
        // One that the others have taken goes on: who comes to them with other secrets is the one that gives up.
        if admission == Admission::OtherSecrets && !known.is_known() {
            (self.strange)(host, Strange::Secrets);
        }
        admission
    }

    fn next_of(&self, host: u16) -> Next {
        self.known.get().map(|known| known.next_of(host)).unwrap_or_default()
    }

    fn taken_by(&self, host: u16) {
        self.known.get().into_iter().for_each(|known| known.taken_by(host));
    }

    fn strange_to(&self, host: u16, old: bool) {
        if old {
            self.known.get().into_iter().for_each(Known::is_old_copy);
        }
        (self.strange)(host, if old { Strange::OldCopy } else { Strange::Directory });
    }

    fn serves(&self) -> bool {
        self.known.get().is_none_or(Known::serves)
    }

    fn tracked_by(&self) -> Vec<u16> {
        let shard = self.shard.get().and_then(|(node, shard)| Some((node.upgrade()?, shard)));
        let tracking = shard.map(|(node, shard)| node.with_role(shard, |shard| shard.tracking()));
        let network = tracking.filter(|tracking| tracking.form == Form::Network);
        network.map_or_else(Vec::new, |tracking| tracking.switches.numbers().collect())
    }

    fn gave(&self, pass: &Pass) -> bool {
        self.passes.get().is_none_or(|key| key.gave(pass))
    }

    fn join(&self, holder: Holder) -> Result<(Pass, Option<Placement>, ClusterIs), String> {
        let (pass, placement) = match (self.sessions.get(), self.passes.get()) {
            (Some((sessions, placement)), Some(passes)) => (passes.pass(sessions.next()?, holder), Some(*placement)),
            _ => (Pass::default(), None),
        };
        Ok((pass, placement, self.cluster.read().expect("a description does not panic").clone()))
    }
}

/// A process without records.
pub struct NoJournal;

impl HostHooks for NoJournal {
    fn flush_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn space(&self, _full: bool) {}
    fn failed(&self, why: &str) {
        unreachable!("there is no journal to fail: {why}");
    }
}
