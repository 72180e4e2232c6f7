//! The walk that refuses circles: up from the destination, to see whether it is below what moves.
//!
//! In its turn an attempt looks at few levels. Through a deeper tree it walks before, while others move directories; with its turn it
//! hears which ones have moved, and believes of what it saw only what has not.

use super::{Look, Rename};
use crate::Cx;
use crate::coord::renames::{self, Given};
use crate::ops::Stop;
use crate::planted::{self, Planted};
use crate::state::keys;
use hashbrown::{HashMap, HashSet};
use onpath_store::NameValue;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::limits::{CLIMB_TRIES_MAX, CLIMBS_MAX, TURN_US_MAX};

/// Levels that are looked at without letting others of this shard do something.
const LEVELS_AT_ONCE: usize = 64;

/// What an attempt finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// A directory would come to be below itself.
    Circle,
    /// It would not.
    NoCircle,
    /// The tree is deeper than may be looked at in a turn.
    Deep,
}

/// A turn at moving directories, and what is known of the tree.
#[derive(Default)]
pub(super) struct Climb {
    uid: u32,
    turn: Option<Turn>,
    /// Parents of directories. With the turn they are true.
    parents: HashMap<InodeId, InodeId>,
    /// The turn since which they are looked at.
    since: u64,
    tries: u32,
}

struct Turn {
    given: Given,
    given_us: u64,
    moved: Vec<InodeId>,
}

impl Climb {
    pub(super) fn new(uid: u32) -> Climb {
        Climb { uid, ..Climb::default() }
    }

    pub(super) fn has_turn(&self) -> bool {
        self.turn.is_some()
    }

    /// Waits for a turn, and forgets what has moved before it.
    pub(super) async fn take_turn(&mut self, cx: &Cx) {
        let given = renames::acquire(cx, self.uid, self.since).await;
        match &given.moved {
            _ if planted::is(Planted::ClimbUnverified) => {}
            Some(moved) => {
                for dir in moved {
                    self.parents.remove(dir);
                }
            }
            None => self.parents.clear(),
        }
        self.since = given.number;
        let given_us = cx.with(|core| core.now.mono_us);
        self.turn = Some(Turn { given, given_us, moved: vec![] });
    }

    /// Ends the turn, if there is one.
    pub(super) async fn end_turn(&mut self, cx: &Cx) {
        if let Some(Turn { given, moved, .. }) = self.turn.take() {
            renames::release(cx, given, moved).await;
        }
    }

    /// Ends a turn that was long: somebody else may go on while this one waits for whoever is busy.
    pub(super) async fn end_long_turn(&mut self, cx: &Cx) {
        let now_us = cx.with(|core| core.now.mono_us);
        if self.turn.as_ref().is_some_and(|turn| turn.given_us + TURN_US_MAX < now_us) {
            self.end_turn(cx).await;
        }
    }

    /// It is decided: these directories have another parent.
    pub(super) fn moved(&mut self, what: &Rename, look: &Look, source: NameValue) {
        let other = look.destination.filter(|_| what.exchanges());
        let directories = [Some(source), other].into_iter().flatten().filter(|value| value.kind == Kind::Directory);
        if let Some(turn) = &mut self.turn {
            turn.moved = directories.map(|value| value.child).collect();
        }
    }

    /// Whether a directory would come to be below itself. Stable with the turn.
    pub(super) async fn look(&self, cx: &Cx, what: &Rename, look: &Look, source: NameValue) -> Found {
        let mut levels = cx.with(|core| core.state.config.bounds.turn_levels);
        if source.kind == Kind::Directory {
            let found = self.below(cx, what.parent, source.child, &mut levels).await;
            if found != Found::NoCircle {
                return found;
            }
        }
        match look.destination.filter(|d| what.exchanges() && d.kind == Kind::Directory) {
            Some(other) => self.below(cx, what.from_parent, other.child, &mut levels).await,
            None => Found::NoCircle,
        }
    }

    /// Whether `dir` is `top` or below it.
    async fn below(&self, cx: &Cx, mut dir: InodeId, top: InodeId, levels: &mut u32) -> Found {
        while dir != top {
            if dir == InodeId::ROOT {
                return Found::NoCircle;
            }
            dir = match self.parents.get(&dir) {
                Some(&parent) => parent,
                None if *levels == 0 => return Found::Deep,
                None => {
                    *levels -= 1;
                    let Some(parent) = renames::parent_of(cx, dir).await else { return Found::NoCircle };
                    parent
                }
            }
        }
        Found::Circle
    }

    /// The tree is deep: ends the turn, and walks up from both directories, as far as their parents are not known.
    pub(super) async fn climb(&mut self, cx: &Cx, what: &Rename) -> Result<(), Stop> {
        self.end_turn(cx).await;
        self.tries += 1;
        if self.tries > CLIMB_TRIES_MAX {
            return Err(Errno::EBUSY.into());
        }
        if self.tries == 1 {
            self.begin(cx).await;
        }
        self.up(cx, what.parent).await?;
        if what.exchanges() { self.up(cx, what.from_parent).await } else { Ok(()) }
    }

    /// Waits until no other rename of this user is in a deep tree here: what they know takes memory.
    async fn begin(&self, cx: &Cx) {
        cx.until(keys::CLIMB, |core| {
            let climbers = &mut core.state.turn.climbers;
            (climbers.len() < CLIMBS_MAX && climbers.insert(self.uid)).then_some(())
        })
        .await;
    }

    /// The move is over.
    pub(super) async fn end(mut self, cx: &Cx) {
        self.end_turn(cx).await;
        if self.tries > 0 {
            cx.with(|core| {
                core.state.turn.climbers.remove(&self.uid);
                core.wake(keys::CLIMB);
            });
        }
    }

    /// Others may move what is looked at: then the way may go anywhere, but it is not followed for ever. Where it goes round, what was seen at
    /// different times is forgotten.
    async fn up(&mut self, cx: &Cx, from: InodeId) -> Result<(), Stop> {
        let levels_max = cx.with(|core| core.state.config.bounds.climb_levels);
        let (mut dir, mut seen) = (from, HashSet::new());
        for level in 1..=levels_max {
            if dir == InodeId::ROOT {
                return Ok(());
            }
            if !seen.insert(dir) {
                self.parents.clear();
                return Ok(());
            }
            dir = match self.parents.get(&dir) {
                Some(&parent) => parent,
                None => {
                    let Some(parent) = renames::parent_of(cx, dir).await else { return Ok(()) };
                    self.parents.insert(dir, parent);
                    parent
                }
            };
            if level % LEVELS_AT_ONCE == 0 {
                let now_us = cx.with(|core| core.now.mono_us);
                cx.sleep_until(now_us).await;
            }
        }
        Err(Errno::ELOOP.into())
    }
}
