//! Shards without a host: packets are carried by hand, records are kept or dropped, time passes as told.

use onpath_kernel::{Input, Now, Output, Role};
use onpath_meta::{Shard, ShardBounds, ShardConfig, SyncPolicy};
use onpath_wire::data::{Answered, Merge};
use onpath_wire::header::{Header, MessageKind, Of, OfRequest};
use onpath_wire::ids::{
    Birth, DataId, Generation, InodeId, LogSeq, NodeId, RecordSeq, RequestSeq, SessionId, ShardId, Stamp, Term,
};
use onpath_wire::limits::BLOCK_BYTES;
use onpath_wire::map::ClusterMap;
use onpath_wire::packet::Packet;
use onpath_wire::reply::Reply;
use onpath_wire::request::{Request, RequestBody};
use onpath_wire::secrets::Secrets;
use onpath_wire::tracking::{Form, Switches, Writes};
use std::collections::VecDeque;

const SESSION: SessionId = SessionId(1);
const WALL_START_NS: u64 = 1_700_000_000_000_000_000;
/// Virtual time an operation takes: what the fastest one is meant to cost.
const OPERATION_US: u64 = 1;
/// Records between two flushes, as at 500,000 records/s and an interval of 100 ms.
const FLUSH_EVERY: u64 = 50_000;

/// A record of a shard, as its journal would have it.
pub(crate) struct Kept {
    /// Whose it is.
    pub(crate) shard: u16,
    /// Its number.
    pub(crate) seq: RecordSeq,
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
}

/// An encoded request and where it goes.
pub(crate) struct Encoded {
    to: ShardId,
    packet: Packet,
}

/// The shards of a file system and one session's sequence numbers.
pub(crate) struct World {
    pub(crate) map: ClusterMap,
    shards: Vec<Shard>,
    mono_us: u64,
    next_seq: u64,
    messages: VecDeque<(ShardId, Packet)>,
    replies: Vec<Packet>,
    /// Where records go, if somebody wants them.
    pub(crate) journal: Option<Vec<Kept>>,
    last_record: Vec<RecordSeq>,
    unflushed: u64,
    /// Bytes of all records so far.
    pub(crate) record_bytes: u64,
    /// Number of all records so far.
    pub(crate) records: u64,
}

fn config(shard: u16, map: &ClusterMap) -> ShardConfig {
    ShardConfig {
        shard: ShardId(shard),
        map: map.clone(),
        term: Term(1 + u32::from(shard)),
        one_journal: true,
        ends_path_nodes: false,
        inner: Secrets::of_seed(7).inner,
        cluster: 1,
        track_unsynced: false,
        outlived: false,
        form: Form::Owner,
        switches: Switches::ONE,
        sync: SyncPolicy::Auto,
        sticky_marks: true,
        writes: Writes::Chain,
        shows_files: false,
        bounds: ShardBounds::default(),
    }
}

/// Shards that have no state and do not serve yet.
pub(crate) fn empty_shards(map: &ClusterMap) -> Vec<Shard> {
    (0..map.shards()).map(|shard| Shard::new(config(shard, map))).collect()
}

impl World {
    /// A new file system with a session attached.
    pub(crate) fn new(shards: u16) -> World {
        let map = ClusterMap::even(shards, Secrets::of_seed(7).placement);
        let mut world = World {
            shards: empty_shards(&map),
            map,
            mono_us: 1,
            next_seq: 0,
            messages: VecDeque::new(),
            replies: vec![],
            journal: None,
            last_record: vec![RecordSeq(0); shards.into()],
            unflushed: 0,
            record_bytes: 0,
            records: 0,
        };
        let now = world.now();
        world.shards.iter_mut().for_each(|shard| shard.start(now, Birth(1)));
        world.collect_all();
        let attached = world.ask(Request::Attach { again: false });
        assert!(matches!(attached, Reply::Attached { .. }), "{attached:?}");
        world
    }

    fn now(&self) -> Now {
        Now { mono_us: self.mono_us, wall_ns: WALL_START_NS + self.mono_us * 1_000 }
    }

    /// Encodes a request as the session would.
    pub(crate) fn encode(&mut self, request: Request) -> Encoded {
        let slot = request.describe().about.slot(&self.map);
        let to = self.map.shard(slot);
        self.next_seq += 1;
        let mut header = Header::new(MessageKind::Request, NodeId::session(SESSION), RequestSeq(self.next_seq));
        header.of = Of::Request(OfRequest { until: u32::MAX, ..OfRequest::default() });
        header.cluster = 1;
        header.term = Term(1 + u32::from(to.0));
        header.slot = slot;
        Encoded { to, packet: Packet::new(&header, &RequestBody::of_session(request)) }
    }

