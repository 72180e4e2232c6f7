//! Clocks, journal files, threads: where Onpath meets the operating system. Layer L3.

pub mod blocks;
pub mod checkpoint;
pub mod dir;
pub mod groups;
pub mod journal;
pub mod node;
pub mod roles;
pub mod server;
pub mod stream;
pub mod sys;
