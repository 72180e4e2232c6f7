//! The headers of the cache (rules D-67 to D-116 of dataplane/SPEC.md): walks of names that the switch answers, and what their homes
//! leave in it. Reads and fills have one length, so that an answer has that of its request.

use super::common::{codes, header};
use super::{Common, INNET_VERSION, InNet, InNetBytes, Structure};
use crate::codec::WireError;
use crate::ids::{NodeId, ShardId};

mod entry;

pub use entry::EntryValue;

/// Bits of an entry's number in the registers of the cache.
pub const CACHE_BITS: u32 = 16;
/// Most levels of a read.
pub const LEVELS_MAX: usize = 9;
/// Bytes of a level: its key and its token.
pub const LEVEL_BYTES: usize = 9;
/// Bytes of an entry's value, and of the levels of a read, whose place it takes.
pub const VALUE_BYTES: usize = 84;
/// Key of the root's own entry, which no name has.
pub const ROOT_KEY: u64 = 0;
/// Its token.
pub const ROOT_TOKEN: u8 = 1;
/// Revisions are below: what an entry's stamp says of one is twice that, or one more.
pub const REVISION_END: u32 = 1 << 31;

/// Bits of [`Read::wants`].
pub mod wants {
    /// To execute, or to search.
    pub const EXEC: u8 = 1;
    /// To write.
    pub const WRITE: u8 = 2;
    /// To read.
    pub const READ: u8 = 4;
    /// Not wanted but had: the caller may search and read anything.
    pub const READS_ALL: u8 = 8;
    /// The caller may write anything.
    pub const WRITES_ALL: u8 = 16;
    /// All that have a meaning; the others are 0.
    pub const ALL: u8 = 31;
}

/// The levels of a read, from the top: nine times key and token, the rest 0, and 3 bytes that are 0. Of one that is answered the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels(pub [u8; VALUE_BYTES]);

/// What an entry says, as [`EntryValue`] gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value(pub [u8; VALUE_BYTES]);

/// Bytes that are a field of a header.
macro_rules! field_of_bytes {
    ($($name:ident),*) => {$(
        impl Default for $name {
            fn default() -> $name {
                $name([0; VALUE_BYTES])
            }
        }
        impl $name {
            #[inline]
            fn to_be_bytes(self) -> [u8; VALUE_BYTES] {
                self.0
            }
            #[inline]
            fn from_be_bytes(bytes: [u8; VALUE_BYTES]) -> $name {
                $name(bytes)
            }
        }
    )*};
}
field_of_bytes!(Levels, Value);

impl Levels {
    /// These levels, from the top: at most [`LEVELS_MAX`], more are left out.
    pub fn of(levels: &[(u64, u8)]) -> Levels {
        let mut bytes = [0; VALUE_BYTES];
        for ((key, token), level) in levels.iter().zip(bytes.chunks_exact_mut(LEVEL_BYTES)) {
            level[..8].copy_from_slice(&key.to_be_bytes());
            level[8] = *token;
        }
        Levels(bytes)
    }

    /// Key and token of a level from 0; those beyond the last have the key 0 and no token.
    #[inline]
    pub fn at(&self, level: usize) -> (u64, u8) {
        let bytes: Option<&[u8; LEVEL_BYTES]> = self.0.get(LEVEL_BYTES * level..).and_then(|rest| rest.first_chunk());
        bytes.map_or((0, 0), |[key @ .., token]| (u64::from_be_bytes(*key), *token))
    }

    /// The bytes behind the last level, which are 0.
    #[inline]
    pub fn spare(&self) -> &[u8] {
        &self.0[LEVELS_MAX * LEVEL_BYTES..]
    }
}

header! {
    /// A read. `epoch` is that of its tokens, `destination` the shard that is asked if the switch does not answer, `shard` 0.
    pub struct Read: 124 {
        /// Levels, from 1 to 9.
        16 => pub depth: u8,
        /// The level that is next, 0 as sent.
        17 => pub level: u8,
        /// What it is for ([`Purpose`]).
        18 => pub purpose: u8,
        /// Bits of [`wants`].
        19 => pub wants: u8,
        /// Who asks.
        20 => pub uid: u32,
        /// Its group.
        24 => pub gid: u32,
        /// The directory where the walk begins, 0: a path from the root. Then the one that is reached.
        28 => pub start: u64,
        /// Node to which an answer goes.
        36 => pub requester: u32,
        /// The names, from the top.
        40 => pub levels: Levels,
    }
}

