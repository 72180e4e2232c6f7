//! What is stored: records of journals, objects of checkpoints, what files begin with.

use crate::memory::for_input;
use onpath_host::checkpoint::Head;
use onpath_wire::disk::block::{
    ChunkImage, DataFileHeader, DataRecord, DroppedImage, FileImage, MapPage, RecordedMerge, ReservedImage, WindowImage,
};
use onpath_wire::disk::inode::Inode;
use onpath_wire::disk::map::MapImage;
use onpath_wire::disk::objects::{
    AttemptsObject, ClockObject, CountObject, DecidedObject, EntryObject, Fact, FurtherObject, LogObject, NameObject,
    PendingObject, PowerLostObject, PreparedObject, ReplyObject, ReservedObject, TrackingObject, UptoObject,
    XattrsObject,
};
use onpath_wire::disk::record::{Member, Record};
use onpath_wire::disk::superblock::Superblock;
use onpath_wire::secrets::Secrets;
use onpath_wire::{Stored, WireError};
use std::fmt::Debug;

/// Reads a value; whether it is one.
type Read = fn(&[u8]) -> bool;

/// All that is stored alone, in the order in which the first byte of an input chooses.
const KINDS: [Read; 33] = [
    again::<Record>,
    again::<DataRecord>,
    again::<Inode>,
    again::<NameObject>,
    again::<EntryObject>,
    again::<XattrsObject>,
    again::<FurtherObject>,
    again::<Fact>,
    again::<CountObject>,
    again::<UptoObject>,
    again::<PendingObject>,
    again::<LogObject>,
    again::<ReplyObject>,
    again::<PreparedObject>,
    again::<DecidedObject>,
    again::<AttemptsObject>,
    again::<PowerLostObject>,
    again::<ClockObject>,
    again::<TrackingObject>,
    again::<ReservedObject>,
    again::<Member>,
    again::<MapImage>,
    again::<FileImage>,
    again::<ChunkImage>,
    again::<ReservedImage>,
    again::<WindowImage>,
    again::<RecordedMerge>,
    again::<DroppedImage>,
    again::<MapPage>,
    again::<DataFileHeader>,
    again::<Head>,
    again::<Superblock>,
    again::<Secrets>,
];

/// The first byte chooses what the others are read as.
pub fn records(input: &[u8]) {
    let Some((&kind, bytes)) = input.split_first() else { return };
    KINDS[usize::from(kind) % KINDS.len()](bytes);
}

/// Whether it is such a value; if so, it can be written and read again. Later fields that may be left out are.
fn again<T: Stored + Debug>(bytes: &[u8]) -> bool {
    let read: Result<T, WireError> = for_input(bytes.len(), || T::from_stored(bytes));
    let Ok(value) = read else { return false };
    let written = value.to_stored();
    let again = T::from_stored(&written).expect("what was read can be written and read again");
    assert_eq!(again.to_stored(), written, "{value:?}");
    true
}
