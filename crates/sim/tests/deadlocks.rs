//! Users who lock each other out in circles (protocol.md, "Deadlocks of record locks").

use onpath_sim::audit;
use onpath_sim::users::{Entangled, User};
use onpath_sim::world::{World, WorldConfig};

/// Answers after which a user has seen enough.
const ANSWERS: u32 = 1_500;

/// The user's locks in a world until so many calls are answered, then peace; the deadlocks that were told.
fn deadlocks(config: WorldConfig) -> u64 {
    let mut world = World::new(config);
    let mut user = Entangled::begin(&mut world, 7, 3);
    for answer in 0.. {
        while world.step(world.now_ns() + 1_000_000).is_some() {}
        while let Some(finished) = world.finished() {
            user.answered(&mut world, finished);
        }
        assert!(world.checker.violations.is_empty(), "{:?}", world.checker.violations);
        if user.answers() >= ANSWERS {
            break;
        }
        assert!(answer < 1_000_000, "locks are given no more after {} answers", user.answers());
    }
    let deadlocks = user.deadlocks();
    audit::settle(&mut world, &mut [Box::new(user) as Box<dyn User>]);
    assert!(world.checker.violations.is_empty(), "{:?}", world.checker.violations);
    deadlocks
}

#[test]
fn circles_over_files_of_several_shards_end() {
    for (shards, seed) in [(1, 1), (2, 2), (4, 3)] {
        let told = deadlocks(WorldConfig { seed, shards, processes: shards, ..WorldConfig::default() });
        assert!(told > 20, "{told} with {shards} shards");
    }
}

#[test]
fn circles_end_where_messages_are_lost_and_shards_restart() {
    let config = WorldConfig {
        seed: 4,
        shards: 3,
        processes: 3,
        loss: 0.05,
        duplicate: 0.05,
        reorder: 0.1,
        ..WorldConfig::default()
    };
    let told = deadlocks(WorldConfig { crash_every: 4_000, ..config });
    assert!(told > 5, "{told}");
}
