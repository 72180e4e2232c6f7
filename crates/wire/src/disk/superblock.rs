//! The superblock of a DIR: identity, version and shape of a file system (design.md, "Durability").

use crate::codec::{Reader, Wire};
use crate::ids::{NodeClass, NodeId, ShardId};
use crate::map::ClusterMap;
use crate::secrets::Secrets;
use crate::stored_struct;
use std::fmt;

/// "Onpath01", little-endian.
pub const SUPERBLOCK_MAGIC: u64 = u64::from_le_bytes(*b"Onpath01");
/// Version of all on-disk layouts written by this program.
pub const FORMAT_VERSION: u32 = 2;
/// Feature of the DIR of a host of a cluster.
pub const FEATURE_PART: u64 = 1;
/// Feature bits that this program knows.
pub const FEATURES_KNOWN: u64 = FEATURE_PART;

/// What superblocks and data files begin with. It keeps its place in every version, so that others can be told by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStart {
    /// What kind of file it is.
    pub magic: u64,
    /// [`FORMAT_VERSION`].
    pub version: u32,
    /// Feature bits; an unknown one is refused.
    pub features: u64,
}

impl FileStart {
    /// That of a file; `None` if there are too few bytes.
    pub fn of(bytes: &[u8]) -> Option<FileStart> {
        let mut r = Reader::new(bytes);
        Some(FileStart {
            magic: u64::take(&mut r).ok()?,
            version: u32::take(&mut r).ok()?,
            features: u64::take(&mut r).ok()?,
        })
    }
}

stored_struct! {
    /// Which journal of which file system a file belongs to. It is in the heads of segments, checkpoints and data files.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct JournalId {
        /// Identity of the file system.
        pub fsid: u64,
        /// Number of the journal, which its directory is named after; from 1 on.
        pub number: u32,
        /// Drawn when the journal was made: one that is made anew under the same number is another.
        pub created: u64,
    }
}

impl fmt::Display for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "journal {} ({:016x}) of file system {:016x}", self.number, self.created, self.fsid)
    }
}

stored_struct! {
    /// A role whose records are in a journal.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RoleEntry {
        /// Its address.
        pub node: NodeId,
        /// How often it has moved to another journal.
        pub generation: u32,
    }
}

stored_struct! {
    /// A journal of a DIR, with the checkpoint and the data files of its roles: the unit that is copied and moved.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct JournalEntry {
        /// Its number, which its directory is named after; from 1 on.
        pub number: u32,
        /// See [`JournalId::created`].
        pub created: u64,
        /// How many copies of it there shall be, this one among them.
        pub copies: u8,
        /// Terms below this are taken (durably, before the first record of a start can be written).
        pub next_term: u32,
        /// Whose records it has, in order of their addresses.
        pub roles: Vec<RoleEntry>,
    }
}

impl JournalEntry {
    /// The shards of the journal, in order.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> + '_ {
        self.roles.iter().filter_map(|role| role.node.as_shard())
    }

    /// The number of its data node.
    pub fn data_node(&self) -> Option<u16> {
        let data = self.roles.iter().find(|role| role.node.class() == Some(NodeClass::Data));
        data.map(|role| role.node.number() as u16)
    }
}

/// Number of the journal of a host.
pub fn journal_of_host(host: u16) -> u32 {
    u32::from(host) + 1
}

stored_struct! {
    /// Contents of the superblock; followed on disk by a CRC-32C of its bytes.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Superblock {
        /// [`SUPERBLOCK_MAGIC`].
        pub magic: u64,
        /// [`FORMAT_VERSION`].
        pub version: u32,
        /// Feature bits; an unknown one is refused.
        pub features: u64,
        /// Identity of the file system.
        pub fsid: u64,
        /// Identity of this DIR, drawn when it was formatted.
        pub dir: u64,
        /// Number of the host whose DIR it is; 0 of the only one.
        pub host: u16,
        /// Numbers of the hosts of all shards of the file system, in order; `onpath reshape` changes how many there are.
        pub shard_hosts: Vec<u16>,
        /// Numbers of all data nodes among which files are spread, in order; never empty.
        pub data_nodes: Vec<u16>,
        /// The secrets, which never change.
        pub secrets: Secrets,
        /// The journals of this DIR, in order of their numbers.
        pub journals: Vec<JournalEntry>,
        /// When it was formatted, ns since 1970.
        pub formatted: u64,
    }
}

impl Superblock {
    /// Number of shards of the file system.
    pub fn shards(&self) -> u16 {
        self.shard_hosts.len() as u16
    }

    /// The map of the file system.
    pub fn map(&self) -> ClusterMap {
        let shards = self.shard_hosts.iter().zip(0..).map(|(&host, shard)| (NodeId::shard(ShardId(shard)), host));
        let data = self.data_nodes.iter().map(|&host| (NodeId::data(host), host));
        let journals: Vec<_> = shards.chain(data).map(|(role, host)| (role, journal_of_host(host))).collect();
        ClusterMap::even(self.shards(), self.secrets.placement)
            .with_data_nodes(&self.data_nodes)
            .with_journals(&journals)
    }

    /// Whether it is the DIR of a host of a cluster; else it holds a whole file system.
    pub fn is_part(&self) -> bool {
        self.features & FEATURE_PART != 0
    }

    /// The only journal of a DIR. Reading a superblock with none or several fails.
    pub fn journal(&self) -> &JournalEntry {
        &self.journals[0]
    }

    /// Names the files of the only journal.
    pub fn journal_id(&self) -> JournalId {
        let JournalEntry { number, created, .. } = *self.journal();
        JournalId { fsid: self.fsid, number, created }
    }
}
