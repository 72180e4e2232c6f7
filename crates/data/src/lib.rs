//! The data node: blocks, generations, cuts (design.md, "Data"). Layer L2.
//!
//! A [`DataNode`] is a value. Messages of sessions and homes come in; answers, journal records and disk operations go
//! out. File bytes never wait in it: a write is new blocks on the disk, then one record, then a message to the home.
//!
//! What the host owes it: disk operations are executed outside of its lock, in any order; data files are flushed before
//! every flush of the journal; and at a start data files first, then the journal that was replayed, are made durable
//! before [`DataNode::start`].

mod cache;
mod check;
mod content;
mod counts;
mod disk;
mod gauges;
mod index;
mod map;
mod node;
mod objects;
mod ops;
mod parts;
pub mod planted;
mod range;
mod recover;
mod reserved;
mod sound;
mod space;
mod state;
mod table;
mod tickets;
mod touched;
mod used;
mod window;

pub use check::{Fault, FileSummary};
pub use disk::{DiskOp, DiskResult, Ticket};
pub use node::DataNode;
pub use recover::{BlockReader, Started};
pub use state::{DataConfig, DataCounters, DataIn, DataOut};
