//! Planted bugs: each removes one rule of SPEC.md, so that `tests/teeth.rs` can show that a vector of that rule notices.
//!
//! Without the feature `planted` every question is answered "no" at compile time.

macro_rules! bugs {
    ($($(#[$doc:meta])* $rule:ident = $number:literal),* $(,)?) => {
        /// A rule that is removed, by its number.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Planted { $($(#[$doc])* $rule = $number),* }
        impl Planted {
            /// One bug for each rule.
            pub const ALL: &[Planted] = &[$(Planted::$rule),*];
        }
    };
}

bugs! {
    /// The UDP port is not looked at.
    D1 = 1,
    /// What is missing of a header is taken for 0.
    D2 = 2,
    /// The version is not looked at.
    D3 = 3,
    /// The cluster is not looked at.
    D4 = 4,
    /// The structure is not looked at.
    D5 = 5,
    /// An unknown operation is taken for a query.
    D6 = 6,
    /// Reserved bits are not looked at.
    D7 = 7,
    /// A shard beyond the registers is taken modulo their number.
    D8 = 8,
    /// An index beyond the registers is taken modulo their number.
    D9 = 9,
    /// Tag 0 is a tag.
    D10 = 10,
    /// Answered packets are executed again.
    D11 = 11,
    /// The set is chosen by other bits.
    D12 = 12,
    /// The destination stays in copies.
    D16 = 16,
    /// Without a route copies leave by port 0.
    D17 = 17,
    /// Only the first array is queried.
    D18 = 18,
    /// The complete bit is not looked at.
    D19 = 19,
    /// The first array is not used.
    D20 = 20,
    /// Later copies of a tag stay.
    D21 = 21,
    /// A tag that is there already takes another register.
    D22 = 22,
    /// A mark is acknowledged to the client alone.
    D23 = 23,
    /// The client hears of a full set.
    D24 = 24,
    /// Inserts of any epoch count.
    D26 = 26,
    /// Only the first array is removed from.
    D27 = 27,
    /// The counter stays.
    D28 = 28,
    /// An equal sequence is newer.
    D29 = 29,
    /// Removes of lower terms count.
    D30 = 30,
    /// Removes of terms not announced count.
    D31 = 31,
    /// All shards share one pair.
    D32 = 32,
    /// Removes of any epoch take out.
    D33 = 33,
    /// A remove goes back to its sender.
    D34 = 34,
    /// A new epoch stays complete.
    D37 = 37,
    /// Any epoch completes the present one.
    D38 = 38,
    /// Raise zeroes and lowers.
    D39 = 39,
    /// Clear while an epoch runs.
    D40 = 40,
    /// Node 0 has a route.
    D41 = 41,
    /// Terms and counters survive a reboot.
    D42 = 42,
    /// Copies that are lost are not counted.
    D43 = 43,
    /// Anybody may change registers.
    D44 = 44,
    /// Fingerprint 0 is one.
    D45 = 45,
    /// Position 0 is one.
    D46 = 46,
    /// The entry is chosen by other bits.
    D47 = 47,
    /// Positions are compared as they are.
    D48 = 48,
    /// An entry in which nothing was is at position 0.
    D49 = 49,
    /// An install is not executed again.
    D50 = 50,
    /// An install is executed after its clear.
    D51 = 51,
    /// What an occupied entry keeps is not overwritten.
    D52 = 52,
    /// An install is told to the session alone.
    D53 = 53,
    /// The session hears of an install without effect.
    D54 = 54,
    /// Installs of any epoch take effect.
    D55 = 55,
    /// A look does not compare fingerprints.
    D56 = 56,
    /// The table's complete bit is not looked at.
    D57 = 57,
    /// A clear does not compare positions.
    D58 = 58,
    /// A clear forgets the position.
    D59 = 59,
    /// Clears of another epoch free nothing.
    D60 = 60,
    /// A clear goes back to its sender.
    D61 = 61,
    /// An epoch of the dirty set is one of the table.
    D62 = 62,
    /// A new epoch of the table stays complete.
    D63 = 63,
    /// Any epoch completes the present one of the table.
    D64 = 64,
    /// The table is emptied while an epoch runs.
    D65 = 65,
    /// A reboot leaves the entries.
    D66 = 66,
    /// A read may have any depth.
    D67 = 67,
    /// A read may begin at any level.
    D68 = 68,
    /// A read may be for anything.
    D69 = 69,
    /// Token 0 is one.
    D70 = 70,
    /// Number 0 is an entry's.
    D71 = 71,
    /// Any revision is one.
    D72 = 72,
    /// The lease does not pass.
    D73 = 73,
    /// A lease that has passed may come back.
    D74 = 74,
    /// Ticks are compared as they are.
    D75 = 75,
    /// Reads of any epoch are answered.
    D76 = 76,
    /// Anybody is answered.
    D77 = 77,
    /// Who is listed may name any caller.
    D78 = 78,
    /// A path begins with its first level.
    D79 = 79,
    /// Tokens are not compared.
    D80 = 80,
    /// A read takes the value of any entry at its index.
    D81 = 81,
    /// What was cleared is valid.
    D82 = 82,
    /// Parents are not compared.
    D83 = 83,
    /// Anything leads on.
    D84 = 84,
    /// Owners are others.
    D85 = 85,
    /// The group's are others.
    D86 = 86,
    /// Who may be in the group is not.
    D87 = 87,
    /// Uid 0 passes.
    D88 = 88,
    /// What is wanted of the last level is not looked at.
    D89 = 89,
    /// Every purpose is answered of everything.
    D90 = 90,
    /// The walk stays where it began.
    D91 = 91,
    /// An answer goes to the shard.
    D92 = 92,
    /// A denial is a miss.
    D93 = 93,
    /// A miss goes to who asked.
    D94 = 94,
    /// Fills of any epoch count.
    D95 = 95,
    /// A fill takes any entry of its key.
    D96 = 96,
    /// A fill leaves the value.
    D97 = 97,
    /// Any revision is newer.
    D98 = 98,
    /// A fill takes what is at its index.
    D99 = 99,
    /// A fill goes back to its home.
    D100 = 100,
    /// Invalidates of any epoch count.
    D101 = 101,
    /// An invalidate leaves the stamp.
    D102 = 102,
    /// An old invalidate lowers the stamp.
    D103 = 103,
    /// An invalidate clears any entry of its key.
    D104 = 104,
    /// An invalidate goes to its shard, whoever is to be told.
    D105 = 105,
    /// A miss is counted by its first level.
    D106 = 106,
    /// Counters of misses wrap.
    D107 = 107,
    /// Every miss above the threshold is reported.
    D108 = 108,
    /// Misses of anybody are counted.
    D109 = 109,
    /// Every level that is passed is a hit.
    D110 = 110,
    /// An epoch of the dirty set ends that of the cache.
    D111 = 111,
    /// An epoch begins with what is left.
    D112 = 112,
    /// A lease may be shortened.
    D113 = 113,
    /// Commands of any epoch are executed.
    D114 = 114,
    /// The epoch does not end.
    D115 = 115,
    /// The cache is emptied while an epoch runs.
    D116 = 116,
    /// A stamp keeps its state.
    D117 = 117,
    /// A name may get another entry.
    D118 = 118,
    /// A name stays.
    D119 = 119,
    /// Who was listed stays.
    D120 = 120,
    /// What was reported stays so.
    D121 = 121,
    /// A reboot leaves the names.
    D122 = 122,
    /// Passes are not counted.
    D123 = 123,
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Planted>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug for every switch on this thread.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Planted>) {
    PLANTED.with(|planted| planted.set(bug));
}

/// Whether this rule is removed.
#[cfg(feature = "planted")]
pub(crate) fn planted(bug: Planted) -> bool {
    PLANTED.with(|planted| planted.get() == Some(bug))
}

/// Whether this rule is removed: never in a real build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub(crate) const fn planted(_: Planted) -> bool {
    false
}
