//! Clocks, journal files, threads: where Onpath meets the operating system. Layer L3.

pub mod blocks;
mod boot;
mod bound;
pub mod checkpoint;
mod clock;
pub mod dir;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod held;
pub mod huge;
pub mod inspect;
pub mod journal;
pub mod known;
pub mod member;
pub mod metrics;
pub mod mounts;
pub mod node;
pub mod offline;
mod owner;
pub mod progress;
mod replay;
pub mod report;
pub mod reshape;
pub mod roles;
mod seldom;
pub mod server;
pub mod shape;
mod state;
pub mod stream;
pub mod sys;
pub mod udp;
