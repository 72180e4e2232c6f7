//! A data node with a disk and a journal in memory, a home and sessions that are played by the test.

use bytes::Bytes;
use onpath_data::{DataConfig, DataIn, DataNode, DataOut, DiskOp, DiskResult, Fault, Started, Ticket};
use onpath_kernel::{Input, Need, Now, Output, Role};
use onpath_store::{Cold, FORGET_PARTS, Image, Pair, Recoverable};
use onpath_wire::data::{Allocation, DataReply, DataRequest, Merge, MergePart};
use onpath_wire::disk::block::DATA_FILE_HEADER_BYTES;
use onpath_wire::header::{Header, MessageKind, Of, OfRequest};
use onpath_wire::ids::{
    Birth, DataId, Generation, InodeId, NodeId, RecordSeq, RequestSeq, SessionId, ShardId, Stamp, Term,
};
use onpath_wire::innet::InNet;
use onpath_wire::peer::Peer;
use onpath_wire::secrets::Secrets;
use onpath_wire::tracking::Tracking;
use onpath_wire::{ClusterMap, Errno, Packet};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Blocks of one data file: small, so that tests cross its end.
pub(crate) const FILE_BLOCKS: u32 = 512;
pub(crate) const BLOCK: usize = 4096;
pub(crate) const CHUNK: u64 = 4 << 20;

/// The term of the home.
const HOME_TERM: Term = Term(9);

/// Blocks of the data files, by (file, block).
pub(crate) type Blocks = BTreeMap<(u32, u64), Vec<u8>>;

/// A disk that knows what would be left after a power loss.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    pub(crate) now: Blocks,
    /// As of the last flush.
    pub(crate) durable: Blocks,
    pub(crate) full: bool,
    /// Its space is limited by a quota.
    pub(crate) quota: bool,
    /// Blocks that it can hold.
    pub(crate) room: Option<usize>,
    pub(crate) broken: bool,
    pub(crate) writes: u64,
    pub(crate) reads: u64,
    pub(crate) punched: u64,
    /// Data files that were ever made.
    made: u32,
}

impl Disk {
    pub(crate) fn execute(&mut self, op: DiskOp) -> DiskResult {
        let result = self.execute_on(op);
        self.made = self.files();
        result
    }

    fn execute_on(&mut self, op: DiskOp) -> DiskResult {
        match op {
            DiskOp::Write { reserved: false, .. } | DiskOp::Reserve { .. } if self.full => {
                DiskResult::Failed(if self.quota { Errno::EDQUOT } else { Errno::ENOSPC })
            }
            DiskOp::Write { .. } | DiskOp::Read { .. } if self.broken => DiskResult::Failed(Errno::EIO),
            DiskOp::Reserve { file, offset, len } => {
                let blocks = block_of(offset)..block_of(offset) + len / BLOCK as u64;
                let new = blocks.clone().filter(|n| !self.now.contains_key(&(file, *n)));
                if self.room.is_some_and(|room| self.now.len() + new.count() > room) {
                    return DiskResult::Failed(Errno::ENOSPC);
                }
                for block in blocks {
                    assert!(block < u64::from(FILE_BLOCKS), "a reservation beyond the end of a data file");
                    self.now.entry((file, block)).or_insert_with(|| vec![0xee; BLOCK]);
                }
                DiskResult::Done
            }
            DiskOp::Write { file, offset, bytes, .. } => {
                self.writes += 1;
                let bytes = bytes.concat();
                let first = block_of(offset);
                let new = (first..first + (bytes.len() / BLOCK) as u64).filter(|n| !self.now.contains_key(&(file, *n)));
                if self.room.is_some_and(|room| self.now.len() + new.count() > room) {
                    return DiskResult::Failed(Errno::ENOSPC);
                }
                for (i, block) in (0u64..).zip(bytes.chunks_exact(BLOCK)) {
                    assert!(first + i < u64::from(FILE_BLOCKS), "a write beyond the end of a data file");
                    self.now.insert((file, first + i), block.to_vec());
                }
                assert!(bytes.len().is_multiple_of(BLOCK));
                DiskResult::Done
            }
            DiskOp::Read { file, offset, len } => {
                self.reads += 1;
                let n = u64::from(len) / BLOCK as u64;
                let blocks = (0..n).map(|i| self.block(file, block_of(offset) + i));
                DiskResult::Bytes(blocks.collect::<Vec<_>>().concat().into())
            }
            DiskOp::Punch { file, offset, len } => {
                let first = block_of(offset);
                for block in first..first + len / BLOCK as u64 {
                    self.punched += u64::from(self.now.remove(&(file, block)).is_some());
                }
                DiskResult::Done
            }
            DiskOp::Space => DiskResult::Space { total: 1 << 30, free: 1 << 20 },
        }
    }

