//! Packets of the cache that wait on their way, as vectors have it: the kernel takes a packet's passes in one go, but another processor may
//! do anything between two turns of it.

use crate::error::Doing;
use crate::layout::RawTurn;
use crate::{XdpConfig, XdpError, XdpSwitch, layout, maps};
use onpath_dataplane::Port;

const XDP_PASS: u32 = 2;
/// Where `waits` is in `struct turn`.
const WAITS: std::ops::Range<usize> = 12..16;

/// A packet that waits.
#[derive(Debug)]
pub struct Waiting {
    raw: RawTurn,
    frame: Vec<u8>,
}

/// What a turn came to.
#[derive(Debug)]
pub enum Turn {
    /// The packet waits.
    Waits(Waiting),
    /// It is done: what the program returns, and the frame after it, which goes nowhere.
    Over(u32, Vec<u8>),
}

impl XdpSwitch {
    /// As [`XdpSwitch::attach`], and packets of the cache can be made to wait.
    ///
    /// # Errors
    /// As there.
    pub fn attach_with_turns(config: XdpConfig, devices: &[&str]) -> Result<XdpSwitch, XdpError> {
        let mut switch = XdpSwitch::load_with(config, None, true)?;
        devices.iter().try_for_each(|device| switch.attach_device(device))?;
        Ok(switch)
    }

    /// A frame of a packet of the cache comes in by a port, as far as it comes without having to wait.
    ///
    /// # Errors
    /// A port without a way; what the kernel says.
    ///
    /// # Panics
    /// The switch was attached without turns.
    pub fn arrive(&mut self, port: Port, frame: &[u8]) -> Result<Turn, XdpError> {
        let (device, address) = self.source(port)?;
        let from = layout::source(device, address);
        let mut raw = [0; size_of::<RawTurn>()];
        raw[..from.len()].copy_from_slice(&from);
        self.go_on(Waiting { raw, frame: frame.to_vec() })
    }

    /// A packet that has waited, to where it waits next.
    ///
    /// # Errors
    /// What the kernel says.
    ///
    /// # Panics
    /// The switch was attached without turns.
    pub fn go_on(&mut self, waiting: Waiting) -> Result<Turn, XdpError> {
        const WHAT: &str = "a turn of a packet";
        let Waiting { raw, frame } = waiting;
        let program = self.programs.turn.as_ref().expect("a switch that has turns");
        self.maps.turns.set(0, raw, 0).doing(WHAT)?;
        let mut out = vec![0; frame.len()];
        let result = maps::run(program, &frame, &mut out, 1)?;
        let raw = self.maps.turns.get(&0, 0).doing(WHAT)?;
        let waits = raw[WAITS].iter().any(|byte| *byte != 0);
        assert_eq!(waits, result.return_value == XDP_PASS, "what waits passes");
        Ok(if waits { Turn::Waits(Waiting { raw, frame }) } else { Turn::Over(result.return_value, out) })
    }
}
