//! What is wrong with packets of the dirty set (D-2, D-6 to D-10).

use super::registers::SHARDS;
use crate::common::planted::{Planted, planted};
use crate::{Config, Counter};
use onpath_wire::innet::{DirtySet, DirtySetOp};

/// A packet of the dirty set.
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

    /// Whether it changes a register (D-44).
    #[inline]
    pub(crate) fn changes(&self) -> bool {
        self.op != DirtySetOp::Query
    }
}

/// The packet of a payload that has the common part.
#[inline]
pub(crate) fn parse(config: &Config, payload: &[u8]) -> Result<Packet, Counter> {
    let op = match payload.first().and_then(|code| DirtySetOp::of_code(code & 0xf)) {
        Some(op) => op,
        None if planted(Planted::D6) => DirtySetOp::Query,
        None => return Err(Counter::DropOperation),
    };
    let header = header(payload).ok_or(Counter::DropTruncated)?;
    check_fields(config, &header)?;
    Ok(Packet { header, op })
}

/// D-2.
#[inline]
fn header(payload: &[u8]) -> Option<DirtySet> {
    match payload.first_chunk() {
        None if planted(Planted::D2) => {
            let mut bytes = [0; DirtySet::BYTES];
            bytes[..payload.len()].copy_from_slice(payload);
            Some(DirtySet::of_bytes(&bytes))
        }
        whole => whole.map(DirtySet::of_bytes),
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
