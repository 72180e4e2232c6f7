//! Reachability bits (*SPMeta §IV*, Algorithm 1): who surely may search all directories on the way to one.
//!
//! A bit that is set grants, one that is cleared denies nothing: then each directory is asked. The way does not include the directory itself,
//! as a walk does not look into its last one.

use crate::planted::{Planted, planted};
use onpath_index::{Access, Class};

/// Three bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reach(u8);

impl Reach {
    const OWNER: u8 = 4;
    const GROUP: u8 = 2;
    const OTHER: u8 = 1;

    /// Whether who is of this class at the directory surely gets there.
    #[inline]
    pub fn has(self, class: Class) -> bool {
        let bit = match class {
            Class::Owner => Reach::OWNER,
            Class::Group => Reach::GROUP,
            Class::Other => Reach::OTHER,
        };
        self.0 & bit != 0
    }
}

/// One directory on the way, as a check sees it.
pub type Step = Access;

/// Whether the search bits descend from owner to group to others. Only then does who passes as other pass as whoever it is (*SPMeta §IV-B*).
/// An access ACL says more than the bits do: it does not.
fn descends(step: &Step) -> bool {
    if planted(Planted::NoDescent) {
        return true;
    }
    let (user, group, other) = (step.mode >> 6 & 1, step.mode >> 3 & 1, step.mode & 1);
    user >= group && group >= other && !step.acl
}

/// The bits of `target`, to which this way leads.
pub fn reach(target: &Access, way: impl Iterator<Item = Step>) -> Reach {
    let mut reach = Reach::OWNER | Reach::GROUP | Reach::OTHER;
    for step in way {
        if !descends(&step) {
            return Reach(0);
        }
        let (user, group, other) = (step.mode & 0o100 != 0, step.mode & 0o010 != 0, step.mode & 0o001 != 0);
        if !(if step.uid == target.uid { user } else { other }) {
            reach &= !Reach::OWNER;
        }
        if !(if step.gid == target.gid { group } else { other }) {
            reach &= !Reach::GROUP;
        }
        if !other {
            reach &= !Reach::OTHER;
        }
    }
    Reach(reach)
}
