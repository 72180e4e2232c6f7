//! What processes say to each other before, and besides, the messages of their roles.
//!
//! Questions are taken from whoever repeats the challenge of who is asked (`super::strangers`), so that nobody is taken in by a recorded
//! one, or by one that comes from elsewhere than it says; answers from whoever names the question and the boot of who asked:
//!
//! ```text
//! a → b  Greet (no challenge)        b: whoever that is, it is not shown that it is there
//! b → a  challenge                   a: asks again
//! a → b  Greet (that challenge)      b: this is a's boot, and its address
//! b → a  Greeted (of that question)  a: this is b's boot, and messages will be taken
//! ```
//!
//! *Greeting*: two processes learn each other's present boot.
//! A host tells in both of the last which directory it has, and how far that is (`crate::known`); who is greeted and knows another or a later
//! one answers `Strange`, and takes nothing from it: the boot of a host is believed only together with its directory. Whoever has other
//! secrets is not answered at all, as each of the two hears of that itself: the one whose directory is new gives up. A client shows the pass
//! that it was given with its session.
//!
//! A host that gets a message of somebody whom it does not know, or for its own former life, answers with a challenge, too.
//!
//! *Asking*: a process that hears of a switch it does not know, since the cluster got that later, asks all hosts
//! ([`Hello::Where`]); they are greeted, and their boots are known.
//!
//! *Telling*: whoever has the key may ask a host how it is ([`Hello::Status`], of the endpoint alone), for its whole report ([`Hello::Tell`], of all
//! its roles), and what these know of one inode ([`Hello::Inspect`]). The last two are made beside and told in parts.
//!
//! *Replacing*: a host whose directory is lost asks the others, before it starts, what they have heard of it ([`Hello::Next`]), and begins above.
//!
//! *Joining*: a client that has no session yet asks any host for the map ([`Hello::Join`]); that of the coordinator gives it a session.

use crate::known::{Directory, Next};
use onpath_wire::codec::{Blob, Wire};
use onpath_wire::identity::Identity;
use onpath_wire::ids::InodeId;
use onpath_wire::secrets::{Pass, Placement};
use onpath_wire::{wire_enum, wire_struct};

/// Version of these messages and of those of the roles.
pub(super) const VERSION: u32 = 27;

wire_enum! {
    /// A message between processes.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Hello {
        /// I am here, and can be reached where this comes from.
        1 => Greet {
            /// [`VERSION`].
            version: u32,
            /// The directory that I have.
            directory: Directory,
            /// Of a client: which session I am.
            pass: Pass,
            /// My half of an exchange ([`onpath_transport::Exchange`]), if messages are sealed.
            public: Blob,
        },
        /// I know you, and take your messages.
        2 => Greeted {
            /// Number of the greeting.
            question: u64,
            /// The directory that I have.
            directory: Directory,
            /// My half of the exchange.
            public: Blob,
        },
        /// I would like to be a session.
        4 => Join {
            /// [`VERSION`].
            version: u32,
            /// Drawn by the client: the same question is given the same answer.
            nonce: u64,
            /// The file system that is meant; 0 for any.
            fsid: u64,
            /// Hosts from this place of the list on are asked for: not all may fit one answer.
            first: u16,
        },
        /// The answer to a join.
        5 => Welcome {
            /// Of the question.
            nonce: u64,
            /// The session; none if the coordinator is another host.
            pass: Pass,
            /// Who the client is, if its key does not allow any caller.
            identity: Option<Identity>,
            /// At which slot a name is, which a session needs.
            placement: Option<Placement>,
            /// What there is.
            cluster: ClusterIs,
        },
        /// The other answer.
        6 => Refused {
            /// Of the question.
            nonce: u64,
            /// Why, for people.
            why: Blob,
        },
        /// How are you?
        7 => Status {
            /// Drawn by who asks.
            nonce: u64,
        },
        /// The answer.
        8 => StatusIs {
            /// Of the question.
            nonce: u64,
            /// How the host is.
            status: HostStatus,
        },
        /// Who is that host? It has a switch that I do not know.
        9 => Where {
            /// Its number.
            number: u16,
        },
        /// The answer of whoever knows it.
        10 => Here {
            /// Number of the question.
            question: u64,
            /// The host; its address is no name.
            host: HostIs,
        },
        /// The directory that you have is not the one that I know, and I take nothing from you.
        11 => Strange {
            /// Number of the greeting.
            question: u64,
            /// It is an old copy of the one that I know.
            old: bool,
        },
        /// What is there to tell of you?
        12 => Tell {
            /// Drawn by who asks: the same question is about the same report.
            nonce: u64,
            /// Which part of the answer.
            part: u16,
        },
        /// A part of the answer.
        13 => Told {
            /// Of the question.
            nonce: u64,
            /// Which part this is.
            part: u16,
            /// How many there are.
            parts: u16,
            /// Some of its bytes.
            bytes: Blob,
        },
        /// What has that host given out, as far as you have heard? Its directory is lost, and another one takes its place.
        14 => Next {
            /// Drawn by who asks.
            nonce: u64,
            /// The host.
            number: u16,
        },
        /// The answer.
        15 => NextIs {
            /// Of the question.
            nonce: u64,
            /// What it would have given out next; births and terms 0 if nothing is known.
            next: Next,
        },
        /// What do your roles know of that inode? Answered by `Told`.
        16 => Inspect {
            /// Drawn by who asks: the same question is about the same answer.
            nonce: u64,
            /// Which part of the answer.
            part: u16,
            /// That.
            inode: InodeId,
        },
    }
}

