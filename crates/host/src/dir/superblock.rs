//! The superblock of a DIR: written, read and checked.

use super::{DirError, at, replace_file};
use crate::held;
use onpath_wire::checksum::crc32c;
use onpath_wire::disk::Stored;
use onpath_wire::disk::superblock::{
    FEATURES_KNOWN, FORMAT_VERSION, FileStart, RoleEntry, SUPERBLOCK_MAGIC, Superblock, journal_of_host,
};
use onpath_wire::ids::{NodeId, ShardId};
use onpath_wire::limits::SHARDS_MAX;
use std::io;
use std::path::Path;

/// The shards at a host.
pub(super) fn shards_at(shard_hosts: &[u16], host: u16) -> impl Iterator<Item = u16> + '_ {
    shard_hosts.iter().zip(0..).filter(move |(at, _)| **at == host).map(|(_, shard)| shard)
}

/// The roles of a host, in order of their addresses.
pub(super) fn roles(shard_hosts: &[u16], host: u16) -> Vec<RoleEntry> {
    let shards = shards_at(shard_hosts, host).map(|shard| NodeId::shard(ShardId(shard)));
    let all = shards.chain([NodeId::data(host)]);
    all.map(|node| RoleEntry { node, generation: 1 }).collect()
}

/// Replaces the superblock of a DIR.
pub(super) fn write_superblock(path: &Path, superblock: &Superblock) -> Result<(), DirError> {
    let mut bytes = superblock.to_stored();
    bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
    replace_file(path, "superblock", &bytes).map_err(|(file, source)| at(&file, "write")(source))
}

/// Reads and checks the superblock of a DIR that holds a whole file system, without locking it.
pub fn read_superblock(path: &Path) -> Result<Superblock, DirError> {
    let superblock = read(path)?;
    if superblock.is_part() { Err(DirError::Part { path: path.to_owned() }) } else { Ok(superblock) }
}

/// Whether a DIR is known to hold a part of a file system of several hosts.
pub(crate) fn is_part(path: &Path) -> bool {
    read(path).is_ok_and(|superblock| superblock.is_part())
}

/// Reads and checks the superblock of a DIR.
pub(super) fn read(path: &Path) -> Result<Superblock, DirError> {
    let name = path.join("superblock");
    let bytes = match held::read(&name) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Err(DirError::NotOnpath { path: path.to_owned() });
        }
        other => other.map_err(at(&name, "read"))?,
    };
    parse(path, &bytes)
}

/// Checks what the superblock of the DIR `path` has.
pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Superblock, DirError> {
    let damaged = |why: String| DirError::Superblock { path: path.join("superblock"), why };
    let Some(FileStart { magic, version, features }) = FileStart::of(bytes) else {
        return Err(damaged(format!("{} bytes are too few", bytes.len())));
    };
    if magic != SUPERBLOCK_MAGIC {
        return Err(damaged("it does not begin with Onpath's magic number".into()));
    }
    if version != FORMAT_VERSION {
        return Err(DirError::Version { path: path.to_owned(), found: version });
    }
    if features & !FEATURES_KNOWN != 0 {
        return Err(DirError::Features { path: path.to_owned(), unknown: features & !FEATURES_KNOWN, version });
    }
    let (body, crc) = bytes.split_last_chunk::<4>().expect("longer than 20 bytes");
    if crc32c(body) != u32::from_le_bytes(*crc) {
        return Err(damaged("checksum mismatch".into()));
    }
    let superblock = Superblock::from_stored(body).map_err(|error| damaged(error.to_string()))?;
    match contradiction(&superblock) {
        Some(why) => Err(damaged(why)),
        None => Ok(superblock),
    }
}

/// What a superblock says that cannot be, or that this program does not run.
fn contradiction(superblock: &Superblock) -> Option<String> {
    let Superblock { shard_hosts, data_nodes, journals, host, .. } = superblock;
    let [journal] = &journals[..] else {
        return Some(format!("it has {} journals, and this onpath runs one", journals.len()));
    };
    let shards = shard_hosts.len();
    let others = !superblock.is_part() && shard_hosts.iter().chain(data_nodes).any(|at| at != host);
    let here = shards_at(shard_hosts, *host).map(|shard| NodeId::shard(ShardId(shard))).chain([NodeId::data(*host)]);
    Some(match () {
        () if !(1..=usize::from(SHARDS_MAX)).contains(&shards) => format!("{shards} shards"),
        () if journal.copies != 1 => format!("its journal has {} copies, and this onpath keeps one", journal.copies),
        () if journal.number != journal_of_host(*host) => "its journal's number is not its host's".into(),
        () if journal.next_term == 0 => "its journal is in term 0".into(),
        () if others => "it holds all of the file system, and names other hosts".into(),
        () if !journal.roles.iter().map(|role| role.node).eq(here) => "its journal's roles are not its host's".into(),
        () if data_nodes.is_empty() || !data_nodes.is_sorted_by(|one, other| one < other) => {
            format!("files are spread over data nodes {data_nodes:?}")
        }
        () => return None,
    })
}
