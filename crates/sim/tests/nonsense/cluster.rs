//! Real roles in one process: shards, a data node, the switch; clients that ask them, and messages that are changed on their way.
//!
//! Only what an endpoint lets through is delivered (`crates/host/src/udp/admit.rs`): a client asks in its own name, a host speaks for its roles.

use super::flights::{Flight, admits, change_around, same};
use super::mounts::{Made, Mount};
use super::questions::Known;
use super::{Dice, decodes, mutate};
use bytes::Bytes;
use onpath_data::{DataConfig, DataIn, DataNode, DataOut, DiskOp, DiskResult, Ticket};
use onpath_kernel::{Input, Now, Output, Role};
use onpath_meta::{Shard, ShardBounds, ShardConfig, SyncPolicy};
use onpath_store::Recoverable;
use onpath_switch::{Switch, SwitchConfig};
use onpath_wire::caller::{Caller, Caps, cap};
use onpath_wire::data::DataReply;
use onpath_wire::disk::record::Counter;
use onpath_wire::header::{HEADER_BYTES, Header, MessageKind, OfRequest};
use onpath_wire::ids::{Birth, NodeClass, NodeId, RecordSeq, RequestSeq, SessionId, ShardId, Stamp, Term};
use onpath_wire::limits::BLOCK_BYTES;
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, RequestBody};
use onpath_wire::tracking::{Form, Switches, Tracking, Writes};
use onpath_wire::{Packet, Wire, map::ClusterMap, secrets::Secrets};
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};

pub(crate) const SHARDS: u16 = 3;
/// Clients at a time.
const SESSIONS: usize = 4;
/// Steps after which another client takes the place of one.
const CLIENT_STEPS: u64 = 1_500;
/// Real sessions at a time, and the number of the first one.
const MOUNTS: usize = 3;
const FIRST_MOUNT: u32 = 1 << 20;
const CLUSTER: u32 = 1;
const WALL_START_NS: u64 = 1_700_000_000_000_000_000;
/// Messages under way; beyond, nobody asks anything new.
const UNDER_WAY_MAX: usize = 64;
/// Messages that one input may make.
const OUTPUTS_MAX: usize = 200_000;

/// How many messages were delivered, of which so many changed, and what the roles counted as refused.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) delivered: u64,
    pub(crate) changed: u64,
    pub(crate) malformed: u64,
    pub(crate) answers: u64,
    pub(crate) records: u64,
    /// Requests of mounts that were answered, and without an error; and sessions that came to an end.
    pub(crate) asked: u64,
    pub(crate) done: u64,
    pub(crate) lost: u64,
}

impl Outcome {
    pub(crate) fn add(&mut self, other: &Outcome) {
        self.delivered += other.delivered;
        self.changed += other.changed;
        self.malformed += other.malformed;
        self.answers += other.answers;
        self.records += other.records;
        self.asked += other.asked;
        self.done += other.done;
        self.lost += other.lost;
    }
}

thread_local! {
    /// Whether the panic that goes on was told before.
    static KNOWN: Cell<bool> = const { Cell::new(false) };
}

/// A panic at a place that was told before: its message is not told again.
pub(crate) fn known_panic() {
    KNOWN.set(true);
}

/// The blocks of the data files.
#[derive(Default)]
struct Blocks(HashMap<(u32, u64), Bytes>);

pub(crate) struct Cluster {
    dice: Dice,
    map: ClusterMap,
    shards: Vec<Shard>,
    data: DataNode,
    switch: Option<Switch>,
    blocks: Blocks,
    disk: VecDeque<(Ticket, DiskResult)>,
    flights: VecDeque<Flight>,
    mono_us: u64,
    /// The clients, each with the number of its last request.
    clients: [(u32, u64); SESSIONS],
    last_client: u32,
    mounts: Vec<Mount>,
    last_mount: u32,
    steps: u64,
    trackings: [Tracking; SHARDS as usize],
    known: Known,
    journals: Vec<Vec<(RecordSeq, Vec<u8>)>>,
    /// Of a hundred messages so many are changed.
    nonsense: usize,
    pub(crate) outcome: Outcome,
    /// Hears of every message and record.
    tap: Option<Tap>,
}

