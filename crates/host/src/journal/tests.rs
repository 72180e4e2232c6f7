//! The journal on real files: appends, flushes, recovery, torn ends and damage.

use super::*;
use crate::progress::tests::Noted;
use crate::progress::{Unit, Watcher};
use onpath_store::StoreError;
use onpath_store::batch::BatchBuilder;
use onpath_wire::disk::superblock::JournalId;
use onpath_wire::ids::{RecordSeq, ShardId};
use std::os::unix::fs::FileExt;
use std::sync::Condvar;

const JOURNAL: JournalId = JournalId { fsid: 0xf51d, number: 1, created: 5 };

fn options(segment_bytes: u64, commit: Commit) -> Options {
    Options { segment_bytes, commit, journal: JOURNAL }
}

#[derive(Default)]
struct Watch {
    durable: Mutex<Lsn>,
    came: Condvar,
    data_error: AtomicBool,
    failures: Mutex<Vec<String>>,
}

impl JournalEvents for Watch {
    fn flush_data(&self) -> io::Result<()> {
        if self.data_error.load(Ordering::Acquire) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(())
    }
    fn durable(&self, lsn: Lsn) {
        *self.durable.lock().unwrap() = lsn;
        self.came.notify_all();
    }
    fn space(&self, _full: bool) {}
    fn failed(&self, why: &str) {
        self.failures.lock().unwrap().push(why.into());
    }
}

type Records = Vec<(NodeId, RecordSeq, Vec<u8>)>;

fn open(dir: &Path, segment_bytes: u64, from: u64) -> Result<(Journal, RecoveryReport, Records), JournalError> {
    let mut records = vec![];
    let mut replay = |role: NodeId, seq: RecordSeq, bytes: &[u8]| {
        records.push((role, seq, bytes.to_vec()));
        Ok(())
    };
    let (journal, report) = Journal::recover(dir, options(segment_bytes, Commit::Interval(5)), Lsn(from), &mut replay)?;
    Ok((journal, report, records))
}

fn append(journal: &Journal, n: u64, bytes: usize) -> Lsn {
    let mut batch = BatchBuilder::default();
    batch.push(RecordSeq(n), &vec![n as u8; bytes]);
    let lsn = journal.append(NodeId::shard(ShardId(n as u16 % 3)), &mut batch).unwrap();
    assert!(batch.is_empty());
    lsn
}

fn expect(records: &Records, numbers: std::ops::RangeInclusive<u64>, bytes: usize) {
    let got: Vec<u64> = records.iter().map(|r| r.1.0).collect();
    assert_eq!(got, numbers.collect::<Vec<_>>());
    for (role, seq, record) in records {
        assert_eq!(*role, NodeId::shard(ShardId(seq.0 as u16 % 3)));
        assert_eq!(*record, vec![seq.0 as u8; bytes]);
    }
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "seg"));
    paths.sort();
    paths
}

#[test]
fn what_was_appended_survives_a_kill_without_a_flush() {
    let tmp = tempfile::tempdir().unwrap();
    let (journal, report, _) = open(tmp.path(), 1 << 16, 0).unwrap();
    assert_eq!(report, RecoveryReport::default());
    (1..=50).for_each(|n| assert_eq!(append(&journal, n, 100), Lsn(n)));
    assert_eq!(journal.durable(), Lsn(0));
    drop(journal);
    let (journal, report, records) = open(tmp.path(), 1 << 16, 0).unwrap();
    expect(&records, 1..=50, 100);
    assert_eq!((report.batches, report.records, report.last, &report.tail_cut), (50, 50, Lsn(50), &None));
    assert_eq!(journal.durable(), Lsn(50), "recovery makes durable what it keeps");
    assert_eq!(append(&journal, 51, 100), Lsn(51));
    drop(journal);
    let (_, report, records) = open(tmp.path(), 1 << 16, 41).unwrap();
    expect(&records, 41..=51, 100);
    assert_eq!(report.skipped, 40);
}

/// Takes everything, and has somebody watch.
struct Watched(Noted);

