//! The path node: it holds the *path parts* of directories – name, parent, who may search them – as their homes grant them, and follows
//! paths in what it holds (design.md, "Paths"; SPMeta).
//!
//! Layer L2. What it answers is true of the moment in which it answers: whatever changes a path part takes it back first. It says only how
//! far names led. What comes next – a file, a link, nothing, a directory that the caller may not search – is for the shards to say, so no
//! refusal is ever decided here. All it keeps is volatile.

mod ask;
mod lease;
mod load;
mod node;
mod planted;
mod resolve;
mod state;
mod tree;

pub use node::PathNode;
pub use planted::Planted;
#[cfg(feature = "planted")]
pub use planted::plant;
pub use state::PathConfig;
pub use tree::IndexKind;
