//! `onpath switch attach|detach|status`: the in-network program in the kernel, on network devices of this host.

use crate::cli::say;
use crate::inspect;
use anyhow::{Context, ensure};
use clap::{Args, Subcommand};
use comfy_table::{Table, presets};
use onpath_dataplane::{Config, Counter};
use onpath_wire::ids::InodeId;
use onpath_wire::innet::INNET_UDP_PORT;
use onpath_wire::shown::Shown;
use onpath_xdp::pins::{self, PINS};
use onpath_xdp::{XdpConfig, XdpError, XdpSwitch};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Arguments of `onpath switch`.
#[derive(Args, Debug)]
pub(crate) struct SwitchArgs {
    #[command(subcommand)]
    command: SwitchCommand,
}

#[derive(Subcommand, Debug)]
enum SwitchCommand {
    /// Attaches a file system's switch to network devices, as an XDP program in their drivers. It stays until it is detached.
    Attach(AttachArgs),
    /// Takes the switch off network devices; off its last one, it forgets all that it knew.
    Detach(DetachArgs),
    /// Shows the tracking epoch and the counters of the switch on network devices.
    Status(StatusArgs),
    /// Shows what a switch answers from its cache: the names that it answered most in the last two seconds, and what it was asked for.
    Top(TopArgs),
}

#[derive(Args, Debug)]
struct AttachArgs {
    /// Address of the switch: packets to it are looked at, on port 4797 if none is given.
    #[arg(long, value_name = "IP[:PORT]")]
    address: Address,
    /// Number of the file system.
    #[arg(long)]
    cluster: u32,
    /// Network devices by which hosts are reached.
    #[arg(required = true, value_name = "DEV")]
    devices: Vec<String>,
}

#[derive(Args, Debug)]
struct DetachArgs {
    /// Network devices.
    #[arg(required = true, value_name = "DEV")]
    devices: Vec<String>,
}

#[derive(Args, Debug)]
struct StatusArgs {
    /// Network devices.
    #[arg(required = true, value_name = "DEV")]
    devices: Vec<String>,
    /// Print JSON: an object of devices.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct TopArgs {
    /// The DIR of a running `onpath dev` or of the host with shard 0, or onpath://HOST[,HOST…]/.
    what: PathBuf,
    /// The key of the cluster, all of whose hosts are asked.
    #[arg(long, env = "ONPATH_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Print JSON: an object of roles, each an object of numbers.
    #[arg(long)]
    json: bool,
}

/// `IP[:PORT]`.
#[derive(Clone, Copy, Debug)]
struct Address(SocketAddrV4);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let whole = text.parse().or_else(|_| text.parse().map(|ip: Ipv4Addr| SocketAddrV4::new(ip, INNET_UDP_PORT)));
        match whole {
            Ok(address) if address.port() == 0 || address.ip().is_unspecified() => {
                Err("name an address and a port".to_owned())
            }
            Ok(address) => Ok(Address(address)),
            Err(_) => Err("neither an IPv4 address nor one with a port".to_owned()),
        }
    }
}

pub(crate) fn run(args: SwitchArgs) -> anyhow::Result<()> {
    match args.command {
        SwitchCommand::Attach(args) => attach(&args),
        SwitchCommand::Detach(args) => args.devices.iter().try_for_each(|device| detach(device)),
        SwitchCommand::Status(args) => status(&args),
        SwitchCommand::Top(args) => top(&args),
    }
}

fn attach(args: &AttachArgs) -> anyhow::Result<()> {
    let Address(address) = args.address;
    // Nobody would begin an epoch of its cache: the controller speaks with the process of a host's switch.
    let program = Config { udp_port: address.port(), cache_bits: 0, ..Config::whole(args.cluster) };
    let devices: Vec<&str> = args.devices.iter().map(String::as_str).collect();
    let dir = pins::directory(Path::new(PINS), args.cluster);
    XdpSwitch::attach_pinned(XdpConfig { program, address: *address.ip() }, &devices, &dir)?;
    say(&format!("onpath: the switch of cluster {} is attached to {} as {address}", args.cluster, devices.join(", ")));
    Ok(())
}