/// What somebody who listens hears.
pub(crate) enum Told<'a> {
    /// A message, and for whom it is.
    Message(NodeId, &'a Packet),
    /// A record of a shard.
    Record(&'a [u8]),
    /// A record of the data node.
    DataRecord(&'a [u8]),
}

type Tap = Box<dyn FnMut(Told<'_>)>;

/// Says which message it was, if its receiver panics.
struct Culprit<'a>(NodeId, &'a Packet);

impl Drop for Culprit<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !KNOWN.take() {
            let Culprit(to, packet) = self;
            eprintln!("delivered to {to}: {}", told(*to, packet));
        }
    }
}

/// A message in words.
fn told(to: NodeId, packet: &Packet) -> String {
    use onpath_wire::data::{DataRequest, Merge};
    use onpath_wire::peer::Peer;
    let header = packet.header();
    let kind = header.as_ref().map(|header| header.kind());
    let body = match (kind, to.class()) {
        (Ok(MessageKind::Request), _) => format!("{:?}", packet.body::<RequestBody>()),
        (Ok(MessageKind::Data), Some(NodeClass::Shard)) => format!("{:?}", packet.body::<Merge>()),
        (Ok(MessageKind::Data), _) => format!("{:?}", packet.body::<DataRequest>()),
        (Ok(MessageKind::Peer), _) => format!("{:?}", packet.body::<Peer>()),
        (Ok(MessageKind::Reply), _) => format!("{:?}", packet.body::<Reply>()),
        _ => format!("{:?} or {:?}", packet.body::<Peer>(), packet.body::<DataReply>()),
    };
    format!("{body}, {} bytes of bulk, {:?}, {header:?}", packet.bulk.len(), packet.innet)
}

fn shard_of(number: u16, term: Term, map: &ClusterMap, (form, sync): (Form, SyncPolicy)) -> Shard {
    Shard::new(ShardConfig {
        shard: ShardId(number),
        map: map.clone(),
        term,
        one_journal: true,
        ends_path_nodes: false,
        inner: Secrets::of_seed(7).inner,
        cluster: CLUSTER,
        track_unsynced: true,
        outlived: true,
        form,
        switches: Switches::ONE,
        sync,
        sticky_marks: true,
        writes: Writes::Visible,
        shows_files: true,
        bounds: ShardBounds::default(),
    })
}

const TERM: Term = Term(1);
const NEXT_TERM: Term = Term(20);

fn data_of(map: &ClusterMap, term: Term) -> DataNode {
    let (map, tickets, [outlived, deferred]) = (map.clone(), Secrets::of_seed(7).inner.tickets(), [true; 2]);
    let (node, cluster, file_blocks, files) = (0, CLUSTER, 4_096, 0);
    DataNode::new(DataConfig { node, term, map, cluster, file_blocks, files, tickets, outlived, deferred })
}

impl Blocks {
    fn execute(&mut self, op: DiskOp) -> DiskResult {
        let places = |file, offset: u64, len: u64| {
            (offset / BLOCK_BYTES..(offset + len) / BLOCK_BYTES).map(move |block| (file, block))
        };
        match op {
            DiskOp::Write { file, offset, bytes, .. } => {
                let all: Vec<u8> = bytes.concat();
                for (place, block) in places(file, offset, all.len() as u64).zip(all.chunks(BLOCK_BYTES as usize)) {
                    self.0.insert(place, Bytes::copy_from_slice(block));
                }
                DiskResult::Done
            }
            DiskOp::Reserve { .. } => DiskResult::Done,
            DiskOp::Read { file, offset, len } => {
                let mut bytes = Vec::with_capacity(len as usize);
                let zeros = Bytes::from_static(&[0; BLOCK_BYTES as usize]);
                for place in places(file, offset, len.into()) {
                    bytes.extend_from_slice(self.0.get(&place).unwrap_or(&zeros));
                }
                DiskResult::Bytes(bytes.into())
            }
            DiskOp::Punch { file, offset, len } => {
                places(file, offset, len).for_each(|place| _ = self.0.remove(&place));
                DiskResult::Done
            }
            DiskOp::Space => DiskResult::Space { total: 1 << 40, free: 1 << 39 },
        }
    }
}

