//! Planted damage of names, inodes, listings and directories.

use crate::fsck::craft::{Copy, Original, entry, name};
use crate::fsck::stopped;
use onpath_store::cold::{class, id_bytes};
use onpath_wire::codec::Blob;
use onpath_wire::disk::Stored;
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::log::Entry;
use onpath_wire::disk::objects::{Xattr, XattrsObject};
use onpath_wire::disk::record::Effect;
use onpath_wire::ids::{Birth, InodeId, LogSeq, ShardId, Stamp};
use onpath_wire::inode::Kind;
use onpath_wire::xattr::{ACL_ACCESS, ACL_DEFAULT, XattrName};

/// What the owner of a directory may have made of somebody's change-log.
fn applied(dir: InodeId, from: ShardId, entries: Vec<Entry>, dcount: i64, dnlink: i64) -> Effect {
    Effect::AppliedLog { dir, from, upto: LogSeq(0), entries, dcount, dnlink, stamp: Stamp(1) }
}

/// A directory forgets to list a name.
pub(crate) fn lose_entry(of: &Original, copy: &Copy) {
    let (dir, child) = (of.id("d"), of.id("d/f0"));
    let owner = of.home(dir);
    let gone = Entry { put: false, ..entry(LogSeq(0), &name("f0"), child, Kind::File) };
    copy.record(owner, [applied(dir, of.another(owner), vec![gone], -1, 0)]);
}

#[test]
fn listings_that_do_not_fit_their_names() {
    let Some((_site, of)) = stopped("fsck of listings") else { return };
    let (dir, file, other) = (of.id("d"), of.id("d/f0"), of.id("d/f1"));
    let (owner, from) = (of.home(dir), of.another(of.home(dir)));

    let copy = of.copy();
    lose_entry(&of, &copy);
    let faults = copy.expect_fault("F21", &[]);
    assert_eq!((faults.len(), &faults[0]["path"]), (1, &"/d/f0".into()));

    let copy = of.copy();
    let ghost = entry(LogSeq(0), &name("ghost"), file, Kind::File);
    copy.record(owner, [applied(dir, from, vec![ghost], 1, 0)]);
    assert_eq!(copy.expect_fault("F22", &[])[0]["path"], "/d/ghost");

    for (child, kind) in [(other, Kind::File), (file, Kind::Fifo)] {
        let copy = of.copy();
        let wrong = entry(LogSeq(0), &name("f0"), child, kind);
        copy.record(owner, [applied(dir, from, vec![wrong], 0, 0)]);
        assert_eq!(copy.expect_fault("F23", &[]).len(), 1);
    }

    let copy = of.copy();
    copy.record(owner, [applied(dir, from, vec![], 1, 0)]);
    assert_eq!(copy.expect_fault("F24", &[]).len(), 1);

    let copy = of.copy();
    copy.record(owner, [applied(dir, from, vec![], 0, 1)]);
    assert_eq!(copy.expect_fault("F25", &[]).len(), 1);
}

#[test]
fn names_that_do_not_fit_their_inodes() {
    let Some((_site, of)) = stopped("fsck of links") else { return };
    let empty = of.inode("d/empty");
    let home = of.home(empty.id);

    let copy = of.copy();
    copy.record(home, [Effect::PutInode { inode: Inode { nlink: 5, ..empty.clone() } }]);
    assert_eq!(copy.expect_fault("F26", &[])[0]["path"], "/d/empty");

    let copy = of.copy();
    copy.record(home, [Effect::DropInode { id: empty.id }]);
    let faults = copy.expect_fault("F27", &[]);
    assert_eq!((faults.len(), &faults[0]["path"]), (1, &"/d/empty".into()));

    let copy = of.copy();
    copy.record(home, [Effect::PutInode { inode: Inode { kind: Kind::Fifo, ..empty.clone() } }]);
    copy.expect_fault("F28", &[]);

    let copy = of.copy();
    let id = of.new_id(home);
    copy.record(home, [Effect::PutInode { inode: Inode { id, ..empty.clone() } }]);
    copy.expect_fault("F29", &[]);

    let copy = of.copy();
    copy.record(home, [Effect::PutInode { inode: Inode { id, nlink: 0, ..empty.clone() } }]);
    copy.expect_note("I02", &[]);

    let copy = of.copy();
    let (nowhere, lost) = (of.new_id(home), name("lost"));
    let site = of.site(nowhere, &lost);
    let log = copy.log(&of, nowhere, site, 1, 0);
    copy.record(site, [Effect::PutName { parent: nowhere, name: lost, child: empty.id, kind: Kind::File, log }]);
    let further = Effect::Further { id: empty.id, dir: nowhere, names: 1 };
    copy.record(home, [Effect::PutInode { inode: Inode { nlink: 2, ..empty } }, further]);
    copy.expect_fault("F30", &[]);
}

