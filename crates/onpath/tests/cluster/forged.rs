//! Somebody on a client's host knows all that a home says to a switch with a cache, and says the like to the switch and to hosts (C-11). It
//! is refused and counted, nobody sees anything of it, and honest clients go on.

use super::cache::{change_and_look, look, mounted, wait_until_answered};
use crate::common::cluster::{Cluster, Shape};
use crate::common::forge::{Listener, send_as};
use crate::common::server::{Mount, Site, binary};
use crate::common::{Over, wait_until};
use onpath_wire::ids::{NodeId, SessionId, ShardId};
use onpath_wire::innet::cache::{
    Asker, CacheResult, EntryOf, EntryValue, Fill, Levels, Purpose, REVISION_END, Read, wants,
};
use onpath_wire::innet::{Cache, INNET_UDP_PORT, InNet};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Two hosts with shards, one that is the switch, and two for clients.
const SERVERS: [usize; 2] = [0, 1];
const SWITCH: usize = 2;
const CLIENT: usize = 4;
/// Where a host is reached.
const PORT: u16 = 4796;
/// The controller is beside the shard of slot 0, and has its host's number.
const CONTROLLER: u16 = 1;
/// Both hosts have one, and no other is.
const SHARDS: [u16; 4] = [0, 1, 7, 255];
/// Sessions that there are, and such that there are not.
const SESSIONS: std::ops::Range<u32> = 1..6;

struct Attacked {
    cluster: Cluster,
    mounts: [Mount; 2],
    files: [PathBuf; 2],
}

/// What a home has said of a file's entry, and what was behind it.
struct Overheard {
    fill: Fill,
    behind: Vec<u8>,
}

impl Attacked {
    fn start(test: &str, site: &Site, key: Option<&str>, xdp: bool) -> Option<Attacked> {
        let key = key.map(|key| site.root().join(key));
        let of_key = key.iter().flat_map(|key| ["--key-file", key.to_str().expect("UTF-8")]);
        let init: Vec<&str> = ["--tracking", "network"].into_iter().chain(of_key).collect();
        let (servers, cache, clear_text) = (SERVERS.len(), Some(SWITCH), key.is_some());
        let shape = Shape { servers, switches: 1, xdp, cache, clear_text, init: &init, ..Shape::default() };
        let cluster = Cluster::start(test, site, shape)?;
        let (mounts, files) = mounted(&cluster, site);
        wait_until_answered(&cluster, &files[1]);
        Some(Attacked { cluster, mounts, files })
    }

    /// The sum of a counter over all roles whose names begin so, also of a host that is a switch and nothing else.
    fn count(&self, roles: &str, counter: &str) -> u64 {
        let mut command = self.cluster.net.command(SERVERS[0], binary());
        let told = command.args(["status", "--json", "--counters"]).arg(self.cluster.config()).output();
        let all: Value = serde_json::from_slice(&told.expect("onpath runs").stdout).expect("JSON");
        let mine = all.as_object().expect("roles").iter().filter(|(role, _)| role.starts_with(roles));
        mine.filter_map(|(_, counters)| counters[counter].as_u64()).sum()
    }

    /// The present epoch of the cache.
    fn epoch(&self) -> u64 {
        self.count("controller", "cache_epoch")
    }

    /// A fill of the file's entry, as its home has sent it to the switch.
    fn overheard(&self) -> Overheard {
        let id = fs::metadata(&self.files[0]).expect("stat").ino().to_be_bytes();
        // Code and result; the inode of the value.
        let parts: [(usize, &[u8]); 2] = [(0, &[0x32, 0]), (48, &id)];
        let mut listeners = SERVERS.map(|host| Listener::new(&self.cluster.net, host, &parts));
        wait_until("an entry is filled", || {
            change_and_look(&self.files[0], &self.files[1], 1);
            look(&self.files[1], 10);
            listeners.iter_mut().any(Listener::has_heard)
        });
        let heard = listeners.into_iter().find_map(|mut listener| listener.has_heard().then(|| listener.heard()));
        let (_, datagram) = heard.expect("one of them");
        let (header, behind) = InNet::split(&datagram).expect("a header");
        let InNet::Cache(Cache::Fill(fill)) = header else { panic!("{header:?} is no fill") };
        Overheard { fill, behind: behind.to_vec() }
    }

