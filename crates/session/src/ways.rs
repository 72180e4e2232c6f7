//! Ways that this session keeps (P-5): directories with their names, as path nodes have told, so that a path is followed without asking anybody.
//!
//! Nobody takes back what is kept. But each shard counts the directories through which ways are to be forgotten, and a request that is made by
//! a way says how far this session has heard its count: the shard executes nothing where that is too old, and tells what was missed. So what is
//! kept allows nothing by itself. It never refuses anything either: what it does not know, or would deny, a path node is asked for.

use crate::fs::WaysAt;
use crate::planted::{self, Planted};
use onpath_index::{Access, Check, DirId, Directory, End, Grant, Heap, Hi, Index, IndexError, Search, Secret};
use onpath_wire::caller::Caller;
use onpath_wire::header::Position;
use onpath_wire::ids::{InodeId, ShardId};
use onpath_wire::name::Name;
use onpath_wire::permission::Unknown;
use onpath_wire::way::{Searchable, Way, may_search};

/// Directories given up at a time when there is no more room.
const GIVEN_UP: usize = 64;
/// Paths after which a session begins to keep ways: who follows fewer has nothing from it.
const PATHS_BEFORE: u32 = 2;

/// How a session keeps ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptWays {
    /// Bytes of memory for them; with 0 it keeps none.
    pub bytes: usize,
    /// What keys them: nobody else knows it.
    pub key: [u8; 16],
}

/// What is kept.
pub(crate) struct Ways {
    config: KeptWays,
    index: Hi<Heap>,
    /// Grows with all that was heard: what was asked for in an earlier state is not kept, and nothing rests on it (schedules K6a, K6b).
    at: WaysAt,
    /// How far each shard was heard; nothing before it was.
    heard: Vec<Option<Position>>,
    /// Paths that were followed; not all of them are counted.
    paths: u32,
    /// Shards are being heard for the first time.
    pub(crate) hears: bool,
    counters: Counters,
}

/// What happened since the session began.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    /// Paths that kept ways led through.
    followed: u64,
    /// Requests that were made by a way that was too old.
    behind: u64,
    /// Directories forgotten, since somebody changed them.
    forgotten: u64,
}

/// Where kept ways lead.
pub(crate) enum Led {
    /// To this directory, as far as is known in this state.
    To(InodeId, WaysAt),
    /// Not known before this is known of the caller.
    Unknown(Unknown),
    Nowhere,
}

impl Ways {
    pub(crate) fn new(config: KeptWays, shards: usize) -> Ways {
        let index = Ways::index(config);
        Ways {
            config,
            index,
            at: WaysAt::NOTHING.next(),
            heard: vec![None; shards],
            paths: 0,
            hears: false,
            counters: Counters::default(),
        }
    }

    fn index(config: KeptWays) -> Hi<Heap> {
        Hi::new(Secret::new(config.key), Heap, config.bytes)
    }

    /// Whether shards are to be heard now, as ways are to be kept from here on.
    pub(crate) fn begins(&mut self) -> bool {
        self.paths = self.paths.saturating_add(1);
        let begins = self.config.bytes > 0 && !self.hears && self.paths >= PATHS_BEFORE && self.unheard().is_some();
        self.hears |= begins;
        begins
    }

    /// A shard that was never heard.
    pub(crate) fn unheard(&self) -> Option<ShardId> {
        self.heard.iter().position(Option::is_none).map(|shard| ShardId(shard as u16))
    }

    /// The state in which a way is asked for that is to be kept, if any is.
    pub(crate) fn asks(&self) -> Option<WaysAt> {
        (self.config.bytes > 0 && self.unheard().is_none()).then_some(self.at)
    }

    /// Where names lead from a directory, by what is kept alone.
    pub(crate) fn follow(&mut self, caller: &Caller, from: InodeId, names: &[Name]) -> Led {
        if self.index.is_empty() || names.is_empty() {
            return Led::Nowhere;
        }
        let path = names.iter().map(Name::as_bytes).collect::<Vec<_>>().join(&b'/');
        let mut searcher = Searcher { caller, unknown: None };
        let walk = self.index.walk(DirId(from.0), &path, &mut searcher);
        match (walk.end, walk.last, searcher.unknown) {
            (End::Found, Some(last), _) => {
                self.counters.followed += 1;
                Led::To(InodeId(last.id.0), self.at)
            }
            (End::Unknown, _, Some(unknown)) => Led::Unknown(unknown),
            _ => Led::Nowhere,
        }
    }

