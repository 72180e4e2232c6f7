//! What all structures share: the common part of the header, routes, copies, counters and the control plane.

pub mod control;
pub mod copies;
pub mod counters;
pub mod header;
pub mod parser;
pub mod planted;
pub mod routing;
pub mod state;
pub mod tracking;
