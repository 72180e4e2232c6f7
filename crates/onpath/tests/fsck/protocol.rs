//! Planted damage of change-logs, watermarks, floors and transactions; and what only looks like damage.

use crate::fsck::craft::{Original, entry, name};
use crate::fsck::stopped;
use onpath_wire::attr::AttrWire;
use onpath_wire::disk::Stored;
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::objects::LogObject;
use onpath_wire::disk::record::Effect;
use onpath_wire::ids::{LogSeq, NodeId, ShardId, Stamp, TxnId, TxnSeq};
use onpath_wire::inode::Kind;
use onpath_wire::peer::{InodeChange, PartState, TxnPart};
use onpath_wire::reply::DataRef;

#[test]
fn change_logs_that_do_not_join() {
    let Some((_site, of)) = stopped("fsck of change-logs") else { return };
    let dir = of.id("d");
    let (owner, site) = (of.home(dir), of.another(of.home(dir)));

    let copy = of.copy();
    let upto = LogSeq(copy.new_seq());
    copy.record(site, [Effect::TrimLog { dir, upto }]);
    let faults = copy.expect_fault("F40", &[]);
    assert_eq!((faults.len(), &faults[0]["path"], &faults[0]["shard"]), (1, &"/d".into(), &site.0.into()));

    let copy = of.copy();
    let upto = LogSeq(copy.new_seq());
    let (dcount, dnlink) = (0, 0);
    copy.record(
        owner,
        [Effect::AppliedLog { dir, from: site, upto, entries: vec![], dcount, dnlink, stamp: Stamp(1) }],
    );
    copy.expect_fault("F41", &[]);

    // A name whose entry is on its way to the owner is no fault; with a floor above it, it would never arrive.
    let copy = of.copy();
    let new = of.name_elsewhere(dir, owner);
    let site = of.site(dir, &new);
    let id = of.new_id(site);
    let log = copy.log(&of, dir, site, 1, 0);
    let inode = Inode { parent: dir, ..Inode::new(id, Kind::Fifo) };
    copy.record(
        site,
        [Effect::PutInode { inode }, Effect::PutName { parent: dir, name: new, child: id, kind: Kind::Fifo, log }],
    );
    copy.expect_clean(&[]);
    copy.record(owner, [Effect::Floor { from: NodeId::shard(site), upto: log.seq }]);
    assert_eq!(copy.expect_fault("F42", &[]).len(), 1);
}

#[test]
fn a_change_log_out_of_order() {
    let Some((_site, of)) = stopped("fsck of a disordered change-log") else { return };
    let dir = of.id("d");
    let copy = of.copy();
    let (a, b) = (LogSeq(copy.new_seq()), LogSeq(copy.new_seq()));
    let site = NodeId::shard(of.another(of.home(dir)));
    let entries = [b, a].map(|seq| entry(seq, &name("f0"), of.id("d/f0"), Kind::File)).to_vec();
    let log = LogObject { entries };
    copy.rewrite_range(|role, range, pairs| {
        let global = role == site && range == onpath_meta::GLOBAL_RANGE;
        if global {
            let key = [&[16][..], &dir.0.to_be_bytes()].concat();
            pairs.retain(|(other, _)| *other != key);
            pairs.push((key, log.to_stored()));
        }
        global
    });
    copy.expect_fault("F09", &[]);
}

/// A link of /d/empty decided at the shard of the new name; its home takes part.
struct Linking {
    txn: TxnId,
    inode: Inode,
    coordinator: ShardId,
    home: ShardId,
    new: onpath_wire::name::Name,
}

impl Linking {
    fn new(of: &Original, copy: &crate::fsck::craft::Copy) -> Linking {
        let inode = of.inode("d/empty");
        let home = of.home(inode.id);
        let new = of.name_elsewhere(of.id("d"), home);
        let coordinator = of.site(of.id("d"), &new);
        Linking { txn: TxnId { coordinator, seq: TxnSeq(copy.new_seq()) }, inode, coordinator, home, new }
    }

    fn prepared(&self, of: &Original) -> Effect {
        let Inode { id, generation, cut, btime, .. } = self.inode;
        let part = TxnPart::Inode { id, change: InodeChange::Link { parent: of.id("d") }, sticky: None };
        let state = PartState::Inode { attr: AttrWire::of(&self.inode), data: DataRef { generation, cut, btime } };
        Effect::Prepared { txn: self.txn, parts: vec![part.into()], found: vec![state.into()] }
    }

    fn decided(&self) -> Effect {
        Effect::Decided { txn: self.txn, participants: [self.home].into_iter().collect() }
    }
}

#[test]
fn transactions_that_are_half_done() {
    let Some((_site, of)) = stopped("fsck of transactions") else { return };
    let dir = of.id("d");

    let copy = of.copy();
    let link = Linking::new(&of, &copy);
    copy.record(link.coordinator, [link.decided()]);
    let faults = copy.expect_fault("F43", &[]);
    assert_eq!((faults.len(), &faults[0]["shard"]), (1, &link.home.0.into()));

    let copy = of.copy();
    let link = Linking::new(&of, &copy);
    copy.record(link.home, [link.prepared(&of)]);
    copy.expect_note("I03", &[]);

    // Decided: the name is there, the inode counts it when the commit is carried out.
    let log = copy.log(&of, dir, link.coordinator, 1, 0);
    let put = Effect::PutName { parent: dir, name: link.new.clone(), child: link.inode.id, kind: Kind::File, log };
    copy.record(link.coordinator, [link.decided(), put]);
    copy.expect_note("I04", &[]);

    // Carried out without counting it.
    copy.record(link.home, [Effect::Finished { txn: link.txn }]);
    copy.expect_fault("F26", &[]);
}
