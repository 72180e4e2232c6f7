//! Who is no host changes nothing in a switch, however well it knows what hosts send, and fills no table of it.

use crate::common::forge::{self, Listener};
use crate::common::net::Net;
use crate::common::server::{Mount, Process, Site, Status, binary, run, status_of};
use crate::common::wait_until;
use onpath_wire::ids::{InodeId, NodeId, ShardId, Term, TrackingEpoch};
use onpath_wire::innet::{DirtySet, EntryName, Fingerprint, INNET_UDP_PORT, InNet, InNetResult, Metadata};
use std::fs;
use std::path::PathBuf;

/// A host with shards, one with the switch, and one for clients and strangers.
const SERVER: usize = 0;
const SWITCH: usize = 1;
const CLIENT: usize = 2;

/// One host with a shard, and another one with the switch and a data node, hence a directory in which its counters can be asked for.
struct Switched {
    net: Net,
    _processes: Vec<Process>,
    switch: PathBuf,
    server: PathBuf,
}

impl Switched {
    fn new(test: &str, site: &Site) -> Option<Switched> {
        let net = Net::new(test, 3)?;
        let config = site.root().join("cluster.toml");
        let dir = |name: &str| site.root().join(format!("state-{name}"));
        let [server, switch] = [SERVER, SWITCH].map(|host| net.address(host));
        let [config_word, state] = [&config, &dir("a")].map(|path| path.display().to_string());
        let [server, switch] = [format!("a={server}"), format!("s={switch}")];
        let init = ["cluster", "init", &config_word, &server, "--switch", &switch, "--directory", &state];
        let more = ["--no-key", "--tracking", "network", "--shards", "2"];
        let made = run(init.iter().chain(&more).map(AsRef::as_ref));
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut text = fs::read_to_string(&config).expect("the configuration");
        text.push_str(&format!("directory = \"{}\"\ndata = true\n", dir("s").display()));
        fs::write(&config, text).expect("write");
        let processes = [("a", SERVER), ("s", SWITCH)].map(|(name, host)| {
            let mut command = net.command(host, binary());
            command.args(["serve", "--host", name, "--config"]).arg(&config);
            Process::start(command, site.log(name), "serving")
        });
        Some(Switched { net, _processes: processes.into(), switch: dir("s"), server: dir("a") })
    }

    fn mount(&self, site: &Site, number: usize) -> Mount {
        let mut command = self.net.command(CLIENT, binary());
        command.args(["mount", &format!("onpath://{}/", self.net.address(SERVER))]).arg(site.mountpoint(number));
        Mount::start(command, site.mountpoint(number), site.log("mount"))
    }

    fn counts(&self) -> Status {
        status_of(&self.switch).expect("onpath status")
    }

    fn count(&self, counters: &[&str]) -> u64 {
        self.counts().sum("", counters)
    }

    /// Updates a directory and reads it until marks of it have passed the switch.
    fn use_switch(&self, mount: &Mount, name: &str) {
        let (dir, before) = (mount.path().join(name), self.count(&["insert_marked"]));
        fs::create_dir(&dir).expect("mkdir");
        let mut made = 0;
        wait_until("the switch takes marks", || {
            for _ in 0..8 {
                fs::write(dir.join(made.to_string()), b"").expect("a create");
                made += 1;
            }
            assert_eq!(fs::read_dir(&dir).expect("a listing").count(), made);
            self.count(&["insert_marked"]) > before
        });
    }

    /// Sends these headers to the switch from a host, by any port of it.
    fn send(&self, host: usize, headers: &[InNet]) {
        let payloads: Vec<Vec<u8>> = headers.iter().map(|header| header.bytes().to_vec()).collect();
        self.send_as(host, (host, 0), (SWITCH, INNET_UDP_PORT), &payloads);
    }

    /// The same, in the name of another one, to a port of a third one.
    fn send_as(&self, host: usize, from: (usize, u16), to: (usize, u16), payloads: &[Vec<u8>]) {
        forge::send_as(&self.net, host, from, to, payloads);
    }

    /// A mark on its way to the switch, with what is behind it, and the port by which its host has sent it.
    fn overheard_mark(&self, mount: &Mount) -> (Vec<u8>, u16) {
        let mut listener = Listener::new(&self.net, SWITCH, &[(0, &[0x12, 0])]);
        for round in 0.. {
            if listener.has_heard() {
                break;
            }
            self.use_switch(mount, &format!("overheard{round}")); // it may have begun to listen by now
        }
        let (port, bytes) = listener.heard();
        (bytes, port)
    }

    /// The number of the file system, as packets have it, and the present epoch.
    fn now(&self, site: &Site) -> (u32, TrackingEpoch) {
        let text = fs::read_to_string(site.root().join("cluster.toml")).expect("the configuration");
        let id = text.split("id = \"").nth(1).and_then(|rest| rest.get(..32)).expect("an identity");
        let fsid = (u128::from_str_radix(id, 16).expect("digits") >> 64) as u64;
        let status = status_of(&self.server).expect("onpath status");
        // Each of the two shards tells it.
        let epoch = status.sum("shard", &["tracking_epoch"]) / 2;
        (fsid as u32, TrackingEpoch(epoch as u16))
    }
}

