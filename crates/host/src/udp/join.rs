//! How a client comes into a cluster of which it knows some address.

use super::hello::{ClusterIs, Hello, HostIs, VERSION};
use super::socket::{Inbox, Socket};
use super::{EndpointId, JOINING, Key, Wait};
use crate::sys;
use onpath_transport::{Config, handshake, peek};
use onpath_wire::codec::Wire;
use onpath_wire::ids::SessionId;
use onpath_wire::limits::SHARDS_MAX;
use onpath_wire::map::ClusterMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long an answer is waited for before another host is asked.
const ANSWER_WITHIN: Duration = Duration::from_millis(200);

/// What a client was told.
#[derive(Clone, Debug)]
pub struct Joined {
    /// Its session.
    pub session: SessionId,
    /// The cluster.
    pub cluster: ClusterIs,
    /// Its hosts with their addresses.
    pub hosts: Vec<(HostIs, SocketAddr)>,
}

/// Why a client does not come in.
#[derive(Debug, Error)]
pub enum JoinError {
    /// Nobody answers.
    #[error(
        "no host answers at {asked}: is `onpath serve` running there, and does UDP come through? (With a key, the hosts answer only those who have it)"
    )]
    Silent {
        /// Who was asked.
        asked: String,
    },
    /// A host refused.
    #[error("{host} refused: {why}")]
    Refused {
        /// Who.
        host: SocketAddr,
        /// Its words.
        why: String,
    },
    /// A host told something impossible.
    #[error("{host} tells of a cluster that cannot be: {why}; do all hosts have the same configuration?")]
    Contradiction {
        /// Who.
        host: SocketAddr,
        /// What.
        why: String,
    },
    /// An address of a host is none.
    #[error("host {name:?} has the address {address:?}, which this machine cannot resolve: {source}")]
    Address {
        /// The host.
        name: String,
        /// Its address, as the configuration says.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}

struct Asker {
    config: Config,
    socket: Socket,
    fsid: u64,
    nonce: u64,
    count: u64,
    inbox: Inbox,
}

/// Asks hosts, one after the other and again, until one answers or `patience` is over; then the coordinator for a session.
pub fn join(hosts: &[SocketAddr], key: Option<&Key>, fsid: u64, patience: Duration) -> Result<Joined, JoinError> {
    let end = Instant::now() + patience;
    let silent = |asked: &[SocketAddr]| {
        let list: Vec<_> = asked.iter().map(SocketAddr::to_string).collect();
        JoinError::Silent { asked: list.join(", ") }
    };
    let mut asked = hosts.to_vec();
    while Instant::now() < end {
        for host in asked.clone() {
            let Some((session, cluster)) = Asker::new(host, key, fsid)?.ask(host)? else { continue };
            let hosts = check(host, &cluster)?;
            if session.0 != 0 {
                return Ok(Joined { session, cluster, hosts });
            }
            let coordinator = ClusterMap::even(cluster.shards).coordinator();
            let has = |(is, _): &&(HostIs, SocketAddr)| is.shards.contains(&coordinator.0);
            let (_, address) = hosts.iter().find(has).expect("checked: every shard is somewhere");
            asked = vec![*address];
        }
    }
    Err(silent(&asked))
}

impl Asker {
    fn new(host: SocketAddr, key: Option<&Key>, fsid: u64) -> Result<Asker, JoinError> {
        let io = |what| move |source| JoinError::Io { what, source };
        let any: SocketAddr = match host {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = Socket::bind(any).map_err(io("a UDP socket"))?;
        socket.set_patience(ANSWER_WITHIN).map_err(io("a socket's patience"))?;
        let random = || sys::random_bytes().map(u64::from_le_bytes).map_err(io("random bytes"));
        let me = EndpointId(JOINING | (random()? as u32 & (JOINING - 1)));
        let config = Config { cluster: 0, me, boot: random()?.max(1), key: key.cloned() };
        Ok(Asker { config, socket, fsid, nonce: random()?, count: 0, inbox: Inbox::new() })
    }

    /// Asks one host; nothing if it does not answer.
    fn ask(&mut self, host: SocketAddr) -> Result<Option<(SessionId, ClusterIs)>, JoinError> {
        let join = Hello::Join { version: VERSION, nonce: self.nonce, fsid: self.fsid };
        self.count += 1;
        // It belongs to no cluster yet.
        let datagram = handshake::make(&self.config, 0, 0, self.count, &join.to_bytes());
        if self.socket.send(host, &datagram, datagram.len()).is_err() {
            std::thread::sleep(ANSWER_WITHIN);
            return Ok(None);
        }
        let until = Instant::now() + ANSWER_WITHIN;
        while Instant::now() < until {
            if self.socket.receive(&mut self.inbox, Wait::Block).is_err() {
                break;
            }
            for (bytes, received) in self.inbox.received().filter(|(_, received)| received.from == host) {
                let answers = bytes.chunks_mut(received.segment);
                if let Some(answer) = answers.filter_map(|bytes| answer(&self.config, self.nonce, host, bytes)).next() {
                    return answer.map(Some);
                }
            }
        }
        Ok(None)
    }
}

/// What a datagram from `host` answers, if it is an answer to this asker.
fn answer(
    config: &Config,
    nonce: u64,
    host: SocketAddr,
    datagram: &mut [u8],
) -> Option<Result<(SessionId, ClusterIs), JoinError>> {
    peek(datagram).ok().filter(|head| head.handshake() && head.to_boot == config.boot)?;
    let (_, bytes) = handshake::open(config, datagram).ok()?;
    match Hello::from_bytes(&bytes).ok()? {
        Hello::Welcome { nonce: answered, session, cluster } if answered == nonce => Some(Ok((session, cluster))),
        Hello::Refused { nonce: answered, why } if answered == nonce => {
            let why = String::from_utf8_lossy(&why.0).into_owned();
            Some(Err(JoinError::Refused { host, why }))
        }
        _ => None,
    }
}

/// Whether a cluster can be as it was told; its hosts' addresses.
fn check(host: SocketAddr, cluster: &ClusterIs) -> Result<Vec<(HostIs, SocketAddr)>, JoinError> {
    let wrong = |why: &str| JoinError::Contradiction { host, why: why.to_owned() };
    if !(1..=SHARDS_MAX).contains(&cluster.shards) {
        return Err(wrong("its number of shards"));
    }
    let has = |shard: u16| cluster.hosts.iter().filter(|host| host.shards.contains(&shard)).count();
    if (0..cluster.shards).any(|shard| has(shard) != 1) {
        return Err(wrong("a shard is not at one host"));
    }
    if !cluster.hosts.iter().any(|host| host.data) || !cluster.hosts.is_sorted_by_key(|host| host.number) {
        return Err(wrong("its data nodes"));
    }
    let resolved = cluster.hosts.iter().map(|is| {
        let (name, address) = [&is.name, &is.address].map(|text| String::from_utf8_lossy(&text.0).into_owned()).into();
        let found = address
            .to_socket_addrs()
            .and_then(|mut all| all.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no address")));
        match found {
            Ok(found) => Ok((is.clone(), found)),
            Err(source) => Err(JoinError::Address { name, address, source }),
        }
    });
    resolved.collect()
}
