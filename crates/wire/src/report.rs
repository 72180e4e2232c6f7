//! What a mount tells its servers of itself: who it is, and how many operations of each kind it has answered, how, and how soon.
//!
//! Latencies are counted in classes whose bounds grow by a quarter of a power of two, so that percentiles of any interval can be told
//! from two readings, with an error below 25 %.

use crate::codec::Blob;
use crate::errno::Errno;
use crate::wire_struct;

/// Classes of latencies: four for each power of two of nanoseconds, up to 2^36 (a minute).
pub const LATENCY_CLASSES: usize = 4 * 36;
/// Kinds of operations in one report, and in a sum of reports; the kernel asks a mount for no more.
pub const KINDS_MAX: usize = 40;

/// The class of a latency.
pub fn latency_class(nanoseconds: u64) -> usize {
    // Below four there are no quarters.
    let nanoseconds = nanoseconds.max(4);
    let power = nanoseconds.ilog2() as usize;
    let quarter = (nanoseconds >> (power - 2)) as usize & 3;
    (4 * power + quarter).min(LATENCY_CLASSES - 1)
}

/// Nanoseconds below which the latencies of a class are; of the last one there is no such bound.
pub fn latency_bound(class: usize) -> u64 {
    let (power, quarter) = (class / 4, class as u64 % 4);
    ((5 + quarter) << power) / 4
}

/// Names the kinds of operations of a role: an enumeration, and `NAMES` of its values, in their order.
#[macro_export]
macro_rules! kinds {
    ($(#[$m:meta])* pub enum $of:ident { $first:ident $first_name:literal $(, $kind:ident $name:literal)* $(,)? }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $of {
            #[doc = $first_name]
            #[default]
            $first,
            $(#[doc = $name] $kind,)*
        }
        impl $of {
            /// What each is called.
            pub const NAMES: &[&str] = &[$first_name $(, $name)*];
        }
    };
}

/// How an operation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Ok,
    /// It was refused, as its caller's request deserved: no such file, not permitted, not empty.
    Refused,
    /// It could not be done although nothing was wrong with the request: the disk is full, a server is gone, bytes are damaged.
    Failed,
}

impl Outcome {
    /// That of an operation with such a result.
    pub fn of<T>(result: &Result<T, Errno>) -> Outcome {
        match result {
            Ok(_) => Outcome::Ok,
            Err(
                Errno::EIO
                | Errno::ENOSPC
                | Errno::EDQUOT
                | Errno::ENOMEM
                | Errno::ENFILE
                | Errno::ENOLCK
                | Errno::EPROTO
                | Errno::ENOTCONN
                | Errno::ETIMEDOUT
                | Errno::ESTALE,
            ) => Outcome::Failed,
            Err(_) => Outcome::Refused,
        }
    }
}

wire_struct! {
    /// A mount, and what it has done since its process began. What is counted never becomes less.
    #[derive(Clone, Debug, PartialEq, Eq, Default)]
    pub struct MountReport {
        /// Who tells this.
        pub is: MountIs,
        /// It is over, and this is the last report.
        pub leaves: bool,
        /// Another host is told the operations by their kind, and adds them up: this one is told that the mount is there.
        pub elsewhere: bool,
        /// Operations that it has answered.
        pub answered: u64,
        /// Requests that have not been answered yet.
        pub waiting: u32,
        /// For how long the oldest of them has waited, milliseconds; waits for locks are left out.
        pub oldest_ms: u64,
        /// Of each kind of operation that there was.
        pub operations: Vec<OperationReport>,
    }
}

impl MountReport {
    /// What those hosts are told that do not add up its operations.
    pub fn to_others(&self) -> MountReport {
        MountReport { elsewhere: true, operations: vec![], is: self.is.clone(), ..*self }
    }
}

wire_struct! {
    /// Who a mount is.
    #[derive(Clone, Debug, PartialEq, Eq, Default)]
    pub struct MountIs {
        /// Drawn when its process began: it keeps this under another session.
        pub id: u64,
        /// The name of its machine.
        pub machine: Blob,
        /// Where it is mounted there.
        pub mountpoint: Blob,
        /// Its process.
        pub pid: u32,
        /// Version of its program.
        pub version: Blob,
        /// For how long it has been mounted, milliseconds.
        pub uptime_ms: u64,
    }
}

wire_struct! {
    /// All operations of one kind.
    #[derive(Clone, Debug, PartialEq, Eq, Default)]
    pub struct OperationReport {
        /// The kernel's name of it, in small letters.
        pub name: Blob,
        /// Those that were refused.
        pub refused: u64,
        /// Those that failed.
        pub failed: u64,
        /// What all of them took, nanoseconds.
        pub nanoseconds: u64,
        /// All of them by how long they took, those classes that are not empty.
        pub latencies: Vec<LatencyReport>,
    }
}

wire_struct! {
    /// Operations of one class.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct LatencyReport {
        /// The class.
        pub class: u8,
        /// How many.
        pub count: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Wire;

    #[test]
    fn classes_are_bounded_and_in_order() {
        let mut before = 0;
        for nanoseconds in (0..100_000).chain([1 << 20, 1 << 30, 1 << 35]) {
            let class = latency_class(nanoseconds);
            assert!(class >= before, "{nanoseconds}");
            let above = class <= 8 || nanoseconds >= latency_bound(class - 1);
            assert!(nanoseconds < latency_bound(class) && above, "{nanoseconds}");
            before = class;
        }
        assert_eq!(latency_class(u64::MAX), LATENCY_CLASSES - 1);
    }

    #[test]
    fn what_the_caller_deserved_is_told_from_what_failed() {
        assert_eq!(Outcome::of(&Ok::<_, Errno>(())), Outcome::Ok);
        assert_eq!(Outcome::of(&Err::<(), _>(Errno::ENOENT)), Outcome::Refused);
        assert_eq!(Outcome::of(&Err::<(), _>(Errno::ENOSPC)), Outcome::Failed);
    }

    #[test]
    fn a_report_comes_back() {
        let operation = OperationReport {
            name: Blob(b"lookup".to_vec()),
            refused: 1,
            failed: 0,
            nanoseconds: 7,
            latencies: vec![LatencyReport { class: 3, count: 2 }],
        };
        let report = MountReport { leaves: true, operations: vec![operation], ..MountReport::default() };
        assert_eq!(MountReport::from_bytes(&report.to_bytes()).as_ref(), Ok(&report));
        assert!(report.to_others().operations.is_empty() && report.to_others().leaves);
    }
}