header! {
    /// What the home of an entry tells the switch. `shard` is that home, `destination` who hears what became of it: of a fill the
    /// controller, of an invalidate that shard.
    pub struct Invalidate: 40 {
        /// Token of the key, not 0.
        16 => pub token: u8,
        /// Reserved, 0.
        17 => pub spare_0: u8,
        /// Reserved, 0.
        18 => pub spare_1: u16,
        /// Number of the entry, not 0.
        20 => pub number: u32,
        /// Counts the fills of the entry: from 1, below 2^31.
        24 => pub revision: u32,
        /// Its key.
        28 => pub key: u64,
        /// Reserved, 0.
        36 => pub spare_2: u32,
    }
}

header! {
    /// The same, with a value.
    pub struct Fill: 124 {
        /// Token of the key, not 0.
        16 => pub token: u8,
        /// Reserved, 0.
        17 => pub spare_0: u8,
        /// Reserved, 0.
        18 => pub spare_1: u16,
        /// Number of the entry, not 0.
        20 => pub number: u32,
        /// Counts the fills of the entry: from 1, below 2^31.
        24 => pub revision: u32,
        /// Its key.
        28 => pub key: u64,
        /// Reserved, 0.
        36 => pub spare_2: u32,
        /// What it says from now on.
        40 => pub value: Value,
    }
}

impl Fill {
    /// What an invalidate has, too.
    #[inline]
    pub fn entry(&self) -> Invalidate {
        Invalidate::of_bytes(self.bytes().first_chunk().expect("the shorter header"))
    }
}

codes! {
    /// Operations of the cache.
    pub enum CacheOp {
        /// Where do these names lead to?
        1 => Read,
        /// An entry says this from now on.
        2 => Fill,
        /// It says nothing until the next fill.
        3 => Invalidate,
    }
}

impl CacheOp {
    /// Bytes of its header.
    pub const fn header_bytes(self) -> usize {
        match self {
            CacheOp::Read => Read::BYTES,
            CacheOp::Fill => Fill::BYTES,
            CacheOp::Invalidate => Invalidate::BYTES,
        }
    }
}

codes! {
    /// What a read is for.
    pub enum Purpose {
        /// To find a name.
        1 => Lookup,
        /// Attributes.
        2 => Stat,
        /// To know what is permitted.
        3 => Access,
        /// To open a file for reading.
        4 => Open,
        /// Generation, cut and size of a file.
        5 => Size,
    }
}

codes! {
    /// What the switch answers.
    pub enum CacheResult {
        /// Read: the shard answers it.
        1 => Miss,
        /// Read: the value is the last level's.
        2 => Answered,
        /// Read: the caller may not.
        3 => Denied,
        /// Fill: the entry says this.
        4 => Filled,
        /// Fill: the entry has this revision or a newer one; nothing was changed.
        5 => NotNewer,
        /// Fill, invalidate: of another epoch; nothing was changed.
        6 => OtherEpoch,
        /// Invalidate: the entry says nothing up to this revision.
        7 => Cleared,
        /// Fill, invalidate: the key has no entry of this number; nothing was changed.
        8 => NotThere,
    }
}

/// A header of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// A read.
    Read(Read),
    /// A fill.
    Fill(Fill),
    /// An invalidate.
    Invalidate(Invalidate),
}

impl Cache {
    /// The first byte of a read.
    pub const READ: u8 = Structure::Cache.code(CacheOp::Read as u8);

    /// What it has in common with all others.
    #[inline]
    pub fn common(&self) -> Common {
        match self {
            Cache::Read(header) => header.common(),
            Cache::Fill(header) => header.common(),
            Cache::Invalidate(header) => header.common(),
        }
    }

    /// Its operation.
    #[inline]
    pub fn op(&self) -> CacheOp {
        match self {
            Cache::Read(_) => CacheOp::Read,
            Cache::Fill(_) => CacheOp::Fill,
            Cache::Invalidate(_) => CacheOp::Invalidate,
        }
    }

    /// What the switch answered; nothing if it did not.
    #[inline]
    pub fn result(&self) -> Option<CacheResult> {
        CacheResult::of_code(self.common().result)
    }

    /// Whether it is a read that goes back to who has asked.
    #[inline]
    pub fn answers(&self) -> bool {
        self.op() == CacheOp::Read && matches!(self.result(), Some(CacheResult::Answered | CacheResult::Denied))
    }

    /// What a read that was answered was answered.
    #[inline]
    pub fn answer(&self) -> Option<EntryValue> {
        match self {
            Cache::Read(read) if self.result() == Some(CacheResult::Answered) => {
                Some(EntryValue::of_bytes(&read.levels.0))
            }
            _ => None,
        }
    }

    pub(super) fn bytes(&self) -> InNetBytes {
        match self {
            Cache::Read(header) => InNetBytes::of(&header.bytes()),
            Cache::Fill(header) => InNetBytes::of(&header.bytes()),
            Cache::Invalidate(header) => InNetBytes::of(&header.bytes()),
        }
    }

