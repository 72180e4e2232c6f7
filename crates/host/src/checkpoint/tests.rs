//! Checkpoints of toy roles on real files: written, loaded, damaged.

use super::*;
use crate::journal::{Commit, Journal, Options};
use crate::node::{HostHooks, HostedRole, NoEffects, Node, NodeBuilder, Port};
use onpath_kernel::{Input, Now, Output, Role};
use onpath_store::{Image, Recoverable};
use onpath_wire::ids::{Lsn, NodeId, RecordSeq, ShardId};
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::Path;
use std::sync::Arc;

const FSID: u64 = 77;
const RANGES: u32 = 3;

/// A role that counts: record (key, value) adds the value to the key's number; range = key % RANGES.
#[derive(Default)]
struct Sums {
    sums: BTreeMap<u64, u64>,
    seq: RecordSeq,
    upto: [RecordSeq; RANGES as usize],
    replayed: u64,
    outputs: VecDeque<Output<()>>,
}

impl Role for Sums {
    type In = (u64, u64);
    type Out = ();

    fn handle(&mut self, _: Now, input: Input<(u64, u64)>) {
        let Input::Own((key, value)) = input else { return };
        *self.sums.entry(key).or_default() += value;
        self.seq.0 += 1;
        let bytes = [key.to_le_bytes(), value.to_le_bytes()].concat();
        self.outputs.push_back(Output::Append { seq: self.seq, bytes });
    }

    fn poll_output(&mut self) -> Option<Output<()>> {
        self.outputs.pop_front()
    }

    fn next_deadline(&self) -> Option<u64> {
        None
    }
}

impl HostedRole for Sums {
    fn recoverable(&mut self) -> Option<&mut dyn Recoverable> {
        Some(self)
    }
}

