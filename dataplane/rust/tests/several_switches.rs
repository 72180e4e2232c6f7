//! Four switches that share the fingerprints by prefix do what one does, wherever a packet enters (D-11 to D-16).

#[path = "common/random.rs"]
mod random;

use onpath_dataplane::{Command, Config, Counter, Port, Prefix, Switch};
use onpath_wire::ids::{NodeId, SessionId, ShardId, Term, TrackingEpoch};
use onpath_wire::innet::{Fingerprint, InNet};
use random::Random;

const CLUSTER: u32 = 8;
const SWITCHES: u32 = 4;
/// Port of switch 0 at all others; nodes have lower ones.
const FIRST_PEER: u32 = 100;
/// Where packets of hosts enter.
const ENTRANCE: Port = Port(1);
const EPOCH: TrackingEpoch = TrackingEpoch(5);

fn nodes() -> [NodeId; 3] {
    [NodeId::shard(ShardId(0)), NodeId::shard(ShardId(1)), NodeId::session(SessionId(1))]
}

fn switch(own: Prefix) -> Switch {
    let mut switch = Switch::new(Config { own, stages: 2, ..Config::whole(CLUSTER) }).expect("a valid configuration");
    let mut commands = vec![Command::Raise { shard: 0, term: 1 }, Command::Epoch(EPOCH.0), Command::Complete(EPOCH.0)];
    commands.extend(nodes().iter().zip(1..).map(|(node, port)| Command::Route { node: node.0, port: Port(port) }));
    let trusted = (FIRST_PEER..FIRST_PEER + SWITCHES).map(Port).chain([ENTRANCE]);
    commands.extend(trusted.map(|port| Command::Host { port }));
    commands.push(Command::Group { group: 1, members: nodes().map(|node| node.0).to_vec() });
    let peers = (0..SWITCHES).filter(|&value| own != Prefix { value, bits: 2 });
    if own != Prefix::ALL {
        commands.extend(
            peers.map(|value| Command::Peer { prefix: Prefix { value, bits: 2 }, port: Port(FIRST_PEER + value) }),
        );
    }
    commands.iter().for_each(|command| switch.control(command).expect("a command"));
    switch
}

fn packet(random: &mut Random, counter: u32) -> InNet {
    // Two indexes of every switch, few tags: sets overflow.
    let index = random.below(SWITCHES) << 15 | random.below(2);
    let fingerprint = Fingerprint::new(index, 1 + random.below(4)).expect("a fingerprint");
    let shard = (ShardId(0), Term(1), counter);
    let remove = InNet::remove(CLUSTER, EPOCH, fingerprint, shard, nodes()[1]);
    match random.below(4) {
        0 => InNet::query(CLUSTER, EPOCH, fingerprint, nodes()[1]),
        1 => InNet::insert(CLUSTER, EPOCH, fingerprint, shard, Some(nodes()[2])),
        2 => InNet::insert(CLUSTER, EPOCH, fingerprint, shard, None).or_redirect(nodes()[1]),
        _ if random.once_in(2) => remove.to_group(1),
        _ => remove,
    }
}

/// What leaves the switches towards nodes, after at most one packet from switch to switch.
fn through(switches: &mut [Switch], enters: usize, payload: &[u8]) -> Vec<(Port, Vec<u8>)> {
    let (mut copies, mut more) = (vec![], vec![]);
    let port = switches[enters].config().udp_port;
    if switches[enters].step(ENTRANCE, port, payload, &mut copies) == Counter::HandedOn {
        let [copy] = copies.as_slice() else { panic!("handed on {} times", copies.len()) };
        let (next, payload) = ((copy.port.0 - FIRST_PEER) as usize, copy.payload(payload));
        assert_ne!(
            switches[next].step(Port(FIRST_PEER + enters as u32), port, &payload, &mut more),
            Counter::HandedOn,
            "handed on twice"
        );
        copies = more;
    }
    let mut out: Vec<_> = copies.iter().map(|copy| (copy.port, copy.payload(payload))).collect();
    out.sort();
    out
}

#[test]
fn four_switches_are_like_one() {
    let mut random = Random::new(11);
    let mut one = [switch(Prefix::ALL)];
    let mut four: Vec<Switch> = (0..SWITCHES).map(|value| switch(Prefix { value, bits: 2 })).collect();
    for counter in 1..=100_000 {
        let mut payload = packet(&mut random, counter).bytes().to_vec();
        payload.extend_from_slice(&counter.to_be_bytes());
        let enters = random.below(SWITCHES) as usize;
        let (wanted, given) = (through(&mut one, 0, &payload), through(&mut four, enters, &payload));
        assert_eq!(given, wanted, "packet {counter} entered at switch {enters}");
        // What was answered may pass further switches on its way to its node.
        for (port, payload) in given {
            let passed = through(&mut four, random.below(SWITCHES) as usize, &payload);
            assert_eq!(passed, [(port, payload)]);
        }
    }
    let mut tags: Vec<_> = four.iter().flat_map(|switch| switch.state().tags).collect();
    tags.sort_unstable();
    assert_eq!(tags, one[0].state().tags);
    assert!(
        one[0].counters().get(Counter::InsertFull) > 1000 && one[0].counters().get(Counter::InsertRedirected) > 1000
    );
}

/// The host runs a switch as one more role.
#[test]
fn a_switch_is_a_value_that_may_change_threads() {
    fn sendable(_: impl Send + 'static) {}
    sendable(switch(Prefix::ALL));
}
