//! Messages whose parts contradict each other.

use super::*;
use crate::codec::{Wire, WireError};
use crate::ids::{Birth, Cookie, Slot};
use crate::reply::DirEntry;

/// Everything that is said with the type of an inode, by whichever message it comes, as an inode of this number and type.
fn all_said(child: InodeId, kind: Kind) -> Vec<Result<(), WireError>> {
    fn read<T: Wire>(value: T) -> Result<(), WireError> {
        T::from_bytes(&value.to_bytes()).map(|_| ())
    }
    let (parent, to, name) = (InodeId::ROOT, InodeId::ROOT, Name::new(b"n").expect("a name"));
    let entry =
        LogEntry { seq: LogSeq(1), stamp: Stamp(1), put: true, name: name.clone(), child, kind, dcount: 1, dnlink: 0 };
    let to_name = name.clone();
    vec![
        read(entry),
        read(DirEntry { child, kind, cookie: Cookie(3), name: name.clone() }),
        read(PartState::Source { child, kind, sticky: None }),
        read(TxnPart::Swap { parent, name, to, to_name, unless: None, child, kind }),
    ]
}

#[test]
fn a_type_that_the_number_contradicts_is_refused() {
    let born = |kind| InodeId::new(Slot(7), Birth(1), 1, kind);
    for (of, told) in [(Kind::File, Kind::Directory), (Kind::Directory, Kind::File)] {
        assert!(all_said(born(of), of).iter().all(Result::is_ok));
        assert!(all_said(born(of), told).iter().all(|read| matches!(read, Err(WireError::Bad(_)))));
    }
}
