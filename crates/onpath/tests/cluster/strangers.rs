//! Who is no host changes nothing in a switch, however well it knows what hosts send, and fills no table of it.

use crate::common::net::Net;
use crate::common::server::{Mount, Process, Site, Status, binary, run, status_of};
use crate::common::wait_until;
use onpath_wire::ids::{InodeId, NodeId, ShardId, Term, TrackingEpoch};
use onpath_wire::innet::{Fingerprint, INNET_UDP_PORT, InNet};
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
        const SENDER: &str = "import socket, sys\n\
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
            s.bind((sys.argv[1], 0))\n\
            for line in sys.stdin.read().split(): s.sendto(bytes.fromhex(line), (sys.argv[2], int(sys.argv[3])))\n";
        let hex = |header: &InNet| header.bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let lines: Vec<String> = headers.iter().map(hex).collect();
        let mut command = self.net.command(host, "python3");
        command.args(["-c", SENDER, &self.net.address(host), &self.net.address(SWITCH), &INNET_UDP_PORT.to_string()]);
        let input = tempfile::tempfile().expect("a file");
        std::os::unix::fs::FileExt::write_all_at(&input, lines.join("\n").as_bytes(), 0).expect("write");
        let done = command.stdin(input).output().expect("python3");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
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

/// Whoever can send the switch a datagram takes no mark out and puts none in: neither another machine nor a local user of a host.
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
        removes.chain([InNet::insert(number, epoch, of, (shard, Term(1), 1), None)])
    });
    let changes: Vec<InNet> = changes.collect();
    let changed = ["insert_marked", "insert_full", "remove_done", "drop_not_newer"];
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
