//! Merge parts that sessions show (V-1).

use crate::world::{Sent, World, data};
use onpath_wire::Wire;
use onpath_wire::codec::Blob;
use onpath_wire::data::{Answered, DataReply, DataRequest, Merge, MergePart, Pending};
use onpath_wire::ids::{
    DataId, InodeId, RecordSeq, RequestSeq, SessionId, SessionNumber, ShardId, Stamp, Term, TrackingEpoch,
};
use onpath_wire::innet::{InNet, VisibilityOp};
use onpath_wire::map::ClusterMap;
use onpath_wire::secrets::Secrets;
use onpath_wire::ticket::{Ticket, right};
use onpath_wire::tracking::{Form, Tracking};

/// Who is bound to a user could make a part up: a data node does not even ask the home about it.
#[test]
fn a_part_of_a_bound_session_is_not_believed() {
    let file = data(3, 1);
    let part = Some(MergePart { term: Term(9), number: 1 << 40, ..MergePart::default() });
    let write = DataRequest::Write { data: file, cut: 0, offset: 0, kill_suidgid: true, append: false, part };
    let number = SessionNumber::of(SessionId(1), RequestSeq(1));
    let ticket = Ticket::new(&Secrets::of_seed(1).inner.tickets(), number, (file, 0), right::WRITE, 1);
    let shown = DataRequest::Shown { ticket, source: None, request: Blob(write.to_bytes()) };
    for (request, believed) in [(shown, false), (write, true)] {
        let mut world = World::default();
        world.request(&request, b"hello");
        let asked = world.heard.iter().any(|merge| matches!(merge, Merge::PartAsk));
        let told = world.heard.iter().any(|merge| matches!(merge, Merge::Written { .. }));
        assert_eq!((asked, told), (believed, true), "{request:?}: {:?}", world.heard);
    }
}

/// A write of some file by which the node asks the file's home which part that gave last; the file is gone then.
fn asks(world: &mut World, home: ShardId) {
    let map = ClusterMap::even(2, Secrets::of_seed(1).placement);
    let is_of_home = |file: &DataId| map.home(file.inode) == home;
    let file = (10_000..).map(|number| data(number, 1)).find(is_of_home).expect("half of them are");
    write(world, file, 0, 1);
    world.drop_data(file);
    world.heard.clear();
}

/// Files of shard 0, which has given the parts of all of them, and of which the node has answered two writes each.
fn lent(world: &mut World, count: usize) -> Vec<DataId> {
    let map = ClusterMap::even(2, Secrets::of_seed(1).placement);
    let of_home = |file: &DataId| map.home(file.inode) == ShardId(0);
    let files: Vec<DataId> = (1..).map(|number| data(number, 1)).filter(of_home).take(count).collect();
    let part = |number| MergePart { term: Term(9), number, ..MergePart::default() };
    asks(world, ShardId(0));
    for (number, &data) in (1..).zip(&files) {
        for offset in [0, 5_000] {
            let part = Some(part(number));
            let write = DataRequest::Write { data, cut: 0, offset, kill_suidgid: false, append: false, part };
            let seq = world.request(&write, b"hello");
            assert_eq!(world.reply(seq).expect("an answer").reply, DataReply::Written { record: RecordSeq(0) });
        }
    }
    assert!(world.heard.is_empty(), "{:?}", world.heard);
    files
}

/// V-12: what is told together, of how many files each time.
#[test]
fn a_home_is_told_of_many_files_at_once() {
    let mut world = World::default();
    let mut files = lent(&mut world, 600);
    files.sort_unstable();
    world.pass(20_000);
    let told: Vec<Answered> = world.heard.iter().flat_map(|merge| answered(merge).to_vec()).collect();
    assert_eq!(world.heard.iter().map(|merge| answered(merge).len()).collect::<Vec<_>>(), [512, 88]);
    assert_eq!(
        told.iter().map(|of| (of.data, of.end)).collect::<Vec<_>>(),
        files.iter().map(|file| (*file, 5_005)).collect::<Vec<_>>()
    );
    world.heard.clear();
    world.pass(3_000_000);
    let returned = |merge: &Merge| if let Merge::Returned { parts } = merge { parts.len() } else { 0 };
    let returned: Vec<usize> = world.heard.iter().map(returned).filter(|parts| *parts > 0).collect();
    assert_eq!(returned, [512, 88]);
}

