//! Loading a checkpoint into fresh roles, before the journal is replayed.

use super::CheckpointError;
use super::store::Store;
use crate::progress::{Stage, Watcher};
use onpath_store::{Cold, Recoverable};
use onpath_wire::disk::superblock::JournalId;
use onpath_wire::ids::{Lsn, NodeId};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// What was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The first lsn to replay.
    pub from: Lsn,
    /// Ranges of roles; 0 if there was no checkpoint.
    pub images: u64,
    /// Objects loaded; others are read when they are asked for.
    pub objects: u64,
}

impl Loaded {
    /// There is no checkpoint.
    pub const NOTHING: Loaded = Loaded { from: Lsn(1), images: 0, objects: 0 };
}

/// What happens on an error: it ends the load, or is noted and the load goes on with the next object.
pub type OnError<'a> = dyn FnMut(CheckpointError) -> Result<(), CheckpointError> + 'a;

/// Gives what a store has of a role.
pub type ViewOf<'a> = dyn FnMut(&Arc<Store>, NodeId) -> Result<Arc<dyn Cold>, CheckpointError> + 'a;

/// Roles and their addresses.
pub type Roles<'a> = [(NodeId, &'a mut dyn Recoverable)];

/// Gives these fresh roles the checkpoint of a store, if there is one. Objects that can be read one by one stay where they are: in what
/// `view` gives of the store for a role.
pub fn attach(
    store: &Store,
    roles: &mut Roles<'_>,
    view: &mut dyn FnMut(NodeId) -> Result<Arc<dyn Cold>, CheckpointError>,
    watcher: &dyn Watcher,
) -> Result<Loaded, CheckpointError> {
    watcher.begin(Stage::of("loading the checkpoint", "objects"));
    for (address, role) in &mut *roles {
        role.attach(view(*address)?).map_err(|error| store.refused(error))?;
    }
    match store.head()? {
        Some(_) => from_store(store, roles, Wrong::new(), &mut Err, watcher),
        None => Ok(Loaded::NOTHING),
    }
}

/// The same after a look at all of its objects; `on_error` decides about each error except those that concern all of the
/// checkpoint, which end the load. The checkpoint is not changed. A store with an object that does not check is not attached.
pub fn look(
    dir: &Path,
    journal: JournalId,
    roles: &mut Roles<'_>,
    view: &mut ViewOf<'_>,
    on_error: &mut OnError<'_>,
    watcher: &dyn Watcher,
) -> Result<Loaded, CheckpointError> {
    watcher.begin(Stage::of("reading the checkpoint", "objects"));
    let shards = roles.iter().filter(|(address, _)| address.as_shard().is_some()).count();
    let store = match Store::look(dir, shards as u16, journal)? {
        Some(store) if store.head()?.is_some() => Arc::new(store),
        _ => return Ok(Loaded::NOTHING),
    };
    let mut wrong = Wrong::new();
    let mut objects = 0;
    for (address, role) in &*roles {
        let mut check = role.object_check();
        store.objects(*address, &mut |key, value| {
            objects += 1;
            watcher.done(1);
            let checked = value.and_then(|value| check(key, value).map_err(|error| store.refused(error)));
            checked.or_else(|error| {
                wrong.entry(*address).or_default().push(error);
                Ok(())
            })
        })?;
    }
    if wrong.is_empty() {
        for (address, role) in &mut *roles {
            role.attach(view(&store, *address)?).map_err(|error| store.refused(error))?;
        }
    }
    let loaded = from_store(&store, roles, wrong, on_error, watcher)?;
    Ok(Loaded { objects: loaded.objects + objects, ..loaded })
}

/// What is wrong with the objects of roles.
type Wrong = BTreeMap<NodeId, Vec<CheckpointError>>;

fn from_store(
    store: &Store,
    roles: &mut Roles<'_>,
    mut wrong: Wrong,
    on_error: &mut OnError<'_>,
    watcher: &dyn Watcher,
) -> Result<Loaded, CheckpointError> {
    let head = store.head()?.expect("the caller has seen it");
    let shape = |why: String| CheckpointError::Shape { file: store.file().to_owned(), why };
    let mut ranges = store.ranges()?;
    let mut loaded = Loaded { from: head.from, images: 0, objects: 0 };
    for (address, role) in &mut *roles {
        for range in 0..role.ranges() {
            let Some(upto) = ranges.remove(&(*address, range)) else {
                on_error(shape(format!("range {range} of role {:#x} is missing", address.0)))?;
                continue;
            };
            role.loaded(range, upto);
            loaded.images += 1;
            store.rest(*address, range, &mut |key, value| {
                loaded.objects += 1;
                watcher.done(1);
                let taken = value.and_then(|value| role.load(range, key, value).map_err(|e| store.refused(e)));
                taken.or_else(&mut *on_error)
            })?;
        }
        wrong.remove(address).into_iter().flatten().try_for_each(&mut *on_error)?;
    }
    if let Some(((role, range), _)) = ranges.first_key_value() {
        on_error(shape(format!(
            "there is a range {range} of role {:#x}, which this file system does not have",
            role.0
        )))?;
    }
    Ok(loaded)
}
