//! What a shard knows of one directory, for people: `onpath inspect PATH`; and of the writes of one file.

use super::owner::OwnerDir;
use crate::Core;
use onpath_wire::disk::inode::Inode;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind;
use onpath_wire::peer::part;
use onpath_wire::tracking::Form;

impl OwnerDir {
    fn inspect(&self, now_us: u64, all: &mut Vec<(&'static str, u64)>) {
        all.push(("holders_of_access", self.holders.of(part::ACCESS).len() as u64));
        all.push(("holders_of_append", self.holders.of(part::APPEND).len() as u64));
        all.push(("holders_of_path", self.holders.of(part::PATH).len() as u64));
        all.push(("ways_kept", u64::from(self.told)));
        all.push(("holders_known", u64::from(self.holders.knows(part::BOTH))));
        all.push(("recall_runs", u64::from(self.job.is_some())));
        all.push(("sync", u64::from(self.is_through())));
        if self.collected_us() > 0 {
            all.push(("last_collect_us_ago", now_us.saturating_sub(self.collected_us())));
        }
    }
}

/// What is remembered of a file's writes, if anything is.
fn writes(file: &Inode, all: &mut Vec<(&'static str, u64)>) {
    all.extend(file.merged.map(|upto| ("writes_known_upto", upto.0)));
    all.extend(file.refused.as_ref().map(|refused| ("writes_refused", refused.positions().len() as u64)));
}

/// Named numbers: as the home if `dir` is a file of this shard, as the owner if `dir` is a directory of this shard, as a site if it holds anything of it.
pub(crate) fn inspect(core: &mut Core, dir: InodeId) -> Vec<(&'static str, u64)> {
    let inode = core.state.inodes.get(dir).map(|inode| core.state.remembered(inode));
    let state = &core.state;
    let mut all = Vec::new();
    inode.iter().for_each(|inode| writes(inode, &mut all));
    all.extend(state.cached.entry(dir).map(|answers| ("answered_by_switch", u64::from(answers))));
    all.extend(state.lent.of(dir).map(|lending| ("merge_part", lending.number)));
    if let Some(inode) = inode.filter(|inode| inode.kind == Kind::Directory) {
        all.push(("owner", 1));
        all.push(("entries", inode.entries));
        all.push(("tracked_in_network", u64::from(state.epochs.owner.form == Form::Network)));
        all.push(("tracking_epoch", u64::from(state.epochs.owner.epoch.0)));
        match state.dirs.owner.get(&dir) {
            Some(table) => table.inspect(core.now.mono_us, &mut all),
            None => all.push(("holders_known", u64::from(state.births.is_new(dir)))),
        }
        if let Some(group) = state.dirs.groups.get(&state.config.map.fingerprint(dir)) {
            all.push(("collect_runs", u64::from(group.collecting())));
            all.push(("scattered_here", u64::from(group.applied())));
            all.push(("collects_done", group.done()));
        }
    }
    if let Some(site) = state.dirs.site.get(&dir) {
        site.inspect(&mut all);
        state.marks.inspect(state.config.map.fingerprint(dir), &mut all);
    }
    let pending = state.dirs.log_len(dir) as u64;
    if pending > 0 || state.dirs.site.contains_key(&dir) {
        all.push(("entries_pending", pending));
    }
    all
}
