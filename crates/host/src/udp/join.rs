//! How a client comes into a cluster of which it knows some address.

use super::hello::{ClusterIs, Hello, HostIs, HostStatus, VERSION};
use super::receive::Datagrams;
use super::socket::{Inbox, Socket};
use super::{EndpointId, JOINING, Keys, Wait};
use crate::known::Next;
use crate::sys;
use onpath_transport::handshake::{self, To};
use onpath_transport::{Config, Keyring, Room, peek};
use onpath_wire::codec::Wire;
use onpath_wire::identity::Identity;
use onpath_wire::ids::{InodeId, SessionNumber};
use onpath_wire::limits::SHARDS_MAX;
use onpath_wire::secrets::{Pass, Placement};
use onpath_wire::shown::words;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long an answer is waited for before another host is asked.
const ANSWER_WITHIN: Duration = Duration::from_millis(200);

/// What a client was told.
#[derive(Clone, Debug)]
pub struct Joined {
    /// Its session, and what shows that it was given it.
    pub pass: Pass,
    /// As whom alone it may act, if its key does not allow any caller.
    pub identity: Option<Identity>,
    /// At which slot a name is.
    pub placement: Placement,
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

/// What a host tells one who joins: the session and where names are, if the coordinator is there, and the cluster.
type Answer = ((Pass, Option<Identity>), Option<Placement>, ClusterIs);

struct Asker {
    config: Config,
    socket: Socket,
    nonce: u64,
    count: u64,
    /// The host's last challenge.
    challenge: u64,
    inbox: Inbox,
}

/// Asks hosts, one after the other and again, until one answers or `patience` is over; then the coordinator for a session.
pub fn join(hosts: &[SocketAddr], keys: Option<&Keys>, fsid: u64, patience: Duration) -> Result<Joined, JoinError> {
    let end = Instant::now() + patience;
    let silent = |asked: &[SocketAddr]| {
        let list: Vec<_> = asked.iter().map(SocketAddr::to_string).collect();
        JoinError::Silent { asked: list.join(", ") }
    };
    let mut asked = hosts.to_vec();
    while Instant::now() < end {
        for host in asked.clone() {
            let Some(((pass, identity), placement, cluster)) = Asker::new(host, keys)?.join(host, fsid)? else {
                continue;
            };
            let hosts = check(host, &cluster)?;
            if pass.session != SessionNumber::NONE {
                let placement = placement.ok_or_else(|| JoinError::Contradiction {
                    host,
                    why: "it gives a session, and does not say where names are".to_owned(),
                })?;
                return Ok(Joined { pass, identity, placement, cluster, hosts });
            }
            // Slots are spread evenly: the first shard has that of the coordinator.
            let has = |(is, _): &&(HostIs, SocketAddr)| is.shards.contains(&0);
            let (_, address) = hosts.iter().find(has).expect("checked: every shard is somewhere");
            asked = vec![*address];
        }
    }
    Err(silent(&asked))
}

impl Asker {
    fn new(host: SocketAddr, keys: Option<&Keys>) -> Result<Asker, JoinError> {
        let io = |what| move |source| JoinError::Io { what, source };
        let any: SocketAddr = match host {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = Socket::bind(any).map_err(io("a UDP socket"))?;
        socket.set_patience(ANSWER_WITHIN).map_err(io("a socket's patience"))?;
        let random = || sys::random_bytes().map(u64::from_le_bytes).map_err(io("random bytes"));
        let me = EndpointId(JOINING | (random()? as u32 & (JOINING - 1)));
        let config = Config {
            cluster: 0,
            me,
            boot: random()?.max(1),
            keyring: Keyring::new(keys.cloned()),
            room: Room::default(),
        };
        Ok(Asker { config, socket, nonce: random()?, count: 0, challenge: 0, inbox: Inbox::new() })
    }

    /// Asks one host, as often as it takes to hear of all hosts; nothing if it does not answer.
    fn join(&mut self, host: SocketAddr, fsid: u64) -> Result<Option<Answer>, JoinError> {
        let mut whole = None::<Answer>;
        loop {
            let first = whole.as_ref().map_or(0, |(.., cluster)| cluster.hosts.len() as u16);
            let join = Hello::Join { version: VERSION, nonce: self.nonce, fsid, first };
            let (session, placement, page) = match self.ask(host, &join) {
                Some(Hello::Welcome { pass, identity, placement, cluster, .. }) => {
                    ((pass, identity), placement, cluster)
                }
                Some(Hello::Refused { why, .. }) => {
                    return Err(JoinError::Refused { host, why: words(&why.0) });
                }
                _ => return Ok(None),
            };
            let none = || (session, placement, ClusterIs { hosts: vec![], ..page.clone() });
            let (.., cluster) = whole.get_or_insert_with(none);
            if page.hosts.is_empty() || cluster.hosts.len() + page.hosts.len() >= usize::from(page.all) {
                cluster.hosts.extend(page.hosts);
                return Ok(whole);
            }
            cluster.hosts.extend(page.hosts);
        }
    }

    /// Asks one host, again with its challenge if it has one, and with the second of two keys if the first gets no answer; nothing if
    /// it does not answer in time.
    fn ask(&mut self, host: SocketAddr, question: &Hello) -> Option<Hello> {
        let keys = self.config.keyring.keys();
        let names: Vec<Option<u32>> = match &keys {
            Some(keys) => keys.all().map(|key| Some(key.id())).collect(),
            None => vec![None],
        };
        for key in names {
            for _ in 0..CHALLENGES_MAX {
                match self.ask_once(host, key, question) {
                    Some(Said::Answer(answer)) => return Some(answer),
                    Some(Said::Challenge(challenge)) => self.challenge = challenge,
                    None => break,
                }
            }
        }
        None
    }

    fn ask_once(&mut self, host: SocketAddr, key: Option<u32>, question: &Hello) -> Option<Said> {
        self.count += 1;
        // It belongs to no cluster yet.
        let to = To { cluster: 0, boot: self.challenge, key };
        let datagram = handshake::make(&self.config, to, self.count, &question.to_bytes());
        if self.socket.send(host, &datagram, datagram.len()).is_err() {
            std::thread::sleep(ANSWER_WITHIN); // no way there now
            return None;
        }
        let (number, until) = (self.count + 1, Instant::now() + ANSWER_WITHIN);
        while Instant::now() < until {
            self.socket.receive(&mut self.inbox, Wait::Block).ok()?;
            for (run, _) in self.inbox.received().filter(|(_, from)| *from == host) {
                let said = Datagrams(run).find_map(|bytes| said(&self.config, (self.nonce, number), bytes));
                if said.is_some() {
                    return said;
                }
            }
        }
        None
    }
}

/// Challenges of one host before it is taken for silent.
const CHALLENGES_MAX: usize = 3;

/// What a host says to a question.
enum Said {
    Answer(Hello),
    Challenge(u64),
}

/// Asks a host how it is, some times; nothing if it does not answer.
pub fn ask_status(host: SocketAddr, keys: Option<&Keys>) -> Result<Option<HostStatus>, JoinError> {
    let mut asker = Asker::new(host, keys)?;
    for _ in 0..STATUS_TRIES {
        let nonce = asker.nonce;
        if let Some(Hello::StatusIs { status, .. }) = asker.ask(host, &Hello::Status { nonce }) {
            return Ok(Some(status));
        }
    }
    Ok(None)
}

/// Asks hosts what they have heard of the directory of another one: the highest, and how many hosts have answered.
pub fn ask_next(hosts: &[SocketAddr], keys: Option<&Keys>, number: u16) -> Result<(Next, usize), JoinError> {
    let (mut heard, mut answers) = (Next::default(), 0);
    for host in hosts {
        let mut asker = Asker::new(*host, keys)?;
        for _ in 0..STATUS_TRIES {
            let nonce = asker.nonce;
            if let Some(Hello::NextIs { next, .. }) = asker.ask(*host, &Hello::Next { nonce, number }) {
                heard = heard.max(next);
                answers += 1;
                break;
            }
        }
    }
    Ok((heard, answers))
}

/// Asks a host for its report ([`crate::report`]) until `patience` is over; nothing if it does not tell all of it. JSON text.
pub fn ask_report(host: SocketAddr, keys: Option<&Keys>, patience: Duration) -> Result<Option<String>, JoinError> {
    ask_parts(host, keys, patience, |nonce, part| Hello::Tell { nonce, part })
}

/// The same for what its roles know of an inode: an object of roles, each an object of numbers, without those that know nothing.
pub fn ask_inspection(
    host: SocketAddr,
    keys: Option<&Keys>,
    inode: InodeId,
    patience: Duration,
) -> Result<Option<String>, JoinError> {
    ask_parts(host, keys, patience, |nonce, part| Hello::Inspect { nonce, part, inode })
}

/// Asks for one part of a text after the other.
fn ask_parts(
    host: SocketAddr,
    keys: Option<&Keys>,
    patience: Duration,
    question: impl Fn(u64, u16) -> Hello,
) -> Result<Option<String>, JoinError> {
    let (end, mut asker, mut all) = (Instant::now() + patience, Asker::new(host, keys)?, Vec::new());
    let (nonce, mut part) = (asker.nonce, 0);
    while Instant::now() < end {
        match asker.ask(host, &question(nonce, part)) {
            Some(Hello::Told { part: told, parts, bytes, .. }) if told == part => {
                all.extend(bytes.0);
                part += 1;
                if part >= parts {
                    return Ok(Some(String::from_utf8_lossy(&all).into_owned()));
                }
            }
            _ => {} // lost, late, or not made yet
        }
    }
    Ok(None)
}

/// How often a host is asked for its status.
const STATUS_TRIES: usize = 5;

/// What a datagram says to the last question, of this nonce and number.
fn said(config: &Config, (asked, number): (u64, u64), datagram: &mut [u8]) -> Option<Said> {
    let head = peek(datagram).ok().filter(|head| head.handshake() && head.to_boot == config.boot)?;
    if head.challenge() {
        let challenge = handshake::challenged(&head, datagram).ok()?;
        return (head.number == number).then_some(Said::Challenge(challenge));
    }
    let bytes = handshake::open(config, &head, datagram).ok()?;
    let answer = Hello::from_bytes(&bytes).ok()?;
    match answer {
        Hello::Welcome { nonce, .. }
        | Hello::Refused { nonce, .. }
        | Hello::StatusIs { nonce, .. }
        | Hello::NextIs { nonce, .. }
        | Hello::Told { nonce, .. }
            if nonce == asked =>
        {
            Some(Said::Answer(answer))
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
    if !cluster.hosts.iter().any(|host| host.data)
        || !cluster.hosts.is_sorted_by(|one, other| one.number < other.number)
    {
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
