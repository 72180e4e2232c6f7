//! The runtime with toy roles: order, the output gate, timers, background work.

use super::*;
use crate::journal::Options;
use crate::sys;
use onpath_kernel::{Input, Now, Output};
use onpath_wire::disk::superblock::JournalId;
use onpath_wire::ids::{RecordSeq, RequestSeq, SessionId, ShardId, Term, TrackingEpoch};
use onpath_wire::innet::{Fingerprint, InNet};
use onpath_wire::limits::CALL_RETRY_US;
use onpath_wire::{Header, MessageKind};
use std::collections::VecDeque;
use std::sync::Condvar;
use std::time::Duration;

/// A shard that records every message and passes it on, the number in the header's `seq` counted down.
struct Relay {
    address: NodeId,
    next: NodeId,
    records: u64,
    durable: RecordSeq,
    seen: Vec<u64>,
    ticks: u64,
    deadline: Option<u64>,
    full: bool,
    need: Need,
    /// Passes messages on without a record.
    silent: bool,
    /// Takes this long for a message.
    takes: Duration,
    /// The role's clock at its last message, and the real one when that was handled.
    clocks: (Now, Now),
    outputs: VecDeque<Output<()>>,
}

fn packet(from: NodeId, n: u64) -> Packet {
    Packet::new(&Header::new(MessageKind::Peer, from, RequestSeq(n)), &0u8)
}

impl Role for Relay {
    type In = ();
    type Out = ();

    fn handle(&mut self, now: Now, input: Input<()>) {
        match input {
            Input::Packet(p) => {
                let n = p.header().unwrap().seq.0;
                self.seen.push(n);
                std::thread::sleep(self.takes);
                self.clocks = (now, sys::now());
                let mut after = RecordSeq(0);
                if !self.silent {
                    self.records += 1;
                    after = RecordSeq(self.records);
                    self.outputs.push_back(Output::Append { seq: after, bytes: n.to_le_bytes().to_vec() });
                }
                if n > 0 {
                    let packet = packet(self.address, n - 1);
                    self.outputs.push_back(Output::Send { to: self.next, packet, after, need: self.need });
                }
            }
            Input::Tick => {
                self.ticks += 1;
                self.deadline = (self.ticks < 3).then_some(now.mono_us + 2_000);
            }
            Input::Durable(seq) => {
                assert!(seq > self.durable && seq.0 <= self.records);
                self.durable = seq;
            }
            Input::Own(()) => self.outputs.push_back(Output::Own(())),
        }
    }

    fn poll_output(&mut self) -> Option<Output<()>> {
        self.outputs.pop_front()
    }

    fn next_deadline(&self) -> Option<u64> {
        self.deadline
    }
}

impl HostedRole for Relay {
    fn status(&self) -> Counters {
        vec![("records".into(), self.records)]
    }
    fn disk_full(&mut self, full: bool) {
        self.full = full;
    }
}

fn relay(address: NodeId, next: NodeId, need: Need) -> Relay {
    Relay {
        address,
        next,
        records: 0,
        durable: RecordSeq(0),
        seen: vec![],
        ticks: 0,
        deadline: None,
        full: false,
        need,
        silent: false,
        takes: Duration::ZERO,
        clocks: (Now::default(), Now::default()),
        outputs: VecDeque::new(),
    }
}

#[derive(Default)]
struct Hooks {
    data_flushes: AtomicU64,
    fail: AtomicBool,
    /// Whoever holds this keeps the flush from going on.
    disk: Mutex<()>,
    failures: Mutex<Vec<String>>,
}

