//! What a role is to its host: the operating system's or the simulator's.

use onpath_wire::ids::{NodeId, RecordSeq};
use onpath_wire::packet::Packet;

/// The two clocks, read once per input by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Now {
    /// Monotonic microseconds, for deadlines.
    pub mono_us: u64,
    /// Wall clock, ns since 1970, for stamps.
    pub wall_ns: u64,
}

/// What a host gives to a role.
#[derive(Debug)]
pub enum Input<I> {
    /// A message, whole and in order of arrival.
    Packet(Packet),
    /// A deadline has passed.
    Tick,
    /// The role's records up to and including this one are on stable storage.
    Durable(RecordSeq),
    /// Something that only this class of role knows.
    Own(I),
}

/// How far a record must have come before an output that reflects it may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Decided by the destination: appended inside the process, durable for another, by commit mode for a client.
    ByDestination,
    /// By destination, but nobody waits: where it must be durable the next flush will do.
    InTime,
    /// As far as a client's answer must have come, by commit mode, though the destination is another one.
    AsForClient,
    /// Not at all: what it says counts for nothing until the receiver has asked again (questions of an attempt, and answers that say
    /// *perhaps*, R-25).
    Nothing,
    /// Durable where the receiver would remember it through a power loss of this host; else by destination. What the home of a file
    /// has told of a cut must not be forgotten by the home alone.
    IfOutlived,
    /// Durable whatever the destination, and soon: somebody waits (fsync, a trim that holds up the writes after it).
    Durable,
    /// Durable whatever the destination, but nobody waits: the next flush will do (bytes of removed files).
    DurableInTime,
}

/// What a role gives to its host, in order.
#[derive(Debug)]
pub enum Output<O> {
    /// A journal record.
    Append {
        /// Its number at this role.
        seq: RecordSeq,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// A message.
    Send {
        /// To whom.
        to: NodeId,
        /// The message.
        packet: Packet,
        /// The last record that it reflects; 0 for none.
        after: RecordSeq,
        /// How far that record must have come.
        need: Need,
    },
    /// Somebody waits until the records before this are durable: the role hears so ([`Input::Durable`]) soon.
    Flush,
    /// Something that only this class of role knows.
    Own(O),
}

/// A role: a value that its host drives.
pub trait Role: Send {
    /// Inputs of this class of role.
    type In;
    /// Outputs of this class of role.
    type Out;

    /// Takes one input and runs everything that it makes runnable to completion.
    fn handle(&mut self, now: Now, input: Input<Self::In>);
    /// The next output, in order.
    fn poll_output(&mut self) -> Option<Output<Self::Out>>;
    /// When to give a [`Input::Tick`] next, monotonic microseconds.
    fn next_deadline(&self) -> Option<u64>;
}
