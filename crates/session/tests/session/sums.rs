//! What the entries of a directory amount to, asked for as an extended attribute.

use crate::rig::*;
use onpath_session::fs::{FsOp, FsReply};
use onpath_session::limits::{SUM_PAGE_BYTES, UNREACHABLE_US};
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::errno::Errno;
use onpath_wire::ids::*;
use onpath_wire::inode::Kind;
use onpath_wire::reply::{DirEntry, Reply};
use onpath_wire::request::Request;
use onpath_wire::xattr::{DIRECTORY_SUM, XattrName};

fn sum_name() -> XattrName {
    XattrName::new(DIRECTORY_SUM).unwrap()
}

fn ask(rig: &mut Rig, id: InodeId) -> u64 {
    rig.fs(FsOp::GetXattr { id, name: sum_name(), probe: false })
}

fn child(number: u32, kind: Kind) -> DirEntry {
    let cookie = Cookie(u64::from(number + 1) << 15);
    let (shard, count) = ((number % 3) as u16, number + 1);
    let child = if kind == Kind::Directory { directory_at(shard, count) } else { inode_at(shard, count) };
    DirEntry { child, kind, cookie, name: name(&format!("f{number}")) }
}

/// The session asks for the page after that cookie, and gets these entries.
fn page(rig: &mut Rig, id: InodeId, after: Cookie, entries: &[DirEntry], end: bool) {
    let sent = rig.sent();
    assert_eq!(sent.request(), Request::ReadDir { id, after, bytes: SUM_PAGE_BYTES });
    let entries = entries.to_vec();
    rig.reply(&sent, Reply::Dir { parent: InodeId::ROOT, entries, end, due: true, flags: 0 });
}

fn permit(rig: &mut Rig, id: InodeId) {
    let sent = rig.sent();
    assert_eq!(sent.request(), Request::Access { id, mask: 5 });
    rig.reply(&sent, Reply::Done);
}

/// Answers all that was asked of several inodes; how many messages that were.
fn tell(rig: &mut Rig, of: impl Fn(InodeId) -> Option<AttrWire>) -> usize {
    let asked: Vec<_> = std::iter::from_fn(|| rig.try_sent()).collect();
    for sent in &asked {
        let Request::GetAttrs { ids } = sent.request() else { panic!("attributes expected") };
        assert!(ids.iter().all(|&id| NodeId::shard(rig.map.home(id)) == sent.to));
        rig.reply(sent, Reply::Attrs { attrs: ids.into_iter().map(&of).collect() });
    }
    asked.len()
}

#[test]
fn a_directory_is_summed_up_with_a_message_a_page_and_shard() {
    let mut rig = Rig::new();
    let dir = directory_at(1, 100);
    let kinds = [Kind::File, Kind::Directory, Kind::File, Kind::Symlink, Kind::File, Kind::CharDevice, Kind::File];
    let entries: Vec<_> = (0..).zip(kinds).map(|(number, kind)| child(number, kind)).collect();
    let told = |id: InodeId| {
        let number = entries.iter().position(|entry| entry.child == id).expect("an entry") as u64;
        let attr = attr(id, entries[number as usize].kind);
        AttrWire { size: 10 << number, blocks_or_rdev: 8 * number, nlink: 1 + u32::from(number == 6), ..attr }
    };
    let unique = ask(&mut rig, dir);
    page(&mut rig, dir, Cookie(2), &entries[..5], false);
    permit(&mut rig, dir);
    // Of the five, the directory is not asked for, one is being changed, and one is gone by the time it is asked for.
    let left_out = [entries[2].child, entries[4].child];
    assert_eq!(tell(&mut rig, |id| (!left_out.contains(&id)).then(|| told(id))), 3);
    let sent = rig.sent();
    assert_eq!(sent.request(), Request::GetAttr { id: left_out[0] });
    rig.reply(&sent, Reply::Attr { attr: told(left_out[0]), data: data_ref(1, 0), shared: false });
    let sent = rig.sent();
    assert_eq!(sent.request(), Request::GetAttr { id: left_out[1] });
    rig.reply(&sent, Reply::Failed { errno: Errno::ESTALE });
    page(&mut rig, dir, entries[4].cookie, &entries[5..], true);
    assert_eq!(tell(&mut rig, |id| Some(told(id))), 2);
    let Ok(FsReply::Value(value)) = rig.result(unique) else { panic!("a value expected") };
    let blocks = 2 + 3 + 6; // a device has none
    assert_eq!(
        String::from_utf8(value).unwrap(),
        format!(
            "entries 6\nfiles 3\ndirectories 1\nothers 2\nbytes {}\nallocated {}\nlinked 1\n",
            10 + 40 + 640,
            blocks * 4096
        )
    );
    rig.silent();
}

