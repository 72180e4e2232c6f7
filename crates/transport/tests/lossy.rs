//! Fragmented messages over ways that lose, double, reorder and overflow, in virtual time.

mod common;

use common::{Dice, Way, World, packet};
use onpath_transport::{Agreed, EndpointId, Key, Peer, limits};
use std::collections::BTreeSet;

const MIB: usize = 1 << 20;

/// µs that `count` messages of 1 MiB take, each sent when the one before has arrived, or all at once.
fn transfer_us(way: Way, seed: u64, count: u64, at_once: bool) -> u64 {
    let mut world = World::new(way, None, seed);
    // The window of a fresh peer is not what is compared.
    world.send(0, packet(1_000, 100, MIB));
    assert!(world.run(20_000_000, |world| world.delivered[1].len() == 1));
    let begun = world.now_us;
    for name in 0..count {
        world.send(0, packet(name, 100, MIB));
        if !at_once {
            let wanted = name as usize + 2;
            assert!(world.run(20_000_000, |world| world.delivered[1].len() == wanted), "message {name}");
        }
    }
    let all = count as usize + 1;
    assert!(world.run(60_000_000, |world| world.delivered[1].len() == all));
    world.now_us - begun
}

/// The median over some seeds.
fn median_us(way: Way, count: u64, at_once: bool) -> u64 {
    let mut times: Vec<u64> = (1..=5).map(|seed| transfer_us(way, seed, count, at_once)).collect();
    times.sort();
    times[times.len() / 2]
}

#[test]
fn five_percent_of_loss_leave_more_than_half_of_the_goodput() {
    for (name, bytes_per_ms, delay_us, queue_bytes) in [
        ("1 Gb/s, 100 µs", 125_000, 100, 256 << 10),
        ("1 Gb/s, 1 ms", 125_000, 1_000, 256 << 10),
        ("10 Gb/s, 50 µs", 1_250_000, 50, 512 << 10),
        ("10 Gb/s, 1 ms", 1_250_000, 1_000, 1 << 20),
    ] {
        let good = Way { bytes_per_ms, delay_us, queue_bytes, ..Way::GOOD };
        let lossy = Way { lost_percent: 5, ..good };
        for (mode, count, at_once) in [("one by one", 8, false), ("32 at once", 32, true)] {
            let (without, with) = (median_us(good, count, at_once), median_us(lossy, count, at_once));
            let rate = |us: u64| count * (1 << 20) / us;
            println!("{name}, {mode}: {} MB/s without loss, {} MB/s with", rate(without), rate(with));
            // On a way that holds more than a message, one alone waits for two round trips: to hear of a loss, and for what is sent again.
            let holds = 2 * delay_us * bytes_per_ms / 1_000;
            let at_most = if at_once || holds < MIB as u64 { 2 * without } else { without + count * 4 * delay_us };
            assert!(with <= at_most, "{name}, {mode}: {with} µs with loss, {without} µs without");
            let best = count * (1 << 20) * 1_000 / bytes_per_ms + 2 * delay_us * count;
            assert!(without <= 3 * best, "{name}, {mode}: {without} µs without loss, {best} µs at best");
        }
    }
}

/// Whatever the way does, every message comes once, whole, and the queue empties.
#[test]
fn messages_come_exactly_once() {
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let way = Way {
            bytes_per_ms: [2_000, 20_000, 125_000, 1_000_000][dice.below(4) as usize],
            delay_us: 10 + dice.below(2_000),
            queue_bytes: 20_000 + dice.below(500_000),
            lost_percent: dice.below(25),
            doubled_percent: dice.below(30),
            held_up_percent: dice.below(40),
            ..Way::GOOD
        };
        let key = (seed % 2 == 1).then(|| Key::new([seed as u8; 32]));
        let mut world = World::new(way, key, seed);
        for name in 0..30 {
            let bulk = [1_500, 4_096, 40_000, 200_000][dice.below(4) as usize];
            world.send((name % 2) as usize, packet(name, 90 + dice.below(4_000) as usize, bulk));
            world.run(dice.below(3_000), |_| false);
        }
        let quiet = |world: &mut World| world.peers.iter().all(|peer| peer.queued() == (0, 0));
        assert!(world.run(60_000_000, quiet), "seed {seed}: {way:?} {:?}", world.peers[0].queued());
        world.run(1_000_000, |_| false);
        for end in 0..2 {
            let names = world.names(end);
            let set: BTreeSet<u64> = names.iter().copied().collect();
            assert_eq!((names.len(), set.len()), (15, 15), "seed {seed} {way:?}: {names:?}");
            assert!(set.iter().all(|name| *name as usize % 2 == 1 - end));
            assert_eq!(world.peers[end].incomplete(), (0, 0), "seed {seed}");
            assert_eq!(
                world.peers[end].counters().fragmented_acknowledged,
                15,
                "seed {seed} {way:?} {:?}",
                world.peers[end].counters()
            );
        }
    }
}

