//! The epoch of a structure and its complete bit.

use super::planted::{Planted, planted};

/// `epoch` and `complete` of a structure: one register of stage 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tracking {
    /// Present epoch, 0 for none.
    pub epoch: u16,
    /// Whether all that the epoch has to know is there.
    pub complete: bool,
}

impl Tracking {
    /// Whether a packet's epoch *matches*.
    #[inline]
    pub(crate) fn matches(self, epoch: u16) -> bool {
        self.epoch == epoch && epoch != 0
    }

    /// D-37, D-63: `rule` is that of the structure.
    pub(crate) fn set_epoch(&mut self, epoch: u16, rule: Planted) {
        if epoch != self.epoch {
            *self = Tracking { epoch, complete: self.complete && planted(rule) };
        }
    }

    /// D-38, D-64: whether it was the present epoch.
    pub(crate) fn set_complete(&mut self, epoch: u16, rule: Planted) -> bool {
        let present = self.matches(epoch) || planted(rule);
        self.complete |= present;
        present
    }
}
