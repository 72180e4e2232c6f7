//! Random work against plain byte vectors: reads agree, checks are clean, and every kind of restart brings back what it must.

use crate::world::{Blocks, CHUNK, World, data};
use onpath_wire::data::{Allocation, DataReply, DataRequest};
use onpath_wire::ids::DataId;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Two windows of a file, at its begin and around the end of its first chunk.
const WINDOW: u64 = 24_000;
const WINDOWS: [u64; 2] = [0, CHUNK - WINDOW / 2];
const FILES: u64 = 3;

#[derive(Clone, Debug)]
enum Step {
    Write {
        file: u64,
        window: usize,
        from: u64,
        len: u64,
        byte: u8,
    },
    Trim {
        file: u64,
        window: usize,
        at: u64,
    },
    Allocate {
        file: u64,
        window: usize,
        from: u64,
        len: u64,
        how: Allocation,
    },
    Copy {
        file: u64,
        window: usize,
        from: u64,
        len: u64,
        to: u64,
        at: u64,
    },
    /// A new generation; the old one is dropped at once or later.
    Renew {
        file: u64,
        drop_now: bool,
    },
    Remove {
        file: u64,
    },
    Check {
        file: u64,
    },
    Flush,
    Pass,
    /// A checkpoint, which is kept or lost.
    Checkpoint {
        kept: bool,
    },
    /// What the store has is forgotten, but for what was asked for since the last time.
    Forget,
    Kill,
    PowerLoss,
    /// A power loss after which the journal and single blocks may have come further than the last flush.
    Torn {
        records: u8,
        blocks: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let file = 1..=FILES;
    let window = 0..WINDOWS.len();
    let len = prop_oneof![1..200u64, Just(4096), 1..WINDOW];
    let from = prop_oneof![0..WINDOW, (0..WINDOW / 4096).prop_map(|n| n * 4096)];
    let how = prop_oneof![Just(Allocation::Reserve), Just(Allocation::Punch), Just(Allocation::Zero)];
    prop_oneof![
        6 => (file.clone(), window.clone(), from.clone(), len.clone(), how)
            .prop_map(|(file, window, from, len, how)| Step::Allocate { file, window, from, len, how }),
        3 => (file.clone(), window.clone(), from.clone(), len.clone(), file.clone(), from.clone())
            .prop_map(|(file, window, from, len, to, at)| Step::Copy { file, window, from, len, to, at }),
        12 => (file.clone(), window.clone(), from, len, 1..=255u8)
            .prop_map(|(file, window, from, len, byte)| Step::Write { file, window, from, len, byte }),
        3 => (file.clone(), window, 1..WINDOW).prop_map(|(file, window, at)| Step::Trim { file, window, at }),
        1 => (file.clone(), any::<bool>()).prop_map(|(file, drop_now)| Step::Renew { file, drop_now }),
        1 => file.clone().prop_map(|file| Step::Remove { file }),
        4 => file.prop_map(|file| Step::Check { file }),
        3 => Just(Step::Flush),
        2 => Just(Step::Pass),
        4 => prop::bool::weighted(0.75).prop_map(|kept| Step::Checkpoint { kept }),
        6 => Just(Step::Forget),
        1 => Just(Step::Kill),
        1 => Just(Step::PowerLoss),
        1 => (any::<u8>(), any::<u64>()).prop_map(|(records, blocks)| Step::Torn { records, blocks }),
    ]
}

#[derive(Clone, Debug)]
struct Model {
    data: DataId,
    cut: u32,
    windows: [Vec<u8>; 2],
}

type Models = BTreeMap<u64, Model>;

fn fresh(data: DataId) -> Model {
    Model { data, cut: 0, windows: [vec![0; WINDOW as usize], vec![0; WINDOW as usize]] }
}

struct Run {
    world: World,
    models: Models,
    inodes: u64,
    /// What the files were when the journal had so many records, since the last restart.
    history: BTreeMap<usize, Models>,
}

impl Run {
    fn new() -> Run {
        let models: Models = (1..=FILES).map(|n| (n, fresh(data(n, 1)))).collect();
        let history = BTreeMap::from([(0, models.clone())]);
        Run { world: World::default(), models, inodes: FILES, history }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Write { file, window, from, len, byte } => {
                let len = len.min(WINDOW - from);
                let model = self.models.get_mut(&file).unwrap();
                let bytes: Vec<u8> = (0..len).map(|i| byte.wrapping_add((i / 100) as u8)).collect();
                model.windows[window][from as usize..(from + len) as usize].copy_from_slice(&bytes);
                let seq = self.world.write(model.data, model.cut, WINDOWS[window] + from, &bytes);
                assert!(self.world.reply(seq).is_none());
            }
            Step::Trim { file, window, at } => {
                let model = self.models.get_mut(&file).unwrap();
                model.cut += 1;
                let size = WINDOWS[window] + at;
                for (start, bytes) in WINDOWS.iter().zip(&mut model.windows) {
                    let keep = size.saturating_sub(*start).min(WINDOW) as usize;
                    bytes[keep..].fill(0);
                }
                let reply = self.world.trim(model.data, model.cut, size);
                assert!(matches!(reply, DataReply::Trimmed { .. }));
            }
            Step::Allocate { .. } | Step::Copy { .. } => self.range(step),
            Step::Renew { file, drop_now } => {
                let old = self.models[&file].data;
                let mut new = old;
                new.generation.0 += 1;
                self.models.insert(file, fresh(new));
                if drop_now {
                    self.world.drop_data(old);
                }
            }
            Step::Remove { file } => {
                self.inodes += 1;
                self.world.drop_data(self.models[&file].data);
                self.models.insert(file, fresh(data(self.inodes, 1)));
            }
            Step::Check { file } => self.check(file, &[self.models[&file].clone()]),
            Step::Flush => self.world.flush(),
            Step::Pass => self.world.pass(2_500_000),
            Step::Checkpoint { kept } => self.world.checkpoint(kept),
            Step::Forget => self.world.forget(),
            Step::Kill => {
                let before = self.world.images();
                assert_eq!(self.world.kill().restored_blocks, 0);
                let after = self.world.images();
                assert!(before.iter().zip(&after).all(|(a, b)| a.rest == b.rest));
                self.restarted();
            }
            Step::PowerLoss => {
                let durable = self.world.durable;
                self.world.power_loss();
                self.back_to(durable);
            }
            Step::Torn { records, blocks } => self.torn(records, blocks),
        }
        self.history.insert(self.world.journal.len(), self.models.clone());
    }