/// Of 2,000 short messages each way, one at a time: how many come, and how many datagrams were sent twice.
fn short_ones(lost_percent: u64) -> (usize, u64) {
    let mut world = World::new(Way { lost_percent, ..Way::GOOD }, None, 3);
    let send = |world: &mut World, names: std::ops::Range<u64>| {
        for name in names {
            world.send(0, packet(name, 100, 0));
            world.send(1, packet(name, 200, 0));
            world.run(500, |_| false);
        }
    };
    send(&mut world, 0..1_000); // what the way is like must be seen first
    let before = world.delivered[0].len() + world.delivered[1].len();
    send(&mut world, 1_000..3_000);
    let doubled = world.peers.iter().map(|peer| peer.counters().datagrams_doubled).sum();
    (world.delivered[0].len() + world.delivered[1].len() - before, doubled)
}

/// Nobody acknowledges short messages, and whoever waits for an answer asks again only after some time: where some are lost they are sent
/// twice. Where none are, and where so many are that they may be too many, they are not.
#[test]
fn short_messages_are_sent_twice_where_some_are_lost() {
    let (come, doubled) = short_ones(5);
    println!("5 % lost: {come} of 4000 come, {doubled} are sent twice");
    assert!(come >= 3_970 && doubled >= 3_000, "{come} came, {doubled} were sent twice");
    assert_eq!(short_ones(0), (4_000, 0));
    let (come, doubled) = short_ones(40);
    assert!(come < 2_800 && doubled < 300, "{come} came, {doubled} were sent twice");
}

/// Many short messages at a time make one long datagram where the way takes those: that is not sent twice, since two of them are more than
/// one system call takes.
#[test]
fn long_datagrams_are_not_sent_twice() {
    let mut world = World::new(Way { lost_percent: 5, datagram_bytes: 65_000, ..Way::GOOD }, None, 3);
    for end in 0..2 {
        world.peers[end].set_datagram_bytes(world.now_us, 65_000);
    }
    for name in 0..1_000 {
        world.send(0, packet(name, 100, 0));
        world.send(1, packet(name, 100, 0));
        world.run(500, |_| false);
    }
    let doubled = |world: &World| world.peers[0].counters().datagrams_doubled;
    let before = doubled(&world);
    assert!(before > 0);
    for burst in 0..20 {
        (0..200).for_each(|name| world.send(0, packet(10_000 + burst * 200 + name, 200, 0)));
        world.run(10_000, |_| false);
    }
    assert_eq!(doubled(&world), before);
}

/// A narrow way with a small queue: most of what is sent must arrive, or others that share it would starve.
#[test]
fn a_narrow_way_is_not_flooded() {
    let way = Way { bytes_per_ms: 12_500, delay_us: 500, queue_bytes: 64 << 10, ..Way::GOOD };
    let mut world = World::new(way, None, 1);
    (0..20).for_each(|name| world.send(0, packet(name, 100, MIB)));
    assert!(world.run(20_000_000, |world| world.delivered[1].len() == 20));
    let sent = world.peers[0].counters().bytes_sent;
    println!("{} of {sent} bytes overflowed, {} ms", world.overflowed[0], world.now_us / 1_000);
    assert!(world.overflowed[0] < sent / 10, "{} of {sent} bytes overflowed", world.overflowed[0]);
    assert!(world.now_us < 2 * 20 * MIB as u64 * 1_000 / 12_500, "{} µs", world.now_us);
}

#[test]
fn a_dead_peer_costs_almost_nothing() {
    let mut world = World::new(Way::GOOD, None, 1);
    world.dead = true;
    for name in 0..600 {
        world.send(0, packet(name, 100, 100_000));
        world.run(100_000, |_| false);
    }
    let counters = world.peers[0].counters();
    println!("{} datagrams in 60 s, {} timeouts", world.sent[0], counters.timeouts);
    assert!(world.sent[0] < 150, "{} datagrams", world.sent[0]);
    assert!(counters.messages_given_up > 400, "{counters:?}");
    assert!(world.peers[0].queued().0 <= 110, "what waits is given up: {:?}", world.peers[0].queued());
    // It comes back, and so does the traffic.
    world.dead = false;
    world.send(0, packet(1_000, 100, MIB));
    assert!(world.run(5_000_000, |world| world.last_is(1, 1_000)));
}