#[test]
fn directories_that_are_no_tree() {
    let Some((_site, of)) = stopped("fsck of directories") else { return };
    let (sub, e) = (of.inode("e/sub"), of.id("e"));

    let copy = of.copy();
    copy.record(of.home(sub.id), [Effect::PutInode { inode: Inode { parent: of.id("d"), ..sub.clone() } }]);
    assert_eq!(copy.expect_fault("F31", &[])[0]["path"], "/e/sub");

    // /loop moves below /loop/in.
    let copy = of.copy();
    let (outer, inner) = (of.inode("loop"), of.id("loop/in"));
    let (old, new) = (name("loop"), name("back"));
    let site = of.site(InodeId::ROOT, &old);
    let log = copy.log(&of, InodeId::ROOT, site, -1, -1);
    let kind = Kind::Directory;
    copy.record(site, [Effect::DropName { parent: InodeId::ROOT, name: old, child: outer.id, kind, log }]);
    let site = of.site(inner, &new);
    let log = copy.log(&of, inner, site, 1, 1);
    copy.record(site, [Effect::PutName { parent: inner, name: new.clone(), child: outer.id, kind, log }]);
    let moved = Inode { parent: inner, name: Some(new), ..outer };
    copy.record(of.home(moved.id), [Effect::PutInode { inode: moved }]);
    assert_eq!(copy.expect_fault("F32", &[]).len(), 1);

    let copy = of.copy();
    let again = name("again");
    let site = of.site(e, &again);
    let log = copy.log(&of, e, site, 1, 1);
    copy.record(site, [Effect::PutName { parent: e, name: again, child: sub.id, kind, log }]);
    copy.expect_fault("F33", &[]);
}

#[test]
fn directories_that_are_called_otherwise() {
    let Some((_site, of)) = stopped("fsck of own names") else { return };
    let sub = of.inode("e/sub");
    assert_eq!((sub.name.clone(), of.inode("loop/in").name), (Some(name("sub")), Some(name("in"))));
    for own in [Some(name("other")), None] {
        let copy = of.copy();
        copy.record(of.home(sub.id), [Effect::PutInode { inode: Inode { name: own, ..sub.clone() } }]);
        let faults = copy.expect_fault("F39", &[]);
        assert_eq!((faults.len(), &faults[0]["path"]), (1, &"/e/sub".into()));
        assert_eq!(Original::of(copy.path()).inode("e/sub").name, Some(name("sub")), "repaired");
    }
    let copy = of.copy();
    let wrong = Inode { parent: of.id("d"), name: Some(name("other")), ..sub };
    copy.record(of.home(wrong.id), [Effect::PutInode { inode: wrong }]);
    assert_eq!(copy.expect_faults(&["F31", "F39"], &[]).len(), 2);
}

#[test]
fn files_that_do_not_say_where_their_names_are() {
    let Some((_site, of)) = stopped("fsck of directories of files") else { return };
    let (hard, empty) = (of.inode("e/hard1"), of.inode("d/empty"));
    let (d, e, home) = (of.id("d"), of.id("e"), of.home(hard.id));
    assert_eq!((hard.nlink, hard.parent), (2, d));
    let further = |id, dir, names| Effect::Further { id, dir, names };
    let parent = |of: &Inode, parent| Effect::PutInode { inode: Inode { parent, ..of.clone() } };
    for damage in [
        vec![further(hard.id, e, 0)],
        vec![further(hard.id, e, 2)],
        vec![further(hard.id, d, 7)],
        vec![further(hard.id, e, 0), further(hard.id, of.id("loop"), 1)],
        vec![parent(&hard, e)],
        vec![parent(&hard, of.id("loop"))],
    ] {
        let copy = of.copy();
        copy.record(home, damage);
        assert_eq!(copy.expect_fault("F44", &[]).len(), 1);
    }
    let copy = of.copy();
    copy.record(of.home(empty.id), [parent(&empty, e)]);
    assert_eq!(copy.expect_fault("F44", &[])[0]["path"], "/d/empty");
    assert_eq!(Original::of(copy.path()).inode("d/empty").parent, d, "repaired");
    // Of a directory, of nothing, and at another shard.
    let elsewhere = of.another(home);
    for (shard, id) in [(of.home(e), e), (home, of.new_id(home)), (elsewhere, hard.id)] {
        let copy = of.copy();
        copy.record(shard, [further(id, d, 1)]);
        let faults = copy.expect_fault("F44", &[]);
        assert_eq!((faults.len(), &faults[0]["shard"]), (1, &shard.0.into()));
    }
}