impl HostHooks for Hooks {
    fn flush_data(&self) -> io::Result<()> {
        self.data_flushes.fetch_add(1, Ordering::Relaxed);
        let _disk = self.disk.lock().unwrap();
        if self.fail.load(Ordering::Relaxed) { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
    }
    fn space(&self, _full: bool) {}
    fn failed(&self, why: &str) {
        self.failures.lock().unwrap().push(why.into());
    }
}

/// A link that keeps what it gets, with the durable lsn at that time.
#[derive(Default)]
struct Kept {
    got: Mutex<Vec<(NodeId, u64)>>,
    came: Condvar,
}

impl Link for Kept {
    fn send(&self, to: NodeId, packet: Packet) {
        self.got.lock().unwrap().push((to, packet.header().unwrap().seq.0));
        self.came.notify_all();
    }
}

impl Kept {
    fn wait(&self, n: usize) -> Vec<(NodeId, u64)> {
        let got = self.got.lock().unwrap();
        self.came.wait_timeout_while(got, Duration::from_secs(10), |got| got.len() < n).unwrap().0.clone()
    }
}

struct Setup {
    node: Arc<Node>,
    ports: Vec<Port<Relay>>,
    hooks: Arc<Hooks>,
    link: Arc<Kept>,
    _dir: tempfile::TempDir,
}

fn shard(n: u16) -> NodeId {
    NodeId::shard(ShardId(n))
}

fn session() -> NodeId {
    NodeId::session(SessionId(9))
}

/// Shards that pass messages on in a ring, the last one to `last`.
fn setup(shards: u16, last: NodeId, need: Need, commit: Commit) -> Setup {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes: 1 << 20, commit, journal: JOURNAL };
    let mut replay = |_: NodeId, _: RecordSeq, _: &[u8]| Ok(());
    let (journal, _) = Journal::recover(dir.path(), options, Lsn(0), &mut replay).unwrap();
    let mut builder = NodeBuilder::new();
    let add = |n| {
        let next = if n + 1 < shards { shard(n + 1) } else { last };
        builder.add(shard(n), relay(shard(n), next, need), NoEffects)
    };
    let ports = (0..shards).map(add).collect();
    let hooks = Arc::new(Hooks::default());
    let node = builder.start(commit, Some(journal), hooks.clone());
    let link = Arc::new(Kept::default());
    node.attach(session(), link.clone());
    Setup { node, ports, hooks, link, _dir: dir }
}

const JOURNAL: JournalId = JournalId { fsid: 1, number: 1, created: 5 };
const HOUR: Commit = Commit::Interval(3_600_000);

#[test]
fn a_message_runs_through_all_shards_of_the_process_at_once() {
    let s = setup(3, shard(0), Need::ByDestination, HOUR);
    s.node.deliver(shard(0), packet(session(), 30));
    for (i, port) in s.ports.iter().enumerate() {
        let expected: Vec<u64> = (0..=30u64).rev().filter(|n| (30 - n) % 3 == i as u64).collect();
        assert_eq!(s.node.with_role(port, |role| role.seen.clone()), expected);
    }
    assert_eq!(s.node.journal().unwrap().appended(), Lsn(31));
    assert_eq!(s.hooks.data_flushes.load(Ordering::Relaxed), 0, "nobody waited for the disk");
    s.node.stop();
}

#[test]
fn under_interval_a_reply_leaves_at_once_and_under_sync_when_durable() {
    let s = setup(2, session(), Need::ByDestination, HOUR);
    s.node.deliver(shard(0), packet(session(), 7));
    assert_eq!(*s.link.got.lock().unwrap(), [(session(), 5)]);
    assert_eq!(s.node.journal().unwrap().durable(), Lsn(0));
    s.node.stop();

    let s = setup(2, session(), Need::ByDestination, Commit::Sync);
    s.node.deliver(shard(0), packet(session(), 7));
    assert_eq!(s.link.wait(1), [(session(), 5)]);
    assert!(s.node.journal().unwrap().durable() >= Lsn(2));
    assert!(s.hooks.data_flushes.load(Ordering::Relaxed) > 0, "data before the journal");
    s.node.close().unwrap();
}

/// What counts for nothing until it was asked for again waits for no disk, wherever it goes.
#[test]
fn what_rests_on_nothing_leaves_at_once_in_any_mode() {
    for commit in [HOUR, Commit::Sync] {
        let s = setup(2, session(), Need::Nothing, commit);
        s.node.deliver(shard(0), packet(session(), 7));
        assert_eq!(*s.link.got.lock().unwrap(), [(session(), 5)]);
        s.node.stop();
    }
}

