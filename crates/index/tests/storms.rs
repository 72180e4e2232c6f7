//! The index and a naive tree say the same after long histories of many directories, with memory for all and with little; and of deep chains.

#[path = "common/deep.rs"]
mod deep;
#[path = "common/naive.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod naive;
#[path = "common/storm.rs"]
mod storm;

use onpath_index::{Heap, Hi, Index, PAGE_BYTES, Secret};
use storm::{Storm, run};

const STEPS: u64 = if cfg!(miri) { 2_000 } else { 120_000 };

#[test]
fn with_memory_for_all_an_index_says_what_a_naive_tree_says() {
    for seed in 1..=3 {
        let mut index = Hi::new(Secret::new([seed as u8; 16]), Heap, 1 << 26);
        let seen = run(&mut index, &Storm { ids: 20_000, steps: STEPS, seed });
        assert!(cfg!(miri) || seen.most > 10_000 && seen.displaced > 50 && seen.moved > 1_000, "{seen:?}");
        assert!(cfg!(miri) || seen.refused == 0 && seen.circles > 0, "{seen:?}");
    }
}

#[test]
fn with_little_memory_it_does_so_too() {
    for seed in 1..=3 {
        let limit = 64 * PAGE_BYTES;
        let mut index = Hi::new(Secret::new([seed as u8; 16]), Heap, limit);
        let seen = run(&mut index, &Storm { ids: 20_000, steps: STEPS, seed });
        assert!(cfg!(miri) || seen.most > 1_000 && seen.refused > 1_000 && seen.circles > 0, "{seen:?}");
        // Lists and directories of segments are beside the pages.
        assert!(index.memory().touched <= limit + (1 << 20), "{:?}", index.memory());
    }
}

#[test]
fn a_chain_is_as_deep_as_a_file_system_allows() {
    for parents_first in [true, false] {
        deep::chain(&mut Hi::new(Secret::new([1; 16]), Heap, 1 << 26), parents_first);
    }
}
