//! The cache in the kernel: hosts with sockets, strangers, the kernel's clock, copies to the controller, and two processors at one entry.

mod common;
#[path = "common/sockets.rs"]
mod sockets;

use common::frame::frame_to;
use common::{Network, PATIENCE, SWITCH, network, report, route, with_pins};
use onpath_dataplane::{CacheCommand, Command, Config, ControlError, Counter, Port};
use onpath_testing::skipped;
use onpath_wire::ids::{NodeId, SessionId, ShardId};
use onpath_wire::innet::cache::{
    Asker, CacheResult, EntryOf, EntryValue, LEVELS_MAX, Purpose, ROOT_KEY, ROOT_TOKEN, wants,
};
use onpath_wire::innet::{Cache, INNET_UDP_PORT, InNet};
use onpath_xdp::{XdpConfig, XdpError, XdpSwitch, pins};
use sockets::{nothing_more, send};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

const CLUSTER: u32 = 7;
const EPOCH: u16 = 3;
const HOME: ShardId = ShardId(2);
const CONTROLLER: NodeId = NodeId(0x0400_0001);
const DIRECTORY: u8 = 4;
const FILE: u8 = 8;
/// Ticks, of which a second has 15,258: an epoch that outlives a test.
const LONG: u32 = 1 << 24;

fn config() -> XdpConfig {
    XdpConfig {
        program: Config { index_bits: 0, entry_bits: 0, cache_bits: 4, ..Config::whole(CLUSTER) },
        address: SWITCH,
    }
}

fn session() -> NodeId {
    NodeId::session(SessionId(1))
}

fn asker(uid: u32, gid: u32) -> Asker {
    Asker { requester: session(), uid, gid }
}

/// A key whose every part differs from those of other levels.
fn key(level: u64) -> u64 {
    0x0004_0003_0002_0001 * (level + 1)
}

/// What leads from one directory to the next; the root is 1.
fn directory(level: u64) -> EntryValue {
    EntryValue { parent: level, id: level + 1, kind: DIRECTORY, mode: 0o711, uid: 10, gid: 20, ..EntryValue::default() }
}

/// A file whose every number is this one.
fn file(parent: u64, id: u64, number: u64) -> EntryValue {
    let (size, mtime, ctime, atime) = (number, number, number, number);
    let (blocks_or_rdev, generation, cut, nlink) = (number, number, number as u32, number as u32);
    let (kind, flags, mode, uid, gid) = (FILE, 0, 0o644, 10, 20);
    EntryValue {
        parent,
        id,
        kind,
        flags,
        mode,
        uid,
        gid,
        nlink,
        size,
        mtime,
        ctime,
        atime,
        blocks_or_rdev,
        generation,
        cut,
    }
}

fn of(key: u64, number: u32, revision: u32) -> EntryOf {
    EntryOf { key, token: 1, number, revision }
}

fn fill(of: EntryOf, value: &EntryValue) -> InNet {
    InNet::fill(CLUSTER, EPOCH, of, value, HOME, CONTROLLER)
}

fn invalidate(of: EntryOf) -> InNet {
    InNet::invalidate(CLUSTER, EPOCH, of, HOME)
}

/// A stat of what these keys lead to.
fn stat(start: u64, keys: &[u64], asker: Asker) -> InNet {
    let levels: Vec<(u64, u8)> = keys.iter().map(|&key| (key, 1)).collect();
    InNet::read(CLUSTER, EPOCH, (start, &levels), (Purpose::Stat, 0), asker, NodeId::shard(HOME))
}

fn cache(switch: &mut XdpSwitch, command: CacheCommand) {
    switch.control(&Command::Cache(command)).unwrap_or_else(|refusal| panic!("{command:?}: {refusal}"));
}

fn begin(switch: &mut XdpSwitch, ticks: u32) {
    let (_, now) = switch.cache_epoch().expect("a clock");
    cache(switch, CacheCommand::Begin { epoch: EPOCH, until: now.wrapping_add(ticks) });
}

fn admit(switch: &mut XdpSwitch, key: u64, token: u8, (index, number): (u32, u32)) {
    cache(switch, CacheCommand::Stamp { epoch: EPOCH, index, number });
    cache(switch, CacheCommand::Admit { epoch: EPOCH, key, token, index, number });
}

