//! Reads `dataplane/vectors/*.txt` (format: SPEC.md, *Vectors*) and runs them on a target.

use onpath_dataplane::common::planted::Planted;
use onpath_dataplane::common::state::{CacheState, Entry, Lease, Pair, Stamp};
use onpath_dataplane::{CacheCommand, Command, Config, ConfigError, ControlError, Copy, Counter, Port};
use onpath_dataplane::{State, Step as Way, Switch, Tracking, Waiting};
use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

/// The directory of SPEC.md.
pub(crate) fn dataplane() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the directory of SPEC.md")
}

/// A form of the program that is a value.
pub(crate) trait Target: Sized {
    fn with_state(config: Config, state: &State) -> Result<Self, ConfigError>;
    fn control(&mut self, command: &Command) -> Result<(), ControlError>;
    fn step(&mut self, port: Port, udp_port: u16, payload: &[u8], out: &mut Vec<Copy>) -> Counter;
    /// A packet that waits on its way.
    type Waiting;
    /// As `step`, as far as the packet comes without having to wait.
    fn arrive(&mut self, port: Port, payload: (u16, &[u8]), out: &mut Vec<Copy>) -> Way<Self::Waiting>;
    /// A packet that has waited, to where it waits next.
    fn go_on(&mut self, waiting: Self::Waiting, out: &mut Vec<Copy>) -> Way<Self::Waiting>;
    fn state(&mut self) -> State;
    fn count(&self, counter: Counter) -> u64;
}

impl Target for Switch {
    fn with_state(config: Config, state: &State) -> Result<Switch, ConfigError> {
        Switch::with_state(config, state)
    }
    fn control(&mut self, command: &Command) -> Result<(), ControlError> {
        Switch::control(self, command)
    }
    fn step(&mut self, port: Port, udp_port: u16, payload: &[u8], out: &mut Vec<Copy>) -> Counter {
        Switch::step(self, port, udp_port, payload, out)
    }
    type Waiting = Waiting;
    fn arrive(&mut self, port: Port, payload: (u16, &[u8]), out: &mut Vec<Copy>) -> Way {
        Switch::arrive(self, port, payload.0, payload.1, out)
    }
    fn go_on(&mut self, waiting: Waiting, out: &mut Vec<Copy>) -> Way {
        Switch::go_on(self, waiting, out)
    }
    fn state(&mut self) -> State {
        Switch::state(self)
    }
    fn count(&self, counter: Counter) -> u64 {
        self.counters().get(counter)
    }
}

/// What happens in a vector.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A command, and whether it is refused.
    Do { command: Command, refused: bool },
    /// A packet, the port by which it comes, whether it passes, and its copies.
    In { port: Port, udp_port: u16, payload: Vec<u8>, pass: bool, outs: Vec<(Port, Vec<u8>)> },
    /// A packet that is to wait, under a name.
    Hold { name: String, port: Port, udp_port: u16, payload: Vec<u8>, outs: Vec<(Port, Vec<u8>)> },
    /// It goes on; whether it waits again, and its copies.
    Go { name: String, waits: bool, outs: Vec<(Port, Vec<u8>)> },
}

/// A vector, as read.
#[derive(Clone, Debug)]
pub(crate) struct Vector {
    pub(crate) name: String,
    pub(crate) rules: Vec<String>,
    pub(crate) config: Config,
    pub(crate) before: State,
    pub(crate) tables: Vec<Command>,
    pub(crate) steps: Vec<Step>,
    pub(crate) after: State,
    pub(crate) counts: BTreeMap<String, u64>,
}

fn number<T: std::str::FromStr>(word: Option<&&str>) -> T {
    let word = word.expect("a number is missing");
    word.parse().unwrap_or_else(|_| panic!("{word:?} is no number in its range"))
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = if hex == "-" { "" } else { hex };
    assert!(digits.len().is_multiple_of(2), "odd number of digits");
    (0..digits.len() / 2).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("hexadecimal")).collect()
}

