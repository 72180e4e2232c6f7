//! Who holds record locks through which handle.
//!
//! The kernel tells of a close by FLUSH, which is what releases fcntl locks. It sends none for handles opened NOFLUSH, and
//! never names the owner of OFD locks in one. Locks of owners that are left when the handle goes are released then.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use onpath_session::fs::Handle;

/// Owners of record locks, by handle. Programs that lock nothing pay one atomic load a close.
#[derive(Default)]
pub(super) struct LockOwners {
    owners: Mutex<HashMap<Handle, Vec<u64>>>,
    handles: AtomicUsize,
}

impl LockOwners {
    fn owners(&self) -> Option<MutexGuard<'_, HashMap<Handle, Vec<u64>>>> {
        match self.handles.load(Ordering::Acquire) {
            0 => None,
            _ => Some(self.owners.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// `owner` got a lock through `handle`.
    pub(super) fn locked(&self, handle: Handle, owner: u64) {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let of_handle = owners.entry(handle).or_default();
        if !of_handle.contains(&owner) {
            of_handle.push(owner);
        }
        self.handles.store(owners.len(), Ordering::Release);
    }

    /// A FLUSH releases the locks of `owner`.
    pub(super) fn flushed(&self, handle: Handle, owner: u64) {
        let Some(mut owners) = self.owners() else { return };
        if let Some(of_handle) = owners.get_mut(&handle) {
            of_handle.retain(|other| *other != owner);
            if of_handle.is_empty() {
                owners.remove(&handle);
            }
        }
        self.handles.store(owners.len(), Ordering::Release);
    }

    /// The handle goes: the owners whose locks go with it.
    pub(super) fn released(&self, handle: Handle) -> Vec<u64> {
        let Some(mut owners) = self.owners() else { return Vec::new() };
        let of_handle = owners.remove(&handle).unwrap_or_default();
        self.handles.store(owners.len(), Ordering::Release);
        of_handle
    }
}
