//! What is wrong with packets of the visibility table (D-2, D-6 to D-9, D-45, D-46).

use crate::common::planted::{Planted, planted};
use crate::dirty_set::registers::SHARDS;
use crate::{Config, Counter};
use onpath_wire::innet::{Visibility, VisibilityOp};

/// A packet of the visibility table.
#[derive(Debug)]
pub struct Packet {
    header: Visibility,
    op: VisibilityOp,
}

impl Packet {
    /// Its header.
    #[inline]
    pub fn header(&self) -> &Visibility {
        &self.header
    }

    /// Its operation.
    #[inline]
    pub fn op(&self) -> VisibilityOp {
        self.op
    }

    /// Whether it changes a register (D-44).
    #[inline]
    pub(crate) fn changes(&self) -> bool {
        self.op != VisibilityOp::Look
    }
}

/// The packet of a payload that has the common part.
#[inline]
pub(crate) fn parse(config: &Config, payload: &[u8]) -> Result<Packet, Counter> {
    let op = match payload.first().and_then(|code| VisibilityOp::of_code(code & 0xf)) {
        Some(op) => op,
        None if planted(Planted::D6) => VisibilityOp::Look,
        None => return Err(Counter::DropOperation),
    };
    let header = header(payload).ok_or(Counter::DropTruncated)?;
    check_fields(config, &header, op)?;
    Ok(Packet { header, op })
}

/// D-2.
#[inline]
fn header(payload: &[u8]) -> Option<Visibility> {
    match payload.first_chunk() {
        None if planted(Planted::D2) => {
            let mut bytes = [0; Visibility::BYTES];
            bytes[..payload.len()].copy_from_slice(payload);
            Some(Visibility::of_bytes(&bytes))
        }
        whole => whole.map(Visibility::of_bytes),
    }
}

/// D-7 to D-9, D-45, D-46.
#[inline]
fn check_fields(config: &Config, header: &Visibility, op: VisibilityOp) -> Result<(), Counter> {
    if header.flags != 0 && !planted(Planted::D7) {
        return Err(Counter::DropReserved);
    }
    if usize::from(header.shard) >= SHARDS && !planted(Planted::D8) {
        return Err(Counter::DropShard);
    }
    if header.index >> config.entry_bits != 0 && !planted(Planted::D9) {
        return Err(Counter::DropIndex);
    }
    if header.fingerprint == 0 && !planted(Planted::D45) {
        return Err(Counter::DropFingerprint);
    }
    if header.ts == 0 && op != VisibilityOp::Look && !planted(Planted::D46) {
        return Err(Counter::DropTs);
    }
    Ok(())
}
