//! What is modelled: how many servers, how far apart, tracked how, under which load.

use super::calibration::Calibration;
use onpath_meta::SyncPolicy;
use onpath_path::IndexKind;
use onpath_switch::Locks;
use onpath_wire::tracking::{Form, Writes};

/// Who tracks directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tracking {
    /// Their owners; no directory goes into *sync*.
    Owner,
    /// A switch through which all messages go anyway; no directory goes into *sync*.
    Network,
    /// A server with so many cores that does what the switch does: a further way for what asks or marks.
    Server {
        /// Its cores.
        cores: u16,
    },
    /// Nobody: all directories are in *sync*, in the owner form.
    Sync,
}

impl Tracking {
    pub(crate) fn form(self) -> Form {
        match self {
            Tracking::Owner | Tracking::Sync => Form::Owner,
            Tracking::Network | Tracking::Server { .. } => Form::Network,
        }
    }

    pub(crate) fn policy(self) -> SyncPolicy {
        if self == Tracking::Sync { SyncPolicy::Always } else { SyncPolicy::Never }
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Tracking::Owner => "owner",
            Tracking::Network => "network",
            Tracking::Server { .. } => "server",
            Tracking::Sync => "sync",
        }
    }
}

/// Who knows the tree of directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathNodes {
    /// Nobody.
    None,
    /// A path node on a further server, with as many cores as the others.
    Apart,
    /// A path node on each server, beside its shards.
    Beside,
    /// A directory server as of LocoFS: a path node on a further server, whose walk costs a lookup for each name.
    Central,
}

impl PathNodes {
    /// Path nodes of so many servers.
    pub(crate) fn count(self, servers: u16) -> u16 {
        match self {
            PathNodes::None => 0,
            PathNodes::Apart | PathNodes::Central => 1,
            PathNodes::Beside => servers,
        }
    }

    /// Whether they are on a server of their own.
    pub(crate) fn are_apart(self) -> bool {
        matches!(self, PathNodes::Apart | PathNodes::Central)
    }
}

/// Which entries a table of files in the switch takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// The newest one: what a data node leaves with it has all that came before (V-8).
    NewestWins,
    /// One that finds its place free, and newer than all that had it: the next one comes when the home has learned that, and said so (Switch∆ §III-C).
    FreeOnly,
}

/// The cache of a switch (C-n), and its controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Entries at most.
    pub entries: u32,
    /// A name is given an entry that is missed more often in a period.
    pub threshold: u16,
}

/// When requests are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// So many clients, each with so many requests under way.
    Closed {
        /// Clients.
        clients: u32,
        /// Requests of each.
        window: u32,
    },
    /// So many requests a second of all clients together, at random (Poisson), whatever is under way.
    Open {
        /// Clients.
        clients: u32,
        /// Requests a second.
        rate: f64,
    },
}

impl Load {
    /// Clients.
    pub fn clients(self) -> u32 {
        match self {
            Load::Closed { clients, .. } | Load::Open { clients, .. } => clients,
        }
    }
}

/// A modelled system.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// Everything random comes from it.
    pub seed: u64,
    /// Metadata servers.
    pub servers: u16,
    /// Cores of each, and shards unless `shards` says otherwise.
    pub cores: u16,
    /// Shards of each server; none: one a core.
    pub shards: Option<u16>,
    /// Who tracks directories.
    pub tracking: Tracking,
    /// Marks are sticky; else every update is marked.
    pub sticky_marks: bool,
    /// Who knows the tree of directories.
    pub path_nodes: PathNodes,
    /// How path nodes hold it.
    pub index: IndexKind,
    /// Servers that have data nodes, one a core, and nothing else; without any, files have no bytes.
    pub data_servers: u16,
    /// Who answers writes of files.
    pub writes: Writes,
    /// Data nodes tell homes of writes later, many at once.
    pub deferred: bool,
    /// Which table of the switch shows files.
    pub table: Table,
    /// Of how many other servers a data node waits for one, which has what was written, before it answers. They have nothing else to do.
    pub backups: u16,
    /// The cache of the switch, which answers when it is told so; its controller is on a server of its own.
    pub cache: Option<Cache>,
    /// Fletch's lock counters in the switch.
    pub locks: Locks,
    /// A pass of a packet of the cache through the switch beyond its first one, ns; 0: all of them take no time.
    pub pass_ns: u64,
    /// Servers follow the path of each name that they are asked for, with so many names, as where each of them has all directories (HDFS): it
    /// costs what it costs a path node.
    pub followed: u32,
    /// Clients run on the cores of the (only) server, as in one process; else they cost nothing.
    pub clients_inside: bool,
    /// From any node to any other, ns; nothing within a server.
    pub link_ns: u64,
    /// A flush of a journal, ns. Replies to clients do not wait for it (`--commit interval`), messages between servers do.
    pub flush_ns: u64,
    /// What things cost.
    pub costs: Calibration,
    /// Load.
    pub load: Load,
}

impl ModelConfig {
    /// One server of one core and what the others are made from.
    pub fn new(costs: Calibration) -> ModelConfig {
        ModelConfig {
            seed: 1,
            servers: 1,
            cores: 1,
            shards: None,
            tracking: Tracking::Owner,
            sticky_marks: true,
            path_nodes: PathNodes::None,
            index: IndexKind::Hi,
            data_servers: 0,
            writes: Writes::Chain,
            deferred: true,
            table: Table::NewestWins,
            backups: 0,
            cache: None,
            locks: Locks::Off,
            pass_ns: 0,
            followed: 0,
            clients_inside: false,
            link_ns: 0,
            flush_ns: costs.flush_ns as u64,
            costs,
            load: Load::Closed { clients: 1, window: 1 },
        }
    }

    pub(crate) fn shards_each(&self) -> u16 {
        self.shards.unwrap_or(self.cores)
    }
}
