//! The index and a naive tree say the same after any history.

#[path = "common/history.rs"]
mod history;
#[path = "common/naive.rs"]
mod naive;

use onpath_index::{Heap, Hi, Secret};
use proptest::prelude::*;

fn index() -> Hi<Heap> {
    Hi::new(Secret::new([9; 16]), Heap, 1 << 26)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn after_any_history_it_says_what_a_naive_tree_says(steps in history::histories(120)) {
        history::run(index(), &steps);
    }
}

#[test]
fn what_cannot_be_held_is_refused() {
    history::refuses(index());
}
