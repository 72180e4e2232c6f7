//! What one hop between two roles of a process costs, with and without a record.
//! `cargo run --release -p onpath-host --example hops`

use onpath_host::journal::{Commit, Journal, Options};
use onpath_host::node::{HostHooks, HostedRole, NoEffects, NodeBuilder};
use onpath_kernel::{Input, Need, Now, Output, Role};
use onpath_wire::disk::superblock::JournalId;
use onpath_wire::ids::{Lsn, NodeId, RecordSeq, RequestSeq, ShardId};
use onpath_wire::{Header, MessageKind, Packet};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

/// Passes the same packet on until the count is over.
struct Echo {
    to: NodeId,
    left: u64,
    done: Sender<()>,
    record_bytes: usize,
    records: u64,
    outputs: VecDeque<Output<()>>,
}

impl Role for Echo {
    type In = ();
    type Out = ();

    fn handle(&mut self, _: Now, input: Input<()>) {
        let Input::Packet(packet) = input else { return };
        if self.left == 0 {
            // Whichever thread is the last one: the journal's may have taken the roles over.
            self.done.send(()).expect("somebody waits");
            return;
        }
        self.left -= 1;
        if self.record_bytes > 0 {
            self.records += 1;
            let bytes = vec![7; self.record_bytes];
            self.outputs.push_back(Output::Append { seq: RecordSeq(self.records), bytes });
        }
        let (after, need) = (RecordSeq(self.records), Need::ByDestination);
        self.outputs.push_back(Output::Send { to: self.to, packet, after, need });
    }

    fn poll_output(&mut self) -> Option<Output<()>> {
        self.outputs.pop_front()
    }

    fn next_deadline(&self) -> Option<u64> {
        None
    }
}

impl HostedRole for Echo {}

struct Hooks;

impl HostHooks for Hooks {
    fn flush_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn space(&self, _: bool) {}
    fn failed(&self, why: &str) {
        eprintln!("{why}");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const HOPS: u64 = 1_000_000;
    const JOURNAL: JournalId = JournalId { fsid: 1, number: 1, created: 1 };
    for record_bytes in [0, 200] {
        let dir = tempfile::tempdir()?;
        let options = Options::for_dir(dir.path(), JOURNAL, Commit::Interval(100))?;
        let mut replay = |_: NodeId, _: RecordSeq, _: &[u8]| Ok(());
        let (journal, _) = Journal::recover(dir.path(), options, Lsn(0), &mut replay)?;
        let (done, last) = channel();
        let mut builder = NodeBuilder::new();
        let address = |n| NodeId::shard(ShardId(n));
        for n in 0..2 {
            let to = address(1 - n);
            let role =
                Echo { to, left: HOPS / 2, done: done.clone(), record_bytes, records: 0, outputs: VecDeque::new() };
            builder.add(address(n), role, NoEffects);
        }
        let node = builder.start(Commit::Interval(100), Some(journal), Arc::new(Hooks));
        let packet = Packet::new(&Header::new(MessageKind::Peer, address(9), RequestSeq(1)), &0u8);
        let begin = Instant::now();
        node.deliver(address(0), packet);
        last.recv()?;
        let each = begin.elapsed().as_nanos() as f64 / HOPS as f64;
        println!("record of {record_bytes} bytes: {each:.0} ns a hop, {:?}", node.journal().map(Journal::status));
        let begin = Instant::now();
        node.close()?;
        println!("  close {:?}", begin.elapsed());
    }
    Ok(())
}
