//! How a mount reaches the roles of its file system: by the socket of a process on this host, or by UDP.

use crate::cli::directory;
use crate::cluster::{key, url};
use crate::mounted::Event;
use anyhow::Context;
use onpath_fuse::adapter::Answers;
use onpath_host::node::{Node, Port};
use onpath_host::stream::{Attached, ClientHooks, StreamClient, StreamError};
use onpath_host::udp::{self, Endpoint, EndpointConfig, EndpointHooks, Joined, Key, Wait, endpoint_of_session};
use onpath_session::{Session, SessionIn};
use onpath_wire::ids::{NodeId, SessionId};
use onpath_wire::map::ClusterMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// What is at the end of the way.
pub(crate) struct There {
    /// The file system.
    pub(crate) fsid: u64,
    /// The session of this mount.
    pub(crate) session: SessionId,
    /// Who has what.
    pub(crate) map: ClusterMap,
    /// Whether replies leave when they are durable.
    pub(crate) sync: bool,
}

/// A way that was found.
pub(crate) enum Way {
    /// To the process that serves a DIR of this host.
    Stream(StreamClient, String),
    /// To the hosts of a cluster.
    Udp(Box<Joined>, Option<Key>, String),
}

impl Way {
    /// Finds the way to a DIR or an `onpath://` URL.
    pub(crate) fn find(source: &Path, key_file: Option<&Path>, patience: Duration) -> anyhow::Result<Way> {
        if !url::is_url(source) {
            let dir = directory(source)?;
            return Ok(Way::Stream(StreamClient::connect(&dir)?, dir.to_string_lossy().into_owned()));
        }
        let key = key_file.map(key::read).transpose()?;
        let url = source.to_string_lossy().into_owned();
        let joined = udp::join(&url::hosts(&url)?, key.as_ref(), 0, patience).with_context(|| url.clone())?;
        Ok(Way::Udp(Box::new(joined), key, url))
    }

    /// How the mount is listed.
    pub(crate) fn source(&self) -> String {
        let (Way::Stream(_, source) | Way::Udp(_, _, source)) = self;
        source.clone()
    }

    pub(crate) fn there(&self) -> There {
        match self {
            Way::Stream(client, _) => {
                let is = client.welcome;
                There { fsid: is.fsid, session: is.session, map: ClusterMap::even(is.shards), sync: is.sync }
            }
            Way::Udp(joined, ..) => {
                let is = &joined.cluster;
                let data: Vec<u16> = is.hosts.iter().filter(|host| host.data).map(|host| host.number).collect();
                let map = ClusterMap::even(is.shards).with_data_nodes(&data);
                There { fsid: is.fsid, session: joined.session, map, sync: is.sync }
            }
        }
    }

    /// Carries messages between `node`, which runs the session, and all other roles.
    pub(crate) fn connect(
        self,
        node: &Arc<Node>,
        session: &Port<Session>,
        over: Sender<Event>,
        wait: Wait,
    ) -> anyhow::Result<Connected> {
        let map = self.there().map;
        let hooks = Hooks { session: session.clone(), map, over };
        Ok(match self {
            Way::Stream(client, _) => Connected::Stream(Arc::new(client.start(node, hooks)?)),
            Way::Udp(joined, key, _) => {
                let Joined { session, cluster, hosts } = *joined;
                let any: SocketAddr = match hosts.first().map(|(_, address)| address) {
                    Some(SocketAddr::V6(_)) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                    _ => (Ipv4Addr::UNSPECIFIED, 0).into(),
                };
                let config = EndpointConfig {
                    me: endpoint_of_session(session),
                    cluster: cluster.fsid as u32,
                    key,
                    bind: any,
                    hosts,
                    serves: false,
                    wait,
                };
                let endpoint = Endpoint::bind(config, hooks)?;
                endpoint.start(node)?;
                Connected::Udp(endpoint)
            }
        })
    }
}

/// A way in use.
pub(crate) enum Connected {
    Stream(Arc<Attached>),
    Udp(Endpoint),
}

/// How often the server is told what this mount does.
const TOLD_EVERY: Duration = Duration::from_secs(1);

impl Connected {
    /// Tells the server of this host what this mount does, until the sender that is returned is dropped.
    pub(crate) fn tell(&self, answers: Arc<Answers>) -> io::Result<Option<Sender<()>>> {
        let Connected::Stream(stream) = self else { return Ok(None) };
        let (over, ended) = channel();
        let stream = stream.clone();
        std::thread::Builder::new().name("teller".into()).spawn(move || {
            while ended.recv_timeout(TOLD_EVERY) == Err(RecvTimeoutError::Timeout) {
                stream.tell(&answers.meter().counters());
            }
        })?;
        Ok(Some(over))
    }

    pub(crate) fn stop(&self) {
        match self {
            Connected::Stream(stream) => stream.stop(),
            Connected::Udp(endpoint) => endpoint.stop(),
        }
    }
}

struct Hooks {
    session: Port<Session>,
    map: ClusterMap,
    over: Sender<Event>,
}

impl ClientHooks for Hooks {
    fn reset(&self, node: &Node) {
        self.map.roles().for_each(|peer| node.submit(&self.session, SessionIn::PeerReset(peer)));
    }

    fn refused(&self, _node: &Node, why: &StreamError) {
        // The mount may be over already; then nobody listens.
        _ = self.over.send(Event::Refused(why.to_string()));
    }
}

impl EndpointHooks for Hooks {
    fn began_anew(&self, node: &Node, roles: &[NodeId]) {
        roles.iter().for_each(|&peer| node.submit(&self.session, SessionIn::PeerReset(peer)));
    }
}