/// Whoever can send the switch a datagram takes no mark out and puts none in, and nothing into the visibility table: neither another machine nor a local user of a host.
#[test]
fn a_stranger_changes_no_register() {
    const TEST: &str = "cluster::a_stranger_changes_no_register";
    let Some(site) = Site::new(TEST) else { return };
    let Some(cluster) = Switched::new(TEST, &site) else { return };
    let mount = cluster.mount(&site, 0);
    cluster.use_switch(&mount, "dir");
    let (number, epoch) = cluster.now(&site);
    let of = Fingerprint::of(InodeId::ROOT);
    let changes = [0, 1].map(ShardId).into_iter().flat_map(|shard| {
        let removes = (1..=9).map(move |term| {
            InNet::remove(number, epoch, of, (shard, Term(term), u32::MAX), NodeId::shard(ShardId(0)))
        });
        let file = EntryName::new(u32::from(shard.0), 1).expect("a name");
        let install = InNet::install(number, epoch, file, (1, Metadata::default()), shard, None);
        let clear = InNet::clear(number, epoch, file, (shard, 1), NodeId::shard(shard));
        removes.chain([InNet::insert(number, epoch, of, (shard, 1, 1), None), install, clear])
    });
    let changes: Vec<InNet> = changes.collect();
    let of_dirty_set = ["insert_marked", "insert_full", "remove_done", "drop_not_newer"];
    let of_table = ["install_done", "install_older", "install_other_epoch", "clear_done", "clear_kept"];
    let changed = [&of_dirty_set[..], &of_table].concat();
    for (round, host) in (1..).zip([CLIENT, SERVER]) {
        let before = cluster.count(&changed);
        cluster.send(host, &changes);
        wait_until("they were dropped", || cluster.count(&["drop_stranger"]) >= round * changes.len() as u64);
        assert_eq!(cluster.count(&changed), before, "nobody else used the switch meanwhile");
    }
    // Removes of the hosts are still newer than the last.
    cluster.use_switch(&mount, "other");
    mount.stop();
}

/// Whoever has overheard a mark, and says that the switch has taken much later ones, is believed by no host: neither from an address of his
/// own nor in the name of the switch.
#[test]
fn a_stranger_acknowledges_no_mark() {
    const TEST: &str = "cluster::a_stranger_acknowledges_no_mark";
    let Some(site) = Site::new(TEST) else { return };
    let Some(cluster) = Switched::new(TEST, &site) else { return };
    let mount = cluster.mount(&site, 0);
    let (mark, port) = cluster.overheard_mark(&mount);
    let forged = |sequence: u32, token: u32| {
        let (header, behind) = InNet::split(&mark).expect("a mark");
        let InNet::DirtySet(header) = header else { panic!("{header:?} is no mark") };
        let result = InNetResult::Marked as u8;
        let header = DirtySet { result, sequence, term: header.term ^ token, ..header };
        [&header.bytes()[..], behind].concat()
    };
    let later = [u32::MAX, u32::MAX - 1, 1_000].into_iter();
    let answers: Vec<Vec<u8>> = later.flat_map(|sequence| [forged(sequence, 0), forged(sequence, 1)]).collect();
    let count = |counter: &str| status_of(&cluster.server).expect("onpath status").sum("", &[counter]);
    let acknowledged = count("marks_acknowledged");
    let refused = count("datagrams_malformed");
    cluster.send_as(CLIENT, (CLIENT, 0), (SERVER, port), &answers);
    wait_until("they were refused", || count("datagrams_malformed") >= refused + answers.len() as u64);
    let heard = count("datagrams_received");
    cluster.send_as(CLIENT, (SWITCH, INNET_UDP_PORT), (SERVER, port), &answers);
    wait_until("they were heard", || count("datagrams_received") >= heard + answers.len() as u64);
    assert_eq!(count("marks_acknowledged"), acknowledged, "nobody else used the switch meanwhile");
    cluster.use_switch(&mount, "other");
    assert!(count("marks_acknowledged") > acknowledged);
    mount.stop();
}

/// Queries of strangers, each for another node, leave room for those that come later.
#[test]
fn queries_of_strangers_fill_no_table() {
    /// More than a switch may have routes.
    const QUERIES: u64 = 70_000;
    const TEST: &str = "cluster::queries_of_strangers_fill_no_table";
    let Some(site) = Site::new(TEST) else { return };
    let Some(cluster) = Switched::new(TEST, &site) else { return };
    let (number, epoch) = cluster.now(&site);
    let mut node = 0;
    let asked = ["query_normal", "query_scattered", "query_unknown"];
    wait_until("the switch was asked often enough", || {
        // In portions for which a receive buffer has room; some may be lost all the same.
        let query = |node| InNet::query(number, epoch, Fingerprint::of(InodeId::ROOT), NodeId(0x0300_0000 | node));
        let queries: Vec<InNet> = (node + 1..=node + 5_000).map(query).collect();
        node += queries.len() as u32;
        cluster.send(CLIENT, &queries);
        cluster.count(&asked) >= QUERIES
    });
    let mount = cluster.mount(&site, 0);
    cluster.use_switch(&mount, "dir");
    assert_eq!(cluster.count(&["copies_unrouted"]), 0);
    mount.stop();
}
