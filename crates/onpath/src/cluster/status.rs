//! `onpath cluster status`: what a configuration says, and which of its hosts answer.

use super::config::{Cluster, Host};
use crate::cli::say;
use clap::Args;
use comfy_table::{Table, presets};
use onpath_client::key;
use onpath_host::udp::{HostStatus, ask_status};
use onpath_wire::shown::Shown;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `onpath cluster status`.
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// The configuration.
    #[arg(env = "ONPATH_CONFIG", default_value = "/etc/onpath/cluster.toml", value_name = "FILE")]
    file: PathBuf,
    /// Print JSON: an object with an array of hosts.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: StatusArgs) -> anyhow::Result<()> {
    let cluster = Cluster::read(&args.file)?;
    let keys = key::keys_of(cluster.key_file.as_deref())?;
    let asked: Vec<anyhow::Result<Option<HostStatus>>> = std::thread::scope(|scope| {
        let ask =
            |host: &Host| -> anyhow::Result<Option<HostStatus>> { Ok(ask_status(host.resolve()?, keys.as_ref())?) };
        let asking: Vec<_> = cluster.hosts.iter().map(|host| scope.spawn(move || ask(host))).collect();
        asking.into_iter().map(|thread| thread.join().expect("asking does not panic")).collect()
    });
    let all: Vec<_> = cluster.hosts.iter().zip(&asked).collect();
    let silent = all.iter().filter(|(_, status)| !matches!(status, Ok(Some(_)))).count();
    if args.json {
        let hosts: Vec<Value> = all.iter().map(|(host, status)| as_json(host, status)).collect();
        let fsid = format!("{:016x}", cluster.fsid());
        say(&json!({ "name": cluster.name, "fsid": fsid, "shards": cluster.shards, "hosts": hosts }).to_string());
    } else {
        let by = match told_by_shards(&all).next() {
            None => String::new(),
            Some([]) => "; directories are tracked by their owners".to_owned(),
            Some(switches) => format!("; directories are tracked by {}", names_of(&all, switches).join(" and ")),
        };
        say(&format!("{}: {} shards on {} hosts{by}", cluster.name.shown(), cluster.shards, cluster.hosts.len()));
        say(&table(&all));
    }
    anyhow::ensure!(silent == 0, "{silent} of {} hosts do not answer", cluster.hosts.len());
    Ok(())
}

type Asked<'a> = (&'a Host, &'a anyhow::Result<Option<HostStatus>>);

/// The names of hosts with these numbers.
fn names_of<'a>(all: &[Asked<'a>], numbers: &[u16]) -> Vec<&'a str> {
    let of = |number: &u16| all.iter().find(|(host, _)| host.number == *number);
    numbers.iter().filter_map(of).map(|(host, _)| host.name.as_str()).collect()
}

/// What hosts with shards say of the switches that track directories; the first of them hears it first, if it has the coordinator.
fn told_by_shards<'a>(all: &'a [Asked<'a>]) -> impl Iterator<Item = &'a [u16]> {
    all.iter().filter(|(host, _)| !host.shards.is_empty()).filter_map(|(_, status)| match status {
        Ok(Some(status)) => Some(&status.tracked_by[..]),
        _ => None,
    })
}

fn table(all: &[Asked<'_>]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["host", "address", "shards", "data", "switch", "path", "up", "reaches", "clients", "keys"]);
    for (host, status) in all {
        let shards: Vec<String> = host.shards.iter().map(u16::to_string).collect();
        let yes = |there: bool| if there { "yes" } else { "" }.to_owned();
        let (up, reaches, clients, keys) = match status {
            Ok(Some(status)) => {
                let up = Duration::from_secs(status.uptime_ms / 1_000);
                (
                    format!("{up:?}"),
                    names_of(all, &status.reaches).join(" "),
                    status.clients.to_string(),
                    names_of_keys(status).join(" "),
                )
            }
            Ok(None) => ("silent".to_owned(), String::new(), String::new(), String::new()),
            Err(error) => (error.to_string(), String::new(), String::new(), String::new()),
        };
        let (switch, path) = (yes(host.switch_port.is_some()), yes(host.path.is_some()));
        table.add_row([
            host.name.shown().to_string(),
            host.place(),
            shards.join(" "),
            yes(host.data),
            switch,
            path,
            up,
            reaches,
            clients,
            keys,
        ]);
    }
    table.to_string()
}

/// What datagrams call the keys that a host takes, the one that it sends with first.
fn names_of_keys(status: &HostStatus) -> Vec<String> {
    status.keys.iter().map(|id| format!("{id:08x}")).collect()
}

fn as_json(host: &Host, status: &anyhow::Result<Option<HostStatus>>) -> Value {
    let mut all = json!({
        "name": host.name,
        "number": host.number,
        "address": host.place(),
        "shards": host.shards,
        "data": host.data,
        "switch": host.switch_port.is_some(),
        "path": host.path.is_some(),
        "up": matches!(status, Ok(Some(_))),
    });
    let told = match status {
        Ok(Some(status)) => json!({
            "version": String::from_utf8_lossy(&status.version.0),
            "uptime_ms": status.uptime_ms,
            "reaches": status.reaches,
            "clients": status.clients,
            "messages_lost": status.lost,
            "tracked_by": status.tracked_by,
            "keys": names_of_keys(status),
        }),
        Ok(None) => json!({}),
        Err(error) => json!({ "error": error.to_string() }),
    };
    let (all_of, told) = (all.as_object_mut().expect("made above"), told);
    all_of.extend(told.as_object().cloned().into_iter().flatten());
    all
}