    fn block(&self, file: u32, block: u64) -> Vec<u8> {
        self.now.get(&(file, block)).cloned().unwrap_or_else(|| vec![0; BLOCK])
    }

    pub(crate) fn files(&self) -> u32 {
        self.now.keys().map(|(file, _)| file + 1).max().unwrap_or(0).max(self.made)
    }
}

fn block_of(offset: u64) -> u64 {
    assert!(offset >= DATA_FILE_HEADER_BYTES && offset.is_multiple_of(BLOCK as u64));
    (offset - DATA_FILE_HEADER_BYTES) / BLOCK as u64
}

/// A message that the node sent to a session, or an answer to a home's call.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) seq: RequestSeq,
    /// What a switch is told with it.
    pub(crate) innet: Option<InNet>,
    pub(crate) reply: DataReply,
    pub(crate) bulk: Bytes,
    pub(crate) after: RecordSeq,
    pub(crate) need: Need,
}

pub(crate) struct World {
    pub(crate) node: DataNode,
    pub(crate) now: Now,
    pub(crate) disk: Disk,
    pub(crate) journal: Vec<(RecordSeq, Vec<u8>)>,
    /// Records at the front of the journal that are on stable storage.
    pub(crate) durable: usize,
    /// Disk operations that wait for [`World::disk_step`]; executed at once unless `hold_disk`.
    pub(crate) disk_queue: VecDeque<(Ticket, DiskOp)>,
    pub(crate) hold_disk: bool,
    pub(crate) sent: VecDeque<Sent>,
    /// Merges that the home has not answered; answered at once unless `hold_home`.
    pub(crate) merges: VecDeque<(RequestSeq, Merge, RecordSeq)>,
    pub(crate) heard: Vec<Merge>,
    pub(crate) hold_home: bool,
    /// The part that homes have given last.
    pub(crate) part: MergePart,
    /// Generations that the home has forgotten.
    pub(crate) forgotten: Vec<DataId>,
    pub(crate) next_seq: u64,
    pub(crate) term: u32,
    /// What requests say of their session's lease.
    pub(crate) until: u32,
    /// Of the last message of the node.
    pub(crate) last_stamp: Stamp,
    pub(crate) kept: Kept,
}

/// The last checkpoint.
#[derive(Default)]
pub(crate) struct Kept {
    objects: Arc<Shelf>,
    ranges: Vec<(RecordSeq, Vec<Pair>)>,
}

impl Kept {
    /// The keys of its objects.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        self.objects.0.keys().cloned().collect()
    }
}

/// A store in memory.
#[derive(Default)]
pub(crate) struct Shelf(BTreeMap<Vec<u8>, Vec<u8>>);

impl Cold for Shelf {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key).cloned()
    }

    fn scan(&self, prefix: &[u8], from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        let range = self.0.range(prefix.max(from).to_vec()..).take_while(|(key, _)| key.starts_with(prefix));
        range.map(|(key, value)| each(key, value)).take_while(|go_on| *go_on).for_each(drop);
    }
}

pub(crate) fn data(inode: u64, generation: u64) -> DataId {
    // Spread over the ranges of the index.
    DataId { inode: InodeId((inode % 61) << 47 | inode), generation: Generation(generation) }
}

fn config(term: u32, files: u32) -> DataConfig {
    let (map, term) = (ClusterMap::even(2, Secrets::of_seed(1).placement), Term(term));
    DataConfig {
        node: 0,
        term,
        map,
        cluster: 1,
        file_blocks: FILE_BLOCKS,
        files,
        tickets: onpath_wire::secrets::Secrets::of_seed(1).inner.tickets(),
        outlived: false,
        deferred: true,
    }
}