/// The directory of the switch on a device.
fn found(device: &str) -> anyhow::Result<PathBuf> {
    let mut dirs = pins::attached_to(Path::new(PINS), device)?;
    ensure!(
        dirs.len() < 2,
        "{}: several switches are named so below {PINS}, in other network namespaces",
        device.shown()
    );
    Ok(dirs.pop().ok_or_else(|| XdpError::NotAttached(device.to_owned()))?)
}

fn detach(device: &str) -> anyhow::Result<()> {
    pins::detach(&found(device)?, device)?;
    say(&format!("onpath: no switch is on {} any more", device.shown()));
    Ok(())
}

fn status(args: &StatusArgs) -> anyhow::Result<()> {
    let mut all = serde_json::Map::new();
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_header(["device", "what", "value"]);
    for device in &args.devices {
        let dir = found(device)?;
        let switch = XdpSwitch::open(&dir).with_context(|| format!("cannot open the switch on {}", device.shown()))?;
        let (tracking, XdpConfig { program, address }) = (switch.tracking()?, *switch.config());
        let address = SocketAddrV4::new(address, program.udp_port);
        let counters = switch.counters()?;
        let head = [
            ("address", address.to_string()),
            ("cluster", program.cluster.to_string()),
            ("epoch", tracking.epoch.to_string()),
            ("complete", tracking.complete.to_string()),
        ];
        let rows = head.into_iter().chain(counters.iter().map(|(name, value)| (*name, value.to_string())));
        rows.for_each(|(name, value)| {
            table.add_row([device.shown().to_string(), name.to_owned(), value]);
        });
        let counters: serde_json::Map<_, _> =
            counters.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        let value = json!({"address": address.to_string(), "cluster": program.cluster, "epoch": tracking.epoch,
            "complete": tracking.complete, "counters": counters});
        all.insert(device.clone(), value);
    }
    if args.json {
        say(&serde_json::Value::from(all).to_string())
    } else {
        say(&table.to_string())
    }
    Ok(())
}

fn top(args: &TopArgs) -> anyhow::Result<()> {
    let known = inspect::roles(&args.what, args.key_file.as_deref(), InodeId::NONE)?;
    let mut roles: serde_json::Map<String, Value> = serde_json::from_str(&known.text)?;
    roles.retain(|role, _| role.starts_with("controller-") || role.starts_with("switch-"));
    let of_cache = |name: &str| Counter::ALL.iter().any(|counter| counter.is_of_cache() && counter.name() == name);
    let switches = roles.iter_mut().filter(|(role, _)| role.starts_with("switch-"));
    switches.filter_map(|(_, counters)| counters.as_object_mut()).for_each(|all| all.retain(|name, _| of_cache(name)));
    ensure!(
        roles.keys().any(|role| role.starts_with("controller-")),
        "no switch has a cache there: docs/cluster.md says how one is turned on"
    );
    if args.json {
        say(&Value::from(roles).to_string());
        return known.is_whole();
    }
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_header(["role", "what", "value"]);
    for (role, numbers) in &roles {
        let mut numbers: Vec<_> =
            numbers.as_object().into_iter().flatten().filter_map(|(what, n)| Some((what, n.as_u64()?))).collect();
        // Names by how often they were answered, behind the figures.
        numbers.sort_by_key(|(what, n)| (what.starts_with(ANSWERS).then_some(u64::MAX - n), what.as_str()));
        for (what, number) in numbers {
            table.add_row([role.as_str(), what, &number.to_string()]);
        }
    }
    say(&table.to_string());
    known.is_whole()
}

/// What a name is told by: the inode of its directory, and the name.
const ANSWERS: &str = "answers_of ";