fn u64_of(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

impl Recoverable for Sums {
    fn ranges(&self) -> u32 {
        RANGES
    }
    fn image(&mut self, range: u32) -> Image {
        let of_range = self.sums.iter().filter(|(key, _)| **key % u64::from(RANGES) == u64::from(range));
        let pairs = of_range.map(|(k, v)| (k.to_be_bytes().to_vec(), v.to_be_bytes().to_vec())).collect();
        Image { upto: self.seq, pairs }
    }
    fn load(&mut self, range: u32, _: RecordSeq, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        assert_eq!(u64_of(key) % u64::from(RANGES), u64::from(range));
        self.sums.insert(u64_of(key), u64_of(value));
        Ok(())
    }
    fn loaded(&mut self, range: u32, upto: RecordSeq) {
        self.upto[range as usize] = upto;
        self.seq = self.seq.max(upto);
    }
    fn replay(&mut self, seq: RecordSeq, record: &[u8]) -> Result<(), StoreError> {
        let key = u64::from_le_bytes(record[..8].try_into().unwrap());
        if seq > self.upto[(key % u64::from(RANGES)) as usize] {
            *self.sums.entry(key).or_default() += u64::from_le_bytes(record[8..].try_into().unwrap());
            self.replayed += 1;
        }
        self.seq = self.seq.max(seq);
        Ok(())
    }
}

struct Hooks;

impl HostHooks for Hooks {
    fn flush_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn space(&self, _: bool) {}
    fn failed(&self, why: &str) {
        panic!("{why}");
    }
}

struct Process {
    node: Arc<Node>,
    ports: Vec<Port<Sums>>,
    checkpointer: Checkpointer,
    loaded: Loaded,
    replayed: u64,
}

fn dirs(dir: &Path) -> (PathBuf, PathBuf) {
    let (journal, checkpoint) = (dir.join("journal"), dir.join("checkpoint"));
    [&journal, &checkpoint].iter().for_each(|d| fs::create_dir_all(d).unwrap());
    (journal, checkpoint)
}

fn try_start(dir: &Path, every_bytes: u64) -> Result<Process, CheckpointError> {
    let (journal_dir, checkpoint_dir) = dirs(dir);
    let addresses = [0, 1].map(|n| NodeId::shard(ShardId(n)));
    let (mut a, mut b) = (Sums::default(), Sums::default());
    let loaded = load(&checkpoint_dir, FSID, &mut [(addresses[0], &mut a), (addresses[1], &mut b)])?;
    let options = Options { segment_bytes: 1 << 16, commit: Commit::Interval(2), fsid: FSID };
    let mut replay = |role: NodeId, seq: RecordSeq, record: &[u8]| {
        if role == addresses[0] { a.replay(seq, record) } else { b.replay(seq, record) }
    };
    let (journal, _) = Journal::recover(&journal_dir, options, loaded.from, &mut replay)?;
    let replayed = a.replayed + b.replayed;
    let mut builder = NodeBuilder::new();
    let ports = vec![builder.add(addresses[0], a, NoEffects), builder.add(addresses[1], b, NoEffects)];
    let node = builder.start(options.commit, Some(journal), Arc::new(Hooks));
    let checkpointer = Checkpointer::start(&node, &checkpoint_dir, FSID, every_bytes);
    Ok(Process { node, ports, checkpointer, loaded, replayed })
}

fn start(dir: &Path, every_bytes: u64) -> Process {
    try_start(dir, every_bytes).unwrap()
}

/// Adds, and waits until that is done: another thread may have taken inputs over.
fn add(process: &Process, n: std::ops::Range<u64>) {
    let end = n.end;
    n.for_each(|i| process.node.submit(&process.ports[(i % 2) as usize], (i % 50, i)));
    let records = || process.ports.iter().map(|p| process.node.with_role(p, |role| role.seq.0)).sum::<u64>();
    while records() < end {
        std::thread::yield_now();
    }
}

fn sums(process: &Process) -> BTreeMap<u64, u64> {
    let mut all = BTreeMap::new();
    for port in &process.ports {
        process.node.with_role(port, |role| role.sums.iter().for_each(|(k, v)| *all.entry(*k).or_default() += v));
    }
    all
}

fn expected(n: u64) -> BTreeMap<u64, u64> {
    let mut all = BTreeMap::new();
    (0..n).for_each(|i| *all.entry(i % 50).or_default() += i);
    all
}

#[test]
fn a_checkpoint_replaces_the_journal_before_it() {
    let tmp = tempfile::tempdir().unwrap();
    let process = start(tmp.path(), u64::MAX);
    add(&process, 0..3000);
    let report = process.checkpointer.checkpoint().unwrap();
    assert_eq!((report.from, report.images, report.written), (Lsn(3001), 6, 6));
    add(&process, 3000..3100);
    process.node.stop();
    let process = start(tmp.path(), u64::MAX);
    assert_eq!((process.loaded.images, process.loaded.objects, process.replayed), (6, 50, 100));
    assert_eq!(sums(&process), expected(3100));
    add(&process, 3100..3101);
    let report = process.checkpointer.checkpoint().unwrap();
    assert_eq!(report.images, 6);
    let again = process.checkpointer.checkpoint().unwrap();
    assert_eq!(again.written, 0, "nothing has changed since");
    let (journal_dir, checkpoint_dir) = dirs(tmp.path());
    let images = fs::read_dir(checkpoint_dir)
        .unwrap()
        .filter(|e| e.as_ref().unwrap().path().extension().is_some_and(|e| e == "img"));
    assert_eq!(images.count(), 6, "older images are gone");
    assert!(process.node.journal().unwrap().status().segments <= 2, "{}", fs::read_dir(journal_dir).unwrap().count());
    process.node.stop();
    assert_eq!(sums(&start(tmp.path(), u64::MAX)), expected(3101));
}

#[test]
fn checkpoints_are_taken_while_others_write_and_survive_a_kill_at_any_time() {
    let tmp = tempfile::tempdir().unwrap();
    let mut n = 0;
    // A round may end before its first checkpoint does, so each is longer than the one before.
    let loaded = (0..40).any(|round| {
        let process = start(tmp.path(), 40_000);
        assert_eq!(sums(&process), expected(n), "round {round}");
        let loaded = process.loaded.images == 6 && process.loaded.from > Lsn(1);
        let more = 4000 + 1000 * round;
        add(&process, n..n + more);
        n += more;
        process.node.stop();
        loaded && round >= 6
    });
    assert!(loaded, "no start has found a checkpoint");
    let process = start(tmp.path(), 40_000);
    assert_eq!(sums(&process), expected(n));
    process.node.stop();
}

#[test]
fn damaged_checkpoints_are_refused_by_file() {
    let tmp = tempfile::tempdir().unwrap();
    let process = start(tmp.path(), u64::MAX);
    add(&process, 0..300);
    process.checkpointer.checkpoint().unwrap();
    process.node.stop();
    drop(process);
    let (_, dir) = dirs(tmp.path());
    let image = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path());
    let image = image.filter(|p| p.extension().is_some_and(|e| e == "img")).min().unwrap();
    let refused = |file: &Path, at: usize| {
        let whole = fs::read(file).unwrap();
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        fs::write(file, &bytes).unwrap();
        let error = try_start(tmp.path(), u64::MAX).err().expect("refused");
        fs::write(file, whole).unwrap();
        assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
        error
    };
    assert!(matches!(refused(&image, 100), CheckpointError::Image { .. }));
    assert!(matches!(refused(&dir.join("manifest"), 30), CheckpointError::Manifest { .. }));
    assert!(matches!(refused(&dir.join("manifest"), 8), CheckpointError::Version { .. }));
    let whole = fs::read(&image).unwrap();
    fs::write(&image, &whole[..50]).unwrap();
    assert!(matches!(try_start(tmp.path(), u64::MAX), Err(CheckpointError::Mismatch { .. })));
    fs::remove_file(&image).unwrap();
    assert!(matches!(try_start(tmp.path(), u64::MAX), Err(CheckpointError::Io { path, .. }) if path == image));
}