impl Default for World {
    fn default() -> Self {
        let mut world = World {
            node: DataNode::new(config(1, 0)),
            now: Now { mono_us: 1, wall_ns: 1 },
            disk: Disk::default(),
            journal: vec![],
            durable: 0,
            disk_queue: VecDeque::new(),
            hold_disk: false,
            sent: VecDeque::new(),
            merges: VecDeque::new(),
            heard: vec![],
            hold_home: false,
            part: MergePart::default(),
            forgotten: vec![],
            until: u32::MAX,
            next_seq: 1,
            term: 1,
            last_stamp: Stamp(0),
            kept: Kept::default(),
        };
        world.start();
        world
    }
}

impl World {
    fn start(&mut self) -> Started {
        let World { node, disk, .. } = self;
        let started = node.start(self.now, Birth(1), &mut |file, offset, block: &mut [u8]| {
            block.copy_from_slice(&disk.block(file, block_of(offset)));
            Ok(())
        });
        self.pump();
        self.track(Tracking::default());
        started
    }

    /// The coordinator tells this process of a tracking epoch; the answer, if that comes at once.
    pub(crate) fn track(&mut self, tracking: Tracking) -> Option<DataReply> {
        let seq = RequestSeq(1 << 51 | self.next_seq);
        self.ask(seq, &DataRequest::Track { tracking, term: Term(self.term) }).map(|sent| sent.reply)
    }

    /// Handles an input and what follows from it.
    pub(crate) fn input(&mut self, input: Input<DataIn>) {
        self.node.handle(self.now, input);
        self.pump();
    }

    fn pump(&mut self) {
        while let Some(output) = self.node.poll_output() {
            match output {
                Output::Append { seq, bytes } => {
                    assert!(self.journal.last().is_none_or(|(last, _)| *last < seq));
                    self.journal.push((seq, bytes));
                }
                Output::Send { to, packet, after, need } => self.on_send(to, packet, after, need),
                Output::Flush => {}
                Output::Own(DataOut::Disk { ticket, op }) => {
                    self.disk_queue.push_back((ticket, op));
                    if !self.hold_disk {
                        self.disk_step();
                    }
                }
            }
        }
    }

    fn on_send(&mut self, to: NodeId, packet: Packet, after: RecordSeq, need: Need) {
        let header = packet.header().unwrap();
        assert_eq!((header.source, header.cluster), (NodeId::data(0), 1));
        self.last_stamp = header.stamp;
        if header.kind() == MessageKind::Data {
            assert!(to.as_shard().is_some() && header.term == Term(self.term));
            let merge: Merge = packet.body().unwrap();
            if !matches!(merge, Merge::TrackAsk { .. }) {
                self.heard.push(merge.clone());
            }
            self.merges.push_back((header.seq, merge, after));
            if !self.hold_home {
                self.answer_merges();
            }
            return;
        }
        let session = to.as_session().is_some();
        assert_eq!(header.kind(), if session { MessageKind::DataReply } else { MessageKind::PeerAnswer });
        let reply = packet.body().unwrap();
        let innet = packet.innet.as_deref().copied();
        self.sent.push_back(Sent { seq: header.seq, innet, reply, bulk: packet.bulk, after, need });
    }

    /// Executes the disk operation that waits longest.
    pub(crate) fn disk_step(&mut self) {
        let (ticket, op) = self.disk_queue.pop_front().expect("a disk operation waits");
        let result = self.disk.execute(op);
        self.input(Input::Own(DataIn::DiskDone { ticket, result }));
    }

    /// The home answers all merges that it has heard.
    pub(crate) fn answer_merges(&mut self) {
        while let Some((seq, merge, _)) = self.merges.pop_front() {
            let header = Header::new(MessageKind::PeerAnswer, NodeId::shard(ShardId(0)), seq);
            let void = match &merge {
                Merge::Answered { all } => all.iter().any(|of| self.forgotten.contains(&of.data)),
                merge => merge.data().is_some_and(|data| self.forgotten.contains(&data)),
            };
            let answer = match merge {
                Merge::PartAsk => Peer::PartIs { part: self.part },
                _ if void => Peer::Void,
                _ => Peer::Done,
            };
            self.input(Input::Packet(Packet::new(&header, &answer)));
        }
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, us: u64) {
        let until = self.now.mono_us + us;
        while let Some(at) = self.node.next_deadline().filter(|at| *at <= until) {
            self.now.mono_us = self.now.mono_us.max(at);
            self.input(Input::Tick);
        }
        self.now.mono_us = until;
    }

