//! What a tree may be while several change it at once: each change under way is done or not, in any order.

use super::tree::{Change, Tree};
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use std::collections::BTreeMap;

/// What is being made by this changer has no id yet.
pub(crate) fn unmade(changer: usize) -> InodeId {
    InodeId(u64::MAX - changer as u64)
}

/// Whether something has no id yet.
pub(crate) fn is_unmade(id: InodeId, changers: usize) -> bool {
    id.0 > u64::MAX - changers as u64
}

/// How a change ends: it is refused for one of some reasons, or succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    refused: Vec<Errno>,
    succeeds: bool,
}

/// A tree, and how those of the changes under way end that are done.
#[derive(Clone, Debug, PartialEq, Eq)]
struct One {
    tree: Tree,
    done: BTreeMap<usize, Outcome>,
}

/// All that there may be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Possible {
    all: Vec<One>,
    under_way: BTreeMap<usize, Change>,
}

impl Possible {
    /// This tree alone.
    pub(crate) fn only(tree: Tree) -> Possible {
        Possible { all: vec![One { tree, done: BTreeMap::new() }], under_way: BTreeMap::new() }
    }

    /// The trees.
    pub(crate) fn trees(&self) -> impl Iterator<Item = &Tree> {
        self.all.iter().map(|one| &one.tree)
    }

    /// Whether anybody is making something.
    pub(crate) fn is_making(&self) -> bool {
        self.under_way.values().any(|change| matches!(change, Change::Make { .. }))
    }

    /// A change is under way from now on.
    pub(crate) fn begins(&mut self, changer: usize, change: Change) {
        self.under_way.insert(changer, change);
        self.complete();
    }

    /// A change is over; false if it cannot have ended so. `made`: what it has made.
    pub(crate) fn ends(&mut self, changer: usize, result: Result<Option<InodeId>, Errno>) -> bool {
        self.under_way.remove(&changer);
        let fits = |outcome: Outcome| match result {
            Ok(_) => outcome.succeeds,
            Err(errno) => outcome.refused.contains(&errno),
        };
        self.all.retain_mut(|one| one.done.remove(&changer).is_some_and(fits));
        if let Ok(Some(id)) = result {
            self.all.iter_mut().for_each(|one| one.tree.names_made(unmade(changer), id));
        }
        self.complete();
        !self.all.is_empty()
    }

    /// Adds what there may be when one more change is done, until there is nothing new.
    fn complete(&mut self) {
        let mut next = 0;
        while let Some(one) = self.all.get(next).cloned() {
            next += 1;
            for (changer, change) in self.under_way.iter().filter(|(changer, _)| !one.done.contains_key(changer)) {
                let refused = one.tree.refusals(change);
                let mut then = one.clone();
                if refused.is_empty() {
                    then.tree.change(change, unmade(*changer));
                }
                let succeeds = refused.is_empty() || one.tree.is_of_gone(change);
                then.done.insert(*changer, Outcome { refused, succeeds });
                if !self.all.contains(&then) {
                    self.all.push(then);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Is;
    use super::*;
    use onpath_wire::name::Name;

    fn at(name: &str) -> (InodeId, Name) {
        (InodeId::ROOT, Name::new(name.as_bytes()).expect("a short name"))
    }

    fn rename(from: &str, to: &str) -> Change {
        Change::Rename { from: at(from), to: at(to), flags: 0 }
    }

    fn begin() -> Possible {
        let mut tree = Tree::new();
        tree.put(at("a"), InodeId(100), Is::Directory, 0o755);
        Possible::only(tree)
    }

    /// Of two renames of one name either comes first, and the other finds nothing.
    #[test]
    fn either_of_two_renames_comes_first() {
        let mut both = begin();
        both.begins(0, rename("a", "b"));
        both.begins(1, rename("a", "c"));
        assert_eq!(both.trees().filter(|tree| tree.child(InodeId::ROOT, &at("b").1).is_some()).count(), 2);
        let mut neither = both.clone();
        assert!(both.ends(1, Ok(None)) && both.ends(0, Err(Errno::ENOENT)));
        let tree = both.trees().next().expect("one is left");
        assert_eq!(tree.child(InodeId::ROOT, &at("c").1), Some(InodeId(100)));
        assert_eq!(both.trees().count(), 1);
        assert!(neither.ends(0, Err(Errno::ENOENT)) && !neither.ends(1, Err(Errno::ENOENT)), "one of them succeeds");
    }

    /// What is made gets its id when that is known, wherever it is by then.
    #[test]
    fn what_is_made_may_be_moved_before_its_id_is_known() {
        let mut both = begin();
        both.begins(0, Change::Make { at: at("n"), is: Is::Directory, mode: 0o755, by_walker: false });
        both.begins(1, rename("n", "m"));
        assert!(both.is_making() && both.ends(1, Ok(None)));
        assert!(both.trees().all(|tree| tree.child(InodeId::ROOT, &at("m").1) == Some(unmade(0))));
        assert!(both.ends(0, Ok(Some(InodeId(7)))) && !both.is_making());
        assert!(both.trees().all(|tree| tree.child(InodeId::ROOT, &at("m").1) == Some(InodeId(7))));
        assert!(is_unmade(unmade(1), 2) && !is_unmade(unmade(2), 2) && !is_unmade(InodeId(7), 2));
    }

    /// A chmod of a directory that is removed meanwhile may succeed behind that, as that of an open one does.
    #[test]
    fn what_is_removed_may_be_changed_unseen() {
        let chmod = Change::Chmod { id: InodeId(100), mode: 0o700 };
        for result in [Ok(None), Err(Errno::ENOENT), Err(Errno::ESTALE)] {
            let mut both = begin();
            both.begins(0, Change::Rmdir(at("a")));
            assert!(both.ends(0, Ok(None)));
            both.begins(1, chmod.clone());
            assert!(both.ends(1, result) && both.trees().all(|tree| !tree.has(InodeId(100))), "{result:?}");
        }
    }
}
