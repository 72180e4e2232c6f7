//! Appends among other writes, by sessions whose messages are held back.

use onpath_session::fs::{FsOp, FsReply, Handle, OpenMode};
use onpath_sim::model::Caller;
use onpath_sim::scenario::Scenario;
use onpath_wire::data::DataRequest;
use onpath_wire::ids::InodeId;
use onpath_wire::name::Name;
use onpath_wire::reply::Reply;

const OPEN: OpenMode = OpenMode { append: true, ..OpenMode::READ_WRITE };

/// Virtual time for what need not wait, ns.
const SHORT_NS: u64 = 2_000_000;

/// The answer to one call, if it comes soon.
fn answer(sc: &mut Scenario, session: usize, op: FsOp) -> Option<FsReply> {
    let unique = sc.world.system_call(session, 0, op);
    finish(sc, unique)
}

fn finish(sc: &mut Scenario, unique: u64) -> Option<FsReply> {
    let until_ns = sc.world.now_ns() + SHORT_NS;
    while sc.world.now_ns() < until_ns {
        sc.world.step(until_ns);
        if let Some(finished) = sc.world.finished() {
            assert_eq!(finished.unique, unique);
            return Some(finished.result.expect("a success"));
        }
    }
    None
}

fn write(handle: Handle, offset: u64, data: Vec<u8>, append: bool) -> FsOp {
    FsOp::Write { handle, offset, data: data.into(), append, kill_suidgid: false, page: false }
}

/// A file that two new sessions have open, and their handles.
fn opened(sc: &mut Scenario) -> [(usize, Handle); 2] {
    let sessions = [(); 2].map(|()| sc.world.add_session(&[Caller::default()]));
    let name = Name::new(b"session-appends").expect("a short name");
    let create = FsOp::Create { parent: InodeId::ROOT, name, mode: 0o644, umask: 0, open: OPEN };
    let Some(FsReply::Created { attr, opened, .. }) = answer(sc, sessions[0], create) else { panic!("not created") };
    let open = FsOp::Open { id: attr.id, mode: OPEN };
    let Some(FsReply::Opened(other)) = answer(sc, sessions[1], open) else { panic!("not opened") };
    [(sessions[0], opened.handle), (sessions[1], other.handle)]
}

/// The answer to a call, however long that takes.
fn wait(sc: &mut Scenario, unique: u64) -> FsReply {
    (0..10_000).find_map(|_| finish(sc, unique)).expect("an answer within a while")
}

/// All bytes of a file, as the lengths and marks of the runs in it.
fn runs(sc: &mut Scenario, session: usize, handle: Handle) -> Vec<(usize, u8)> {
    let unique = sc.world.system_call(session, 0, FsOp::Read { handle, offset: 0, bytes: 1 << 20, page: false });
    let FsReply::Data(parts) = wait(sc, unique) else { panic!("not read") };
    parts.concat().chunk_by(|a, b| a == b).map(|run| (run.len(), run[0])).collect()
}