/// A file of which more cuts are to be learned than a message has room for: none is lost, and the message is one that a home takes.
#[test]
fn a_file_that_was_cut_often_is_told_in_parts() {
    let mut world = World::default();
    let file = lent(&mut world, 1)[0];
    for cut in 1..=600 {
        world.trim(file, cut, 0);
        let part = Some(MergePart { term: Term(9), number: 1 + u64::from(cut), ..MergePart::default() });
        let write = DataRequest::Write { data: file, cut, offset: 0, kill_suidgid: false, append: false, part };
        let seq = world.request(&write, b"hello");
        assert!(matches!(world.reply(seq).expect("an answer").reply, DataReply::Written { .. }), "cut {cut}");
    }
    world.heard.clear();
    world.pass(20_000);
    assert!(world.heard.iter().all(|merge| merge.clone().check().is_ok()));
    let cuts: Vec<u32> = world.heard.iter().flat_map(answered).map(|of| of.cut).collect();
    assert_eq!(cuts, (0..=600).collect::<Vec<_>>());
}

/// Of several files of which one is void each is told alone, so that the node knows which.
#[test]
fn the_one_that_is_void_is_found() {
    let mut world = World::default();
    let files = lent(&mut world, 3);
    world.forgotten.push(files[1]);
    world.pass(20_000);
    assert_eq!(world.heard.iter().map(|merge| answered(merge).len()).collect::<Vec<_>>(), [3, 1, 1, 1]);
    let there: Vec<DataId> =
        world.node.files().into_iter().filter(|file| file.blocks > 0).map(|file| file.data).collect();
    assert_eq!(there.len(), 2, "{there:?}");
    assert!(!there.contains(&files[1]));
}

fn answered(merge: &Merge) -> &[Answered] {
    match merge {
        Merge::Answered { all } => all,
        other => panic!("{other:?}"),
    }
}

fn table(epoch: u16) -> Tracking {
    Tracking { epoch: TrackingEpoch(epoch), form: Form::Network, files: true, ..Tracking::default() }
}

/// What an answer leaves in the table of the switch.
fn installed(sent: &Sent) -> (u16, u32, Pending) {
    match sent.innet {
        Some(InNet::Visibility(install)) => {
            assert_eq!(install.op(), Some(VisibilityOp::Install));
            (
                install.epoch,
                install.ts,
                Pending::of(&install.metadata, &Secrets::of_seed(1).inner.tickets()).expect("what is pending"),
            )
        }
        other => panic!("{other:?}"),
    }
}

fn write(world: &mut World, data: DataId, offset: u64, number: u64) -> Option<Sent> {
    let part = Some(MergePart { term: Term(9), number, ..MergePart::default() });
    let write = DataRequest::Write { data, cut: 0, offset, kill_suidgid: false, append: false, part };
    let seq = world.request(&write, b"hello");
    world.reply(seq)
}

