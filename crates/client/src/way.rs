//! How a session reaches the roles of its file system: by the socket of a process on this host, or by UDP.

use crate::key::{self, KeyError};
use crate::url::{self, UrlError};
use onpath_host::node::{Link, Node, Port};
use onpath_host::stream::{Attached, ClientHooks, StreamClient, StreamError};
use onpath_host::udp::{
    self, Endpoint, EndpointConfig, EndpointHooks, HostIs, JoinError, Joined, Keys, UdpError, Wait, endpoint_of_session,
};
use onpath_session::{Session, SessionIn};
use onpath_wire::identity::Identity;
use onpath_wire::ids::{NodeId, SessionNumber};
use onpath_wire::map::ClusterMap;
use onpath_wire::packet::Packet;
use onpath_wire::report::MountReport;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;
use thiserror::Error;

/// What is at the end of the way.
pub struct There {
    /// The file system.
    pub fsid: u64,
    /// The session.
    pub session: SessionNumber,
    /// Who has what.
    pub map: ClusterMap,
    /// Whether replies leave when they are durable.
    pub sync: bool,
    /// As whom alone the session acts, if it may not say for each request who asks.
    pub identity: Option<Identity>,
}

/// A way that was found.
pub enum Way {
    /// To the process that serves a DIR of this host.
    Stream(StreamClient, String),
    /// To the hosts of a cluster.
    Udp(Box<Joined>, Sealed, String),
}

/// With which keys messages to hosts are sealed, if they are, and where those are written.
#[derive(Clone, Default)]
pub struct Sealed {
    keys: Option<Keys>,
    file: Option<PathBuf>,
}