fn received(socket: &UdpSocket) -> Cache {
    match sockets::received(socket) {
        InNet::Cache(header) => header,
        other => panic!("{other:?}"),
    }
}

fn result(socket: &UdpSocket) -> CacheResult {
    received(socket).result().expect("an answer")
}

/// A network of three hosts, all addressed: a session that may name anybody, a home, and the controller; an epoch runs for so many ticks.
fn three(ticks: u32) -> Result<(Network, XdpSwitch, [UdpSocket; 3]), String> {
    let (network, mut switch) = network(3, config())?;
    let sockets = [0, 1, 2].map(|host: usize| network.hosts[host].socket(9000));
    for (node, host) in [session(), NodeId::shard(HOME), CONTROLLER].iter().zip(&network.hosts) {
        route(&mut switch, node.0, host.way(9000));
    }
    switch.control(&Command::Host { port: Port(NodeId::shard(HOME).0) }).expect("a host");
    cache(&mut switch, CacheCommand::Any { port: Port(session().0) });
    begin(&mut switch, ticks);
    Ok((network, switch, sockets))
}

#[test]
fn a_walk_of_ten_passes_is_answered_until_one_of_its_entries_is_cleared() {
    const TEST: &str = "a_walk_of_ten_passes_is_answered_until_one_of_its_entries_is_cleared";
    let (_network, mut switch, [user, home, controller]) = match three(LONG) {
        Ok(all) => all,
        Err(why) => return skipped(TEST, &why),
    };
    let keys: Vec<u64> = (1..=LEVELS_MAX as u64).map(key).collect();
    let deepest = keys.len() as u64;
    admit(&mut switch, ROOT_KEY, ROOT_TOKEN, (0, 100));
    send(&home, &fill(of(ROOT_KEY, 100, 1), &directory(0)));
    for (level, &key) in (1u32..).zip(&keys) {
        let value = if u64::from(level) == deepest { file(deepest, 77, 5) } else { directory(level.into()) };
        admit(&mut switch, key, 1, (level, 100 + level));
        send(&home, &fill(of(key, 100 + level, 1), &value));
    }
    (0..=deepest).for_each(|_| assert_eq!(result(&controller), CacheResult::Filled));
    for _ in 0..100 {
        send(&user, &stat(0, &keys, asker(5, 5)));
        let answer = received(&user);
        assert_eq!(answer.answer(), Some(file(deepest, 77, 5)));
        assert_eq!(answer.common().destination, session().0);
    }
    // Cleared in the middle: a miss, with what was reached. Filled: answered again.
    send(&home, &invalidate(of(keys[4], 105, 1)));
    assert_eq!(result(&home), CacheResult::Cleared);
    send(&user, &stat(0, &keys, asker(5, 5)));
    let Cache::Read(missed) = received(&home) else { panic!("a read") };
    assert_eq!((missed.result, missed.level, missed.start, missed.levels.at(8)), (1, 4, 5, (keys[8], 1)));
    send(&home, &fill(of(keys[4], 105, 2), &EntryValue { mode: 0o700, ..directory(5) }));
    assert_eq!(result(&controller), CacheResult::Filled);
    send(&user, &stat(0, &keys, asker(5, 5)));
    assert_eq!(result(&user), CacheResult::Denied);
    send(&user, &stat(0, &keys, asker(10, 5)));
    assert_eq!(result(&user), CacheResult::Answered);
    nothing_more(&[&user, &home, &controller]);
    assert_eq!(switch.count(Counter::ReadAnswered).expect("a counter"), 101);
    let state = switch.state().expect("registers").cache;
    assert_eq!(state.hits, [(5, 1), (9, 101)], "the file answered, and a directory denied");
    assert_eq!(state.sketch.iter().map(|&(_, _, count)| count).collect::<Vec<_>>(), [1, 1, 1]);
}

