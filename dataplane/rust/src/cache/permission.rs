//! Whether a caller may pass a level, and do what it wants of the last (D-83 to D-90).

use crate::common::planted::{Planted, planted};
use onpath_wire::innet::cache::{EntryValue, Purpose, Read, wants};
use onpath_wire::inode::Kind;

/// What the value of a level says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The level is passed.
    Passed,
    /// The caller may not.
    Denied,
    /// The switch cannot tell.
    Unknown,
}

/// D-83 to D-90: of a level, the last or not.
#[inline]
pub(crate) fn judge(read: &Read, value: &EntryValue, last: bool) -> Verdict {
    let child = value.parent == read.start || planted(Planted::D83);
    let fits = if last { answers(read, value.kind) } else { leads_on(value) };
    if !child || !fits {
        return Verdict::Unknown;
    }
    may(read, value, if last { wanted(read) } else { wants::EXEC })
}

/// D-84.
#[inline]
fn leads_on(value: &EntryValue) -> bool {
    (is_directory(value.kind) || planted(Planted::D84)) && value.id != 0
}

#[inline]
fn is_directory(kind: u8) -> bool {
    kind == Kind::Directory.d_type()
}

/// D-89.
#[inline]
fn wanted(read: &Read) -> u8 {
    if planted(Planted::D89) { 0 } else { read.wants & (wants::EXEC | wants::WRITE | wants::READ) }
}

/// D-90: whether what the read is for can be answered of such an inode.
#[inline]
fn answers(read: &Read, kind: u8) -> bool {
    let file = kind == Kind::File.d_type();
    planted(Planted::D90)
        || match Purpose::of_code(read.purpose) {
            Some(Purpose::Lookup) | None => true,
            Some(Purpose::Stat) => !is_directory(kind),
            Some(Purpose::Access) => kind != Kind::Symlink.d_type(),
            Some(Purpose::Open) => file && read.wants & wants::WRITE == 0,
            Some(Purpose::Size) => file,
        }
}

/// D-85 to D-88: whether the caller may do all that is wanted.
#[inline]
fn may(read: &Read, value: &EntryValue, wanted: u8) -> Verdict {
    let (granted, open) = of_class(read, value);
    let over = capable(read);
    let mut covered = 0;
    if over & wants::READS_ALL != 0 {
        covered |= if is_directory(value.kind) { wants::READ | wants::EXEC } else { wants::READ };
    }
    if over & wants::WRITES_ALL != 0 {
        covered |= wants::WRITE;
    }
    if wanted & !granted == 0 || wanted & !covered == 0 {
        Verdict::Passed
    } else if over == 0 && wanted & !(granted | open) != 0 {
        Verdict::Denied
    } else {
        Verdict::Unknown
    }
}

/// D-85 to D-87: the bits that the caller surely has, and those that it may have or not.
#[inline]
fn of_class(read: &Read, value: &EntryValue) -> (u8, u8) {
    let bits = |shift: u32| (value.mode >> shift) as u8 & 7;
    if read.uid == value.uid && !planted(Planted::D85) {
        return (bits(6), 0);
    }
    if read.gid == value.gid && !planted(Planted::D86) {
        return (bits(3), 0);
    }
    if planted(Planted::D87) {
        return (bits(0), 0);
    }
    (bits(3) & bits(0), bits(3) ^ bits(0))
}

