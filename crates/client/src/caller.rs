//! As whom a call is done.

use onpath_session::ReadCaller;
use onpath_session::fs::Caller as Asks;
use onpath_session::protected::Levels;
use onpath_wire::caller::{Caps, cap};

/// As whom a call is done: hosts check permissions with it. They believe it of whoever has a key that allows any caller; the process that
/// serves a DIR believes it of root and of the owner of DIR. All others act as who their hosts know them to be, whatever they say here.
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
    /// Permission bits that what it makes does not get.
    pub umask: u32,
}

impl Caller {
    /// Root, with every capability.
    pub fn root() -> Caller {
        Caller { capabilities: u64::MAX, ..Caller::default() }
    }

    /// The effective ids, supplementary groups, effective capabilities and umask of this process.
    pub fn of_this_process() -> Caller {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let groups = rustix::process::getgroups().unwrap_or_default().into_iter().map(|gid| gid.as_raw()).collect();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str, radix| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            u64::from_str_radix(line.trim(), radix).ok()
        };
        // Without /proc nothing is known of them: no capability, and what is made is nobody else's.
        let (capabilities, umask) = (field("CapEff:", 16).unwrap_or(0), field("Umask:", 8).unwrap_or(0o077) as u32);
        Caller { uid: uid.as_raw(), gid: gid.as_raw(), groups, capabilities, umask }
    }

    /// What a request tells of it; `ticket` stands for the rest, which is asked for when it decides. `decided`: a group that has decided before
    /// is told at once, as it will often decide again: who is asked needs not ask for it.
    pub(crate) fn asks(&self, ticket: u32, decided: Option<u32>, levels: Levels) -> Asks {
        let known_group = decided.filter(|gid| self.groups.contains(gid));
        Asks { uid: self.uid, gid: self.gid, pid: ticket, known_group, free_links: !levels.keeps_links() }
    }

    /// What decides beside the ids. All capabilities are told, whichever are asked for: what is not had is not asked for again.
    pub(crate) fn answer(&self) -> ReadCaller {
        // All that count have numbers below 32.
        ReadCaller { groups: Some(self.groups.clone()), caps: Caps::exactly(self.capabilities as u32 & cap::ALL) }
    }

    /// Whether what only an owner may do is allowed to it with others' files.
    pub(crate) fn acts_as_owner(&self) -> bool {
        self.capabilities as u32 & cap::FOWNER != 0
    }

    /// Whether what it writes to stays setuid and setgid.
    pub(crate) fn keeps_suid(&self) -> bool {
        self.capabilities as u32 & cap::FSETID != 0
    }
}
