//! What must hold of every kind of request, whatever is said of it.

use super::*;
use crate::codec::{Blob, Wire, WireError};
use crate::data::Answered;
use crate::ids::{AloneId, Birth, Cookie, DataId, Generation, LogSeq, RecordSeq, SessionNumber, Stamp};
use crate::inode::Kind;
use crate::request::{FileLock, SetAttr};
use crate::secrets::Secrets;
use crate::ticket::Ticket;
use crate::way::Way;
use crate::xattr::XattrName;

fn name(bytes: &[u8]) -> Name {
    Name::new(bytes).expect("a name")
}

/// Directories have even numbers.
fn id(number: u16) -> InodeId {
    let kind = if number.is_multiple_of(2) { Kind::Directory } else { Kind::File };
    InodeId::new(Slot(7), Birth(1), number, kind)
}

fn node(open: u32) -> NewNode {
    NewNode { kind: Kind::File, mode: 0, umask: 0, rdev: 0, target: Blob::default(), open }
}

fn lock(kind: LockKind) -> FileLock {
    FileLock { flock: false, kind, start: 0, end: 0, owner: 1, pid: 1 }
}

/// Every kind, and those whose fields decide several times.
fn all() -> Vec<Request> {
    use Request as Q;
    let (id, parent, name) = (id(3), id(4), name(b"b"));
    let xattr = XattrName::new(b"user.a").expect("a name");
    let data = DataId { inode: id, generation: Generation(1) };
    let key = Secrets::of_seed(1).inner.tickets();
    let ticket = Ticket::new(&key, SessionNumber(1), (data, 0), 1, 0);
    let (blocks, last, stamp) = (0, LogSeq(1), Stamp(1));
    let writes = Answered { data, cut: 0, end: 0, blocks, version: 0, kill_suidgid: false, last, stamp };
    let mut all = vec![
        Q::Lookup { parent, name: name.clone() },
        Q::Resolve { from: parent, names: vec![name.clone()], look: true, tell: true },
        Q::LookupLed { parent, name: name.clone(), way: Way { parent, name: None, dirs: vec![] } },
        Q::GetAttr { id },
        Q::SetAttr { id, set: SetAttr::default() },
        Q::Link { id, parent, name: name.clone() },
        Q::Unlink { parent, name: name.clone() },
        Q::Rmdir { parent, name: name.clone() },
        Q::Rename { from_parent: self::id(6), from: self::name(b"a"), parent, name: name.clone(), flags: 0 },
        Q::Release { id },
        Q::ReadDir { id, after: Cookie(0), bytes: 0 },
        Q::ReadLink { id },
        Q::Access { id, mask: 4 },
        Q::StatFs,
        Q::GetAttrs { ids: vec![id] },
        Q::TestLock { id, lock: lock(LockKind::Read) },
        Q::CancelLock { id, lock: lock(LockKind::Read) },
        Q::DropLocks { id, flock: false, owner: 1 },
        Q::Reserve { id },
        Q::Unreserve { id },
        Q::Sync { id },
        Q::Attach { again: false },
        Q::Renew,
        Q::Detach { gone: false },
        Q::DataRef { id },
        Q::SetXattr { id, name: xattr.clone(), value: Blob::default(), flags: 0 },
        Q::GetXattr { id, name: xattr.clone() },
        Q::ListXattr { id },
        Q::RemoveXattr { id, name: xattr, open_for_write: false },
        Q::ConfirmWait { id, lock: lock(LockKind::Read) },
        Q::LockWaits { of: vec![] },
        Q::RenewAlone,
        Q::HandBack { alone: AloneId(1) },
        Q::Kept,
        Q::WriteBack { id, changed_at: None },
        Q::WrittenBack { id, wrote: true },
        Q::Map { id },
        Q::Learn { writes, record: RecordSeq(1) },
        Q::OpenAgain { id, flags: 0, ticket },
    ];
    for open in [0, open::REGISTER, open::EARLY] {
        all.push(Q::Create { parent, name: name.clone(), node: node(open) });
        all.push(Q::TmpFile { parent, slot: Slot(9), node: node(open) });
    }
    for flags in [open::READ, open::REGISTER, open::REGISTER | open::TRUNCATE, open::REGISTER | open::AGAIN] {
        all.push(Q::Open { id, flags });
    }
    for (kind, again) in [(LockKind::Write, false), (LockKind::Write, true), (LockKind::Unlock, false)] {
        all.push(Q::SetLock { id, lock: lock(kind), wait: true, again });
    }
    all
}