#[test]
fn what_must_be_durable_asks_for_a_flush_in_any_mode() {
    let s = setup(2, session(), Need::Durable, HOUR);
    s.node.deliver(shard(0), packet(session(), 7));
    assert_eq!(s.link.wait(1), [(session(), 5)]);
    assert_eq!(s.node.journal().unwrap().durable(), Lsn(2));
    s.node.journal().unwrap().wait_durable(Lsn(2)).unwrap();
    s.node.close().unwrap();
    assert_eq!(s.node.with_role(&s.ports[0], |role| role.durable), RecordSeq(1), "the role heard of it");
}

#[test]
fn under_sync_a_reply_waits_for_what_other_roles_of_the_process_told() {
    // Shard 0 records; the others only pass on what they heard of it, as a lookup does by a fresh grant.
    let s = setup(3, session(), Need::ByDestination, Commit::Sync);
    (1..3).for_each(|n| s.node.with_role(&s.ports[n], |role| role.silent = true));
    let disk = s.hooks.disk.lock().unwrap();
    s.node.deliver(shard(0), packet(session(), 7));
    assert_eq!(s.node.with_role(&s.ports[2], |role| role.seen.clone()), [5], "inside the process nobody waits");
    assert_eq!(*s.link.got.lock().unwrap(), [], "the reply rests on the record of shard 0");
    // So does what they say later.
    s.node.deliver(shard(2), packet(session(), 3));
    assert_eq!(*s.link.got.lock().unwrap(), []);
    drop(disk);
    assert_eq!(s.link.wait(2), [(session(), 4), (session(), 2)]);
    // Once that is durable nothing is held back.
    s.node.deliver(shard(1), packet(session(), 9));
    assert_eq!(s.link.got.lock().unwrap().len(), 3);
    s.node.close().unwrap();
}

#[test]
fn under_interval_nothing_inside_the_process_is_held_or_counted() {
    let s = setup(2, session(), Need::ByDestination, HOUR);
    s.node.with_role(&s.ports[1], |role| role.silent = true);
    s.node.deliver(shard(0), packet(session(), 7));
    assert_eq!(*s.link.got.lock().unwrap(), [(session(), 5)]);
    assert_eq!(s.node.cells[1].heard(), Lsn(0));
    s.node.stop();
}

#[test]
fn after_a_failed_flush_nothing_leaves_any_more() {
    let s = setup(1, session(), Need::ByDestination, Commit::Sync);
    s.hooks.fail.store(true, Ordering::Relaxed);
    s.node.deliver(shard(0), packet(session(), 3));
    assert!(s.node.close().is_err());
    s.node.deliver(shard(0), packet(session(), 2));
    assert_eq!(*s.link.got.lock().unwrap(), []);
    assert_eq!(s.hooks.failures.lock().unwrap().len(), 1);
    assert!(s.node.failure().unwrap().contains("a flush failed"));
}

#[test]
fn deadlines_are_kept() {
    let s = setup(1, shard(0), Need::ByDestination, HOUR);
    let ticks = || s.node.with_role(&s.ports[0], |role| role.ticks);
    let begin = std::time::Instant::now();
    while ticks() < 3 && begin.elapsed() < Duration::from_secs(10) {
        std::thread::yield_now();
    }
    // Where the machine stands still between a deadline and its tick, the timer may tick once more: a tick promises nothing.
    assert!((3..=4).contains(&ticks()), "{}", ticks());
    assert!(begin.elapsed() >= Duration::from_millis(2), "{:?}", begin.elapsed());
    s.node.stop();
}