fn command(words: &[&str]) -> Command {
    let at = |place: usize| words.get(place);
    match words[0] {
        "epoch" => Command::Epoch(number(at(1))),
        "complete" => Command::Complete(number(at(1))),
        "raise" => Command::Raise { shard: number(at(1)), term: number(at(2)) },
        "clear" => Command::Clear,
        "route" => Command::Route { node: number(at(1)), port: Port(number(at(2))) },
        "unroute" => Command::Unroute { node: number(at(1)) },
        "host" => Command::Host { port: Port(number(at(1))) },
        "unhost" => Command::Unhost { port: Port(number(at(1))) },
        "reboot" => Command::Reboot,
        "visibility.epoch" => Command::VisibilityEpoch(number(at(1))),
        "visibility.complete" => Command::VisibilityComplete(number(at(1))),
        "visibility.clear" => Command::VisibilityClear,
        _ => Command::Cache(cache_command(words)),
    }
}

fn cache_command(words: &[&str]) -> CacheCommand {
    let at = |place: usize| words.get(place);
    match words[0] {
        "cache.clock" => CacheCommand::Clock(number(at(1))),
        "cache.begin" => CacheCommand::Begin { epoch: number(at(1)), until: number(at(2)) },
        "cache.renew" => CacheCommand::Renew { epoch: number(at(1)), until: number(at(2)) },
        "cache.off" => CacheCommand::Off,
        "cache.empty" => CacheCommand::Empty,
        "cache.stamp" => CacheCommand::Stamp { epoch: number(at(1)), index: number(at(2)), number: number(at(3)) },
        "cache.admit" => CacheCommand::Admit {
            epoch: number(at(1)),
            key: number(at(2)),
            token: number(at(3)),
            index: number(at(4)),
            number: number(at(5)),
        },
        "cache.evict" => CacheCommand::Evict { epoch: number(at(1)), key: number(at(2)), token: number(at(3)) },
        "cache.any" => CacheCommand::Any { port: Port(number(at(1))) },
        "cache.caller" => CacheCommand::Caller { port: Port(number(at(1))), uid: number(at(2)), gid: number(at(3)) },
        "cache.unlist" => CacheCommand::Unlist { port: Port(number(at(1))) },
        "cache.report" => CacheCommand::Report { node: number(at(1)), threshold: number(at(2)) },
        "cache.reset" => CacheCommand::Reset,
        other => panic!("unknown command {other:?}"),
    }
}

/// A register of the cache; false if the words name none.
fn cache_register(cache: &mut CacheState, words: &[&str]) -> bool {
    let at = |place: usize| words.get(place);
    match words[0] {
        "cache.lease" => cache.lease = Lease { epoch: number(at(1)), until: number(at(2)) },
        "cache.stamp" if words.len() == 4 => {
            cache.stamps.push((number(at(1)), Stamp { number: number(at(2)), state: number(at(3)) }));
        }
        "cache.value" => cache.values.push((number(at(1)), bytes(words[2]).try_into().expect("84 bytes"))),
        "cache.sketch" => cache.sketch.push((number(at(1)), number(at(2)), number(at(3)))),
        "cache.reported" => cache.reported.push(number(at(1))),
        "cache.hits" => cache.hits.push((number(at(1)), number(at(2)))),
        _ => return false,
    }
    true
}

/// A register into a state; false if the words name none.
fn register(state: &mut State, words: &[&str]) -> bool {
    let at = |place: usize| words.get(place);
    match words[0] {
        "dirty_set.epoch" => state.tracking = tracking(words),
        "dirty_set.pair" => {
            state.pairs.push((number(at(1)), Pair { min_term: number(at(2)), counter: number(at(3)) }));
        }
        "dirty_set.tag" => state.tags.push((number(at(1)), number(at(2)), number(at(3)))),
        "visibility.epoch" => state.visibility = tracking(words),
        "visibility.entry" => {
            let metadata = bytes(words[4]).try_into().expect("96 bytes");
            state.entries.push((number(at(1)), Entry { fingerprint: number(at(2)), ts: number(at(3)), metadata }));
        }
        _ => return cache_register(&mut state.cache, words),
    }
    true
}

fn tracking(words: &[&str]) -> Tracking {
    Tracking { epoch: number(words.get(1)), complete: number::<u8>(words.get(2)) == 1 }
}

impl Vector {
    fn new(name: &str) -> Vector {
        Vector {
            name: name.to_owned(),
            rules: vec![],
            config: Config { cache_bits: 0, ..Config::whole(0) },
            before: State::default(),
            tables: vec![],
            steps: vec![],
            after: State::default(),
            counts: BTreeMap::new(),
        }
    }

