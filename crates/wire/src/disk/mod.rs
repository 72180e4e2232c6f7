//! What is stored: records of the journal, objects of checkpoints, heads of files.
//!
//! What is sent may change with every build, since all hosts of a cluster run the same one. What is stored stays readable: a later
//! version adds fields and kinds of records, and reads what this one has written. So stored things have types of their own, and a type
//! of a message is none of their fields: only what implements [`Stored`] is.
//!
//! ```compile_fail,E0277
//! onpath_wire::stored_struct! {
//!     /// A message's type in what is stored.
//!     pub struct Kept {
//!         /// No such field.
//!         pub reply: onpath_wire::reply::Reply,
//!     }
//! }
//! ```
//!
//! ```
//! onpath_wire::stored_struct! {
//!     /// The same of a type that is for both.
//!     pub struct Kept {
//!         /// An inode.
//!         pub inode: onpath_wire::ids::InodeId,
//!     }
//! }
//! ```

pub mod block;
mod codec;
pub mod inode;
pub mod log;
pub mod map;
pub mod objects;
pub mod record;
pub mod reply;
mod secrets;
pub mod superblock;
pub mod txn;

pub use codec::{Fields, MANDATORY, Stored, store_field};