wire_struct! {
    /// A cluster, as its hosts know it by their configuration.
    #[derive(Clone, Debug, PartialEq, Eq, Default)]
    pub struct ClusterIs {
        /// The file system.
        pub fsid: u64,
        /// What people call it.
        pub name: Blob,
        /// Number of shards.
        pub shards: u16,
        /// Whether replies leave when they are durable.
        pub sync: bool,
        /// Number of its hosts.
        pub all: u16,
        /// Its hosts, by number; in an answer those that fit.
        pub hosts: Vec<HostIs>,
    }
}

wire_struct! {
    /// A host.
    #[derive(Clone, Debug, PartialEq, Eq, Default)]
    pub struct HostIs {
        /// Its number, also that of its data node and its path node.
        pub number: u16,
        /// What people call it.
        pub name: Blob,
        /// Address and UDP port, as text.
        pub address: Blob,
        /// Its shards.
        pub shards: Vec<u16>,
        /// Whether files are spread to its data node.
        pub data: bool,
        /// UDP port of its switch; 0 if it has none.
        pub switch_port: u16,
        /// Whether it has a path node.
        pub path: bool,
    }
}

wire_struct! {
    /// How a host is.
    #[derive(Clone, Debug, PartialEq, Eq, Default)]
    pub struct HostStatus {
        /// Its number.
        pub number: u16,
        /// Version of its program.
        pub version: Blob,
        /// For how long it has run, milliseconds.
        pub uptime_ms: u64,
        /// Hosts that take its messages.
        pub reaches: Vec<u16>,
        /// Clients that it knows.
        pub clients: u32,
        /// Messages of its roles that were lost for want of room or of a way.
        pub lost: u64,
        /// The switches that track directories, in the order of their ranges, as its shards have heard; none if owners do, or if it has no
        /// shard.
        pub tracked_by: Vec<u16>,
        /// Names of the keys that it takes, that which it sends with first; none if messages are not sealed.
        pub keys: Vec<u32>,
    }
}

impl ClusterIs {
    /// The same with the hosts from `first` on, as many as fit an answer.
    pub(super) fn page(&self, first: u16) -> ClusterIs {
        let mut page = ClusterIs { hosts: Vec::new(), ..self.clone() };
        let mut room = PAGE_BYTES;
        for host in self.hosts.iter().skip(first.into()) {
            let Some(left) = room.checked_sub(host.to_bytes().len()) else { break };
            room = left; // the longest fits alone
            page.hosts.push(host.clone());
        }
        page
    }
}