#[test]
fn under_interval_a_power_loss_leaves_the_first_appends_whole_and_of_the_others_nothing() {
    let mut taken_back = 0;
    for seed in 1..=60 {
        let mut sc = Scenario::of_one_process(seed);
        let [(a, to_a), (b, to_b)] = opened(&mut sc);
        let length = |mark: u8| 1_000 + usize::from(mark) * 1_700;
        let appended = |handle, mark| write(handle, 0, vec![mark; length(mark)], true);
        for mark in 1..=3 {
            assert!(answer(&mut sc, a, appended(to_a, mark)).is_some());
        }
        let synced = sc.world.system_call(a, 0, FsOp::Fsync { handle: to_a });
        wait(&mut sc, synced);
        for mark in 4..=8 {
            assert!(answer(&mut sc, a, appended(to_a, mark)).is_some());
        }
        // Its answer is lost with the power.
        let held = sc.hold(|m| matches!(m.reply(), Some(Reply::Written { .. })));
        assert!(answer(&mut sc, a, appended(to_a, 9)).is_none());
        let waits = sc.world.system_call(a, 0, FsOp::Read { handle: to_a, offset: 0, bytes: 1, page: false });
        wait(&mut sc, waits);
        sc.world.crash(0, true);
        sc.world.stop_holding(held);
        let last = sc.world.system_call(b, 0, appended(to_b, 10));
        let mut open = 2;
        for _ in 0..10_000 {
            sc.go_on();
            open -= std::iter::from_fn(|| sc.world.finished()).inspect(|f| assert!(f.result.is_ok())).count();
            if open == 0 {
                break;
            }
        }
        assert_eq!(open, 0, "seed {seed}: {last}");
        let runs = runs(&mut sc, b, to_b);
        assert!(runs.iter().all(|&(len, mark)| mark > 0 && len == length(mark)), "seed {seed}: {runs:?}");
        let marks: Vec<u8> = runs.iter().map(|(_, mark)| *mark).collect();
        let kept = marks.iter().take_while(|mark| **mark < 9).count();
        assert!(kept >= 3 && marks[..kept].iter().zip(1..).all(|(mark, n)| *mark == n), "seed {seed}: {marks:?}");
        let mut rest = marks[kept..].to_vec();
        rest.sort_unstable();
        assert_eq!(rest, [9, 10], "seed {seed}: {marks:?}");
        taken_back += 8 - kept;
    }
    assert!(taken_back > 20, "{taken_back}");
}

/// Schedule G14: an append has reserved the end of a file at an odd place; its bytes are on their way. Another session writes there, and is answered.
/// The append lies behind that.
#[test]
fn an_append_meets_what_was_written_at_its_end() {
    for (behind, marks) in [(100, [(100, 1), (300, 2), (400, 3)]), (5_000, [(100, 1), (4_900, 0), (300, 2)])] {
        let mut sc = Scenario::new(2);
        let [(a, to_a), (b, to_b)] = opened(&mut sc);
        assert!(answer(&mut sc, a, write(to_a, 0, vec![1; 100], false)).is_some());
        let held = sc.hold(|m| matches!(m.data(), Some(DataRequest::Write { append: true, .. })));
        let appends = sc.world.system_call(a, 0, write(to_a, 0, vec![3; 400], true));
        sc.go_on_for(SHORT_NS);
        assert!(sc.world.held(held) > 0, "its bytes are on their way");
        assert!(matches!(answer(&mut sc, b, write(to_b, behind, vec![2; 300], false)), Some(FsReply::Written(300))));
        sc.let_go(held);
        assert!(matches!(wait(&mut sc, appends), FsReply::Written(400)));
        let runs = runs(&mut sc, b, to_b);
        assert_eq!(runs[..3], marks, "{runs:?}");
        assert_eq!(runs.last(), Some(&(400, 3)));
    }
}

/// Two appends, and a write behind the end that both meet. Nobody lies over anybody, and only one append at a time has the end.
#[test]
fn a_write_behind_the_end_does_not_end_the_reservation_of_an_append() {
    let mut sc = Scenario::new(2);
    let [(a, to_a), (b, to_b)] = opened(&mut sc);
    let held = sc.hold(|m| matches!(m.data(), Some(DataRequest::Write { offset: 0, .. })));
    let first = answer(&mut sc, a, write(to_a, 0, vec![1; 400], true));
    assert!(first.is_none() && sc.world.held(held) == 1, "its bytes are on their way");
    let behind = answer(&mut sc, a, write(to_a, 200, vec![2; 100], false));
    assert!(matches!(behind, Some(FsReply::Written(100))));
    assert!(answer(&mut sc, b, write(to_b, 0, vec![3; 100], true)).is_none(), "the end is still reserved");
    sc.let_go(held);
    let until_ns = sc.world.now_ns() + 1_000_000_000;
    while sc.world.now_ns() < until_ns {
        sc.world.step(until_ns);
        while sc.world.finished().is_some() {}
    }
    let mut runs = runs(&mut sc, b, to_b);
    assert_eq!(runs[..2], [(200, 0), (100, 2)], "{runs:?}");
    runs[2..].sort_unstable();
    assert_eq!(runs[2..], [(100, 3), (400, 1)], "both lie behind it");
}
