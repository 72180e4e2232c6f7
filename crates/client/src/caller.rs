//! As whom a call is done.

use onpath_session::fs::Caller as Asks;
use onpath_session::{CallerQuestion, ReadCaller};
use onpath_wire::caller::Caps;

/// As whom a call is done: hosts check permissions with it. They believe it of whoever has the key of the cluster; the process that serves a
/// DIR believes it of whoever may connect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Bits of capabilities(7), by their numbers; those that count for files are looked at.
    pub capabilities: u64,
}

impl Caller {
    /// Root, with every capability.
    pub fn root() -> Caller {
        Caller { capabilities: u64::MAX, ..Caller::default() }
    }

    /// The effective ids and the supplementary groups of this process; every capability if it is root's.
    pub fn of_this_process() -> Caller {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let groups = rustix::process::getgroups().unwrap_or_default().into_iter().map(|gid| gid.as_raw()).collect();
        let capabilities = if uid.is_root() { u64::MAX } else { 0 };
        Caller { uid: uid.as_raw(), gid: gid.as_raw(), groups, capabilities }
    }

    /// What a request tells of it; `ticket` stands for the rest, which is asked for when it decides.
    pub(crate) fn asks(&self, ticket: u32) -> Asks {
        Asks { uid: self.uid, gid: self.gid, pid: ticket, known_group: None, free_links: false }
    }

    pub(crate) fn answer(&self, question: &CallerQuestion) -> ReadCaller {
        let had = self.capabilities as u32 & question.caps; // all that count have numbers below 32
        ReadCaller {
            groups: Some(self.groups.clone()),
            caps: Caps { had, not_had: question.caps & !had, within: None },
        }
    }
}