/// V-8: an answer leaves in its entry all that the home has yet to learn, whichever write it answers.
#[test]
fn an_answer_shows_all_that_is_to_be_learned() {
    let mut world = World::default();
    asks(&mut world, ClusterMap::even(2, Secrets::of_seed(1).placement).home(data(1, 1).inode));
    assert_eq!(world.track(table(3)), Some(DataReply::Tracked));
    world.hold_home = true;
    let first = installed(&write(&mut world, data(1, 1), 0, 1).expect("answered"));
    let second = installed(&write(&mut world, data(1, 1), 100, 1).expect("answered"));
    assert_eq!((first.0, first.2.writes.end, second.2.writes.end), (3, 5, 105));
    assert!(second.1 > first.1 && second.2.writes.last > first.2.writes.last);
    // A repeated one is answered again, and leaves the same there.
    let (seq, part) = (second.2.request, Some(MergePart { term: Term(9), number: 1, ..MergePart::default() }));
    let again = DataRequest::Write { data: data(1, 1), cut: 0, offset: 100, kill_suidgid: false, append: false, part };
    world.request_as(1, seq, seq, &again, b"hello");
    let repeated = installed(&world.reply(seq).expect("answered again"));
    assert_eq!((repeated.2.request, repeated.2.writes), (seq, second.2.writes));
    // When the home has learned all, nothing need be shown.
    world.pass(20_000);
    world.answer_merges();
    world.request_as(1, seq, seq, &again, b"hello");
    assert_eq!(world.reply(seq).expect("answered").innet, None);
}

/// V-8: what is pending of one file is not overwritten by another file of the same entry.
#[test]
fn an_entry_shows_one_file_until_that_is_learned() {
    let mut world = World::default();
    let map = ClusterMap::even(2, Secrets::of_seed(1).placement);
    let first = data(1, 1);
    let is_same = |file: &DataId| map.entry(file.inode).index() == map.entry(first.inode).index();
    let other = (2..).map(|number| data(number, 1)).find(is_same).expect("one of 65,536");
    asks(&mut world, map.home(first.inode));
    world.track(table(3));
    world.hold_home = true;
    installed(&write(&mut world, first, 0, 1).expect("answered"));
    assert!(write(&mut world, other, 0, 2).is_none(), "the home answers");
    assert!(matches!(world.heard.last(), Some(Merge::Written { .. })), "{:?}", world.heard);
    world.pass(20_000);
    world.answer_merges();
    installed(&write(&mut world, other, 0, 2).expect("answered"));
}

/// V-11: the node says that it has heard of an epoch when homes have learned what was answered before; another process of it is told so.
#[test]
fn an_epoch_begins_when_what_was_answered_before_is_learned() {
    let mut world = World::default();
    lent(&mut world, 1);
    world.hold_home = true;
    assert_eq!(world.track(table(4)), None);
    world.pass(20_000);
    world.answer_merges();
    assert_eq!(world.track(table(4)), Some(DataReply::Tracked));
    let other = world.call(&DataRequest::Track { tracking: table(5), term: Term(77) });
    assert_eq!(other.reply, DataReply::NewTerm { term: Term(1) });
    assert_eq!(world.track(table(3)), Some(DataReply::Tracked), "an old one changes nothing");
    assert_eq!(installed(&write(&mut world, data(3, 1), 0, 9).expect("answered")).0, 4);
}

/// V-2: a home that shows many files is told of all in one answer, as far as there is room, and the node keeps their parts.
#[test]
fn many_files_are_collected_at_once() {
    let mut world = World::default();
    let mut files = lent(&mut world, 200);
    files.sort_unstable();
    let inodes: Vec<_> = files.iter().map(|file| file.inode).collect();
    let told = |world: &mut World| match world.call(&DataRequest::CollectMany { inodes: inodes.clone() }).reply {
        DataReply::HandedOver { all, more } => {
            (all.iter().map(|of| (of.data, of.cut, of.end)).collect::<Vec<_>>(), more)
        }
        other => panic!("answered {other:?}"),
    };
    assert_eq!(told(&mut world), (files.iter().map(|file| (*file, 0, 5_005)).collect(), None));
    // Of three cuts each: 170 files are told of whole.
    for (number, &data) in (1..).zip(&files) {
        for cut in 1..3 {
            world.trim(data, cut, 5_005);
            let part =
                Some(MergePart { term: Term(9), number: 1_000 * u64::from(cut) + number, ..MergePart::default() });
            let write = DataRequest::Write { data, cut, offset: 0, kill_suidgid: false, append: false, part };
            let seq = world.request(&write, b"hello");
            assert_eq!(world.reply(seq).expect("an answer").reply, DataReply::Written { record: RecordSeq(0) });
        }
    }
    let (all, more) = told(&mut world);
    assert_eq!((all.len(), more), (510, Some(inodes[170])));
    assert!(write(&mut world, files[0], 2, 3_000).is_some(), "the part is still there");
    // No home asks for so many, or in no order.
    let before = world.node.counters().rejected;
    for inodes in [inodes.iter().rev().copied().collect(), vec![inodes[0]; 2], (1..=257).map(InodeId).collect()] {
        assert!(world.ask(RequestSeq(1), &DataRequest::CollectMany { inodes }).is_none());
    }
    assert_eq!(world.node.counters().rejected, before + 3);
}

