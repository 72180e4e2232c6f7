//! The forms that are compared.

use crate::bench::net::servers::Shape;
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
}

impl Form {
    /// The hosts: the same processes for every form.
    pub(super) fn shape(self) -> Shape {
        let settings: &[_] = match self {
            Form::Chain => &[],
            Form::TwoPhase => &[("writes", "two-phase")],
            Form::Owner => &[("writes", "visible")],
            Form::OwnerAtOnce => &[("writes", "visible"), ("learning", "at-once")],
            Form::Network => &[("writes", "visible"), ("tracking", "network")],
        };
        Shape { settings, hosts: HOSTS, ..Shape::NETWORK }
    }

    /// As it is asked for.
    pub(super) fn name(self) -> String {
        self.to_possible_value().expect("no form is hidden").get_name().to_owned()
    }
}
