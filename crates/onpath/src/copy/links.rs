//! Inodes of several names: each is copied once, under the name that comes first.

use super::object::{Destination, Facts, Id};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The inodes of which not all names were seen yet: a row each.
pub(super) struct Links<D: Destination> {
    state: Mutex<State<D>>,
}

struct State<D: Destination> {
    inodes: HashMap<Id, Inodes<D>>,
    /// Names that wait for their first one, with it.
    waiting: Vec<(Arc<First<D>>, D::Name)>,
}

struct Inodes<D: Destination> {
    first: Arc<First<D>>,
    /// Names that were not seen yet.
    unseen: u64,
}

/// The copy under its first name.
pub(super) struct First<D: Destination + ?Sized> {
    pub(super) name: D::Name,
    /// Once it is complete.
    pub(super) made: OnceLock<D::Made>,
}

/// What is to be done with a name.
pub(super) enum Claim<D: Destination> {
    /// Copy the inode, then call [`Links::settle`].
    Copy,
    /// Make it a name of this.
    Link(Arc<First<D>>, D::Name),
    /// Nothing now: the first name is being copied.
    Later,
}

impl<D: Destination> Default for Links<D> {
    fn default() -> Links<D> {
        Links { state: Mutex::new(State { inodes: HashMap::new(), waiting: Vec::new() }) }
    }
}

impl<D: Destination> Links<D> {
    fn state(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name of the inode has come.
    pub(super) fn claim(&self, is: &Facts, name: D::Name) -> Claim<D> {
        let mut state = self.state();
        let State { inodes, waiting } = &mut *state;
        let Some(inode) = inodes.get_mut(&is.id) else {
            let unseen = is.links.saturating_sub(1);
            let first = Arc::new(First { name, made: OnceLock::new() });
            inodes.insert(is.id, Inodes { first, unseen });
            return Claim::Copy;
        };
        inode.unseen = inode.unseen.saturating_sub(1);
        let first = inode.first.clone();
        if first.made.get().is_none() {
            waiting.push((first, name));
            return Claim::Later;
        }
        if inode.unseen == 0 {
            inodes.remove(&is.id);
        }
        Claim::Link(first, name)
    }

    /// The claimed inode is copied; None: its copy has failed, then the next name that comes claims it again.
    pub(super) fn settle(&self, is: &Facts, made: Option<D::Made>) {
        let mut state = self.state();
        let Some(inode) = state.inodes.get(&is.id) else { return };
        let (unseen, has_failed) = (inode.unseen, made.is_none());
        if let Some(made) = made {
            // Only who has claimed it comes here.
            _ = inode.first.made.set(made);
        }
        if has_failed || unseen == 0 {
            state.inodes.remove(&is.id);
        }
    }

    /// The names that are still to be made, with the first ones.
    pub(super) fn rest(&self) -> Vec<(Arc<First<D>>, D::Name)> {
        std::mem::take(&mut self.state().waiting)
    }
}
