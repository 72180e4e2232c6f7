//! A client of a cluster that has a key with an owner, and lies in every field: hosts refuse it what the socket of a DIR does
//! ([`crate::remote`]), row by row, and what no client may send to a host. An honest client with the same key notices nothing.

use crate::common::cluster::{Cluster, Shape};
use crate::common::liar::{Liar, Said};
use crate::common::lies::{self, Tree};
use crate::common::server::{Mount, Site, binary, run};
use crate::common::strays;
use crate::common::user::{ALICE, TEAM};
use crate::common::{Over, PATIENCE, wait_until};
use onpath_client::blocking::Client;
use onpath_client::{Caller, OpenOptions, Options};
use onpath_wire::data::DataRequest;
use onpath_wire::ids::NodeId;
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, open};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Three hosts, and one for clients.
struct Attacked {
    cluster: Cluster,
    /// The file of the hosts' secrets, and that of Alice's key.
    keys: PathBuf,
    alices: PathBuf,
    mount: Mount,
    tree: Tree,
}

/// `onpath cluster key WORDS… --key-file FILE`.
fn key(file: &Path, words: &[&str]) {
    let file = file.display().to_string();
    let done = run(["cluster", "key"].iter().chain(words).chain(&["--key-file", &file]).map(AsRef::as_ref));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

impl Attacked {
    fn start(test: &str, site: &Site, more: &[&str], shape: Shape) -> Option<Attacked> {
        let keys = site.root().join("cluster.key");
        let named = keys.display().to_string();
        let init = [&["--key-file", &named], more].concat();
        let cluster = Cluster::start(test, site, Shape { clients: 1, init: &init, ..shape })?;
        let gids = format!("{},{TEAM}", ALICE.gid);
        key(&keys, &["add", "alice", "--uid", &ALICE.uid.to_string(), "--gid", &gids]);
        let alices = keys.with_extension("alice.key");
        let mount = cluster.mount(site, 0, &[]);
        let tree = Tree::make(mount.path());
        Some(Attacked { cluster, keys, alices, mount, tree })
    }

    /// On the host of clients.
    fn on_client<T: Send>(&self, job: impl FnOnce() -> T + Send) -> T {
        self.cluster.net.run_on(self.cluster.net.hosts() - 1, job)
    }

    fn liar(&self) -> Liar {
        self.on_client(|| Liar::over(&self.cluster.url(), &self.alices, PATIENCE).expect("it has a key"))
    }

    fn stranger(&self) -> Liar {
        self.on_client(|| Liar::stranger_over(&self.cluster.url(), &self.alices, PATIENCE).expect("it has a key"))
    }

    fn honest(&self) -> Client {
        let options = Options { key_file: Some(self.alices.clone()), patience: PATIENCE, ..Options::default() };
        self.on_client(|| Client::connect(&self.cluster.url(), &options).expect("she has a key"))
    }

    /// What `onpath status MORE…` tells of all hosts, also of one that is a switch and nothing else.
    fn status(&self, more: &[&str]) -> Value {
        let mut command = self.cluster.net.command(0, binary());
        let told = command.args(["status", "--json"]).args(more).arg(self.cluster.config()).output();
        serde_json::from_slice(&told.expect("onpath runs").stdout).expect("JSON")
    }

    /// The sum of a counter over all roles of all hosts whose names begin so.
    fn count(&self, roles: &str, counter: &str) -> u64 {
        let all = self.status(&["--counters"]);
        let mine = all.as_object().expect("roles").iter().filter(|(role, _)| role.starts_with(roles));
        mine.filter_map(|(_, counters)| counters[counter].as_u64()).sum()
    }

    /// Everything that is refused while all hosts run.
    fn lies_are_refused(&self) {
        let [liar, other] = [self.liar(), self.liar()];
        lies::are_refused(&liar, &self.tree);
        _ = lies::tickets_are_of_one_file(&liar, &other, &self.tree);
        let map = &liar.there.map;
        let switches = (self.cluster.servers()..self.cluster.hosts()).map(|host| NodeId::switch(host as u16 + 1));
        // Beside the coordinator, whether a switch has a cache or not.
        let controller = [NodeId::controller(1)];
        let roles = map.roles().chain(map.path_nodes()).chain(switches).chain(controller);
        let malformed = self.count("", "messages_malformed");
        for role in roles.collect::<Vec<_>>() {
            let strays = strays::all(&liar, &[role], other.there.session, &self.tree);
            strays::are_dropped(&liar, &strays, || self.count("udp", "messages_foreign"));
            // All roles together may take longer than sessions live that are not heard of.
            for session in [&liar, &other] {
                assert_eq!(session.ask(Request::Renew), Said::Reply(Reply::Done), "nobody has declared it dead");
            }
        }
        assert_eq!(self.count("", "messages_malformed"), malformed, "no role has heard any of them");
        self.mounts_are_bounded(&liar, &other);
        for liar in [liar, other] {
            assert_eq!(liar.ask(Request::Detach { gone: false }), Said::Reply(Reply::Done));
        }
    }

    /// However many mounts a client says that it is, it is one; and none of another client.
    fn mounts_are_bounded(&self, liar: &Liar, other: &Liar) {
        let mounts = || self.status(&[])["mounts"].as_array().expect("mounts").clone();
        let keys = |mounts: &[Value]| mounts.iter().filter(|mount| mount["key"] == "alice").count();
        (1..100).for_each(|id| liar.say_mount(id));
        wait_until("one of them is known", || keys(&mounts()) == 1);
        other.say_mount(1_000);
        wait_until("so is that of another session", || keys(&mounts()) == 2);
        let all = mounts();
        let own = all.iter().filter(|mount| mount["key"].is_null()).count();
        assert_eq!((keys(&all), own), (2, 1), "{all:?}");
    }

    /// Whoever has not joined, or is dead, leaves nothing at any shard.
    fn strangers_leave_nothing(&mut self) {
        let (stranger, ended) = (self.stranger(), self.liar());
        lies::strangers_leave_nothing(&stranger, &self.tree);
        assert!(!lies::is_left(&ended, &self.tree));
        stranger.attach();
        wait_until("it may open files when it has joined", || lies::open_all(&stranger, &self.tree));
        assert!(lies::is_left(&ended, &self.tree));
        let tickets: Vec<_> = self.tree.own[..3].iter().map(|&id| stranger.ticket(id).expect("it is open")).collect();
        assert_eq!(stranger.ask(Request::Detach { gone: false }), Said::Reply(Reply::Done));
        wait_until("what it had open is given back", || !lies::is_left(&ended, &self.tree));
        let ticket = lies::tickets_are_of_one_file(&ended, &self.liar(), &self.tree);
        self.cluster.kill_servers();
        self.cluster.serve_all();
        // A ticket outlives them, until it runs out.
        let now_s = || SystemTime::UNIX_EPOCH.elapsed().expect("it is later").as_secs();
        assert!(!lies::is_stale(&ended, ticket) || now_s() > u64::from(ticket.until_s));
        // Hosts that have started again do not know who has died.
        lies::strangers_leave_nothing(&stranger, &self.tree);
        for ticket in tickets {
            let again = Request::OpenAgain { id: ticket.data.inode, flags: open::REGISTER, ticket };
            assert!(stranger.ask_once(again).is_none_or(|said| said.refusal().is_some()));
        }
        assert!(!lies::is_left(&ended, &self.tree));
        while now_s() <= u64::from(ticket.until_s) + 2 {
            assert_eq!(ended.ask(Request::Renew), Said::Reply(Reply::Done));
            std::thread::sleep(Duration::from_millis(500));
        }
        assert!(lies::is_stale(&ended, ticket));
        let again = Request::OpenAgain { id: ticket.data.inode, flags: open::REGISTER, ticket };
        assert!(matches!(ended.ask(again), Said::Reply(Reply::Attr { .. })), "it has the file open still");
        lies::reads(&ended, ended.ticket(ticket.data.inode).expect("another one"));
    }

    /// With its key go its sessions and tickets; one that was never given opens nothing.
    fn a_revoked_key_opens_nothing(&self) {
        let [liar, other] = [self.liar(), self.liar()];
        let ticket = lies::opened(&liar, &self.tree);
        lies::reads(&liar, ticket);
        key(&self.keys, &["revoke", "alice"]);
        wait_until("it is not heard any more", || liar.ask_once(Request::Renew).is_none());
        let read = DataRequest::Read { data: ticket.data, cut: ticket.cut, offset: 0, bytes: 11 };
        let again = Request::OpenAgain { id: ticket.data.inode, flags: open::REGISTER, ticket };
        let is_heard = |liar: &Liar| {
            liar.ask_once(Request::GetAttr { id: ticket.data.inode }).is_some()
                || liar.ask_once(again.clone()).is_some()
                || liar.show_once(ticket, &read).is_some()
        };
        wait_until("nor by any other host", || !is_heard(&liar) && !is_heard(&other));
        let never = self.keys.with_extension("never.key");
        std::fs::write(&never, format!("key = {}\n", "5a".repeat(32))).expect("write");
        std::fs::set_permissions(&never, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("chmod");
        for file in [&self.alices, &never] {
            let comes = self.on_client(|| Liar::over(&self.cluster.url(), file, Duration::from_secs(1)).is_ok());
            assert!(!comes, "{file:?}");
        }
    }

    fn stop(self) {
        Tree::assert_untouched(self.mount.path());
        self.mount.stop();
        self.cluster.stop();
    }
}

/// What an honest client does with her key, again and again: how often, when all is over.
fn works(client: &Client, over: &Over, rounds: &AtomicU64) {
    let me = Caller::default();
    let new = OpenOptions { read: true, ..OpenOptions::create() };
    while !over.is() {
        let round = rounds.load(Ordering::Relaxed);
        let (path, text) = (format!("/alice/honest{}", round % 8), format!("round {round}"));
        let file = client.open(&me, &path, &new).expect("it is hers");
        file.truncate(0).expect("truncate");
        file.write_at(0, text.clone().into_bytes()).expect("write");
        assert_eq!(&file.read_at(0, 100).expect("read")[..], text.as_bytes());
        assert_eq!(file.stat().expect("stat").size, text.len() as u64);
        file.close().expect("close");
        assert_eq!(client.stat(&me, "/open").expect("everybody may").size, 11);
        let refused = client.stat(&me, "/closed/file").expect_err("it is root's");
        assert_eq!(refused.raw_os_error(), Some(libc::EACCES));
        rounds.fetch_add(1, Ordering::Relaxed);
    }
}

/// Does something while an honest client works.
fn beside_an_honest_client(attacked: &mut Attacked, attack: impl FnOnce(&mut Attacked)) {
    let (over, rounds, client) = (Over::default(), AtomicU64::new(0), attacked.honest());
    std::thread::scope(|scope| {
        let (over, rounds, client) = (&over, &rounds, &client);
        let end = over.at_end();
        scope.spawn(move || works(client, over, rounds));
        wait_until("she works", || rounds.load(Ordering::Relaxed) > 3);
        attack(attacked);
        let before = rounds.load(Ordering::Relaxed);
        wait_until("she goes on", || rounds.load(Ordering::Relaxed) > before + 3);
        drop(end);
    });
    let mut files = client.list(&Caller::default(), "/alice", false).expect("a listing");
    let mut honest = 0;
    while let Some(page) = files.next().expect("it ends") {
        honest += page.iter().filter(|entry| entry.name.starts_with(b"honest")).count() as u64;
    }
    assert_eq!(honest, rounds.load(Ordering::Relaxed).min(8));
    client.close();
}

#[test]
fn lies_are_refused_beside_a_path_node() {
    const TEST: &str = "cluster::hostile::lies_are_refused_beside_a_path_node";
    let Some(site) = Site::new(TEST) else { return };
    let shape = Shape { paths: &[0], ..Shape::default() };
    let Some(mut attacked) = Attacked::start(TEST, &site, &[], shape) else { return };
    beside_an_honest_client(&mut attacked, |attacked| {
        attacked.lies_are_refused();
        attacked.strangers_leave_nothing();
    });
    attacked.a_revoked_key_opens_nothing();
    attacked.stop();
}

#[test]
fn lies_are_refused_beside_a_switch() {
    const TEST: &str = "cluster::hostile::lies_are_refused_beside_a_switch";
    let Some(site) = Site::new(TEST) else { return };
    let shape = Shape { switches: 1, cache: Some(3), clear_text: true, ..Shape::default() };
    let Some(mut attacked) = Attacked::start(TEST, &site, &["--tracking", "network"], shape) else { return };
    beside_an_honest_client(&mut attacked, |attacked| attacked.lies_are_refused());
    attacked.stop();
}