    pub(super) fn switched(self, result: u8, destination: u32) -> Cache {
        match self {
            Cache::Read(header) => Cache::Read(Read { result, destination, ..header }),
            Cache::Fill(header) => Cache::Fill(Fill { result, destination, ..header }),
            Cache::Invalidate(header) => Cache::Invalidate(Invalidate { result, destination, ..header }),
        }
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Result<Cache, WireError> {
        let short = |_| WireError::Truncated;
        Ok(match bytes.first().and_then(|code| CacheOp::of_code(code & 0xf)) {
            Some(CacheOp::Read) => Cache::Read(Read::of_bytes(bytes.try_into().map_err(short)?)),
            Some(CacheOp::Fill) => Cache::Fill(Fill::of_bytes(bytes.try_into().map_err(short)?)),
            Some(CacheOp::Invalidate) => Cache::Invalidate(Invalidate::of_bytes(bytes.try_into().map_err(short)?)),
            None => return Err(WireError::Foreign("operation of the cache")),
        })
    }
}

/// Who asks, and where an answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// Node to which an answer goes.
    pub requester: NodeId,
    /// Who asks.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// Which entry a home speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryOf {
    /// Key of the name.
    pub key: u64,
    /// Its token, not 0.
    pub token: u8,
    /// Number of the entry, not 0.
    pub number: u32,
    /// Counts its fills: from 1, below [`REVISION_END`].
    pub revision: u32,
}

impl InNet {
    /// A request that asks the switch on its way to `shard` where these names lead to from `start`, with tokens of this epoch. `wants` are
    /// bits of [`wants`].
    pub fn read(
        cluster: u32,
        epoch: u16,
        (start, levels): (u64, &[(u64, u8)]),
        (purpose, wants): (Purpose, u8),
        asker: Asker,
        shard: NodeId,
    ) -> InNet {
        InNet::Cache(Cache::Read(Read {
            code: Structure::Cache.code(CacheOp::Read as u8),
            epoch,
            version: INNET_VERSION,
            cluster,
            destination: shard.0,
            depth: levels.len() as u8,
            purpose: purpose as u8,
            wants,
            uid: asker.uid,
            gid: asker.gid,
            start,
            requester: asker.requester.0,
            levels: Levels::of(levels),
            ..Read::default()
        }))
    }

    /// What an entry of `home` says from now on; the controller hears what became of it.
    pub fn fill(cluster: u32, epoch: u16, of: EntryOf, value: &EntryValue, home: ShardId, controller: NodeId) -> InNet {
        let code = Structure::Cache.code(CacheOp::Fill as u8);
        let Common { result, version, flags, shard, .. } = of_home(home);
        let EntryOf { key, token, number, revision } = of;
        let (spare_0, spare_1, spare_2, destination) = (0, 0, 0, controller.0);
        let value = value.value();
        let fill = Fill {
            code,
            result,
            epoch,
            version,
            flags,
            shard,
            cluster,
            destination,
            token,
            spare_0,
            spare_1,
            number,
            revision,
            key,
            spare_2,
            value,
        };
        InNet::Cache(Cache::Fill(fill))
    }

    /// An entry of `home` says nothing up to this revision; `home` hears what became of it.
    pub fn invalidate(cluster: u32, epoch: u16, of: EntryOf, home: ShardId) -> InNet {
        let code = Structure::Cache.code(CacheOp::Invalidate as u8);
        let Common { result, version, flags, shard, .. } = of_home(home);
        let EntryOf { key, token, number, revision } = of;
        let (spare_0, spare_1, spare_2, destination) = (0, 0, 0, NodeId::shard(home).0);
        let entry = Invalidate {
            code,
            result,
            epoch,
            version,
            flags,
            shard,
            cluster,
            destination,
            token,
            spare_0,
            spare_1,
            number,
            revision,
            key,
            spare_2,
        };
        InNet::Cache(Cache::Invalidate(entry))
    }
}