    /// Sends headers, each with this behind it, from a host's own address.
    fn send(&self, from: usize, to: (usize, u16), headers: &[InNet], behind: &[u8]) {
        let payloads: Vec<Vec<u8>> = headers.iter().map(|header| [&header.bytes()[..], behind].concat()).collect();
        send_as(&self.cluster.net, from, (from, 0), to, &payloads);
    }

    /// What would change registers of the switch is dropped, from another machine and from a local user of a host (D-44).
    fn changes_are_dropped(&self, said: &Overheard) {
        let changes = said.changes();
        for host in [CLIENT, SERVERS[0]] {
            for behind in [&[][..], &said.behind] {
                let before = self.count("switch", "drop_stranger");
                self.send(host, (SWITCH, INNET_UDP_PORT), &changes, behind);
                wait_until("they are dropped", || {
                    self.count("switch", "drop_stranger") >= before + changes.len() as u64
                });
            }
        }
    }

    /// Who is not listed is not answered (D-77), in whosever name it asks: the shard hears of it, and takes nothing of it.
    fn reads_are_not_answered(&self, said: &Overheard) {
        let (reads, malformed) = (said.reads(), self.count("udp", "datagrams_malformed"));
        for behind in [&[][..], &said.behind] {
            let before = self.count("switch", "read_stranger");
            self.send(CLIENT, (SWITCH, INNET_UDP_PORT), &reads, behind);
            wait_until("they are passed on", || self.count("switch", "read_stranger") >= before + reads.len() as u64);
        }
        // Several that come together are one.
        wait_until("the shard's host refuses what says nothing", || {
            self.count("udp", "datagrams_malformed") > malformed
        });
    }

    /// What a switch would have said is taken of nobody who is none: neither from where he is, nor if the switch, which has only to route
    /// what was answered already (D-11), passes it on.
    fn answers_are_refused(&self, said: &Overheard) {
        let answers = said.answers();
        for host in SERVERS {
            let before = self.count("udp", "datagrams_malformed");
            self.send(CLIENT, (host, PORT), &answers, &[]);
            wait_until("hosts refuse them", || {
                self.count("udp", "datagrams_malformed") >= before + answers.len() as u64
            });
            self.send(CLIENT, (host, PORT), &answers, &said.behind);
            self.send(CLIENT, (host, PORT), &said.changes(), &said.behind);
        }
        for behind in [&[][..], &said.behind] {
            let before = self.count("switch", "answered");
            self.send(CLIENT, (SWITCH, INNET_UDP_PORT), &answers, behind);
            wait_until("they are routed", || self.count("switch", "answered") >= before + answers.len() as u64);
        }
    }

    fn stop(self) {
        drop(self.mounts);
        self.cluster.stop();
    }
}

impl Overheard {
    fn of(&self) -> EntryOf {
        let Fill { key, token, number, .. } = self.fill;
        EntryOf { key, token, number, revision: REVISION_END - 1 }
    }

    /// Another value of the same file.
    fn lie(&self) -> EntryValue {
        EntryValue { mode: 0o777, uid: 1_000, gid: 1_000, size: 1 << 40, ..EntryValue::of(&self.fill.value) }
    }

    /// Fills with a lie, and invalidates, of the entry that there is and of others, in the name of each shard.
    fn changes(&self) -> Vec<InNet> {
        let Fill { cluster, epoch, key, token, number, revision, .. } = self.fill;
        let nodes = SHARDS.map(|shard| NodeId::shard(ShardId(shard)).0);
        let destinations = [NodeId::controller(CONTROLLER).0].into_iter().chain(nodes);
        let fills = destinations.flat_map(|destination| {
            let revisions = [revision, revision + 1, revision + 1_000, REVISION_END - 1];
            revisions.map(|revision| Fill { destination, revision, value: self.lie().value(), ..self.fill })
        });
        let others = [
            Fill { epoch: epoch + 1, ..self.fill },
            Fill { key: key ^ 1, ..self.fill },
            Fill { token: token.wrapping_add(1).max(1), ..self.fill },
            Fill { number: number + 1, ..self.fill },
        ];
        let fills = fills.chain(others).flat_map(|fill| SHARDS.map(|shard| Fill { shard, ..fill }));
        let fills = fills.map(|fill| InNet::Cache(Cache::Fill(fill)));
        let invalidates = SHARDS.map(|shard| InNet::invalidate(cluster, epoch, self.of(), ShardId(shard)));
        fills.chain(invalidates).collect()
    }

