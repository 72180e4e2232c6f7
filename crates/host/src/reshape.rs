//! Another number of shards for a DIR that nobody serves.
//!
//! The file system comes to rest first, with all of its state in the checkpoint. The store of the new shape is written beside it, as
//! `checkpoint/reshaped-N.redb`; it counts from the moment on when the superblock says N shards, which is replaced at once. Whoever
//! opens DIR then lets it take the place of the other. So a reshape that is killed leaves the old shape or the new one.

use crate::checkpoint::{self, CheckpointError, Piece, Store};
use crate::dir;
use crate::offline::{Offline, settle};
use crate::progress::{Stage, Watcher};
use crate::server::ServerError;
use onpath_meta::Reshape;
use onpath_store::{Changes, Image, Pair, StoreError};
use onpath_wire::disk::superblock::Superblock;
use onpath_wire::ids::{NodeId, RecordSeq};
use onpath_wire::limits::SHARDS_MAX;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Objects of a shard that are written together.
const OBJECTS_TOGETHER: usize = 4096;

/// Gives the DIR `path` this number of shards; how many objects were moved.
pub fn reshape(path: &Path, shards: u16, watcher: &Arc<dyn Watcher>) -> Result<u64, ServerError> {
    if !(1..=SHARDS_MAX).contains(&shards) {
        return Err(dir::DirError::ShardsRange { asked: shards }.into());
    }
    if dir::read_superblock(path)?.shards() == shards {
        // A reshape that was killed may have left something.
        return Offline::open(path, watcher).map(|_| 0);
    }
    settle(path, watcher)?;
    let dir = Offline::open(path, watcher)?.keep(&**watcher)?;
    let (superblock, place) = (dir.superblock(), dir.place().checkpoint);
    checkpoint::forget_others(&place)?;
    let written = move_all(&place, &superblock, shards, &**watcher);
    if written.is_err() {
        // Nothing counts of it.
        let _ = checkpoint::forget_others(&place);
    }
    let moved = written?;
    dir.set_shards(shards)?;
    checkpoint::adopt(&place, shards)?;
    Ok(moved)
}

fn move_all(place: &Path, of: &Superblock, shards: u16, watcher: &dyn Watcher) -> Result<u64, CheckpointError> {
    let journal = of.journal_id();
    let (old, new) = (Store::open_unserved(place, journal)?, Store::create_reshaped(place, shards, journal)?);
    let frozen = old.frozen()?;
    let from = frozen.head()?.expect("it was just kept").from;
    watcher.begin(Stage::of("moving", "objects").with_whole(frozen.objects()?));
    let mut moved = 0;
    let refused = |source: StoreError| CheckpointError::Load { file: old.file().to_owned(), source };
    let mut draft = new.begin()?;
    let mut reshape = Reshape::to(shards, of.secrets.placement);
    let mut upto = RecordSeq(0);
    let mut waiting: BTreeMap<NodeId, Vec<Pair>> = BTreeMap::new();
    // What is loaded at a start of the other roles, which stay what they are.
    let mut others: BTreeMap<(NodeId, u32), Image> = BTreeMap::new();
    let nothing = |upto| Image { upto, changes: Changes::default(), rest: Vec::new() };
    frozen.all(&mut |piece, value| {
        match piece {
            Piece::Range { role, upto: of, .. } if role.as_shard().is_some() => upto = upto.max(*of),
            Piece::Range { role, range, upto } => _ = others.insert((*role, *range), nothing(*upto)),
            Piece::Rest { role, key, .. } if role.as_shard().is_some() => {
                reshape.rest(&key.0, value).map_err(refused)?;
            }
            Piece::Rest { role, range, key } => {
                let image = others.entry((*role, *range)).or_insert_with(|| nothing(RecordSeq(0)));
                image.rest.push((key.0.clone(), value.to_vec()));
            }
            Piece::Object { role, key } => {
                let to = match role.as_shard() {
                    Some(_) => NodeId::shard(reshape.object(&key.0, value).map_err(refused)?),
                    None => *role,
                };
                let waiting = waiting.entry(to).or_default();
                waiting.push((key.0.clone(), value.to_vec()));
                if waiting.len() >= OBJECTS_TOGETHER {
                    let put = std::mem::take(waiting);
                    draft.put(to, 0, Image { changes: Changes { put, removed: vec![] }, ..nothing(upto) })?;
                }
            }
            Piece::Record { .. } | Piece::End { .. } | Piece::Damage { .. } => {}
        }
        if !matches!(piece, Piece::Range { .. }) {
            moved += 1;
            watcher.done(1);
        }
        Ok(())
    })?;
    for (to, put) in waiting {
        draft.put(to, 0, Image { changes: Changes { put, removed: vec![] }, ..nothing(upto) })?;
    }
    for (shard, range, rest) in reshape.finish() {
        draft.put(NodeId::shard(shard), range, Image { rest, ..nothing(upto) })?;
    }
    for ((role, range), image) in others {
        draft.put(role, range, image)?;
    }
    draft.commit(from)?;
    Ok(moved)
}