/// What all that a home tells the switch begins with.
fn of_home(home: ShardId) -> Common {
    Common { version: INNET_VERSION, shard: home.0, ..Common::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::innet::{INNET_BYTES_MAX, INNET_COMMON_BYTES, InNetField};

    const OF: EntryOf = EntryOf { key: 0x1c1d_1e1f_2021_2223, token: 9, number: 0x1415_1617, revision: 0x1819_1a1b };

    fn side_by_side(fields: &[InNetField], bytes: usize) {
        let mut next = 0;
        for field in fields {
            assert_eq!(field.at, next, "{}", field.name);
            assert_eq!(field.at % field.bytes.min(4), 0, "{} is aligned", field.name);
            next = field.at + field.bytes;
        }
        assert_eq!(next, bytes);
    }

    #[test]
    fn fields_lie_side_by_side_and_fill_the_header() {
        for (fields, bytes) in [(Read::FIELDS, 124), (Fill::FIELDS, 124), (Invalidate::FIELDS, 40)] {
            side_by_side(fields, bytes);
            let (common, own) = fields.split_at(Common::FIELDS.len());
            assert_eq!((common, own[0].at), (Common::FIELDS, INNET_COMMON_BYTES));
        }
        side_by_side(EntryValue::FIELDS, VALUE_BYTES);
        assert_eq!(INNET_BYTES_MAX, 124, "a request and its answer have the length of the longest header");
        assert_eq!(Fill::FIELDS[..Invalidate::FIELDS.len()], *Invalidate::FIELDS);
    }

    #[test]
    fn headers_are_in_network_order() {
        let value = EntryValue::of_bytes(&std::array::from_fn(|at| at as u8 + 0x28));
        let fill = InNet::fill(0x0809_0a0b, 0x0203, OF, &value, ShardId(0x0607), NodeId(0x0c0d_0e0f));
        let expected: Vec<u8> = (0..124)
            .map(|at| match at {
                0 => 0x32,
                1 | 5 | 17..20 | 36..40 => 0,
                4 => 1,
                16 => 9,
                at => at,
            })
            .collect();
        assert_eq!(fill.bytes()[..], expected);
        let invalidate = InNet::invalidate(0x0809_0a0b, 0x0203, OF, ShardId(0x0607));
        let destination = 0x0100_0607_u32.to_be_bytes();
        let shorter: Vec<u8> = [&[0x33], &expected[1..12], &destination, &expected[16..40]].concat();
        assert_eq!(invalidate.bytes()[..], shorter);
        for header in [fill, invalidate] {
            assert_eq!(InNet::of_bytes(&header.bytes()), Ok(header));
            let payload = [&header.bytes()[..], b"message"].concat();
            assert_eq!(InNet::split(&payload), Ok((header, &b"message"[..])));
            assert_eq!(InNet::split(&payload[..header.bytes().len() - 1]), Err(WireError::Truncated));
        }
        let InNet::Cache(Cache::Fill(fill)) = fill else { panic!("{fill:?}") };
        assert_eq!((fill.entry().key, fill.entry().number), (OF.key, OF.number));
    }

    #[test]
    fn a_read_has_its_levels_and_then_its_answer() {
        let names: Vec<(u64, u8)> = (1..=9).map(|level| (level << 40 | level, level as u8)).collect();
        let asker = Asker { requester: NodeId(0x0300_0001), uid: 5, gid: 6 };
        let read = InNet::read(1, 7, (11, &names), (Purpose::Stat, wants::READ), asker, NodeId::shard(ShardId(2)));
        let InNet::Cache(Cache::Read(header)) = read else { panic!("{read:?}") };
        assert_eq!((header.depth, header.level, header.start, header.uid, header.gid), (9, 0, 11, 5, 6));
        assert_eq!((0..9).map(|level| header.levels.at(level)).collect::<Vec<_>>(), names);
        assert_eq!((header.levels.at(9), header.levels.spare()), ((0, 0), &[0; 3][..]));
        let value = EntryValue { id: 3, size: 4, ..EntryValue::default() };
        let InNet::Cache(read) = read.switched(CacheResult::Miss as u8, 5) else { panic!("{read:?}") };
        assert_eq!((read.result(), read.answer()), (Some(CacheResult::Miss), None));
        let answered = Cache::Read(Read { result: 2, levels: Levels(value.bytes()), ..header });
        assert_eq!((answered.op(), answered.answer()), (CacheOp::Read, Some(value)));
    }

    #[test]
    fn no_operation_of_the_cache_is_no_header() {
        for code in [0x30, 0x34, 0x3f] {
            let mut payload = vec![0; 124];
            (payload[0], payload[4]) = (code, INNET_VERSION);
            assert!(matches!(InNet::of_bytes(&payload), Err(WireError::Foreign(_))), "{code:x}");
            assert!(matches!(InNet::split(&payload), Err(WireError::Foreign(_))), "{code:x}");
        }
    }

    /// To who knows the dirty set alone it is no operation, no answer and no fingerprint.
    #[test]
    fn it_is_no_header_of_the_dirty_set() {
        let cleared = InNet::invalidate(1, 7, OF, ShardId(2)).switched(CacheResult::Cleared as u8, 5);
        assert_eq!((cleared.common().result, cleared.common().destination), (7, 5));
        assert_eq!((cleared.op(), cleared.fingerprint()), (None, None));
    }
}