/// A deadline that comes and goes with every message, as that of a call does, wakes nobody each time.
#[test]
fn the_timer_is_not_woken_for_every_call() {
    let s = setup(1, session(), Need::ByDestination, HOUR);
    s.node.with_role(&s.ports[0], |role| role.silent = true);
    let begin = sys::now().mono_us;
    let seconds = || (sys::now().mono_us - begin) / 1_000_000;
    let mut left = 4_000;
    loop {
        // The thread sleeps and is woken first, however long that takes; then it should not be woken any more.
        left -= u32::from(s.node.timer.woken() > 0 || seconds() >= 10);
        if left == 0 {
            break;
        }
        for deadline in [Some(sys::now().mono_us + CALL_RETRY_US), None] {
            s.node.with_role(&s.ports[0], |role| role.deadline = deadline);
            s.node.deliver(shard(0), packet(session(), 0));
        }
        // Most of the time nothing waits for an answer.
        (0..20).for_each(|_| std::thread::yield_now());
    }
    let woken = s.node.timer.woken();
    assert!((1..=2 * (seconds() + 1)).contains(&woken), "{woken} times in {} s", seconds());
    s.node.stop();
}

/// A client that has its answer may compare times with its own clock: the roles' clocks must not lag behind a message.
#[test]
fn a_role_has_the_time_after_a_message_was_sent() {
    let s = setup(2, session(), Need::ByDestination, HOUR);
    s.node.with_role(&s.ports[0], |role| (role.takes, role.silent) = (Duration::from_millis(2), true));
    s.node.deliver(shard(0), packet(session(), 1));
    let (_, sent) = s.node.with_role(&s.ports[0], |role| role.clocks);
    let (came, _) = s.node.with_role(&s.ports[1], |role| role.clocks);
    assert!(came.mono_us >= sent.mono_us && came.wall_ns >= sent.wall_ns, "{came:?} is before {sent:?}");
    s.node.stop();
}

#[test]
fn threads_that_meet_at_a_role_leave_nothing_behind() {
    const EACH: u64 = 20_000;
    let s = setup(2, shard(0), Need::ByDestination, Commit::Interval(1));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..EACH).for_each(|n| s.node.deliver(shard((n % 2) as u16), packet(session(), 1))));
        }
    });
    s.node.close().unwrap();
    let records: u64 = s.ports.iter().map(|p| s.node.with_role(p, |role| role.records)).sum();
    assert_eq!(records, 4 * EACH * 2);
    let status = s.node.status();
    assert_eq!(status.iter().find(|(name, _)| name == "host").unwrap().1[0], ("messages_lost".into(), 0));
}

/// Own outputs come back as own inputs until the count is over.
struct Loop {
    left: Arc<AtomicU64>,
    slow: bool,
}

impl Effects<Relay> for Loop {
    fn perform(&self, (): (), done: &mut Vec<()>) {
        if self.left.fetch_sub(1, Ordering::AcqRel) > 1 {
            done.push(());
        }
    }
    fn is_slow(&self, (): &()) -> bool {
        self.slow
    }
}

#[test]
fn effects_run_outside_the_lock_and_their_results_come_back() {
    for slow in [false, true] {
        let left = Arc::new(AtomicU64::new(1000));
        let mut builder = NodeBuilder::new();
        let effects = Loop { left: left.clone(), slow };
        let port = builder.add(shard(0), relay(shard(0), shard(0), Need::ByDestination), effects);
        let node = builder.start(HOUR, None, Arc::new(Hooks::default()));
        node.submit(&port, ());
        let begin = std::time::Instant::now();
        while left.load(Ordering::Acquire) > 0 && begin.elapsed() < Duration::from_secs(10) {
            std::thread::yield_now();
        }
        assert_eq!(left.load(Ordering::Acquire), 0);
        node.stop();
    }
}

/// A shard that has its outputs for each message from the test.
struct Scripted {
    script: VecDeque<Vec<Output<()>>>,
    outputs: VecDeque<Output<()>>,
    /// Once its outputs are taken, and before any leaves its thread, it takes its time until this message is on its way.
    slow: Option<(u64, Arc<Ordered>)>,
}

impl Role for Scripted {
    type In = ();
    type Out = ();

    fn handle(&mut self, _: Now, input: Input<()>) {
        if matches!(input, Input::Packet(_)) {
            self.outputs.extend(self.script.pop_front().unwrap());
        }
    }

