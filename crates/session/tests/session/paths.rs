//! Which path node is asked, and what happens while one is silent.

use crate::rig::*;
use onpath_kernel::Input;
use onpath_session::fs::{FsOp, FsReply};
use onpath_session::limits::{PATH_NODE_PATIENCE_US, PATH_NODE_SILENT_US};
use onpath_wire::header::{Header, MessageKind};
use onpath_wire::ids::*;
use onpath_wire::packet::Packet;
use onpath_wire::reply::Reply;

/// Asks for a way; which path node hears of it, if any does.
fn ask(rig: &mut Rig) -> (u64, Option<Sent>) {
    rig.lose_sent(); // what was asked before is repeated
    let unique =
        rig.fs(FsOp::Resolve { from: InodeId::ROOT, names: vec![name("a"), name("b")], look: false, kept: true });
    let asked = std::iter::from_fn(|| rig.try_sent()).find(|sent| sent.to.class() == Some(NodeClass::Path));
    (unique, asked)
}

fn led(rig: &mut Rig, unique: u64) -> usize {
    match rig.result(unique) {
        Ok(FsReply::Resolved { names, .. }) => names,
        other => panic!("{other:?}"),
    }
}

fn answer(rig: &mut Rig, asked: &Sent) {
    let header = Header::new(MessageKind::Reply, asked.to, asked.header.seq);
    rig.input(Input::Packet(Packet::new(&header, &Reply::Resolved { dir: directory_at(1, 1), names: 2, way: None })));
}

#[test]
fn while_a_path_node_is_silent_the_next_one_is_asked() {
    let mut rig = Rig::with_path_nodes(&[2, 5, 9]);
    let own = (ME.0 % 3) as usize;
    let [own, next, last] = [0, 1, 2].map(|step| NodeId::path([2, 5, 9][(own + step) % 3]));
    for _ in 0..2 {
        let (unique, asked) = ask(&mut rig);
        let asked = asked.expect("a path node is asked");
        assert_eq!(asked.to, own);
        answer(&mut rig, &asked);
        assert_eq!(led(&mut rig, unique), 2);
    }
    for silent in [own, next, last] {
        let (unique, asked) = ask(&mut rig);
        assert_eq!(asked.expect("a path node is asked").to, silent);
        rig.pass(PATH_NODE_PATIENCE_US);
        assert_eq!(led(&mut rig, unique), 0, "the way is walked name by name");
    }
    let (unique, asked) = ask(&mut rig);
    assert!(asked.is_none() && led(&mut rig, unique) == 0, "all are silent");
    // The first was silent first, and is asked again first.
    rig.pass(PATH_NODE_SILENT_US - 2 * PATH_NODE_PATIENCE_US);
    let (unique, asked) = ask(&mut rig);
    let asked = asked.expect("a path node is asked");
    assert_eq!(asked.to, own);
    answer(&mut rig, &asked);
    assert_eq!(led(&mut rig, unique), 2);
}

#[test]
fn where_there_is_no_path_node_nobody_is_asked() {
    let mut rig = Rig::new();
    let (unique, asked) = ask(&mut rig);
    assert!(asked.is_none() && led(&mut rig, unique) == 0);
}
