//! A process: roles that share a journal, an output gate and their fate.

use super::disk::Disk;
use super::files::Files;
use super::role::{Role, RoleConfig};
use onpath_data::{DiskOp, Ticket};
use onpath_kernel::Now;
use onpath_kernel::gate::OutputGate;
use onpath_meta::Shard;
use onpath_store::{Ahead, FORGET_PARTS};
use onpath_wire::disk::record::Counter;
use onpath_wire::ids::{Birth, Lsn, NodeId, RecordSeq, Term};
use onpath_wire::packet::Packet;
use std::collections::VecDeque;
use std::sync::Arc;

/// Records whose questions are answered ahead in a recovery: few, so that there are many windows.
const WINDOW: usize = 8;

/// A message between two roles.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) packet: Packet,
}

/// A role in its process.
pub(crate) struct Server {
    pub(crate) node: NodeId,
    pub(crate) role: Role,
    /// Messages of the process's other roles, with the journal positions that they rest on.
    pub(crate) inbox: VecDeque<(Packet, Lsn)>,
    /// The highest of those taken so far: what this role says rests on them too.
    pub(crate) inherited: Lsn,
    pub(crate) drain_arranged: bool,
    /// The earliest tick arranged, ns.
    pub(crate) tick_ns: Option<u64>,
    /// Records that are not durable yet.
    records: VecDeque<(RecordSeq, Lsn)>,
}

/// A process.
pub(crate) struct Process {
    pub(crate) up: bool,
    pub(crate) life: u32,
    pub(crate) servers: Vec<Server>,
    pub(crate) disk: Disk,
    pub(crate) files: Files,
    /// Disk operations under way, by the number in their event.
    pub(crate) disk_ops: VecDeque<(u64, usize, Ticket, DiskOp)>,
    pub(crate) gate: OutputGate<(Flight, Lsn)>,
    /// A role waits for what it recorded since the flush in progress began.
    pub(crate) waits_for_flush: bool,
    /// How far the flush in progress reaches.
    pub(crate) flushing: Option<Lsn>,
    /// What its clock is off.
    pub(crate) skew_ns: i64,
    /// What it is off beyond all bounds.
    pub(crate) wrong_ns: i64,
    /// It ended by a loss of power; or a start after one ended before what it has noted of that was durable, as a host's looks again.
    pub(crate) lost_power: bool,
    /// What the last start has noted is durable from here on.
    pub(crate) noted: Option<Lsn>,
    /// Its journal has no room.
    pub(crate) full: bool,
    /// Of its next life. Each journal counts its own.
    pub(crate) next_term: Term,
    /// The first birth of its present life.
    first_birth: Birth,
    /// What its roles are started with; terms are filled in.
    pub(crate) configs: Vec<RoleConfig>,
}

impl Process {
    pub(crate) fn new(configs: Vec<RoleConfig>, next_term: Term, skew_ns: i64) -> Process {
        Process {
            up: false,
            life: 0,
            servers: vec![],
            disk: Disk::new(configs.len()),
            files: Files::default(),
            disk_ops: VecDeque::new(),
            gate: OutputGate::new(Lsn(0)),
            waits_for_flush: false,
            flushing: None,
            skew_ns,
            wrong_ns: 0,
            lost_power: false,
            noted: None,
            full: false,
            next_term,
            first_birth: Birth::NEVER,
            configs,
        }
    }

    /// Recovers every role from the disk, under a new term.
    pub(crate) fn recover(&mut self) -> Result<(), String> {
        assert!(!self.up && self.servers.is_empty(), "only a process that is down starts");
        let term = self.next_term;
        self.next_term = Term(term.0 + 1);
        self.files.sync();
        for index in 0..self.configs.len() {
            let mut role = self.configs[index].create(term, self.files.count);
            if role.recoverable().is_some() {
                self.load(index, &mut role)?;
            }
            self.servers.push(Server {
                node: self.configs[index].node(),
                role,
                inbox: VecDeque::new(),
                inherited: Lsn(0),
                drain_arranged: false,
                tick_ns: None,
                records: VecDeque::new(),
            });
        }
        let reserved = |server: &Server| match &server.role {
            Role::Shard(shard) => shard.reserved(Counter::Births),
            Role::Data(_) | Role::Path(_) | Role::Controller(_) => 0,
        };
        self.first_birth = Birth::after(self.servers.iter().map(reserved).max().unwrap_or(0));
        self.up = true;
        self.life += 1;
        self.flushing = None;
        self.gate = OutputGate::new(self.disk.durable());
        Ok(())
    }

