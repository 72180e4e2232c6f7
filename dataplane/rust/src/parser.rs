//! The parser: which packets are looked at, and what is wrong with the others (D-1 to D-10).

use crate::planted::{Planted, planted};
use crate::registers::SHARDS;
use crate::{Config, Counter};
use onpath_wire::innet::{DirtySet, DirtySetOp, INNET_COMMON_BYTES, INNET_VERSION, Structure};

/// A packet that the parser let through. It cannot be cloned and a pass consumes it: one packet, one pass.
#[derive(Debug)]
pub struct Packet {
    header: DirtySet,
    op: DirtySetOp,
}

impl Packet {
    /// Its header.
    #[inline]
    pub fn header(&self) -> &DirtySet {
        &self.header
    }

    /// Its operation.
    #[inline]
    pub fn op(&self) -> DirtySetOp {
        self.op
    }

    /// Whether its switch has answered it already (D-11).
    #[inline]
    pub fn is_answered(&self) -> bool {
        self.header.result != 0 && !planted(Planted::D11)
    }
}

/// The packet of a payload, or what it is counted as.
///
/// # Errors
/// The counter of the first check that fails, in the order of SPEC.md.
pub fn parse(config: &Config, udp_port: u16, payload: &[u8]) -> Result<Packet, Counter> {
    if udp_port != config.udp_port && !planted(Planted::D1) {
        return Err(Counter::Plain);
    }
    let header = header(payload).ok_or(Counter::DropTruncated)?;
    if header.version != INNET_VERSION && !planted(Planted::D3) {
        return Err(Counter::DropVersion);
    }
    if header.cluster != config.cluster && !planted(Planted::D4) {
        return Err(Counter::DropCluster);
    }
    if Structure::of_byte(header.code) != Some(Structure::DirtySet) && !planted(Planted::D5) {
        return Err(Counter::DropStructure);
    }
    let op = match DirtySetOp::of_code(header.code & 0xf) {
        Some(op) => op,
        None if planted(Planted::D6) => DirtySetOp::Query,
        None => return Err(Counter::DropOperation),
    };
    if payload.len() < DirtySet::BYTES && !planted(Planted::D2) {
        return Err(Counter::DropTruncated);
    }
    check_fields(config, &header)?;
    Ok(Packet { header, op })
}

/// The header, if its common part is there; what else is missing is 0 (D-2 is asked again when the structure is known).
#[inline]
fn header(payload: &[u8]) -> Option<DirtySet> {
    match payload.first_chunk() {
        Some(bytes) => Some(DirtySet::of_bytes(bytes)),
        None if payload.len() < INNET_COMMON_BYTES => None,
        None => {
            let mut bytes = [0; DirtySet::BYTES];
            bytes[..payload.len()].copy_from_slice(payload);
            Some(DirtySet::of_bytes(&bytes))
        }
    }
}

/// D-7 to D-10.
#[inline]
fn check_fields(config: &Config, header: &DirtySet) -> Result<(), Counter> {
    let reserved = u32::from(header.flags) | header.spare_0 | header.spare_1;
    if reserved != 0 && !planted(Planted::D7) {
        return Err(Counter::DropReserved);
    }
    if usize::from(header.shard) >= SHARDS && !planted(Planted::D8) {
        return Err(Counter::DropShard);
    }
    if header.index >> config.index_bits != 0 && !planted(Planted::D9) {
        return Err(Counter::DropIndex);
    }
    if header.tag == 0 && !planted(Planted::D10) {
        return Err(Counter::DropTag);
    }
    Ok(())
}
