//! Metadata shards: namespace operations, the directory protocol, transactions. Layer L2.
//!
//! `ops` holds one file an operation and does not know how directories are tracked; `dir` is the paper
//! (SwitchFS §5): grants, change-logs, collects; `txn` the two-phase commits; `coord` the coordinator module of
//! the shard that owns slot 0; `cached` what the cache of a switch answers; `state` what all of them change, by applying records only;
//! `survey` shows it to checks.

pub mod access;
mod bounds;
mod cached;
mod coord;
mod dir;
mod files;
mod gauges;
mod job;
mod ops;
pub mod planted;
mod shard;
mod state;
mod survey;
mod txn;

pub use bounds::ShardBounds;
pub use dir::owner::SyncPolicy;
pub use shard::{Shard, ShardConfig, next_birth};
pub use state::image::{DISORDERED_LOG, WRONG_COOKIE};
pub use state::recover::{GLOBAL_RANGE, RANGES, Replayed};
pub use state::reshape::Reshape;
pub use survey::{PendingData, Promise, Survey, Surveyed, SurveyedName};

/// An operation's handle on its shard.
pub(crate) type Cx = onpath_kernel::Cx<state::State>;
/// Kernel and shard state, inside `Cx::with`.
pub(crate) type Core = onpath_kernel::Core<state::State>;