    /// Questions in the name of each session, as whoever may read anything.
    fn reads(&self) -> Vec<InNet> {
        let Fill { cluster, epoch, key, token, .. } = self.fill;
        let parent = EntryValue::of(&self.fill.value).parent;
        let read = |session: u32| {
            let asker = Asker { requester: NodeId::session(SessionId(session)), uid: 0, gid: 0 };
            let (walk, what) = ((parent, &[(key, token)][..]), (Purpose::Stat, wants::READS_ALL));
            InNet::read(cluster, epoch, walk, what, asker, NodeId::shard(ShardId(0)))
        };
        SESSIONS.map(read).collect()
    }

    /// What a switch has said: that it has filled and cleared entries, what it misses, and answers with a lie.
    fn answers(&self) -> Vec<InNet> {
        let fill =
            |result: CacheResult, node: NodeId| InNet::Cache(Cache::Fill(self.fill)).switched(result as u8, node.0);
        let Fill { cluster, epoch, .. } = self.fill;
        let controller = NodeId::controller(CONTROLLER);
        let results = [CacheResult::Filled, CacheResult::NotNewer, CacheResult::OtherEpoch, CacheResult::NotThere];
        let mut all: Vec<InNet> = results.iter().map(|&result| fill(result, controller)).collect();
        for shard in [0, 1].map(ShardId) {
            let home = NodeId::shard(shard);
            let cleared = InNet::invalidate(cluster, epoch, self.of(), shard);
            all.extend([
                fill(CacheResult::Filled, home),
                cleared.switched(CacheResult::Cleared as u8, home.0),
                cleared.switched(CacheResult::NotThere as u8, home.0),
            ]);
        }
        for (session, read) in SESSIONS.zip(self.reads()) {
            let InNet::Cache(Cache::Read(header)) = read else { unreachable!("it was made as one") };
            let lie = Read { levels: Levels(self.lie().value().0), ..header };
            let lie = InNet::Cache(Cache::Read(lie));
            let client = NodeId::session(SessionId(session)).0;
            all.extend([
                read.switched(CacheResult::Miss as u8, controller.0),
                lie.switched(CacheResult::Answered as u8, client),
                read.switched(CacheResult::Denied as u8, client),
            ]);
        }
        all
    }
}

/// What honest clients do and see meanwhile; how often, when all is over.
fn works([of_one, of_other]: &[PathBuf; 2], over: &Over, rounds: &AtomicU64) {
    while !over.is() {
        for (one, other) in [(of_one, of_other), (of_other, of_one)] {
            change_and_look(one, other, 3);
            look(other, 20);
            let seen = fs::metadata(other).expect("stat");
            assert_eq!((seen.uid(), seen.gid(), seen.len()), (0, 0, 10));
        }
        rounds.fetch_add(1, Ordering::Relaxed);
    }
}

fn forgeries_change_nothing(test: &str, key: Option<&str>, xdp: bool) {
    let Some(site) = Site::new(test) else { return };
    let Some(attacked) = Attacked::start(test, &site, key, xdp) else { return };
    let said = attacked.overheard();
    let (epoch, malformed) = (attacked.epoch(), attacked.count("", "messages_malformed"));
    let (over, rounds) = (Over::default(), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (over, rounds, files) = (&over, &rounds, &attacked.files);
        let end = over.at_end();
        scope.spawn(move || works(files, over, rounds));
        attacked.changes_are_dropped(&said);
        attacked.reads_are_not_answered(&said);
        attacked.answers_are_refused(&said);
        let before = rounds.load(Ordering::Relaxed);
        wait_until("honest clients go on", || rounds.load(Ordering::Relaxed) > before + 3);
        drop(end);
    });
    assert_eq!(attacked.count("", "messages_malformed"), malformed, "no role has heard any of it");
    assert_eq!(attacked.epoch(), epoch, "nobody has ended it");
    wait_until_answered(&attacked.cluster, &attacked.files[1]);
    change_and_look(&attacked.files[0], &attacked.files[1], 3);
    attacked.stop();
}

#[test]
fn forgeries_change_nothing_in_a_process() {
    forgeries_change_nothing("cluster::forged::forgeries_change_nothing_in_a_process", None, false);
}

#[test]
fn forgeries_change_nothing_where_clients_have_keys() {
    forgeries_change_nothing(
        "cluster::forged::forgeries_change_nothing_where_clients_have_keys",
        Some("the.key"),
        false,
    );
}

#[test]
fn forgeries_change_nothing_in_the_kernel() {
    forgeries_change_nothing("cluster::forged::forgeries_change_nothing_in_the_kernel", None, true);
}
