//! What a data node leaves in the visibility table of a switch (V-8), and by what homes know that no one else has said it (V-15).

use super::Answered;
use crate::codec::{Reader, Wire, WireError};
use crate::ids::{RequestSeq, SessionId};
use crate::innet::{METADATA_BYTES, Metadata};
use crate::secrets::TicketKey;
use crate::wire_struct;

wire_struct! {
    /// What a data node leaves in the visibility table of a switch with a write that it answers (V-8).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Pending {
        /// All answered writes of the file that its home has yet to learn: they are of one cut.
        pub writes: Answered,
        /// Who is answered.
        pub session: SessionId,
        /// Its request.
        pub request: RequestSeq,
    }
}

impl Pending {
    /// As the table keeps it: behind the message there is a keyed hash of it, and then zeros.
    pub fn metadata(&self, key: &TicketKey) -> Metadata {
        let (mut bytes, mut encoded) = ([0; METADATA_BYTES], Vec::with_capacity(METADATA_BYTES));
        self.put(&mut encoded);
        key.hash_of_pending(&encoded).put(&mut encoded);
        bytes[..encoded.len()].copy_from_slice(&encoded);
        Metadata(bytes)
    }

    /// What a table has told.
    ///
    /// # Errors
    /// As of [`Pending::unproven`], or no data node of this file system has said it.
    pub fn of(metadata: &Metadata, key: &TicketKey) -> Result<Pending, WireError> {
        let pending = Pending::unproven(metadata)?;
        if pending.metadata(key) == *metadata { Ok(pending) } else { Err(WireError::Bad("hash of pending writes")) }
    }

    /// The same, whoever has said it.
    ///
    /// # Errors
    /// No such message, something other than zeros behind it and its hash, or more bytes or blocks than a file has.
    pub fn unproven(metadata: &Metadata) -> Result<Pending, WireError> {
        let mut r = Reader::new(&metadata.0);
        let pending = Pending::take(&mut r)?;
        u64::take(&mut r)?;
        let rest = r.bytes(r.remaining())?;
        if rest.iter().any(|&byte| byte != 0) || !pending.writes.can_be_true() {
            return Err(WireError::Bad("pending writes of a file"));
        }
        Ok(pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{DataId, Generation, InodeId, LogSeq, Stamp};
    use crate::limits::{BLOCK_BYTES, FILE_BYTES_MAX};
    use crate::secrets::Secrets;

    #[test]
    fn pending_writes_are_believed_of_who_has_the_key() {
        let [key, other] = [1, 2].map(|seed| Secrets::of_seed(seed).inner.tickets());
        let data = DataId { inode: InodeId(7), generation: Generation(u64::MAX) };
        let (cut, end, blocks, version) = (u32::MAX, FILE_BYTES_MAX, FILE_BYTES_MAX / BLOCK_BYTES, u64::MAX);
        let (last, stamp) = (LogSeq(u64::MAX), Stamp(u64::MAX));
        let writes = Answered { data, cut, end, blocks, version, kill_suidgid: true, last, stamp };
        let pending = Pending { writes, session: SessionId(7), request: RequestSeq(u64::MAX) };
        let metadata = pending.metadata(&key);
        assert_eq!(Pending::of(&metadata, &key), Ok(pending));
        assert!(Pending::of(&metadata, &other).is_err() && Pending::of(&Metadata::default(), &key).is_err());
        for bit in 0..8 * METADATA_BYTES {
            let mut lie = metadata;
            lie.0[bit / 8] ^= 1 << (bit % 8);
            assert!(Pending::of(&lie, &key).is_err(), "bit {bit}");
        }
    }
}
