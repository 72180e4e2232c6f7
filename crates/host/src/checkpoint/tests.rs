//! Checkpoints of toy roles on real files: written, loaded, damaged.

use super::*;
use crate::journal::{Commit, Journal, Options};
use crate::node::{HostHooks, HostedRole, NoEffects, Node, NodeBuilder, Port};
use crate::progress::tests::Noted;
use crate::progress::{Stage, Unwatched};
use onpath_kernel::{Input, Now, Output, Role};
use onpath_store::{Changes, Cold, Image, ObjectCheck, Recoverable};
use onpath_wire::disk::superblock::JournalId;
use onpath_wire::ids::{Lsn, NodeId, RecordSeq, ShardId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;
use std::sync::Arc;

const JOURNAL: JournalId = JournalId { fsid: 77, number: 1, created: 5 };
const RANGES: u32 = 3;

/// A role that counts: record (key, value) adds the value to the key's number; range = key % RANGES. Even keys are read when
/// they are asked for, odd ones are loaded at the start.
#[derive(Default)]
struct Sums {
    sums: BTreeMap<u64, u64>,
    changed: BTreeSet<u64>,
    /// In an image that is not kept yet.
    leaving: BTreeSet<u64>,
    cold: Option<Arc<dyn Cold>>,
    seq: RecordSeq,
    upto: [RecordSeq; RANGES as usize],
    replayed: u64,
    outputs: VecDeque<Output<()>>,
    /// Happens while the image of range 1 is taken.
    meanwhile: Option<Box<dyn FnOnce() + Send>>,
    /// Happens in every piece of an image but the last one, as long as it returns true; and the last record at each.
    piece: Option<Box<dyn FnMut() -> bool + Send>>,
    pieces: Vec<RecordSeq>,
}

impl Role for Sums {
    type In = (u64, u64);
    type Out = ();

    fn handle(&mut self, _: Now, input: Input<(u64, u64)>) {
        let Input::Own((key, value)) = input else { return };
        self.add(key, value);
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

impl Sums {
    fn get(&self, key: u64) -> u64 {
        let kept = |cold: &Arc<dyn Cold>| cold.get(&key.to_be_bytes()).map_or(0, |value| u64_of(&value));
        self.sums.get(&key).copied().unwrap_or_else(|| self.cold.as_ref().map_or(0, kept))
    }

    fn add(&mut self, key: u64, value: u64) {
        self.sums.insert(key, self.get(key) + value);
        self.changed.insert(key);
    }
}

impl Recoverable for Sums {
    fn ranges(&self) -> u32 {
        RANGES
    }
    fn begin_image(&mut self, range: u32) -> Image {
        self.meanwhile.take_if(|_| range == 1).into_iter().for_each(|happens| happens());
        let here = |key: &u64| key % u64::from(RANGES) == u64::from(range);
        let leaving: Vec<u64> = self.changed.extract_if(.., |key| here(key)).collect();
        let pair = |key: &u64| (key.to_be_bytes().to_vec(), self.sums[key].to_be_bytes().to_vec());
        let put = leaving.iter().filter(|key| *key % 2 == 0).map(pair).collect();
        let rest = self.sums.keys().filter(|key| here(key) && *key % 2 == 1).map(pair).collect();
        self.leaving.extend(leaving);
        Image { upto: self.seq, changes: Changes { put, removed: vec![] }, rest }
    }
    fn more_of_image(&mut self, _: &mut Changes) -> bool {
        let more = self.piece.as_mut().is_some_and(|happens| happens());
        self.pieces.extend(more.then_some(self.seq));
        more
    }
    fn settle_some(&mut self, range: u32, kept: bool) -> bool {
        let settled = self.leaving.extract_if(.., |key| *key % u64::from(RANGES) == u64::from(range));
        match kept {
            true => settled.for_each(drop),
            false => self.changed.extend(settled),
        }
        false
    }
    fn attach(&mut self, cold: Arc<dyn Cold>) -> Result<(), StoreError> {
        self.cold = Some(cold);
        Ok(())
    }
    fn memory(&self) -> u64 {
        self.sums.len() as u64
    }
    fn forget(&mut self, _: u32) {
        self.sums.retain(|key, _| key % 2 == 1 || self.changed.contains(key) || self.leaving.contains(key));
    }
    fn load(&mut self, range: u32, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        assert_eq!(u64_of(key) % u64::from(RANGES), u64::from(range));
        self.load_object(key, value)
    }
    fn load_object(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.sums.insert(u64_of(key), u64_of(value));
        Ok(())
    }
    fn object_check(&self) -> ObjectCheck {
        Box::new(|_, _| Ok(()))
    }
    fn loaded(&mut self, range: u32, upto: RecordSeq) {
        self.upto[range as usize] = upto;
        self.seq = self.seq.max(upto);
    }
    fn replay(&mut self, seq: RecordSeq, record: &[u8]) -> Result<(), StoreError> {
        let key = u64::from_le_bytes(record[..8].try_into().unwrap());
        if seq > self.upto[(key % u64::from(RANGES)) as usize] {
            self.add(key, u64::from_le_bytes(record[8..].try_into().unwrap()));
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

fn damage() -> OnDamage {
    Arc::new(|why| panic!("{why}"))
}

fn try_start(dir: &Path, pace: Pace) -> Result<Process, CheckpointError> {
    let (journal_dir, checkpoint_dir) = dirs(dir);
    adopt(&checkpoint_dir, 2)?;
    let addresses = [0, 1].map(|n| NodeId::shard(ShardId(n)));
    let (mut a, mut b) = (Sums::default(), Sums::default());
    let store = Arc::new(Store::open(&checkpoint_dir, JOURNAL)?);
    let mut roles: [(NodeId, &mut dyn Recoverable); 2] = [(addresses[0], &mut a), (addresses[1], &mut b)];
    let loaded = attach(&store, &mut roles, &mut |role| store.view(role, damage()), &Unwatched)?;
    let options = Options { segment_bytes: 1 << 16, commit: Commit::Interval(2), journal: JOURNAL };
    let mut replay = |role: NodeId, seq: RecordSeq, record: &[u8]| {
        if role == addresses[0] { a.replay(seq, record) } else { b.replay(seq, record) }
    };
    let (journal, report) = Journal::recover(&journal_dir, options, loaded.from, &mut replay)?;
    let replayed = a.replayed + b.replayed;
    let mut builder = NodeBuilder::new();
    let ports = vec![builder.add(addresses[0], a, NoEffects), builder.add(addresses[1], b, NoEffects)];
    let node = builder.start(options.commit, Some(journal), Arc::new(Hooks));
    let checkpointer = Checkpointer::start(&node, &checkpoint_dir, store, damage(), pace, report.bytes);
    Ok(Process { node, ports, checkpointer, loaded, replayed })
}

fn start(dir: &Path, every_bytes: u64) -> Process {
    try_start(dir, Pace { journal_bytes: every_bytes, memory_bytes: u64::MAX, waste_bytes: u64::MAX }).unwrap()
}

/// The store is copied all the time: of so small a one most is free.
fn start_copying(dir: &Path, every_bytes: u64) -> Process {
    try_start(dir, Pace { journal_bytes: every_bytes, memory_bytes: u64::MAX, waste_bytes: 0 }).unwrap()
}

/// A counter of checkpoints.
fn counter(process: &Process, name: &str) -> u64 {
    let all = process.node.status().into_iter().find(|(role, _)| role == "checkpoint").unwrap().1;
    all.into_iter().find(|(counter, _)| counter == name).unwrap().1
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
        process.node.with_role(port, |role| (0..50).for_each(|k| *all.entry(k).or_default() += role.get(k)));
    }
    all
}

fn expected(n: u64) -> BTreeMap<u64, u64> {
    let mut all: BTreeMap<u64, u64> = (0..50).map(|key| (key, 0)).collect();
    (0..n).for_each(|i| *all.entry(i % 50).or_default() += i);
    all
}

#[test]
fn a_checkpoint_replaces_the_journal_before_it() {
    let tmp = tempfile::tempdir().unwrap();
    let process = start(tmp.path(), u64::MAX);
    add(&process, 0..3000);
    // Inputs that waited while another thread had the role are one batch, so there may be fewer batches than inputs.
    let appended = process.node.journal().unwrap().appended();
    let report = process.checkpointer.checkpoint().unwrap();
    assert_eq!((report.from, report.images, report.written), (Lsn(appended.0 + 1), 6, 6));
    add(&process, 3000..3100);
    process.node.stop();
    let process = start(tmp.path(), u64::MAX);
    assert_eq!((process.loaded.images, process.loaded.objects, process.replayed), (6, 25, 100));
    assert_eq!(sums(&process), expected(3100));
    add(&process, 3100..3101);
    let report = process.checkpointer.checkpoint().unwrap();
    assert_eq!(report.images, 6);
    let again = process.checkpointer.checkpoint().unwrap();
    assert_eq!(again.written, 0, "nothing has changed since");
    let said = || Store::look(&dirs(tmp.path()).1, 2, JOURNAL).unwrap().unwrap().head().unwrap().unwrap().from;
    assert_eq!(said(), again.from, "the journal is kept from where the store says");
    let (journal_dir, checkpoint_dir) = dirs(tmp.path());
    assert!(!clear_interrupted(&checkpoint_dir));
    assert!(process.node.journal().unwrap().status().segments <= 2, "{}", fs::read_dir(journal_dir).unwrap().count());
    process.node.stop();
    assert_eq!(sums(&start(tmp.path(), u64::MAX)), expected(3101));
}

/// Nothing was appended since the last checkpoint began, so this one covers the journal up to the same place; but a range that is
/// imaged later has changed by then.
#[test]
fn what_changes_while_a_checkpoint_is_taken_is_in_it_or_in_the_next() {
    let tmp = tempfile::tempdir().unwrap();
    let process = start(tmp.path(), u64::MAX);
    add(&process, 0..100);
    process.checkpointer.checkpoint().unwrap();
    let (node, other) = (process.node.clone(), process.ports[1].clone());
    let meanwhile = move || node.submit(&other, (2, 7000));
    process.node.with_role(&process.ports[0], |role| role.meanwhile = Some(Box::new(meanwhile)));
    process.checkpointer.checkpoint().unwrap();
    add(&process, 101..110);
    process.checkpointer.checkpoint().unwrap();
    let sums_now = sums(&process);
    process.node.close().unwrap();
    drop(process);
    assert_eq!(sums(&start(tmp.path(), u64::MAX)), sums_now);
}

/// Whoever comes while a piece of an image is taken is served before the next one.
#[test]
fn nobody_waits_for_more_than_a_piece() {
    let tmp = tempfile::tempdir().unwrap();
    let process = start(tmp.path(), u64::MAX);
    add(&process, 0..100);
    let (node, port) = (process.node.clone(), process.ports[0].clone());
    let mut left = 5;
    let piece = move || {
        node.submit(&port, (2, 1));
        left -= 1;
        left > 0
    };
    process.node.with_role(&process.ports[0], |role| role.piece = Some(Box::new(piece)));
    process.checkpointer.checkpoint().unwrap();
    let seen = process.node.with_role(&process.ports[0], |role| {
        role.piece = None;
        std::mem::take(&mut role.pieces)
    });
    assert_eq!(seen, [50, 51, 52, 53].map(RecordSeq));
    let sums_now = sums(&process);
    process.node.close().unwrap();
    drop(process);
    assert_eq!(sums(&start(tmp.path(), u64::MAX)), sums_now);
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

/// What a start replays counts, so a process that is killed again and again before its journal is long takes checkpoints all the same.
#[test]
fn what_is_replayed_counts_towards_the_next_checkpoint() {
    let tmp = tempfile::tempdir().unwrap();
    let process = start(tmp.path(), 40_000);
    add(&process, 0..300);
    process.node.stop();
    drop(process);
    let process = start(tmp.path(), 40_000);
    assert_eq!((process.loaded.images, process.replayed), (0, 300));
    add(&process, 300..600);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while process.checkpointer.head().is_none() {
        assert!(std::time::Instant::now() < deadline, "no checkpoint is taken");
        std::thread::yield_now();
    }
    process.node.stop();
    drop(process);
    let process = start(tmp.path(), 40_000);
    assert!(process.loaded.images == 6 && process.replayed < 600, "{:?}", process.loaded);
    assert_eq!(sums(&process), expected(600));
    process.node.stop();
}

/// Bytes of the store that have changed are noticed, by whoever looks at all of it, and named by their file.
#[test]
fn damage_of_the_store_is_noticed() {
    let tmp = tempfile::tempdir().unwrap();
    let process = start(tmp.path(), u64::MAX);
    add(&process, 0..300);
    process.checkpointer.checkpoint().unwrap();
    process.node.stop();
    drop(process);
    let (_, dir) = dirs(tmp.path());
    let file = dir.join(store::FILE_NAME);
    let whole = fs::read(&file).unwrap();
    let view: &mut ViewOf<'_> = &mut |store, role| store.view(role, damage());
    let noted = Noted::default();
    let mut look = || {
        let (mut a, mut b) = (Sums::default(), Sums::default());
        let [first, second] = [0, 1].map(|n| NodeId::shard(ShardId(n)));
        super::look(&dir, JOURNAL, &mut [(first, &mut a), (second, &mut b)], view, &mut Err, &noted)
    };
    let loaded = look().unwrap();
    assert_eq!((loaded.images, loaded.objects), (6, 50));
    assert_eq!(noted.stages(), [(Stage::of("reading the checkpoint", "objects"), 50)]);
    let foreign = super::look(
        &dir,
        JournalId { created: 6, ..JOURNAL },
        &mut [],
        &mut |store, role| store.view(role, damage()),
        &mut Err,
        &Unwatched,
    );
    assert!(matches!(foreign, Err(CheckpointError::Foreign { .. })));
    for (key, sum) in expected(300) {
        let places = whole.windows(8).enumerate().filter(|(_, bytes)| *bytes == sum.to_be_bytes()).map(|(at, _)| at);
        let noticed = places.filter(|at| {
            let mut bytes = whole.clone();
            bytes[at + 7] ^= 4;
            fs::write(&file, &bytes).unwrap();
            // A page that is not in use may be anything.
            let error = look().map(|same| assert_eq!(same, loaded)).err();
            error.is_some_and(|error| {
                assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
                true
            })
        });
        assert!(noticed.count() > 0, "the sum of {key}");
    }
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    assert!(look().is_err());
}

#[test]
fn the_store_is_copied_while_others_write_and_a_kill_at_any_time_is_survived() {
    let tmp = tempfile::tempdir().unwrap();
    let (mut n, mut copies) = (0, 0);
    for round in 0..30 {
        let process = start_copying(tmp.path(), 40_000);
        assert_eq!(sums(&process), expected(n), "round {round}");
        add(&process, n..n + 3000);
        n += 3000;
        let view = process.checkpointer.view(NodeId::shard(ShardId(0)), damage());
        let before = view.get(&0u64.to_be_bytes());
        // A copy begins as soon as there is a checkpoint; rounds end before, within and after the next ones.
        let begin = std::time::Instant::now();
        while counter(&process, "compactions") == 0 && begin.elapsed() < std::time::Duration::from_millis(round * 20) {
            process.checkpointer.request();
            std::thread::yield_now();
        }
        copies += counter(&process, "compactions");
        assert_eq!(counter(&process, "compactions_left_out"), 0);
        assert_eq!(sums(&process), expected(n), "round {round}");
        assert_eq!(view.get(&0u64.to_be_bytes()), before, "who reads the old one is not disturbed");
        process.node.stop();
    }
    assert!(copies > 0, "the store was never copied");
    let process = start(tmp.path(), u64::MAX);
    assert_eq!(sums(&process), expected(n));
    process.node.stop();
}

/// A copy that cannot be made is left out, and made when it can be.
#[test]
fn a_copy_that_fails_is_tried_again() {
    let tmp = tempfile::tempdir().unwrap();
    let process = start_copying(tmp.path(), u64::MAX);
    let in_the_way = dirs(tmp.path()).1.join("copy.redb");
    fs::create_dir(&in_the_way).unwrap();
    add(&process, 0..3000);
    process.checkpointer.checkpoint().unwrap();
    let wait = |name: &str| {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while counter(&process, name) == 0 {
            assert!(std::time::Instant::now() < deadline, "no {name}");
            std::thread::yield_now();
        }
    };
    wait("compactions_left_out");
    add(&process, 3000..3100);
    process.checkpointer.checkpoint().unwrap();
    assert_eq!((sums(&process), counter(&process, "compactions")), (expected(3100), 0));
    fs::remove_dir(&in_the_way).unwrap();
    wait("compactions");
    process.node.stop();
    drop(process);
    assert_eq!(sums(&start(tmp.path(), u64::MAX)), expected(3100));
}

/// What checkpoints change while a copy is made is in the copy too, whether it had come so far or not.
#[test]
fn a_copy_has_what_the_store_has() {
    let tmp = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(tmp.path(), JOURNAL).unwrap());
    let roles = [NodeId::shard(ShardId(0)), NodeId::shard(ShardId(1)), NodeId::data(0)];
    let mut model: BTreeMap<(NodeId, Vec<u8>), Vec<u8>> = BTreeMap::new();
    let mut random = 7u64;
    let mut below = |n: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % n
    };
    let rest = vec![(b"rest".to_vec(), vec![9; 100])];
    let mut checkpoint = |model: &mut BTreeMap<_, _>,
                          copy: Option<&mut compact::Compaction>,
                          roles: &[NodeId],
                          puts: u64,
                          removes: u64| {
        let mut draft = store.begin().unwrap().with(copy);
        for role in roles {
            let mut changes = Changes::default();
            for n in 0..puts + removes {
                let key = below(3000).to_be_bytes().to_vec();
                if changes.put.iter().any(|(put, _)| *put == key) {
                    continue;
                }
                if n < puts {
                    let value = vec![below(256) as u8; below(4000) as usize];
                    model.insert((*role, key.clone()), value.clone());
                    changes.put.push((key, value));
                } else {
                    model.remove(&(*role, key.clone()));
                    changes.removed.push(key);
                }
            }
            draft.put(*role, 0, Image { upto: RecordSeq(1), changes, rest: rest.clone() }).unwrap();
        }
        draft.commit(Lsn(2)).unwrap();
    };
    checkpoint(&mut model, None, &roles[1..], 4000, 0);
    checkpoint(&mut model, None, &roles[1..], 0, 2000);
    let view = store.view(roles[1], damage()).unwrap();
    let (key, value) = model.iter().find(|((role, _), _)| *role == roles[1]).unwrap();
    let (key, value) = (key.1.clone(), value.clone());
    let mut copy = compact::Compaction::begin(tmp.path(), JOURNAL).unwrap();
    let mut steps = 0;
    while copy.step(&store).unwrap() {
        steps += 1;
        // The first role has its first objects when the copy is beyond them.
        checkpoint(&mut model, Some(&mut copy), &roles, 20, 20);
    }
    assert!(steps > 2, "{steps}");
    let before = store.allocated();
    let new = Arc::new(copy.finish(&store).unwrap());
    assert!(new.file() == store.file() && new.allocated() < before, "{before} {}", new.allocated());
    for store in [&store, &new] {
        let mut found = BTreeMap::new();
        for role in roles {
            let each = &mut |key: &[u8], value: Result<&[u8], _>| {
                found.insert((role, key.to_vec()), value?.to_vec());
                Ok(())
            };
            store.objects(role, each).unwrap();
        }
        assert!(found == model);
        assert_eq!(store.head().unwrap().unwrap().from, Lsn(2));
        assert_eq!(store.ranges().unwrap().len(), 3);
        let mut others = 0;
        roles.iter().for_each(|role| {
            let each = &mut |key: &[u8], value: Result<&[u8], _>| {
                assert_eq!((key, value?), (&rest[0].0[..], &rest[0].1[..]));
                others += 1;
                Ok(())
            };
            store.rest(*role, 0, each).unwrap();
        });
        assert_eq!(others, 3);
        let live: usize = found.iter().map(|((_, key), value)| key.len() + value.len() + 4).sum();
        assert_eq!(store.live().unwrap(), Some(live as u64 + 3 * (8 + 4 + 100 + 4)));
    }
    drop(store);
    assert_eq!(view.get(&key), Some(value), "a view keeps the old one open");
}

/// A disk without room ends the copy and nothing else, and the copy is gone.
#[test]
fn a_copy_gives_up_on_a_full_disk() {
    use std::process::Command;
    let tmp = tempfile::tempdir().unwrap();
    let store = Store::open(tmp.path(), JOURNAL).unwrap();
    let put = (0..3000u64).map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; 1000])).collect();
    let mut draft = store.begin().unwrap();
    let changes = Changes { put, removed: vec![] };
    draft.put(NodeId::data(0), 0, Image { upto: RecordSeq(1), changes, rest: vec![] }).unwrap();
    draft.commit(Lsn(2)).unwrap();
    let small = tmp.path().join("small");
    fs::create_dir(&small).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1500k", "none"]).arg(&small).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return onpath_testing::skipped("a copy on a full disk", "a tmpfs cannot be mounted");
    }
    let copied = compact::Compaction::begin(&small, JOURNAL).and_then(|mut copy| {
        while copy.step(&store)? {}
        copy.finish(&store)
    });
    let left = fs::read_dir(&small).unwrap().count();
    assert!(Command::new("umount").arg(&small).status().unwrap().success());
    let Err(CheckpointError::Io { source, .. }) = copied else { panic!("1.5 MB took 3 MB") };
    assert_eq!((source.raw_os_error(), left), (Some(libc::ENOSPC), 0));
    assert_eq!(store.live().unwrap(), Some(3000 * 1012));
}

