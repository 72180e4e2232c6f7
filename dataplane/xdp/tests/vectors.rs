//! All vectors, as datagrams of real sockets through the attached program.
//!
//! A vector's ports are sockets of two hosts. A packet that is to wait is given to the program turn by turn, and does not leave.

mod common;
#[path = "../../rust/tests/common/mod.rs"]
#[allow(dead_code, reason = "a part of it runs other targets")]
mod shared;

use common::frame::frame_to;
use common::{Network, PATIENCE, SWITCH, report};
use onpath_dataplane::{CacheCommand, Command, Counter, Port};
use onpath_testing::skipped;
use onpath_xdp::turns::{Turn, Waiting};
use onpath_xdp::{XdpConfig, XdpError, XdpSwitch};
use shared::{Step, Vector};
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::Instant;

/// Stages on which vectors run side by side: most of a vector's time is the kernel's, which attaches the program and takes it off again.
const STAGES: usize = 6;
/// Ports that one vector may name.
const PORTS: usize = 128;
const FIRST_UDP_PORT: u16 = 9000;

/// What waits, by its name.
type Held = BTreeMap<String, Waiting>;

const XDP_DROP: u32 = 1;
const XDP_REDIRECT: u32 = 4;

struct Stage {
    network: Network,
    /// Of the ports of a vector, by their order.
    sockets: Vec<UdpSocket>,
}

/// All ports that a vector names, with their places.
fn ports(vector: &Vector) -> BTreeMap<u32, usize> {
    let of_step = |step: &Step| match step {
        Step::Do { command, .. } => port_of(command).into_iter().collect(),
        Step::In { port, outs, .. } | Step::Hold { port, outs, .. } => {
            outs.iter().map(|(port, _)| port.0).chain([port.0]).collect::<Vec<u32>>()
        }
        Step::Go { outs, .. } => outs.iter().map(|(port, _)| port.0).collect(),
    };
    let mut ports: Vec<u32> = vector.tables.iter().filter_map(port_of).collect();
    ports.extend(vector.steps.iter().flat_map(of_step));
    ports.sort_unstable();
    ports.dedup();
    assert!(ports.len() <= PORTS, "{} names {} ports", vector.name, ports.len());
    ports.into_iter().enumerate().map(|(place, port)| (port, place)).collect()
}

fn port_of(command: &Command) -> Option<u32> {
    match command {
        Command::Route { port, .. }
        | Command::Host { port }
        | Command::Cache(CacheCommand::Any { port } | CacheCommand::Caller { port, .. }) => Some(port.0),
        _ => None,
    }
}

impl Stage {
    fn new() -> Result<Stage, String> {
        let network = Network::of(2)?;
        let place = |place: usize| network.hosts[place % 2].socket(FIRST_UDP_PORT + place as u16);
        let sockets = (0..PORTS).map(place).collect();
        Ok(Stage { network, sockets })
    }

    fn switch(&self, vector: &Vector, ports: &BTreeMap<u32, usize>) -> Result<XdpSwitch, XdpError> {
        let config = XdpConfig { program: vector.config, address: SWITCH };
        let mut switch = match vector.steps.iter().any(|step| matches!(step, Step::Hold { .. })) {
            true => self.network.switch.within(|| XdpSwitch::attach_with_turns(config, &["port0", "port1"]))?,
            false => self.network.attach(config)?,
        };
        for (&port, &place) in ports {
            let way = self.network.hosts[place % 2].way(FIRST_UDP_PORT + place as u16);
            switch.set_way(Port(port), way)?;
        }
        switch.set_state(&vector.before)?;
        switch.stop_clock(0)?;
        vector.tables.iter().try_for_each(|command| control(&mut switch, command))?;
        Ok(switch)
    }

