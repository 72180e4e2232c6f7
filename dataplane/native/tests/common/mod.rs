//! The C form as a target of the vectors, whose runner is that of `dataplane/rust`.

#[path = "../../../rust/tests/common/mod.rs"]
pub(crate) mod runner;

use onpath_dataplane::{Command, Config, ConfigError, ControlError, Copy, Counter, Port, State, Step};
use onpath_dataplane_native::{Switch, Waiting};
use runner::Target;

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
    fn arrive(&mut self, port: Port, payload: (u16, &[u8]), out: &mut Vec<Copy>) -> Step<Waiting> {
        Switch::arrive(self, port, payload.0, payload.1, out)
    }
    fn go_on(&mut self, waiting: Waiting, out: &mut Vec<Copy>) -> Step<Waiting> {
        Switch::go_on(self, waiting, out)
    }
    fn state(&mut self) -> State {
        Switch::state(self)
    }
    fn count(&self, counter: Counter) -> u64 {
        Switch::count(self, counter)
    }
}
