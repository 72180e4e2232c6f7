//! Sealing of datagrams with a key that the whole cluster shares: AES-128-GCM, with a key of its own for each direction between two
//! endpoints and each start of the sender, made of that key and of what two starts have agreed (`exchange`). The nonce is the datagram's number, which the sender never repeats; the header is
//! authenticated with the rest.

use crate::exchange::Agreed;
use crate::head::{EndpointId, HEAD_BYTES};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use std::fmt;

/// Bytes of the tag at the end of a sealed datagram.
pub const TAG_BYTES: usize = 16;

/// Defines 32 secret bytes: not shown by `Debug`, overwritten when dropped.
macro_rules! hidden {
    ($(#[$m:meta])* $name:ident) => {
        $(#[$m])*
        #[derive(Clone, PartialEq, Eq)]
        pub struct $name([u8; 32]);

        impl $name {
            /// Of 32 random bytes.
            pub fn new(bytes: [u8; 32]) -> $name {
                $name(bytes)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($name), "(…)"))
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                self.0 = [0; 32];
                std::hint::black_box(&self.0);
            }
        }
    };
}
pub(crate) use hidden;

hidden! {
    /// A secret of a cluster.
    Key
}

impl Key {
    /// What datagrams call it: it tells nothing else of it. Never 0.
    pub fn id(&self) -> u32 {
        let prk = Salt::new(HKDF_SHA256, &[]).extract(&self.0);
        let mut id = [0; 4];
        let named = prk.expand(&[b"onpath key name"], IdBytes).and_then(|output| output.fill(&mut id));
        named.expect("a name is shorter than what HKDF gives");
        u32::from_le_bytes(id).max(1)
    }
}

struct IdBytes;

impl KeyType for IdBytes {
    fn len(&self) -> usize {
        4
    }
}

/// Seals or opens what goes from one start of an endpoint to another endpoint.
pub(crate) struct Seal(LessSafeKey);

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal(…)")
    }
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl Seal {
    /// `agreed`: nothing for what leaves before two starts know each other.
    pub(crate) fn new(
        (key, agreed): (&Key, Option<&Agreed>),
        cluster: u32,
        sender: EndpointId,
        boot: u64,
        receiver: EndpointId,
    ) -> Seal {
        let info: [&[u8]; 5] = [
            b"onpath datagram 2",
            &cluster.to_le_bytes(),
            &sender.0.to_le_bytes(),
            &boot.to_le_bytes(),
            &receiver.0.to_le_bytes(),
        ];
        let secret = Salt::new(HKDF_SHA256, agreed.map_or(&[], Agreed::bytes)).extract(&key.0);
        let output = secret.expand(&info, &AES_128_GCM).expect("a key is shorter than what HKDF gives");
        Seal(LessSafeKey::new(UnboundKey::from(output)))
    }

    /// Encrypts all behind the header in place and gives the tag.
    #[inline]
    pub(crate) fn seal(&self, number: u64, datagram: &mut [u8]) -> [u8; TAG_BYTES] {
        let (head, parts) = datagram.split_at_mut(HEAD_BYTES);
        let tag = self.0.seal_in_place_separate_tag(nonce(number), Aad::from(head), parts);
        let tag = tag.expect("a datagram is shorter than what AES-GCM takes");
        *tag.as_ref().first_chunk().expect("16 bytes")
    }

    /// Decrypts in place all behind the header and gives it without the tag; nothing if the tag does not fit.
    #[inline]
    pub(crate) fn open<'a>(&self, number: u64, datagram: &'a mut [u8]) -> Option<&'a [u8]> {
        let (head, parts) = datagram.split_at_mut_checked(HEAD_BYTES)?;
        self.0.open_in_place(nonce(number), Aad::from(head), parts).ok().map(|parts| &*parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> Vec<u8> {
        let key = Key::new(std::array::from_fn(|i| i as u8));
        let mut datagram = vec![7; HEAD_BYTES];
        datagram.extend_from_slice(b"sixteen bytes..!");
        let tag =
            Seal::new((&key, Some(&Agreed::new([9; 32]))), 1, EndpointId(2), 3, EndpointId(4)).seal(5, &mut datagram);
        datagram.extend_from_slice(&tag);
        datagram
    }

    /// Each of the things that a key is derived from matters, and so do number and header.
    #[test]
    fn only_the_same_key_and_number_open() {
        let key = Key::new(std::array::from_fn(|i| i as u8));
        let open = |key: &Key, cluster, sender, boot, receiver, number| {
            let agreed = Agreed::new([9; 32]);
            let mut datagram = sealed();
            let seal = Seal::new((key, Some(&agreed)), cluster, EndpointId(sender), boot, EndpointId(receiver));
            seal.open(number, &mut datagram).map(<[u8]>::to_vec)
        };
        assert_eq!(open(&key, 1, 2, 3, 4, 5).as_deref(), Some(&b"sixteen bytes..!"[..]));
        assert_eq!(open(&Key::new([0; 32]), 1, 2, 3, 4, 5), None);
        for (cluster, sender, boot, receiver, number) in
            [(9, 2, 3, 4, 5), (1, 9, 3, 4, 5), (1, 2, 9, 4, 5), (1, 2, 3, 9, 5), (1, 2, 3, 4, 9), (1, 4, 3, 2, 5)]
        {
            assert_eq!(open(&key, cluster, sender, boot, receiver, number), None);
        }
        for agreed in [None, Some(Agreed::new([8; 32]))] {
            let seal = Seal::new((&key, agreed.as_ref()), 1, EndpointId(2), 3, EndpointId(4));
            assert!(seal.open(5, &mut sealed()).is_none(), "another exchange");
        }
    }

    /// Other versions of Onpath must derive and seal the same.
    #[test]
    fn sealing_is_frozen() {
        let hex: String = sealed()[HEAD_BYTES..].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, FROZEN);
        assert_eq!(format!("{:?}", Key::new([1; 32])), "Key(…)");
    }
    const FROZEN: &str = "6c201d4bcb533a394dbfced2c9aab746b4f4105cf6a9258ab5f03e89fbe0efca";
}
