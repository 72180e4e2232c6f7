//! Values of the maps, byte for byte as in maps.h. All of them are arrays, so that none needs a layout of Rust's own.

use crate::device::{Device, Way};
use onpath_dataplane::common::state::{Entry, Lease, Pair, Stamp};
use onpath_dataplane::dirty_set::registers::STAGES_MAX;
use onpath_dataplane::visibility::registers::VALUES;
use onpath_dataplane::{Config, Tracking};
use onpath_wire::innet::cache::VALUE_BYTES;
use std::net::{Ipv4Addr, SocketAddrV4};

/// `struct settings`: cluster, port, bits of an index, arrays, bits of an entry's number, those of the cache, address.
pub(crate) type RawSettings = [u32; 7];
/// `struct tracked`: epoch, complete, lock.
pub(crate) type RawTracked = [u32; 3];
/// `struct onpath_pair`.
pub(crate) type RawPair = [u32; 2];
/// `struct onpath_set`.
pub(crate) type RawSet = [u32; STAGES_MAX];
/// `struct onpath_entry`: fingerprint, ts, metadata in network order.
pub(crate) type RawEntry = [u32; 2 + VALUES];
/// `struct onpath_route`.
pub(crate) type RawRoute = [u8; 28];
/// `struct source`.
pub(crate) type RawSource = [u8; 12];
/// `struct leased`: until, epoch, lock, whether the clock stands, and at which tick.
pub(crate) type RawLeased = [u32; 5];
/// `struct name`: key, token, epoch.
pub(crate) type RawName = [u8; 16];
/// `struct onpath_found`: index, number.
pub(crate) type RawFound = [u32; 2];
/// `struct cached`: number, state, value in network order, lock.
pub(crate) type RawCached = [u32; 3 + VALUE_BYTES / 4];
/// `struct counted`: misses by row, whether they were told, a spare byte, answers.
pub(crate) type RawCounted = [u8; 12];
/// `struct requester`: where its frames come from, whether it names a caller, uid, gid.
pub(crate) type RawRequester = [u8; 24];
/// `struct turn`: where a packet comes in, whether it waits, its header, where it is on its way, what it came to.
pub(crate) type RawTurn = [u8; 12 + 4 + 124 + 24 + 16];
/// `struct onpath_report`: node, threshold.
pub(crate) type RawReport = [u32; 2];

pub(crate) fn settings(config: &Config, address: Ipv4Addr) -> RawSettings {
    let Config { cluster, udp_port, index_bits, stages, entry_bits, cache_bits } = *config;
    let address = u32::from_ne_bytes(address.octets());
    [cluster, udp_port.into(), index_bits, stages as u32, entry_bits, cache_bits, address]
}

pub(crate) fn config_of(raw: &RawSettings) -> (Config, Ipv4Addr) {
    let [cluster, udp_port, index_bits, stages, entry_bits, cache_bits, address] = *raw;
    let (udp_port, stages) = (udp_port as u16, stages as usize);
    let config = Config { cluster, udp_port, index_bits, stages, entry_bits, cache_bits };
    (config, Ipv4Addr::from(address.to_ne_bytes()))
}

pub(crate) fn tracking_of(raw: &RawTracked) -> Tracking {
    Tracking { epoch: raw[0] as u16, complete: raw[1] != 0 }
}

pub(crate) fn pair_of(raw: &RawPair) -> Pair {
    Pair { min_term: raw[0], counter: raw[1] }
}

pub(crate) fn entry(of: &Entry) -> RawEntry {
    let mut raw = [0; 2 + VALUES];
    (raw[0], raw[1]) = (of.fingerprint, of.ts);
    let (words, _) = of.metadata.as_chunks();
    raw[2..].iter_mut().zip(words).for_each(|(raw, word)| *raw = u32::from_ne_bytes(*word));
    raw
}

pub(crate) fn entry_of(raw: &RawEntry) -> Entry {
    let mut entry = Entry { fingerprint: raw[0], ts: raw[1], ..Entry::default() };
    let (words, _) = entry.metadata.as_chunks_mut();
    words.iter_mut().zip(&raw[2..]).for_each(|(word, raw)| *word = raw.to_ne_bytes());
    entry
}

