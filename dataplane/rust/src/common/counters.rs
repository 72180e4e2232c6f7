//! Counters (D-43): what became of packets and of copies, and passes. Each packet is one of the first kind by construction, since
//! [`crate::Switch::step`] ends in one counter.

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),* $(,)?) => {
        /// A counter of dataplane/SPEC.md.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Counter { $($(#[$doc])* $variant),* }
        impl Counter {
            /// Every counter, in the order of SPEC.md.
            pub const ALL: &[Counter] = &[$(Counter::$variant),*];
            /// Its name in SPEC.md and in every target.
            pub fn name(self) -> &'static str {
                match self { $(Counter::$variant => $name),* }
            }
        }
        const COUNTERS: usize = [$(Counter::$variant),*].len();
    };
}

counters! {
    /// Not looked at (D-1).
    Plain = "plain",
    /// Shorter than its header (D-2).
    DropTruncated = "drop_truncated",
    /// Another version (D-3).
    DropVersion = "drop_version",
    /// Another cluster (D-4).
    DropCluster = "drop_cluster",
    /// An unknown structure (D-5).
    DropStructure = "drop_structure",
    /// An unknown operation (D-6).
    DropOperation = "drop_operation",
    /// Reserved bits (D-7).
    DropReserved = "drop_reserved",
    /// No such shard (D-8).
    DropShard = "drop_shard",
    /// No such index (D-9).
    DropIndex = "drop_index",
    /// Tag 0 (D-10).
    DropTag = "drop_tag",
    /// Fingerprint 0 (D-45).
    DropFingerprint = "drop_fingerprint",
    /// Position 0 (D-46).
    DropTs = "drop_ts",
    /// Only routed (D-11).
    Answered = "answered",
    /// Would change a register, and does not come from a host (D-44).
    DropStranger = "drop_stranger",
    /// Copies that left (D-16).
    CopiesSent = "copies_sent",
    /// Copies to nodes without a route (D-17).
    CopiesUnrouted = "copies_unrouted",
    /// Answered normal (D-18).
    QueryNormal = "query_normal",
    /// Answered scattered (D-18).
    QueryScattered = "query_scattered",
    /// Answered unknown (D-19).
    QueryUnknown = "query_unknown",
    /// In the set now (D-23).
    InsertMarked = "insert_marked",
    /// Returned: no room (D-24).
    InsertFull = "insert_full",
    /// Returned: another epoch (D-26).
    InsertOtherEpoch = "insert_other_epoch",
    /// Removed and forwarded (D-27).
    RemoveDone = "remove_done",
    /// Not newer than the counter (D-29).
    DropNotNewer = "drop_not_newer",
    /// A term before (D-30).
    DropTermLower = "drop_term_lower",
    /// A term not yet announced (D-31).
    DropTermAhead = "drop_term_ahead",
    /// Forwarded without removing (D-33).
    RemoveOtherEpoch = "remove_other_epoch",
    /// The entry is this one's now (D-53).
    InstallDone = "install_done",
    /// Told to its home alone: the entry has a newer one, or it was cleared (D-54).
    InstallOlder = "install_older",
    /// Told to its home alone: another epoch (D-55).
    InstallOtherEpoch = "install_other_epoch",
    /// Answered pending (D-56).
    LookPending = "look_pending",
    /// Answered none (D-56).
    LookNone = "look_none",
    /// Answered unknown (D-57).
    LookUnknown = "look_unknown",
    /// The entry is free now (D-58).
    ClearDone = "clear_done",
    /// The entry stays as it is (D-58).
    ClearKept = "clear_kept",
    /// Answered to who asked (D-92).
    ReadAnswered = "read_answered",
    /// Denied to who asked (D-93).
    ReadDenied = "read_denied",
    /// To its shard (D-94).
    ReadMissed = "read_missed",
    /// To its shard, and to who hears of what is missed often (D-108).
    ReadReported = "read_reported",
    /// To its shard: another epoch (D-76).
    ReadOtherEpoch = "read_other_epoch",
    /// To its shard: who asks is not listed, or not with this caller (D-77, D-78).
    ReadStranger = "read_stranger",
    /// The entry says this (D-97).
    FillDone = "fill_done",
    /// The entry has this or a later revision (D-98).
    FillNotNewer = "fill_not_newer",
    /// Another epoch (D-95).
    FillOtherEpoch = "fill_other_epoch",
    /// There is no such entry (D-96, D-99).
    FillNotThere = "fill_not_there",
    /// The entry says nothing now (D-102).
    InvalidateDone = "invalidate_done",
    /// Another epoch (D-101).
    InvalidateOtherEpoch = "invalidate_other_epoch",
    /// There is no such entry (D-104).
    InvalidateNotThere = "invalidate_not_there",
    /// Passes beyond the first one of a packet (D-123).
    PassesRecirculated = "passes_recirculated",
}

impl Counter {
    /// Whether it counts copies that go out rather than packets that came in.
    pub fn counts_copies(self) -> bool {
        matches!(self, Counter::CopiesSent | Counter::CopiesUnrouted)
    }

    /// Whether it counts packets by what became of them: each is one of these.
    pub fn counts_packets(self) -> bool {
        !self.counts_copies() && self != Counter::PassesRecirculated
    }

    /// Whether it counts what becomes of packets of the cache alone.
    pub fn is_of_cache(self) -> bool {
        ["read_", "fill_", "invalidate_", "passes_"].iter().any(|of| self.name().starts_with(of))
    }

    /// Whether the packets that it counts were dropped.
    pub fn counts_drops(self) -> bool {
        self.name().starts_with("drop_")
    }
}

/// The values of all counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters([u64; COUNTERS]);

impl Default for Counters {
    fn default() -> Counters {
        Counters([0; COUNTERS])
    }
}

impl Counters {
    /// The value of one.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    pub(crate) fn add(&mut self, counter: Counter) {
        self.0[counter as usize] += 1;
    }
}
