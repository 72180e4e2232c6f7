//! Reads and writes of open files, of which sessions ask for each.

use super::clients::Answered;
use super::config::Load;
use super::model::{Model, Nothing, Until};
use super::names::beyond;
use super::result::Measured;
use super::sessions::{Of, STEP_NS};
use super::tree::Who;
use super::walkers::make;
use super::work::Kind;
use bytes::Bytes;
use onpath_session::fs::{FsOp, FsReply, FsResult, Handle, OpenMode};
use onpath_wire::data::DataReply;
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{InodeId, NodeClass};
use onpath_wire::inode::Kind as FileKind;
use onpath_wire::limits::BLOCK_BYTES;
use onpath_wire::name::Name;
use onpath_wire::packet::Packet;
use rand::distr::Distribution;
use rand::distr::weighted::WeightedIndex;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// What is written.
static CONTENT: [u8; BLOCK_BYTES as usize] = [7; BLOCK_BYTES as usize];

/// Which files there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilesShape {
    /// All sessions use the same; else each has its own, in a directory of its own.
    pub shared: bool,
    /// How many, of each session unless they are shared.
    pub files: u32,
    /// Blocks of each.
    pub blocks: u32,
}

/// What sessions ask for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accesses {
    /// Bytes of each read or write, at a multiple of that: at most a block, and a part of one.
    pub bytes: u32,
    /// The share of reads.
    pub reads: f64,
    /// Which file: by Zipf's law with this exponent,
    pub skew: f64,
    /// as among so many, of which those that are not there fall evenly on those that are.
    pub keys: u64,
    /// What is drawn at random comes from it.
    pub seed: u64,
}

impl Accesses {
    /// How often each of so many files is used, beside the others.
    fn weights(&self, files: usize) -> impl Iterator<Item = f64> {
        let (skew, there, all) = (self.skew, files as f64, self.keys as f64);
        let each = beyond(skew, there, all) / there;
        (1..=files).map(move |rank| (rank as f64).powf(-skew) + each)
    }
}

/// A read or write under way.
struct Access {
    session: u32,
    kind: Kind,
    asked_ns: u64,
}

/// Who reads and writes, and what.
pub(super) struct Users {
    blocks: u32,
    /// Of each session.
    handles: Vec<Vec<Handle>>,
    under_way: BTreeMap<u64, Access>,
    plan: Accesses,
    picks: Option<WeightedIndex<f64>>,
    rng: ChaCha8Rng,
    /// Whoever has an answer asks on.
    goes_on: bool,
    number: u64,
    /// Writes that data nodes have answered.
    pub(super) written: u64,
}

impl Users {
    /// Nobody uses a file.
    pub(super) fn none() -> Users {
        Users {
            blocks: 0,
            handles: vec![],
            under_way: BTreeMap::new(),
            plan: Accesses { bytes: BLOCK_BYTES as u32, reads: 0.0, skew: 0.0, keys: 0, seed: 0 },
            picks: None,
            rng: ChaCha8Rng::seed_from_u64(0),
            goes_on: false,
            number: 0,
            written: 0,
        }
    }

    /// A packet reaches a session: whether it is a write's answer by its data node is counted.
    pub(super) fn hears(&mut self, packet: &Packet) {
        let is_answer = packet.header().is_ok_and(|header| {
            header.kind() == MessageKind::DataReply && header.source.class() == Some(NodeClass::Data)
        });
        self.written += u64::from(is_answer && matches!(packet.body(), Ok(DataReply::Written { .. })));
    }
}

fn entry(result: FsResult) -> InodeId {
    let Ok(FsReply::Entry(attr)) = result else { panic!("a name could not be made: {result:?}") };
    attr.id
}

