//! What the machine around the roles takes: the runtime, the journal, datagrams, a flush.

use anyhow::{Context, ensure};
use onpath_host::journal::{Commit, Journal, Options, Replay};
use onpath_host::node::{HostHooks, HostedRole, Link, NoEffects, NodeBuilder};
use onpath_kernel::{Input, Need, Now, Output, Role};
use onpath_store::StoreError;
use onpath_wire::disk::superblock::JournalId;
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::ids::{Lsn, NodeId, RecordSeq, RequestSeq, SessionId, ShardId};
use onpath_wire::packet::Packet;
use onpath_wire::shown::Shown;
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Messages of one measurement.
const MESSAGES: u64 = 20_000;
/// Measurements, of which the median counts.
const ROUNDS: usize = 9;
/// Bytes of a record, as that of a create.
const RECORD_BYTES: usize = 190;
/// Bytes of a message, as a create's request and its reply on average.
const MESSAGE_BYTES: usize = 200;
/// Blocks of a file that are written and read.
const BLOCKS: usize = 1_024;
/// Bytes between two flushes.
const FLUSH_BYTES: usize = 64 << 10;

/// What the machine around the roles takes, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    pub(super) dispatch_ns: f64,
    pub(super) journal_ns: f64,
    pub(super) datagram_ns: f64,
    pub(super) disk_ns: f64,
    pub(super) flush_ns: f64,
}

/// Measures it; files are made in `dir`.
pub(super) fn measure(dir: &Path) -> anyhow::Result<Around> {
    let quiet = node_ns(&dir.join("quiet"), false)?;
    let with_records = node_ns(&dir.join("records"), true)?;
    Ok(Around {
        dispatch_ns: quiet,
        journal_ns: (with_records - quiet).max(0.0),
        datagram_ns: datagram_ns()?,
        disk_ns: disk_ns(dir)?,
        flush_ns: flush_ns(dir)?,
    })
}

/// CPU time of this thread, ns.
pub(super) fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Answers every message, after a record if it makes some.
struct Echo {
    records: bool,
    last: u64,
    outputs: VecDeque<Output<()>>,
}

impl Role for Echo {
    type In = ();
    type Out = ();

    fn handle(&mut self, _now: Now, input: Input<()>) {
        let Input::Packet(packet) = input else { return };
        if self.records {
            self.last += 1;
            self.outputs.push_back(Output::Append { seq: RecordSeq(self.last), bytes: vec![0; RECORD_BYTES] });
        }
        let (to, after) = (NodeId::session(SessionId(1)), RecordSeq(self.last));
        self.outputs.push_back(Output::Send { to, packet, after, need: Need::ByDestination });
    }

    fn poll_output(&mut self) -> Option<Output<()>> {
        self.outputs.pop_front()
    }

    fn next_deadline(&self) -> Option<u64> {
        None
    }
}

impl HostedRole for Echo {}

struct Nowhere;

impl Link for Nowhere {
    fn send(&self, _to: NodeId, _packet: Packet) {}
}

impl HostHooks for Nowhere {
    fn flush_data(&self) -> std::io::Result<()> {
        Ok(())
    }
    fn space(&self, _full: bool) {}
    fn failed(&self, why: &str) {
        tracing::error!(why, "the journal has failed");
    }
}

impl Replay for Nowhere {
    fn record(&mut self, _role: NodeId, _seq: RecordSeq, _record: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }
}

/// CPU time of the runtime for a message to a role that does nothing but answer.
fn node_ns(dir: &Path, records: bool) -> anyhow::Result<f64> {
    std::fs::create_dir(dir).with_context(|| format!("cannot make {}", dir.shown()))?;
    let commit = Commit::Interval(100);
    let journal = JournalId { fsid: 1, number: 1, created: 1 };
    let (journal, _) = Journal::recover(dir, Options::for_dir(dir, journal, commit)?, Lsn(0), &mut Nowhere)?;
    let mut builder = NodeBuilder::new();
    let shard = NodeId::shard(ShardId(0));
    builder.add(shard, Echo { records, last: 0, outputs: VecDeque::new() }, NoEffects);
    let node = builder.start(commit, Some(journal), Arc::new(Nowhere));
    node.attach_default(Arc::new(Nowhere));
    let header = Header::new(MessageKind::Request, NodeId::session(SessionId(1)), RequestSeq(1));
    let mut rounds = vec![];
    for _ in 0..ROUNDS {
        let packets: Vec<Packet> = (0..MESSAGES).map(|_| Packet::new(&header, &0u8)).collect();
        let begin = cpu_ns();
        packets.into_iter().for_each(|packet| node.deliver(shard, packet));
        rounds.push((cpu_ns() - begin) as f64 / MESSAGES as f64);
    }
    node.close()?;
    Ok(median(rounds))
}

/// CPU time to send a datagram and to receive it, each: half of both through the loopback device.
fn datagram_ns() -> anyhow::Result<f64> {
    let socket = || UdpSocket::bind("127.0.0.1:0").context("cannot open a UDP socket on the loopback address");
    let (from, to) = (socket()?, socket()?);
    let address = to.local_addr()?;
    let message = [0u8; MESSAGE_BYTES];
    let mut buffer = [0u8; 2 * MESSAGE_BYTES];
    let mut rounds = vec![];
    for _ in 0..ROUNDS {
        let begin = cpu_ns();
        for _ in 0..MESSAGES / 10 {
            from.send_to(&message, address)?;
            let (bytes, _) = to.recv_from(&mut buffer)?;
            ensure!(bytes == MESSAGE_BYTES, "a datagram of {MESSAGE_BYTES} bytes arrived as {bytes}");
        }
        rounds.push((cpu_ns() - begin) as f64 / (MESSAGES / 10) as f64 / 2.0);
    }
    Ok(median(rounds))
}

/// Elapsed time until some records are on stable storage.
/// CPU of writing a block of a file that is in memory, or of reading it.
fn disk_ns(dir: &Path) -> anyhow::Result<f64> {
    const BLOCK: usize = 4_096;
    let path = dir.join("blocks");
    let mut how = std::fs::File::options();
    let file = how.read(true).write(true).create_new(true).open(&path);
    let file = file.with_context(|| format!("cannot make {}", path.shown()))?;
    let (mut block, mut rounds) = (vec![1; BLOCK], vec![]);
    for _ in 0..ROUNDS {
        let begin = cpu_ns();
        for at in 0..BLOCKS {
            file.write_all_at(&block, (at * BLOCK) as u64)?;
        }
        for at in 0..BLOCKS {
            file.read_exact_at(&mut block, (at * BLOCK) as u64)?;
        }
        rounds.push((cpu_ns() - begin) as f64 / (2 * BLOCKS) as f64);
    }
    Ok(median(rounds))
}

fn flush_ns(dir: &Path) -> anyhow::Result<f64> {
    let path = dir.join("flush");
    let mut file = std::fs::File::create(&path).with_context(|| format!("cannot make {}", path.shown()))?;
    let mut rounds = vec![];
    for _ in 0..2 * ROUNDS {
        file.write_all(&vec![1; FLUSH_BYTES])?;
        let begin = Instant::now();
        file.sync_data()?;
        rounds.push(begin.elapsed().as_nanos() as f64);
    }
    Ok(median(rounds))
}
