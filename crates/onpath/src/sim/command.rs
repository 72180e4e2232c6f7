//! The command line of a configuration.

use super::SYNC;
use onpath_sim::SimConfig;
use onpath_sim::world::Commit;
use onpath_wire::tracking::{Form, Writes};

/// One seed of so many has path nodes.
const PATHS_EVERY: u64 = 4;
/// In one of so many files are lent to their data nodes.
const VISIBLE_EVERY: u64 = 3;
/// Of these, in one of so many sessions bring homes what data nodes have recorded.
const TWO_PHASE_EVERY: u64 = 5;

/// What a seed, or --plain, stands for, without or with a switch.
pub(super) fn base(seed: u64, plain: bool, network: bool) -> SimConfig {
    let config = if plain { SimConfig { seed, ..SimConfig::default() } } else { SimConfig::from_seed(seed) };
    let config = if network { config.with_switch() } else { config };
    let mut config = if !plain && seed.is_multiple_of(PATHS_EVERY) { config.with_path_nodes() } else { config };
    if !plain && seed.is_multiple_of(VISIBLE_EVERY) {
        let two_phase = seed.is_multiple_of(VISIBLE_EVERY * TWO_PHASE_EVERY);
        config.world.writes = if two_phase { Writes::TwoPhase } else { Writes::Visible };
    }
    config
}

/// The command that runs a configuration, as short as can be.
pub(super) fn command(config: &SimConfig, plain: bool) -> String {
    let mut words = vec![format!("onpath sim --seed {} --operations {}", config.seed, config.operations)];
    let network = config.world.form == Form::Network;
    let usual = base(config.seed, plain, network);
    words.extend(plain.then(|| "--plain".into()));
    words.extend(network.then(|| "--tracking network".into()));
    if config.fault_kinds() != usual.fault_kinds() {
        let names: Vec<_> = config.fault_kinds().iter().map(|kind| kind.name()).collect();
        words.push(format!("--faults {}", if names.is_empty() { "none".into() } else { names.join(",") }));
    }
    let usual = usual.with_faults(&config.fault_kinds());
    if config.world.loss != usual.world.loss {
        words.push(format!("--loss {}", config.world.loss));
    }
    let mut say = |name: &str, is: u64, was: u64| {
        if is != was {
            words.push(format!("--{name} {is}"));
        }
    };
    let (is, was) = (config, &usual);
    say("shards", is.world.shards.into(), was.world.shards.into());
    say("processes", is.world.processes.into(), was.world.processes.into());
    say("data-nodes", is.world.data_nodes.into(), was.world.data_nodes.into());
    say("sessions", is.sessions as u64, was.sessions as u64);
    say("window", is.window as u64, was.window as u64);
    say("names", is.workload.names as u64, was.workload.names as u64);
    say("directories", is.workload.directories as u64, was.workload.directories as u64);
    say("mounts", is.mounts as u64, was.mounts as u64);
    say("writers", is.writers as u64, was.writers as u64);
    say("lockers", is.lockers as u64, was.lockers as u64);
    say("cachers", is.cachers as u64, was.cachers as u64);
    say("mortals", is.mortals as u64, was.mortals as u64);
    say("crash-every", is.world.crash_every, was.world.crash_every);
    match (is.world.commit, was.world.commit) {
        (is, was) if is == was => {}
        (Commit::Sync, _) => words.push("--commit sync".into()),
        (Commit::Interval(ms), _) => words.push(format!("--commit interval:{ms}")),
    }
    if is.world.writes != was.world.writes {
        words.push(format!("--writes {}", crate::cli::Writes::from(is.world.writes).word()));
    }
    if is.world.sync != was.world.sync {
        let name = SYNC.iter().find(|(_, policy)| *policy == is.world.sync).map(|(name, _)| *name);
        words.push(format!("--sync {}", name.expect("all have names")));
    }
    words.join(" ")
}
