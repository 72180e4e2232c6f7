//! What metadata shards cost without I/O: from the encoded request packet to the encoded reply, with record, change-log
//! and the owner's half (pushes, ticks and flush notices included; nothing is written anywhere).
//!
//! `cargo bench -p onpath-meta --bench roles -- [FILES] [wall]` (default 1,000,000 files). Times are CPU time of this
//! thread, the median of batches of 10,000 operations, with the least and the greatest. Instruction counts:
//! `perf stat -e instructions:u` where the machine has counters, else
//! `valgrind --tool=callgrind --toggle-collect='*World::run' target/release/deps/roles-… 10000 wall`
//! (valgrind hides the clock of CPU time, hence `wall`).

mod world;

use onpath_store::Recoverable;
use onpath_wire::codec::Blob;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::reply::Reply;
use onpath_wire::request::{NewNode, Request, open};
use rustix::time::{ClockId, clock_gettime};
use std::io::Write;
use std::sync::LazyLock;
use std::time::Instant;
use world::{Kept, World, empty_shards};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Operations of one batch.
const BATCH: usize = 10_000;
/// Files in one directory.
const DIRECTORY_FILES: usize = 10_000;
/// Batches of the warm measurement.
const WARM_BATCHES: usize = 20;

fn main() -> std::io::Result<()> {
    let files = std::env::args().skip(1).find_map(|arg| arg.replace('_', "").parse().ok()).unwrap_or(1_000_000);
    let mut out = std::io::stdout().lock();
    writeln!(out, "ns per operation: median (least … greatest) of batches of {BATCH}")?;
    for shards in [1, 2] {
        writeln!(out, "\n{shards} shard(s), warm: {DIRECTORY_FILES} files come and go")?;
        warm(shards, &mut out)?;
        writeln!(out, "\n{shards} shard(s), {files} files")?;
        many(shards, files, &mut out)?;
    }
    Ok(())
}

/// CPU time of this thread, or with `wall` the time of day, ns.
fn clock_ns() -> u64 {
    static BEGIN: LazyLock<Option<Instant>> =
        LazyLock::new(|| std::env::args().any(|arg| arg == "wall").then(Instant::now));
    if let Some(begin) = *BEGIN {
        return begin.elapsed().as_nanos() as u64;
    }
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Resident memory of this process, bytes.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("/proc");
    let pages: u64 = statm.split(' ').nth(1).expect("resident pages").parse().expect("a number");
    pages * 4096
}

/// Times of the batches of one kind of operation.
#[derive(Default)]
struct Times(Vec<f64>);

impl Times {
    /// Runs requests of one batch, including pushes and flush notices that fall due meanwhile, and gives the replies.
    fn batch(&mut self, world: &mut World, requests: Vec<Request>) -> Vec<Reply> {
        let operations = requests.len();
        let encoded: Vec<_> = requests.into_iter().map(|request| world.encode(request)).collect();
        let begin = clock_ns();
        world.run(encoded);
        self.0.push((clock_ns() - begin) as f64 / operations as f64);
        let replies = world.replies();
        assert_eq!(replies.len(), operations, "every operation is answered at once");
        replies
    }

    /// Lets homes learn of writes of these files that data nodes have answered, of so many files a message.
    fn told(&mut self, world: &mut World, files: &[File], together: usize) {
        let ids: Vec<InodeId> = files.iter().map(|file| file.id).collect();
        let learned = world.counter("answered_writes_learned");
        let encoded = world.encode_told(&ids, together);
        let begin = clock_ns();
        world.run(encoded);
        self.0.push((clock_ns() - begin) as f64 / files.len() as f64);
        world.forget_replies();
        assert_eq!(world.counter("answered_writes_learned") - learned, files.len() as u64, "every write is learned");
    }

    fn show(&mut self, out: &mut impl Write, what: &str) -> std::io::Result<()> {
        self.0.sort_by(f64::total_cmp);
        let (least, greatest) = (self.0[0], self.0[self.0.len() - 1]);
        writeln!(out, "  {what:<22} {:>6.0}  ({least:.0} … {greatest:.0})", self.0[self.0.len() / 2])
    }
}

fn name(number: usize) -> Name {
    Name::new(format!("file.{number:07}").as_bytes()).expect("a short name")
}

fn create(parent: InodeId, name: Name, kind: Kind) -> Request {
    let open = if kind == Kind::File { open::WRITE | open::EXCLUSIVE | open::REGISTER } else { 0 };
    let mode = if kind == Kind::File { 0o644 } else { 0o755 };
    Request::Create { parent, name, node: NewNode { kind, mode, umask: 0o022, rdev: 0, target: Blob::default(), open } }
}

fn made(reply: Reply) -> InodeId {
    match reply {
        Reply::Entry { attr, created: true, .. } => attr.id,
        other => panic!("a create was answered {other:?}"),
    }
}

fn mkdir(world: &mut World, number: usize) -> InodeId {
    let name = Name::new(format!("dir.{number}").as_bytes()).expect("a short name");
    let reply = world.ask(create(InodeId::ROOT, name, Kind::Directory));
    made(reply)
}

fn all_done(replies: Vec<Reply>) {
    assert!(replies.iter().all(|reply| *reply == Reply::Done), "not all were done");
}

/// Requests of one kind for one file.
type Make = fn(&File) -> Request;

/// A file of the measurement.
#[derive(Clone)]
struct File {
    parent: InodeId,
    name: Name,
    id: InodeId,
}

