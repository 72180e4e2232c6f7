//! As whom alone a session may ask, where its host knows who it is: the owner of a key, or the user at the other end of a socket.

use crate::caller::{Caller, Caps, cap};
use crate::ids::SessionNumber;
use crate::{wire_enum, wire_struct};
use smallvec::SmallVec;

/// Gids that an identity has at most: as many as Linux gives a process.
pub const GIDS_MAX: usize = 1 << 16;

wire_struct! {
    /// A user, all of its groups, and what it may beyond that.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Identity {
        /// User id.
        pub uid: u32,
        /// Group ids: first that of new files, then the supplementary ones.
        pub gids: SmallVec<[u32; 4]>,
        /// Bits of [`cap`].
        pub caps: u32,
    }
    where Identity::fits, else "groups of an identity"
}

wire_enum! {
    /// What a session whose host knows who it is has asked for and does not get.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Refusal {
        /// As another user.
        1 => Uid,
        /// As another group.
        2 => Gid,
        /// With groups that are not its own, or without some that are.
        3 => Groups,
        /// With capabilities that it has not, or with freedoms of a host.
        4 => Capabilities,
        /// In the name of another session.
        5 => Session,
        /// By a flag that skips a check.
        6 => Flag,
        /// A device.
        7 => Device,
        /// Bytes, or what only who has opened a file is told.
        8 => Bytes,
    }
}

wire_enum! {
    /// Whose a session is: as whom it began, and who alone may go on with it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum Holder {
        /// Who has the key of the cluster; where there is none, everybody.
        #[default]
        1 => Anybody,
        /// Who has the key of this name ([`crate::secrets::Pass`]).
        2 => Key {
            /// Its name.
            id: u32,
        },
        /// A user of the host.
        3 => User {
            /// Its uid.
            uid: u32,
        },
    }
}

impl Identity {
    /// Whether it has a group, and not too many.
    fn fits(&self) -> bool {
        (1..=GIDS_MAX).contains(&self.gids.len())
    }

    /// The group of new files.
    pub fn gid(&self) -> u32 {
        self.gids.first().copied().unwrap_or(u32::MAX)
    }

    /// Whether it keeps set-id bits of the files that it writes.
    pub fn keeps_suid(&self) -> bool {
        self.caps & cap::FSETID != 0
    }

    /// What a request of it tells.
    pub fn caller(&self) -> Caller {
        Caller { uid: self.uid, gid: self.gid(), caps: Caps::exactly(self.caps), ..Caller::default() }
    }

    /// What speaks against a request as this caller. That somebody is *no* member is a claim like others: of a file that its group may
    /// not read others may.
    ///
    /// # Errors
    /// The first thing that is not so.
    pub fn check(&self, caller: &Caller) -> Result<(), Refusal> {
        let is_mine = |gid: &u32| self.gids.contains(gid);
        if caller.uid != self.uid {
            return Err(Refusal::Uid);
        }
        if !is_mine(&caller.gid) {
            return Err(Refusal::Gid);
        }
        if !caller.groups.member.iter().all(is_mine) || caller.groups.stranger.iter().any(is_mine) {
            return Err(Refusal::Groups);
        }
        if caller.caps.had & !self.caps != 0 || caller.free_links {
            return Err(Refusal::Capabilities);
        }
        Ok(())
    }
}

/// A session whose host knows who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Which session.
    pub session: SessionNumber,
    /// Who it is.
    pub identity: Identity,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Groups;
    use crate::codec::{Wire, WireError};
    use smallvec::smallvec;

    #[test]
    fn whoever_says_anything_else_is_refused() {
        let me = Identity { uid: 7, gids: smallvec![8, 9], caps: cap::FSETID };
        let is = me.caller();
        let groups = |member: &[u32], stranger: &[u32]| Groups { member: member.into(), stranger: stranger.into() };
        for right in [
            is.clone(),
            Caller { gid: 9, ..is.clone() },
            Caller { groups: groups(&[9, 8], &[10]), ..is.clone() },
            Caller { caps: Caps::exactly(0), ..is.clone() },
            Caller { caps: Caps::default(), ..is.clone() },
        ] {
            assert_eq!(me.check(&right), Ok(()), "{right:?}");
        }
        for (wrong, why) in [
            (Caller::default(), Refusal::Uid),
            (Caller { uid: 8, ..is.clone() }, Refusal::Uid),
            (Caller { gid: 10, ..is.clone() }, Refusal::Gid),
            (Caller { groups: groups(&[8, 10], &[]), ..is.clone() }, Refusal::Groups),
            (Caller { groups: groups(&[], &[10, 9]), ..is.clone() }, Refusal::Groups),
            (Caller { caps: Caps::exactly(cap::FSETID | cap::CHOWN), ..is.clone() }, Refusal::Capabilities),
            (Caller { free_links: true, ..is.clone() }, Refusal::Capabilities),
        ] {
            assert_eq!(me.check(&wrong), Err(why), "{wrong:?}");
        }
    }

    #[test]
    fn everybody_has_a_group() {
        let none = Identity { uid: 7, gids: smallvec![], caps: 0 };
        assert_eq!(Identity::from_bytes(&none.to_bytes()), Err(WireError::Bad("groups of an identity")));
    }
}