    /// Flushes data files, then the journal.
    pub(crate) fn flush(&mut self) {
        self.disk.durable = self.disk.now.clone();
        self.durable = self.journal.len();
        if let Some(&(seq, _)) = self.journal.last() {
            self.input(Input::Durable(seq));
        }
    }

    /// A request of session 1; returns its sequence number.
    pub(crate) fn request(&mut self, body: &DataRequest, bulk: &[u8]) -> RequestSeq {
        let seq = RequestSeq(self.next_seq);
        self.next_seq += 1;
        self.request_as(1, seq, seq, body, bulk);
        seq
    }

    pub(crate) fn request_as(
        &mut self,
        session: u32,
        seq: RequestSeq,
        oldest: RequestSeq,
        body: &DataRequest,
        bulk: &[u8],
    ) {
        let mut header = Header::new(MessageKind::Data, NodeId::session(SessionId(session)), seq);
        let oldest_behind = (seq.0 - oldest.0) as u32;
        header.of = Of::Data(OfRequest { until: self.until, oldest_behind, ..OfRequest::default() });
        header.term = Term(self.term);
        self.input(Input::Packet(Packet::with_bulk(&header, body, Bytes::copy_from_slice(bulk))));
    }

    /// A call of a home.
    pub(crate) fn call(&mut self, body: &DataRequest) -> Sent {
        let seq = RequestSeq(1 << 50 | self.next_seq);
        self.next_seq += 1;
        self.ask(seq, body).expect("an answer")
    }

    /// The same; the answer, if that comes at once.
    pub(crate) fn ask(&mut self, seq: RequestSeq, body: &DataRequest) -> Option<Sent> {
        let mut header = Header::new(MessageKind::Data, NodeId::shard(ShardId(0)), seq);
        header.term = HOME_TERM;
        self.input(Input::Packet(Packet::new(&header, body)));
        self.reply(seq)
    }

    /// What was sent for this request, taken out.
    pub(crate) fn reply(&mut self, seq: RequestSeq) -> Option<Sent> {
        let place = self.sent.iter().position(|sent| sent.seq == seq)?;
        self.sent.remove(place)
    }

    pub(crate) fn write(&mut self, data: DataId, cut: u32, offset: u64, bytes: &[u8]) -> RequestSeq {
        self.request(&DataRequest::Write { data, cut, offset, kill_suidgid: false, append: false, part: None }, bytes)
    }

    /// Reads, and fills what the reply leaves out with zeros.
    pub(crate) fn read(&mut self, data: DataId, cut: u32, offset: u64, bytes: u32) -> Result<Vec<u8>, DataReply> {
        let seq = self.request(&DataRequest::Read { data, cut, offset, bytes }, &[]);
        let sent = self.reply(seq).expect("an answer");
        match sent.reply {
            DataReply::Bytes => {
                let mut read = sent.bulk.to_vec();
                assert!(read.len() <= bytes as usize);
                read.resize(bytes as usize, 0);
                Ok(read)
            }
            other => Err(other),
        }
    }

    pub(crate) fn allocate(&mut self, data: DataId, cut: u32, offset: u64, bytes: u64, how: Allocation) -> RequestSeq {
        let body = DataRequest::Allocate { data, cut, offset, bytes, how, end: 0, kill_suidgid: false };
        self.request(&body, &[])
    }

    /// Where data or a hole begins.
    pub(crate) fn seek(&mut self, data: DataId, cut: u32, offset: u64, hole: bool) -> Option<u64> {
        let seq = self.request(&DataRequest::Seek { data, cut, offset, hole }, &[]);
        match self.reply(seq).expect("an answer").reply {
            DataReply::Position { offset } => offset,
            other => panic!("{other:?} instead of a position"),
        }
    }

    pub(crate) fn trim(&mut self, data: DataId, cut: u32, size: u64) -> DataReply {
        self.call(&DataRequest::Trim { data, cut, size, keep_reserved: false }).reply
    }

    pub(crate) fn drop_data(&mut self, data: DataId) -> DataReply {
        self.call(&DataRequest::Drop { all: vec![data] }).reply
    }

