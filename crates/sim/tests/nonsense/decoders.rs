//! Everything that is decoded from a datagram, a socket or a journal, given valid bytes in which something was changed, and random ones:
//! what decodes can be encoded and decoded again, and no decoder takes much more memory than it was given bytes.

use super::cluster::{Cluster, Told};
use super::{Dice, mutate};
use onpath_wire::data::{DataReply, DataRequest, Merge};
use onpath_wire::disk::block::DataRecord;
use onpath_wire::disk::record::Record;
use onpath_wire::header::{HEADER_BYTES, Header, MessageKind};
use onpath_wire::ids::{NodeClass, NodeId};
use onpath_wire::innet::InNet;
use onpath_wire::packet::Packet;
use onpath_wire::peer::Peer;
use onpath_wire::reply::Reply;
use onpath_wire::request::RequestBody;
use onpath_wire::tracking::{Form, SwitchCommand, SwitchStatus};
use onpath_wire::{Stored, Wire, WireError};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::rc::Rc;

/// Samples of each variant.
const SAMPLES: usize = 24;
/// Steps of each file system that samples are taken from.
const STEPS: u64 = 6_000;
/// Bytes of memory that a decoder may take for one that it is given, and besides.
const MEMORY_A_BYTE: usize = 160;
const MEMORY_BESIDES: usize = 4_096;

thread_local! {
    static TAKEN: Cell<usize> = const { Cell::new(0) };
}

/// The system's memory, with what this thread takes counted.
struct Counted;

#[allow(unsafe_code, reason = "an allocator: every call goes to the system's as it came")]
// SAFETY: it is the system's allocator, to which every call goes with the same arguments.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = TAKEN.try_with(|taken| taken.set(taken.get() + layout.size()));
        // SAFETY: the caller keeps to what `GlobalAlloc` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static MEMORY: Counted = Counted;

/// A kind of what is decoded.
struct Kind {
    name: &'static str,
    /// Whether the bytes are such a value.
    decodes: fn(&[u8]) -> bool,
    /// The variant that they are.
    variant: fn(&[u8]) -> Option<String>,
}

/// Reads a value from bytes that hold nothing else.
type Read<T> = fn(&[u8]) -> Result<T, WireError>;

fn decodes<T>(bytes: &[u8], read: Read<T>, write: fn(&T) -> Vec<u8>) -> bool {
    let before = TAKEN.get();
    let value = read(bytes);
    let taken = TAKEN.get() - before;
    assert!(taken <= bytes.len() * MEMORY_A_BYTE + MEMORY_BESIDES, "{taken} bytes of memory for {}", bytes.len());
    let Ok(value) = value else { return false };
    // Error numbers that are not known become another one.
    let encoded = write(&value);
    let again = read(&encoded).expect("what was decoded can be encoded, and decoded again");
    assert_eq!(write(&again), encoded);
    true
}

fn variant<T: Debug>(bytes: &[u8], read: Read<T>) -> Option<String> {
    let text = format!("{:?}", read(bytes).ok()?);
    Some(text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned())
}

fn of_request(bytes: &[u8]) -> Option<String> {
    RequestBody::from_bytes(bytes)
        .ok()
        .and_then(|body| variant(&body.request.to_bytes(), onpath_wire::request::Request::from_bytes))
}

fn decodes_innet(bytes: &[u8]) -> bool {
    let Ok((header, rest)) = InNet::split(bytes) else { return false };
    assert_eq!([&header.bytes()[..], rest].concat(), bytes);
    true
}

macro_rules! kinds {
    ($read:ident, $write:ident: $($t:ident),*) => {
        [$(Kind {
            name: stringify!($t),
            decodes: |bytes| decodes(bytes, $t::$read, $t::$write),
            variant: |bytes| variant(bytes, $t::$read),
        }),*]
    };
}

fn kinds() -> Vec<Kind> {
    let sent =
        kinds![from_bytes, to_bytes: Header, Reply, Peer, DataRequest, DataReply, Merge, SwitchCommand, SwitchStatus];
    let mut all: Vec<Kind> = sent.into();
    all.extend(kinds![from_stored, to_stored: Record, DataRecord]);
    let request = |bytes: &[u8]| decodes(bytes, RequestBody::from_bytes, RequestBody::to_bytes);
    all.push(Kind { name: "RequestBody", decodes: request, variant: of_request });
    all.push(Kind { name: "InNet", decodes: decodes_innet, variant: |_| Some("InNet".to_owned()) });
    all
}

