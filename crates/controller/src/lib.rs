//! The controller of a switch's cache (design.md, "Hot metadata answered by the switch").
//!
//! Layer L2. A [`Controller`] stands beside the coordinator, and speaks with one switch. It keeps the lease by which that answers from its cache (C-4), and gives names entries
//! there, which their homes fill (C-5). It knows no value: what an entry says is between its home and the switch. All that it knows is volatile;
//! a new one begins a new epoch, with an empty switch.

mod admit;
mod controller;
mod hot;
mod lease;
mod state;

pub use controller::{Controller, ControllerIn};
pub use state::{ControllerConfig, THRESHOLD};