impl HostIs {
    /// Whether it has a directory: it has shards, data or a path node.
    pub(crate) fn has_directory(&self) -> bool {
        self.data || self.path || !self.shards.is_empty()
    }
}

/// Bytes of hosts in one answer: with all else it fits every path.
const PAGE_BYTES: usize = 900;

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::identity::Holder;
    use onpath_wire::ids::{Birth, SessionNumber, Term};
    use onpath_wire::secrets::Secrets;

    fn samples() -> Vec<Hello> {
        let host = |number: u16| HostIs {
            number,
            name: Blob(b"host".to_vec()),
            address: Blob(b"10.0.0.1:4796".to_vec()),
            shards: vec![0, 1, number],
            data: true,
            switch_port: 4_797,
            path: true,
        };
        let name = Blob(b"fs".to_vec());
        let cluster = ClusterIs { fsid: 7, name, shards: 4, sync: false, all: 3, hosts: (1..4).map(host).collect() };
        let placement = Some(Secrets::of_seed(1).placement);
        let pass = Secrets::of_seed(1).inner.passes().pass(SessionNumber(5), Holder::Anybody);
        let identity = Identity { uid: 7, gids: (1..9).collect(), caps: 0 };
        let version = Blob(b"0.1.0".to_vec());
        let status = HostStatus {
            number: 1,
            version,
            uptime_ms: 5,
            reaches: vec![2, 3],
            clients: 4,
            lost: 0,
            tracked_by: vec![8],
            keys: vec![9, 10],
        };
        let next = Next { birth: Birth(2), term: Term(65), session: SessionNumber(3) };
        let directory = Directory { id: 8, meant: false, secrets: 7, next, start: 3 };
        vec![
            Hello::Greet { version: VERSION, directory, pass, public: Blob(vec![7; 32]) },
            Hello::Greeted { question: 9, directory: Directory { meant: true, ..directory }, public: Blob(vec![]) },
            Hello::Strange { question: 9, old: true },
            Hello::Where { number: 4 },
            Hello::Here { question: 9, host: host(4) },
            Hello::Next { nonce: 4, number: 2 },
            Hello::NextIs { nonce: 4, next },
            Hello::Join { version: VERSION, nonce: 1, fsid: 2, first: 0 },
            Hello::Welcome { nonce: 1, pass, identity: Some(identity), placement, cluster },
            Hello::Refused { nonce: 1, why: Blob(b"no".to_vec()) },
            Hello::Status { nonce: 3 },
            Hello::Tell { nonce: 3, part: 1 },
            Hello::Inspect { nonce: 3, part: 0, inode: InodeId(1 << 40) },
            Hello::Told { nonce: 3, part: 1, parts: 2, bytes: Blob(b"{}".to_vec()) },
            Hello::StatusIs { nonce: 3, status },
        ]
    }

    /// Nothing is known of who sends these, so they are given all that can come: what decodes can be encoded and decoded again.
    #[test]
    fn whatever_comes_is_a_hello_or_an_error() {
        let samples: Vec<Vec<u8>> = samples().iter().map(Wire::to_bytes).collect();
        let (mut state, mut decoded) = (1_u64, 0);
        let mut dice = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        };
        for _ in 0..500_000 {
            let mut bytes = samples[dice(samples.len())].clone();
            for _ in 0..=dice(3) {
                let at = dice(bytes.len().max(1));
                match dice(4) {
                    0 => bytes.truncate(at),
                    1 => bytes.extend((0..dice(9)).map(|_| dice(256) as u8)),
                    2 if at < bytes.len() => bytes[at] ^= 1 << dice(8),
                    _ if at < bytes.len() => bytes[at] = [0, 1, 127, 128, 255][dice(5)],
                    _ => {}
                }
            }
            if let Ok(hello) = Hello::from_bytes(&bytes) {
                assert_eq!(Hello::from_bytes(&hello.to_bytes()), Ok(hello));
                decoded += 1;
            }
        }
        assert!(decoded > 50_000, "{decoded}");
    }
}