    fn poll_output(&mut self) -> Option<Output<()>> {
        self.outputs.pop_front()
    }

    fn next_deadline(&self) -> Option<u64> {
        if let Some((number, link)) = self.slow.as_ref().filter(|_| self.script.is_empty()) {
            link.until_came(*number, Duration::from_secs(10));
        }
        None
    }
}

impl HostedRole for Scripted {}

/// A link that does something when the first message comes, and keeps it only then.
#[derive(Default)]
struct Ordered {
    kept: Kept,
    before: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Ordered {
    fn until_came(&self, number: u64, patience: Duration) {
        let got = self.kept.got.lock().unwrap();
        let missing = |got: &mut Vec<(NodeId, u64)>| !got.contains(&(shard(1), number));
        drop(self.kept.came.wait_timeout_while(got, patience, missing).unwrap());
    }
}

impl Link for Ordered {
    fn send(&self, to: NodeId, packet: Packet) {
        if let Some(before) = self.before.get().filter(|_| packet.header().unwrap().seq.0 == 1) {
            before();
        }
        self.kept.send(to, packet);
    }
}

/// A remove with that counter, which rests on that record.
fn remove(counter: u32, after: u64) -> Output<()> {
    let group = Fingerprint::new(5, 7).unwrap();
    let innet = InNet::remove(1, TrackingEpoch(1), group, (ShardId(0), Term(1), counter), shard(1));
    let packet = packet(shard(0), u64::from(counter)).through(NodeId::switch(9), innet);
    Output::Send { to: shard(1), packet, after: RecordSeq(after), need: Need::ByDestination }
}

fn record() -> Output<()> {
    Output::Append { seq: RecordSeq(1), bytes: vec![1] }
}

/// A host with that shard among others, whose messages leave by the link.
fn scripted(
    script: impl Into<VecDeque<Vec<Output<()>>>>,
    slow: Option<u64>,
) -> (Arc<Node>, Arc<Ordered>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes: 1 << 20, commit: HOUR, journal: JOURNAL };
    let mut replay = |_: NodeId, _: RecordSeq, _: &[u8]| Ok(());
    let (journal, _) = Journal::recover(dir.path(), options, Lsn(0), &mut replay).unwrap();
    let link = Arc::new(Ordered::default());
    let mut builder = NodeBuilder::new();
    builder.among_others();
    let slow = slow.map(|number| (number, link.clone()));
    builder.add(shard(0), Scripted { script: script.into(), outputs: VecDeque::new(), slow }, NoEffects);
    let node = builder.start(HOUR, Some(journal), Arc::new(Hooks::default()));
    node.attach_default(link.clone());
    (node, link, dir)
}

/// what a flush releases at once does not overtake what has passed the gate and has yet to be sent.
#[test]
fn removes_leave_in_their_order_though_the_disk_is_fast() {
    let (node, link, _dir) = scripted([vec![remove(1, 0), record(), remove(2, 1)]], Some(2));
    node.deliver(shard(0), packet(session(), 1));
    assert_eq!(link.kept.wait(2), [(shard(1), 1), (shard(1), 2)]);
    node.stop();
}

/// what passes the gate that a flush has opened does not overtake what that flush releases and has yet to send.
#[test]
fn removes_leave_in_their_order_though_the_gate_is_open() {
    let (node, link, _dir) = scripted([vec![record(), remove(1, 1)], vec![remove(2, 1)]], None);
    let (node_of_second, link_of_second) = (Arc::downgrade(&node), Arc::downgrade(&link));
    let before = move || {
        let (node, link) = (node_of_second.upgrade().unwrap(), link_of_second.upgrade().unwrap());
        std::thread::spawn(move || node.deliver(shard(0), packet(session(), 2)));
        link.until_came(2, Duration::from_millis(200)); // in vain
    };
    assert!(link.before.set(Box::new(before)).is_ok());
    node.deliver(shard(0), packet(session(), 1));
    assert_eq!(link.kept.wait(2), [(shard(1), 1), (shard(1), 2)]);
    node.stop();
}
