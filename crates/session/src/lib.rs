//! The client session: routing, handles, retries. Layer L2.
//!
//! A [`Session`] is a role between a mount (or any embedding program) and the cluster. It speaks the interface of [`fs`]
//! upwards and `wire` messages downwards:
//! - `ops/`: one file a family of operations, each a straight line of questions;
//! - `op`: what every operation does (ask a shard, ask the data node, wait inside the session);
//! - `input`: admission, interrupts, answers, new terms;
//! - `state`: what operations share, and how messages are made;
//! - `opens`, `locks`, `running`, `ways`: pure tables.

pub mod fs;
mod gauges;
mod input;
pub mod limits;
mod locks;
mod op;
mod opens;
mod ops;
mod planted;
pub mod protected;
mod running;
mod session;
mod state;
mod ways;

pub use planted::Planted;
#[cfg(feature = "planted")]
pub use planted::plant;
pub use session::{AccessTimes, CallerQuestion, LostReason, ReadCaller, Session, SessionConfig, SessionIn, SessionOut};
pub use ways::KeptWays;
