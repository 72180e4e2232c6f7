//! Files of a DIR: superblock, hosts, heads of segments and data files, the store of the checkpoint.

use crate::cut::Cut;
use crate::journal::scratch;
use crate::memory::{at_most, for_input};
use onpath_host::blocks::BlockFiles;
use onpath_host::checkpoint::Store;
use onpath_host::fuzzing;
use onpath_host::shape::Shape;
use onpath_store::{Changes, Image};
use onpath_wire::checksum::crc32c;
use onpath_wire::disk::superblock::{FORMAT_VERSION, JournalId, SUPERBLOCK_MAGIC, Superblock};
use onpath_wire::disk::{Stored, block::DATA_FILE_MAGIC};
use onpath_wire::ids::{Lsn, NodeId, RecordSeq, ShardId};
use std::fs::{self, File};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Once, OnceLock};

const JOURNAL: JournalId = JournalId { fsid: 7, number: 1, created: 9 };
/// Blocks of a data file.
const FILE_BLOCKS: u32 = 1 << 18;
/// Bytes of a data file that are looked at.
const DATA_HEAD_BYTES: usize = 256;
/// What a map takes, with a place for each of its slots.
const MAP_BYTES: usize = 4 << 20;
/// What the store takes for its cache and its buffers.
const STORE_BYTES: usize = 96 << 20;

/// A file of a DIR, which the first byte chooses; where it asks for that, magic number, version and checksum are made right.
pub fn files(input: &[u8]) {
    let Some((&how, bytes)) = input.split_first() else { return };
    let repaired = how & 0x80 == 0;
    match how & 3 {
        0 => superblock(if repaired { headed(SUPERBLOCK_MAGIC, bytes) } else { bytes.to_vec() }),
        1 => data_file(if repaired { headed(DATA_FILE_MAGIC, bytes) } else { bytes.to_vec() }),
        2 => {
            for_input(bytes.len(), || black_box(fuzzing::segment(bytes, 1, JOURNAL)));
        }
        _ => hosts(bytes),
    }
}

/// The bytes behind what such a file begins with, and a checksum where one that is stored would have it.
fn headed(magic: u64, bytes: &[u8]) -> Vec<u8> {
    let mut file = [&magic.to_le_bytes()[..], &FORMAT_VERSION.to_le_bytes(), bytes].concat();
    let check = crc32c(&file);
    file.extend_from_slice(&check.to_le_bytes());
    file
}

fn superblock(bytes: Vec<u8>) {
    let read = for_input(bytes.len(), || fuzzing::superblock(&bytes));
    let Some((superblock, stored)) = read else { return };
    assert_eq!(Superblock::from_stored(&stored).expect("what was read can be written and read again"), superblock);
    at_most(MAP_BYTES, || black_box((superblock.journal_id(), Shape::of(&superblock).has_coordinator())));
}

fn hosts(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(again) = for_input(text.len(), || fuzzing::hosts(text)) {
        assert_eq!(again, text);
    }
}

fn data_file(mut bytes: Vec<u8>) {
    bytes.resize(DATA_HEAD_BYTES, 0);
    let dir = scratch().path();
    fs::write(dir.join("0000.blk"), &bytes).expect("a temporary file");
    for_input(bytes.len(), || drop(BlockFiles::inspect(dir, JOURNAL, FILE_BLOCKS)));
}

/// A store of one shard and a data node in which nothing is wrong yet.
fn store() -> &'static [u8] {
    static STORE: OnceLock<Vec<u8>> = OnceLock::new();
    STORE.get_or_init(|| {
        let dir = tempfile::tempdir_in(scratch().path()).expect("a temporary directory");
        let store = Store::open_unserved(dir.path(), JOURNAL).expect("a new store");
        let mut draft = store.begin().expect("nobody else has it");
        for role in roles() {
            let object = |number: u32| (number.to_be_bytes().to_vec(), vec![number as u8; 40]);
            let changes = Changes { put: (0..40).map(object).collect(), removed: vec![] };
            let image = Image { upto: RecordSeq(5), changes, rest: (0..4).map(object).collect() };
            draft.put(role, 0, image).expect("there is room");
        }
        draft.commit(Lsn(3)).expect("there is room");
        let file = store.file().to_owned();
        drop(store);
        fs::read(file).expect("the store's file")
    })
}

fn roles() -> [NodeId; 2] {
    [NodeId::shard(ShardId(0)), NodeId::data(0)]
}

/// The store of a checkpoint of which some bytes are others, or that ends somewhere.
pub fn checkpoints(input: &[u8]) {
    quiet();
    let (whole, file) = (store(), stored());
    let (mut len, mut patched) = (whole.len(), vec![]);
    let mut cut = Cut(input);
    while !cut.is_empty() {
        let at = u32::from_le_bytes(cut.array()) as usize % len.max(1);
        let patch = usize::from(cut.byte());
        if patch == 0 {
            len = at;
            file.set_len(len as u64).expect("a temporary file");
            continue;
        }
        let patch = cut.bytes(patch);
        let end = len.min(at + patch.len());
        file.write_all_at(&patch[..end - at], at as u64).expect("a temporary file");
        patched.push(at..end);
    }
    at_most(STORE_BYTES, || look(scratch().path()));
    // A look changes nothing: what was patched is all that has to be put back.
    file.write_all_at(&whole[len..], len as u64).expect("a temporary file");
    for range in patched {
        file.write_all_at(&whole[range.clone()], range.start as u64).expect("a temporary file");
    }
}

/// The file of [`store`], where it is looked at.
fn stored() -> &'static File {
    static FILE: OnceLock<File> = OnceLock::new();
    FILE.get_or_init(|| {
        let path = scratch().path().join("objects.redb");
        fs::write(&path, store()).expect("a temporary file");
        File::options().write(true).open(path).expect("it was made just now")
    })
}

fn look(dir: &Path) {
    let Ok(Some(store)) = Store::look(dir, 1, JOURNAL) else { return };
    let _head = store.head();
    let ranges = store.ranges().unwrap_or_default();
    for role in roles() {
        let _objects = store.objects(role, &mut |_, _| Ok(()));
        for (_, range) in ranges.keys().filter(|(of, _)| *of == role) {
            let _rest = store.rest(role, *range, &mut |_, _| Ok(()));
        }
    }
    let _all = store.frozen().and_then(|frozen| frozen.all(&mut |_, _| Ok(())));
}

/// A panic of the store's library is caught where the store is used, and is no finding: it is not told. One that is not caught ends the
/// process anyhow.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            let of_the_library = panic.location().is_some_and(|place| place.file().contains("redb"));
            if !of_the_library {
                eprintln!("{panic}\n{}", std::backtrace::Backtrace::force_capture());
            }
        }));
    });
}
