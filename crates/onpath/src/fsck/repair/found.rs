//! What nothing leads to gets a name in `/lost+found`: `#` and the number of its inode.

use super::fixes::{Fixes, STAMP};
use crate::fsck::code::Code;
use crate::fsck::view::{Named, Target, View};
use onpath_host::offline::Offline;
use onpath_wire::disk::inode::Inode;
use onpath_wire::ids::{Birth, InodeId, Slot};
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use std::time::{SystemTime, UNIX_EPOCH};

const LOST_AND_FOUND: &[u8] = b"lost+found";
/// As other file systems make it: what is in it was not for everybody's eyes.
const MODE: u16 = 0o700;

pub(super) fn fix(view: &View, offline: &mut Offline, fixes: &mut Fixes) {
    let lost: Vec<Inode> = view.named().filter(|named| is_lost(view, named)).map(|named| named.inode).collect();
    if lost.is_empty() || view.directory(InodeId::ROOT).is_none() {
        return;
    }
    let place = Name::new(LOST_AND_FOUND).expect("a name");
    match view.names.get(&(InodeId::ROOT, place.clone())) {
        Some(Target { child, kind: Kind::Directory }) => {
            lost.iter().for_each(|inode| name(view, offline, child, inode, fixes));
        }
        Some(other) => {
            // Whoever has that name keeps what it leads to, under another one.
            let aside = Name::new(format!("lost+found.{:x}", other.child.0).as_bytes()).expect("a short name");
            fixes.because(Code::NoName, format!("/lost+found is no directory; it is called {aside:?} now"));
            fixes.drop_name(view, offline, (InodeId::ROOT, &place), other);
            fixes.put_name(view, offline, (InodeId::ROOT, &aside), other);
        }
        None => make(view, offline, &place, fixes),
    }
}

/// Whether an inode should have a name and has none.
fn is_lost(view: &View, Named { inode, count, .. }: &Named) -> bool {
    let promised = view.promised.links.get(&inode.id).copied().unwrap_or(0);
    inode.id != InodeId::ROOT
        && inode.nlink > 0
        && i64::from(inode.nlink) + promised > 0
        && *count == 0
        && !view.promised.removed.contains(&inode.id)
}

fn make(view: &View, offline: &mut Offline, place: &Name, fixes: &mut Fixes) {
    let birth = view.next.birth;
    if birth > Birth::MAX {
        return; // no inode can be made any more
    }
    let mut inode = Inode::new(InodeId::new(Slot(0), birth, 0, Kind::Directory), Kind::Directory);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
    (inode.atime, inode.mtime, inode.ctime, inode.btime) = (now, now, now, now);
    (inode.mode, inode.parent, inode.mtime_stamp) = (MODE, InodeId::ROOT, STAMP);
    inode.name = Some(place.clone());
    fixes.because(Code::NoName, "/lost+found is made".to_owned());
    fixes.reserve(view, birth);
    let to = Target { child: inode.id, kind: Kind::Directory };
    fixes.inode(view, inode);
    fixes.put_name(view, offline, (InodeId::ROOT, place), to);
}

fn name(view: &View, offline: &mut Offline, dir: InodeId, inode: &Inode, fixes: &mut Fixes) {
    let name = Name::new(format!("#{:x}", inode.id.0).as_bytes()).expect("a short name");
    fixes.because(Code::NoName, format!("inode {:#x} is /lost+found/{name:?} now", inode.id.0));
    let nlink = if inode.is_dir() { inode.nlink } else { 1 };
    let own = inode.is_dir().then(|| name.clone());
    fixes.inode(view, Inode { parent: dir, name: own, nlink, ..inode.clone() });
    fixes.put_name(view, offline, (dir, &name), Target { child: inode.id, kind: inode.kind });
}
