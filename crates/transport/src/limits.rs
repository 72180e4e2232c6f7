//! Every bound of the transport. Times are microseconds.

use onpath_wire::header::HEADER_BYTES;
use onpath_wire::limits::{BODY_BYTES_MAX, IO_BYTES_MAX};

/// Smallest datagram that a [`crate::Peer`] is told to make; less is taken for this.
pub const DATAGRAM_BYTES_MIN: usize = 512;
/// Largest datagram, and the most bytes of one run of datagrams: what fits a UDP packet over IPv4 and over IPv6.
pub const DATAGRAM_BYTES_MAX: usize = 65_400;
/// Most datagrams of one run, what the kernel takes for one send with segmentation.
pub const SEGMENTS_MAX: usize = 64;
/// A datagram of a run is filled up to the size of the others if at most this part of it (one fourth) is lost by that.
pub const FILL_PART: usize = 4;

/// Longest head of a message.
pub const HEAD_BYTES_MAX: usize = HEADER_BYTES + BODY_BYTES_MAX;
/// Most bulk bytes of a message.
pub const BULK_BYTES_MAX: usize = IO_BYTES_MAX;
/// Longest message.
pub const MESSAGE_BYTES_MAX: usize = HEAD_BYTES_MAX + BULK_BYTES_MAX;
/// Bytes that a host gives to one handshake: every path carries them in one datagram.
pub const HANDSHAKE_BYTES_MAX: usize = 1_100;
/// Smallest fragment of a message but for its last one: bounds the number of fragments.
pub const STRIDE_MIN: usize = 256;
/// Most fragments of a message.
pub const FRAGMENTS_MAX: usize = MESSAGE_BYTES_MAX.div_ceil(STRIDE_MIN);

/// Bytes of messages that wait for or are under way to one peer; more are refused.
pub const QUEUED_BYTES_MAX: usize = 64 << 20;
/// Messages that wait for one peer, of any length; more are refused.
pub const QUEUED_MESSAGES_MAX: usize = 65_536;
/// Fragmented messages that are under way to one peer at a time; the others wait.
pub const OUTGOING_MAX: usize = 8;

/// Bytes of incomplete messages of one peer, as their first fragments announce them; the oldest is given up beyond.
pub const INCOMING_BYTES_MAX: usize = 32 << 20;
/// Bytes of incomplete messages of all peers together; no more are begun beyond.
pub const INCOMING_BYTES_ALL_MAX: usize = 1 << 30;
/// A peer has at most this part (one eighth) of what the others leave free.
pub const SHARE: usize = 8;
/// Incomplete messages of one peer; the oldest is given up beyond.
pub const INCOMING_MAX: usize = 32;
/// An incomplete message of which nothing more comes for so long is given up.
pub const INCOMING_IDLE_US: u64 = 15_000_000;
/// Completed messages that are remembered, counted back from the newest; of older ones nothing is taken.
pub const COMPLETED_REMEMBERED: usize = 1_024;
/// Completed messages whose acknowledgement waits for a datagram; beyond, the oldest is not sent.
pub const COMPLETED_ACKS_MAX: usize = 64;

// A sender that keeps to its bounds never makes its receiver give up what is under way.
const _: () = assert!(OUTGOING_MAX * MESSAGE_BYTES_MAX <= INCOMING_BYTES_MAX && OUTGOING_MAX < INCOMING_MAX);
const _: () = assert!(OUTGOING_MAX < COMPLETED_REMEMBERED && MESSAGE_GIVE_UP_US < INCOMING_IDLE_US);

/// Datagrams that are remembered, counted back from the newest; older ones are dropped.
pub const WINDOW: usize = 4_096;
/// Numbers of datagrams end here; a sealed datagram must never repeat one.
pub const NUMBER_MAX: u64 = 1 << 63;

/// A fragmented message that waits so long for its turn is dropped.
pub const QUEUE_GIVE_UP_US: u64 = 10_000_000;
/// A message under way is dropped if none of its fragments is acknowledged for so long.
pub const MESSAGE_GIVE_UP_US: u64 = 10_000_000;
/// A message under way is dropped after this time in any case.
pub const MESSAGE_TIME_US: u64 = 60_000_000;

/// Longest an acknowledgement waits for other things to leave with.
pub const ACK_DELAY_US: u64 = 200;
/// Fragments of a message that are acknowledged at once.
pub const ACK_EVERY: u32 = 16;
/// Words of 64 fragments that one acknowledgement tells of.
pub const ACK_WORDS_MAX: usize = 32;
/// Longest delay that an acknowledgement may say it had, for the round-trip time.
pub const ACK_DELAY_SAID_US_MAX: u32 = 1_000_000;

/// Retransmission timer as long as no round trip was measured.
pub const TIMEOUT_FIRST_US: u64 = 20_000;
/// Shortest retransmission timer beyond the round-trip time.
pub const TIMEOUT_MARGIN_US: u64 = 1_000;
/// Longest retransmission timer.
pub const TIMEOUT_US_MAX: u64 = 2_000_000;
/// Timeouts in a row after which only one datagram is sent at each timeout.
pub const SILENT_TIMEOUTS: u32 = 3;
/// A fragment is lost if one sent so many datagrams later has arrived.
pub const REORDER_DATAGRAMS: u64 = 64;

/// First congestion window: a modest burst.
pub const WINDOW_BYTES_FIRST: u64 = 48 << 10;
/// Largest congestion window.
pub const WINDOW_BYTES_MAX: u64 = 8 << 20;
/// Smallest congestion window, in datagrams.
pub const WINDOW_DATAGRAMS_MIN: u64 = 4;
/// Queue on the way, as the round trip shows it, above which the window shrinks; or half the shortest round trip.
pub const QUEUE_TARGET_US: u64 = 1_000;
/// Loss in percent above which the window shrinks: less may be chance.
pub const LOSS_HEAVY_PERCENT: u64 = 10;
/// Fragments whose fate must be known before loss is judged.
pub const LOSS_SAMPLES: u64 = 128;
/// Numbers of the peer's datagrams over which it is counted how many of them are lost.
pub const LOSS_NUMBERS: u64 = 256;
/// Loss in percent from which whole messages are sent twice: less may be datagrams that overtook each other.
pub const DOUBLE_FROM_PERCENT: u64 = 3;
/// Loss in percent up to which they are: more is a way that has too much to carry already.
pub const DOUBLE_UP_TO_PERCENT: u64 = 20;
/// Longest datagram that is sent twice, bytes: about a frame of Ethernet. Two of the longest ones would be more than the system sends at once.
pub const DOUBLE_BYTES_MAX: usize = 1_500;
/// The shortest round trip is looked for anew after so long.
pub const SHORTEST_US: u64 = 10_000_000;
/// Time for which the pacer lets a burst gather.
pub const BURST_US: u64 = 1_000;
/// Largest burst of the pacer.
pub const BURST_BYTES_MAX: u64 = 256 << 10;
/// Smallest burst of the pacer, in datagrams.
pub const BURST_DATAGRAMS_MIN: u64 = 16;
