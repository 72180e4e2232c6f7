//! Batches that come back as they were written, and bytes that are none.

use super::*;
use onpath_wire::ids::ShardId;

const SALT: u32 = 0x5a17;

fn batch(lsn: u64, durable: u64, records: &[&[u8]]) -> Vec<u8> {
    let mut builder = BatchBuilder::default();
    for (i, record) in records.iter().enumerate() {
        builder.push(RecordSeq(lsn * 100 + i as u64), record);
    }
    builder.seal(NodeId::shard(ShardId(3)), Lsn(lsn), Lsn(durable), SALT);
    builder.bytes().to_vec()
}

#[test]
fn claims_need_no_salt_but_an_unbroken_run() {
    let run = [batch(7, 5, &[b"a"]), batch(8, 6, &[b"b"]), batch(9, 7, &[b"c"])].concat();
    assert!(claims_durable(&run, Lsn(7)));
    assert!(!claims_durable(&run, Lsn(8)), "nothing says that 8 was durable");
    assert!(!claims_durable(&run, Lsn(6)), "a run that begins later proves nothing about 6");
    let gap = [batch(7, 5, &[b"a"]), batch(9, 8, &[b"c"])].concat();
    assert!(!claims_durable(&gap, Lsn(7)));
    assert!(!claims_durable(&[0; 256], Lsn(1)) && !claims_durable(&[], Lsn(1)));
}

fn segment(durable_at_end: u64) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = vec![];
    let mut starts = vec![];
    for lsn in 1..=5 {
        starts.push(bytes.len());
        let durable = if lsn == 5 { durable_at_end } else { 0 };
        bytes.extend(batch(lsn, durable, &[b"first", &vec![lsn as u8; lsn as usize * 7], b""]));
    }
    starts.push(bytes.len());
    bytes.extend([0; 256]);
    (bytes, starts)
}

/// Number of batches before the end, and what the end is.
fn scan(bytes: &[u8]) -> (usize, Step<'_>) {
    let mut scanner = Scanner::new(bytes, SALT, Some(Lsn(1)));
    for n in 0.. {
        match scanner.step() {
            Step::Batch(batch) => assert_eq!(batch.lsn, Lsn(n as u64 + 1)),
            other => return (n, other),
        }
    }
    unreachable!()
}

/// A batch whose numbers are these: checksums are right.
fn numbered(lsn: u64, first: u64, records: u32) -> Vec<u8> {
    let payload = [0; 16];
    let header = Header {
        length: (HEADER_BYTES + payload.len()) as u32,
        lsn: Lsn(lsn),
        durable: Lsn(0),
        role: NodeId::shard(ShardId(3)),
        flags: 0,
        first: RecordSeq(first),
        records,
        crc: crc32c(&payload),
    };
    [&header.sealed(SALT)[..], &payload].concat()
}

