//! The tests of the simulator: what each file shows stands at its top. The planted bugs of `teeth` are chosen at run time, so that one build
//! with the feature `planted` runs everything.

mod alone;
mod appends;
mod bounds;
mod cached;
mod callers;
mod checkers;
mod cost;
mod data_nodes;
mod deadlocks;
mod directories_of_files;
mod exchange;
mod explore;
mod faults;
mod hostile;
mod hot_names;
mod intentions;
mod kept_ways;
mod leases;
mod model_matches_kernel;
mod network;
mod network_form;
mod nonsense;
mod opens;
mod own_names;
mod owner_form;
mod paths;
mod requests;
#[cfg_attr(not(feature = "planted"), allow(dead_code, reason = "most are for teeth"))]
mod shapes;
mod simulation;
mod sync_state;
#[cfg(feature = "planted")]
mod teeth;
mod transactions;
mod turns;
mod visible;
