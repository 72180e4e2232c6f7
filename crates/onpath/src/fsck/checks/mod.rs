//! The checks: each file compares two kinds of objects that say the same thing.

pub(super) mod data;
pub(super) mod directories;
pub(super) mod files;
mod links;
pub(super) mod listings;
mod logs;
pub(super) mod placement;
mod transactions;
pub(super) mod xattrs;

use super::report::Report;
use super::view::View;
use onpath_data::DataNode;
use onpath_host::progress::{Stage, Watcher};

/// All checks of names, inodes and bytes.
pub(super) fn run(view: &View, data: &DataNode, watcher: &dyn Watcher, report: &mut Report) {
    type Check<'a> = &'a dyn Fn(&View, &mut Report);
    let all: [Check<'_>; 9] = [
        &placement::check,
        &links::check,
        &files::check,
        &listings::check,
        &directories::check,
        &xattrs::check,
        &logs::check,
        &transactions::check,
        &|view, report| data::check(view, data, report),
    ];
    watcher.begin(Stage::of("comparing", "kinds of objects").with_whole(all.len() as u64));
    for check in all {
        check(view, report);
        watcher.done(1);
    }
}
