//! The control plane of a simple_switch: what commands of SPEC.md do to its tables and registers (D-37 to D-42, D-62 to D-66; those
//! of the cache are in `cache.rs`).

use crate::cache::{self, Cached};
use crate::cli::Cli;
use crate::frame::{self, Address};
use crate::switch::Running;
use onpath_dataplane::common::state::{Entry, Pair};
use onpath_dataplane::{Command, Config, State, Switch, Tracking};
use std::collections::{BTreeMap, BTreeSet};

/// Where frames go that the program passes.
pub(crate) const PLAIN: u32 = 509;
const SHARD_NODES: u32 = 0x0100_0000;

const EPOCH: &str = "ingress.tracking.present";
const TABLE_EPOCH: &str = "ingress.table_tracking.present";
const GATES: &str = "ingress.visibility.gate.gates";
/// Arrays of metadata.
const VALUES: usize = 24;
const PAIRS: &str = "ingress.admission.pairs";

fn array(stage: u16) -> String {
    format!("ingress.dirty_set.array{stage}.tags")
}

fn value(array: usize) -> String {
    format!("ingress.visibility.value{array}.values")
}

/// (table, handle) of the entries of a route.
type Route = Vec<(&'static str, u64)>;

/// What the control plane knows. Tables are judged by the Rust form, which holds them too: a switch has no limits of its own.
pub(crate) struct Control {
    config: Config,
    tables: Switch,
    routes: BTreeMap<u32, Route>,
    /// The ports of these routes.
    ports: BTreeMap<u32, u32>,
    hosts: BTreeMap<u32, u64>,
    cache: Cached,
}

/// The handle of a new entry.
pub(crate) fn add(cli: &mut Cli, table: &str, action: &str, key: &str, data: &str) -> Result<u64, String> {
    cli.ask_number(&format!("table_add {table} {action} {key} => {data}"), "has been added with handle")
}

/// Takes entries out.
pub(crate) fn delete(cli: &mut Cli, entries: &[(&'static str, u64)]) -> Result<(), String> {
    entries.iter().try_for_each(|(table, handle)| cli.ask(&format!("table_delete {table} {handle}")).map(drop))
}

/// A register.
pub(crate) fn read(cli: &mut Cli, register: &str, at: u32) -> Result<u64, String> {
    cli.ask_number(&format!("register_read {register} {at}"), "]=")
}

/// Gives a register this value.
pub(crate) fn write(cli: &mut Cli, register: &str, at: u32, value: u64) -> Result<(), String> {
    cli.ask(&format!("register_write {register} {at} {value}")).map(drop)
}

impl Control {
    /// Of a switch that was just started.
    pub(crate) fn new(config: Config, running: &mut Running, ports: &BTreeSet<u32>) -> Result<Control, String> {
        let cli = &mut running.cli;
        cli.ask("set_queue_depth 4096")?;
        let mut bridge = |mac: [u8; 6], port: u32| {
            let mac: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
            add(cli, "ingress.bridge", "ingress.bridge_to", &mac.join(":"), &port.to_string())
        };
        for &port in ports {
            bridge(frame::fence_mac(port), port)?;
        }
        bridge(Address::of_switch(config.udp_port).mac, PLAIN)?;
        for port in ports {
            cli.ask(&format!("mirroring_add {port} {port}"))?;
        }
        let tables = Switch::new(config).map_err(|error| error.to_string())?;
        let (routes, ports, hosts) = Default::default();
        Ok(Control { config, tables, routes, ports, hosts, cache: Cached::new(config.cached()) })
    }

    /// Whether the command was accepted; a refused one has changed nothing.
    pub(crate) fn command(&mut self, cli: &mut Cli, command: &Command) -> Result<bool, String> {
        match command {
            Command::Epoch(epoch) => set_epoch(cli, EPOCH, *epoch).map(|()| true),
            Command::Complete(epoch) => set_complete(cli, EPOCH, *epoch),
            Command::VisibilityEpoch(epoch) => set_epoch(cli, TABLE_EPOCH, *epoch).map(|()| true),
            Command::VisibilityComplete(epoch) => set_complete(cli, TABLE_EPOCH, *epoch),
            Command::VisibilityClear => clear_entries(cli),
            Command::Raise { shard, term } => self.raise(cli, *shard, *term),
            Command::Clear => self.clear(cli),
            Command::Cache(command) => self.cache.command(cli, command, &self.ports),
            Command::Reboot => Err("a reboot is a new switch".into()),
            tables => match self.tables.control(tables) {
                Err(_) => Ok(false),
                Ok(()) => self.table(cli, tables).map(|()| true),
            },
        }
    }

    fn table(&mut self, cli: &mut Cli, command: &Command) -> Result<(), String> {
        match command {
            Command::Route { node, port } => self.route(cli, *node, Some(port.0)),
            Command::Unroute { node } => self.route(cli, *node, None),
            Command::Host { port } => self.host(cli, port.0, true),
            Command::Unhost { port } => self.host(cli, port.0, false),
            other => Err(format!("{other:?} is of no table")),
        }
    }

    fn route(&mut self, cli: &mut Cli, node: u32, port: Option<u32>) -> Result<(), String> {
        if let Some(route) = self.routes.remove(&node) {
            delete(cli, &route)?;
        }
        if let Some(port) = port {
            let mut entries = vec![];
            let mut entry = |table, action, key: u32, data: &str| {
                entries.push((table, add(cli, table, action, &format!("0x{key:x}"), data)?));
                Ok::<(), String>(())
            };
            let port_word = port.to_string();
            let at = "ingress.routing.destinations";
            entry(at, "ingress.routing.destination_at", node, &format!("{port} {port}"))?;
            if let Some(shard @ 0..256) = node.checked_sub(SHARD_NODES) {
                entry("ingress.routing.shards", "ingress.routing.shard_at", shard, &port_word)?;
            }
            entry("ingress.cache.asking.requesters", "ingress.cache.asking.requester_at", node, &port_word)?;
            let address = Address::of_node(node).words();
            entry("egress.header_out.addresses", "egress.header_out.address_is", node, &address)?;
            self.routes.insert(node, entries);
        }
        match port {
            Some(port) => _ = self.ports.insert(node, port),
            None => _ = self.ports.remove(&node),
        }
        self.cache.routed(cli, &self.ports)
    }

    fn host(&mut self, cli: &mut Cli, port: u32, listed: bool) -> Result<(), String> {
        const TABLE: &str = "ingress.routing.hosts";
        match self.hosts.remove(&port) {
            Some(handle) if listed => _ = self.hosts.insert(port, handle),
            Some(handle) => delete(cli, &[(TABLE, handle)])?,
            None if listed => {
                let handle = add(cli, TABLE, "ingress.routing.host_is", &port.to_string(), "")?;
                self.hosts.insert(port, handle);
            }
            None => {}
        }
        Ok(())
    }

    /// D-39: one register holds both, so that they change at once.
    fn raise(&self, cli: &mut Cli, shard: u16, term: u32) -> Result<bool, String> {
        if shard > 255 || term == 0 || term >= 1 << 23 {
            return Ok(false);
        }
        if u64::from(term) > read(cli, PAIRS, u32::from(shard))? >> 32 {
            write(cli, PAIRS, u32::from(shard), u64::from(term) << 32)?;
        }
        Ok(true)
    }

    /// D-40.
    fn clear(&self, cli: &mut Cli) -> Result<bool, String> {
        if tracking(cli, EPOCH)?.epoch != 0 {
            return Ok(false);
        }
        (0..self.stages()).try_for_each(|stage| cli.ask(&format!("register_reset {}", array(stage))).map(drop))?;
        Ok(true)
    }

    fn stages(&self) -> u16 {
        self.config.stages as u16
    }

    /// Registers as a vector has them before.
    pub(crate) fn load(&self, cli: &mut Cli, state: &State) -> Result<(), String> {
        set_tracking(cli, EPOCH, state.tracking)?;
        set_tracking(cli, TABLE_EPOCH, state.visibility)?;
        cache::load(cli, &state.cache)?;
        for (shard, pair) in &state.pairs {
            let value = u64::from(pair.min_term) << 32 | u64::from(pair.counter);
            write(cli, PAIRS, u32::from(*shard), value)?;
        }
        for (number, entry) in &state.entries {
            write(cli, GATES, *number, u64::from(entry.fingerprint) << 32 | u64::from(entry.ts))?;
            let (words, _) = entry.metadata.as_chunks();
            for (array, word) in words.iter().enumerate() {
                write(cli, &value(array), *number, u32::from_be_bytes(*word).into())?;
            }
        }
        state.tags.iter().try_for_each(|(stage, index, tag)| write(cli, &array(*stage), *index, u64::from(*tag)))
    }

    /// The registers that are not 0: all of epoch and shards; of tags those of `sets`, or all without it.
    pub(crate) fn state(&self, cli: &mut Cli, sets: Option<&BTreeSet<u32>>) -> Result<State, String> {
        let (tracking, visibility) = (tracking(cli, EPOCH)?, tracking(cli, TABLE_EPOCH)?);
        let mut state =
            State { tracking, visibility, entries: entries(cli)?, cache: cache::state(cli)?, ..State::default() };
        for (shard, value) in all(cli, PAIRS)? {
            state.pairs.push((shard as u16, Pair { min_term: (value >> 32) as u32, counter: value as u32 }));
        }
        for stage in 0..self.stages() {
            let register = array(stage);
            let values = match sets {
                None => all(cli, &register)?,
                Some(sets) => {
                    let read = |&set| read(cli, &register, set).map(|value| (set, value));
                    let values: Result<Vec<(u32, u64)>, String> = sets.iter().map(read).collect();
                    values?.into_iter().filter(|(_, value)| *value != 0).collect()
                }
            };
            state.tags.extend(values.into_iter().map(|(set, value)| (stage, set, value as u32)));
        }
        Ok(state)
    }
}

fn tracking(cli: &mut Cli, register: &str) -> Result<Tracking, String> {
    let present = read(cli, register, 0)?;
    match (present >> 16, present & 0xffff) {
        (0, 0) => Ok(Tracking::default()),
        (epoch @ 1..=0xffff, run @ 1..=2) => Ok(Tracking { epoch: epoch as u16, complete: run == 2 }),
        _ => Err(format!("{present:#x} is no value of {register}")),
    }
}

fn set_tracking(cli: &mut Cli, register: &str, of: Tracking) -> Result<(), String> {
    let run = if of.epoch == 0 { 0 } else { 1 + u64::from(of.complete) };
    write(cli, register, 0, u64::from(of.epoch) << 16 | run)
}

/// D-37, D-63.
fn set_epoch(cli: &mut Cli, register: &str, epoch: u16) -> Result<(), String> {
    if tracking(cli, register)?.epoch == epoch {
        return Ok(());
    }
    set_tracking(cli, register, Tracking { epoch, complete: false })
}

/// D-38, D-64.
fn set_complete(cli: &mut Cli, register: &str, epoch: u16) -> Result<bool, String> {
    if epoch == 0 || tracking(cli, register)?.epoch != epoch {
        return Ok(false);
    }
    set_tracking(cli, register, Tracking { epoch, complete: true }).map(|()| true)
}

/// D-65.
fn clear_entries(cli: &mut Cli) -> Result<bool, String> {
    if tracking(cli, TABLE_EPOCH)?.epoch != 0 {
        return Ok(false);
    }
    cli.ask(&format!("register_reset {GATES}"))?;
    (0..VALUES).try_for_each(|array| cli.ask(&format!("register_reset {}", value(array))).map(drop))?;
    Ok(true)
}

/// The entries that are not 0.
fn entries(cli: &mut Cli) -> Result<Vec<(u32, Entry)>, String> {
    let mut entries: BTreeMap<u32, Entry> = BTreeMap::new();
    for (number, gate) in all(cli, GATES)? {
        let entry = entries.entry(number).or_default();
        (entry.fingerprint, entry.ts) = ((gate >> 32) as u32, gate as u32);
    }
    for array in 0..VALUES {
        for (number, word) in all(cli, &value(array))? {
            let metadata = &mut entries.entry(number).or_default().metadata;
            metadata[4 * array..4 * array + 4].copy_from_slice(&(word as u32).to_be_bytes());
        }
    }
    Ok(entries.into_iter().collect())
}

/// The registers of an array that are not 0.
pub(crate) fn all(cli: &mut Cli, register: &str) -> Result<Vec<(u32, u64)>, String> {
    let answer = cli.ask(&format!("register_read {register}"))?;
    let values = answer.rsplit_once('=').map(|(_, values)| values).ok_or_else(|| format!("{register}: {answer:?}"))?;
    let value = |word: &str| word.trim().parse().map_err(|_| format!("{register}: {word:?} is no number"));
    let values: Result<Vec<u64>, String> = values.trim().split(',').map(value).collect();
    Ok(values?.into_iter().zip(0..).filter(|(value, _)| *value != 0).map(|(value, at)| (at, value)).collect())
}

/// What a cell of a counter has counted.
pub(crate) fn counted(cli: &mut Cli, counter: &str, cell: usize) -> Result<u64, String> {
    let command = format!("counter_read {counter} {cell}");
    let answer = cli.ask(&command)?;
    packets(&answer).ok_or_else(|| format!("{command}: no number in {answer:?}"))
}

/// The packets in the answer to `counter_read`, which older versions word otherwise than newer ones.
fn packets(answer: &str) -> Option<u64> {
    let (_, values) = answer.rsplit_once("]=")?;
    let number = match values.split_once("packets=") {
        Some((_, number)) => number,
        None => values.split_once(" packets")?.0.rsplit(' ').next()?,
    };
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[test]
fn counters_are_read_as_any_version_words_them() {
    for answer in ["ingress.packets[3]= (123 bytes, 40 packets)\n", "p[3]=  BmCounterValue(packets=40, bytes=123)\n"] {
        assert_eq!(packets(answer), Some(40), "{answer}");
    }
    for answer in ["", "ingress.packets[3]= ", "p[3]= (123 bytes, many packets)", "40 packets"] {
        assert_eq!(packets(answer), None, "{answer}");
    }
}
