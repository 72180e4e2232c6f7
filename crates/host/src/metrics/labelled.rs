//! Metrics that have labels, or are made of more than one counter.

use super::{Kind, Unit};

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// What Prometheus calls it.
    pub name: &'static str,
    /// How it goes on.
    pub kind: Kind,
    /// In what it is counted.
    pub unit: Unit,
    /// Its labels, and what values they have.
    pub labels: &'static [(&'static str, &'static str)],
    /// What it counts.
    pub help: &'static str,
}

/// `role`: who has answered.
const ROLE: (&str, &str) = (
    "role",
    "`mount`: the mount of this process; `told`: all mounts of other processes that tell this one; `shard`: its metadata shards; `data`: its data node. One operation of a mount may be several of shards and data nodes, or none",
);
/// `operation`: of what kind.
const OPERATION: (&str, &str) = (
    "operation",
    "of mounts what the kernel calls it, in small letters: `lookup`, `create`, `write`, …; of shards `lookup`, `getattr`, `setattr`, `create`, `link`, `unlink`, `rmdir`, `rename`, `open`, `release`, `readdir`, `readlink`, `access`, `statfs`, `lock`, `append`, `sync`, `session`, `getxattr`, `setxattr`, `pages`, and `merge`: a data node has told of a write; of data nodes `write`, `read`, `allocate`, `copy`, `seek`, `trim`, `sync`, `space`",
);

/// Operations that were answered.
pub const OPERATIONS: Family = Family {
    name: "onpath_operations_total",
    kind: Kind::Counter,
    unit: Unit::Number,
    labels: &[
        ROLE,
        OPERATION,
        (
            "result",
            "`ok`; `refused`: the caller's request deserved it (no such file, not permitted); `failed`: nothing was wrong with the request (EIO, ENOSPC, EDQUOT, ENOMEM, ENFILE, ENOLCK, EPROTO, ENOTCONN, ETIMEDOUT, ESTALE)",
        ),
    ],
    help: "Operations that mounts, shards and data nodes have answered; what they refuse to be asked again is not counted.",
};

/// How long they took.
pub const OPERATION_DURATION: Family = Family {
    name: "onpath_operation_duration_seconds",
    kind: Kind::Histogram,
    unit: Unit::Seconds,
    labels: &[ROLE, OPERATION],
    help: "How long operations took: of mounts from the request of the kernel to its answer; of shards and data nodes how long they waited for locks, the disk and each other, since what waits for nobody takes no time there.",
};

/// What runs.
pub const BUILD_INFO: Family = Family {
    name: "onpath_build_info",
    kind: Kind::Gauge,
    unit: Unit::Number,
    labels: &[("version", "of the program"), ("process", "`dev`, `serve` or `mount`")],
    help: "Always 1; the labels say what runs.",
};

/// All of them.
pub const FAMILIES: &[Family] = &[OPERATIONS, OPERATION_DURATION, BUILD_INFO];
