//! Steered time: nothing arrives by itself, somebody chooses what happens next ([`crate::explore`]).
//!
//! What is under way lies in a pool. Everything that happens is a *step* of one *place*: a process, the switch or a client.
//! A place has a logical clock, which its messages carry and which orders the pool: the order in which steps of different
//! places were chosen leaves no trace, only who heard what in which order does. Delays are not drawn; virtual time stands
//! still until somebody lets it pass to the next timer.

use super::World;
use super::process::Flight;
use super::queue::Event;
use crate::client::Asked;
use onpath_wire::ids::NodeClass;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Timers that fire at most before somebody chooses again.
const TIMERS_MAX: u32 = 50;

/// Where something happens. Processes come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub(crate) enum Place {
    Process(u16),
    Switch,
    Client(u32),
}

/// A thread of a session, by the numbers of both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Thread {
    pub(crate) session: usize,
    pub(crate) number: u32,
}

/// Something under way.
#[derive(Clone, Debug)]
pub(crate) enum Thing {
    /// A message on the network.
    Message(Flight),
    /// The disk is about to be done.
    Disk(Event),
    /// A client is about to ask its next question.
    Ask(usize),
    /// A thread of a session is about to make its next call.
    Call(Thread),
}

/// Something in the pool.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Time at its sender, its sender, and which of the sender's outputs of that step it is: no two are alike, but copies.
    pub(crate) key: (u64, Place, u32),
    pub(crate) place: Place,
    pub(crate) thing: Thing,
    /// It waits until somebody names it.
    pub(crate) late: bool,
    hash: u64,
}

/// What a place has heard.
#[derive(Clone, Copy, Default)]
struct Past {
    clock: u64,
    history: u64,
}

/// A process is about to die instead of its n-th output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Death {
    pub(crate) output: usize,
    pub(crate) power: bool,
}

/// The pool, and what is known of its order.
pub(crate) struct Steered {
    /// In the order of their keys.
    pool: Vec<Item>,
    places: BTreeMap<Place, Past>,
    /// Whose step it is, and what it has put out so far.
    at: (Place, u32),
    /// Of the outputs of this step's process: whether each is a message that leaves.
    pub(super) leaving: Vec<bool>,
    pub(super) death: Option<Death>,
    /// What each client asks.
    programs: BTreeMap<usize, VecDeque<Rc<Asked>>>,
    /// Answers to others while a client waits for one.
    overtaken: BTreeMap<usize, u32>,
    /// The most of them that there were.
    overtaken_most: u32,
}

fn fold(hash: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, hash)
}

impl Thing {
    fn hash(&self) -> u64 {
        match self {
            Thing::Message(Flight { from, to, packet }) => {
                let ends = fold(from.0.into(), &to.0.to_le_bytes());
                let innet = packet.innet.as_ref().map_or(ends, |innet| fold(ends, &innet.bytes()));
                fold(fold(innet, &packet.head), &packet.bulk)
            }
            Thing::Disk(event) => fold(1, format!("{event:?}").as_bytes()),
            Thing::Ask(client) => fold(2, &client.to_le_bytes()),
            Thing::Call(Thread { session, number }) => fold(3 + u64::from(*number), &session.to_le_bytes()),
        }
    }
}

impl Steered {
    /// Something that the present step causes.
    fn item(&mut self, place: Place, thing: Thing) -> Item {
        let (from, n) = self.at;
        self.at.1 += 1;
        let key = (self.places.entry(from).or_default().clock, from, n);
        let hash = thing.hash();
        Item { key, place, thing, late: false, hash }
    }

    /// Puts something that the present step causes into the pool.
    fn push(&mut self, place: Place, thing: Thing) {
        let item = self.item(place, thing);
        self.insert(item);
    }

    fn insert(&mut self, item: Item) {
        let index = self.pool.partition_point(|other| (other.key, other.late) <= (item.key, item.late));
        self.pool.insert(index, item);
    }

    /// A step begins: of `place`, which hears something of this hash, sent at this time.
    fn begin(&mut self, place: Place, sent: u64, hash: u64, now_ns: u64) {
        let past = self.places.entry(place).or_default();
        past.clock = past.clock.max(sent) + 1;
        past.history = fold(past.history ^ now_ns.rotate_left(20), &hash.to_le_bytes());
        self.at = (place, 0);
        self.leaving.clear();
    }
}

impl World {
    /// From now on everything is steered; each of these clients asks its questions one after the other.
    pub(crate) fn steer(&mut self, programs: BTreeMap<usize, Vec<Rc<Asked>>>) {
        let mut steered = Steered {
            pool: vec![],
            places: BTreeMap::new(),
            at: (Place::Switch, 0),
            leaving: vec![],
            death: None,
            programs: programs.into_iter().map(|(client, asked)| (client, asked.into())).collect(),
            overtaken: BTreeMap::new(),
            overtaken_most: 0,
        };
        for client in steered.programs.keys().copied().collect::<Vec<_>>() {
            steered.at = (self.place_of_client(client), 0);
            steered.push(steered.at.0, Thing::Ask(client));
        }
        self.steered = Some(Box::new(steered));
        self.queue.forget_order();
        self.begin_late();
        self.happen_now();
    }