    fn range(&mut self, step: &Step) {
        match *step {
            Step::Allocate { file, window, from, len, how } => {
                let len = len.min(WINDOW - from);
                let model = self.models.get_mut(&file).unwrap();
                if how != Allocation::Reserve {
                    model.windows[window][from as usize..(from + len) as usize].fill(0);
                }
                let before = blocks_of(&self.world, model.data);
                let seq = self.world.allocate(model.data, model.cut, WINDOWS[window] + from, len, how);
                assert!(self.world.reply(seq).is_none());
                let now = blocks_of(&self.world, model.data);
                assert!(if how == Allocation::Punch { now <= before } else { now >= before });
                self.seek(self.models[&file].clone());
            }
            Step::Copy { file, window, from, len, to, at } => {
                let len = len.min(WINDOW - from).min(WINDOW - at);
                let source = self.models[&file].clone();
                let bytes = &source.windows[window][from as usize..(from + len) as usize];
                let model = self.models.get_mut(&to).unwrap();
                model.windows[window][at as usize..(at + len) as usize].copy_from_slice(bytes);
                let body = DataRequest::Copy {
                    data: model.data,
                    cut: model.cut,
                    offset: WINDOWS[window] + at,
                    from: source.data,
                    from_cut: source.cut,
                    from_offset: WINDOWS[window] + from,
                    bytes: len as u32,
                    kill_suidgid: false,
                };
                let seq = self.world.request(&body, &[]);
                assert!(self.world.reply(seq).is_none());
            }
            _ => unreachable!("about a range"),
        }
    }