    /// Runs it; what the switch did that it should not have done.
    fn run(&self, vector: &Vector) -> Result<(), String> {
        let ports = ports(vector);
        let mut switch = self.switch(vector, &ports).map_err(|error| error.to_string())?;
        let mut held = Held::new();
        for (number, step) in vector.steps.iter().enumerate() {
            self.step(&mut switch, &mut held, &ports, step).map_err(|what| format!("step {}: {what}", number + 1))?;
        }
        let mut bytes = [0; 2048];
        for socket in &self.sockets {
            socket.set_nonblocking(true).map_err(|error| error.to_string())?;
            if let Ok(length) = socket.recv(&mut bytes) {
                return Err(format!("a copy too many: {:02x?}", &bytes[..length]));
            }
            socket.set_nonblocking(false).map_err(|error| error.to_string())?;
        }
        after(vector, &switch)
    }

    fn step(
        &self,
        switch: &mut XdpSwitch,
        held: &mut Held,
        ports: &BTreeMap<u32, usize>,
        step: &Step,
    ) -> Result<(), String> {
        match step {
            Step::Do { command, refused } => {
                let result = control(switch, command);
                let as_told = match &result {
                    Ok(()) => !refused,
                    Err(XdpError::Refused(_)) => *refused,
                    Err(_) => false,
                };
                as_told.then_some(()).ok_or_else(|| format!("{command:?} gave {result:?}"))
            }
            Step::In { port, udp_port, payload, pass, outs } => {
                let before = counted(switch, *pass);
                self.send(switch, ports[&port.0], *udp_port, payload)?;
                let deadline = Instant::now() + PATIENCE;
                while counted(switch, *pass) == before {
                    if Instant::now() > deadline {
                        return Err("was not counted".to_owned());
                    }
                }
                // Copies to one port leave in any order (D-16).
                let mut wanted: BTreeMap<usize, Vec<&[u8]>> = BTreeMap::new();
                outs.iter().for_each(|(port, bytes)| wanted.entry(ports[&port.0]).or_default().push(bytes));
                wanted.into_iter().try_for_each(|(place, wanted)| self.arrive(place, wanted))
            }
            Step::Hold { name, port, udp_port, payload, outs } => {
                let turn = switch.arrive(*port, &frame_to(*udp_port, payload)).map_err(|error| error.to_string())?;
                self.turned(turn, held, name, ports, outs).map(drop)
            }
            Step::Go { name, waits, outs } => {
                let waiting = held.remove(name).ok_or_else(|| format!("{name} waits nowhere"))?;
                let turn = switch.go_on(waiting).map_err(|error| error.to_string())?;
                match self.turned(turn, held, name, ports, outs)? {
                    again if again == *waits => Ok(()),
                    again => Err(format!("{name} {}", if again { "waits" } else { "is at its end" })),
                }
            }
        }
    }

    /// Whether a packet waits; otherwise it has this copy or none, which is addressed to its port.
    fn turned(
        &self,
        turn: Turn,
        held: &mut Held,
        name: &str,
        ports: &BTreeMap<u32, usize>,
        outs: &[(Port, Vec<u8>)],
    ) -> Result<bool, String> {
        match (turn, outs) {
            (Turn::Waits(waiting), []) => _ = held.insert(name.to_owned(), waiting),
            (Turn::Over(XDP_DROP, _), []) => return Ok(false),
            (Turn::Over(XDP_REDIRECT, frame), [(port, payload)]) => {
                let at = self.sockets[ports[&port.0]].local_addr().map_err(|error| error.to_string())?;
                let (ip, udp_port) = (<[u8; 4]>::try_from(&frame[30..34]), u16::from_be_bytes([frame[36], frame[37]]));
                let to = (ip.expect("four bytes").into(), udp_port);
                return match (&frame[42..] == payload, to == (at.ip(), at.port())) {
                    (true, true) => Ok(false),
                    _ => Err(format!("copy {:02x?} to {to:?} instead of {payload:02x?} to {at}", &frame[42..])),
                };
            }
            (turn, outs) => return Err(format!("{turn:02x?} instead of {outs:02x?}")),
        }
        Ok(true)
    }