/// Bytes that are decoded, and the kind of what they are.
type Part = (&'static str, Vec<u8>);
/// Valid bytes, by kind and variant.
type Samples = BTreeMap<(&'static str, String), Vec<Vec<u8>>>;

/// What real roles say to each other and write while clients are served.
fn samples(kinds: &[Kind]) -> Samples {
    let all: Rc<RefCell<Vec<Part>>> = Rc::default();
    for (seed, form) in [(1, Form::Owner), (2, Form::Network), (5, Form::Network)] {
        let (mut cluster, all) = (Cluster::new(seed, form, 0), all.clone());
        cluster.listen(move |told| match told {
            Told::Message(to, packet) => all.borrow_mut().extend(parts(to, packet)),
            Told::Record(bytes) => all.borrow_mut().push(("Record", bytes.to_vec())),
            Told::DataRecord(bytes) => all.borrow_mut().push(("DataRecord", bytes.to_vec())),
        });
        (0..STEPS).for_each(|_| cluster.step());
    }
    let mut samples = Samples::new();
    for (name, bytes) in all.take() {
        let kind = kinds.iter().find(|kind| kind.name == name).expect("a kind");
        let variant = (kind.variant)(&bytes).unwrap_or_else(|| panic!("a role's own {name}"));
        let some = samples.entry((name, variant)).or_default();
        if some.len() < SAMPLES && !some.contains(&bytes) {
            some.push(bytes);
        }
    }
    samples
}

/// What of a message is decoded, each with its kind.
fn parts(to: NodeId, packet: &Packet) -> Vec<Part> {
    let Ok(header) = packet.header() else { return vec![] };
    let (head, body) = packet.head.split_at(HEADER_BYTES);
    let kind = match (header.kind(), to.class()) {
        _ if body.is_empty() => None, // a mark, which has nothing behind it
        (MessageKind::Request, _) => Some("RequestBody"),
        (MessageKind::Reply, _) => Some("Reply"),
        (MessageKind::Peer, _) => Some("Peer"),
        (MessageKind::Data, Some(NodeClass::Shard)) => Some("Merge"),
        (MessageKind::Data, _) => Some("DataRequest"),
        (MessageKind::DataReply, _) => Some("DataReply"),
        (MessageKind::Switch, _) => Some("SwitchCommand"),
        (MessageKind::PeerAnswer, _) => Some(match header.source.class() {
            Some(NodeClass::Data) => "DataReply",
            Some(NodeClass::Switch) => "SwitchStatus",
            _ => "Peer",
        }),
    };
    let body = kind.map(|kind| (kind, body.to_vec()));
    let innet = packet.innet.as_ref().map(|innet| ("InNet", innet.bytes().to_vec()));
    [("Header", head.to_vec())].into_iter().chain(body).chain(innet).collect()
}

/// What became of the inputs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) inputs: u64,
    pub(crate) decoded: u64,
    /// Kinds, and variants of all of them, of which there were samples.
    pub(crate) kinds: usize,
    pub(crate) variants: usize,
}

/// Throws inputs at the decoders until `more` says no.
pub(crate) fn run(seed: u64, mut more: impl FnMut(u64) -> bool) -> Outcome {
    let (mut dice, kinds) = (Dice(seed), kinds());
    let samples = samples(&kinds);
    for ((name, _), some) in &samples {
        let kind = kinds.iter().find(|kind| kind.name == *name).expect("a kind");
        some.iter().for_each(|bytes| assert!((kind.decodes)(bytes), "{name}"));
    }
    let with_samples = kinds.iter().filter(|kind| samples.keys().any(|(name, _)| *name == kind.name)).count();
    let mut outcome = Outcome { kinds: with_samples, variants: samples.len(), ..Outcome::default() };
    let all: Vec<(&Kind, &Vec<Vec<u8>>)> = samples
        .iter()
        .map(|((name, _), some)| (kinds.iter().find(|kind| kind.name == *name).expect("a kind"), some))
        .collect();
    let mut input = Vec::new();
    while more(outcome.inputs) {
        outcome.inputs += 1;
        let (kind, some) = *dice.one(&all);
        input.clear();
        if dice.percent(3) {
            input.extend((0..dice.below(200)).map(|_| dice.next() as u8));
        } else {
            let sample: &Vec<u8> = dice.one(some);
            input.extend_from_slice(sample);
            mutate(&mut input, &[], &mut dice);
        }
        // Now and then as something else than it was.
        let kind = if dice.percent(5) { dice.one(&kinds) } else { kind };
        outcome.decoded += u64::from((kind.decodes)(&input));
    }
    outcome
}