    /// From every block of the windows on, data and holes begin where the bytes say: what is not zero is no hole.
    fn seek(&mut self, model: Model) {
        for (window, start) in WINDOWS.into_iter().enumerate() {
            for from in (0..WINDOW as usize).step_by(4096) {
                let offset = start + from as u64;
                let data = self.world.seek(model.data, model.cut, offset, false).unwrap_or(u64::MAX);
                let hole = self.world.seek(model.data, model.cut, offset, true).unwrap_or(u64::MAX);
                let bytes = &model.windows[window];
                let next = bytes[from..].iter().position(|byte| *byte != 0).map(|at| offset + at as u64);
                assert!(data >= offset && hole >= offset && (data == offset) != (hole == offset));
                assert!(next.is_none_or(|next| data <= next), "{next:?} lies in a hole up to {data}");
            }
        }
    }

    /// Some records after the last flush survive, and some blocks.
    fn torn(&mut self, records: u8, which: u64) {
        let w = &mut self.world;
        let (durable, all) = (w.durable, w.journal.len());
        let kept = durable + usize::from(records) % (all - durable + 1);
        let mut blocks: Blocks = w.disk.durable.clone();
        for (i, (place, block)) in w.disk.now.iter().enumerate() {
            if which >> (i % 64) & 1 == 1 {
                blocks.insert(*place, block.clone());
            }
        }
        // A punch may have happened too, of blocks that no durable record uses.
        w.restart(blocks, kept, durable);
        let versions: Vec<Models> = self.history.range(..=kept).map(|(_, models)| models.clone()).collect();
        self.back_to(kept);
        for file in 1..=FILES {
            let now = self.models[&file].clone();
            let same = |models: &Models| Some(models[&file].clone()).filter(|model| model.data == now.data);
            let versions: Vec<Model> = versions.iter().filter_map(same).collect();
            self.check(file, &versions);
        }
        self.adopt();
    }

    fn back_to(&mut self, records: usize) {
        let (_, models) = self.history.range(..=records).next_back().unwrap();
        self.models = models.clone();
        self.restarted();
    }

    fn restarted(&mut self) {
        self.history.clear();
        assert!(self.world.faults().is_empty(), "{:?}", self.world.faults());
    }

    /// Every block of the file is as in one of these versions of it.
    fn check(&mut self, file: u64, versions: &[Model]) {
        let model = self.models[&file].clone();
        for (window, start) in WINDOWS.into_iter().enumerate() {
            let read = self.world.read(model.data, model.cut, start, WINDOW as u32).unwrap();
            for from in (0..WINDOW as usize).step_by(4096) {
                let (from, to) = block_at(start, from);
                let same = |version: &Model| {
                    // What was trimmed since that version is gone from it too.
                    version.windows[window][from..to] == read[from..to]
                        || read[from..to].iter().zip(&version.windows[window][from..to]).all(|(r, v)| r == v || *r == 0)
                            && versions.len() > 1
                };
                assert!(versions.iter().any(same), "file {file}, window {window}, bytes {from}..{to}");
            }
        }
    }

    /// What was found after a torn restart is what counts from now on.
    fn adopt(&mut self) {
        for model in self.models.values_mut() {
            for (window, start) in WINDOWS.into_iter().enumerate() {
                model.windows[window] = self.world.read(model.data, model.cut, start, WINDOW as u32).unwrap();
            }
        }
    }
}

fn blocks_of(world: &World, data: DataId) -> u64 {
    world.node.files().iter().filter(|file| file.data == data).map(|file| file.blocks).sum()
}

/// The part of the window that lies in the block of its byte `from`.
fn block_at(start: u64, from: usize) -> (usize, usize) {
    let first = (start + from as u64) / 4096 * 4096;
    ((first.saturating_sub(start)) as usize, ((first + 4096).saturating_sub(start)).min(WINDOW) as usize)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_node_is_a_set_of_byte_vectors(steps in prop::collection::vec(step(), 1..80)) {
        let mut run = Run::new();
        for step in &steps {
            run.step(step);
        }
        for file in 1..=FILES {
            run.check(file, &[run.models[&file].clone()]);
        }
        prop_assert!(run.world.faults().is_empty());
        run.world.flush();
        run.world.pass(10_000_000);
        let blocks: u64 = run.world.node.files().iter().map(|file| file.blocks).sum();
        let taken = run.world.disk.now.len() as u64;
        // A block of zeros that a power loss took is as good as before.
        let exact = !steps.iter().any(|step| matches!(step, Step::Torn { .. }));
        prop_assert!(taken == blocks || taken < blocks && !exact, "{} blocks are taken for {}", taken, blocks);
    }
}
