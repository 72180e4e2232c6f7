//! Records that decode and that no shard has written: they are refused, and nothing else happens.

use crate::config;
use onpath_kernel::Now;
use onpath_meta::{GLOBAL_RANGE, Shard};
use onpath_store::Recoverable;
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::objects::{ClockObject, PreparedObject};
use onpath_wire::disk::record::{Answer, Counter, Effect, Log, Record};
use onpath_wire::disk::txn::{Change, Found, Part};
use onpath_wire::ids::{
    Birth, DataId, Generation, InodeId, LogSeq, RecordSeq, RequestSeq, SessionId, ShardId, Slot, Stamp, Term, TxnId,
    TxnSeq,
};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use onpath_wire::peer::PartState;
use onpath_wire::reply::DataRef;
use onpath_wire::{AttrWire, Stored, Wire};

/// Classes of objects.
const PREPARED: u8 = 20;
const CLOCK: u8 = 24;

fn id(count: u16, kind: Kind) -> InodeId {
    InodeId::new(Slot(7), Birth(1), count, kind)
}

fn put(parent: InodeId, child: InodeId, seq: u64, dcount: i8) -> Effect {
    let (name, log) = (Name::new(b"name").expect("a name"), Log { seq: LogSeq(seq), dcount, dnlink: 0 });
    Effect::PutName { parent, name, child, kind: Kind::File, log }
}

fn inode(id: InodeId, kind: Kind, change: impl FnOnce(&mut Inode)) -> Effect {
    let mut inode = Inode::new(id, kind);
    change(&mut inode);
    Effect::PutInode { inode }
}

fn record(effect: &Effect) -> Record {
    Record {
        stamp: Stamp(1),
        session: SessionId(0),
        request: RequestSeq(0),
        oldest: RequestSeq(0),
        uid: 0,
        answer: Answer::Nothing,
        effects: [effect.clone()].into_iter().collect(),
    }
}

/// What becomes of the last of these effects; the others are taken.
fn replayed(effects: &[Effect]) -> Result<(), String> {
    let mut shard = Shard::new(config(Term(2)));
    let (last, before) = effects.split_last().expect("effects");
    let mut seqs = (1..).map(RecordSeq);
    for effect in before {
        shard.replay(seqs.next().expect("numbers"), &record(effect).to_stored()).expect("an effect of before");
    }
    shard.replay(seqs.next().expect("numbers"), &record(last).to_stored()).map_err(|error| error.to_string())
}

#[track_caller]
fn refused(effects: &[Effect], why: &str) {
    let error = replayed(effects).expect_err("a record that no shard writes");
    assert!(error.contains("contradicts the state") && error.contains(why), "{error}");
}

#[test]
fn names_without_inodes_and_change_logs_in_disorder_are_refused() {
    let (dir, file) = (id(1, Kind::Directory), id(2, Kind::File));
    refused(&[put(InodeId::NONE, file, 0, 1)], "without a number");
    refused(&[put(dir, InodeId::NONE, 9, 1)], "without a number");
    assert_eq!(replayed(&[put(dir, file, 9, 1), put(dir, file, 10, 1)]), Ok(()));
    refused(&[put(dir, file, 9, 1), put(dir, file, 9, 1)], "positions grow");
}

#[test]
fn counts_that_a_directory_cannot_have_are_refused() {
    let (dir, file) = (id(1, Kind::Directory), id(2, Kind::File));
    let is_there = inode(dir, Kind::Directory, |dir| dir.entries = 1);
    let applied = |dcount, dnlink| Effect::AppliedLog {
        dir,
        from: ShardId(1),
        upto: LogSeq(1),
        entries: vec![],
        dcount,
        dnlink,
        stamp: Stamp(1),
    };
    assert_eq!(replayed(&[is_there.clone(), applied(-1, 5)]), Ok(()));
    for (dcount, dnlink) in [(-2, 0), (0, -3), (0, i64::MAX), (i64::MAX, i64::MIN), (0, 1 << 32)] {
        refused(&[is_there.clone(), applied(dcount, dnlink)], "links more");
    }
    refused(&[is_there, put(dir, file, 0, -2)], "links more");
    refused(&[inode(file, Kind::File, |_| ()), put(file, dir, 0, 1)], "links more");
}

#[test]
fn inodes_that_there_cannot_be_are_refused() {
    let file = id(2, Kind::File);
    for change in [
        (|file| file.mode = 0x1000) as fn(&mut Inode),
        |file| file.target.0 = vec![b'x'],
        |file| file.name = Some(Name::new(b"x").expect("a name")),
        |file| file.id = InodeId::NONE,
    ] {
        let error = replayed(&[inode(file, Kind::File, change)]).expect_err("an inode that no shard makes");
        assert!(error.contains("inode of a record"), "{error}");
    }
}