/// D-77, D-78: device, address and UDP port together tell who may ask; D-44 who may fill.
#[test]
fn strangers_are_not_answered_and_fill_nothing() {
    const TEST: &str = "strangers_are_not_answered_and_fill_nothing";
    let (network, mut switch, [user, home, controller]) = match three(LONG) {
        Ok(all) => all,
        Err(why) => return skipped(TEST, &why),
    };
    admit(&mut switch, key(1), 1, (0, 9));
    send(&home, &fill(of(key(1), 9, 1), &file(50, 77, 5)));
    assert_eq!(result(&controller), CacheResult::Filled);
    let ask = |uid, gid| stat(50, &[key(1)], asker(uid, gid));
    // Another user of the session's host, and one that says it were the session, by another cable.
    let local = network.hosts[0].socket(9001);
    let taken = network.hosts[0].address;
    network.hosts[2].at.ip(&format!("addr add {taken}/32 dev eth0")).expect("an address");
    let forged = network.hosts[2].at.within(|| UdpSocket::bind((taken, 9000))).expect("a free port");
    for stranger in [&local, &forged, &controller] {
        send(stranger, &ask(5, 5));
        assert_eq!(result(&home), CacheResult::Miss);
    }
    assert_eq!(switch.count(Counter::ReadStranger).expect("a counter"), 3);
    assert_eq!(switch.state().expect("registers").cache.sketch, [], "misses of strangers are not counted");
    send(&user, &fill(of(key(1), 9, 2), &file(50, 66, 6)));
    send(&user, &invalidate(of(key(1), 9, 1)));
    let deadline = Instant::now() + PATIENCE;
    while switch.count(Counter::DropStranger).expect("a counter") < 2 {
        assert!(Instant::now() < deadline, "not dropped: {:?}", switch.counters());
    }
    send(&user, &ask(5, 5));
    assert_eq!(received(&user).answer(), Some(file(50, 77, 5)));
    // From now on in the name of one caller alone.
    let port = Port(session().0);
    cache(&mut switch, CacheCommand::Unlist { port });
    cache(&mut switch, CacheCommand::Caller { port, uid: 5, gid: 6 });
    for (uid, gid, at, expected) in [(5, 6, &user, CacheResult::Answered), (5, 5, &home, CacheResult::Miss)] {
        send(&user, &ask(uid, gid));
        assert_eq!(result(at), expected, "{uid} {gid}");
    }
    let capable = InNet::read(
        CLUSTER,
        EPOCH,
        (50, &[(key(1), 1)]),
        (Purpose::Stat, wants::READS_ALL),
        asker(5, 6),
        NodeId::shard(HOME),
    );
    send(&user, &capable);
    assert_eq!(result(&home), CacheResult::Miss);
    cache(&mut switch, CacheCommand::Unlist { port });
    send(&user, &ask(5, 6));
    assert_eq!(result(&home), CacheResult::Miss);
    nothing_more(&[&user, &home, &controller]);
}

#[test]
fn the_lease_ends_by_the_clock_of_the_kernel_and_stays_over() {
    const TEST: &str = "the_lease_ends_by_the_clock_of_the_kernel_and_stays_over";
    // A fifth of a second.
    const TICKS: u32 = 3_052;
    let (_network, mut switch, [user, home, controller]) = match three(LONG) {
        Ok(all) => all,
        Err(why) => return skipped(TEST, &why),
    };
    assert!(matches!(switch.control(&Command::Cache(CacheCommand::Clock(5))), Err(XdpError::OwnClock)));
    cache(&mut switch, CacheCommand::Off);
    let began = Instant::now();
    begin(&mut switch, TICKS);
    admit(&mut switch, key(1), 1, (0, 9));
    send(&home, &fill(of(key(1), 9, 1), &file(50, 77, 5)));
    assert_eq!(result(&controller), CacheResult::Filled);
    let mut answers = 0;
    loop {
        send(&user, &stat(50, &[key(1)], asker(5, 5)));
        user.set_nonblocking(true).expect("a socket");
        home.set_nonblocking(true).expect("a socket");
        let mut bytes = [0; 2048];
        let missed = loop {
            if user.recv(&mut bytes).is_ok() {
                break false;
            }
            if home.recv(&mut bytes).is_ok() {
                break true;
            }
        };
        if missed {
            break;
        }
        answers += 1;
        assert!(began.elapsed() < PATIENCE, "the lease does not end");
    }
    assert!(answers > 0 && began.elapsed().as_millis() >= 199, "{answers} answers in {:?}", began.elapsed());
    let lease = switch.state().expect("registers").cache.lease;
    assert_eq!(lease.epoch, 0, "who finds it passed ends the epoch");
    let (_, now) = switch.cache_epoch().expect("a clock");
    let refused = |switch: &mut XdpSwitch, command| match switch.control(&Command::Cache(command)) {
        Err(XdpError::Refused(why)) => why,
        other => panic!("{command:?}: {other:?}"),
    };
    let until = now.wrapping_add(LONG);
    let renew = CacheCommand::Renew { epoch: EPOCH, until };
    assert_eq!(refused(&mut switch, renew), ControlError::OtherEpoch(EPOCH));
    let begin = |until| CacheCommand::Begin { epoch: EPOCH + 1, until };
    assert_eq!(refused(&mut switch, begin(until)), ControlError::NotEmpty);
    cache(&mut switch, CacheCommand::Empty);
    assert_eq!(refused(&mut switch, begin(now)), ControlError::Passed);
    cache(&mut switch, begin(until));
    assert_eq!(refused(&mut switch, begin(until)), ControlError::EpochRuns);
    report(&format!("{TEST}: {answers} answers within the lease"));
}