impl Cluster {
    /// A new file system whose directories are tracked in this form, with clients attached.
    pub(crate) fn new(seed: u64, form: Form, nonsense: usize) -> Cluster {
        let mut dice = Dice(seed);
        let map = ClusterMap::even(SHARDS, Secrets::of_seed(7).placement);
        let sync = *dice.one(&[SyncPolicy::Auto, SyncPolicy::Auto, SyncPolicy::Never, SyncPolicy::Always]);
        let stages = *dice.one(&[10, 10, 1]);
        let mut cluster = Cluster {
            shards: (0..SHARDS).map(|number| shard_of(number, TERM, &map, (form, sync))).collect(),
            data: data_of(&map, TERM),
            switch: (form == Form::Network)
                .then(|| Switch::new(SwitchConfig { node: NodeId::SWITCH, cluster: CLUSTER, boot: 1, stages })),
            map,
            dice,
            blocks: Blocks::default(),
            disk: VecDeque::new(),
            flights: VecDeque::new(),
            mono_us: 1,
            clients: [(0, 0); SESSIONS],
            last_client: 0,
            mounts: vec![],
            last_mount: FIRST_MOUNT,
            steps: 0,
            trackings: [Tracking::default(); SHARDS as usize],
            known: Known::new(),
            journals: vec![vec![]; usize::from(SHARDS) + 1],
            nonsense: 0,
            outcome: Outcome::default(),
            tap: None,
        };
        let now = cluster.now();
        cluster.shards.iter_mut().for_each(|shard| shard.start(now, Birth(1)));
        cluster.data.start(now, Birth(1), &mut |_, _, into| {
            into.fill(0);
            Ok(())
        });
        (0..usize::from(SHARDS)).for_each(|index| cluster.outputs_of_shard(index));
        cluster.outputs_of_data();
        (0..SESSIONS).for_each(|place| cluster.attach(place));
        (0..MOUNTS).for_each(|_| cluster.mount());
        (0..100).for_each(|_| cluster.settle());
        cluster.nonsense = nonsense;
        cluster
    }

