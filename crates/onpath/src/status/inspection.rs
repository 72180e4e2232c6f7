//! What the roles of all hosts of a cluster know of one inode, asked over the network.

use super::reading::{Host, Look, each_asked, left, of_url};
use onpath_client::key;
use onpath_host::udp::ask_inspection;
use onpath_wire::ids::InodeId;
use serde_json::{Map, Value};
use std::path::Path;
use std::time::{Duration, Instant};

/// What hosts have told, as far as they have.
pub(crate) struct Inspection {
    /// An object of `role@host`, each an object of numbers. JSON.
    pub(crate) roles: Value,
    /// Hosts that have not told it, by name.
    pub(crate) silent: Vec<String>,
}

/// Asks all hosts of the cluster of which a URL names some, at the same time. Who has not told it `within` that time is silent.
pub(crate) fn inspection(
    url: &str,
    key_file: Option<&Path>,
    inode: InodeId,
    within: Duration,
) -> anyhow::Result<Inspection> {
    let end = Instant::now() + within;
    let keys = key::keys_of(key_file)?;
    let known = of_url(url, key_file, Look { end: Instant::now() + within / 2, rates: false })?;
    // What they have told of themselves is no answer to this.
    let hosts = known.hosts.into_iter().map(|host| Host { report: None, ..host }).collect();
    let hosts = each_asked(hosts, end, move |host, address| {
        let told = ask_inspection(address, keys.as_ref(), inode, left(end))?;
        Ok(Host { report: told.map(|text| serde_json::from_str(&text)).transpose()?, ..host })
    });
    let (told, silent): (Vec<Host>, Vec<Host>) = hosts.into_iter().partition(|host| host.report.is_some());
    anyhow::ensure!(
        !told.is_empty(),
        "none of {} hosts tells what it knows: hosts of a cluster with a key tell it whoever has that (--key-file), and nobody with a key of a client",
        silent.len()
    );
    let mut roles = Map::new();
    for Host { name, report, .. } in told {
        let Some(Value::Object(of_host)) = report else { continue };
        roles.extend(of_host.into_iter().map(|(role, known)| (format!("{role}@{name}"), known)));
    }
    Ok(Inspection { roles: roles.into(), silent: silent.into_iter().map(|host| host.name).collect() })
}