#[test]
fn numbers_behind_which_there_are_no_more_are_refused() {
    let step = |lsn, first, records| {
        let bytes = numbered(lsn, first, records);
        let mut scanner = Scanner::new(&bytes, SALT, None);
        match scanner.step() {
            Step::Batch(batch) => Ok(batch.iter().last().map(|(seq, _)| seq)),
            Step::Tail { why, .. } => Err(why),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(step(1, 5, 4), Ok(Some(RecordSeq(8))));
    assert_eq!(step(u64::MAX, 5, 4), Err(Broken::Records), "no batch can follow");
    assert_eq!(step(1, u64::MAX - 3, 4), Err(Broken::Records), "no record can follow");
}

/// A batch without records says nothing of a role; only that which closes a segment has none.
#[test]
fn a_batch_without_records_is_refused() {
    let header = |flags| {
        let (length, role) = (HEADER_BYTES as u32, NodeId::shard(ShardId(3)));
        let first = RecordSeq(0);
        Header { length, lsn: Lsn(1), durable: Lsn(0), role, flags, first, records: 0, crc: crc32c(&[]) }.sealed(SALT)
    };
    assert_eq!(Scanner::new(&header(FLAG_END), SALT, None).step(), Step::End);
    let refused = Step::Tail { offset: 0, why: Broken::Records };
    assert_eq!(Scanner::new(&header(0), SALT, None).step(), refused);
}

#[test]
fn records_come_back_in_order() {
    let (bytes, starts) = segment(0);
    let mut scanner = Scanner::new(&bytes, SALT, None);
    let Step::Batch(first) = scanner.step() else { panic!("no batch") };
    assert_eq!((first.role, first.records), (NodeId::shard(ShardId(3)), 3));
    let records: Vec<_> = first.iter().collect();
    assert_eq!(
        records,
        [(RecordSeq(100), b"first".as_slice()), (RecordSeq(101), &[1u8; 7]), (RecordSeq(102), b"".as_slice())]
    );
    assert_eq!(scan(&bytes), (5, Step::Tail { offset: starts[5], why: Broken::Nothing }));
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_at_its_batch() {
    let (whole, starts) = segment(0);
    for cut in 0..starts[5] {
        let mut bytes = whole.clone();
        bytes[cut..].fill(0);
        let (n, end) = scan(&bytes);
        let Step::Tail { offset, .. } = end else { panic!("cut at {cut}: {end:?}") };
        // A cut inside the zeros that end a batch leaves the batch whole.
        assert_eq!(offset, starts[n]);
        assert!(starts[n] <= cut && (n == 5 || cut < starts[n + 1]) || whole[cut..starts[n]].iter().all(|&b| b == 0));
        let (n_short, end_short) = scan(&whole[..cut]);
        assert!(matches!(end_short, Step::Tail { offset, .. } if offset == starts[n_short]), "{end_short:?}");
    }
}

#[test]
fn a_flipped_byte_is_damage_below_the_durable_lsn_and_the_tail_above_it() {
    for durable in [0, 2, 4] {
        let (whole, starts) = segment(durable);
        for at in 0..starts[4] {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x40;
            let lsn = starts.iter().rposition(|&s| s <= at).unwrap() as u64 + 1;
            let (n, end) = scan(&bytes);
            assert_eq!(n as u64 + 1, lsn);
            let offset = starts[n];
            match end {
                Step::Damage { offset: o, .. } => assert!(o == offset && lsn <= durable, "byte {at}"),
                Step::Tail { offset: o, .. } => assert!(o == offset && lsn > durable, "byte {at}"),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_missing_batch_is_a_gap() {
    let mut bytes = batch(1, 0, &[b"a"]);
    let offset = bytes.len();
    bytes.extend(batch(3, 0, &[b"c"]));
    let why = Broken::Gap { found: Lsn(3), expected: Lsn(2) };
    assert_eq!(scan(&bytes), (1, Step::Tail { offset, why }));
    bytes.extend(batch(4, 2, &[b"d"]));
    assert_eq!(scan(&bytes), (1, Step::Damage { offset, why }));
}

#[test]
fn a_closed_segment_names_the_next_lsn() {
    let mut bytes = batch(1, 0, &[b"a"]);
    bytes.extend(end_of_segment(Lsn(2), Lsn(1), SALT));
    bytes.extend(batch(2, 0, &[b"an earlier life"]));
    let mut scanner = Scanner::new(&bytes, SALT, None);
    assert!(matches!(scanner.step(), Step::Batch(_)));
    assert_eq!((scanner.step(), scanner.next_lsn()), (Step::End, Some(Lsn(2))));
}

#[test]
fn a_batch_of_another_kind_is_named_and_not_cut() {
    for (flag, says) in [(2, "a view"), (4, "a note"), (8, "a digest"), (16, "flags 0x10")] {
        let mut bytes = batch(1, 0, &[b"a"]);
        let mut header = Header::read(&bytes, SALT).unwrap();
        header.flags = flag;
        bytes[..HEADER_BYTES].copy_from_slice(&header.sealed(SALT));
        let (0, Step::Damage { offset: 0, why }) = scan(&bytes) else { panic!("flag {flag}") };
        assert!(why.to_string().contains(says), "{why}");
    }
}

#[test]
fn what_a_copy_takes_does_not_depend_on_the_segment() {
    let sealed = |durable, salt| {
        let mut builder = BatchBuilder::default();
        builder.push(RecordSeq(7), b"record");
        builder.seal(NodeId::shard(ShardId(3)), Lsn(5), Lsn(durable), salt);
        builder.bytes().to_vec()
    };
    let (one, other) = (sealed(3, SALT), sealed(3, SALT + 1));
    assert_ne!(one[..LOCAL_BYTES], other[..LOCAL_BYTES]);
    assert_eq!(one[LOCAL_BYTES..], other[LOCAL_BYTES..]);
}

#[test]
fn another_salt_is_another_life() {
    let bytes = batch(1, 0, &[b"a"]);
    assert!(matches!(Scanner::new(&bytes, SALT + 1, None).step(), Step::Tail { offset: 0, why: Broken::Checksum }));
}
