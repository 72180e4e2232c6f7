//! The tests of reachability bits bite: without the rules that the bits need, they fail.

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../index/tests/common/history.rs"]
mod history;
#[path = "../../index/tests/common/naive.rs"]
mod naive;
#[path = "common/way.rs"]
mod way;

use onpath_index::{Access, Secret};
use onpath_mart::Mart;
use onpath_mart::planted::{Planted, plant};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use way::{Caller, callers, directories, violation};

/// The example of *SPMeta §IV-B*: others may, the group may not, and a member comes who does not own the directory.
#[test]
fn without_the_descending_pattern_the_theorem_is_broken() {
    let way = [Access { mode: 0o701, uid: 0, gid: 2, acl: false }];
    let target = Access { mode: 0o755, uid: 0, gid: 1, acl: false };
    let member = [Caller { uid: 1, groups: vec![2] }];
    assert_eq!(violation(&way, &target, &member), None);
    plant(Some(Planted::NoDescent));
    let found = violation(&way, &target, &member).is_some();
    let all = directories().iter().any(|step| violation(&[*step], &target, &callers()).is_some());
    plant(None);
    assert!(found && all);
}

/// Whether histories notice it: the same ones each time, as a bug that is rare would be missed by some.
fn fails(bug: Planted) -> bool {
    let config = Config { cases: 3_000, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let seed = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let result = TestRunner::new_with_rng(config, seed).run(&history::histories(120), |steps| {
        plant(Some(bug));
        let done = std::panic::catch_unwind(|| history::run(Mart::new(Secret::new([9; 16]), 1 << 26), &steps));
        plant(None);
        done.map_err(|_| TestCaseError::fail("they differ"))
    });
    result.is_err()
}

#[test]
fn histories_notice_bits_of_ways_that_do_not_descend() {
    assert!(fails(Planted::NoDescent));
}

#[test]
fn histories_notice_bits_that_outlive_a_change() {
    assert!(fails(Planted::StaysValid));
}