/// What a busy shard does not tell at once is asked for until it does; names that went meanwhile do not count.
#[test]
fn a_busy_shard_makes_no_sum_wrong() {
    let mut rig = Rig::new();
    let (dir, file) = (inode_at(1, 100), child(0, Kind::File));
    for (nlink, files) in [(1, 1), (0, 0)] {
        let unique = ask(&mut rig, dir);
        page(&mut rig, dir, Cookie(2), std::slice::from_ref(&file), true);
        permit(&mut rig, dir);
        let sent = rig.sent();
        rig.reply(&sent, Reply::Busy);
        let sent = rig.sent();
        assert_eq!(sent.request(), Request::GetAttr { id: file.child });
        let attr = AttrWire { size: 7, nlink, ..attr(file.child, Kind::File) };
        rig.reply(&sent, Reply::Attr { attr, data: data_ref(1, 0), shared: false });
        let Ok(FsReply::Value(value)) = rig.result(unique) else { panic!("a value expected") };
        let text = String::from_utf8(value).unwrap();
        assert!(text.starts_with(&format!("entries {files}\nfiles {files}\n")), "{text}");
        assert!(text.contains(&format!("\nbytes {}\n", 7 * files)), "{text}");
    }
}

#[test]
fn nothing_but_a_directory_that_may_be_listed_and_searched_has_a_sum() {
    let mut rig = Rig::new();
    let id = inode_at(1, 100);
    for (errno, shown) in [(Errno::ENOTDIR, Errno::ENODATA), (Errno::ESTALE, Errno::ESTALE)] {
        let unique = ask(&mut rig, id);
        let sent = rig.sent();
        rig.reply(&sent, Reply::Failed { errno });
        rig.fails(unique, shown);
    }
    let unique = ask(&mut rig, id);
    page(&mut rig, id, Cookie(2), &[child(0, Kind::File)], true);
    let access = rig.sent();
    rig.reply(&access, Reply::Failed { errno: Errno::EACCES });
    rig.fails(unique, Errno::EACCES);
    let unique = rig.fs(FsOp::SetXattr { id, name: sum_name(), value: vec![], flags: 0 });
    rig.fails(unique, Errno::EPERM);
    let unique = rig.fs(FsOp::RemoveXattr { id, name: sum_name() });
    rig.fails(unique, Errno::EPERM);
    rig.silent();
}

/// However many pages there are, and however fast they come, a signal ends it; not before it has taken long.
#[test]
fn a_signal_ends_a_long_sum() {
    let mut rig = Rig::new();
    let dir = directory_at(1, 100);
    let unique = ask(&mut rig, dir);
    page(&mut rig, dir, Cookie(2), &[child(0, Kind::Directory)], false);
    permit(&mut rig, dir);
    rig.interrupt(unique);
    for (number, us) in [(1, 0), (2, UNREACHABLE_US / 2), (3, UNREACHABLE_US * 2 / 3)] {
        assert!(rig.try_result().is_none(), "ended before page {number}");
        let sent = rig.find(&Request::ReadDir {
            id: dir,
            after: child(number - 1, Kind::Directory).cookie,
            bytes: SUM_PAGE_BYTES,
        });
        rig.pass(us);
        rig.lose_sent(); // sent again meanwhile
        let entries = vec![child(number, Kind::Directory)];
        rig.reply(
            &sent,
            Reply::Dir { parent: InodeId::ROOT, entries, end: false, due: false, flags: flag::SEARCHABLE },
        );
    }
    rig.fails(unique, Errno::EINTR);
    rig.silent();
}