/// D-108: by two devices, and by one.
#[test]
fn a_name_that_is_missed_often_is_told_once_a_period() {
    const TEST: &str = "a_name_that_is_missed_often_is_told_once_a_period";
    let (network, mut switch, [user, home, controller]) = match three(LONG) {
        Ok(all) => all,
        Err(why) => return skipped(TEST, &why),
    };
    cache(&mut switch, CacheCommand::Report { node: CONTROLLER.0, threshold: 2 });
    let ask = stat(50, &[key(1)], asker(5, 5));
    let InNet::Cache(Cache::Read(sent)) = ask else { panic!("a read") };
    for period in 0..2 {
        for asked in 1..=5 {
            send(&user, &ask);
            let Cache::Read(missed) = received(&home) else { panic!("a read") };
            assert_eq!(missed, onpath_wire::innet::cache::Read { result: 1, ..sent });
            if asked == 3 {
                let Cache::Read(told) = received(&controller) else { panic!("a read") };
                assert_eq!(told, onpath_wire::innet::cache::Read { destination: CONTROLLER.0, ..missed });
            }
        }
        nothing_more(&[&user, &home, &controller]);
        assert_eq!(switch.count(Counter::ReadReported).expect("a counter"), period + 1);
        cache(&mut switch, CacheCommand::Reset);
        assert_eq!(switch.state().expect("registers").cache.sketch, []);
    }
    // The controller on the host of the home.
    let beside = network.hosts[1].socket(9001);
    route(&mut switch, CONTROLLER.0, network.hosts[1].way(9001));
    for _ in 0..3 {
        send(&user, &ask);
        assert_eq!(received(&home).common().destination, NodeId::shard(HOME).0);
    }
    assert_eq!(received(&beside).common().destination, CONTROLLER.0);
    nothing_more(&[&user, &home, &controller, &beside]);
}

#[test]
fn there_is_room_for_so_many_requesters() {
    const TEST: &str = "there_is_room_for_so_many_requesters";
    let (_network, mut switch, _sockets) = match three(LONG) {
        Ok(all) => all,
        Err(why) => return skipped(TEST, &why),
    };
    let most = onpath_dataplane::cache::tables::REQUESTERS_MAX;
    let port = Port(CONTROLLER.0);
    // One is listed already.
    (1..most as u32).for_each(|uid| cache(&mut switch, CacheCommand::Caller { port, uid, gid: 1 }));
    let more = Command::Cache(CacheCommand::Caller { port, uid: 0, gid: 1 });
    let refused = switch.control(&more);
    assert!(matches!(refused, Err(XdpError::Refused(ControlError::Full(_, limit))) if limit == most), "{refused:?}");
    cache(&mut switch, CacheCommand::Caller { port, uid: 1, gid: 1 });
    cache(&mut switch, CacheCommand::Unlist { port });
    switch.control(&more).expect("there is room again");
}

/// The two names that have index 0 in turn.
const NAMES: [(u64, u64); 2] = [(77, 0x0009_0003_0002_0001), (88, 0x000a_0003_0002_0001)];

/// The homes of two names and the controller, on one processor.
struct Writer<'s> {
    switch: &'s XdpSwitch,
    number: u32,
}

