//! Somebody follows a path, as the client library does: a path node leads, or ways that the session has kept; where those end, names are
//! looked up one by one, and links are read.

use super::history::{Moment, Seen};
use crate::users::tree::{Change, Is};
use onpath_session::fs::{FsOp, FsReply, FsResult, WaysAt};
use onpath_wire::attr::AttrWire;
use onpath_wire::errno::Errno;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::name::Name;
use std::collections::{BTreeMap, VecDeque};

/// Links that a walk follows at most.
const LINKS_MAX: u32 = 2;
/// Mode of what is made at the end of a way.
pub(super) const MADE: u16 = 0o755;

/// The name of each label.
pub(super) type Names = BTreeMap<&'static str, Name>;

/// Which question is next, or under way.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ask {
    /// Where all names lead.
    Resolve,
    /// The same, and nothing else is asked.
    Lead,
    /// Where all but the last lead, in which something is to be made.
    Dir,
    /// What has the next name.
    Look,
    /// Where a link leads.
    Target(InodeId),
    /// What an inode is like.
    Stat(InodeId),
    /// Something is made, perhaps by kept ways that led there: by these names, from the root.
    Make(Option<(WaysAt, Vec<Name>)>),
    Nothing,
}

/// A walk.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    at: InodeId,
    todo: VecDeque<Name>,
    /// Ways that are kept may lead.
    kept: bool,
    /// Something is made under the last name.
    makes: bool,
    links: u32,
    ask: Ask,
}

/// The moments of what was answered: of this question alone, or with the one before it, which then has told nothing.
pub(super) enum Told {
    Moments(Vec<Moment>),
    /// The next question tells it.
    Later,
    /// Nobody was right or wrong.
    Nothing,
}

impl Walk {
    fn of(names: Vec<Name>, ask: Ask) -> Walk {
        let makes = ask == Ask::Dir;
        Walk { at: InodeId::ROOT, todo: names.into(), kept: true, makes, links: 0, ask }
    }

    /// To what these names lead from the root on.
    pub(super) fn look(names: Vec<Name>) -> Walk {
        Walk::of(names, Ask::Resolve)
    }

    /// The same, and something is made under the last name.
    pub(super) fn make(names: Vec<Name>) -> Walk {
        Walk::of(names, Ask::Dir)
    }

    /// As far as a path node leads.
    pub(super) fn lead(names: Vec<Name>) -> Walk {
        Walk::of(names, Ask::Lead)
    }

    /// What has this name.
    pub(super) fn look_in((at, name): (InodeId, Name)) -> Walk {
        Walk { at, ..Walk::of(vec![name], Ask::Look) }
    }

    /// What an inode is like.
    pub(super) fn stat(id: InodeId) -> Walk {
        Walk::of(vec![], Ask::Stat(id))
    }

    /// Whether it is over.
    pub(super) fn is_over(&self) -> bool {
        self.ask == Ask::Nothing
    }

    fn names(&self) -> Vec<Name> {
        self.todo.iter().cloned().collect()
    }

    fn ways(&self) -> Vec<Name> {
        self.todo.iter().take(self.todo.len() - 1).cloned().collect()
    }

    fn next_name(&self) -> Name {
        self.todo.front().expect("a name is left").clone()
    }

    /// The next question.
    pub(super) fn next(&self) -> (FsOp, Option<WaysAt>) {
        let (from, kept) = (self.at, self.kept);
        match &self.ask {
            Ask::Resolve => (FsOp::Resolve { from, names: self.names(), look: true, kept }, None),
            Ask::Lead => (FsOp::Resolve { from, names: self.names(), look: false, kept: false }, None),
            Ask::Dir => (FsOp::Resolve { from, names: self.ways(), look: false, kept }, None),
            Ask::Look => (FsOp::Lookup { parent: from, name: self.next_name() }, None),
            Ask::Target(id) => (FsOp::ReadLink { id: *id }, None),
            Ask::Stat(id) => (FsOp::GetAttr { id: *id, handle: None }, None),
            Ask::Make(by) => {
                let (kind, mode, umask) = (Kind::Directory, MADE, 0);
                let name = self.todo.back().expect("it has a name").clone();
                let op = FsOp::Make { parent: from, name, kind, mode, umask, rdev: 0, target: vec![] };
                (op, by.as_ref().map(|(at, _)| *at))
            }
            Ask::Nothing => unreachable!("it is over"),
        }
    }

    /// What is asked where `at` is the last directory that is known.
    fn goes_on(&mut self) {
        self.ask = match self.todo.len() {
            0 => Ask::Nothing,
            1 if self.makes => Ask::Make(None),
            _ => Ask::Look,
        };
    }

    /// An inode has the next name.
    fn found(&mut self, attr: &AttrWire) {
        match attr.kind {
            Kind::Symlink if self.links < LINKS_MAX => self.ask = Ask::Target(attr.id),
            Kind::Directory => {
                self.todo.pop_front();
                self.at = attr.id;
                self.goes_on();
            }
            _ => self.ask = Ask::Nothing,
        }
    }

