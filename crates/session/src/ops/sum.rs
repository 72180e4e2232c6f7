//! What the entries of a directory amount to: the value of its virtual attribute `onpath.dir`.
//!
//! It is what a listing and a stat of each entry would tell, from a message a page to the directory's home and one to each shard that has
//! inodes of it, and needs the same permissions: to read and to search the directory. An inode that is being changed is asked for by itself,
//! one that is gone by then is not counted. Memory: a page.

use crate::fs::{FsReply, FsResult};
use crate::limits::SUM_PAGE_BYTES;
use crate::op::{Op, attr, done};
use crate::ops::dir;
use onpath_wire::attr::AttrWire;
use onpath_wire::errno::Errno;
use onpath_wire::ids::{Cookie, InodeId};
use onpath_wire::inode::Kind;
use onpath_wire::reply::DirEntry;
use onpath_wire::request::Request;

/// Bytes of a block as attributes count them.
const BLOCK: u64 = 512;
/// Of access(2): r and x.
const READ_AND_SEARCH: u32 = 5;

/// The sum of a directory; ENODATA of anything else.
pub(super) async fn of(op: &mut Op, id: InodeId) -> FsResult {
    let since_us = op.with(|core| core.now.mono_us);
    let (mut sum, mut after) = (Sum::default(), Cookie::DOTDOT);
    loop {
        let page = match dir::page(op, id, true, after, SUM_PAGE_BYTES).await {
            Err(Errno::ENOTDIR) => return Err(Errno::ENODATA),
            page => page?,
        };
        if after == Cookie::DOTDOT {
            done(op.ask(Request::Access { id, mask: READ_AND_SEARCH }).await?)?;
        }
        sum.add_page(op, &page.entries, since_us).await?;
        match page.entries.last() {
            Some(last) if !page.end => after = last.cookie,
            _ => return Ok(FsReply::Value(sum.text().into_bytes())),
        }
        op.is_wanted(since_us)?;
    }
}

#[derive(Default)]
struct Sum {
    entries: u64,
    files: u64,
    directories: u64,
    others: u64,
    /// Sizes of files.
    bytes: u64,
    /// What everything takes on disk, directories aside.
    allocated: u64,
    /// Entries that may have further names, perhaps in other directories.
    linked: u64,
}

impl Sum {
    async fn add_page(&mut self, op: &mut Op, entries: &[DirEntry], since_us: u64) -> Result<(), Errno> {
        // What a directory tells besides its kind is not summed up.
        let (directories, others): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.kind == Kind::Directory);
        self.entries += directories.len() as u64;
        self.directories += directories.len() as u64;
        let ids: Vec<_> = others.into_iter().map(|entry| entry.child).collect();
        let known = dir::attributes(op, ids.clone()).await?;
        for id in ids {
            match known.get(&id) {
                Some(attr) => self.add(attr),
                None => {
                    op.is_wanted(since_us)?;
                    match op.ask(Request::GetAttr { id }).await {
                        Ok(reply) => self.add(&attr(reply)?.0),
                        Err(Errno::ESTALE) => {}
                        Err(errno) => return Err(errno),
                    }
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, attr: &AttrWire) {
        if attr.nlink == 0 {
            return; // its name is gone
        }
        self.entries += 1;
        if attr.kind == Kind::File {
            self.files += 1;
            self.bytes = self.bytes.saturating_add(attr.size);
        } else {
            self.others += 1;
        }
        self.allocated = self.allocated.saturating_add(attr.blocks() * BLOCK);
        self.linked += u64::from(attr.nlink > 1);
    }

    fn text(&self) -> String {
        let Sum { entries, files, directories, others, bytes, allocated, linked } = self;
        format!(
            "entries {entries}\nfiles {files}\ndirectories {directories}\nothers {others}\nbytes {bytes}\n\
             allocated {allocated}\nlinked {linked}\n"
        )
    }
}