/// D-88: what passes the classes' bits.
#[inline]
fn capable(read: &Read) -> u8 {
    let all = wants::READS_ALL | wants::WRITES_ALL;
    if planted(Planted::D88) && read.uid == 0 { all } else { read.wants & all }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(uid: u32, gid: u32, wants: u8) -> Read {
        Read { uid, gid, wants, purpose: Purpose::Access as u8, depth: 1, start: 7, ..Read::default() }
    }

    fn of(kind: Kind, mode: u16) -> EntryValue {
        EntryValue { parent: 7, id: 9, kind: kind.d_type(), mode, uid: 1, gid: 10, ..EntryValue::default() }
    }

    /// What access(2) says to a caller of which all groups are known.
    fn permitted(mode: u16, owner: bool, member: bool, wanted: u8) -> bool {
        let shift = if owner {
            6
        } else if member {
            3
        } else {
            0
        };
        u16::from(wanted) & !(mode >> shift) & 7 == 0
    }

    /// All modes, callers and wishes: what is said is what is said of each caller that it may be.
    #[test]
    fn what_is_decided_is_right_of_every_caller_that_it_may_be() {
        for mode in 0..0o1000 {
            for wanted in 0..8 {
                for (uid, gid) in [(1, 10), (1, 11), (2, 10), (2, 11), (0, 0)] {
                    let verdict = judge(&read(uid, gid, wanted), &of(Kind::File, mode), true);
                    let memberships: &[bool] = if gid == 10 { &[true] } else { &[true, false] };
                    let says = |member: &bool| permitted(mode, uid == 1, *member, wanted);
                    let all = memberships.iter().all(says);
                    let none = !memberships.iter().any(says);
                    match verdict {
                        Verdict::Passed => assert!(all, "{mode:o} {wanted} {uid} {gid}"),
                        Verdict::Denied => assert!(none, "{mode:o} {wanted} {uid} {gid}"),
                        Verdict::Unknown => assert!(uid != 1 && gid != 10, "{mode:o} {wanted} {uid} {gid}"),
                    }
                }
            }
        }
    }

    /// capabilities(7): all that is wanted is covered, or the bits grant it; nobody is denied who has one.
    #[test]
    fn capabilities_cover_reading_searching_and_writing() {
        let says = |kind, wants| judge(&read(0, 0, wants), &of(kind, 0), true);
        let (reads, both) = (wants::READS_ALL, wants::READS_ALL | wants::WRITES_ALL);
        assert_eq!(says(Kind::File, wants::READ | reads), Verdict::Passed);
        assert_eq!(says(Kind::Directory, wants::READ | wants::EXEC | reads), Verdict::Passed);
        assert_eq!(says(Kind::File, wants::READ | wants::WRITE | both), Verdict::Passed);
        assert_eq!(says(Kind::File, wants::READ | wants::WRITE | reads), Verdict::Unknown);
        assert_eq!(says(Kind::File, wants::EXEC | both), Verdict::Unknown, "some execute bit decides");
        assert_eq!(says(Kind::File, wants::READ), Verdict::Denied, "uid 0 says nothing");
        // Reading is not covered for who writes only, and the bits grant each but not both.
        let mode = of(Kind::File, 0o002);
        assert_eq!(judge(&read(2, 11, wants::READ | wants::WRITE | reads), &mode, true), Verdict::Unknown);
    }

    #[test]
    fn levels_above_are_directories_that_lead_somewhere() {
        let above = |value: &EntryValue| judge(&read(2, 11, 0), value, false);
        assert_eq!(above(&of(Kind::Directory, 0o711)), Verdict::Passed);
        assert_eq!(above(&of(Kind::Directory, 0o700)), Verdict::Denied);
        assert_eq!(above(&of(Kind::Directory, 0o701)), Verdict::Unknown);
        assert_eq!(above(&of(Kind::File, 0o777)), Verdict::Unknown);
        assert_eq!(above(&of(Kind::Symlink, 0o777)), Verdict::Unknown);
        assert_eq!(above(&EntryValue { id: 0, ..of(Kind::Directory, 0o777) }), Verdict::Unknown);
        assert_eq!(above(&EntryValue { parent: 8, ..of(Kind::Directory, 0o777) }), Verdict::Unknown);
    }

    #[test]
    fn purposes_are_answered_of_what_the_entry_knows() {
        let kinds = [Kind::File, Kind::Directory, Kind::Symlink, Kind::Fifo];
        let says = |purpose, wants| {
            let read = Read { purpose: purpose as u8, ..read(1, 10, wants) };
            kinds.map(|kind| judge(&read, &of(kind, 0o777), true) == Verdict::Passed)
        };
        assert_eq!(says(Purpose::Lookup, 0), [true; 4]);
        assert_eq!(says(Purpose::Stat, 0), [true, false, true, true]);
        assert_eq!(says(Purpose::Access, 7), [true, true, false, true]);
        assert_eq!(says(Purpose::Open, wants::READ), [true, false, false, false]);
        assert_eq!(says(Purpose::Open, wants::READ | wants::WRITE), [false; 4]);
        assert_eq!(says(Purpose::Size, 0), [true, false, false, false]);
    }
}