impl Replay for Watched {
    fn record(&mut self, _role: NodeId, _seq: RecordSeq, _record: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }
    fn watcher(&self) -> &dyn Watcher {
        &self.0
    }
}

/// What is not written yet of the last segment is no part of the whole: so at the end all is done.
#[test]
fn a_watcher_is_told_of_all_that_is_read() {
    let tmp = tempfile::tempdir().unwrap();
    let (journal, _, _) = open(tmp.path(), 1 << 16, 0).unwrap();
    (1..=100).for_each(|n| _ = append(&journal, n, 1_000));
    drop(journal);
    let mut watched = Watched(Noted::default());
    let options = options(1 << 16, Commit::Interval(5));
    let (_, report) = Journal::recover(tmp.path(), options, Lsn(0), &mut watched).unwrap();
    let [(stage, done)] = watched.0.stages()[..] else { panic!("{:?}", watched.0.stages()) };
    assert_eq!((stage.doing, stage.unit), ("replaying the journal", Unit::Bytes));
    assert_eq!(stage.whole, Some(done));
    assert!(done >= report.bytes && done < report.bytes + 2 * 4096, "{done}, {report:?}");
}

#[test]
fn segments_roll_are_prepared_ahead_and_recycled() {
    let tmp = tempfile::tempdir().unwrap();
    let watch = Arc::new(Watch::default());
    let (journal, _, _) = open(tmp.path(), 1 << 16, 0).unwrap();
    journal.start(watch.clone());
    (1..=600).for_each(|n| _ = append(&journal, n, 1000));
    assert_eq!(journal.flush_wait().unwrap(), Lsn(600));
    let told = watch.durable.lock().unwrap();
    drop(watch.came.wait_while(told, |told| *told < Lsn(600)).unwrap());
    assert!(journal.status().segments >= 9, "{:?}", journal.status());
    let before = journal.status().segments;
    journal.release(Lsn(500));
    assert_eq!(journal.status().segments, before - 8);
    (601..=1200).for_each(|n| _ = append(&journal, n, 1000));
    journal.close().unwrap();
    drop(journal);
    assert!(matches!(open(tmp.path(), 1 << 16, 0), Err(JournalError::Missing { .. })));
    let (_, report, records) = open(tmp.path(), 1 << 16, 500).unwrap();
    expect(&records, 500..=1200, 1000);
    assert!(report.tail_cut.is_none(), "{report:?}");
}

#[test]
fn a_batch_larger_than_a_segment_gets_its_own() {
    let tmp = tempfile::tempdir().unwrap();
    let (journal, _, _) = open(tmp.path(), 1 << 16, 0).unwrap();
    journal.start(Arc::new(Watch::default()));
    append(&journal, 1, 200_000);
    append(&journal, 2, 200_000);
    drop(journal);
    let (_, _, records) = open(tmp.path(), 1 << 16, 0).unwrap();
    expect(&records, 1..=2, 200_000);
}

/// The last segment with batches, and the offset at which its `n`-th batch of `bytes`-byte records begins.
fn place(dir: &Path, n: usize, bytes: usize) -> (std::fs::File, PathBuf, u64) {
    let path = segments(dir)[0].clone();
    let each = (batch::HEADER_BYTES + 4 + bytes).next_multiple_of(8);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    (file, path, (segment::HEADER_BYTES + n * each) as u64)
}

#[test]
fn a_torn_tail_is_cut_for_good() {
    let tmp = tempfile::tempdir().unwrap();
    let (journal, _, _) = open(tmp.path(), 1 << 16, 0).unwrap();
    (1..=10).for_each(|n| _ = append(&journal, n, 100));
    drop(journal);
    let (file, path, offset) = place(tmp.path(), 7, 100);
    file.write_all_at(b"torn", offset + 60).unwrap();
    let (journal, report, records) = open(tmp.path(), 1 << 16, 0).unwrap();
    expect(&records, 1..=7, 100);
    assert_eq!(report.tail_cut, Some(TailCut { file: path, offset, why: "checksum mismatch".into() }));
    assert_eq!(append(&journal, 8, 50), Lsn(8));
    drop(journal);
    let (_, report, records) = open(tmp.path(), 1 << 16, 0).unwrap();
    assert_eq!((records.len(), records[7].2.len()), (8, 50), "the old eighth batch does not come back");
    assert!(report.tail_cut.is_none(), "{report:?}");
}

