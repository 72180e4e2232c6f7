//! The parser: which packets are looked at, what is wrong with the others, and of which structure they are (D-1 to D-5).

use super::planted::{Planted, planted};
use crate::{Config, Counter, cache, dirty_set, visibility};
use onpath_wire::innet::{Common, INNET_VERSION, Structure};

/// A packet that the parser let through. It cannot be cloned and a pass consumes it: one packet, one pass.
#[derive(Debug)]
pub enum Packet {
    /// Of the dirty set.
    DirtySet(dirty_set::parser::Packet),
    /// Of the visibility table.
    Visibility(visibility::parser::Packet),
    /// Of the cache.
    Cache(cache::parser::Packet),
}

/// The packet of a payload, or what it is counted as.
///
/// # Errors
/// The counter of the first check that fails, in the order of SPEC.md.
pub fn parse(config: &Config, udp_port: u16, payload: &[u8]) -> Result<Packet, Counter> {
    if udp_port != config.udp_port && !planted(Planted::D1) {
        return Err(Counter::Plain);
    }
    let common = payload.first_chunk().map(Common::of_bytes).ok_or(Counter::DropTruncated)?;
    if common.version != INNET_VERSION && !planted(Planted::D3) {
        return Err(Counter::DropVersion);
    }
    if common.cluster != config.cluster && !planted(Planted::D4) {
        return Err(Counter::DropCluster);
    }
    let structure = match Structure::of_byte(common.code) {
        None if planted(Planted::D5) => Some(Structure::DirtySet),
        known => known,
    };
    match structure.ok_or(Counter::DropStructure)? {
        Structure::DirtySet => dirty_set::parser::parse(config, payload).map(Packet::DirtySet),
        Structure::Visibility => visibility::parser::parse(config, payload).map(Packet::Visibility),
        Structure::Cache => cache::parser::parse(payload).map(Packet::Cache),
    }
}
