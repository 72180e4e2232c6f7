//! What the paper's workloads ask for (Fletch §VIII-A, table I).

use onpath_sim::cost::{Kind, Requests};

/// By the paper, file accesses have this exponent unless said otherwise.
pub(super) const SKEW: f64 = 0.9;

/// A workload of table I.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Workload {
    Alibaba,
    Training,
    Thumb,
    LinkedIn,
}

impl Workload {
    pub(super) const ALL: [Workload; 4] = [Workload::Alibaba, Workload::Training, Workload::Thumb, Workload::LinkedIn];

    pub(super) fn name(self) -> &'static str {
        match self {
            Workload::Alibaba => "Alibaba",
            Workload::Training => "Training",
            Workload::Thumb => "Thumb",
            Workload::LinkedIn => "LinkedIn",
        }
    }

    /// Percent of each kind; open and close are one kind. Of LinkedIn the paper's text has what its table puts together.
    fn shares(self) -> &'static [(Kind, f64)] {
        match self {
            Workload::Alibaba => &[
                (Kind::Open, 52.6),
                (Kind::Create, 9.59),
                (Kind::Readdir, 3.9),
                (Kind::Chmod, 0.1),
                (Kind::Unlink, 11.9),
                (Kind::Stat, 12.4),
                (Kind::Statdir, 0.2),
                (Kind::Mkdir, 0.005),
                (Kind::Rmdir, 0.005),
                (Kind::Rename, 9.3),
            ],
            Workload::Training => &[
                (Kind::Open, 54.32),
                (Kind::Stat, 28.5),
                (Kind::Readdir, 0.13),
                (Kind::Create, 9.01),
                (Kind::Mkdir, 0.13),
                (Kind::Rmdir, 0.13),
                (Kind::Unlink, 9.01),
                (Kind::Statdir, 0.13),
            ],
            Workload::Thumb => &[
                (Kind::Open, 57.01),
                (Kind::Stat, 28.44),
                (Kind::Readdir, 0.13),
                (Kind::Create, 14.16),
                (Kind::Mkdir, 0.13),
                (Kind::Statdir, 0.13),
            ],
            Workload::LinkedIn => &[
                (Kind::Open, 42.0),
                (Kind::Stat, 42.0),
                (Kind::Create, 4.5),
                (Kind::Mkdir, 4.5),
                (Kind::Chmod, 1.0),
                (Kind::Unlink, 3.0),
                (Kind::Rename, 3.0),
            ],
        }
    }

    /// The workload with this exponent.
    pub(super) fn requests(self, skew: f64, seed: u64) -> Requests {
        of(self.shares().to_vec(), skew, seed)
    }
}

fn of(shares: Vec<(Kind, f64)>, skew: f64, seed: u64) -> Requests {
    Requests { shares, skew, hot_in: 0, opens: false, seed }
}

/// Nothing but this.
pub(super) fn only(kind: Kind, seed: u64) -> Requests {
    of(vec![(kind, 1.0)], SKEW, seed)
}

/// Opens and chmods, of which so large a share.
pub(super) fn with_chmods(share: f64, seed: u64) -> Requests {
    of(vec![(Kind::Open, 1.0 - share), (Kind::Chmod, share)], SKEW, seed)
}