#[test]
fn damage_below_the_durable_lsn_is_refused_by_file_and_offset() {
    let tmp = tempfile::tempdir().unwrap();
    let (journal, _, _) = open(tmp.path(), 1 << 16, 0).unwrap();
    journal.start(Arc::new(Watch::default()));
    (1..=10).for_each(|n| _ = append(&journal, n, 100));
    journal.flush_wait().unwrap();
    append(&journal, 11, 100);
    journal.close().unwrap();
    drop(journal);
    let (file, path, offset) = place(tmp.path(), 4, 100);
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset + 70).unwrap();
    file.write_all_at(&[byte[0] ^ 1], offset + 70).unwrap();
    let error = open(tmp.path(), 1 << 16, 0).unwrap_err();
    let JournalError::Damage { file: named, offset: at, .. } = &error else { panic!("{error}") };
    assert_eq!((named, *at), (&path, offset));
    assert!(error.to_string().contains(&format!("offset {offset}")), "{error}");
    file.write_all_at(&byte, offset + 70).unwrap();
    assert_eq!(open(tmp.path(), 1 << 16, 0).unwrap().2.len(), 11);
}

#[test]
fn damage_in_an_earlier_segment_is_known_from_a_later_one() {
    let tmp = tempfile::tempdir().unwrap();
    let (journal, _, _) = open(tmp.path(), 1 << 16, 0).unwrap();
    journal.start(Arc::new(Watch::default()));
    for n in 1..=200 {
        append(&journal, n, 1000);
        if n == 150 {
            journal.flush_wait().unwrap();
        }
    }
    journal.close().unwrap();
    drop(journal);
    let first = segments(tmp.path())[0].clone();
    let file = std::fs::OpenOptions::new().write(true).open(&first).unwrap();
    file.set_len(5000).unwrap();
    assert!(matches!(open(tmp.path(), 1 << 16, 0), Err(JournalError::Damage { file, .. }) if file == first));
    std::fs::remove_file(&first).unwrap();
    assert!(matches!(open(tmp.path(), 1 << 16, 0), Err(JournalError::Missing { .. })));
    segments(tmp.path()).iter().for_each(|path| std::fs::remove_file(path).unwrap());
    assert!(matches!(open(tmp.path(), 1 << 16, 7), Err(JournalError::Missing { .. })));
}

