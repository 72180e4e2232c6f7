//! What differs between the tracking forms (design.md, "The life of an update"): who knows that a directory has pending updates.
//!
//! The owner form keeps that knowledge in the owner's table of append holders: holding the append part *is* the
//! mark, a collect recalls it. The network form keeps it in the dirty set of the switch: append parts survive collects, an
//! update's mark goes there, a reader's query is answered there. Operations see neither; `site`, `mark` and `collect` ask here.

use onpath_wire::innet::InNetResult;
use onpath_wire::tracking::Form;

/// What a reader at the owner must do before it looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// Nothing: every update that has returned is applied.
    Now,
    /// Collect from the holders, who keep their parts.
    Collect,
    /// Recall the append part.
    Recall,
}

/// How pending updates of directories are tracked.
pub(crate) trait Tracker {
    /// Whether an update of mark generation `generation` may be exposed when marks up to `covered` are acknowledged.
    fn covers(&self, covered: u32, generation: u32) -> bool;
    /// What a reader must do while others hold the append part. `seen`: what the switch has answered its query, if it counts.
    /// `applied`: something was applied since the last collect, outside of one, or a site has marked the group at the owner.
    /// `fresh`: a collect was completed while the reader waited.
    fn look(&self, seen: Option<InNetResult>, applied: bool, fresh: bool) -> Look;
}

/// The owner form: no switch needed.
struct OwnerForm;

impl Tracker for OwnerForm {
    fn covers(&self, _covered: u32, _generation: u32) -> bool {
        true // the owner's table has had us as an append holder since before the update
    }

    fn look(&self, _seen: Option<InNetResult>, _applied: bool, _fresh: bool) -> Look {
        Look::Recall
    }
}

/// The network form (SwitchFS §5.2).
struct NetworkForm;

impl Tracker for NetworkForm {
    fn covers(&self, covered: u32, generation: u32) -> bool {
        covered >= generation
    }

    fn look(&self, seen: Option<InNetResult>, applied: bool, fresh: bool) -> Look {
        match seen {
            _ if fresh && !applied => Look::Now,
            Some(InNetResult::Normal) if !applied => Look::Now,
            Some(InNetResult::Normal | InNetResult::Scattered) => Look::Collect,
            // Unknown: the switch cannot tell, or is not there.
            _ => Look::Recall,
        }
    }
}

/// The tracker of a form.
pub(crate) fn of(form: Form) -> &'static dyn Tracker {
    match form {
        Form::Owner => &OwnerForm,
        Form::Network => &NetworkForm,
    }
}
