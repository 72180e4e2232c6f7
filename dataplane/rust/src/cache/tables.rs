//! Tables of the cache that the control plane writes: names, and who may ask (D-77, D-78, D-80, D-118 to D-120).

use crate::Port;
use crate::common::control::ControlError;
use crate::common::planted::{Planted, planted};
use onpath_wire::innet::cache::{Read, wants};
use std::collections::{BTreeMap, BTreeSet};

/// Most requesters of a switch, those of one port with each caller that it may name.
pub const REQUESTERS_MAX: usize = 16_384;

/// What a name has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where its stamp and its value are.
    pub index: u32,
    /// Number of its entry, not 0.
    pub number: u32,
}

/// (Key, token) → entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(BTreeMap<(u64, u8), Found>);

impl Names {
    /// D-80.
    #[inline]
    pub(crate) fn find(&self, key: u64, token: u8) -> Option<Found> {
        if planted(Planted::D80) {
            return self.0.range((key, 0)..=(key, u8::MAX)).next().map(|(_, found)| *found);
        }
        self.0.get(&(key, token)).copied()
    }

    /// D-118: of at most so many.
    pub(crate) fn admit(&mut self, name: (u64, u8), found: Found, most: usize) -> Result<(), ControlError> {
        if name.1 == 0 || found.number == 0 || found.index as usize >= most {
            return Err(ControlError::Entry);
        }
        if self.0.contains_key(&name) && !planted(Planted::D118) {
            return Err(ControlError::Known);
        }
        if self.0.len() == most && !self.0.contains_key(&name) {
            return Err(ControlError::Full("names", most));
        }
        self.0.insert(name, found);
        Ok(())
    }

    /// D-119.
    pub(crate) fn evict(&mut self, name: (u64, u8)) {
        if !planted(Planted::D119) {
            self.0.remove(&name);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Ports that may ask: in anybody's name, or in that of a uid with a gid.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requesters(BTreeSet<(Port, Option<(u32, u32)>)>);

impl Requesters {
    /// D-77, D-78: whether a read that came in by this port may name its caller.
    #[inline]
    pub(crate) fn may_ask(&self, port: Port, read: &Read) -> bool {
        if self.0.contains(&(port, None)) || planted(Planted::D77) {
            return true;
        }
        let capable = read.wants & (wants::READS_ALL | wants::WRITES_ALL) != 0;
        let named = self.0.contains(&(port, Some((read.uid, read.gid))));
        named && !capable || planted(Planted::D78) && self.of(port).next().is_some()
    }

    fn of(&self, port: Port) -> impl Iterator<Item = &(Port, Option<(u32, u32)>)> {
        self.0.range((port, None)..=(port, Some((u32::MAX, u32::MAX))))
    }

    /// D-120: a caller, or none for anybody.
    pub(crate) fn list(&mut self, port: Port, caller: Option<(u32, u32)>) -> Result<(), ControlError> {
        if self.0.len() == REQUESTERS_MAX && !self.0.contains(&(port, caller)) {
            return Err(ControlError::Full("requesters", REQUESTERS_MAX));
        }
        self.0.insert((port, caller));
        Ok(())
    }

    /// D-120.
    pub(crate) fn unlist(&mut self, port: Port) {
        if !planted(Planted::D120) {
            self.0.retain(|(listed, _)| *listed != port);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
