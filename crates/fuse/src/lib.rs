//! The mount: our own FUSE transport on `/dev/fuse`.
//!
//! - [`abi`]: the kernel's structures and numbers;
//! - [`request`], [`reply`]: typed requests and answers;
//! - [`transport`]: reading and writing them, notifications;
//! - [`serve`]: the event loop, and [`serve::Filesystem`], which answers;
//! - [`mount`]: mount(2), unmount, dead mounts;
//! - [`adapter`]: the file system of a client session behind the mount;
//! - [`floor`]: a bare passthrough, the least that any mount costs.

pub mod abi;
pub mod adapter;
pub mod floor;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod mount;
pub mod reply;
pub mod request;
pub mod serve;
pub mod transport;