    /// No socket sends to port 0, so such a packet is given to the program alone.
    fn send(&self, switch: &XdpSwitch, place: usize, udp_port: u16, payload: &[u8]) -> Result<(), String> {
        match udp_port {
            0 => switch.try_frame(&frame_to(0, payload), 1).map(drop).map_err(|error| error.to_string()),
            _ => self.sockets[place].send_to(payload, (SWITCH, udp_port)).map(drop).map_err(|error| error.to_string()),
        }
    }

    fn arrive(&self, place: usize, mut wanted: Vec<&[u8]>) -> Result<(), String> {
        while !wanted.is_empty() {
            let mut bytes = [0; 2048];
            let length =
                self.sockets[place].recv(&mut bytes).map_err(|error| format!("{wanted:02x?} did not come: {error}"))?;
            let given = &bytes[..length];
            let found = wanted.iter().position(|bytes| *bytes == given);
            wanted.swap_remove(found.ok_or_else(|| format!("copy {given:02x?} instead of {wanted:02x?}"))?);
        }
        Ok(())
    }
}

/// The clock of a vector stands, at 0 after a reboot.
fn control(switch: &mut XdpSwitch, command: &Command) -> Result<(), XdpError> {
    match *command {
        Command::Cache(CacheCommand::Clock(tick)) => switch.stop_clock(tick),
        Command::Reboot => switch.control(command).and_then(|()| switch.stop_clock(0)),
        _ => switch.control(command),
    }
}

/// How many packets were looked at, or passed.
fn counted(switch: &XdpSwitch, passed: bool) -> u64 {
    let kinds =
        Counter::ALL.iter().filter(|&&counter| counter.counts_packets() && (counter == Counter::Plain) == passed);
    kinds.map(|&counter| switch.count(counter).expect("a counter")).sum()
}

fn after(vector: &Vector, switch: &XdpSwitch) -> Result<(), String> {
    let state = switch.state().map_err(|error| error.to_string())?;
    if state != vector.after {
        return Err(format!("registers after: {state:?} instead of {:?}", vector.after));
    }
    for &counter in Counter::ALL {
        let (given, wanted) = (
            switch.count(counter).map_err(|error| error.to_string())?,
            vector.counts.get(counter.name()).copied().unwrap_or(0),
        );
        // Hosts have frames of their own, which pass.
        if if counter == Counter::Plain { given < wanted } else { given != wanted } {
            return Err(format!("{} is {given} instead of {wanted}", counter.name()));
        }
    }
    Ok(())
}

#[test]
fn the_attached_program_passes_every_vector() {
    const TEST: &str = "the_attached_program_passes_every_vector";
    if let Err(why) = common::network(1, XdpConfig { program: onpath_dataplane::Config::whole(1), address: SWITCH }) {
        return skipped(TEST, &why);
    }
    let vectors = shared::vectors();
    let run = |vectors: &[Vector]| {
        let stage = Stage::new().expect("a network as before");
        let failed = vectors.iter().filter_map(|vector| {
            stage.run(vector).err().map(|what| format!("{} ({}): {what}", vector.name, vector.rules.join(" ")))
        });
        failed.collect::<Vec<String>>()
    };
    let failed: Vec<String> = std::thread::scope(|scope| {
        let each = vectors.chunks(vectors.len().div_ceil(STAGES));
        let stages: Vec<_> = each.map(|vectors| scope.spawn(|| run(vectors))).collect();
        stages.into_iter().flat_map(|stage| stage.join().expect("a stage")).collect()
    });
    assert!(failed.is_empty(), "{} of {} vectors fail:\n{}", failed.len(), vectors.len(), failed.join("\n"));
    report(&format!("{TEST}: {} vectors", vectors.len()));
}
