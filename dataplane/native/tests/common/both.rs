//! The Rust and the C form side by side: the same events go to both, and any difference is told.

use onpath_dataplane::{Command, Config, ConfigError, ControlError, Copy, Counter, Port, State, Step, Waiting};

/// Something that happens to a switch.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A command of its control plane.
    Do(Command),
    /// A packet: the port by which it comes, UDP port and payload.
    In(Port, u16, Vec<u8>),
    /// The same, that waits at a place where it may.
    Hold(usize, Port, u16, Vec<u8>),
    /// What waits at a place goes on, if there is something.
    Go(usize),
}

/// Places where packets wait.
pub(crate) const PLACES: usize = 4;

/// What waits, in both.
type Held = (Waiting, onpath_dataplane_native::Waiting);

/// The same switch twice.
pub(crate) struct Both {
    pub(crate) rust: onpath_dataplane::Switch,
    pub(crate) c: onpath_dataplane_native::Switch,
    copies: [Vec<Copy>; 2],
    held: [Option<Held>; PLACES],
}

impl Both {
    /// What both say about a configuration.
    pub(crate) fn with_state(config: Config, state: &State) -> Result<Both, ConfigError> {
        let rust = onpath_dataplane::Switch::with_state(config, state);
        let c = onpath_dataplane_native::Switch::with_state(config, state);
        assert_eq!(rust.as_ref().err(), c.as_ref().err(), "{config:?} {state:?}");
        Ok(Both { rust: rust?, c: c?, copies: [vec![], vec![]], held: Default::default() })
    }

    /// A command to both; whether they refuse it, which they do alike.
    pub(crate) fn control(&mut self, command: &Command) -> Result<Result<(), ControlError>, String> {
        let (rust, c) = (self.rust.control(command), self.c.control(command));
        if rust == c { Ok(rust) } else { Err(format!("{command:?}: {rust:?} in Rust, {c:?} in C")) }
    }

    /// A packet to both: what it is counted as.
    fn step(&mut self, port: Port, udp_port: u16, payload: &[u8]) -> Result<Counter, String> {
        let [of_rust, of_c] = &mut self.copies;
        of_rust.clear();
        of_c.clear();
        let rust = self.rust.step(port, udp_port, payload, of_rust);
        let c = self.c.step(port, udp_port, payload, of_c);
        if (rust, &*of_rust) != (c, &*of_c) {
            let told = format!("{rust:?} and {of_rust:02x?} in Rust, {c:?} and {of_c:02x?} in C");
            return Err(format!("{payload:02x?} by {port:?} to port {udp_port}: {told}"));
        }
        Ok(rust)
    }

    /// A packet to both that is to wait at this place; what waited there is gone. What it is counted as, nothing if it waits.
    fn hold(&mut self, place: usize, port: Port, udp_port: u16, payload: &[u8]) -> Result<Option<Counter>, String> {
        let [of_rust, of_c] = &mut self.copies;
        of_rust.clear();
        of_c.clear();
        let rust = self.rust.arrive(port, udp_port, payload, of_rust);
        let c = self.c.arrive(port, udp_port, payload, of_c);
        self.waits(place, rust, c).map_err(|what| format!("{payload:02x?} by {port:?}: {what}"))
    }

    /// What waits at this place goes on.
    fn go(&mut self, place: usize) -> Result<Option<Counter>, String> {
        let Some((of_rust, of_c)) = self.held[place].take() else { return Ok(None) };
        self.copies.iter_mut().for_each(Vec::clear);
        let [rust_copies, c_copies] = &mut self.copies;
        let told = format!("{of_rust:?}");
        let (rust, c) = (self.rust.go_on(of_rust, rust_copies), self.c.go_on(of_c, c_copies));
        self.waits(place, rust, c).map_err(|what| format!("{told}: {what}"))
    }

    fn waits(
        &mut self,
        place: usize,
        rust: Step,
        c: Step<onpath_dataplane_native::Waiting>,
    ) -> Result<Option<Counter>, String> {
        self.held[place] = None;
        let [of_rust, of_c] = &self.copies;
        match (rust, c) {
            (Step::Waits(rust), Step::Waits(c)) if of_rust.is_empty() && of_c.is_empty() => {
                self.held[place] = Some((rust, c));
                Ok(None)
            }
            (Step::Counted(rust), Step::Counted(c)) if rust == c && of_rust == of_c => Ok(Some(rust)),
            (rust, c) => Err(format!("{rust:?} and {of_rust:02x?} in Rust, {c:?} and {of_c:02x?} in C")),
        }
    }

    /// Registers and counters.
    pub(crate) fn compare(&mut self) -> Result<(), String> {
        let (rust, c) = (self.rust.state(), self.c.state());
        if rust != c {
            return Err(format!("registers: {rust:?} in Rust, {c:?} in C"));
        }
        for &counter in Counter::ALL {
            let (rust, c) = (self.rust.counters().get(counter), self.c.count(counter));
            if rust != c {
                return Err(format!("counter {}: {rust} in Rust, {c} in C", counter.name()));
            }
        }
        Ok(())
    }
}

/// A run: the switch, and what has come of it.
pub(crate) struct World {
    pub(crate) switch: Both,
    /// Packets so far.
    pub(crate) packets: u64,
    /// How often each counter was what a packet was counted as.
    pub(crate) seen: Vec<u64>,
    /// The names of all refusals.
    pub(crate) refused: std::collections::BTreeSet<String>,
}

impl World {
    pub(crate) fn new(config: Config, before: &State) -> World {
        let switch = Both::with_state(config, before).expect("a configuration");
        World { switch, packets: 0, seen: vec![0; Counter::ALL.len()], refused: Default::default() }
    }

    fn ended(&mut self, counter: Option<Counter>) {
        if let Some(counter) = counter {
            self.seen[counter as usize] += 1;
        }
    }

    pub(crate) fn happen(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Do(command) => {
                if let Err(refusal) = self.switch.control(command)? {
                    let name = format!("{refusal:?}");
                    self.refused.insert(name.split(['(', ' ']).next().unwrap_or_default().to_owned());
                }
            }
            Event::In(port, udp_port, payload) => {
                let counter = self.switch.step(*port, *udp_port, payload)?;
                self.packets += 1;
                self.seen[counter as usize] += 1;
            }
            Event::Hold(place, port, udp_port, payload) => {
                let counter = self.switch.hold(*place, *port, *udp_port, payload)?;
                self.packets += 1;
                self.ended(counter);
            }
            Event::Go(place) => {
                let counter = self.switch.go(*place)?;
                self.ended(counter);
            }
        }
        Ok(())
    }
}

/// What the first difference is if these events happen, all compared after each; nothing if there is none.
pub(crate) fn difference(config: Config, before: &State, events: &[Event]) -> Option<String> {
    let mut world = World::new(config, before);
    events.iter().find_map(|event| world.happen(event).and_then(|()| world.switch.compare()).err())
}

/// The events without those that the difference does not need: first halves are left out, then quarters, at last single events.
pub(crate) fn shrunk(config: Config, before: &State, mut events: Vec<Event>) -> Vec<Event> {
    let mut length = events.len().div_ceil(2);
    while length > 0 {
        let (mut begin, mut left_out) = (0, false);
        while begin < events.len() {
            let end = (begin + length).min(events.len());
            let rest = [&events[..begin], &events[end..]].concat();
            if difference(config, before, &rest).is_some() {
                (events, left_out) = (rest, true);
            } else {
                begin = end;
            }
        }
        length = if length == 1 && left_out { 1 } else { length / 2 };
    }
    events
}
