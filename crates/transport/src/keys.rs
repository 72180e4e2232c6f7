//! The keys of a cluster: one, or two while one takes the place of the other.

use crate::seal::Key;
use onpath_wire::identity::Identity;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

/// Keys that are valid at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// What is sent to who has not shown which one he has is sealed with it.
    pub first: Key,
    /// What is sealed with it is opened too.
    pub second: Option<Key>,
    /// Keys of clients, by their names: each seals what goes between its client and hosts, and nothing else.
    pub owned: Arc<BTreeMap<u32, OwnedKey>>,
}

/// The key of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedKey {
    /// What people call who has it.
    pub name: Arc<str>,
    /// The key.
    pub key: Key,
    /// As whom alone whoever has it may act; nobody in particular if it allows any.
    pub identity: Option<Identity>,
}

impl Keys {
    /// One key.
    pub fn one(key: Key) -> Keys {
        Keys { first: key, second: None, owned: Arc::default() }
    }

    /// Those that all hosts share.
    pub fn all(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.first).chain(&self.second)
    }

    /// The key of this name, whoever shares it.
    pub(crate) fn named(&self, id: u32) -> Option<&Key> {
        self.all().find(|key| key.id() == id).or_else(|| self.owned.get(&id).map(|owned| &owned.key))
    }
}

/// The keys that an endpoint has at the time, if messages are sealed: all its peers have the same, and hear of others at once. Whether
/// they are sealed never changes.
#[derive(Clone, Debug, Default)]
pub struct Keyring(Option<Arc<Ring>>);

#[derive(Debug)]
struct Ring {
    keys: RwLock<Keys>,
    version: AtomicU64,
}

impl Keyring {
    /// A keyring with these keys, or of an endpoint that seals nothing.
    pub fn new(keys: Option<Keys>) -> Keyring {
        Keyring(keys.map(|keys| Arc::new(Ring { keys: RwLock::new(keys), version: AtomicU64::new(0) })))
    }

    /// Whether messages are sealed.
    #[inline]
    pub fn seals(&self) -> bool {
        self.0.is_some()
    }

    /// The keys of now.
    pub fn keys(&self) -> Option<Keys> {
        self.0.as_ref().map(|ring| ring.keys.read().expect("keys do not panic").clone())
    }

    /// From now on these are the keys; nothing happens where nothing is sealed.
    pub fn set(&self, keys: Keys) {
        if let Some(ring) = &self.0 {
            *ring.keys.write().expect("keys do not panic") = keys;
            ring.version.fetch_add(1, Ordering::Release);
        }
    }

    /// The key of this name; without a name that for who has not shown one.
    pub(crate) fn key(&self, id: Option<u32>) -> Option<Key> {
        let ring = self.0.as_ref()?;
        let keys = ring.keys.read().expect("keys do not panic");
        match id {
            Some(id) => keys.named(id).cloned(),
            None => Some(keys.first.clone()),
        }
    }

    /// The key of a client of this name, if it is one.
    pub fn owned(&self, id: u32) -> Option<OwnedKey> {
        let ring = self.0.as_ref()?;
        ring.keys.read().expect("keys do not panic").owned.get(&id).cloned()
    }

    /// Changes whenever the keys do.
    #[inline]
    pub fn version(&self) -> u64 {
        self.0.as_ref().map_or(0, |ring| ring.version.load(Ordering::Acquire))
    }
}