fn describe_all(mut look: impl FnMut(&Request, Description<'_>)) {
    all().iter().for_each(|request| look(request, request.describe()));
}

#[test]
fn every_kind_is_among_them() {
    let known = |tag: &u8| !matches!(Request::from_bytes(&[*tag]), Err(WireError::UnknownTag { what: "Request", .. }));
    let tags: Vec<u8> = (0..=u8::MAX).filter(known).collect();
    let mut tried: Vec<u8> = all().iter().map(|request| request.to_bytes()[0]).collect();
    tried.sort_unstable();
    tried.dedup();
    assert_eq!(tried, tags);
}

#[test]
fn what_changes_something_is_not_simply_executed_again() {
    describe_all(|request, what| {
        let executed = what.repeated == Repeated::Executed;
        let changes = what.changes != Changes::NOTHING;
        assert!(!(changes && executed), "{request:?}");
        // An open that registers nothing is remembered as the others are.
        assert!(
            changes || executed || matches!(request, Request::Open { .. } | Request::OpenAgain { .. }),
            "{request:?}"
        );
        // What says the same again has no effect beyond its session.
        let own = Changes::SESSION.and(Changes::WAITS);
        assert!(what.repeated != Repeated::Said || what.changes.has(own), "{request:?}");
    });
}

#[test]
fn what_lasts_needs_a_lease_and_what_comes_back_needs_none() {
    let lasting = Changes::NAMES.and(Changes::ATTRIBUTES).and(Changes::OTHERS).and(Changes::INODES);
    describe_all(|request, what| {
        if what.changes.has(lasting) {
            assert!(what.leased && what.matters() && !what.may_be_asked_anew(), "{request:?}");
        }
        if what.again || what.is_of_session() {
            assert!(!what.leased && !what.waits && !what.may_be_asked_anew(), "{request:?}");
        }
        // It would be refused for want of a lease while its session comes back.
        assert!(!what.leased || what.is_remembered(), "{request:?}");
        assert!(!what.leased || what.waits, "{request:?}");
    });
}

#[test]
fn an_early_answer_is_to_a_name_that_is_made_and_remembered() {
    let mut early = 0;
    describe_all(|request, what| {
        early += u32::from(what.early);
        let made = what.changes.has(Changes::NAMES) && what.changes.has(Changes::INODES);
        assert!(!what.early || made && what.is_remembered() && !what.again, "{request:?}");
    });
    assert_eq!(early, 1);
}

#[test]
fn space_is_wanted_only_by_what_changes_names_or_attributes() {
    describe_all(|request, what| {
        let lasting = Changes::NAMES.and(Changes::ATTRIBUTES).and(Changes::INODES);
        assert!(!what.space || what.changes.has(lasting), "{request:?}");
    });
}

#[test]
fn a_request_goes_where_what_it_is_about_lives() {
    let map = ClusterMap::even(3, crate::secrets::Secrets::of_seed(1).placement);
    let (id, parent, name) = (id(3), id(4), name(b"b"));
    describe_all(|request, what| {
        let names: Vec<NameIn<'_>> = what.about.names().collect();
        let at = match (names.last(), what.about) {
            (Some((parent, name)), _) => map.site(*parent, name.as_bytes()),
            (None, About::Slot(_, slot)) => slot,
            (None, About::Session | About::Shard) => COORDINATOR_SLOT,
            (None, _) => id.slot(),
        };
        assert_eq!(what.about.slot(&map), at, "{request:?}");
        assert!(!what.changes.has(Changes::NAMES) || !names.is_empty(), "{request:?}");
        assert!(!what.changes.has(Changes::ATTRIBUTES) || what.about.inode() == Some(id), "{request:?}");
        assert!(!what.collects || what.about == About::Inode(id), "{request:?}");
    });
    let rename = Request::Rename { from_parent: id, from: self::name(b"a"), parent, name: name.clone(), flags: 0 };
    let names: Vec<(InodeId, Name)> =
        rename.describe().about.names().map(|(parent, name)| (parent, name.clone())).collect();
    assert_eq!(names, [(id, self::name(b"a")), (parent, name.clone())]);
    let link = Request::Link { id, parent, name };
    assert_eq!((link.describe().about.inode(), link.describe().about.names().count()), (Some(id), 1));
}

#[test]
fn flags_decide() {
    let id = id(3);
    let changes = |flags| Request::Open { id, flags }.describe().changes;
    assert_eq!(changes(open::READ | open::WRITE), Changes::NOTHING);
    assert_eq!(changes(open::REGISTER), Changes::OPENS);
    assert_eq!(changes(open::REGISTER | open::TRUNCATE), Changes::OPENS.and(Changes::ATTRIBUTES));
    assert_eq!(changes(open::REGISTER | open::MAP), Changes::OPENS.and(Changes::PAGES));
    let takes = |kind, again| {
        let request = Request::SetLock { id, lock: lock(kind), wait: true, again };
        let what = request.describe();
        (what.waits, what.leased, what.again, what.may_be_asked_anew())
    };
    assert_eq!(takes(LockKind::Read, false), (true, true, false, true));
    assert_eq!(takes(LockKind::Read, true), (false, false, true, false));
    assert_eq!(takes(LockKind::Unlock, false), (false, false, false, true));
}
