//! Clocks, journal files, threads: where Onpath meets the operating system. Layer L3.

pub mod blocks;
pub mod dir;
pub mod journal;
pub mod node;
pub mod sys;
