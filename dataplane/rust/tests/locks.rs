//! Fletch's lock counters: who waits for whom, and what they do not change.

use onpath_dataplane::{CacheCommand, Command, Config, Copy, Counter, Locks, Port, Step, Switch, Waiting};
use onpath_wire::ids::{NodeId, SessionId, ShardId};
use onpath_wire::innet::cache::{Asker, EntryOf, EntryValue, Purpose, Read};
use onpath_wire::innet::{Cache, INNET_UDP_PORT, InNet};
use onpath_wire::inode::Kind;

const CLUSTER: u32 = 77;
const EPOCH: u16 = 4;
const HOME: ShardId = ShardId(3);
const HOST: Port = Port(1);
const CLIENT: Port = Port(2);
/// Where the path begins.
const START: u64 = 100;
/// Keys of its names: two directories, and a file.
const KEYS: [u64; 3] = [0x0101, 0x0202, 0x0303];
const ALL: [Locks; 3] = [Locks::Off, Locks::Single, Locks::Multi];

fn of(level: usize, revision: u32) -> EntryOf {
    EntryOf { key: KEYS[level], token: 1, number: 10 + level as u32, revision }
}

/// A packet that comes in by a port, to the end of its first pass.
fn arrive(switch: &mut Switch, port: Port, packet: &InNet, out: &mut Vec<Copy>) -> Step {
    let step = switch.arrive(port, INNET_UDP_PORT, &packet.bytes(), out);
    ended(switch, step, out)
}

fn ended(switch: &mut Switch, mut step: Step, out: &mut Vec<Copy>) -> Step {
    loop {
        match step {
            Step::Waits(waiting) if !waiting.begins_a_pass() => step = switch.go_on(waiting, out),
            step => return step,
        }
    }
}

fn waits(step: Step) -> Waiting {
    match step {
        Step::Waits(waiting) => waiting,
        Step::Counted(counter) => panic!("it is over: {counter:?}"),
    }
}

/// The next pass of what waits.
fn pass(switch: &mut Switch, waiting: Waiting, out: &mut Vec<Copy>) -> Step {
    let step = switch.go_on(waiting, out);
    ended(switch, step, out)
}

fn is(step: Step, counter: Counter) -> bool {
    matches!(step, Step::Counted(counted) if counted == counter)
}

/// A switch that has all names of the path.
fn switch(locks: Locks) -> Switch {
    let mut switch = Switch::direct(Config { index_bits: 0, entry_bits: 0, cache_bits: 4, ..Config::whole(CLUSTER) })
        .expect("a configuration");
    switch.set_locks(locks);
    switch.control(&Command::Host { port: HOST }).expect("a port");
    for command in [CacheCommand::Any { port: CLIENT }, CacheCommand::Begin { epoch: EPOCH, until: 1 }] {
        switch.control(&Command::Cache(command)).expect("a command");
    }
    for (level, key) in (0..).zip(KEYS) {
        let (index, number) = (level as u32, of(level, 1).number);
        for command in [
            CacheCommand::Stamp { epoch: EPOCH, index, number },
            CacheCommand::Admit { epoch: EPOCH, key, token: 1, index, number },
        ] {
            switch.control(&Command::Cache(command)).expect("a command");
        }
        let (kind, mode) = if level == 2 { (Kind::File, 0o644) } else { (Kind::Directory, 0o755) };
        let (parent, id, kind) = (START + level as u64, START + 1 + level as u64, kind.d_type());
        let value = EntryValue { parent, id, kind, mode, ..EntryValue::default() };
        let fill = InNet::fill(CLUSTER, EPOCH, of(level, 1), &value, HOME, NodeId::controller(0));
        assert_eq!(switch.step(HOST, INNET_UDP_PORT, &fill.bytes(), &mut vec![]), Counter::FillDone);
    }
    switch
}

fn read() -> InNet {
    let levels = KEYS.map(|key| (key, 1));
    let asker = Asker { requester: NodeId::session(SessionId(5)), uid: 1, gid: 1 };
    InNet::read(CLUSTER, EPOCH, (START, &levels), (Purpose::Stat, 0), asker, NodeId::shard(HOME))
}

fn invalidate(level: usize) -> InNet {
    InNet::invalidate(CLUSTER, EPOCH, of(level, 1), HOME)
}