/// Why there is no way to a file system.
#[derive(Debug, Error)]
pub enum WayError {
    /// The URL is none.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// No host lets it in.
    #[error("{url}: {source}")]
    Join {
        /// Which hosts.
        url: String,
        /// Why not.
        source: JoinError,
    },
    /// The process that serves a DIR does not let it in, or there is none.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A socket.
    #[error(transparent)]
    Udp(#[from] UdpError),
    /// A thread.
    #[error("a thread: {0}")]
    Thread(#[from] io::Error),
}

/// What is told, in words, when a session cannot go on.
pub type Over = Arc<dyn Fn(&str) + Send + Sync>;

impl Way {
    /// Finds the way to the DIR of a running `onpath dev`, an absolute path, or to the hosts of an `onpath://` URL.
    pub fn find(source: &Path, key_file: Option<&Path>, patience: Duration) -> Result<Way, WayError> {
        if !url::is_url(source) {
            return Ok(Way::Stream(StreamClient::connect(source)?, source.to_string_lossy().into_owned()));
        }
        let url = source.to_string_lossy().into_owned();
        Way::to_hosts(&url::hosts(&url)?, key_file, patience, url)
    }

    /// Finds the way to the hosts of a cluster; `url` is what they are called.
    pub fn to_hosts(
        hosts: &[SocketAddr],
        key_file: Option<&Path>,
        patience: Duration,
        url: String,
    ) -> Result<Way, WayError> {
        let sealed = Sealed { keys: key::keys_of(key_file)?, file: key_file.map(Path::to_owned) };
        match udp::join(hosts, sealed.keys.as_ref(), 0, patience) {
            Ok(joined) => Ok(Way::Udp(Box::new(joined), sealed, url)),
            Err(source) => Err(WayError::Join { url, source }),
        }
    }

    /// How the mount is listed.
    pub fn source(&self) -> String {
        let (Way::Stream(_, source) | Way::Udp(_, _, source)) = self;
        source.clone()
    }

    /// What is at its end.
    pub fn there(&self) -> There {
        match self {
            Way::Stream(client, _) => {
                let is = &client.welcome;
                let map = ClusterMap::even(is.shards, is.placement).with_path_nodes(&is.path_nodes);
                There { fsid: is.fsid, session: is.pass.session, map, sync: is.sync, identity: is.identity.clone() }
            }
            Way::Udp(joined, ..) => {
                let is = &joined.cluster;
                let those = |has: fn(&HostIs) -> bool| -> Vec<u16> {
                    is.hosts.iter().filter(|host| has(host)).map(|host| host.number).collect()
                };
                let map = ClusterMap::even(is.shards, joined.placement)
                    .with_data_nodes(&those(|host| host.data))
                    .with_path_nodes(&those(|host| host.path));
                There {
                    fsid: is.fsid,
                    session: joined.pass.session,
                    map,
                    sync: is.sync,
                    identity: joined.identity.clone(),
                }
            }
        }
    }

    /// Carries messages between `node`, which runs the session, and all other roles.
    pub fn connect(
        self,
        node: &Arc<Node>,
        session: &Port<Session>,
        over: Over,
        wait: Wait,
    ) -> Result<Connected, WayError> {
        let map = self.there().map;
        let hooks = Hooks { session: session.clone(), map, over };
        Ok(match self {
            Way::Stream(client, _) => Connected::Stream(Arc::new(client.start(node, hooks)?)),
            Way::Udp(joined, Sealed { keys, file }, _) => {
                let hosts = joined.hosts.iter().map(|(_, address)| *address).collect();
                let fsid = joined.cluster.fsid;
                let endpoint = bind(*joined, keys.clone(), wait, &hooks)?;
                let relay = Arc::new(Relay(RwLock::new(endpoint.link())));
                node.attach_default(relay.clone());
                endpoint.receive_for(node)?;
                let endpoint = Mutex::new(Some(endpoint));
                let sealed = Mutex::new(keys.clone());
                let hosts = Hosts { hosts, fsid, keys: sealed, wait, hooks, node: node.clone(), relay, endpoint };
                let hosts = Arc::new(hosts);
                if let (Some(keys), Some(file)) = (keys, file) {
                    key::follow(&file, keys, Arc::downgrade(&hosts), |hosts: &Hosts, keys| hosts.set_keys(&keys))?;
                }
                Connected::Udp(hosts)
            }
        })
    }
}

/// An endpoint of this mount's session.
fn bind(joined: Joined, keys: Option<Keys>, wait: Wait, hooks: &Hooks) -> Result<Endpoint, UdpError> {
    let Joined { pass, cluster, hosts, .. } = joined;
    let any: SocketAddr = match hosts.first().map(|(_, address)| address) {
        Some(SocketAddr::V6(_)) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        _ => (Ipv4Addr::UNSPECIFIED, 0).into(),
    };
    let config = EndpointConfig {
        me: endpoint_of_session(pass.session.id()),
        cluster: cluster.fsid as u32,
        keys,
        bind: any,
        hosts,
        serves: false,
        wait,
        pass,
    };
    Endpoint::bind(config, hooks.clone())
}

/// A way in use.
#[derive(Clone)]
pub enum Connected {
    /// By the socket of a DIR.
    Stream(Arc<Attached>),
    /// By UDP.
    Udp(Arc<Hosts>),
}

/// The hosts of a cluster, from this session.
pub struct Hosts {
    hosts: Vec<SocketAddr>,
    fsid: u64,
    keys: Mutex<Option<Keys>>,
    wait: Wait,
    hooks: Hooks,
    node: Arc<Node>,
    relay: Arc<Relay>,
    /// That of the present session; none when the mount is over.
    endpoint: Mutex<Option<Endpoint>>,
}

/// The way out of this process, by whichever endpoint it has at the time.
struct Relay(RwLock<Arc<dyn Link>>);

impl Link for Relay {
    fn send(&self, to: NodeId, packet: Packet) {
        self.0.read().expect("sending does not panic").send(to, packet);
    }

    fn send_all(&self, messages: &mut Vec<(NodeId, Packet)>) {
        self.0.read().expect("sending does not panic").send_all(messages);
    }
}

impl Hosts {
    fn is_over(&self) -> bool {
        self.endpoint.lock().expect("binding does not panic").is_none()
    }

    /// Asks the hosts for another session until there is one, and goes on as that.
    fn begin_anew(&self) {
        while !self.is_over() {
            let keys = self.keys.lock().expect("keys do not panic").clone();
            let joined = match udp::join(&self.hosts, keys.as_ref(), self.fsid, REJOIN_WITHIN) {
                Ok(joined) => joined,
                Err(error @ (JoinError::Refused { .. } | JoinError::Contradiction { .. })) => {
                    return self.hooks.over(&error.to_string());
                }
                Err(error) => {
                    tracing::debug!(%error, "no host gives another session yet");
                    continue;
                }
            };
            let session = joined.pass.session;
            let bound = bind(joined, keys, self.wait, &self.hooks);
            let begun = bound.and_then(|endpoint| endpoint.receive_for(&self.node).map(|()| endpoint));
            match begun {
                Ok(endpoint) => {
                    *self.relay.0.write().expect("sending does not panic") = endpoint.link();
                    let mut place = self.endpoint.lock().expect("binding does not panic");
                    if place.is_none() {
                        return; // the mount is over
                    }
                    let before = place.replace(endpoint);
                    drop(place);
                    drop(before);
                    tracing::warn!(%session, "goes on as another session");
                    self.node.rename(&self.hooks.session, session.id());
                    return self.node.submit(&self.hooks.session, SessionIn::Anew { session });
                }
                Err(error) => {
                    tracing::warn!(%error, "no endpoint for another session yet");
                    std::thread::sleep(REJOIN_WITHIN);
                }
            }
        }
    }

    fn set_keys(&self, keys: &Keys) {
        *self.keys.lock().expect("keys do not panic") = Some(keys.clone());
        let endpoint = self.endpoint.lock().expect("binding does not panic");
        endpoint.iter().for_each(|endpoint| endpoint.keyring()(keys.clone()));
    }

    fn stop(&self) {
        let endpoint = self.endpoint.lock().expect("binding does not panic").take();
        if let Some(endpoint) = endpoint {
            endpoint.stop();
        }
    }
}

/// How long hosts are asked for another session before it is looked whether the mount is over, and the pause after an error.
const REJOIN_WITHIN: Duration = Duration::from_secs(1);

impl Connected {
    /// Tells the server, or the hosts, what this mount has done: that which knows all sessions adds it up.
    pub fn tell(&self, report: MountReport) {
        match self {
            Connected::Stream(stream) => stream.tell(report),
            Connected::Udp(hosts) => {
                let endpoint = hosts.endpoint.lock().expect("a way does not panic");
                let coordinator = NodeId::shard(hosts.hooks.map.coordinator());
                endpoint.iter().for_each(|endpoint| endpoint.tell(coordinator, &report));
            }
        }
    }

    /// What tells whether the server, or a host with shards, is gone.
    pub fn is_lost(&self) -> Box<dyn Fn() -> bool + Send> {
        let connected = self.clone();
        Box::new(move || match &connected {
            Connected::Stream(stream) => stream.is_lost(),
            Connected::Udp(hosts) => {
                let endpoint = hosts.endpoint.lock().expect("a way does not panic");
                endpoint.as_ref().is_some_and(Endpoint::misses_a_host)
            }
        })
    }

    /// Ends it.
    pub fn stop(&self) {
        match self {
            Connected::Stream(stream) => stream.stop(),
            Connected::Udp(hosts) => hosts.stop(),
        }
    }

    /// The session was declared dead: gets it another id, which it hears of by [`SessionIn::Anew`].
    pub fn begin_anew(&self) {
        match self {
            Connected::Stream(stream) => stream.begin_anew(),
            Connected::Udp(hosts) => {
                let hosts = hosts.clone();
                let started = std::thread::Builder::new().name("rejoin".into()).spawn({
                    let hosts = hosts.clone();
                    move || hosts.begin_anew()
                });
                if let Err(error) = started {
                    hosts.hooks.over(&format!("no thread to join again: {error}"));
                }
            }
        }
    }
}

#[derive(Clone)]
struct Hooks {
    session: Port<Session>,
    map: ClusterMap,
    over: Over,
}

impl Hooks {
    /// The mount cannot go on.
    fn over(&self, why: &str) {
        (self.over)(why);
    }
}

impl ClientHooks for Hooks {
    fn renamed(&self, node: &Node, session: SessionNumber) {
        node.rename(&self.session, session.id());
        node.submit(&self.session, SessionIn::Anew { session });
    }

    fn reset(&self, node: &Node) {
        self.map.roles().for_each(|peer| node.submit(&self.session, SessionIn::PeerReset(peer)));
    }

    fn refused(&self, _node: &Node, why: &StreamError) {
        self.over(&why.to_string());
    }
}

impl EndpointHooks for Hooks {
    fn began_anew(&self, node: &Node, roles: &[NodeId]) {
        roles.iter().for_each(|&peer| node.submit(&self.session, SessionIn::PeerReset(peer)));
    }
}