#[test]
fn files_larger_than_there_are_are_refused() {
    let file = id(2, Kind::File);
    refused(&[inode(file, Kind::File, |file| file.blocks = u64::MAX)], "blocks");
    let data = DataId { inode: file, generation: Generation(1) };
    refused(&[Effect::DataDone { data, cut: 0, drop: false, blocks: u64::MAX, version: 9 }], "blocks");
}

#[test]
fn a_transaction_is_prepared_once() {
    let txn = TxnId { coordinator: ShardId(1), seq: TxnSeq(4) };
    let prepared = Effect::Prepared { txn, parts: vec![], found: vec![] };
    refused(&[prepared.clone(), prepared], "twice");
}

/// A clock that has followed it gave out its stamps from 0 on again.
#[test]
fn stamps_that_no_clock_gives_are_refused() {
    let reserved = record(&Effect::Reserved { counter: Counter::Births, upto: 3 });
    let file = id(2, Kind::File);
    let merged = |stamp| Effect::Merged {
        data: DataId { inode: file, generation: Generation(1) },
        cut: 0,
        size: 1,
        blocks: 1,
        version: 1,
        kill_suidgid: false,
        base: None,
        last: Some(LogSeq(7)),
        stamp: Some(stamp),
        refused: None,
    };
    let last = Stamp(i64::MAX as u64);
    for (stamp, taken) in [(last, true), (Stamp(last.0 + 1), false), (Stamp(u64::MAX), false)] {
        let mut shard = Shard::new(config(Term(2)));
        let replayed = shard.replay(RecordSeq(1), &Record { stamp, ..reserved.clone() }.to_stored());
        assert_eq!(replayed.is_ok(), taken);
        assert_eq!(shard.replay(RecordSeq(2), &record(&merged(stamp)).to_stored()).is_ok(), taken);
        let loaded = Shard::new(config(Term(2))).load(GLOBAL_RANGE, &[CLOCK], &ClockObject { last: stamp }.to_stored());
        assert_eq!(loaded.is_ok(), taken);
        shard.start(Now { mono_us: 1, wall_ns: 1_000_000 }, Birth(4));
    }
    // What is known of a file's writes is later than its last change, if anything is.
    let mut shard = Shard::new(config(Term(2)));
    let changed = inode(file, Kind::File, |file| file.ctime = i64::MAX);
    for (seq, effect) in (1..).zip([changed, merged(Stamp(5))]) {
        shard.replay(RecordSeq(seq), &record(&effect).to_stored()).expect("in order");
    }
    let mut again = Shard::new(config(Term(2)));
    let pairs = shard.image(GLOBAL_RANGE).rest;
    pairs.iter().for_each(|(key, value)| again.load(GLOBAL_RANGE, key, value).expect("what is written is read"));
}

/// The decision would have been carried out by half.
#[test]
fn a_transaction_is_prepared_with_what_was_asked() {
    let (file, txn) = (id(2, Kind::File), TxnId { coordinator: ShardId(1), seq: TxnSeq(4) });
    let asked = Part::Inode { id: file, change: Change::Link { parent: InodeId::ROOT }, sticky: None };
    let there = |id| {
        let attr = AttrWire::of(&Inode::new(id, Kind::File));
        Found::from(PartState::Inode { attr, data: DataRef::default() })
    };
    let name = Found::Source { child: file, kind: Kind::File, sticky: None };
    let prepared = |found: &[Found]| Effect::Prepared { txn, parts: vec![asked.clone()], found: found.to_vec() };
    assert_eq!(replayed(&[prepared(&[there(file)])]), Ok(()));
    for found in [&[][..], &[name], &[there(id(3, Kind::File))], &[there(file), there(file)]] {
        refused(&[prepared(found)], "without what was asked");
        let key = [&[PREPARED][..], &txn.to_bytes()].concat();
        let object = PreparedObject { parts: vec![asked.clone()], found: found.to_vec() }.to_stored();
        assert!(Shard::new(config(Term(2))).load(GLOBAL_RANGE, &key, &object).is_err());
    }
}

/// All are used up, and none is given out again.
#[test]
fn no_session_comes_after_the_last_number() {
    let mut shard = Shard::new(config(Term(2)));
    let reserved = Effect::Reserved { counter: Counter::Sessions, upto: u64::MAX };
    shard.replay(RecordSeq(1), &record(&reserved).to_stored()).expect("a number");
    shard.start(Now { mono_us: 1, wall_ns: 1_000_000 }, Birth(1));
    assert_eq!((shard.take_sessions(3), shard.take_resident()), (vec![], None));
}
