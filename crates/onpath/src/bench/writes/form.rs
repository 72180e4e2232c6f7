//! The forms that are compared.

use crate::bench::net::apart::Apart;
use crate::bench::net::servers::{Shape, Switch};
use clap::ValueEnum;
use serde::Serialize;

/// Hosts, each with a shard and a data node.
pub(super) const HOSTS: u16 = 2;

/// Who answers a write(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Form {
    /// The home, which the data node tells.
    Chain,
    /// The home, which the client tells when it has heard from the data node.
    TwoPhase,
    /// The data node, which the home asks for what it has yet to learn.
    Owner,
    /// The same, where homes hear of each write at once, not of many together a little later.
    OwnerAtOnce,
    /// The data node, whose answer leaves in the table of a switch what the home has yet to learn.
    Network,
    /// The same, the switch in the kernel; there only with --switch-at.
    Kernel,
}

impl Form {
    /// The hosts: the same processes for every form.
    pub(super) fn shape(self, apart: Option<&Apart>) -> Shape<'_> {
        let settings: &[_] = match self {
            Form::Chain => &[],
            Form::TwoPhase => &[("writes", "two-phase")],
            Form::Owner => &[("writes", "visible")],
            Form::OwnerAtOnce => &[("writes", "visible"), ("learning", "at-once")],
            Form::Network | Form::Kernel => &[("writes", "visible"), ("tracking", "network")],
        };
        Shape { settings, hosts: HOSTS, switch: Some(Switch::at(apart, self == Form::Kernel)), ..Shape::NETWORK }
    }

    /// Whether a table of the switch shows writes.
    pub(super) fn has_table(self) -> bool {
        matches!(self, Form::Network | Form::Kernel)
    }

    /// As it is asked for.
    pub(super) fn name(self) -> String {
        self.to_possible_value().expect("no form is hidden").get_name().to_owned()
    }
}
