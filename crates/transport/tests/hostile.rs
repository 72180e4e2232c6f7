//! Whatever bytes come: no panic, no growth, nothing taken that was changed.

mod common;

use common::{drain, packet, pair};
use onpath_transport::{Key, ReceiveError, peek};
use onpath_wire::NodeId;
use proptest::prelude::*;

#[test]
fn a_million_hostile_inputs() {
    let plain = common::fuzz::run(1, None, |done| done < 700_000);
    assert!(plain.taken > 10_000 && plain.delivered > 10_000, "the parts are reached: {plain:?}");
    let sealed = common::fuzz::run(2, Some(Key::new([1; 32])), |done| done < 300_000);
    assert!(sealed.taken < 1_000, "only what is the same by chance is taken: {sealed:?}");
}

/// Every single bit of a datagram counts, with and without a key.
#[test]
fn each_flipped_bit_is_found() {
    for key in [None, Some(Key::new([1; 32]))] {
        let (mut a, _) = pair(key.clone());
        a.send(0, NodeId(2), packet(1, 100, 20)).unwrap();
        let datagram = drain(&mut a, 0).remove(0);
        for bit in 0..8 * datagram.len() {
            let ((_, mut b), mut changed, mut delivered) = (pair(key.clone()), datagram.clone(), Vec::new());
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(b.receive(0, &mut changed, &mut delivered).is_err(), "bit {bit}");
            assert!(delivered.is_empty());
            // It had no effect: the datagram itself is still taken.
            assert_eq!(b.receive(0, &mut datagram.clone(), &mut delivered), Ok(()), "after bit {bit}");
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _head = peek(&bytes);
        let ((_, mut b), mut delivered) = (pair(None), Vec::new());
        prop_assert!(b.receive(0, &mut bytes, &mut delivered).is_err());
        prop_assert!(delivered.is_empty());
    }

    /// Messages of any lengths come as they were sent, small ones in order.
    #[test]
    fn what_is_sent_arrives(
        lengths in prop::collection::vec((8_usize..3_000, 0_usize..3_000), 1..40),
        sealed in any::<bool>(),
    ) {
        let (mut a, mut b) = pair(sealed.then(|| Key::new([4; 32])));
        for (name, (head, bulk)) in lengths.iter().enumerate() {
            a.send(0, NodeId(77), packet(name as u64, *head, *bulk)).unwrap();
        }
        let (mut delivered, mut now_us) = (Vec::new(), 0);
        while delivered.len() < lengths.len() {
            now_us += 1_000;
            prop_assert!(now_us < 1_000_000);
            for mut datagram in drain(&mut a, now_us) {
                b.receive(now_us, &mut datagram, &mut delivered).unwrap();
            }
            for mut datagram in drain(&mut b, now_us) {
                a.receive(now_us, &mut datagram, &mut Vec::new()).unwrap();
            }
        }
        let mut names: Vec<u64> = delivered
            .iter()
            .map(|(node, packet)| {
                assert_eq!(*node, NodeId(77));
                common::name_of(packet)
            })
            .collect();
        names.sort();
        prop_assert_eq!(names, (0..lengths.len() as u64).collect::<Vec<u64>>());
        for (name, count) in b.counters().iter() {
            prop_assert!(count == 0 || !name.starts_with("dropped"), "{}", name);
        }
    }
}

#[test]
fn errors_are_counted_by_kind() {
    let ((_, mut b), mut delivered) = (pair(None), Vec::new());
    assert_eq!(b.receive(0, &mut [0; 3], &mut delivered), Err(ReceiveError::Truncated));
    assert_eq!(b.receive(0, &mut [0; 50], &mut delivered), Err(ReceiveError::NotOnpath));
    let counters = b.counters();
    assert_eq!(counters.dropped_as(&ReceiveError::Truncated), 1);
    assert_eq!(counters.dropped.iter().sum::<u64>(), 2);
}