    /// The process ends and another one begins with these blocks and the first `records` of the journal; those from
    /// `known_durable` on are the tail.
    pub(crate) fn restart(&mut self, blocks: Blocks, records: usize, known_durable: usize) -> Started {
        self.term += 1;
        self.journal.truncate(records);
        self.disk.now = blocks;
        self.node = DataNode::new(config(self.term, self.disk.files()));
        self.node.attach(self.kept.objects.clone()).expect("own pages load");
        for (range, (upto, rest)) in (0..).zip(&self.kept.ranges) {
            self.node.loaded(range, *upto);
            rest.iter().for_each(|(key, value)| self.node.load(range, key, value).expect("own images load"));
        }
        // What was durable is known from the beginning, or turns out on the way.
        let from_begin = self.term.is_multiple_of(2);
        for (i, (seq, record)) in self.journal.iter().enumerate() {
            if i == known_durable || from_begin {
                self.node.begin_tail();
            }
            self.node.replay(*seq, record).expect("own records apply");
            if i % 3 == 0 && i < known_durable {
                self.node.tail_was_durable(*seq);
            }
        }
        if known_durable > 0 {
            self.node.tail_was_durable(self.journal[known_durable - 1].0);
        }
        self.disk_queue.clear();
        self.merges.clear();
        self.sent.clear();
        self.disk.durable = self.disk.now.clone();
        self.durable = self.journal.len();
        let started = self.start();
        self.flush();
        started
    }

    /// kill -9: everything written is still there.
    pub(crate) fn kill(&mut self) -> Started {
        let (blocks, records) = (self.disk.now.clone(), self.journal.len());
        self.restart(blocks, records, self.durable)
    }

    /// Power loss: what was not flushed is gone.
    pub(crate) fn power_loss(&mut self) -> Started {
        let blocks = self.disk.durable.clone();
        self.restart(blocks, self.durable, self.durable)
    }

    pub(crate) fn faults(&mut self) -> Vec<Fault> {
        let World { node, disk, .. } = self;
        let mut faults = vec![];
        let mut reader = |file, offset, block: &mut [u8]| {
            block.copy_from_slice(&disk.block(file, block_of(offset)));
            Ok(())
        };
        let mut inodes: Vec<InodeId> = node.files().iter().map(|file| file.data.inode).collect();
        inodes.dedup();
        node.check(disk.files(), &mut inodes.into_iter(), Some(&mut reader), &mut |fault| faults.push(fault));
        let of_bytes = |fault: &Fault| matches!(fault, Fault::BadCrc { .. } | Fault::Unreadable { .. });
        assert_eq!(node.survey(disk.files(), &mut |_| ()), faults.iter().all(of_bytes), "{faults:?}");
        faults
    }

    /// Images that nobody keeps.
    pub(crate) fn images(&mut self) -> Vec<Image> {
        let images = (0..self.node.ranges()).map(|range| self.node.image(range)).collect();
        (0..self.node.ranges()).for_each(|range| self.node.settle(range, false));
        images
    }

    /// A checkpoint of what is durable, begun, and with `kept` completed.
    pub(crate) fn checkpoint(&mut self, kept: bool) {
        self.checkpoint_and(kept, |_| ());
    }

    /// The same, with something done after the images are taken and before anybody has heard that they are kept.
    pub(crate) fn checkpoint_and(&mut self, kept: bool, meanwhile: impl FnOnce(&mut World)) {
        self.flush();
        assert_eq!(self.durable, self.journal.len(), "a checkpoint holds only durable records");
        let images: Vec<Image> = (0..self.node.ranges()).map(|range| self.node.image(range)).collect();
        meanwhile(self);
        if kept {
            // What is in the hands of somebody stays as it was.
            let mut objects = self.kept.objects.0.clone();
            for Image { changes, .. } in &images {
                changes.removed.iter().for_each(|key| _ = objects.remove(key));
                objects.extend(changes.put.iter().cloned());
            }
            let ranges = images.into_iter().map(|image| (image.upto, image.rest)).collect();
            self.kept = Kept { objects: Arc::new(Shelf(objects)), ranges };
            self.node.attach(self.kept.objects.clone()).expect("nothing is read at once");
        }
        (0..self.node.ranges()).for_each(|range| self.node.settle(range, kept));
    }

    /// The node forgets what it can.
    pub(crate) fn forget(&mut self) {
        (0..FORGET_PARTS).for_each(|part| self.node.forget(part));
    }
}
