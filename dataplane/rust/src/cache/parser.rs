//! What is wrong with packets of the cache (D-2, D-6 to D-8, D-67 to D-72).

use crate::Counter;
use crate::common::planted::{Planted, planted};
use crate::dirty_set::registers::SHARDS;
use onpath_wire::innet::Cache;
use onpath_wire::innet::cache::{CacheOp, Fill, Invalidate, LEVELS_MAX, Purpose, REVISION_END, Read, wants};

/// A packet of the cache.
#[derive(Debug)]
pub struct Packet {
    header: Cache,
}

impl Packet {
    /// Its header.
    #[inline]
    pub fn header(&self) -> &Cache {
        &self.header
    }

    /// Whether it changes what is none of its sender's (D-44).
    #[inline]
    pub(crate) fn changes(&self) -> bool {
        self.header.op() != CacheOp::Read
    }
}

/// The packet of a payload that has the common part.
#[inline]
pub(crate) fn parse(payload: &[u8]) -> Result<Packet, Counter> {
    let op = match payload.first().and_then(|code| CacheOp::of_code(code & 0xf)) {
        Some(op) => op,
        None if planted(Planted::D6) => CacheOp::Read,
        None => return Err(Counter::DropOperation),
    };
    let header = header(op, payload).ok_or(Counter::DropTruncated)?;
    match &header {
        Cache::Read(read) => check_read(read)?,
        Cache::Fill(fill) => check_entry(&fill.entry())?,
        Cache::Invalidate(entry) => check_entry(entry)?,
    }
    Ok(Packet { header })
}

/// D-2.
#[inline]
fn header(op: CacheOp, payload: &[u8]) -> Option<Cache> {
    let length = op.header_bytes();
    let mut bytes = [0; Read::BYTES];
    let there = payload.len().min(length);
    bytes[..there].copy_from_slice(&payload[..there]);
    (there == length || planted(Planted::D2)).then(|| match op {
        CacheOp::Read => Cache::Read(Read::of_bytes(&bytes)),
        CacheOp::Fill => Cache::Fill(Fill::of_bytes(&bytes)),
        CacheOp::Invalidate => Cache::Invalidate(Invalidate::of_bytes(bytes.first_chunk().expect("it is shorter"))),
    })
}

/// D-8.
#[inline]
fn check_shard(shard: u16) -> Result<(), Counter> {
    if usize::from(shard) < SHARDS || planted(Planted::D8) { Ok(()) } else { Err(Counter::DropShard) }
}

/// A check of this rule, which drops what does not pass it.
#[inline]
fn reserved(passes: bool, rule: Planted) -> Result<(), Counter> {
    if passes || planted(rule) { Ok(()) } else { Err(Counter::DropReserved) }
}

/// D-7, D-8, D-67 to D-69.
#[inline]
fn check_read(read: &Read) -> Result<(), Counter> {
    let spare = read.wants & !wants::ALL != 0 || read.levels.spare().iter().any(|byte| *byte != 0);
    reserved(read.flags == 0 && (read.result != 0 || !spare), Planted::D7)?;
    check_shard(read.shard)?;
    if read.result != 0 {
        return Ok(());
    }
    reserved((1..=LEVELS_MAX).contains(&usize::from(read.depth)), Planted::D67)?;
    reserved(read.level == 0, Planted::D68)?;
    reserved(Purpose::of_code(read.purpose).is_some(), Planted::D69)
}

/// D-7, D-8, D-70 to D-72.
#[inline]
fn check_entry(entry: &Invalidate) -> Result<(), Counter> {
    let spare = u32::from(entry.spare_0) | u32::from(entry.spare_1) | entry.spare_2;
    reserved(entry.flags == 0 && (entry.result != 0 || spare == 0), Planted::D7)?;
    check_shard(entry.shard)?;
    if entry.result != 0 {
        return Ok(());
    }
    reserved(entry.token != 0, Planted::D70)?;
    reserved(entry.number != 0, Planted::D71)?;
    reserved((1..REVISION_END).contains(&entry.revision), Planted::D72)
}