    /// Keeps a way by these names, that was asked for in a state.
    pub(crate) fn keep(&mut self, asked: WaysAt, names: &[Name], way: &Way) {
        let Some((begin, dirs)) = way.dirs.split_first() else { return };
        let is_late = asked != self.at && !planted::is(Planted::KeepsLateWays);
        if is_late || dirs.len() > names.len() {
            return;
        }
        let name = way.name.as_ref().map_or(&[][..], Name::as_bytes);
        let mut is_kept = self.hold(begin.id, way.parent, name, begin.access);
        let mut parent = begin.id;
        for (dir, name) in dirs.iter().zip(names) {
            is_kept = is_kept && self.hold(dir.id, parent, name.as_bytes(), dir.access);
            parent = dir.id;
        }
    }

    fn hold(&mut self, id: InodeId, parent: InodeId, name: &[u8], access: Searchable) -> bool {
        let Searchable { mode, uid, gid, acl } = access;
        let access = Access { mode, uid, gid, acl };
        let directory = Directory { id: DirId(id.0), parent: DirId(parent.0), name, access, grant: Grant::default() };
        loop {
            match self.index.bind(&directory) {
                Ok(_) => return true,
                Err(IndexError::Full) if self.index.give_up(GIVEN_UP) > 0 => {}
                // What is kept of before and what is told now do not go together: some of it is forgotten soon.
                Err(_) => return false,
            }
        }
    }

    /// How far a shard was heard when a way was followed on which a request for it rests; nothing if more was heard since.
    pub(crate) fn heard(&self, at: WaysAt, shard: ShardId) -> Option<Position> {
        if at == WaysAt::NOTHING {
            return Some(Position::default());
        }
        if at != self.at && !planted::is(Planted::RestsOnFormerWay) {
            return None;
        }
        self.heard.get(usize::from(shard.0)).copied().flatten()
    }

    /// A shard has said what was missed: all, if `dirs` is nothing. In one step what goes through those directories is forgotten, and what is
    /// being asked for will not be kept.
    pub(crate) fn behind(&mut self, shard: ShardId, now: Position, dirs: Option<&[InodeId]>) {
        let Some(heard) = self.heard.get_mut(usize::from(shard.0)) else { return };
        let is_first = heard.is_none();
        *heard = (*heard).max(Some(now));
        self.at = self.at.next();
        self.counters.behind += u64::from(!is_first);
        let before = self.index.len();
        match dirs {
            Some(dirs) => dirs.iter().for_each(|dir| _ = self.index.remove(DirId(dir.0))),
            None if before > 0 => self.index = Ways::index(self.config),
            None => {}
        }
        self.counters.forgotten += (before - self.index.len()) as u64;
    }

    /// Counters and sizes, if any are kept.
    pub(crate) fn status(&self) -> Vec<(&'static str, u64)> {
        if self.config.bytes == 0 {
            return vec![];
        }
        vec![
            ("ways_followed", self.counters.followed),
            ("ways_behind", self.counters.behind),
            ("ways_directories", self.index.len() as u64),
            ("ways_forgotten", self.counters.forgotten),
            ("ways_bytes", self.index.memory().touched as u64),
        ]
    }
}

/// Who walks.
struct Searcher<'a> {
    caller: &'a Caller,
    unknown: Option<Unknown>,
}