const READS: [(&str, Make); 3] = [
    ("lookup", |file| Request::Lookup { parent: file.parent, name: file.name.clone() }),
    ("getattr", |file| Request::GetAttr { id: file.id }),
    ("open", |file| Request::Open { id: file.id, flags: open::READ | open::REGISTER }),
];

fn release(file: &File) -> Request {
    Request::Release { id: file.id }
}

fn unlink(file: &File) -> Request {
    Request::Unlink { parent: file.parent, name: file.name.clone() }
}

/// Creates the files numbered `from..from + BATCH` in `parent`, which are open afterwards.
#[inline(never)] // a profiler can collect creates alone, as it can `World::run`
fn create_batch(world: &mut World, times: &mut Times, parent: InodeId, from: usize) -> Vec<File> {
    let names: Vec<Name> = (from..from + BATCH).map(name).collect();
    let requests = names.iter().map(|name| create(parent, name.clone(), Kind::File)).collect();
    let replies = times.batch(world, requests);
    names.into_iter().zip(replies).map(|(name, reply)| File { parent, name, id: made(reply) }).collect()
}

fn warm(shards: u16, out: &mut impl Write) -> std::io::Result<()> {
    let mut world = World::new(shards);
    let parent = mkdir(&mut world, 0);
    let (mut creates, mut releases, mut unlinks) = (Times::default(), Times::default(), Times::default());
    let mut reads: [Times; 3] = Default::default();
    for _ in 0..WARM_BATCHES {
        let files = create_batch(&mut world, &mut creates, parent, 0);
        all_done(releases.batch(&mut world, files.iter().map(release).collect()));
        for ((_, make), times) in READS.iter().zip(&mut reads) {
            times.batch(&mut world, files.iter().map(make).collect());
        }
        all_done(releases.batch(&mut world, files.iter().map(release).collect()));
        all_done(unlinks.batch(&mut world, files.iter().map(unlink).collect()));
        world.settle();
    }
    creates.show(out, "create + open")?;
    releases.show(out, "release")?;
    for ((what, _), times) in READS.iter().zip(&mut reads) {
        times.show(out, what)?;
    }
    unlinks.show(out, "unlink")
}

/// A fixed permutation, so that files are touched in no order that a cache could like.
fn shuffle(files: &mut [File]) {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for place in (1..files.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        files.swap(place, (state >> 33) as usize % (place + 1));
    }
}

fn many(shards: u16, count: usize, out: &mut impl Write) -> std::io::Result<()> {
    let mut world = World::new(shards);
    let mut files = Vec::with_capacity(count);
    let (mut creates, mut releases, mut unlinks) = (Times::default(), Times::default(), Times::default());
    let directories = count.div_ceil(DIRECTORY_FILES);
    let before = resident_bytes();
    for directory in 0..directories {
        let parent = mkdir(&mut world, directory);
        for from in (0..DIRECTORY_FILES).step_by(BATCH) {
            let new = create_batch(&mut world, &mut creates, parent, from);
            all_done(releases.batch(&mut world, new.iter().map(release).collect()));
            files.extend(new);
        }
        world.settle();
    }
    let own = files.capacity() * size_of::<File>();
    let memory = resident_bytes().saturating_sub(before).saturating_sub(own as u64);
    // The last tenth: the tables are about full.
    creates.0.drain(..directories * 9 / 10);
    releases.0.drain(..directories * 9 / 10);
    creates.show(out, "create + open")?;
    releases.show(out, "release")?;
    shuffle(&mut files);
    for (what, make) in READS {
        let mut times = Times::default();
        for batch in files.chunks(BATCH).take(20) {
            times.batch(&mut world, batch.iter().map(make).collect());
        }
        world.settle();
        times.show(out, what)?;
    }
    for batch in files.chunks(BATCH).take(20) {
        world.run_quietly(batch.iter().map(release).collect());
    }
    for (what, together) in [("learn, one by one", 1), ("learn, 512 together", 512)] {
        let mut times = Times::default();
        for batch in files.chunks(BATCH).take(20) {
            times.told(&mut world, batch, together);
        }
        world.settle();
        times.show(out, what)?;
    }
    writeln!(out, "  memory                 {:>6} bytes a file", memory / files.len() as u64)?;
    let inodes = world.counter("inodes");
    for batch in files.chunks(BATCH).take(20) {
        all_done(unlinks.batch(&mut world, batch.iter().map(unlink).collect()));
        world.settle();
    }
    unlinks.show(out, "unlink")?;
    assert_eq!(inodes - world.counter("inodes"), files.len().min(20 * BATCH) as u64, "every unlink removes an inode");
    writeln!(out, "  record                 {:>6} bytes", world.record_bytes / world.records)?;
    drop((world, files));
    replay(shards, count.min(300_000), out)
}

/// Journals `count` creates and gives the records to new shards.
fn replay(shards: u16, count: usize, out: &mut impl Write) -> std::io::Result<()> {
    let mut world = World::new(shards);
    world.journal = Some(vec![]);
    for directory in 0..count.div_ceil(BATCH) {
        let parent = mkdir(&mut world, directory);
        let files = create_batch(&mut world, &mut Times::default(), parent, 0);
        world.run_quietly(files.iter().map(release).collect());
        world.settle();
    }
    let records: Vec<Kept> = world.journal.take().expect("kept until here");
    let mut roles = empty_shards(&world.map);
    let begin = clock_ns();
    for record in &records {
        roles[record.shard as usize].replay(record.seq, &record.bytes).expect("the shard's own record");
    }
    let rate = records.len() as f64 * 1e3 / (clock_ns() - begin) as f64;
    writeln!(out, "  replay                 {rate:>6.2} million records/s a core ({} records)", records.len())
}
