//! `onpath cluster init FILE NAME=ADDRESS[:PORT]…`: writes the configuration of a new cluster.

use super::config::{Cluster, HOSTS_MAX};
use crate::cli::{CommitMode, TrackingForm, Writes, absolute, say};
use anyhow::{Context, bail, ensure};
use clap::Args;
use onpath_client::key;
use onpath_client::url::PORT;
use onpath_host::dir::draw_secrets;
use onpath_host::sys::random_bytes;
use onpath_wire::innet::INNET_UDP_PORT;
use onpath_wire::limits::SHARDS_MAX;
use onpath_wire::shown::Shown;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Arguments of `onpath cluster init`.
#[derive(Args, Debug)]
pub(crate) struct InitArgs {
    /// The file to write; the same one is then given to every host.
    file: PathBuf,
    /// The hosts: what each is called, and where it is reached. Shards and files are spread over all of them.
    #[arg(required = true, value_name = "NAME=ADDRESS[:PORT]", value_parser = parse_host)]
    hosts: Vec<NewHost>,
    /// What people call the cluster.
    #[arg(long, default_value = "onpath")]
    name: String,
    /// Metadata shards, on all hosts together [default: two a host].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=i64::from(SHARDS_MAX)))]
    shards: Option<u16>,
    /// Where a host keeps its state.
    #[arg(long, default_value = "/var/lib/onpath", value_name = "DIR")]
    directory: PathBuf,
    /// When a change is on stable storage.
    #[arg(long, value_enum, default_value = "interval")]
    commit: CommitMode,
    /// Who knows that a directory has pending updates: its owner, or the dirty set of the switch.
    #[arg(long, value_enum, default_value = "owner")]
    tracking: TrackingForm,
    /// Who answers writes of files.
    #[arg(long, value_enum, default_value = "chain")]
    writes: Writes,
    /// A further host that is a switch and nothing else; given several times, each has a range of the directories.
    #[arg(long, value_name = "NAME=ADDRESS[:PORT]", value_parser = parse_host)]
    switch: Vec<NewHost>,
    /// A host of these that has a path node, which leads programs without a mount along paths; given several times, several have one.
    #[arg(long, value_name = "NAME")]
    path_node: Vec<String>,
    /// Where the secrets of the hosts are written, among them the key that all messages are sealed with [default: beside the
    /// configuration, its name with `.key`]; beside that goes what clients need, its name with `.client.key`.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Draw no key: whoever can send UDP to the hosts is a client, and says as which user. The other secrets are drawn all the same.
    #[arg(long)]
    no_key: bool,
}

/// A host of the command line.
#[derive(Clone, Debug)]
pub(super) struct NewHost {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) port: Option<u16>,
}

pub(super) fn parse_host(text: &str) -> Result<NewHost, String> {
    let (name, place) = text.split_once('=').ok_or("write NAME=ADDRESS[:PORT]")?;
    let bracketed = place.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (address, port) = match bracketed {
        Some((address, port)) => (address, port.strip_prefix(':')),
        None => place.split_once(':').map_or((place, None), |(address, port)| (address, Some(port))),
    };
    let port = match port {
        None => None,
        Some(text) => Some(text.parse().ok().filter(|&p| p != 0).ok_or(format!("{text:?} is no port"))?),
    };
    if name.is_empty() || address.is_empty() {
        return Err("write NAME=ADDRESS[:PORT]".to_owned());
    }
    Ok(NewHost { name: name.to_owned(), address: address.to_owned(), port })
}

impl NewHost {
    /// Its table in the configuration, without what it holds.
    pub(super) fn table(&self, number: u16) -> String {
        let NewHost { name, address, port } = self;
        let port = port.unwrap_or(PORT);
        format!("\n[[host]]\nname = {name:?}\nnumber = {number}\naddress = {address:?}\nport = {port}\n")
    }
}

pub(crate) fn run(args: InitArgs) -> anyhow::Result<()> {
    let file = absolute(&args.file)?;
    let hosts = args.hosts.len();
    let all = hosts + args.switch.len();
    ensure!(all <= usize::from(HOSTS_MAX), "{all} hosts: at most {HOSTS_MAX}");
    let shards = args.shards.unwrap_or((2 * hosts).min(usize::from(SHARDS_MAX)) as u16);
    if args.tracking == TrackingForm::Network && args.switch.is_empty() {
        bail!("--tracking network needs a switch: name its host with --switch, or one of the hosts itself");
    }
    if let Some(name) = args.path_node.iter().find(|name| args.hosts.iter().all(|host| host.name != **name)) {
        bail!("--path-node {}: no host is called so; name one that is given as NAME=ADDRESS", name.shown());
    }
    let keys = KeyFiles::of(&args, &file)?;
    let text = text(&args, &absolute(&args.directory)?, shards, &keys.named)?;
    // What is written is what will be read.
    Cluster::parse(&file, &text)?;
    let (key, secrets) = (if args.no_key { None } else { Some(random_bytes()?) }, draw_secrets()?);
    let mut all = vec![(&keys.path, key::text(key.as_ref(), Some(&secrets)), 0o600)];
    all.extend(keys.client.iter().map(|path| (path, key::text(key.as_ref(), None), 0o600)));
    all.push((&file, text, 0o644));
    for (place, (path, text, mode)) in all.iter().enumerate() {
        if let Err(error) = write_new(path, text, *mode) {
            all[..place].iter().for_each(|(path, ..)| _ = std::fs::remove_file(path)); // nobody has them yet
            return Err(error);
        }
    }
    say(&format!("onpath: wrote {} for {hosts} hosts with {shards} shards", file.shown()));
    say(&told(&args, &file, &keys));
    Ok(())
}