    fn line(&mut self, words: &[&str]) {
        let at = |place: usize| words.get(place);
        match (words[0], self.steps.last_mut()) {
            ("rules", _) => self.rules = words[1..].iter().map(|&word| word.to_owned()).collect(),
            ("index_bits", _) => self.config.index_bits = number(at(1)),
            ("stages", _) => self.config.stages = number(at(1)),
            ("entry_bits", _) => self.config.entry_bits = number(at(1)),
            ("cache_bits", _) => self.config.cache_bits = number(at(1)),
            ("cluster", _) => self.config.cluster = number(at(1)),
            ("udp_port", _) => self.config.udp_port = number(at(1)),
            ("before", _) => {
                if !register(&mut self.before, &words[1..]) {
                    self.tables.push(command(&words[1..]));
                }
            }
            ("do", _) => self.steps.push(Step::Do { command: command(&words[1..]), refused: false }),
            ("refused", Some(Step::Do { refused, .. })) => *refused = true,
            ("in", _) => {
                let (port, udp_port, payload) = (Port(number(at(1))), number(at(2)), bytes(words[3]));
                self.steps.push(Step::In { port, udp_port, payload, pass: false, outs: vec![] });
            }
            ("pass", Some(Step::In { pass, .. })) => *pass = true,
            ("hold", _) => {
                let (port, udp_port, payload) = (Port(number(at(2))), number(at(3)), bytes(words[4]));
                self.steps.push(Step::Hold { name: words[1].to_owned(), port, udp_port, payload, outs: vec![] });
            }
            ("go", _) => self.steps.push(Step::Go { name: words[1].to_owned(), waits: false, outs: vec![] }),
            ("waits", Some(Step::Go { waits, .. })) => *waits = true,
            ("out", Some(Step::In { outs, .. } | Step::Hold { outs, .. } | Step::Go { outs, .. })) => {
                outs.push((Port(number(at(1))), bytes(words[2])))
            }
            ("after", _) => assert!(register(&mut self.after, &words[1..]), "unknown register {:?}", words[1]),
            ("count", _) => {
                assert!(Counter::ALL.iter().any(|counter| counter.name() == words[1]), "unknown counter {}", words[1]);
                self.counts.insert(words[1].to_owned(), number(at(2)));
            }
            (other, _) => panic!("a line {other:?} is out of place"),
        }
    }

    /// The switch before the steps.
    pub(crate) fn switch<T: Target>(&self) -> T {
        let mut switch = T::with_state(self.config, &self.before).expect("the configuration of a vector");
        for command in &self.tables {
            switch.control(command).expect("the tables of a vector");
        }
        switch
    }

    /// Runs it; what the switch did that it should not have done.
    pub(crate) fn run<T: Target>(&self) -> Result<(), String> {
        let mut switch = self.switch::<T>();
        let mut held = BTreeMap::new();
        for (number, step) in self.steps.iter().enumerate() {
            run_step(&mut switch, &mut held, step).map_err(|what| format!("step {}: {what}", number + 1))?;
        }
        let after = switch.state();
        if after != self.after {
            return Err(format!("registers after: {after:?} instead of {:?}", self.after));
        }
        let counts: BTreeMap<String, u64> = Counter::ALL
            .iter()
            .map(|&counter| (counter.name().to_owned(), switch.count(counter)))
            .filter(|(_, count)| *count != 0)
            .collect();
        if counts != self.counts {
            return Err(format!("counters after: {counts:?} instead of {:?}", self.counts));
        }
        Ok(())
    }
}

/// What waits, by its name, with the payload that came in.
type Held<T> = BTreeMap<String, (Vec<u8>, <T as Target>::Waiting)>;

/// Whether these are the copies of a packet that came in with this payload.
fn compared(copies: &[Copy], payload: &[u8], outs: &[(Port, Vec<u8>)]) -> Result<(), String> {
    let mut given: Vec<_> = copies.iter().map(|copy| (copy.port, copy.payload(payload))).collect();
    let mut wanted = outs.to_vec();
    given.sort();
    wanted.sort();
    (given == wanted).then_some(()).ok_or_else(|| format!("copies {given:02x?} instead of {wanted:02x?}"))
}