/// The way by the device of this place.
pub(crate) fn route(way: &Way, device: &Device, place: u32) -> RawRoute {
    let mut raw = [0; 28];
    raw[..4].copy_from_slice(&device.number.to_ne_bytes());
    raw[4..8].copy_from_slice(&place.to_ne_bytes());
    raw[8..12].copy_from_slice(&way.address.ip().octets());
    raw[12..14].copy_from_slice(&way.address.port().to_be_bytes());
    raw[14..20].copy_from_slice(&way.mac);
    raw[20..26].copy_from_slice(&device.mac);
    raw
}

/// Where frames come from that come in by a device of this number.
pub(crate) fn source(device: u32, address: SocketAddrV4) -> RawSource {
    let mut raw = [0; 12];
    raw[..4].copy_from_slice(&device.to_ne_bytes());
    raw[4..8].copy_from_slice(&address.ip().octets());
    raw[8..10].copy_from_slice(&address.port().to_be_bytes());
    raw
}

/// A name of an epoch.
pub(crate) fn name(key: u64, token: u8, epoch: u16) -> RawName {
    let mut raw = [0; 16];
    raw[..8].copy_from_slice(&key.to_ne_bytes());
    raw[8..12].copy_from_slice(&u32::from(token).to_ne_bytes());
    raw[12..].copy_from_slice(&u32::from(epoch).to_ne_bytes());
    raw
}

/// Who asks from there: in the name of anybody, or of a caller, uid and gid.
pub(crate) fn requester(from: &RawSource, caller: Option<(u32, u32)>) -> RawRequester {
    let mut raw = [0; 24];
    raw[..12].copy_from_slice(from);
    if let Some((uid, gid)) = caller {
        raw[12..16].copy_from_slice(&1u32.to_ne_bytes());
        raw[16..20].copy_from_slice(&uid.to_ne_bytes());
        raw[20..].copy_from_slice(&gid.to_ne_bytes());
    }
    raw
}

pub(crate) fn lease_of(raw: &RawLeased) -> Lease {
    Lease { until: raw[0], epoch: raw[1] as u16 }
}

pub(crate) fn stamp_of(raw: &RawCached) -> Stamp {
    Stamp { number: raw[0], state: raw[1] }
}

pub(crate) fn value_of(raw: &RawCached) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    let (words, _) = value.as_chunks_mut();
    words.iter_mut().zip(&raw[2..]).for_each(|(word, raw)| *word = raw.to_ne_bytes());
    value
}

/// Stamp and value, with a lock that is free.
pub(crate) fn cached(stamp: &Stamp, value: &[u8; VALUE_BYTES]) -> RawCached {
    let mut raw = [0; 3 + VALUE_BYTES / 4];
    (raw[0], raw[1]) = (stamp.number, stamp.state);
    let (words, _) = value.as_chunks();
    raw[2..].iter_mut().zip(words).for_each(|(raw, word)| *raw = u32::from_ne_bytes(*word));
    raw
}

/// Misses of a row.
pub(crate) fn missed_of(raw: &RawCounted, row: usize) -> u16 {
    u16::from_ne_bytes([raw[2 * row], raw[2 * row + 1]])
}

pub(crate) fn set_missed(raw: &mut RawCounted, row: usize, count: u16) {
    raw[2 * row..2 * row + 2].copy_from_slice(&count.to_ne_bytes());
}

pub(crate) fn is_reported(raw: &RawCounted) -> bool {
    raw[6] != 0
}

pub(crate) fn set_reported(raw: &mut RawCounted) {
    raw[6] = 1;
}

pub(crate) fn hits_of(raw: &RawCounted) -> u32 {
    u32::from_ne_bytes([raw[8], raw[9], raw[10], raw[11]])
}

pub(crate) fn set_hits(raw: &mut RawCounted, count: u32) {
    raw[8..].copy_from_slice(&count.to_ne_bytes());
}