#[test]
fn a_segment_of_another_file_system_is_refused() {
    let tmp = tempfile::tempdir().unwrap();
    let (journal, _, _) = open(tmp.path(), 1 << 16, 0).unwrap();
    (1..=3).for_each(|n| _ = append(&journal, n, 10));
    drop(journal);
    for (journal, says) in [
        (JournalId { fsid: 1, ..JOURNAL }, "another file system"),
        (JournalId { created: 6, ..JOURNAL }, "another journal"),
    ] {
        let other = Options { journal, ..options(1 << 16, Commit::Sync) };
        let mut replay = |_: NodeId, _: RecordSeq, _: &[u8]| Ok(());
        let error = Journal::recover(tmp.path(), other, Lsn(2), &mut replay).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// The oldest segments are used again, and then a power loss takes their new names and leaves their new headers.
#[test]
fn a_recycled_segment_under_its_old_name_is_passed_over() {
    let tmp = tempfile::tempdir().unwrap();
    let (journal, _, _) = open(tmp.path(), 1 << 16, 0).unwrap();
    journal.start(Arc::new(Watch::default()));
    (1..=300).for_each(|n| _ = append(&journal, n, 1000));
    journal.close().unwrap();
    drop(journal);
    let recycle = |old: &PathBuf| {
        let source = segment::Source::Old(old.clone());
        let new = segment::Segment::prepare(tmp.path(), 99, 1 << 16, JOURNAL, &source, false).unwrap();
        std::fs::rename(new.path, old).unwrap();
    };
    segments(tmp.path())[..2].iter().for_each(recycle);
    assert!(matches!(open(tmp.path(), 1 << 16, 0), Err(JournalError::Missing { .. })), "they were needed");
    let (journal, report, records) = open(tmp.path(), 1 << 16, 200).unwrap();
    expect(&records, 200..=300, 1000);
    assert!(report.tail_cut.is_none(), "{report:?}");
    journal.start(Arc::new(Watch::default()));
    (301..=400).for_each(|n| _ = append(&journal, n, 1000));
    journal.release(Lsn(200));
    journal.close().unwrap();
    drop(journal);
    expect(&open(tmp.path(), 1 << 16, 200).unwrap().2, 200..=400, 1000);
    segments(tmp.path()).iter().for_each(recycle);
    let error = open(tmp.path(), 1 << 16, 200).unwrap_err();
    assert!(error.to_string().contains("under another segment's name"), "{error}");
}

#[test]
fn an_error_of_a_flush_is_final() {
    let tmp = tempfile::tempdir().unwrap();
    let watch = Arc::new(Watch::default());
    let (journal, _, _) = open(tmp.path(), 1 << 16, 0).unwrap();
    journal.start(watch.clone());
    append(&journal, 1, 10);
    journal.flush_wait().unwrap();
    watch.data_error.store(true, Ordering::Release);
    append(&journal, 2, 10);
    assert!(matches!(journal.flush_wait(), Err(JournalError::Stopped(_))));
    watch.data_error.store(false, Ordering::Release);
    let mut batch = BatchBuilder::default();
    batch.push(RecordSeq(3), b"never");
    assert!(matches!(journal.append(NodeId(1), &mut batch), Err(JournalError::Stopped(_))));
    assert!(matches!(journal.flush_wait(), Err(JournalError::Stopped(_))));
    assert_eq!(journal.durable(), Lsn(1));
    drop(journal);
    let failures = watch.failures.lock().unwrap();
    assert!(failures.len() == 1 && failures[0].contains("Input/output error"), "{failures:?}");
}

#[test]
fn a_segment_missing_in_the_middle_is_no_torn_end() {
    let tmp = tempfile::tempdir().unwrap();
    let (journal, _, _) = open(tmp.path(), 1 << 16, 0).unwrap();
    journal.start(Arc::new(Watch::default()));
    for n in 1..=300 {
        append(&journal, n, 1000);
        if n == 250 {
            journal.flush_wait().unwrap();
        }
    }
    journal.close().unwrap();
    drop(journal);
    let (gone, after) = (segments(tmp.path())[1].clone(), segments(tmp.path())[2].clone());
    std::fs::remove_file(gone).unwrap();
    let error = open(tmp.path(), 1 << 16, 0).unwrap_err();
    assert!(matches!(error, JournalError::Missing { .. }), "{error}");
    assert!(error.to_string().contains(&format!("missing before {}", after.display())), "{error}");
}

#[test]
fn a_look_at_the_journal_changes_nothing() {
    let tmp = tempfile::tempdir().unwrap();
    let (journal, _, _) = open(tmp.path(), 1 << 16, 0).unwrap();
    (1..=5).for_each(|n| _ = append(&journal, n, 100));
    drop(journal);
    let (file, path, offset) = place(tmp.path(), 4, 100);
    file.write_all_at(b"torn", offset + 60).unwrap();
    std::fs::write(tmp.path().join("prepare-7.tmp"), "left behind").unwrap();
    let before: Vec<_> = segments(tmp.path()).iter().map(|segment| std::fs::read(segment).unwrap()).collect();
    let mut seen = 0;
    let mut replay = |_: NodeId, _: RecordSeq, _: &[u8]| {
        seen += 1;
        Ok(())
    };
    let report = inspect(tmp.path(), JOURNAL, Lsn(1), &mut replay).unwrap();
    let cut = report.tail_cut.expect("a torn end");
    assert_eq!((seen, report.last, cut.file, cut.offset), (4, Lsn(4), path, offset));
    let after: Vec<_> = segments(tmp.path()).iter().map(|segment| std::fs::read(segment).unwrap()).collect();
    assert!(before == after && tmp.path().join("prepare-7.tmp").exists());
    expect(&open(tmp.path(), 1 << 16, 0).unwrap().2, 1..=4, 100);
}

/// Takes windows, and refuses one record.
struct Windows {
    seen: Vec<u64>,
    refused: u64,
}

impl Replay for Windows {
    fn record(&mut self, _: NodeId, _: RecordSeq, _: &[u8]) -> Result<(), StoreError> {
        panic!("windows are taken whole");
    }

    fn window(&mut self, window: &[Given<'_>]) -> Result<(), (usize, StoreError)> {
        for (place, given) in window.iter().enumerate() {
            match *given {
                Given::Record(_, seq, _) if seq.0 == self.refused => {
                    return Err((place, StoreError::Contradiction("no".into())));
                }
                Given::Record(_, seq, _) => self.seen.push(seq.0),
                Given::Durable(..) => {}
            }
        }
        Ok(())
    }
}

#[test]
fn windows_have_everything_in_order_and_a_refusal_its_place() {
    let tmp = tempfile::tempdir().unwrap();
    let (journal, ..) = open(tmp.path(), 1 << 16, 0).unwrap();
    let ends: Vec<Lsn> = (0..100).map(|n| append(&journal, n, 2_000)).collect();
    assert_eq!(ends.len(), 100);
    drop(journal);
    let mut all = Windows { seen: vec![], refused: u64::MAX };
    inspect(tmp.path(), JOURNAL, Lsn(1), &mut all).unwrap();
    assert_eq!(all.seen, (0..100).collect::<Vec<_>>());
    let mut some = Windows { seen: vec![], refused: 50 };
    let error = inspect(tmp.path(), JOURNAL, Lsn(1), &mut some).unwrap_err();
    let JournalError::Replay { file, offset, .. } = error else { panic!("{error}") };
    assert_eq!(some.seen, (0..50).collect::<Vec<_>>());
    // The batch that ends there is the refused one, behind those of its segment that came before.
    let (head, batch_head) = (segment::HEADER_BYTES as u64, batch::HEADER_BYTES as u64);
    let length = (2_000 + 4 + batch_head).next_multiple_of(8);
    let before = segments(tmp.path()).iter().position(|path| *path == file).unwrap() as u64;
    let in_each = ((1 << 16) - head - batch_head) / length;
    assert_eq!(offset, head + (51 - before * in_each) * length);
}

/// What each role is told to have been durable, as last said.
#[derive(Default)]
struct Durable(std::collections::BTreeMap<NodeId, RecordSeq>);

impl Replay for Durable {
    fn record(&mut self, _role: NodeId, _seq: RecordSeq, _record: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }

    fn was_durable(&mut self, role: NodeId, seq: RecordSeq) {
        self.0.insert(role, seq);
    }
}

#[test]
fn every_role_hears_which_of_its_records_were_durable() {
    let tmp = tempfile::tempdir().unwrap();
    let (journal, ..) = open(tmp.path(), 1 << 16, 0).unwrap();
    journal.start(Arc::new(Watch::default()));
    (1..=10).for_each(|n| _ = append(&journal, n, 100));
    journal.flush_wait().unwrap();
    append(&journal, 11, 100); // it says so, and nothing says so of it
    drop(journal);
    let mut durable = Durable::default();
    inspect(tmp.path(), JOURNAL, Lsn(1), &mut durable).unwrap();
    let expected = [(0, 9), (1, 10), (2, 8)].map(|(shard, seq)| (NodeId::shard(ShardId(shard)), RecordSeq(seq)));
    assert_eq!(durable.0, expected.into());
}