fn run_step<T: Target>(switch: &mut T, held: &mut Held<T>, step: &Step) -> Result<(), String> {
    match step {
        Step::Do { command, refused } => {
            let result = switch.control(command);
            (result.is_err() == *refused).then_some(()).ok_or_else(|| format!("{command:?} gave {result:?}"))
        }
        Step::In { port, udp_port, payload, pass, outs } => {
            let mut copies = vec![];
            let counter = switch.step(*port, *udp_port, payload, &mut copies);
            if (counter == Counter::Plain) != *pass {
                return Err(format!("counted as {}", counter.name()));
            }
            compared(&copies, payload, outs)
        }
        Step::Hold { name, port, udp_port, payload, outs } => {
            let mut copies = vec![];
            if let Way::Waits(waiting) = switch.arrive(*port, (*udp_port, payload), &mut copies) {
                held.insert(name.clone(), (payload.clone(), waiting));
            }
            compared(&copies, payload, outs)
        }
        Step::Go { name, waits, outs } => {
            let (payload, waiting) = held.remove(name).ok_or_else(|| format!("{name} waits nowhere"))?;
            let mut copies = vec![];
            let left = match switch.go_on(waiting, &mut copies) {
                Way::Waits(waiting) => Some(waiting),
                Way::Counted(_) => None,
            };
            if left.is_some() != *waits {
                return Err(format!("{name} {}", if *waits { "is at its end" } else { "waits" }));
            }
            compared(&copies, &payload, outs)?;
            held.extend(left.map(|waiting| (name.clone(), (payload, waiting))));
            Ok(())
        }
    }
}

/// All vectors of one file's text.
pub(crate) fn read(text: &str) -> Vec<Vector> {
    let mut vectors = vec![];
    let mut open: Option<Vector> = None;
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        match (words[0], &mut open) {
            ("vector", None) => open = Some(Vector::new(line.strip_prefix("vector ").expect("a name"))),
            ("end", Some(_)) => vectors.extend(open.take()),
            (_, Some(vector)) => vector.line(&words),
            (_, None) => panic!("outside of a vector: {line}"),
        }
    }
    assert!(open.is_none(), "the last vector has no end");
    vectors
}

/// The vectors of all files.
pub(crate) fn vectors() -> Vec<Vector> {
    let dir = dataplane().join("vectors");
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    assert!(!files.is_empty(), "no vectors in {}", dir.display());
    files.iter().flat_map(|path| read(&std::fs::read_to_string(path).expect("text"))).collect()
}

/// The vectors that a target can run in which no packet can be made to wait.
#[allow(dead_code, reason = "targets whose packets wait run all")]
pub(crate) fn vectors_without_waiting() -> Vec<Vector> {
    let waits = |step: &Step| matches!(step, Step::Hold { .. } | Step::Go { .. });
    vectors().into_iter().filter(|vector| !vector.steps.iter().any(waits)).collect()
}

/// Runs all vectors on a target; none may fail.
#[allow(dead_code, reason = "a target that is no value has a run of its own")]
pub(crate) fn all_pass<T: Target>() {
    let told = |vector: &Vector, what| format!("{} ({}): {what}", vector.name, vector.rules.join(" "));
    let vectors = vectors();
    let failed: Vec<String> =
        vectors.iter().filter_map(|vector| vector.run::<T>().err().map(|what| told(vector, what))).collect();
    assert!(failed.is_empty(), "{} vectors fail:\n{}", failed.len(), failed.join("\n"));
}

/// Removes every rule once; a vector of that very rule must notice.
#[allow(dead_code, reason = "only tests of planted bugs do")]
pub(crate) fn every_rule_is_needed<T: Target>(plant: impl Fn(Option<Planted>)) {
    let vectors = vectors();
    let mut unnoticed = vec![];
    for &bug in Planted::ALL {
        let rule = format!("{bug:?}").replace('D', "D-");
        plant(Some(bug));
        let noticed: Vec<&str> = vectors
            .iter()
            .filter(|vector| vector.rules.contains(&rule))
            .filter(|vector| catch_unwind(|| vector.run::<T>()).is_ok_and(|result| result.is_err()))
            .map(|vector| vector.name.as_str())
            .collect();
        plant(None);
        match noticed.first() {
            None => unnoticed.push(rule),
            Some(first) => println!("{rule}: {} vectors notice, the first is {first:?}", noticed.len()),
        }
    }
    assert!(unnoticed.is_empty(), "no vector needs these rules: {unnoticed:?}");
}