impl Model {
    /// Sessions join, as many as the load of the configuration has clients, files are made, and everybody opens those that are his.
    pub fn make_files(&mut self, shape: &FilesShape) {
        self.join_sessions();
        let all = self.sessions.number();
        let caller = Who::Root.asks(false);
        let (owners, name) = (if shape.shared { 1 } else { all }, |text: String| Name::new(text.as_bytes()));
        let dirs = (0..owners).map(|owner| {
            let name = name(format!("dir-{owner}")).expect("a short name");
            (owner, caller, make(FileKind::Directory, InodeId::ROOT, name, 0o755))
        });
        let dirs: Vec<InodeId> = self.call_all(dirs.collect()).into_iter().map(entry).collect();
        let files = (0..).zip(&dirs).flat_map(|(owner, &dir)| {
            (0..shape.files).map(move |file| {
                let name = name(format!("file-{file}")).expect("a short name");
                (owner, caller, make(FileKind::File, dir, name, 0o644))
            })
        });
        let files: Vec<InodeId> = self.call_all(files.collect()).into_iter().map(entry).collect();
        // Without pages in memory, as what the paper compares.
        let mode = OpenMode { direct: true, noatime: true, ..OpenMode::READ_WRITE };
        for session in 0..all {
            let own = if shape.shared { 0 } else { session * shape.files } as usize;
            let opens = files[own..own + shape.files as usize].iter();
            let opened = self.call_all(opens.map(|&id| (session, caller, FsOp::Open { id, mode })).collect());
            let handle = |result: FsResult| match result {
                Ok(FsReply::Opened(opened)) => opened.handle,
                other => panic!("a file could not be opened: {other:?}"),
            };
            self.users.handles.push(opened.into_iter().map(handle).collect());
        }
        self.users.blocks = shape.blocks;
        // All are as long as they get.
        let offset = u64::from(shape.blocks - 1) * BLOCK_BYTES;
        let owned = self.users.handles.iter().take(owners as usize).enumerate();
        let ends = owned.flat_map(|(owner, handles)| handles.iter().map(move |&handle| (owner as u32, handle)));
        let written: Vec<_> =
            ends.map(|(owner, handle)| (owner, caller, write(handle, offset, BLOCK_BYTES as usize))).collect();
        let written = self.call_all(written);
        assert!(written.iter().all(Result::is_ok), "a file could not be written");
    }

    /// Sessions ask, each for so many things at a time as the load says, until `until`; what is under way then is answered before it returns.
    pub fn run_accesses(&mut self, accesses: &Accesses, until: Until) -> Measured {
        let Load::Closed { window, .. } = self.config.load else { panic!("who reads or writes waits for the answer") };
        let files = self.users.handles.first().map_or(0, Vec::len);
        let weights = WeightedIndex::new(accesses.weights(files));
        self.users.picks = Some(weights.expect("there are files"));
        self.users.plan = *accesses;
        self.users.rng = ChaCha8Rng::seed_from_u64(accesses.seed);
        self.users.goes_on = true;
        self.answered.clear();
        for _ in 0..window {
            (0..self.sessions.number()).for_each(|session| self.access_next(session));
        }
        self.begin_tasks(&mut Nothing);
        if until.warm_ns > 0 {
            self.go_on(&mut Nothing, self.now_ns + until.warm_ns, u64::MAX);
        }
        let measured = self.measure(&mut Nothing, until);
        self.users.goes_on = false;
        while !self.users.under_way.is_empty() {
            self.go_on(&mut Nothing, self.now_ns + STEP_NS, u64::MAX);
        }
        measured
    }

    /// A session asks for what the plan says.
    fn access_next(&mut self, session: u32) {
        let Users { blocks, handles, plan, picks, rng, number, .. } = &mut self.users;
        let picks = picks.as_ref().expect("files are picked");
        let handle = handles[session as usize][picks.sample(rng)];
        let bytes = plan.bytes;
        let places = u64::from(*blocks) * BLOCK_BYTES / u64::from(bytes);
        let offset = rng.random_range(0..places) * u64::from(bytes);
        let kind = if rng.random_range(0.0..1.0) < plan.reads { Kind::Read } else { Kind::Write };
        *number += 1;
        let id = *number;
        let op = match kind {
            Kind::Read => FsOp::Read { handle, offset, bytes, page: false },
            _ => write(handle, offset, bytes as usize),
        };
        self.users.under_way.insert(id, Access { session, kind, asked_ns: self.now_ns });
        self.call(session, Who::Root.asks(false), op, None, Of::Access(id));
    }

    /// An answer to a read or write.
    pub(super) fn access_answered(&mut self, id: u64, result: FsResult) {
        let Access { session, kind, asked_ns } = self.users.under_way.remove(&id).expect("it is under way");
        assert!(result.is_ok(), "{} was answered {result:?}", kind.name());
        if self.measuring {
            self.answered.push(Answered { kind, latency_ns: self.now_ns - asked_ns });
        }
        if self.users.goes_on {
            self.access_next(session);
        }
    }
}

fn write(handle: Handle, offset: u64, bytes: usize) -> FsOp {
    let data = Bytes::from_static(&CONTENT[..bytes]);
    FsOp::Write { handle, offset, data, append: false, kill_suidgid: false, page: false }
}