impl Writer<'_> {
    fn told(&self, header: &InNet) -> CacheResult {
        let (_, _, out) = self.switch.try_frame(&frame_to(INNET_UDP_PORT, &header.bytes()), 1).expect("a frame");
        let (InNet::Cache(header), _) = InNet::split(&out[42..]).expect("a header") else { panic!("of the cache") };
        header.result().expect("a result")
    }

    /// Changes a name as often: what it leads to is the floor from the moment that its entry is cleared.
    fn changes(&self, (id, key): (u64, u64), floor: &AtomicU64, changes: u32) {
        for revision in 1..=changes {
            if revision > 1 {
                assert_eq!(self.told(&invalidate(of(key, self.number, revision - 1))), CacheResult::Cleared);
            }
            let next = floor.fetch_add(1, Ordering::SeqCst) + 1;
            assert_eq!(self.told(&fill(of(key, self.number, revision), &file(50, id, next))), CacheResult::Filled);
        }
    }
}

/// One processor changes two names, which have one index in turn, and another one asks for both: what that is answered is of the name,
/// whole, and not older than when it asked.
#[test]
fn two_processors_tear_no_entry_and_meet_no_old_one() {
    const TEST: &str = "two_processors_tear_no_entry_and_meet_no_old_one";
    if let Err(why) = network(1, config()) {
        return skipped(TEST, &why);
    }
    let network = Network::of(1).expect("a network as before");
    // Two of whom each has the same switch.
    let tried = with_pins(&network, |at| {
        let dir = pins::directory(&at.join("onpath"), CLUSTER);
        let mut switch = XdpSwitch::attach_pinned(config(), &["port0"], &dir).expect("attached");
        for node in [session(), NodeId::shard(HOME), CONTROLLER] {
            route(&mut switch, node.0, network.hosts[0].way(9000));
        }
        // What is given to the program comes in by the loopback device, which is number 1 everywhere.
        let from = SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, 1), 9000);
        switch.list(1, from).expect("a host");
        switch.list_requester(1, from, None).expect("a requester");
        begin(&mut switch, LONG);
        changed_and_asked_for(&mut switch, &XdpSwitch::open(&dir).expect("it is there"));
        pins::detach(&dir, "port0").expect("attached");
    });
    if let Err(why) = tried {
        skipped(TEST, &why);
    }
}

fn changed_and_asked_for(switch: &mut XdpSwitch, asked: &XdpSwitch) {
    const TURNS: u32 = 400;
    const CHANGES: u32 = 50;
    let floors = &[AtomicU64::new(0), AtomicU64::new(0)];
    let over = &AtomicBool::new(false);
    let writes = || {
        common::pin_to(0);
        for turn in 0..TURNS {
            let (number, at) = (turn + 1, turn as usize % 2);
            admit(switch, NAMES[at].1, 1, (0, number));
            Writer { switch, number }.changes(NAMES[at], &floors[at], CHANGES);
            cache(switch, CacheCommand::Evict { epoch: EPOCH, key: NAMES[at].1, token: 1 });
            cache(switch, CacheCommand::Stamp { epoch: EPOCH, index: 0, number: 0 });
        }
        over.store(true, Ordering::SeqCst);
    };
    let reads = || {
        common::pin_to(1);
        let frames = NAMES.map(|(_, key)| frame_to(INNET_UDP_PORT, &stat(50, &[key], asker(5, 5)).bytes()));
        let (mut answers, mut at) = (0u32, 0);
        while !over.load(Ordering::SeqCst) {
            at = 1 - at;
            let floor = floors[at].load(Ordering::SeqCst);
            let (_, _, out) = asked.try_frame(&frames[at], 1).expect("a frame");
            let (InNet::Cache(header), _) = InNet::split(&out[42..]).expect("a header") else { panic!("a read") };
            let Some(value) = header.answer() else { continue };
            assert_eq!(value, file(50, NAMES[at].0, value.size), "of two fills");
            assert!(value.size >= floor, "{} was changed to {floor} before it was asked for", value.size);
            answers += 1;
        }
        answers
    };
    let answers = std::thread::scope(|scope| {
        let (writer, reader) = (scope.spawn(writes), scope.spawn(reads));
        let answers = reader.join();
        writer.join().expect("filled");
        answers.expect("nothing torn or old")
    });
    assert_eq!(asked.count(Counter::FillDone).expect("a counter"), u64::from(TURNS * CHANGES));
    assert!(answers > 0, "nothing was answered");
    report(&format!("two processors: {answers} answers beside {} changes", TURNS * CHANGES));
}
