//! What differs between the tracking forms (DESIGN §3): who knows that a directory has pending updates.
//!
//! The owner form keeps that knowledge in the owner's table of append holders: holding the append part *is* the
//! mark, a collect recalls it. Operations do not see this; `site` and `owner` ask it here.

use super::owner::OwnerDir;
use onpath_wire::peer::part;

/// How pending updates of directories are tracked.
pub(crate) trait Tracker {
    /// Whether an update may be answered as soon as it is appended, or must wait for its mark.
    fn exposed_when_appended(&self) -> bool;
    /// Whether a reader at the owner must collect before it looks.
    fn scattered(&self, dir: Option<&OwnerDir>, born_now: bool) -> bool;
    /// Which parts a collect takes back from the holders.
    fn collect_recalls(&self) -> u8;
}

/// The owner form: no switch needed.
pub(crate) struct OwnerForm;

impl Tracker for OwnerForm {
    fn exposed_when_appended(&self) -> bool {
        true // the owner's table has had us as an append holder since before the update
    }

    fn scattered(&self, dir: Option<&OwnerDir>, born_now: bool) -> bool {
        match dir {
            None => !born_now,
            Some(dir) => !dir.holders_of(part::APPEND).is_empty() || !dir.knows(part::APPEND),
        }
    }

    fn collect_recalls(&self) -> u8 {
        part::APPEND
    }
}