/// A checkpoint that lacks room takes that of a copy, which never counts then.
#[test]
fn a_copy_that_was_ended_does_not_count() {
    let tmp = tempfile::tempdir().unwrap();
    let store = Store::open(tmp.path(), JOURNAL).unwrap();
    let checkpoint = |key: u8, copy: Option<&mut compact::Compaction>| {
        let mut draft = store.begin().unwrap().with(copy);
        let changes = Changes { put: vec![(vec![key], vec![1; 100])], removed: vec![] };
        draft.put(NodeId::data(0), 0, Image { upto: RecordSeq(1), changes, rest: vec![] }).unwrap();
        draft.commit(Lsn(2)).unwrap();
    };
    checkpoint(1, None);
    for last in [true, false] {
        let mut copy = compact::Compaction::begin(tmp.path(), JOURNAL).unwrap();
        assert!(!copy.step(&store).unwrap());
        assert!(beside::end_copy(tmp.path()) && !beside::end_copy(tmp.path()));
        checkpoint(2, Some(&mut copy));
        let refused = if last { copy.finish(&store).err() } else { copy.step(&store).err() };
        assert!(matches!(refused, Some(CheckpointError::Io { .. } | CheckpointError::Store { .. })), "{refused:?}");
        assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 1);
    }
    drop(store);
    let store = Store::open(tmp.path(), JOURNAL).unwrap();
    let mut found = 0;
    let each = &mut |_: &[u8], value: Result<&[u8], _>| value.map(|_| found += 1);
    store.objects(NodeId::data(0), each).unwrap();
    assert_eq!(found, 2);
}
