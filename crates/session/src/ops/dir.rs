//! Listings. The session keeps no position: a cookie says it all (design.md, "Objects and places"). "." and ".." are its own, with cookies 1
//! and 2; attributes for a page come in one message a shard.

use crate::fs::{FsReply, FsResult, Handle};
use crate::op::Op;
use crate::ops::attr::seen;
use crate::ops::halves;
use crate::ops::later;
use crate::state::header;
use onpath_kernel::Answer;
use onpath_wire::attr::{AttrWire, flag};
use onpath_wire::errno::Errno;
use onpath_wire::header::MessageKind;
use onpath_wire::ids::{Cookie, InodeId, NodeId};
use onpath_wire::inode::Kind;
use onpath_wire::limits::{ATTRS_ASKED_MAX, NAME_BYTES_MAX};
use onpath_wire::name::Name;
use onpath_wire::packet::Packet;
use onpath_wire::reply::{DirEntry, Reply};
use onpath_wire::request::Request;
use std::collections::BTreeMap;

/// What an entry of a page takes besides its name, bytes.
const ENTRY_BYTES: u32 = 32;
/// A page holds at least an entry of the longest name.
const PAGE_BYTES_MIN: u32 = ENTRY_BYTES + NAME_BYTES_MAX as u32;

/// A page of names.
pub(crate) async fn readdir(op: &mut Op, handle: Handle, after: Cookie, bytes: u32) -> FsResult {
    let (id, noatime) = directory(op, handle)?;
    Ok(FsReply::Dir(page(op, id, noatime, after, bytes).await?.entries))
}

/// A page of names with attributes, if everybody may search the directory: nobody checks who finds them in a cache.
pub(crate) async fn readdir_plus(op: &mut Op, handle: Handle, after: Cookie, bytes: u32) -> FsResult {
    let (id, noatime) = directory(op, handle)?;
    let Page { entries, flags, .. } = page(op, id, noatime, after, bytes).await?;
    let attrs =
        if flags & flag::SEARCHABLE != 0 { attributes(op, to_be_told(op, &entries)).await? } else { BTreeMap::new() };
    let pairs = entries.into_iter().map(|entry| {
        let attr = attrs.get(&entry.child).filter(|_| entry.cookie > Cookie::DOTDOT);
        let attr = attr.map(|attr| seen(op, *attr, false));
        let attr = attr.map(|attr| AttrWire { flags: attr.flags | flags, ..attr });
        (entry, attr)
    });
    Ok(FsReply::DirPlus(pairs.collect()))
}

/// The directory, and whether its access time is to be left alone.
fn directory(op: &Op, handle: Handle) -> Result<(InodeId, bool), Errno> {
    op.with(|core| match core.state.opens.get(handle)? {
        open if open.directory => Ok((open.id, open.mode.noatime)),
        _ => Err(Errno::ENOTDIR),
    })
}

/// Whose attributes a page may tell.
fn to_be_told(op: &Op, entries: &[DirEntry]) -> Vec<InodeId> {
    op.with(|core| {
        let told = |entry: &&DirEntry| entry.cookie > Cookie::DOTDOT && !halves::is_one(core, entry.child);
        entries.iter().filter(told).map(|entry| entry.child).collect()
    })
}

/// A part of a listing.
pub(super) struct Page {
    pub(super) entries: Vec<DirEntry>,
    /// Nothing follows.
    pub(super) end: bool,
    /// What is to be said of the directory with each name.
    flags: u8,
}

/// Entries after a cookie.
pub(super) async fn page(op: &mut Op, id: InodeId, noatime: bool, after: Cookie, bytes: u32) -> Result<Page, Errno> {
    let bytes = bytes.max(PAGE_BYTES_MIN);
    let request = Request::ReadDir { id, after: after.max(Cookie::DOTDOT), bytes };
    let Reply::Dir { parent, mut entries, end, due, flags } = op.ask(request).await? else {
        return Err(Errno::EIO);
    };
    if !noatime {
        op.with(|core| {
            let begins = after <= Cookie::DOTDOT && !core.state.config.access_times.not_of_directories;
            later::accessed(core, id, begins && due, begins);
        });
    }
    if after < Cookie::DOTDOT {
        let up = if parent.is_some() { parent } else { id };
        let dots = [(id, Cookie::DOT, Name::dot()), (up, Cookie::DOTDOT, Name::dot_dot())];
        let dots = dots.into_iter().filter(|(_, cookie, _)| *cookie > after);
        let dots = dots.map(|(child, cookie, name)| DirEntry { child, kind: Kind::Directory, cookie, name });
        entries.splice(..0, dots);
    }
    Ok(Page { entries, end, flags })
}

/// Attributes of many inodes: one message a shard. Those that are changed just now or slow to read are left out, and so are all of a busy shard,
/// and what does not fit its answer.
pub(super) async fn attributes(op: &Op, ids: Vec<InodeId>) -> Result<BTreeMap<InodeId, AttrWire>, Errno> {
    let mut by_shard = BTreeMap::<NodeId, Vec<InodeId>>::new();
    op.with(|core| ids.into_iter().for_each(|id| by_shard.entry(core.state.shard_at(id.slot())).or_default().push(id)));
    if by_shard.is_empty() {
        return Ok(BTreeMap::new());
    }
    by_shard.values_mut().for_each(|ids| ids.truncate(ATTRS_ASKED_MAX));
    let peers: Vec<_> = by_shard.keys().copied().collect();
    let answers = op
        .call_all(&peers, |core, to, seq| {
            let ids = by_shard[&to].clone();
            let slot = ids[0].slot();
            let body = core.state.own_body(Request::GetAttrs { ids });
            Packet::new(&header(core, MessageKind::Request, to, slot, seq), &body)
        })
        .await?;
    let mut found = BTreeMap::new();
    for (answer, ids) in answers.into_iter().zip(by_shard.values()) {
        let Answer::Packet(packet) = answer else { return Err(Errno::EIO) };
        match packet.body::<Reply>() {
            Ok(Reply::Attrs { attrs }) if attrs.len() == ids.len() => {
                found.extend(attrs.into_iter().flatten().map(|attr| (attr.id, attr)));
            }
            Ok(Reply::Busy) => {}
            Ok(Reply::Failed { errno }) => return Err(errno),
            _ => return Err(Errno::EIO),
        }
    }
    Ok(found)
}
