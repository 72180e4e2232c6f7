//! The control plane of the cache: what its commands do to tables and registers (D-111 to D-122).

use crate::cli::Cli;
use crate::control::{add, all, delete, read, write};
use onpath_dataplane::Port;
use onpath_dataplane::cache::control::CacheCommand;
use onpath_dataplane::common::state::{CacheState, Lease, Stamp};
use onpath_wire::innet::cache::VALUE_BYTES;
use std::collections::BTreeMap;

const LEASE: &str = "ingress.lease.lease";
const CLOCK: &str = "ingress.lease.clock";
const STAMPS: &str = "ingress.cache.stamp.stamps";
const NAMES: &str = "ingress.cache.names.names";
const TOLD: &str = "ingress.counts.told";
const HITS: &str = "ingress.counts.hits";
/// Rows of the sketch.
const ROWS: [&str; 3] = ["ingress.counts.row0", "ingress.counts.row1", "ingress.counts.row2"];
/// Arrays of a value.
const VALUES: usize = VALUE_BYTES / 4;
/// Who is listed at most.
const REQUESTERS_MAX: usize = 16_384;

fn value(array: usize) -> String {
    format!("ingress.cache.cached{array}.values")
}

fn after(one: u32, other: u32) -> bool {
    one.wrapping_sub(other) as i32 > 0
}