    /// From now on somebody listens.
    pub(crate) fn listen(&mut self, tap: impl FnMut(Told<'_>) + 'static) {
        self.tap = Some(Box::new(tap));
    }

    pub(crate) fn now(&self) -> Now {
        Now { mono_us: self.mono_us, wall_ns: WALL_START_NS + self.mono_us * 1_000 }
    }

    /// A new client comes, in the place of another that says no more.
    fn attach(&mut self, place: usize) {
        self.last_client += 1;
        self.clients[place] = (self.last_client, 0);
        self.ask(place, Request::Attach { again: false });
    }

    /// A session more.
    fn mount(&mut self) {
        self.last_mount += 1;
        let mount = Mount::new(SessionId(self.last_mount), CLUSTER, &self.map, &mut self.dice);
        self.mounts.push(mount);
    }

    /// What an input has made a session do. One that is over makes room for another.
    fn made(&mut self, index: usize, made: Made) {
        let from = self.mounts[index].node;
        made.ids.into_iter().for_each(|id| self.known.see(id, &mut self.dice));
        for (to, packet) in made.sends {
            self.send(Flight { from, to, packet });
        }
        if self.mounts[index].lost {
            let mount = self.mounts.swap_remove(index);
            self.count(&mount);
            self.outcome.lost += 1;
            self.mount();
        }
    }

    fn count(&mut self, mount: &Mount) {
        self.outcome.asked += mount.answered;
        self.outcome.done += mount.done;
    }

    fn header_of(&mut self, place: usize, kind: MessageKind, term: Term) -> Header {
        let (session, seq) = &mut self.clients[place];
        *seq += 1;
        let (session, seq) = (*session, *seq);
        let mut header = Header::new(kind, NodeId::session(SessionId(session)), RequestSeq(seq));
        header.cluster = CLUSTER;
        header.term = term;
        let oldest_behind = seq.min(32) as u32 - 1;
        *header.of_request_mut().expect("of a request") =
            OfRequest { until: u32::MAX, oldest_behind, ..OfRequest::default() };
        header.stamp = Stamp(self.now().wall_ns);
        header
    }

    pub(crate) fn ask(&mut self, place: usize, request: Request) {
        let slot = request.describe().about.slot(&self.map);
        let shard = self.map.shard(slot);
        let mut header = self.header_of(place, MessageKind::Request, TERM);
        header.slot = slot;
        let to = NodeId::shard(shard);
        let (id, caps) = if place + 1 < SESSIONS { (0, cap::ALL) } else { (1_000, 0) };
        let caller = Caller { uid: id, gid: id, caps: Caps::exactly(caps), ..Caller::default() };
        let packet = RequestBody { caller, request }.packet(&header, to, self.trackings[shard.0 as usize], &self.map);
        self.send(Flight { from: header.source, to, packet });
    }

    fn ask_data(&mut self, place: usize) {
        let Some((request, bytes)) = self.known.of_data(&mut self.dice) else { return };
        let header = self.header_of(place, MessageKind::Data, TERM);
        let packet = Packet::with_bulk(&header, &request, vec![place as u8; bytes].into());
        self.send(Flight { from: header.source, to: NodeId::data(0), packet });
    }

    fn send(&mut self, flight: Flight) {
        if let Some(tap) = &mut self.tap {
            tap(Told::Message(flight.to, &flight.packet));
        }
        self.flights.push_back(flight);
    }

    /// Perhaps somebody asks; then a message arrives, a disk is done, and time passes.
    pub(crate) fn step(&mut self) {
        self.steps += 1;
        if self.steps.is_multiple_of(CLIENT_STEPS) {
            let place = self.dice.below(SESSIONS);
            self.attach(place);
        }
        if self.flights.len() < UNDER_WAY_MAX && self.dice.percent(40) {
            let place = self.dice.below(SESSIONS);
            if self.dice.percent(25) {
                self.ask_data(place);
            } else {
                let question = self.known.question(&mut self.dice);
                self.ask(place, question);
            }
        }
        if self.flights.len() < UNDER_WAY_MAX && self.dice.percent(40) {
            let (now, index) = (self.now(), self.dice.below(self.mounts.len()));
            let made = self.mounts[index].ask(now, &self.known.ids, &mut self.dice);
            self.made(index, made);
        }
        self.settle();
    }

    /// Nobody asks anything new.
    pub(crate) fn settle(&mut self) {
        if let Some((ticket, result)) = self.disk.pop_front() {
            let now = self.now();
            self.data.handle(now, Input::Own(DataIn::DiskDone { ticket, result }));
            self.outputs_of_data();
        }
        (0..=self.flights.len() / 16).for_each(|_| self.arrive());
        self.mono_us += [0, 1, 20, 200, 5_000][self.dice.below(5)];
        self.tick();
    }

    /// A message arrives, as it was or changed.
    fn arrive(&mut self) {
        // Most come in order.
        let at = if self.dice.percent(80) { 0 } else { self.dice.below(self.flights.len()) };
        if let Some(flight) = self.flights.remove(at) {
            if self.dice.percent(self.nonsense) {
                if let Some(changed) = self.changed(&flight) {
                    self.outcome.changed += 1;
                    self.deliver(changed);
                }
                if self.dice.percent(80) {
                    self.deliver(flight);
                }
            } else {
                self.deliver(flight);
            }
        }
    }

    /// The same message with something changed, such that it still decodes and an endpoint lets it through.
    fn changed(&mut self, flight: &Flight) -> Option<Flight> {
        let words = self.known.words();
        for _ in 0..12 {
            let mut changed = flight.clone();
            let dice = &mut self.dice;
            if dice.percent(75) {
                let mut body = changed.packet.head.split_off(HEADER_BYTES);
                mutate(&mut body, &words, dice);
                changed.packet.head.append(&mut body);
            } else {
                change_around(&mut changed, dice);
            }
            if admits(&changed) && decodes(changed.to, &changed.packet) && !same(&changed, flight) {
                return Some(changed);
            }
        }
        None
    }

    /// A host or a client says something to a role.
    pub(crate) fn tell(&mut self, from: NodeId, to: NodeId, kind: MessageKind, body: &impl Wire) {
        let mut header = Header::new(kind, from, RequestSeq(1 << 41));
        header.term = TERM;
        self.tell_with(header, to, body);
    }

    /// The same with this header.
    pub(crate) fn tell_with(&mut self, header: Header, to: NodeId, body: &impl Wire) {
        let packet = Packet::new(&header, body);
        self.deliver(Flight { from: header.source, to, packet });
    }

    /// Messages that the data node has taken for those of another time.
    pub(crate) fn skewed(&self) -> u64 {
        self.data.counters().skewed
    }

    fn deliver(&mut self, flight: Flight) {
        self.outcome.delivered += 1;
        let Flight { to, packet, .. } = flight;
        let now = self.now();
        let copy = packet.clone();
        let _culprit = Culprit(to, &copy);
        if packet.wants_switch() || to == NodeId::SWITCH {
            if let Some(switch) = &mut self.switch {
                switch.handle(now, Input::Packet(packet));
                self.outputs_of_switch();
            }
            return;
        }
        match to.class() {
            Some(NodeClass::Shard) if to.number() < SHARDS.into() => {
                let index = to.number() as usize;
                self.shards[index].handle(now, Input::Packet(packet));
                self.outputs_of_shard(index);
            }
            Some(NodeClass::Data) if to.number() == 0 => {
                self.data.handle(now, Input::Packet(packet));
                self.outputs_of_data();
            }
            Some(NodeClass::Session) => match self.mounts.iter().position(|mount| mount.node == to) {
                Some(index) => {
                    let made = self.mounts[index].hear(now, packet);
                    self.made(index, made);
                }
                None => self.hear(&packet),
            },
            _ => {}
        }
    }

    /// A client gets an answer.
    fn hear(&mut self, packet: &Packet) {
        let Ok(header) = packet.header() else { return };
        if let (Some(shard), Some(replied)) = (header.source.as_shard(), header.of_reply()) {
            self.outcome.answers += 1;
            self.trackings[usize::from(shard.0)] = replied.tracked;
            // Behind a mark there is no body.
            if let Ok(reply) = packet.body::<Reply>() {
                self.known.hear(&reply, &mut self.dice);
            }
        }
    }

    fn tick(&mut self) {
        let now = self.now();
        for index in 0..self.shards.len() {
            if self.shards[index].next_deadline().is_some_and(|at_us| at_us <= now.mono_us) {
                self.shards[index].handle(now, Input::Tick);
                self.outputs_of_shard(index);
            }
        }
        if self.data.next_deadline().is_some_and(|at_us| at_us <= now.mono_us) {
            self.data.handle(now, Input::Tick);
            self.outputs_of_data();
        }
        for index in (0..self.mounts.len()).rev() {
            let made = self.mounts[index].tick(now);
            self.made(index, made);
        }
    }

    fn record(&mut self, place: usize, seq: RecordSeq, bytes: Vec<u8>) {
        self.outcome.records += 1;
        if let Some(tap) = &mut self.tap {
            tap(if place < usize::from(SHARDS) { Told::Record(&bytes) } else { Told::DataRecord(&bytes) });
        }
        self.journals[place].push((seq, bytes));
    }

    fn outputs_of_shard(&mut self, index: usize) {
        let from = NodeId::shard(ShardId(index as u16));
        let (mut last, mut count) = (None, 0);
        while let Some(output) = self.shards[index].poll_output() {
            count += 1;
            assert!(count < OUTPUTS_MAX, "shard {index} does not come to an end");
            match output {
                Output::Append { seq, bytes } => {
                    last = Some(seq);
                    self.record(index, seq, bytes);
                }
                Output::Send { to, packet, .. } => self.send(Flight { from, to, packet }),
                Output::Flush | Output::Own(()) => {}
            }
        }
        if let Some(seq) = last {
            let now = self.now();
            self.shards[index].handle(now, Input::Durable(seq));
            self.outputs_of_shard(index);
        }
    }

    fn outputs_of_data(&mut self) {
        let (mut last, mut count) = (None, 0);
        while let Some(output) = self.data.poll_output() {
            count += 1;
            assert!(count < OUTPUTS_MAX, "the data node does not come to an end");
            match output {
                Output::Append { seq, bytes } => {
                    last = Some(seq);
                    self.record(SHARDS.into(), seq, bytes);
                }
                Output::Send { to, packet, .. } => self.send(Flight { from: NodeId::data(0), to, packet }),
                Output::Flush => {}
                Output::Own(DataOut::Disk { ticket, op }) => {
                    let result = self.blocks.execute(op);
                    self.disk.push_back((ticket, result));
                }
            }
        }
        if let Some(seq) = last {
            let now = self.now();
            self.data.handle(now, Input::Durable(seq));
            self.outputs_of_data();
        }
    }

    fn outputs_of_switch(&mut self) {
        let mut sends = vec![];
        if let Some(switch) = &mut self.switch {
            while let Some(output) = switch.poll_output() {
                if let Output::Send { to, packet, .. } = output {
                    sends.push(Flight { from: NodeId::SWITCH, to, packet });
                }
            }
        }
        sends.into_iter().for_each(|flight| self.send(flight));
    }

    /// The roles start again from what they have written.
    fn restart(&self) {
        let recovered = |number: u16| {
            let mut shard = shard_of(number, NEXT_TERM, &self.map, (Form::Owner, SyncPolicy::Auto));
            for (seq, bytes) in &self.journals[usize::from(number)] {
                shard.replay(*seq, bytes).unwrap_or_else(|error| panic!("shard {number}, record {seq}: {error}"));
            }
            shard
        };
        let mut shards: Vec<Shard> = (0..SHARDS).map(recovered).collect();
        let reserved = shards.iter().map(|shard| shard.reserved(Counter::Births)).max();
        let first = Birth::after(reserved.unwrap_or(0)); // all have one journal
        shards.iter_mut().for_each(|shard| shard.start(self.now(), first));
        let mut data = data_of(&self.map, NEXT_TERM);
        for (seq, bytes) in &self.journals[usize::from(SHARDS)] {
            data.replay(*seq, bytes).unwrap_or_else(|error| panic!("data node, record {seq}: {error}"));
        }
        data.start(self.now(), first, &mut |file, offset, into| {
            into.fill(0);
            if let Some(block) = self.blocks.0.get(&(file, offset / BLOCK_BYTES)) {
                into.copy_from_slice(&block[..into.len()]);
            }
            Ok(())
        });
    }

    /// What was refused, and all else.
    pub(crate) fn end(mut self) -> Outcome {
        self.restart();
        std::mem::take(&mut self.mounts).iter().for_each(|mount| self.count(mount));
        let refused = |(name, n): (&'static str, u64)| if name == "messages_malformed" { n } else { 0 };
        self.outcome.malformed = self.shards.iter().flat_map(Shard::status).map(refused).sum();
        self.outcome.malformed += self.data.counters().rejected;
        self.outcome
    }
}