    /// Encodes what a data node tells the homes of these files: that each has one block more than before, `files` files a message.
    pub(crate) fn encode_told(&mut self, ids: &[InodeId], files: usize) -> Vec<Encoded> {
        let mut all = vec![];
        for shard in self.map.all() {
            let mut of_home: Vec<InodeId> = ids.iter().copied().filter(|id| self.map.home(*id) == shard).collect();
            for ids in of_home.chunks_mut(files) {
                ids.sort_unstable(); // as data nodes tell them
                self.next_seq += 1;
                let number = self.next_seq;
                let answered = |&inode: &InodeId| Answered {
                    data: DataId { inode, generation: Generation(0) },
                    cut: 0,
                    end: number * BLOCK_BYTES,
                    blocks: number,
                    version: number,
                    kill_suidgid: false,
                    last: LogSeq(number),
                    stamp: Stamp(WALL_START_NS + number),
                };
                let mut header = Header::new(MessageKind::Data, NodeId::data(0), RequestSeq(number));
                (header.cluster, header.term) = (1, Term(1));
                let body = Merge::Answered { all: ids.iter().map(answered).collect() };
                all.push(Encoded { to: shard, packet: Packet::new(&header, &body) });
            }
        }
        all
    }

    /// Runs requests one after the other, each until nothing is left to do now.
    #[inline(never)] // so that profilers can tell it from preparations
    pub(crate) fn run(&mut self, requests: Vec<Encoded>) {
        for Encoded { to, packet } in requests {
            self.messages.push_back((to, packet));
            self.deliver();
            self.mono_us += OPERATION_US;
            self.tick();
        }
    }

    /// Runs requests of which nobody wants time or replies.
    pub(crate) fn run_quietly(&mut self, requests: Vec<Request>) {
        let encoded = requests.into_iter().map(|request| self.encode(request)).collect();
        self.run(encoded);
        self.replies.clear();
    }

    /// The replies since the last call, decoded, in order.
    pub(crate) fn replies(&mut self) -> Vec<Reply> {
        self.replies.drain(..).map(|packet| packet.body().expect("a shard's own reply")).collect()
    }

    /// Nobody wants the answers since the last call.
    pub(crate) fn forget_replies(&mut self) {
        self.replies.clear();
    }

    /// One request and its reply.
    pub(crate) fn ask(&mut self, request: Request) -> Reply {
        let encoded = self.encode(request);
        self.run(vec![encoded]);
        let mut replies = self.replies();
        assert_eq!(replies.len(), 1, "a request without locks is answered at once");
        replies.pop().expect("just counted")
    }

    /// Lets time pass until change-logs are pushed and trimmed, and extends the session's lease.
    pub(crate) fn settle(&mut self) {
        for _ in 0..20 {
            self.mono_us += 10_000;
            self.tick();
        }
        assert_eq!(self.ask(Request::Renew), Reply::Done);
    }

    /// A counter, summed over the shards.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.shards.iter().flat_map(Shard::status).filter(|(n, _)| *n == name).map(|(_, value)| value).sum()
    }

    fn deliver(&mut self) {
        let now = self.now();
        while let Some((to, packet)) = self.messages.pop_front() {
            self.shards[to.0 as usize].handle(now, Input::Packet(packet));
            self.collect(to.0 as usize);
        }
        if self.unflushed >= FLUSH_EVERY {
            self.unflushed = 0;
            for index in 0..self.shards.len() {
                self.shards[index].handle(now, Input::Durable(self.last_record[index]));
                self.collect(index);
            }
        }
    }

    fn tick(&mut self) {
        let now = self.now();
        for index in 0..self.shards.len() {
            if self.shards[index].next_deadline().is_some_and(|at_us| at_us <= now.mono_us) {
                self.shards[index].handle(now, Input::Tick);
                self.collect(index);
            }
        }
        self.deliver();
    }

    fn collect_all(&mut self) {
        (0..self.shards.len()).for_each(|index| self.collect(index));
        self.deliver();
    }

    fn collect(&mut self, index: usize) {
        let mut flush = false;
        while let Some(output) = self.shards[index].poll_output() {
            match output {
                Output::Append { seq, bytes } => {
                    self.record_bytes += bytes.len() as u64;
                    self.records += 1;
                    self.unflushed += 1;
                    self.last_record[index] = seq;
                    if let Some(journal) = &mut self.journal {
                        journal.push(Kept { shard: index as u16, seq, bytes });
                    }
                }
                Output::Send { to, packet, .. } => match to.as_shard() {
                    Some(shard) => self.messages.push_back((shard, packet)),
                    None => self.replies.push(packet),
                },
                Output::Flush => flush = true,
                Output::Own(()) => {}
            }
        }
        if flush {
            let now = self.now();
            self.shards[index].handle(now, Input::Durable(self.last_record[index]));
            self.collect(index);
        }
    }
}