/// Who may ask: by this port, in the name of a caller or of anybody.
type Listed = (Port, Option<(u32, u32)>);
/// A table, and the handle of an entry in it.
type Place = (&'static str, u64);

/// What the control plane knows of the cache.
#[derive(Default)]
pub(crate) struct Cached {
    entries: u32,
    clock: u32,
    /// Handles of names.
    names: BTreeMap<(u64, u8), u64>,
    /// Where it is, of who is listed.
    requesters: BTreeMap<Listed, Place>,
    /// Node and threshold.
    report: (u32, u16),
}

impl Cached {
    /// Of a switch that has so many entries.
    pub(crate) fn new(entries: usize) -> Cached {
        Cached { entries: entries as u32, ..Cached::default() }
    }

    /// Whether the command was accepted. `routes` says by which port a node is reached.
    pub(crate) fn command(
        &mut self,
        cli: &mut Cli,
        command: &CacheCommand,
        routes: &BTreeMap<u32, u32>,
    ) -> Result<bool, String> {
        match *command {
            CacheCommand::Clock(tick) => {
                self.clock = tick;
                write(cli, CLOCK, 0, tick.into())?;
            }
            CacheCommand::Begin { epoch, until } => return self.begin(cli, Lease { epoch, until }),
            CacheCommand::Renew { epoch, until } => {
                let present = self.present(cli)?;
                if epoch == 0 || present.epoch != epoch {
                    return Ok(false);
                }
                if after(until, present.until) {
                    set_lease(cli, Lease { epoch, until })?;
                }
            }
            CacheCommand::Off => {
                let until = lease(cli)?.until;
                set_lease(cli, Lease { epoch: 0, until })?;
            }
            CacheCommand::Empty => {
                if self.present(cli)?.epoch != 0 {
                    return Ok(false);
                }
                self.names.clear();
                cli.ask(&format!("table_clear {NAMES}"))?;
                cli.ask(&format!("register_reset {STAMPS}"))?;
            }
            CacheCommand::Stamp { epoch, index, number } => {
                if epoch == 0 || self.present(cli)?.epoch != epoch || index >= self.entries {
                    return Ok(false);
                }
                write(cli, STAMPS, index, u64::from(number) << 32)?;
            }
            CacheCommand::Admit { epoch, key, token, index, number } => {
                if epoch == 0 || self.present(cli)?.epoch != epoch {
                    return Ok(false);
                }
                return self.admit(cli, (key, token), index, number);
            }
            CacheCommand::Evict { epoch, key, token } => {
                if epoch == 0 || self.present(cli)?.epoch != epoch {
                    return Ok(false);
                }
                if let Some(handle) = self.names.remove(&(key, token)) {
                    delete(cli, &[(NAMES, handle)])?;
                }
            }
            CacheCommand::Any { port } => return self.list(cli, port, None),
            CacheCommand::Caller { port, uid, gid } => return self.list(cli, port, Some((uid, gid))),
            CacheCommand::Unlist { port } => {
                let listed: Vec<_> = self.requesters.keys().copied().filter(|(listed, _)| *listed == port).collect();
                for key in listed {
                    let entry = self.requesters.remove(&key).ok_or("nobody is listed")?;
                    delete(cli, &[entry])?;
                }
            }
            CacheCommand::Report { node, threshold } => {
                self.report = (node, threshold);
                self.routed(cli, routes)?;
            }
            CacheCommand::Reset => {
                ROWS.into_iter()
                    .chain([TOLD, HITS])
                    .try_for_each(|of| cli.ask(&format!("register_reset {of}")).map(drop))?;
            }
        }
        Ok(true)
    }

    /// Routes have changed: the copy of a miss knows its own.
    pub(crate) fn routed(&self, cli: &mut Cli, routes: &BTreeMap<u32, u32>) -> Result<(), String> {
        let (node, threshold) = self.report;
        let (known, port) = routes.get(&node).map_or((0, 0), |port| (1, *port));
        let action = "ingress.counts.report ingress.counts.report_to";
        cli.ask(&format!("table_set_default {action} {node} {known} {port} {threshold}")).map(drop)
    }

    /// The lease, whose epoch is none once it is found passed (D-74).
    fn present(&self, cli: &mut Cli) -> Result<Lease, String> {
        let mut present = lease(cli)?;
        if !after(present.until, self.clock) && present.epoch != 0 {
            present.epoch = 0;
            set_lease(cli, present)?;
        }
        Ok(present)
    }

    /// D-112.
    fn begin(&mut self, cli: &mut Cli, of: Lease) -> Result<bool, String> {
        let runs = self.present(cli)?.epoch != 0;
        if of.epoch == 0
            || runs
            || !self.names.is_empty()
            || !after(of.until, self.clock)
            || !all(cli, STAMPS)?.is_empty()
        {
            return Ok(false);
        }
        set_lease(cli, of).map(|()| true)
    }

    /// D-118.
    fn admit(&mut self, cli: &mut Cli, name: (u64, u8), index: u32, number: u32) -> Result<bool, String> {
        let full = self.names.len() >= self.entries as usize;
        if name.1 == 0 || number == 0 || index >= self.entries || self.names.contains_key(&name) || full {
            return Ok(false);
        }
        let key = format!("{} {} {}", name.0 >> 32, name.0 & 0xffff_ffff, name.1);
        let handle = add(cli, NAMES, "ingress.cache.names.entry_is", &key, &format!("{index} {number}"))?;
        self.names.insert(name, handle);
        Ok(true)
    }

    /// D-120.
    fn list(&mut self, cli: &mut Cli, port: Port, caller: Option<(u32, u32)>) -> Result<bool, String> {
        if self.requesters.contains_key(&(port, caller)) {
            return Ok(true);
        }
        if self.requesters.len() == REQUESTERS_MAX {
            return Ok(false);
        }
        let (table, action, key) = match caller {
            None => ("ingress.cache.asking.trusted", "ingress.cache.asking.any_caller", port.0.to_string()),
            Some((uid, gid)) => {
                let key = format!("{} {uid} {gid}", port.0);
                ("ingress.cache.asking.callers", "ingress.cache.asking.this_caller", key)
            }
        };
        let handle = add(cli, table, action, &key, "")?;
        self.requesters.insert((port, caller), (table, handle));
        Ok(true)
    }
}

fn lease(cli: &mut Cli) -> Result<Lease, String> {
    let value = read(cli, LEASE, 0)?;
    Ok(Lease { epoch: value as u16, until: (value >> 32) as u32 })
}

fn set_lease(cli: &mut Cli, of: Lease) -> Result<(), String> {
    write(cli, LEASE, 0, u64::from(of.until) << 32 | u64::from(of.epoch))
}

/// Registers as a vector has them before.
pub(crate) fn load(cli: &mut Cli, state: &CacheState) -> Result<(), String> {
    set_lease(cli, state.lease)?;
    for (index, stamp) in &state.stamps {
        write(cli, STAMPS, *index, u64::from(stamp.number) << 32 | u64::from(stamp.state))?;
    }
    for (index, bytes) in &state.values {
        let (words, _) = bytes.as_chunks();
        for (array, word) in words.iter().enumerate() {
            write(cli, &value(array), *index, u32::from_be_bytes(*word).into())?;
        }
    }
    for (row, place, count) in &state.sketch {
        write(cli, ROWS[usize::from(*row)], *place, u64::from(*count))?;
    }
    state.reported.iter().try_for_each(|place| write(cli, TOLD, *place, 1))?;
    state.hits.iter().try_for_each(|(index, count)| write(cli, HITS, *index, u64::from(*count)))
}

/// The registers that are not 0.
pub(crate) fn state(cli: &mut Cli) -> Result<CacheState, String> {
    let mut state = CacheState { lease: lease(cli)?, ..CacheState::default() };
    for (index, stamp) in all(cli, STAMPS)? {
        state.stamps.push((index, Stamp { number: (stamp >> 32) as u32, state: stamp as u32 }));
    }
    let mut values: BTreeMap<u32, [u8; VALUE_BYTES]> = BTreeMap::new();
    for array in 0..VALUES {
        for (index, word) in all(cli, &value(array))? {
            let bytes = values.entry(index).or_insert([0; VALUE_BYTES]);
            bytes[4 * array..4 * array + 4].copy_from_slice(&(word as u32).to_be_bytes());
        }
    }
    state.values = values.into_iter().collect();
    for (row, name) in (0..).zip(ROWS) {
        state.sketch.extend(all(cli, name)?.into_iter().map(|(place, count)| (row, place, count as u16)));
    }
    state.reported = all(cli, TOLD)?.into_iter().map(|(place, _)| place).collect();
    state.hits = all(cli, HITS)?.into_iter().map(|(index, count)| (index, count as u32)).collect();
    Ok(state)
}
