//! The two secrets of a file system, and the keyed hashes that they make (design.md, "Secrets"). Both are drawn at format and never change.
//!
//! *Placement* says at which slot a name is. Clients know it, since they route by it. *Inner* keys the tables of names and the order of
//! listings, and no client knows it: who knows placement can aim names at a shard, but cannot make them collide inside. So only
//! [`Placement`] is part of messages: [`Inner`] is [`Stored`](crate::disk::Stored) and not [`Wire`].
//!
//! ```compile_fail,E0277
//! onpath_wire::wire_struct! {
//!     /// A message that tells the inner secret.
//!     pub struct Told {
//!         /// No such field.
//!         pub inner: onpath_wire::secrets::Inner,
//!     }
//! }
//! ```
//!
//! ```
//! onpath_wire::wire_struct! {
//!     /// One that tells placement.
//!     pub struct Told {
//!         /// A client routes by it.
//!         pub placement: onpath_wire::secrets::Placement,
//!     }
//! }
//! ```

use crate::codec::{Reader, Wire, WireError};
use crate::identity::Holder;
use crate::ids::{Cookie, InodeId, SessionNumber, ShardId, Slot, Term, TrackingEpoch};
use crate::innet::Fingerprint;
use crate::ticket::Ticket;
use crate::{stored_struct, wire_struct};
use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::fmt;
use std::hash::Hasher;
use thiserror::Error;

/// Bytes of a secret, and of a key that is made of one.
pub const SECRET_BYTES: usize = 16;

/// Zeros are what an empty file or a forgotten field has: nobody draws them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("a secret of zeros is none")]
pub struct ZeroSecret;

/// Defines bytes that nobody prints.
macro_rules! hidden {
    ($(#[$m:meta])* $name:ident) => {
        $(#[$m])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct $name([u8; SECRET_BYTES]);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(hidden)"))
            }
        }
    };
}

/// Defines a secret: drawn bytes that are not all zero.
macro_rules! secret {
    ($(#[$m:meta])* $name:ident) => {
        hidden! { $(#[$m])* $name }

        impl $name {
            /// The secret of these bytes.
            pub fn new(bytes: [u8; SECRET_BYTES]) -> Result<$name, ZeroSecret> {
                if bytes == [0; SECRET_BYTES] { Err(ZeroSecret) } else { Ok($name(bytes)) }
            }

            /// Its bytes, for the file in which it is kept.
            pub fn reveal(&self) -> [u8; SECRET_BYTES] {
                self.0
            }

            pub(crate) fn read(r: &mut Reader<'_>) -> Result<$name, WireError> {
                $name::new(r.array()?).map_err(|_| WireError::Bad("secret of zeros"))
            }
        }
    };
}

secret! {
    /// Says at which slot a name is. Known to hosts and clients.
    Placement
}

secret! {
    /// What keys inside of shards are made of. Known to hosts alone.
    Inner
}

hidden! {
    /// Key of the tables of names, and of their locks.
    NameKey
}

hidden! {
    /// Key of the order of listings.
    CookieKey
}

hidden! {
    /// Key of what a shard knows its marks by (R-6).
    MarkKey
}

hidden! {
    /// Key of the [`Pass`]es of sessions.
    PassKey
}

hidden! {
    /// Key of the [`Ticket`]s of open files, and of what data nodes leave in tables of switches: homes and data nodes have it.
    TicketKey
}

wire_struct! {
    /// What a client is given with its session, and shows to each host: hosts of one file system know by it, without asking each other, that
    /// the session was given by them. Who guesses one has a chance of 2^-128.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Pass {
        /// The session; none where the coordinator is another host.
        pub session: SessionNumber,
        /// Whose it is.
        pub holder: Holder,
        /// A keyed hash of both.
        pub low: u64,
        /// The rest of that.
        pub high: u64,
    }
}

stored_struct! {
    /// The pair that a file system has.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Secrets {
        /// What clients know too.
        pub placement: Placement,
        /// What they do not.
        pub inner: Inner,
    }
}

/// SipHash-1-3 of `(parent, name)`: the parent has eight bytes, so no two pairs are hashed alike.
#[inline]
fn hash_of(key: &[u8; SECRET_BYTES], parent: InodeId, name: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_key(key);
    hasher.write_u64(parent.0);
    hasher.write(name);
    hasher.finish()
}

/// A key of its own for each purpose: who learns one learns nothing of another, or of the secret.
fn derived(secret: &[u8; SECRET_BYTES], purpose: &[u8]) -> [u8; SECRET_BYTES] {
    let mut hasher = SipHasher24::new_with_key(secret);
    hasher.write(purpose);
    u128::from(hasher.finish128()).to_le_bytes()
}

impl Placement {
    /// 64-bit hash of `(parent, name)`, of which the slot is the top.
    #[inline]
    pub fn hash(&self, parent: InodeId, name: &[u8]) -> u64 {
        hash_of(&self.0, parent, name)
    }

    /// By what a switch knows a name (C-1): not 0, which is the root's own.
    pub fn cache_key(&self, parent: InodeId, name: &[u8]) -> u64 {
        self.hash(parent, name).max(1)
    }

    /// The slot at which a name lives (`spread` = 1).
    #[inline]
    pub fn site(&self, parent: InodeId, name: &[u8]) -> Slot {
        Slot((self.hash(parent, name) >> 48) as u16)
    }
}

impl Wire for Placement {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        Placement::read(r)
    }
}

