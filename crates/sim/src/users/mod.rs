//! Users of real sessions, who know what every call may answer; they run beside the raw clients.

mod appenders;
mod blocks;
mod cachers;
mod cells;
mod directories;
mod durable;
mod entangled;
pub mod history;
mod hot;
mod known;
mod line;
mod lockers;
mod lossy;
mod mortals;
pub mod names;
pub(crate) mod pattern;
pub(crate) mod pieces;
mod possible;
mod private;
pub(crate) mod tree;
mod walkers;
mod writers;

pub use appenders::Appenders;
pub use cachers::Cachers;
pub use directories::Directories;
pub use durable::Durable;
pub use entangled::Entangled;
pub use history::History;
pub use hot::Hot;
pub use lockers::Lockers;
pub use mortals::Mortals;
pub use private::Private;
pub use walkers::Walkers;
pub use writers::Writers;

use crate::world::{Finished, World};

/// Somebody who makes system calls and judges their answers.
pub trait User {
    /// Whether this session is one of this user's.
    fn has(&self, session: usize) -> bool;
    /// Takes the answer of a call under way and makes the next one.
    fn answered(&mut self, world: &mut World, finished: Finished);
    /// Asks nothing more but what it takes to judge the end; afterwards [`User::is_idle`].
    fn close(&mut self);
    /// Whether no call is under way.
    fn is_idle(&self) -> bool;
    /// Whether the world may become rough.
    fn is_settled(&self) -> bool {
        true
    }
    /// Files without a name that are still open.
    fn orphans(&self) -> u64 {
        0
    }
    /// What is wrong with everything that was answered.
    fn judge(&self) -> Vec<String> {
        vec![]
    }
}