/// The header of a read that has left for its shard.
fn header(copy: &Copy) -> Read {
    match InNet::split(&copy.header) {
        Ok((InNet::Cache(Cache::Read(read)), _)) => read,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_invalidate_waits_while_its_name_is_read() {
    for locks in ALL {
        let (mut switch, mut out) = (switch(locks), vec![]);
        let reader = waits(arrive(&mut switch, CLIENT, &read(), &mut out));
        // The read has passed the first directory.
        let first = arrive(&mut switch, HOST, &invalidate(0), &mut out);
        let last = arrive(&mut switch, HOST, &invalidate(2), &mut out);
        let (waits_first, waits_last) = (matches!(first, Step::Waits(_)), matches!(last, Step::Waits(_)));
        let expected = match locks {
            Locks::Off => (false, false),
            Locks::Single => (true, true),
            Locks::Multi => (false, true),
        };
        assert_eq!((waits_first, waits_last), expected, "{locks:?}");
        let reader = waits(pass(&mut switch, reader, &mut out));
        let answered = pass(&mut switch, reader, &mut out);
        let outcome = if locks == Locks::Off { Counter::ReadMissed } else { Counter::ReadAnswered };
        assert!(is(answered, outcome), "{locks:?}: without locks the file was cleared meanwhile");
        assert_eq!(switch.locked(), 0, "{locks:?}");
        for waiting in [first, last] {
            if let Step::Waits(waiting) = waiting {
                assert!(is(pass(&mut switch, waiting, &mut out), Counter::InvalidateDone), "{locks:?}");
            }
        }
    }
}

#[test]
fn a_read_that_is_missed_holds_locks_until_its_answer_passes() {
    for (locks, held) in [(Locks::Off, 0), (Locks::Single, 1), (Locks::Multi, 1)] {
        let mut switch = switch(locks);
        assert_eq!(switch.step(HOST, INNET_UDP_PORT, &invalidate(2).bytes(), &mut vec![]), Counter::InvalidateDone);
        let mut out = vec![];
        assert_eq!(switch.step(CLIENT, INNET_UDP_PORT, &read().bytes(), &mut out), Counter::ReadMissed);
        assert_eq!(switch.locked(), held, "{locks:?}");
        let again = arrive(&mut switch, HOST, &invalidate(2), &mut vec![]);
        assert_eq!(matches!(again, Step::Waits(_)), held > 0, "{locks:?}");
        if let Step::Waits(waiting) = again {
            let waiting = waits(pass(&mut switch, waiting, &mut vec![]));
            switch.replied(&header(&out[0]));
            assert_eq!(switch.locked(), 0, "{locks:?}");
            assert!(is(pass(&mut switch, waiting, &mut vec![]), Counter::InvalidateDone), "{locks:?}");
        }
    }
}

fn recirculated(switch: &Switch) -> u64 {
    switch.counters().get(Counter::PassesRecirculated)
}

/// The home asks for what was denied or missed, and clears what it changes, whatever became of an answer.
#[test]
fn a_counter_that_leaked_delays_an_invalidate_and_does_not_stop_it() {
    for locks in [Locks::Single, Locks::Multi] {
        let mut switch = switch(locks);
        switch.step(HOST, INNET_UDP_PORT, &invalidate(2).bytes(), &mut vec![]);
        switch.step(CLIENT, INNET_UDP_PORT, &read().bytes(), &mut vec![]);
        let before = recirculated(&switch);
        assert_eq!(switch.step(HOST, INNET_UDP_PORT, &invalidate(2).bytes(), &mut vec![]), Counter::InvalidateDone);
        assert!(recirculated(&switch) - before > 1_000, "{locks:?}");
        switch.control(&Command::Reboot).expect("a command");
        assert_eq!(switch.locked(), 0, "{locks:?}");
    }
}

#[test]
fn answers_are_the_same_with_and_without_locks() {
    let answers = ALL.map(|locks| {
        let (mut switch, mut out) = (switch(locks), vec![]);
        assert_eq!(switch.step(CLIENT, INNET_UDP_PORT, &read().bytes(), &mut out), Counter::ReadAnswered);
        assert_eq!((recirculated(&switch), switch.locked()), (2, 0), "{locks:?}: three names take three passes");
        out
    });
    assert!(answers.iter().all(|answer| *answer == answers[0]));
}
