//! What a datagram costs: one small message out, in, and both, plain and sealed; a message of 1 MiB in fragments.
//!
//! `cargo bench -p onpath-transport --bench datagrams -- [MESSAGES]` (default 400,000). Times are of one core, the median of batches.

use bytes::Bytes;
use onpath_transport::{Agreed, Config, Delivered, EndpointId, Key, Keyring, Keys, Peer, Room, Transmit};
use onpath_wire::{NodeId, Packet};
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

/// Messages of one batch, the unit of measurement.
const BATCH: usize = 1_000;
const PAYLOAD: usize = 1_472;

fn pair(key: Option<Key>) -> (Peer, Peer) {
    let config = |me, boot| {
        Arc::new(Config {
            cluster: 1,
            me: EndpointId(me),
            boot,
            keyring: Keyring::new(key.clone().map(Keys::one)),
            room: Room::default(),
        })
    };
    let mut a = Peer::new(config(1, 11), EndpointId(2), PAYLOAD);
    let mut b = Peer::new(config(2, 22), EndpointId(1), PAYLOAD);
    a.set_boot(22, Agreed::new([5; 32]));
    b.set_boot(11, Agreed::new([5; 32]));
    (a, b)
}

fn packet(head: usize, bulk: usize) -> Packet {
    Packet::encoded(vec![7; head], Bytes::from(vec![9; bulk]))
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// (out, in) of messages of `head` bytes, ns each.
fn small(key: Option<Key>, head: usize, messages: usize) -> (f64, f64) {
    let ((mut a, mut b), mut out, mut now_us) = (pair(key), Transmit::default(), 0);
    let (mut sending, mut receiving) = (Vec::new(), Vec::new());
    for _ in 0..messages.div_ceil(BATCH) {
        let packets: Vec<Packet> = (0..BATCH).map(|_| packet(head, 0)).collect();
        let mut datagrams: Vec<Vec<u8>> = (0..BATCH).map(|_| Vec::with_capacity(PAYLOAD)).collect();
        let begun = Instant::now();
        for (packet, datagram) in packets.into_iter().zip(&mut datagrams) {
            now_us += 1;
            a.send(now_us, NodeId(5), packet).expect("room");
            assert!(a.poll_transmit(now_us, &mut out));
            datagram.extend_from_slice(&out.buf);
        }
        sending.push(begun.elapsed().as_nanos() as f64 / BATCH as f64);
        let mut delivered = Vec::with_capacity(BATCH);
        let begun = Instant::now();
        for datagram in &mut datagrams {
            b.receive(now_us, datagram, &mut delivered).expect("it is whole");
        }
        receiving.push(begun.elapsed().as_nanos() as f64 / BATCH as f64);
        assert_eq!(delivered.len(), BATCH);
    }
    (median(&mut sending), median(&mut receiving))
}

/// Messages of 1 MiB with their acknowledgements, on a way of no length, MB/s.
fn large(key: Option<Key>, messages: usize) -> f64 {
    let ((mut a, mut b), mut out, mut now_us) = (pair(key), Transmit::default(), 0);
    let (mut samples, mut delivered) = (Vec::new(), Vec::<Delivered>::new());
    let message = packet(100, 1 << 20);
    for _ in 0..messages {
        let begun = Instant::now();
        a.send(now_us, NodeId(5), message.clone()).expect("room");
        while delivered.is_empty() {
            now_us += 20;
            for (from, to) in [(true, false), (false, true)] {
                let (sender, receiver) = if from && !to { (&mut a, &mut b) } else { (&mut b, &mut a) };
                while sender.poll_transmit(now_us, &mut out) {
                    let segment = out.segment;
                    for datagram in out.buf.chunks_mut(segment) {
                        receiver.receive(now_us, datagram, &mut delivered).expect("it is whole");
                    }
                }
            }
        }
        samples.push(begun.elapsed().as_nanos() as f64);
        delivered.clear();
    }
    (1 << 20) as f64 * 1e3 / median(&mut samples)
}

fn main() -> std::io::Result<()> {
    let messages = std::env::args().skip(1).find_map(|arg| arg.replace('_', "").parse().ok()).unwrap_or(400_000);
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:<24} {:>10} {:>10} {:>10}", "", "ns out", "ns in", "ns both")?;
    for (name, key) in [("plain", None), ("sealed", Some(Key::new([3; 32])))] {
        for head in [112, 256, 1_300] {
            let (sending, receiving) = small(key.clone(), head, messages);
            let both = sending + receiving;
            writeln!(out, "{:<24} {sending:>10.1} {receiving:>10.1} {both:>10.1}", format!("{name}, {head} B"))?;
        }
        let rate = large(key, (messages / 1_000).max(20));
        writeln!(out, "{:<24} {rate:>10.0} MB/s", format!("{name}, 1 MiB"))?;
    }
    Ok(())
}
