//! Fuzz targets: whatever bytes come from outside, no parser panics or takes much more memory than it was given bytes, and what was
//! read can be written and read again.
//!
//! Each program of `targets` gives the inputs of libFuzzer to one function here. docs/internals/testing.md has the commands.

mod cut;
mod directory;
mod journal;
mod kernel;
mod memory;
mod messages;
mod network;
mod objects;
mod replays;
mod settings;
mod starts;
mod stored;

pub use directory::{checkpoints, files};
pub use journal::{batches, segments};
pub use kernel::{attributes, proc, requests as fuse_requests};
pub use messages::messages;
pub use network::{datagrams, dataplane, frames, handshakes};
pub use objects::{data_objects, shard_objects};
pub use replays::{data_records, shard_records};
pub use settings::{command_line, configuration, told};
pub use stored::records;