    /// What was looked up under a last name, by its directory or by the way there.
    fn looked(&mut self, dir: Option<InodeId>, name: Name, result: FsResult) -> Result<Vec<Moment>, String> {
        let seen = match result {
            Ok(FsReply::Entry(attr) | FsReply::Attr { attr, .. }) => {
                self.found(&attr);
                let has = Moment::Has { dir, name, seen: Seen::Inode(attr.id) };
                return Ok(vec![has, Moment::Mode { id: attr.id, mode: attr.mode & 0o7777 }]);
            }
            Ok(FsReply::Missing) | Err(Errno::ENOENT) => Seen::Missing,
            Err(Errno::EACCES) => Seen::Denied,
            other => return Err(format!("{name:?} in {dir:?} is answered {other:?}")),
        };
        self.ask = Ask::Nothing;
        Ok(vec![Moment::Has { dir, name, seen }])
    }

    /// Names led to a directory.
    fn led(&mut self, dir: InodeId, count: usize) -> Result<Vec<Moment>, String> {
        if count == 0 && dir != self.at || count > self.todo.len() {
            return Err(format!("{count} names from {:?} lead to {dir:?}", self.at));
        }
        let names: Vec<Name> = self.todo.drain(..count).collect();
        let leads = Moment::Leads { from: self.at, names, to: Some(dir) };
        self.at = dir;
        self.goes_on();
        Ok(if count == 0 { vec![] } else { vec![leads] })
    }

    /// A question is answered.
    ///
    /// # Errors
    /// No answer to it is such.
    pub(super) fn take(&mut self, names: &Names, result: FsResult) -> Result<Told, String> {
        let ask = self.ask.clone();
        let moments = match (ask.clone(), result) {
            (Ask::Dir, Ok(FsReply::Resolved { dir, by_ways: Some(at), .. })) => {
                self.ask = Ask::Make(Some((at, self.ways())));
                self.at = dir;
                return Ok(Told::Later);
            }
            (Ask::Resolve | Ask::Dir | Ask::Lead, Ok(FsReply::Resolved { dir, names, by_ways: None })) => {
                let leads = self.led(dir, names)?;
                self.ask = if ask == Ask::Lead { Ask::Nothing } else { self.ask.clone() };
                leads
            }
            (Ask::Resolve, result) => {
                let (from, names) = (self.at, self.ways());
                let last = self.todo.back().expect("a name was asked for").clone();
                let leads = Moment::Leads { from, names, to: None };
                self.todo.drain(..self.todo.len() - 1);
                let has = self.looked(None, last, result)?;
                [vec![leads], has].concat()
            }
            (Ask::Look, result) => self.looked(Some(self.at), self.next_name(), result)?,
            (Ask::Target(id), Ok(FsReply::Target(target))) => {
                self.follows(names, &target)?;
                vec![Moment::Target { id, target }]
            }
            (Ask::Stat(id), Ok(FsReply::Attr { attr, .. })) if attr.id == id => {
                self.ask = Ask::Nothing;
                vec![Moment::Mode { id, mode: attr.mode & 0o7777 }]
            }
            (Ask::Target(id) | Ask::Stat(id), Err(Errno::ENOENT | Errno::ESTALE)) => {
                self.ask = Ask::Nothing;
                vec![Moment::Gone(id)]
            }
            (Ask::Make(Some((_, ways))), Err(Errno::ERESTART)) => {
                // It rested on what is not so any more: the path node is asked.
                let last = self.todo.pop_back().expect("it has a name");
                self.todo = ways.into_iter().chain([last]).collect();
                (self.at, self.kept, self.ask) = (InodeId::ROOT, false, Ask::Dir);
                return Ok(Told::Nothing);
            }
            (Ask::Make(by), result) => self.made(by, result)?,
            (ask, result) => return Err(format!("{ask:?} is answered {result:?}")),
        };
        Ok(Told::Moments(moments))
    }

    fn made(&mut self, by: Option<(WaysAt, Vec<Name>)>, result: FsResult) -> Result<Vec<Moment>, String> {
        self.ask = Ask::Nothing;
        let at = (self.at, self.todo.back().expect("it has a name").clone());
        let change = Change::Make { at, is: Is::Directory, mode: MADE, by_walker: true };
        let result = match result {
            Ok(FsReply::Entry(attr)) => Ok(attr.id),
            Err(errno) => Err(errno),
            other => return Err(format!("{change:?} is answered {other:?}")),
        };
        let led = |(_, names)| Moment::Leads { from: InodeId::ROOT, names, to: Some(self.at) };
        Ok(by.map(led).into_iter().chain([Moment::Changes { change, result }]).collect())
    }

    /// A link leads on, from the root, by the names of its labels.
    fn follows(&mut self, names: &Names, target: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(target).map_err(|_| format!("{target:?} is no target of ours"))?;
        let labels = text.split('/').filter(|label| !label.is_empty());
        let way: Option<Vec<Name>> = labels.map(|label| names.get(label).cloned()).collect();
        let way = way.ok_or_else(|| format!("{text:?} is no target of ours"))?;
        self.todo.pop_front();
        way.into_iter().rev().for_each(|name| self.todo.push_front(name));
        (self.at, self.links) = (InodeId::ROOT, self.links + 1);
        self.ask = Ask::Resolve;
        Ok(())
    }
}