    /// Loads and replays the state of a role.
    fn load(&self, index: usize, role: &mut Role) -> Result<(), String> {
        let (kept, records) = self.disk.of(index as u16);
        let ahead = Arc::new(Ahead::new(kept.objects.clone()));
        role.recoverable().expect("it has state").attach(ahead.clone()).map_err(|e| format!("checkpoint: {e}"))?;
        for (range, (upto, rest)) in (0..).zip(&kept.ranges) {
            role.recoverable().expect("it has state").loaded(range, *upto);
            for (key, value) in rest {
                role.recoverable().expect("it has state").load(range, key, value).map_err(|e| format!("image: {e}"))?;
            }
        }
        if let Role::Data(data) = role
            && self.lost_power
        {
            data.power_was_lost();
        }
        let mut in_tail = false;
        let records: Vec<_> = records.collect();
        for (number, &(lsn, entry)) in records.iter().enumerate() {
            if number.is_multiple_of(WINDOW) {
                let mut asks = Vec::new();
                let window = records[number..].iter().take(WINDOW);
                window
                    .for_each(|(_, entry)| role.recoverable().expect("it has state").foresee(&entry.bytes, &mut asks));
                ahead.know([ahead.fetch(&asks)]);
            }
            if !in_tail && lsn > self.disk.known_durable() {
                in_tail = true;
                match role {
                    Role::Data(data) => data.begin_tail(),
                    Role::Shard(shard) if self.lost_power => shard.begin_tail(),
                    Role::Shard(_) | Role::Path(_) | Role::Controller(_) => {}
                }
            }
            role.recoverable()
                .expect("it has state")
                .replay(entry.seq, &entry.bytes)
                .map_err(|e| format!("replay: {e}"))?;
        }
        ahead.know([]);
        if let Role::Shard(shard) = role
            && self.lost_power
        {
            shard.begin_tail(); // also where nothing of what it had recorded last is left
        }
        Ok(())
    }

    /// Lets a recovered role serve.
    pub(crate) fn start(&mut self, server: usize, now: Now) {
        let (files, first) = (&self.files, self.first_birth);
        // Births of another journal say nothing about what is here.
        let all = self.configs.iter().any(RoleConfig::has_one_journal);
        match &mut self.servers[server].role {
            Role::Shard(shard) => shard.start(now, first),
            Role::Data(data) => {
                let since = if all { first } else { Birth::NEVER };
                data.start(now, since, &mut |file, offset, into| files.read(file, offset, into));
            }
            Role::Path(_) | Role::Controller(_) => {}
        }
    }

    /// Messages that its roles have refused in this life, since their stamps were too far ahead.
    pub(crate) fn refused(&self) -> u64 {
        let of_shard = |shard: &Shard| {
            let refused = shard.status().into_iter().find(|(name, _)| *name == "messages_skewed");
            refused.map_or(0, |(_, count)| count)
        };
        let of_role = |server: &Server| match &server.role {
            Role::Shard(shard) => of_shard(shard),
            Role::Data(data) => data.counters().skewed,
            Role::Path(_) | Role::Controller(_) => 0,
        };
        self.servers.iter().map(of_role).sum()
    }

    /// Everything volatile is gone.
    pub(crate) fn stop(&mut self) {
        self.up = false;
        self.servers.clear();
        self.waits_for_flush = false;
        self.flushing = None;
        self.gate = OutputGate::new(Lsn(0));
    }

    /// Journals a record of a role.
    pub(crate) fn append(&mut self, server: usize, seq: RecordSeq, bytes: Vec<u8>) -> Lsn {
        let lsn = self.disk.append(server as u16, seq, bytes);
        self.servers[server].records.push_back((seq, lsn));
        lsn
    }

    /// The journal position that an output rests on: that of the role's record `after`, and what the role has heard
    /// from others of the process.
    pub(crate) fn rests_on(&self, server: usize, after: RecordSeq) -> Lsn {
        let Server { records, inherited, .. } = &self.servers[server];
        let index = records.partition_point(|(seq, _)| *seq <= after);
        let own = if index == 0 { Lsn(0) } else { records[index - 1].1 };
        own.max(*inherited)
    }

    /// A flush has ended: the last durable record of each role that has new ones.
    pub(crate) fn flushed(&mut self) -> Vec<(usize, RecordSeq)> {
        let Some(upto) = self.flushing.take() else { return vec![] };
        self.files.flushed();
        if let Some(server) = self.disk.flushed(upto) {
            self.settle(server, true);
        }
        let mut news = vec![];
        for (index, server) in self.servers.iter_mut().enumerate() {
            let mut last = None;
            while let Some((seq, _)) = server.records.pop_front_if(|(_, lsn)| *lsn <= upto) {
                last = Some(seq);
            }
            news.extend(last.map(|seq| (index, seq)));
        }
        news
    }

    /// Images the next ranges of a checkpoint; the last range of a role comes last (it holds the reply cache). The image after
    /// those only begins, so that much happens between its pieces.
    pub(crate) fn checkpoint(&mut self, ranges: u32) {
        let Some(draft) = self.disk.draft() else { return };
        let Some(role) = self.servers[draft.server as usize].role.recoverable() else { return };
        for _ in 0..ranges {
            let next = draft.images.len() as u32;
            if next == role.ranges() {
                break;
            }
            let mut image = draft.begun.take().unwrap_or_else(|| role.begin_image(next));
            while role.more_of_image(&mut image.changes) {}
            draft.images.push(image);
        }
        if draft.images.len() as u32 != role.ranges() {
            draft.begun = Some(role.begin_image(draft.images.len() as u32));
            return;
        }
        let server = draft.server;
        if self.full {
            self.disk.drop_draft();
            self.settle(server, false);
        } else if let Some(server) = self.disk.draft_complete() {
            self.settle(server, true);
        }
    }

    /// A role hears what became of its checkpoint. Whatever can be forgotten then is, so that nothing is right only because it is
    /// in memory.
    fn settle(&mut self, server: u16, kept: bool) {
        let Some(role) = self.servers[server as usize].role.recoverable() else { return };
        (0..role.ranges()).for_each(|range| role.settle(range, kept));
        // What was asked for since the last time stays for once.
        (0..FORGET_PARTS).for_each(|part| role.forget(part));
    }
}
