//! A session against scripted servers: each test plays the shards and the data node, message by message.

mod data;
mod exact;
mod files;
mod halves;
mod leases;
mod locks;
mod loss;
mod pages;
mod paths;
mod ranges;
mod rig;
mod routing;
mod sums;
mod terms;
