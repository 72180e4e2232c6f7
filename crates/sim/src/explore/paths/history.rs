//! All that was called and answered, judged as one history: one order of the moments at which the calls took effect explains every answer,
//! and agrees with which calls were over before others began.

use crate::users::tree::{Change, Tree};
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;
use std::collections::HashSet;

/// What was so at one moment of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// These names lead from a directory on: to that one, if it was said to which.
    Leads { from: InodeId, names: Vec<Name>, to: Option<InodeId> },
    /// What has a name in a directory: in that to which the moment before led, if none is said.
    Has { dir: Option<InodeId>, name: Name, seen: Seen },
    /// An inode's permissions, or it is not there any more.
    Mode { id: InodeId, mode: u16 },
    /// Where a link leads. Who has its id may be told that also when it is not there any more, as long as its home has it.
    Target { id: InodeId, target: Vec<u8> },
    /// An inode is not there any more.
    Gone(InodeId),
    /// The tree is changed, or that is refused.
    Changes { change: Change, result: Result<InodeId, Errno> },
}

/// What a name was seen to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Inode(InodeId),
    Missing,
    /// Who walks may not search there.
    Denied,
}

/// A call that was answered.
#[derive(Clone, Debug)]
pub(super) struct Called {
    /// Who called.
    pub(super) session: usize,
    /// When, and when it was answered: numbers in one count.
    pub(super) asked: u64,
    pub(super) answered: u64,
    /// What was so, in this order.
    pub(super) moments: Vec<Moment>,
}

/// How far calls are explained, with the tree at that moment; where names led last, of each call.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Explained {
    moments: Vec<u8>,
    led: Vec<InodeId>,
    tree: Tree,
}

impl Moment {
    /// Whether it is so in this tree; what the tree is then, if that changes, and where names led.
    fn is_in(&self, tree: &Tree, led: InodeId) -> Option<(Option<Tree>, InodeId)> {
        let same = |is: bool| is.then_some((None, led));
        match self {
            Moment::Leads { from, names, to } => {
                let way = tree.follow(*from, names)?;
                to.is_none_or(|to| to == way).then_some((None, way))
            }
            Moment::Has { dir, name, seen } => {
                let dir = dir.unwrap_or(led);
                let child = tree.child(dir, name);
                same(match seen {
                    Seen::Inode(id) => tree.is_open(dir) && child == Some(*id),
                    Seen::Missing => !tree.has(dir) || tree.is_open(dir) && child.is_none(),
                    Seen::Denied => tree.has(dir) && !tree.is_open(dir),
                })
            }
            Moment::Mode { id, mode } => same(tree.mode(*id).is_none_or(|is| is == *mode)),
            Moment::Target { id, target } => same(tree.target(*id).is_none_or(|is| is == target)),
            Moment::Gone(id) => same(!tree.has(*id)),
            Moment::Changes { change, result } => {
                let refusals = tree.refusals(change);
                match result {
                    Err(errno) => same(refusals.contains(errno)),
                    Ok(_) if tree.is_of_gone(change) => same(true),
                    Ok(_) if !refusals.is_empty() => None,
                    Ok(made) => {
                        let mut then = tree.clone();
                        then.change(change, *made);
                        Some((Some(then), led))
                    }
                }
            }
        }
    }
}