    /// What was held back and is not any more waits until it is named.
    fn begin_late(&mut self) {
        let left = self.take_left();
        self.steering().at = (Place::Switch, u32::MAX / 2);
        for flight in left {
            let place = self.place_of(&flight);
            let steered = self.steering();
            let item = steered.item(place, Thing::Message(flight));
            steered.insert(Item { late: true, ..item });
        }
    }

    /// What is left happens as usual again, and nothing is held back.
    pub(crate) fn let_run(&mut self) {
        let steered = self.steered.take().expect("a steered world");
        self.let_all_go();
        for item in steered.pool {
            match item.thing {
                Thing::Message(flight) => self.fly(flight),
                Thing::Disk(event) => self.queue.push(self.now_ns, event),
                Thing::Ask(_) | Thing::Call(_) => {}
            }
        }
        for (client, asked) in steered.programs {
            asked.into_iter().for_each(|asked| self.submit(client, asked));
        }
    }

    fn place_of_client(&self, client: usize) -> Place {
        Place::Client(self.clients[client].node().number())
    }

    fn steering(&mut self) -> &mut Steered {
        self.steered.as_mut().expect("a steered world")
    }

    /// What is under way.
    pub(crate) fn pool(&self) -> &[Item] {
        &self.steered.as_ref().expect("a steered world").pool
    }

    /// Of the outputs of the last step's process: whether each was a message that left.
    pub(crate) fn leaving(&self) -> &[bool] {
        &self.steered.as_ref().expect("a steered world").leaving
    }

    /// Whether every question is answered.
    pub(crate) fn is_answered(&self) -> bool {
        let asked = self.steered.as_ref().is_none_or(|steered| steered.programs.values().all(VecDeque::is_empty));
        asked && self.clients.iter().all(|client| client.waiting() == 0)
    }

    /// Whether those are answered who ask one thing after the other.
    pub(crate) fn programs_are_answered(&self) -> bool {
        let programs = &self.steered.as_ref().expect("a steered world").programs;
        programs.iter().all(|(client, left)| left.is_empty() && self.clients[*client].waiting() == 0)
    }

    /// How many answers to others came at most while a client waited for one.
    pub(crate) fn most_overtaken(&self) -> u32 {
        self.steered.as_ref().expect("a steered world").overtaken_most
    }

    fn overtakes(&mut self, client: usize) {
        let Steered { overtaken, overtaken_most: most, .. } = &mut **self.steered.as_mut().expect("a steered world");
        overtaken.remove(&client);
        for (other, _) in self.clients.iter().enumerate().filter(|(other, c)| *other != client && c.waiting() > 0) {
            let times = overtaken.entry(other).or_default();
            *times += 1;
            *most = (*most).max(*times);
        }
    }

    fn place_of(&self, flight: &Flight) -> Place {
        if flight.packet.wants_switch() {
            return Place::Switch;
        }
        let holds = |process: &super::Process| process.configs.iter().any(|config| config.node() == flight.to);
        match flight.to.class() {
            Some(NodeClass::Switch) | None => Place::Switch,
            Some(NodeClass::Session) => Place::Client(flight.to.number()),
            Some(_) => Place::Process(self.processes.iter().position(holds).expect("an address of ours") as u16),
        }
    }

    /// A message is under way; gives it back if nobody steers.
    pub(super) fn steer_message(&mut self, flight: Flight) -> Option<Flight> {
        if self.steered.is_none() {
            return Some(flight);
        }
        let place = self.place_of(&flight);
        self.steering().push(place, Thing::Message(flight));
        None
    }

    /// A disk is at work, if somebody steers.
    pub(super) fn steer_disk(&mut self, process: usize, event: Event) -> bool {
        let place = Place::Process(process as u16);
        self.steered.as_mut().map(|steered| steered.push(place, Thing::Disk(event))).is_some()
    }

    /// Lets this item of the pool wait until it is named.
    pub(crate) fn postpone(&mut self, index: usize) {
        let mut item = self.steering().pool.remove(index);
        item.late = true;
        self.steering().insert(item);
    }

    /// Loses a message.
    pub(crate) fn lose_item(&mut self, index: usize) {
        self.counters.lost += 1;
        self.steering().pool.remove(index);
    }

    /// Leaves a late copy of a message in the pool.
    pub(crate) fn double(&mut self, index: usize) {
        self.counters.doubled += 1;
        let copy = Item { late: true, ..self.pool()[index].clone() };
        self.steering().insert(copy);
    }

