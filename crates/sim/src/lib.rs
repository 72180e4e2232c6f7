//! Deterministic simulation of Onpath: the very same roles on virtual time, from a seed (ARCHITECTURE.md, "The simulator").
//!
//! Layer L3. [`model`] is the reference model, the only definition of correctness; [`world`] the processes,
//! disks and network; [`check`] compares every answer with the model; [`run`](run::run) is a whole simulation.
//! [`cost`] is another world for the same roles, in which nothing fails and everything takes its time.

pub mod audit;
pub mod check;
pub mod client;
pub mod cost;
pub mod explore;
pub mod kinds;
pub mod model;
pub mod run;
pub mod scenario;
pub mod shrink;
pub mod users;
pub mod workload;
pub mod world;

pub use kinds::FaultKind;
pub use onpath_meta::SyncPolicy;
pub use run::{Outcome, SimConfig, run};
