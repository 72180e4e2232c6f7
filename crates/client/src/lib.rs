//! Onpath file systems from programs: no mount, no root.
//!
//! A [`Client`] is a session of a file system, as a mount is one: it is in the process that serves a DIR (`onpath dev`) or with the hosts of a cluster
//! (`onpath serve`). Names are paths from the root of the file system; each call is done as a [`Caller`].
//!
//! ```no_run
//! # fn main() -> Result<(), onpath_client::Error> {
//! use onpath_client::{Caller, Options, blocking::Client};
//!
//! let client = Client::connect("onpath://10.0.0.1/", &Options::default())?;
//! let me = Caller::of_this_process();
//! println!("{} bytes", client.stat(&me, "/a/b/c")?.size);
//! # Ok(())
//! # }
//! ```
//!
//! [`Client`] has futures, for any runtime: they are `Send`, want no reactor, and leave nothing half done when they are dropped.
//! [`blocking::Client`] has the same calls for threads.

pub mod blocking;
mod caller;
mod client;
mod counters;
mod detached;
mod error;
mod file;
mod inode;
pub mod key;
mod listing;
mod metadata;
mod names;
mod requests;
mod session;
mod source;
pub mod url;
mod walk;
pub mod way;
mod whole;

pub use caller::Caller;
pub use client::{Client, Options};
pub use counters::Counters;
pub use error::{Error, ErrorKind};
pub use file::{Allocation, File, OpenOptions};
pub use inode::Inode;
pub use listing::{Entry, Listing, Sorted};
pub use metadata::{FileType, Metadata};
pub use names::{Replace, SetXattr, Space, Time};
pub use source::Source;
pub use walk::Link;
pub use whole::{Reader, Writer};