#[test]
fn attributes_that_do_not_belong() {
    let Some((_site, of)) = stopped("fsck of attributes") else { return };
    let (file, dir) = (of.inode("d/empty").id, of.inode("d").id);
    let set = |id, name: &[u8], value: &[u8]| {
        let name = XattrName::new(name).expect("a name");
        Effect::SetXattr { id, name, value: Blob(value.to_vec()) }
    };
    for (id, name, value) in [
        (file, &b"user.a"[..], &b"1"[..]),
        (dir, b"security.a", b""),
        (dir, ACL_DEFAULT, &[2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255]),
        (file, ACL_DEFAULT, b"2"),
        (file, ACL_ACCESS, b"no ACL"),
        (file, b"nowhere.a", b"1"),
    ] {
        let copy = of.copy();
        copy.record(of.home(id), [set(id, name, value)]);
        if name.starts_with(b"user") || name.starts_with(b"security") {
            copy.expect_clean(&[]);
        } else {
            assert_eq!(copy.expect_fault("F37", &[]).len(), 1, "{name:?}");
        }
    }
}

/// Also at a shard that is not the inode's home, and in the checkpoint.
#[test]
fn attributes_of_nothing() {
    let Some((_site, of)) = stopped("fsck of attributes of nothing") else { return };
    let (attribute, value) = (XattrName::new(b"user.a").expect("a name"), Blob(vec![1; 9]));
    let set = |id| Effect::SetXattr { id, name: attribute.clone(), value: value.clone() };
    let (home, file) = (ShardId(1), of.inode("d/empty").id);
    for (shard, id) in [(home, of.new_id(home)), (of.another(of.home(file)), file)] {
        let copy = of.copy();
        copy.record(shard, [set(id), Effect::SetXattr { id, name: XattrName::capability(), value: value.clone() }]);
        let faults = copy.expect_fault("F38", &[]);
        assert_eq!((faults.len(), &faults[0]["shard"]), (1, &shard.0.into()));
    }
    let copy = of.copy();
    copy.rewrite_objects(|role, put| {
        let Some(shard) = role.as_shard() else { return false };
        let all = vec![Xattr { name: attribute.clone(), value: value.clone() }];
        let stored = XattrsObject { all }.to_stored();
        put.push(([&[class::XATTR][..], &id_bytes(of.new_id(shard))].concat(), stored));
        true
    });
    assert_eq!(copy.expect_fault("F38", &[]).len(), 1);
}

#[test]
fn objects_at_wrong_places() {
    let Some((_site, of)) = stopped("fsck of places") else { return };
    let empty = of.inode("d/empty");
    let home = of.home(empty.id);
    let elsewhere = of.another(home);

    let copy = of.copy();
    copy.record(elsewhere, [Effect::PutInode { inode: empty.clone() }]);
    let faults = copy.expect_fault("F34", &[]);
    assert_eq!((faults.len(), &faults[0]["shard"]), (1, &elsewhere.0.into()));

    let copy = of.copy();
    copy.record(elsewhere, [Effect::PutInode { inode: Inode { id: of.new_id(home), ..empty.clone() } }]);
    copy.expect_fault("F35", &[]);

    let copy = of.copy();
    let (dir, known) = (of.id("d"), name("empty"));
    let wrong = of.another(of.site(dir, &known));
    let log = copy.log(&of, dir, wrong, 0, 0);
    copy.record(wrong, [Effect::PutName { parent: dir, name: known, child: empty.id, kind: Kind::File, log }]);
    copy.expect_fault("F35", &[]);

    let copy = of.copy();
    let id = InodeId::new(empty.id.slot(), Birth(of.births as u32 + 7), 1, Kind::File);
    copy.record(home, [Effect::PutInode { inode: Inode { id, nlink: 0, ..empty } }]);
    copy.expect_fault("F36", &[]);

    let copy = of.copy();
    let id = InodeId(of.new_id(home).0 | 1);
    copy.record(home, [Effect::PutInode { inode: Inode { id, nlink: 0, ..of.inode("d/empty") } }]);
    copy.expect_fault("F45", &[]);

    let copy = of.copy();
    copy.record(of.home(InodeId::ROOT), [Effect::DropInode { id: InodeId::ROOT }]);
    copy.expect_faults(&["F20", "F30"], &[]); // and all names in it belong nowhere
}