/// Schedule G2: while a home is asked which part it gave last, it takes that back, or starts again and takes all back; its answer is older.
#[test]
fn what_is_heard_while_a_home_is_asked_counts() {
    let file = lent(&mut World::default(), 1)[0];
    let of = |term, number| MergePart { term: Term(term), number, ..MergePart::default() };
    let taken_back = DataRequest::HandOver { inode: file.inode, floor: of(9, 3) };
    let all = DataRequest::HandOverAll { floor: of(10, 0), from: file.inode };
    for (heard, last) in [(taken_back, 3), (all, 1 << 20)] {
        let mut world = World { hold_home: true, part: of(9, 2), ..World::default() };
        assert!(write(&mut world, file, 0, 3).is_none(), "the home is asked");
        world.call(&heard);
        assert!(write(&mut world, file, 0, 4).is_none(), "{heard:?} is no answer");
        world.answer_merges();
        assert!(write(&mut world, file, 0, last).is_none(), "{heard:?}");
        world.answer_merges();
        let newer = if last == 3 { of(9, 4) } else { of(10, 1) };
        let newer =
            DataRequest::Write { data: file, cut: 0, offset: 0, kill_suidgid: false, append: false, part: Some(newer) };
        let seq = world.request(&newer, b"hello");
        assert!(world.reply(seq).is_some(), "{heard:?}");
    }
}

/// Schedule G3: a part that came with a cut of which the node has yet to be told counts for no write of the former one.
#[test]
fn a_part_counts_from_its_cut_on() {
    let mut world = World::default();
    let file = lent(&mut world, 1)[0];
    world.call(&DataRequest::HandOver {
        inode: file.inode,
        floor: MergePart { term: Term(9), number: 1, ..MergePart::default() },
    });
    let part = |cut: u32| Some(MergePart { term: Term(9), number: 2 + u64::from(cut), ..MergePart::default() });
    let of_cut =
        |cut| DataRequest::Write { data: file, cut, offset: 0, kill_suidgid: false, append: false, part: part(cut) };
    let early = world.request(&of_cut(1), b"hello");
    assert!(world.reply(early).is_none(), "it waits for the trim");
    let old = DataRequest::Write { data: file, cut: 0, offset: 100, kill_suidgid: false, append: false, part: None };
    world.hold_home = true;
    let former = world.request(&old, b"hello");
    assert!(world.reply(former).is_none(), "the home answers, and refuses it");
    world.trim(file, 1, 0);
    assert!(world.reply(early).is_none(), "the home has yet to refuse it");
    world.answer_merges();
    assert!(world.reply(early).is_some());
}

/// V-7: a home whose time the node does not believe gives it parts in vain.
#[test]
fn a_part_of_a_time_that_is_not_believed_is_not_taken_up() {
    let mut world = World::default();
    let file = lent(&mut world, 1)[0];
    for (stamp, is_answered) in [(u64::MAX, false), (5_000, true)] {
        let part = Some(MergePart { term: Term(9), number: 3, stamp: Stamp(stamp), two_phase: false });
        let write = DataRequest::Write { data: file, cut: 0, offset: 0, kill_suidgid: false, append: false, part };
        let seq = world.request(&write, b"hello");
        assert_eq!(world.reply(seq).is_some(), is_answered);
    }
    assert!(world.last_stamp > Stamp(5_000));
}
