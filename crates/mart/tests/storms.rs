//! The two trees and a naive tree say the same after long histories of many directories, with memory for all and with little.

#[path = "../../index/tests/common/deep.rs"]
mod deep;
#[path = "../../index/tests/common/naive.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod naive;
#[path = "../../index/tests/common/storm.rs"]
mod storm;

use onpath_index::Secret;
use onpath_mart::{Art, Embeds, Flavor, Mart, Separate, Tree};
use storm::{Storm, run};

const STEPS: u64 = if cfg!(miri) { 2_000 } else { 120_000 };

fn storms<F: Flavor>() {
    for (limit, refused) in [(1 << 26, false), (1 << 20, true)] {
        let mut tree = Tree::<F>::new(Secret::new([8; 16]), limit);
        let seen = run(&mut tree, &Storm { ids: 20_000, steps: STEPS, seed: limit as u64 });
        assert!(cfg!(miri) || seen.displaced > 20 && seen.moved > 500 && (refused || seen.circles > 0), "{seen:?}");
        assert!(cfg!(miri) || (seen.refused > 100) == refused, "{seen:?}");
    }
}

#[test]
fn mart_says_what_a_naive_tree_says() {
    storms::<Embeds>();
}

#[test]
fn a_plain_tree_says_what_a_naive_tree_says() {
    storms::<Separate>();
}

#[test]
fn a_chain_is_as_deep_as_a_file_system_allows() {
    for parents_first in [true, false] {
        deep::chain(&mut Mart::new(Secret::new([1; 16]), 1 << 28), parents_first);
    }
    // Where parents come last the plain tree takes out all that is below, and puts it in again, each time.
    deep::chain(&mut Art::new(Secret::new([1; 16]), 1 << 28), true);
}
