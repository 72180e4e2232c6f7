//! What a home remembers of the writes that data nodes answer by themselves. Nothing makes such records yet: these are made by hand.

use super::*;
use onpath_store::{Image, StoreError};
use onpath_wire::data::Answered;
use onpath_wire::disk::inode::Refused;
use onpath_wire::disk::record::Answer;
use onpath_wire::ids::LogSeq;
use onpath_wire::limits::REFUSED_MAX;

/// The journal of a shard that has made a file, and what is recorded of the file then.
struct Journal {
    records: Vec<(RecordSeq, Vec<u8>)>,
    file: DataId,
}

const NODE: fn() -> NodeId = || NodeId::data(0);

impl Journal {
    fn new() -> Journal {
        let mut alone = Alone::new();
        let file = alone.create(1);
        Journal { records: alone.journal, file }
    }

    /// Adds a record of the shard's own work at a time.
    fn add(&mut self, stamp: u64, effect: Effect) {
        let (session, request, oldest) = (SessionId(0), RequestSeq(0), RequestSeq(0));
        let (answer, effects) = (Answer::Nothing, vec![effect]);
        let record = Record { stamp: Stamp(stamp), session, request, oldest, uid: 0, answer, effects };
        let (RecordSeq(last), _) = *self.records.last().expect("the file was made");
        self.records.push((RecordSeq(last + 1), record.to_stored()));
    }

    /// Several writes: the first one follows `base`, the data node has given the last one `stamp`.
    fn merged(&mut self, base: u64, last: u64, stamp: u64, refused: impl IntoIterator<Item = u64>) {
        let data = self.file;
        let refused = Refused::of(refused.into_iter().map(LogSeq).collect()).expect("few, in order");
        let (base, last, newest) = (Some(LogSeq(base)), Some(LogSeq(last)), Some(Stamp(stamp)));
        let effect = Effect::Merged {
            data,
            cut: 0,
            size: last.map_or(0, |last| last.0),
            blocks: 1,
            version: self.records.len() as u64,
            kill_suidgid: false,
            base,
            last,
            stamp: newest,
            refused,
        };
        self.add(2_000_000 + self.records.len() as u64, effect);
    }

    /// A write that its home has answered.
    fn one_write(&mut self, stamp: u64) {
        let (data, version) = (self.file, self.records.len() as u64);
        let (base, last, newest, refused) = (None, None, None, None);
        let (cut, size, blocks, kill_suidgid) = (0, 9, 1, false);
        let effect =
            Effect::Merged { data, cut, size, blocks, version, kill_suidgid, base, last, stamp: newest, refused };
        self.add(stamp, effect);
    }

    fn floor(&mut self, upto: u64) {
        self.add(2_000_000, Effect::Floor { from: NODE(), upto: LogSeq(upto) });
    }

    /// A shard that has replayed the first records.
    fn replayed(&self, records: usize) -> Result<Shard, StoreError> {
        let mut shard = Shard::new(config(Term(TERM.0 + 1)));
        self.records[..records].iter().try_for_each(|(seq, record)| shard.replay(*seq, record))?;
        Ok(shard)
    }

    fn all(&self) -> Shard {
        self.replayed(self.records.len()).expect("own records apply")
    }

    /// What images have of a shard that has replayed so many records, and was not started.
    fn images(&self, shard: &mut Shard, records: usize) -> Vec<Image> {
        let upto = self.records[..records].last().map_or(RecordSeq(0), |(seq, _)| *seq);
        (0..shard.ranges()).map(|range| Image { upto, ..shard.image(range) }).collect()
    }

