//! Several data nodes: each file is at the one that the map names, whichever process that is in, and each has a fate of its own.

use bytes::Bytes;
use onpath_session::fs::{FsOp, FsReply, FsResult, Handle, OpenMode};
use onpath_sim::model::Caller;
use onpath_sim::world::{Commit, World, WorldConfig};
use onpath_sim::{SimConfig, run};
use onpath_wire::ids::{InodeId, NodeId};
use onpath_wire::name::Name;
use std::collections::BTreeMap;

/// Virtual time in which a call is answered, ns.
const ANSWERED_NS: u64 = 60_000_000_000;
const DATA_NODES: u16 = 3;
const FILES: u8 = 24;

/// A session makes a call and waits for its answer.
fn call(world: &mut World, session: usize, op: FsOp) -> FsResult {
    let unique = world.system_call(session, 0, op);
    let until_ns = world.now_ns() + ANSWERED_NS;
    assert!(world.step(until_ns).is_none(), "no client has asked");
    let finished = world.finished().expect("a call is answered");
    assert_eq!(finished.unique, unique);
    finished.result
}

fn opened(world: &mut World, session: usize, number: u8) -> (InodeId, Handle) {
    let name = Name::new(format!("session-{number}").as_bytes()).expect("a short name");
    let create = FsOp::Create { parent: InodeId::ROOT, name, mode: 0o644, umask: 0, open: OpenMode::READ_WRITE };
    match call(world, session, create) {
        Ok(FsReply::Created { attr, opened, .. }) => (attr.id, opened.handle),
        other => panic!("answered {other:?}"),
    }
}

fn write(world: &mut World, session: usize, handle: Handle, value: u8) {
    let data = Bytes::from(vec![value; 5_000]);
    let op = FsOp::Write { handle, offset: 0, data, append: false, kill_suidgid: false, page: false };
    assert!(matches!(call(world, session, op), Ok(FsReply::Written(5_000))));
}

fn read(world: &mut World, session: usize, handle: Handle) -> Vec<u8> {
    match call(world, session, FsOp::Read { handle, offset: 0, bytes: 9_000, page: false }) {
        Ok(FsReply::Data(parts)) => parts.concat(),
        other => panic!("answered {other:?}"),
    }
}

/// One process has all shards, and each data node but the first a process of its own.
#[test]
fn files_are_where_the_map_says_and_lose_power_one_by_one() {
    let config = WorldConfig { data_nodes: DATA_NODES, commit: Commit::Interval(600_000), ..WorldConfig::default() };
    let mut world = World::new(config);
    let session = world.add_session(&[Caller::default()]);
    let files: Vec<_> = (0..FILES).map(|number| opened(&mut world, session, number)).collect();
    for (number, (_, handle)) in (0..).zip(&files) {
        write(&mut world, session, *handle, number);
        assert!(matches!(call(&mut world, session, FsOp::Fsync { handle: *handle }), Ok(FsReply::Done)));
    }
    let mut at = BTreeMap::<NodeId, u8>::new();
    for (node, file) in world.rest().files {
        assert_eq!(node, world.map().data(file.data.inode));
        *at.entry(node).or_default() += 1;
    }
    assert_eq!(at.keys().copied().collect::<Vec<_>>(), world.map().data_nodes().collect::<Vec<_>>(), "{at:?}");
    assert_eq!(at.values().sum::<u8>(), FILES);
    // What was synced is there after a loss of power of its data node. Others have lost nothing that was not.
    for (number, (_, handle)) in (0..).zip(&files) {
        write(&mut world, session, *handle, 100 + number);
    }
    let lost = NodeId::data(1);
    world.crash(1, true);
    for (number, (id, handle)) in (0..).zip(&files) {
        let bytes = read(&mut world, session, *handle);
        let new = vec![100 + number; 5_000];
        let is_right = bytes == new || world.map().data(*id) == lost && bytes == vec![number; 5_000];
        assert!(is_right, "{number}: {} bytes of {:?}", bytes.len(), bytes.first());
    }
    assert_eq!(world.checker.violations, Vec::<String>::new());
}

#[test]
fn bytes_survive_where_any_number_of_data_nodes_die() {
    for (seed, data_nodes) in [(1, 1), (2, 2), (3, 3), (4, 5)] {
        let commit = if seed % 2 == 0 { Commit::Sync } else { Commit::Interval(100) };
        let power_loss = seed % 2 == 0;
        let world = WorldConfig { data_nodes, commit, power_loss, crash_every: 900, ..WorldConfig::default() };
        let config = SimConfig { seed, operations: 2_000, mounts: 2, writers: 3, world, ..SimConfig::default() };
        let outcome = run(&config);
        assert_eq!(outcome.violations, Vec::<String>::new(), "seed {seed}");
        assert!(outcome.counters.kills + outcome.counters.power_losses > 5, "{outcome:?}");
    }
}