    /// A thread of a session is about to make a call.
    pub(crate) fn will_call(&mut self, thread: Thread) {
        let place = Place::Client(self.sessions[thread.session].node.number());
        let steered = self.steering();
        steered.at = (place, u32::MAX / 2 + thread.number);
        steered.push(place, Thing::Call(thread));
    }

    /// An item of the pool happens; perhaps its process dies on the way. The thread that is to make its call now.
    pub(crate) fn perform(&mut self, index: usize, death: Option<Death>) -> Option<Thread> {
        let now_ns = self.now_ns;
        let steered = self.steering();
        let item = steered.pool.remove(index);
        steered.death = death;
        let doom = death.map_or(0, |death| 2 * death.output as u64 + 3 + u64::from(death.power));
        steered.begin(item.place, item.key.0, item.hash.wrapping_add(doom), now_ns);
        let mut calls = None;
        match item.thing {
            Thing::Message(flight) => self.deliver(flight),
            Thing::Disk(event) => self.happen(event),
            Thing::Ask(client) => {
                let asked = self.steering().programs.get_mut(&client).and_then(VecDeque::pop_front);
                self.submit(client, asked.expect("a client asks once"));
            }
            Thing::Call(thread) => calls = Some(thread),
        }
        self.steering().death = None;
        self.after_step();
        calls
    }

    /// The next timer fires.
    pub(crate) fn pass_time(&mut self) {
        let Some(at_ns) = self.queue.next_ns() else { return };
        self.now_ns = self.now_ns.max(at_ns);
        self.steering().leaving.clear();
        self.after_step();
    }

    /// Timers fire until something is under way that does not wait, or every question is answered.
    pub(crate) fn pass_time_until_something_happens(&mut self) {
        for _ in 0..TIMERS_MAX {
            self.pass_time();
            if self.is_answered() && self.sessions.is_empty()
                || !self.finished.is_empty()
                || self.pool().iter().any(|item| !item.late)
            {
                return;
            }
        }
    }

    /// A process dies and starts again.
    pub(crate) fn die(&mut self, process: usize, power: bool) {
        let now_ns = self.now_ns;
        self.steering().begin(Place::Process(process as u16), 0, 1 + u64::from(power), now_ns);
        self.crash(process, power);
        self.after_step();
    }

    /// The switch reboots.
    pub(crate) fn reboot_switch(&mut self) {
        let now_ns = self.now_ns;
        self.steering().begin(Place::Switch, 0, 1, now_ns);
        self.boot_switch();
        self.after_step();
    }

    fn after_step(&mut self) {
        let leaving = std::mem::take(&mut self.steering().leaving);
        self.happen_now();
        while let Some(done) = self.completed.pop_front() {
            let place = self.place_of_client(done.client);
            self.overtakes(done.client);
            let steered = self.steering();
            if steered.programs.get(&done.client).is_some_and(|program| !program.is_empty()) {
                steered.at = (place, u32::MAX / 2);
                steered.push(place, Thing::Ask(done.client));
            }
        }
        self.steering().leaving = leaving;
    }

    /// Everything happens that was arranged for now or before.
    fn happen_now(&mut self) {
        while self.queue.next_ns().is_some_and(|at_ns| at_ns <= self.now_ns) {
            let (_, event) = self.queue.pop().expect("just seen");
            let place = match event {
                Event::Drain { process, .. }
                | Event::Tick { process, .. }
                | Event::Flushed { process, .. }
                | Event::Disk { process, .. }
                | Event::Interval { process, .. }
                | Event::Checkpoint { process, .. }
                | Event::Restart { process } => Place::Process(process),
                Event::Client(client) => self.place_of_client(client as usize),
                Event::Session(session) | Event::Shared(session) => {
                    Place::Client(self.sessions[session as usize].node.number())
                }
                Event::Arrive(_) | Event::Switch | Event::FaultEnds(_) | Event::Again { .. } => Place::Switch,
            };
            let (hash, now_ns) = (fold(0, format!("{event:?}").as_bytes()), self.now_ns);
            self.steering().begin(place, 0, hash, now_ns);
            self.happen(event);
        }
    }

    /// The state: what every place has heard, what is under way, which timers run, and what the checker knows. Equal for
    /// choices that differ only in the order of steps of different places.
    pub(crate) fn state(&self) -> u64 {
        let steered = self.steered.as_ref().expect("a steered world");
        let mut hash = fold(self.checker.digest(), &self.now_ns.to_le_bytes());
        for (place, past) in &steered.places {
            hash = fold(hash ^ past.clock, format!("{place:?}{}", past.history).as_bytes());
        }
        for item in &steered.pool {
            hash = fold(hash ^ item.hash, &[u8::from(item.late)]);
        }
        for process in &self.processes {
            hash = fold(hash, &process.next_term.0.to_le_bytes());
        }
        hash ^ self.queue.digest()
    }
}
