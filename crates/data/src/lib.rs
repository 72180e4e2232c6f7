//! The data node: blocks, generations, cuts (DESIGN §5). Layer L2.
//!
//! A [`DataNode`] is a value. Messages of sessions and homes come in; answers, journal records and disk operations go
//! out. File bytes never wait in it: a write is new blocks on the disk, then one record, then a message to the home.

mod cache;
mod check;
mod content;
mod disk;
mod index;
mod node;
mod ops;
mod recover;
mod space;
mod state;
mod window;

pub use check::{Fault, FileSummary};
pub use disk::{DiskOp, DiskResult, Ticket};
pub use node::DataNode;
pub use recover::{BlockReader, Started};
pub use state::{DataConfig, DataCounters, DataIn, DataOut};