#[test]
fn a_peer_that_starts_anew_gets_nothing_of_before() {
    let mut world = World::new(Way { lost_percent: 3, ..Way::GOOD }, None, 5);
    (0..4).for_each(|name| world.send(0, packet(name, 100, MIB)));
    assert!(world.run(1_000_000, |world| !world.delivered[1].is_empty()));
    let before = world.delivered[1].len() as u64;
    world.run(500, |_| false);
    // The new life knows the sender, who does not know it yet: nothing for the old life is taken.
    world.peers[1] = Peer::new(common::config(2, 23, None), EndpointId(1), common::PAYLOAD);
    world.peers[1].set_boot(11, Agreed::new([5; 32]));
    world.run(10_000, |_| false);
    let late = world.delivered[1].len() as u64;
    assert_eq!(late, before, "a message to the former life was delivered");
    world.peers[0].set_boot(23, Agreed::new([5; 32]));
    assert_eq!(world.peers[0].queued(), (0, 0));
    assert!(world.peers[0].counters().messages_of_old_boot > 0);
    world.send(0, packet(9, 100, MIB));
    assert!(world.run(1_000_000, |world| world.last_is(1, 9)));
    let counters = world.peers[1].counters();
    assert!(counters.iter().any(|(name, count)| name == "dropped_stale_boot" && count > 0));
    assert_eq!(counters.fragmented_delivered, 1);
}

/// First fragments only, as long as there are any: memory stays within its bounds, and the peer's honest messages still come.
#[test]
fn first_fragments_alone_fill_no_memory() {
    let (mut a, mut b) = common::pair(None);
    let mut delivered = Vec::new();
    for name in 0..2_000_u64 {
        // A sender that forgets what it has sent: a new life of it for each message, under the same boot.
        let mut liar = Peer::resume(common::config(1, 11, None), EndpointId(2), common::PAYLOAD, 10 * name);
        liar.set_boot(22, Agreed::new([5; 32]));
        for filler in 0..name % 40 {
            liar.send(0, onpath_wire::NodeId(1), packet(filler, 100, 2_000)).unwrap();
        }
        liar.send(0, onpath_wire::NodeId(1), packet(name, 100, 300_000 + name as usize)).unwrap();
        let datagrams = common::drain(&mut liar, 0);
        for mut datagram in datagrams.into_iter().take(1) {
            let _dropped = b.receive(name, &mut datagram, &mut delivered);
        }
        let (messages, bytes) = b.incomplete();
        assert!(messages <= limits::INCOMING_MAX && bytes <= limits::INCOMING_BYTES_MAX, "{messages}, {bytes}");
    }
    assert!(delivered.is_empty());
    // Time passes: what never became whole is given up.
    b.poll_transmit(2_000 + limits::INCOMING_IDLE_US, &mut Default::default());
    assert_eq!(b.incomplete(), (0, 0));
    assert!(b.counters().incoming_given_up > 0);
    a.send(0, onpath_wire::NodeId(1), packet(1, 100, 10)).unwrap();
}

/// The way takes only shorter datagrams in the midst of messages, and longer ones again: all come, and what is sent fits.
#[test]
fn datagrams_become_as_short_as_the_way_takes_them() {
    for key in [None, Some(Key::new([6; 32]))] {
        let mut world = World::new(Way { lost_percent: 2, ..Way::GOOD }, key, 8);
        (0..6).for_each(|name| world.send(0, packet(name, 100, MIB)));
        assert!(world.run(20_000_000, |world| world.delivered[1].len() == 1));
        // The host of each end is told by its system when a datagram did not leave.
        world.way.datagram_bytes = 1_232;
        assert!(world.run(1_000_000, |world| world.too_long[0] > 0));
        (100..120).for_each(|name| world.send(0, packet(name, 1_300, 0)));
        let now_us = world.now_us;
        assert!(world.peers[0].set_datagram_bytes(now_us, 1_232), "it is news");
        assert!(!world.peers[0].set_datagram_bytes(now_us, 1_232), "it is none any more");
        let before = world.too_long[0];
        assert!(world.peers[0].datagram_bytes() <= 1_232);
        assert!(world.run(20_000_000, |world| world.peers[0].queued() == (0, 0)));
        let distinct: BTreeSet<u64> = world.names(1).into_iter().collect();
        assert_eq!(distinct.len(), 26, "{distinct:?}");
        assert_eq!(world.too_long[0], before);
        // What had arrived whole while the way changed may come again, nothing else.
        let again = world.names(1).len() - 26;
        assert!(again <= limits::OUTGOING_MAX, "{again} came twice");
        world.way.datagram_bytes = 9_000;
        let now_us = world.now_us;
        assert!(world.peers[0].set_datagram_bytes(now_us, 9_000));
        world.send(0, packet(201, 100, MIB));
        let sent = world.sent[0];
        assert!(world.run(20_000_000, |world| world.last_is(1, 201)));
        let longer = MIB as u64 / (world.sent[0] - sent);
        assert!(longer > 3_000, "{longer} bytes a datagram");
        assert_eq!(world.peers[0].counters().paths_changed, 2);
        assert_eq!(world.too_long[0], before);
    }
}
