//! Tries of whole paths behind the trait of a path node's index, to be compared with the one that it uses: [`Mart`], the tree of *SPMeta §V*,
//! and [`Art`], the adaptive radix tree that it was made of.
//!
//! Layer L1: no I/O, no clock, no chance, no `std`. A key is a path whose components all end with `/`; so every directory ends a key, no name
//! is the beginning of another, and what lies below a directory hangs at one node.
//!
//! |   | [`Mart`] | [`Art`] |
//! |---|---|---|
//! | a directory with others below it | an inner node that has its value | an inner node, and a leaf below it with an empty key |
//! | rename | one node goes elsewhere with all below it | everything below is taken out and put in again |
//! | reachability bits | yes, made void by a number (lazy range invalidation) | yes, in the same way |
//!
//! A directory whose parent is not held hangs below a *ghost*: a root of its own that stands for the parent until that comes.

#![no_std]

extern crate alloc;
#[cfg(feature = "planted")]
#[macro_use]
extern crate std;

mod arena;
mod index;
mod nodes;
pub mod planted;
mod prefix;
mod reach;
mod scan;
mod tree;
mod value;
mod walk;

pub use reach::{Reach, Step, reach};
pub use tree::{Art, Embeds, Flavor, Mart, Separate, Tree};