/// Looks for an order that explains all calls.
///
/// # Errors
/// There is none: the calls, in words.
pub(super) fn judge(begin: &Tree, calls: &[Called]) -> Result<(), String> {
    let none = Explained { moments: vec![0; calls.len()], led: vec![InodeId::NONE; calls.len()], tree: begin.clone() };
    let (mut seen, mut todo) = (HashSet::new(), vec![none]);
    while let Some(state) = todo.pop() {
        let left = |call: usize| usize::from(state.moments[call]) < calls[call].moments.len();
        if (0..calls.len()).all(|call| !left(call)) {
            return Ok(());
        }
        if !seen.insert(state.clone()) {
            continue;
        }
        // Who began when another was over comes behind it.
        let until = (0..calls.len()).filter(|call| left(*call)).map(|call| calls[call].answered).min().unwrap_or(0);
        for call in (0..calls.len()).filter(|call| left(*call) && calls[*call].asked <= until) {
            let moment = &calls[call].moments[usize::from(state.moments[call])];
            let Some((tree, led)) = moment.is_in(&state.tree, state.led[call]) else { continue };
            let mut next = Explained { tree: tree.unwrap_or_else(|| state.tree.clone()), ..state.clone() };
            next.moments[call] += 1;
            next.led[call] = led;
            todo.push(next);
        }
    }
    let words =
        |call: &Called| format!("{}–{}: session {}: {:?}", call.asked, call.answered, call.session, call.moments);
    let calls: Vec<String> = calls.iter().map(words).collect();
    Err(format!("no order explains these calls: {calls:#?}, from {begin:?} on"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::tree::Is;
    use onpath_wire::ids::{Birth, Slot};
    use onpath_wire::inode::Kind;

    fn id(number: u16) -> InodeId {
        InodeId::new(Slot(1), Birth(1), number, Kind::Directory)
    }

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).expect("a short name")
    }

    fn called(asked: u64, answered: u64, moments: &[Moment]) -> Called {
        Called { session: 0, asked, answered, moments: moments.to_vec() }
    }

    fn begin() -> Tree {
        let mut tree = Tree::new();
        tree.put((InodeId::ROOT, name("a")), id(1), Is::Directory, 0o755);
        tree.put((id(1), name("b")), id(2), Is::Directory, 0o755);
        tree
    }

    fn moves() -> Moment {
        let (from, to) = ((InodeId::ROOT, name("a")), (InodeId::ROOT, name("e")));
        Moment::Changes { change: Change::Rename { from, to, flags: 0 }, result: Ok(InodeId::NONE) }
    }

    fn leads(names: &[&str], to: u16) -> Moment {
        let names = names.iter().map(|text| name(text)).collect();
        Moment::Leads { from: InodeId::ROOT, names, to: Some(id(to)) }
    }

    /// While a rename is under way either name leads, and not the old one after somebody has seen the new one, nor when it is over.
    #[test]
    fn a_name_leads_until_it_is_moved() {
        let (old, new) = (leads(&["a", "b"], 2), leads(&["e", "b"], 2));
        let right = |walks: &[Called]| judge(&begin(), &[&[called(1, 10, &[moves()])], walks].concat()).is_ok();
        assert!(right(&[called(2, 3, std::slice::from_ref(&old)), called(4, 5, std::slice::from_ref(&new))]));
        assert!(right(&[called(2, 5, std::slice::from_ref(&old)), called(3, 4, std::slice::from_ref(&new))]));
        assert!(!right(&[called(2, 3, std::slice::from_ref(&new)), called(4, 5, std::slice::from_ref(&old))]));
        assert!(!right(&[called(11, 12, std::slice::from_ref(&old))]));
        assert!(right(&[called(11, 12, std::slice::from_ref(&new))]));
        assert!(!right(&[called(0, 0, &[new])]), "it was over before the rename began");
    }

    /// The last name is looked up after its directory was found, and that directory may be elsewhere then.
    #[test]
    fn the_last_name_is_looked_up_later() {
        let chmod = |mode| Moment::Changes { change: Change::Chmod { id: id(2), mode }, result: Ok(InodeId::NONE) };
        let walk = |seen| {
            let way = Moment::Leads { from: InodeId::ROOT, names: vec![name("a"), name("b")], to: None };
            vec![way, Moment::Has { dir: None, name: name("c"), seen }]
        };
        let changes = [called(1, 2, &[moves()]), called(3, 4, &[chmod(0o700)])];
        let right = |asked, answered, seen| {
            judge(&begin(), &[&changes[..], &[called(asked, answered, &walk(seen))]].concat()).is_ok()
        };
        assert!(right(0, 5, Seen::Denied) && right(0, 5, Seen::Missing));
        assert!(!right(0, 2, Seen::Denied), "nobody had closed it");
        assert!(!right(3, 5, Seen::Denied), "it was moved before");
    }

    /// What is read of a link by its id is right as long as the link was there, and may be said later.
    #[test]
    fn a_link_says_where_it_led() {
        let mut tree = begin();
        tree.put((InodeId::ROOT, name("l")), id(7), Is::Link(b"a".to_vec()), 0o777);
        let over = Change::Rename { from: (id(1), name("b")), to: (InodeId::ROOT, name("l")), flags: 0 };
        assert_eq!(tree.refusals(&over), [Errno::ENOTDIR]);
        let gone = Moment::Changes { change: Change::Unlink((InodeId::ROOT, name("l"))), result: Ok(InodeId::NONE) };
        let target = |text: &[u8]| Moment::Target { id: id(7), target: text.to_vec() };
        let right = |asked, answered, moment: Moment| {
            judge(&tree, &[called(5, 6, std::slice::from_ref(&gone)), called(asked, answered, &[moment])]).is_ok()
        };
        assert!(right(1, 2, target(b"a")) && right(7, 8, target(b"a")) && !right(1, 2, target(b"b")));
        assert!(!right(1, 2, Moment::Gone(id(7))) && right(1, 6, Moment::Gone(id(7))));
    }
}