impl Inner {
    /// The key of the tables of names.
    pub fn names(&self) -> NameKey {
        NameKey(derived(&self.0, b"tables of names"))
    }

    /// The key of the passes of sessions.
    pub fn passes(&self) -> PassKey {
        PassKey(derived(&self.0, b"passes of sessions"))
    }

    /// The key of the tickets of open files.
    pub fn tickets(&self) -> TicketKey {
        TicketKey(derived(&self.0, b"tickets of files"))
    }

    /// The key of the order of listings.
    pub fn listings(&self) -> CookieKey {
        CookieKey(derived(&self.0, b"order of listings"))
    }

    /// The key of marks.
    pub fn marks(&self) -> MarkKey {
        MarkKey(derived(&self.0, b"marks"))
    }
}

impl NameKey {
    /// 64-bit hash of `(parent, name)`.
    #[inline]
    pub fn hash(&self, parent: InodeId, name: &[u8]) -> u64 {
        hash_of(&self.0, parent, name)
    }
}

impl MarkKey {
    /// What a mark has with it, so that only who sent it knows what its acknowledgement has.
    pub fn token(
        &self,
        (shard, term, generation): (ShardId, Term, u32),
        epoch: TrackingEpoch,
        group: Fingerprint,
    ) -> u32 {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write_u64(u64::from(shard.0) << 48 | u64::from(epoch.0) << 32 | u64::from(term.0));
        hasher.write_u64(u64::from(group.tag()) << 32 | u64::from(generation));
        hasher.write_u32(group.index());
        (hasher.finish() >> 32) as u32
    }
}

impl TicketKey {
    /// The hash of what a table says of pending writes. It is not as long as what a ticket says, so neither stands for the other.
    pub(crate) fn hash_of_pending(&self, bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(bytes);
        u128::from(hasher.finish128()) as u64
    }

    /// The hash of what a ticket of that session says.
    pub(crate) fn hash(&self, session: SessionNumber, ticket: &Ticket) -> u64 {
        let Ticket { data, cut, rights, until_s, .. } = *ticket;
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write_u64(session.0);
        hasher.write_u64(data.inode.0);
        hasher.write_u64(data.generation.0);
        hasher.write_u64(u64::from(cut) << 32 | u64::from(until_s));
        hasher.write_u8(rights);
        u128::from(hasher.finish128()) as u64
    }
}

impl PassKey {
    /// The pass of a session.
    pub fn pass(&self, session: SessionNumber, holder: Holder) -> Pass {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write_u64(session.0);
        hasher.write(&holder.to_bytes());
        let hash = u128::from(hasher.finish128());
        Pass { session, holder, low: hash as u64, high: (hash >> 64) as u64 }
    }

    /// Whether a pass was made with this key.
    pub fn gave(&self, pass: &Pass) -> bool {
        self.pass(pass.session, pass.holder) == *pass
    }
}