impl Check for Searcher<'_> {
    fn search(&mut self, _: DirId, access: &Access) -> Search {
        let &Access { mode, uid, gid, acl } = access;
        match may_search(self.caller, Searchable { mode, uid, gid, acl }) {
            Ok(true) => Search::Allowed,
            Ok(false) => Search::Denied,
            Err(unknown) => {
                self.unknown = unknown;
                Search::Unknown
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_wire::caller::{Caps, Groups};
    use onpath_wire::ids::{Birth, Slot, Term};
    use onpath_wire::inode::Kind;
    use onpath_wire::way::WayDir;

    const S: ShardId = ShardId(0);

    fn id(number: u16) -> InodeId {
        InodeId::new(Slot(1), Birth(1), 2 * number, Kind::Directory)
    }

    fn caller(uid: u32) -> Caller {
        Caller { uid, gid: uid, groups: Groups::default(), caps: Caps::exactly(0), free_links: false }
    }

    fn names(names: &[&str]) -> Vec<Name> {
        names.iter().map(|name| Name::new(name.as_bytes()).expect("a name")).collect()
    }

    fn way(modes: &[u16]) -> Way {
        let dir = |(at, mode): (usize, &u16)| WayDir {
            id: if at == 0 { InodeId::ROOT } else { id(at as u16) },
            access: Searchable { mode: *mode, uid: 1, gid: 1, acl: false },
        };
        Way { parent: InodeId::NONE, name: None, dirs: modes.iter().enumerate().map(dir).collect() }
    }

    fn position(position: u64) -> Position {
        Position { term: Term(1), position }
    }

    fn ready() -> Ways {
        let mut ways = Ways::new(KeptWays { bytes: 1 << 20, key: [1; 16] }, 1);
        assert!(ways.asks().is_none(), "no shard was heard");
        ways.behind(S, position(3), None);
        ways
    }

    fn leads(ways: &mut Ways, uid: u32, path: &[&str]) -> Option<InodeId> {
        match ways.follow(&caller(uid), InodeId::ROOT, &names(path)) {
            Led::To(dir, at) => {
                assert_eq!(Some(at), ways.asks());
                Some(dir)
            }
            _ => None,
        }
    }

    #[test]
    fn what_is_kept_leads_who_may_search_it() {
        let mut ways = ready();
        let asked = ways.asks().expect("ready");
        ways.keep(asked, &names(&["a", "b"]), &way(&[0o755, 0o700, 0o755]));
        assert_eq!(leads(&mut ways, 1, &["a", "b"]), Some(id(2)));
        assert_eq!(leads(&mut ways, 2, &["a"]), Some(id(1)));
        assert_eq!(leads(&mut ways, 2, &["a", "b"]), None, "what it would deny it does not say");
        assert_eq!(leads(&mut ways, 1, &["a", "c"]), None);
    }

    #[test]
    fn what_was_missed_is_forgotten_and_what_is_asked_for_not_kept() {
        let mut ways = ready();
        let asked = ways.asks().expect("ready");
        ways.keep(asked, &names(&["a", "b"]), &way(&[0o755; 3]));
        assert_eq!(ways.heard(asked, S), Some(position(3)));
        ways.behind(S, position(4), Some(&[id(1)]));
        assert_eq!(leads(&mut ways, 1, &["a"]), None);
        assert_eq!(ways.heard(asked, S), None, "a request that rests on what was followed before is not made");
        // Schedule K6a: it was asked for before this was heard.
        ways.keep(asked, &names(&["a"]), &way(&[0o755; 2]));
        assert_eq!(leads(&mut ways, 1, &["a"]), None);
        let asked = ways.asks().expect("ready");
        ways.keep(asked, &names(&["a"]), &way(&[0o755; 2]));
        assert_eq!(leads(&mut ways, 1, &["a", "b"]), Some(id(2)), "b was not changed");
        // An older answer that comes late takes nothing back.
        ways.behind(S, position(2), Some(&[]));
        assert_eq!(ways.heard(ways.at, S), Some(position(4)));
        ways.behind(S, Position { term: Term(2), position: 0 }, None);
        assert_eq!(leads(&mut ways, 1, &["a"]), None, "a shard has begun anew");
    }

    #[test]
    fn memory_is_bounded() {
        let mut ways = ready();
        for n in 1..20_000u16 {
            let asked = ways.asks().expect("ready");
            let name = format!("{n}{}", "x".repeat(200));
            let mut told = way(&[0o755, 0o755]);
            told.dirs[1].id = id(n);
            ways.keep(asked, &names(&[&name]), &told);
        }
        let (bytes, kept) = (ways.index.memory().touched, ways.index.len());
        // An eighth more for what the index has beside its pages, and lists of those.
        assert!(bytes <= 5 << 18 && kept > 1_000, "{kept} directories in {bytes} bytes");
    }
}
