//! The kinds of faults by name: which of them a configuration has, and the same configuration with others.

use crate::run::SimConfig;
use std::fmt;
use std::str::FromStr;

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum FaultKind {
    /// Messages are lost.
    Loss,
    /// Messages arrive twice.
    Duplicate,
    /// Messages are held up.
    Reorder,
    /// Processes die and start again.
    Kill,
    /// Half of these deaths are power losses.
    Power,
    /// Deaths leave torn records and blocks.
    Tear,
    /// Power losses leave wrong bits in what was not durable.
    Flip,
    /// Messages of one direction are lost for a while.
    Partition,
    /// Machines are slow for a while.
    Slow,
    /// Clocks differ, and jump within their bound.
    Jump,
    /// Clocks are wrong beyond their bound for a while.
    Clock,
    /// Disks are full for a while.
    Full,
    /// Sessions die with what they have open and locked.
    Death,
    /// The switch, where there is one, reboots, goes away and comes back.
    Switch,
    /// Somebody answers marks in the name of the switch, where there is one.
    Forge,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [FaultKind; 15] = [
        FaultKind::Loss,
        FaultKind::Duplicate,
        FaultKind::Reorder,
        FaultKind::Kill,
        FaultKind::Power,
        FaultKind::Tear,
        FaultKind::Flip,
        FaultKind::Partition,
        FaultKind::Slow,
        FaultKind::Jump,
        FaultKind::Clock,
        FaultKind::Full,
        FaultKind::Death,
        FaultKind::Switch,
        FaultKind::Forge,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Loss => "loss",
            FaultKind::Duplicate => "duplicate",
            FaultKind::Reorder => "reorder",
            FaultKind::Kill => "kill",
            FaultKind::Power => "power",
            FaultKind::Tear => "tear",
            FaultKind::Flip => "flip",
            FaultKind::Partition => "partition",
            FaultKind::Slow => "slow",
            FaultKind::Jump => "jump",
            FaultKind::Clock => "clock",
            FaultKind::Full => "full",
            FaultKind::Death => "death",
            FaultKind::Switch => "switch",
            FaultKind::Forge => "forge",
        }
    }

    /// Whether it only shows where processes die.
    fn needs_deaths(self) -> bool {
        matches!(self, FaultKind::Power | FaultKind::Tear | FaultKind::Flip)
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FaultKind {
    type Err = String;

    fn from_str(name: &str) -> Result<FaultKind, String> {
        let kind = FaultKind::ALL.into_iter().find(|kind| kind.name() == name);
        kind.ok_or_else(|| {
            let names: Vec<_> = FaultKind::ALL.iter().map(|kind| kind.name()).collect();
            format!("{name:?} is no kind of fault: give some of {}", names.join(","))
        })
    }
}

/// Sets a strength to nothing, or to its default where it is nothing.
fn turn<T: Default + PartialEq>(strength: &mut T, on: bool, default: T) {
    if !on {
        *strength = T::default();
    } else if *strength == T::default() {
        *strength = default;
    }
}

impl SimConfig {
    /// The kinds of faults that it has.
    pub fn fault_kinds(&self) -> Vec<FaultKind> {
        let (world, faults) = (&self.world, &self.world.faults);
        let dies = world.crash_every > 0;
        let has = |kind: &FaultKind| match kind {
            FaultKind::Loss => world.loss > 0.0,
            FaultKind::Duplicate => world.duplicate > 0.0,
            FaultKind::Reorder => world.reorder > 0.0,
            FaultKind::Kill => dies,
            FaultKind::Power => dies && world.power_loss,
            FaultKind::Tear => dies && faults.torn_percent > 0,
            FaultKind::Flip => dies && world.power_loss && faults.flipped_percent > 0,
            FaultKind::Partition => faults.partition_every > 0,
            FaultKind::Slow => faults.slow_every > 0,
            FaultKind::Jump => world.clock_skew_us > 0 || faults.jump_every > 0,
            FaultKind::Clock => faults.wrong_clock_every > 0,
            FaultKind::Full => faults.full_every > 0,
            FaultKind::Death => self.mortals > 0,
            FaultKind::Switch => world.switch_fails_every_us > 0,
            FaultKind::Forge => faults.forged_percent > 0,
        };
        FaultKind::ALL.into_iter().filter(has).collect()
    }

    /// The same with exactly these kinds of faults, and those that they need: as strong as they are here, or of a usual
    /// strength where they are not.
    pub fn with_faults(mut self, kinds: &[FaultKind]) -> SimConfig {
        let on = |kind: FaultKind| kinds.contains(&kind);
        let dies = on(FaultKind::Kill) || kinds.iter().any(|kind| kind.needs_deaths());
        let world = &mut self.world;
        let faults = &mut world.faults;
        turn(&mut world.loss, on(FaultKind::Loss), 0.05);
        turn(&mut world.duplicate, on(FaultKind::Duplicate), 0.05);
        turn(&mut world.reorder, on(FaultKind::Reorder), 0.1);
        turn(&mut world.crash_every, dies, 2_000);
        turn(&mut world.power_loss, on(FaultKind::Power) || on(FaultKind::Flip), true);
        turn(&mut faults.torn_percent, on(FaultKind::Tear), 50);
        turn(&mut faults.flipped_percent, on(FaultKind::Flip), 50);
        turn(&mut faults.partition_every, on(FaultKind::Partition), 1_500);
        turn(&mut faults.slow_every, on(FaultKind::Slow), 1_500);
        turn(&mut faults.jump_every, on(FaultKind::Jump), 800);
        if !on(FaultKind::Jump) {
            world.clock_skew_us = 0;
        }
        turn(&mut faults.wrong_clock_every, on(FaultKind::Clock), 3_000);
        turn(&mut faults.full_every, on(FaultKind::Full), 1_500);
        turn(&mut world.switch_fails_every_us, on(FaultKind::Switch), 300_000);
        turn(&mut faults.forged_percent, on(FaultKind::Forge), 20);
        turn(&mut self.mortals, on(FaultKind::Death), 3);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_kinds() {
        for kind in FaultKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!("fire".parse::<FaultKind>().unwrap_err().contains("give some of loss,"));
    }

    #[test]
    fn a_configuration_has_the_faults_that_it_was_given() {
        let config = SimConfig::default();
        assert_eq!(config.fault_kinds(), []);
        for kind in FaultKind::ALL {
            let kinds = config.clone().with_faults(&[kind]).fault_kinds();
            let needs: &[FaultKind] = match kind {
                FaultKind::Power | FaultKind::Tear => &[FaultKind::Kill],
                FaultKind::Flip => &[FaultKind::Kill, FaultKind::Power],
                _ => &[],
            };
            assert_eq!(
                kinds,
                FaultKind::ALL.into_iter().filter(|k| *k == kind || needs.contains(k)).collect::<Vec<_>>()
            );
        }
        let all = config.with_faults(&FaultKind::ALL);
        assert_eq!(all.fault_kinds(), FaultKind::ALL);
        assert_eq!(all.clone().with_faults(&all.fault_kinds()), all);
        assert_eq!(all.with_faults(&[]), SimConfig::default());
    }
}