impl CookieKey {
    /// The first candidate for the cookie of `name`: its 47-bit hash, 0 becoming 1.
    pub fn cookie(&self, name: &[u8]) -> Cookie {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write(name);
        Cookie::of_hash((hasher.finish() >> 17).max(1))
    }
}

impl Secrets {
    /// Those of a simulation, a measurement or a test: the same of the same seed.
    pub fn of_seed(seed: u64) -> Secrets {
        let of = |what: &[u8]| {
            let mut bytes = derived(&(u128::from(seed) << 64 | 1).to_le_bytes(), what);
            bytes[0] |= 1; // not all zero
            bytes
        };
        Secrets { placement: Placement(of(b"placement")), inner: Inner(of(b"inner")) }
    }

    /// By this hosts notice that they have not the same ones; it tells nothing of either. Never 0.
    pub fn digest(&self) -> u64 {
        let bytes = derived(&self.inner.0, &[b"which secrets", &self.placement.0[..]].concat());
        u64::from_le_bytes(*bytes.first_chunk().expect("sixteen bytes")).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Stored;

    const BYTES: [u8; SECRET_BYTES] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

    fn secrets() -> Secrets {
        Secrets { placement: Placement::new(BYTES).unwrap(), inner: Inner::new(BYTES).unwrap() }
    }

    /// These values are part of the on-disk format: a change makes every existing file system unreadable.
    #[test]
    fn hashes_are_frozen() {
        let Secrets { placement, inner } = secrets();
        for (name, slot, in_table, cookie) in FROZEN {
            let hash = placement.hash(InodeId(0x1122_3344_5566_7788), name);
            assert_eq!(hash, slot, "{name:?}");
            assert_eq!(placement.site(InodeId(0x1122_3344_5566_7788), name), Slot((slot >> 48) as u16));
            assert_eq!(inner.names().hash(InodeId(0x1122_3344_5566_7788), name), in_table, "{name:?}");
            assert_eq!(inner.listings().cookie(name).0, cookie, "{name:?}");
        }
        assert_eq!(secrets().digest(), FROZEN_DIGEST);
    }
    const FROZEN: [(&[u8], u64, u64, u64); 3] = [
        (b"a", 0xfb47_87a2_7028_ccdb, 0xa775_ae1c_0163_fa8a, 0x4d7c_23be_90ab << 15),
        (b"hello.txt", 0xd1f9_8052_79ae_fe4d, 0x40c9_545d_d3ea_b96c, 0x2697_8fa2_b0bc << 15),
        (&[b'x'; 255], 0x673f_defe_e20a_2e8a, 0xa0ba_7eaf_e966_546f, 0x14ee_083e_1b53 << 15),
    ];
    const FROZEN_DIGEST: u64 = 0x0ccb_dd5b_1a49_abd8;

    #[test]
    fn a_key_says_nothing_of_another() {
        let Secrets { placement, inner } = secrets();
        // Both secrets have the same bytes here, and still no key is another's.
        let keys = [
            placement.0,
            inner.0,
            inner.names().0,
            inner.listings().0,
            inner.marks().0,
            inner.passes().0,
            inner.tickets().0,
        ];
        for (at, key) in keys.iter().enumerate().skip(2) {
            assert!(!keys[..at].contains(key), "key {at}");
        }
        let name = |n: u32| n.to_le_bytes();
        let (of, other) = (InodeId(7), InodeId(8));
        let same = (0..4096).filter(|&n| placement.hash(of, &name(n)) == inner.names().hash(of, &name(n)));
        assert_eq!(same.count(), 0);
        let same = (0..4096).filter(|&n| inner.names().hash(of, &name(n)) == inner.names().hash(other, &name(n)));
        assert_eq!(same.count(), 0);
        // Names of one slot are spread over a table all the same.
        let of_slot = (0..).filter(|&n| placement.site(of, &name(n)).0 >> 8 == 5).take(4096);
        let tags: std::collections::BTreeSet<u64> =
            of_slot.map(|n| inner.names().hash(of, &name(n)) & 0xffff).collect();
        assert!(tags.len() > 3_800, "{} of about 3,970", tags.len());
        // And so are names that are chosen by what listings tell of them, or all of whose inodes' ids tell the same slot.
        let listed = inner.listings();
        let chosen =
            (0..).filter(|&n| listed.cookie(&name(n)).hash47() % 64 == 5 && placement.site(of, &name(n)).0 % 4 == 3);
        let tags: std::collections::BTreeSet<u64> =
            chosen.take(4096).map(|n| inner.names().hash(of, &name(n)) & 0xffff).collect();
        assert!(tags.len() > 3_800, "{} of about 3,970", tags.len());
    }

    #[test]
    fn a_token_is_of_one_mark() {
        let (key, group) = (secrets().inner.marks(), |index, tag| Fingerprint::new(index, tag).unwrap());
        let of = |shard, term, generation, epoch, group| {
            key.token((ShardId(shard), Term(term), generation), TrackingEpoch(epoch), group)
        };
        let all = [
            of(1, 2, 3, 4, group(5, 6)),
            of(2, 2, 3, 4, group(5, 6)),
            of(1, 3, 3, 4, group(5, 6)),
            of(1, 2, 4, 4, group(5, 6)),
            of(1, 2, 3, 5, group(5, 6)),
            of(1, 2, 3, 4, group(6, 6)),
            of(1, 2, 3, 4, group(5, 7)),
            Secrets::of_seed(1).inner.marks().token((ShardId(1), Term(2), 3), TrackingEpoch(4), group(5, 6)),
        ];
        assert_eq!(std::collections::BTreeSet::from(all).len(), all.len());
        assert_eq!(all[0], of(1, 2, 3, 4, group(5, 6)));
    }

    #[test]
    fn a_pass_is_of_one_session_and_one_file_system() {
        let (one, other) = (Secrets::of_seed(1).inner.passes(), Secrets::of_seed(2).inner.passes());
        let all = Holder::Anybody;
        let [a, b] = [SessionNumber(1), SessionNumber(1 << 24 | 1)].map(|session| one.pass(session, all));
        assert!(one.pass(SessionNumber(1), all) == a && one.gave(&a) && one.gave(&b));
        assert!(a.low != b.low && a.high != b.high, "the next session of that id has another one");
        assert!(!other.gave(&a));
        let holders = [all, Holder::Key { id: 1 }, Holder::Key { id: 2 }, Holder::User { uid: 1 }];
        for of in holders {
            let pass = one.pass(SessionNumber(1), of);
            let lies = holders.iter().filter(|&&holder| one.gave(&Pass { holder, ..pass }));
            assert!(lies.eq([&of]), "{of:?}");
        }
    }

    #[test]
    fn zeros_are_no_secret() {
        assert_eq!(Placement::new([0; SECRET_BYTES]), Err(ZeroSecret));
        assert_eq!(Inner::new([0; SECRET_BYTES]), Err(ZeroSecret));
        assert_eq!(Placement::from_bytes(&[0; SECRET_BYTES]), Err(WireError::Bad("secret of zeros")));
        let mut stored = secrets().to_stored();
        assert_eq!(Secrets::from_stored(&stored), Ok(secrets()));
        stored[SECRET_BYTES..2 * SECRET_BYTES].fill(0);
        assert_eq!(Secrets::from_stored(&stored), Err(WireError::Bad("secret of zeros")));
    }

    #[test]
    fn nobody_prints_them() {
        let Secrets { inner, .. } = secrets();
        let shown = format!("{:?} {:?}", secrets(), (inner.names(), inner.listings(), inner.marks(), inner.passes()));
        assert_eq!(
            shown,
            "Secrets { placement: Placement(hidden), inner: Inner(hidden) } \
             (NameKey(hidden), CookieKey(hidden), MarkKey(hidden), PassKey(hidden))"
        );
    }

    #[test]
    fn seeds_and_pairs_differ() {
        let [one, other] = [1, 2].map(Secrets::of_seed);
        assert_eq!(one, Secrets::of_seed(1));
        assert!(one.placement != other.placement && one.inner != other.inner && one.placement.0 != one.inner.0);
        let mixed = Secrets { placement: one.placement, inner: other.inner };
        let digests = [one, other, mixed].map(|pair| pair.digest());
        assert!(digests[0] != digests[1] && digests[1] != digests[2] && digests[0] != digests[2]);
    }
}