/// Where secrets are written.
struct KeyFiles {
    /// Those of hosts.
    path: PathBuf,
    /// What the configuration calls that.
    named: PathBuf,
    /// Those of clients, if they need any.
    client: Option<PathBuf>,
}

impl KeyFiles {
    fn of(args: &InitArgs, config: &Path) -> anyhow::Result<KeyFiles> {
        let (path, named) = KeyFiles::of_hosts(args, config)?;
        let client = (!args.no_key).then(|| path.with_extension("client.key"));
        Ok(KeyFiles { path, named, client })
    }

    /// Beside the configuration it has no directory there, so that both may lie anywhere on each host.
    fn of_hosts(args: &InitArgs, config: &Path) -> anyhow::Result<(PathBuf, PathBuf)> {
        if let Some(path) = &args.key_file {
            let path = absolute(path)?;
            return Ok((path.clone(), path));
        }
        let path = config.with_extension("key");
        ensure!(path != config, "{}: that is where its key is written: call the configuration otherwise", path.shown());
        let named = path.file_name().context("a file has a name")?.into();
        Ok((path, named))
    }
}

/// What is to be copied to whom.
fn told(args: &InitArgs, file: &Path, keys: &KeyFiles) -> String {
    let names: Vec<&str> = args.hosts.iter().chain(&args.switch).map(|host| host.name.as_str()).collect();
    let (names, file, key) = (names.join(", "), file.shown(), keys.path.shown());
    let hosts = format!(
        "onpath: wrote {key}, the secrets of the hosts; keep them readable by root only\n\
         onpath: copy {file} and {key} to every host ({names})"
    );
    match keys.client.as_ref().map(|path| path.shown()) {
        Some(client) => format!(
            "{hosts}, and {client}, the key that seals all messages, to every client, which mounts with --key-file"
        ),
        None => format!("{hosts}; without a key whoever can send them UDP is a client"),
    }
}

fn text(args: &InitArgs, directory: &Path, shards: u16, key_file: &Path) -> anyhow::Result<String> {
    let id = u128::from_be_bytes(random_bytes()?);
    let commit = if args.commit == CommitMode::Sync { "sync" } else { "interval" };
    let tracking = if args.tracking == TrackingForm::Network { "network" } else { "owner" };
    let writes = match args.writes {
        Writes::Chain => String::new(),
        other => format!("writes = {:?}\n", other.word()),
    };
    let mut text = format!(
        "# A cluster of Onpath, the same file on every host; docs/cluster.md describes all keys.\n\n\
         [cluster]\nname = {:?}\n# The identity of the file system: never change it.\nid = \"{id:032x}\"\n\
         shards = {shards}\ncommit = \"{commit}\"\ntracking = \"{tracking}\"\n{writes}",
        args.name
    );
    writeln!(text, "key_file = {:?}", key_file.to_string_lossy())?;
    let hosts = args.hosts.len();
    for (place, host) in args.hosts.iter().enumerate() {
        let of = |shard: &u16| usize::from(*shard) * hosts / usize::from(shards) == place;
        let own: Vec<u16> = (0..shards).filter(of).collect();
        text.push_str(&host.table(place as u16 + 1));
        writeln!(text, "directory = {:?}\nshards = {own:?}\ndata = true", directory.to_string_lossy())?;
        if args.path_node.contains(&host.name) {
            text.push_str("path = true\n");
        }
    }
    for (place, switch) in args.switch.iter().enumerate() {
        text.push_str(&switch.table((hosts + place) as u16 + 1));
        writeln!(text, "switch_port = {INNET_UDP_PORT}")?;
    }
    Ok(text)
}

/// Writes a file that is not there, or nothing.
pub(crate) fn write_new(file: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(file);
    let written = opened.as_mut().map(|opened| opened.write_all(text.as_bytes()).and_then(|()| opened.sync_all()));
    match written {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            _ = std::fs::remove_file(file); // nobody has it yet
            Err(error).with_context(|| file.shown().to_string())
        }
        Err(error) => bail!("{}: {error}; it was left alone", file.shown()),
    }
}
