//! The two trees and a naive tree say the same after any history.

#[path = "../../index/tests/common/history.rs"]
mod history;
#[path = "../../index/tests/common/naive.rs"]
mod naive;

use onpath_index::Secret;
use onpath_mart::{Art, Mart};
use proptest::prelude::*;

fn mart() -> Mart {
    Mart::new(Secret::new([9; 16]), 1 << 26)
}

fn art() -> Art {
    Art::new(Secret::new([9; 16]), 1 << 26)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn after_any_history_mart_says_what_a_naive_tree_says(steps in history::histories(120)) {
        history::run(mart(), &steps);
    }

    #[test]
    fn after_any_history_art_says_what_a_naive_tree_says(steps in history::histories(120)) {
        history::run(art(), &steps);
    }
}

#[test]
fn what_cannot_be_held_is_refused() {
    history::refuses(mart());
    history::refuses(art());
}
