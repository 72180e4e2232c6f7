//! The checks: each file compares two kinds of objects that say the same thing.

pub(super) mod data;
pub(super) mod directories;
mod links;
pub(super) mod listings;
mod logs;
pub(super) mod placement;
mod transactions;
pub(super) mod xattrs;

use super::report::Report;
use super::view::View;
use onpath_data::DataNode;

/// All checks of names, inodes and bytes.
pub(super) fn run(view: &View, data: &DataNode, report: &mut Report) {
    placement::check(view, report);
    links::check(view, report);
    listings::check(view, report);
    directories::check(view, report);
    xattrs::check(view, report);
    logs::check(view, report);
    transactions::check(view, report);
    data::check(view, data, report);
}