    fn refusal(&self) -> String {
        match self.replayed(self.records.len()) {
            Ok(_) => panic!("the last record was applied"),
            Err(error @ StoreError::Contradiction(_)) => error.to_string(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn inode(shard: &Shard, file: DataId) -> Inode {
    shard.survey().inodes.into_iter().find(|inode| inode.id == file.inode).expect("the file is here")
}

/// What is remembered of the file's writes: up to where, and which were refused.
fn known(shard: &Shard, file: DataId) -> (Option<u64>, Vec<u64>) {
    let inode = inode(shard, file);
    let refused = inode.refused.iter().flat_map(Refused::positions).map(|position| position.0);
    (inode.merged.map(|upto| upto.0), refused.collect())
}

fn load(shard: &mut Shard, images: &[Image]) {
    for (range, image) in (0..).zip(images) {
        shard.loaded(range, image.upto);
        image.rest.iter().for_each(|(key, value)| shard.load(range, key, value).expect("own objects load"));
        image.changes.put.iter().for_each(|(key, value)| shard.load_object(key, value).expect("own objects load"));
    }
}

const FAR: u64 = 1 << 50;

#[test]
fn what_is_known_of_writes_grows_with_their_records() {
    let mut journal = Journal::new();
    journal.merged(0, 7, 3_000_000, [3, 5]);
    assert_eq!(known(&journal.all(), journal.file), (Some(7), vec![3, 5]));
    journal.merged(7, FAR, 3_000_001, [FAR - 1]);
    assert_eq!(known(&journal.all(), journal.file), (Some(FAR), vec![3, 5, FAR - 1]));
    // One that begins with what is known already, and adds nothing.
    journal.merged(2, 5, 3_000_002, [3]);
    assert_eq!(known(&journal.all(), journal.file), (Some(FAR), vec![3, 5, FAR - 1]));
    // One without positions, and another change of the inode, leave it.
    journal.one_write(4_000_000);
    journal.add(4_000_000, Effect::Accessed { id: journal.file.inode, atime: 77 });
    journal.add(4_000_000, Effect::PutInode { inode: Inode { mode: 0o600, ..inode(&journal.all(), journal.file) } });
    let shard = journal.all();
    assert_eq!(known(&shard, journal.file), (Some(FAR), vec![3, 5, FAR - 1]));
    let inode = inode(&shard, journal.file);
    assert_eq!((inode.mode, inode.size, inode.atime), (0o600, 9, 77));
    let told = shard.inspect(journal.file.inode);
    assert_eq!(told, [("writes_known_upto", FAR), ("writes_refused", 3)]);
}

/// mtime and ctime are the highest stamp of the data node, unless a later change here has set one (V-7); and what changes later is later.
#[test]
fn times_follow_the_writes_and_never_go_back() {
    let mut journal = Journal::new();
    let times = |journal: &Journal| {
        let inode = inode(&journal.all(), journal.file);
        (inode.mtime, inode.ctime)
    };
    let made = times(&journal);
    journal.merged(0, 1, 5, []);
    assert_eq!(times(&journal), made, "written before it was made, as clocks differ");
    journal.merged(1, 2, 9_000_000, []);
    assert_eq!(times(&journal), (9_000_000, 9_000_000));
    let set =
        Inode { mtime: 7, mtime_stamp: Stamp(9_000_002), ctime: 9_000_002, ..inode(&journal.all(), journal.file) };
    journal.add(9_000_002, Effect::PutInode { inode: set });
    journal.merged(2, 3, 9_000_001, []);
    assert_eq!(times(&journal), (7, 9_000_002), "written before the time was set");
    journal.merged(3, 4, 9_000_003, []);
    assert_eq!(times(&journal), (9_000_003, 9_000_003));
    let mut alone = Alone::new();
    (alone.shard, alone.now.wall_ns) = (journal.all(), 9_000_000);
    alone.shard.start(alone.now, Birth(9));
    let stamps = |alone: &mut Alone| {
        alone.outputs();
        alone.records.last().expect("a record").stamp
    };
    alone.shard.reserve(Counter::Births, 1 << 10);
    assert!(stamps(&mut alone) > Stamp(9_000_003), "the clock has followed");
}

#[test]
fn a_record_that_leaves_writes_out_is_refused() {
    let mut journal = Journal::new();
    journal.merged(0, 7, 1, []);
    journal.merged(8, 9, 1, []);
    let refusal = journal.refusal();
    assert!(refusal.contains("contradicts") && refusal.contains("after position 8, of which 7 are known"), "{refusal}");
    journal.records.pop();
    journal.floor(8);
    journal.merged(8, 9, 1, []);
    assert_eq!(known(&journal.all(), journal.file), (Some(9), vec![]), "all up to the floor are known");
}

#[test]
fn positions_that_cannot_be_are_refused() {
    for (base, last, refused) in [(5, 4, None), (2, 4, Some(2)), (2, 4, Some(5))] {
        let mut journal = Journal::new();
        journal.merged(0, 5, 1, []);
        journal.merged(base, last, 1, refused);
        assert!(journal.refusal().contains("do not follow one another"), "{base} {last} {refused:?}");
    }
    let mut journal = Journal::new();
    let data = journal.file;
    let (base, last, stamp, refused) = (Some(LogSeq(1)), None, None, None);
    let (cut, size, blocks, version, kill_suidgid) = (0, 9, 1, 1, false);
    journal.add(5, Effect::Merged { data, cut, size, blocks, version, kill_suidgid, base, last, stamp, refused });
    assert!(journal.refusal().contains("without the position of the last one"));
}

/// More refused writes than a home remembers are never recorded: who would forget one would call it done.
#[test]
fn refused_writes_are_bounded_until_they_are_forgotten() {
    let mut journal = Journal::new();
    let most = REFUSED_MAX as u64;
    journal.merged(0, most, 1, 1..=most);
    assert_eq!(known(&journal.all(), journal.file).1.len(), REFUSED_MAX);
    journal.merged(most, most + 1, 1, [most + 1]);
    let refusal = journal.refusal();
    assert!(refusal.contains("list of refused writes is 65 long, at most 64 allowed"), "{refusal}");
    journal.records.pop();
    journal.floor(1);
    journal.merged(most, most + 1, 1, [most + 1]);
    assert_eq!(known(&journal.all(), journal.file), (Some(most + 1), (2..=most + 1).collect()));
}

#[test]
fn a_floor_forgets_and_is_never_lowered() {
    let mut journal = Journal::new();
    journal.merged(0, 7, 1, [3, 5]);
    journal.add(1, Effect::Floor { from: NodeId::data(1), upto: LogSeq(FAR) });
    journal.add(1, Effect::Floor { from: NodeId::shard(ShardId(1)), upto: LogSeq(FAR) });
    assert_eq!(known(&journal.all(), journal.file), (Some(7), vec![3, 5]), "of others");
    journal.floor(4);
    assert_eq!(known(&journal.all(), journal.file), (Some(7), vec![5]));
    journal.floor(7);
    journal.floor(6);
    let shard = journal.all();
    assert_eq!(known(&shard, journal.file), (None, vec![]));
    assert_eq!(shard.survey().floors[&NODE()], LogSeq(7));
    assert_eq!(shard.inspect(journal.file.inode), []);
    // What is below is known already, whatever a late record says.
    journal.merged(0, 6, 1, [2]);
    assert_eq!(known(&journal.all(), journal.file), (None, vec![]));
}

/// From any record on, with images of different ages, and of all that a checkpoint has.
#[test]
fn what_is_known_of_writes_survives_images_and_replays() {
    let mut journal = Journal::new();
    journal.merged(0, 7, 3_000_000, [3, 5]);
    journal.one_write(3_000_001);
    journal.floor(4);
    journal.merged(7, 9, 5_000_000, [8]);
    journal.floor(7);
    journal.merged(9, FAR, 5, [FAR]);
    journal.floor(8);
    let mut lived = journal.all();
    let wanted = lived.survey();
    assert_eq!(known(&lived, journal.file), (Some(FAR), vec![FAR]));
    let whole = journal.images(&mut lived, journal.records.len());
    for older in 0..=journal.records.len() {
        for newer in older..=journal.records.len() {
            let [mut first, mut second] = [older, newer].map(|n| journal.replayed(n).expect("own records apply"));
            // Any range is imaged before the global one; that of the file is the older one, or as old.
            let mut mixed = journal.images(&mut first, older);
            let global = mixed.len() - 1;
            mixed[global] = journal.images(&mut second, newer).pop().expect("the global range");
            let mut again = Shard::new(config(Term(TERM.0 + 1)));
            load(&mut again, &mixed);
            journal.records.iter().for_each(|(seq, record)| again.replay(*seq, record).expect("own records apply"));
            assert_eq!(again.survey(), wanted, "images of {older} and {newer} records");
            assert_eq!(again.image(global as u32).rest, whole[global].rest, "images of {older} and {newer} records");
        }
    }
    let mut loaded = Shard::new(config(Term(TERM.0 + 1)));
    load(&mut loaded, &whole);
    assert_eq!(loaded.survey(), wanted);
}

/// V-12: what a data node tells of many files at once is a record, and is learned once.
#[test]
fn many_files_are_learned_by_one_record() {
    const FILES: u64 = 130;
    let mut alone = Alone::new();
    let mut files: Vec<DataId> = (1..=FILES).map(|number| alone.create(number)).collect();
    files.sort_unstable();
    let writes = |data, cut, last| Answered {
        data,
        cut,
        end: last,
        blocks: 1,
        version: last,
        kill_suidgid: false,
        last: LogSeq(last),
        stamp: Stamp(last),
    };
    let mut tell = |seq, all: Vec<Answered>| {
        let before = alone.journal.len();
        alone.hear(MessageKind::Data, NODE(), RequestSeq(seq), &Merge::Answered { all });
        (alone.last.take(), alone.journal.len() - before)
    };
    let all: Vec<Answered> = files.iter().map(|data| writes(*data, 0, 100)).collect();
    assert_eq!(tell(1, all.clone()), (Some(Peer::Done), 2), "128 files, and 2");
    assert_eq!(tell(2, all), (Some(Peer::Done), 0));
    // Those of a cut that the file does not have come behind, as others of the same file would: each sees what the one before has done.
    let of_one = vec![writes(files[0], 0, 200), writes(files[0], 1, 300), writes(files[1], 0, 400)];
    assert_eq!(tell(3, of_one), (Some(Peer::Done), 2));
    let forgotten = DataId { generation: Generation(1 << 32 | 7), ..files[2] };
    assert_eq!(tell(4, vec![writes(forgotten, 0, 1), writes(files[3], 0, 500)]), (Some(Peer::Void), 1));
    let sizes = [0, 1, 2, 3].map(|at: usize| alone.inode(files[at].inode).size);
    assert_eq!(sizes, [200, 400, 100, 500]);
}

/// A data node forgets writes that it hears are learned: that is not said again before what says so is on stable storage.
#[test]
fn what_was_learned_is_known_when_that_is_durable() {
    let mut alone = Alone::of(ShardConfig { track_unsynced: true, ..config(TERM) });
    let data = alone.create(1);
    let all = vec![Answered {
        data,
        cut: 0,
        end: 7,
        blocks: 1,
        version: 9,
        kill_suidgid: false,
        last: LogSeq(9),
        stamp: Stamp(9),
    }];
    let mut tell = |seq| {
        alone.hear(MessageKind::Data, NODE(), RequestSeq(seq), &Merge::Answered { all: all.clone() });
        (alone.last.take(), alone.after)
    };
    let (told, first) = tell(1);
    assert!(told == Some(Peer::Done) && first > RecordSeq(0), "{told:?} after {first:?}");
    assert_eq!(tell(2), (Some(Peer::Done), first));
}
