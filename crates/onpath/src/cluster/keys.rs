//! `onpath cluster key add|list|revoke`: keys of clients, each with an owner, in the file of secrets of the hosts.

use super::init::write_new;
use super::rotate::{self, RotateArgs, replace};
use crate::cli::say;
use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand};
use comfy_table::Table;
use onpath_client::key::{self, CLIENT, CLIENTS_MAX, ClientLine, GROUPS_MAX, Lines};
use onpath_host::sys::random_bytes;
use onpath_host::udp::Key;
use onpath_wire::identity::Identity;
use onpath_wire::shown::Shown;
use serde_json::json;
use std::path::{Path, PathBuf};

/// `onpath cluster key …`.
#[derive(Subcommand, Debug)]
pub(super) enum KeyCommand {
    /// Draws a key for a client, with which it is one user and nobody else, and writes it into a file of its own.
    Add(AddArgs),
    /// Shows the keys of clients, and whose they are.
    List(ListArgs),
    /// Takes the key of a client away: its sessions end, and it does not come in again.
    Revoke(RevokeArgs),
    /// Does the next of three steps in these files; then copy them to all hosts and clients, which read them within seconds, and do the
    /// next one when `onpath cluster status` shows that all have both keys.
    Rotate(RotateArgs),
}

/// Where the keys are.
#[derive(Args, Debug)]
struct KeyFileArgs {
    /// The secrets of the hosts.
    #[arg(long, default_value = "/etc/onpath/cluster.key", value_name = "FILE")]
    key_file: PathBuf,
}

/// Arguments of `onpath cluster key add`.
#[derive(Args, Debug)]
pub(super) struct AddArgs {
    /// What the client is called.
    name: String,
    /// Whoever has the key is this user.
    #[arg(long, value_name = "UID", required_unless_present = "any_user", requires = "gid")]
    uid: Option<u32>,
    /// The group of its new files, and further ones of which it is a member.
    #[arg(long, value_name = "GID", value_delimiter = ',', requires = "uid")]
    gid: Vec<u32>,
    /// Whoever has the key may be any user, as with the key of `onpath cluster init`, but is no host.
    #[arg(long, conflicts_with_all = ["uid", "gid"])]
    any_user: bool,
    /// Where the key is written, for the client [default: beside the secrets of the hosts, their name with `.NAME.key`].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    hosts: KeyFileArgs,
}

/// Arguments of `onpath cluster key list`.
#[derive(Args, Debug)]
pub(super) struct ListArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    hosts: KeyFileArgs,
}

/// Arguments of `onpath cluster key revoke`.
#[derive(Args, Debug)]
pub(super) struct RevokeArgs {
    /// What the client is called.
    name: String,
    #[command(flatten)]
    hosts: KeyFileArgs,
}

pub(super) fn run(command: KeyCommand) -> anyhow::Result<()> {
    match command {
        KeyCommand::Add(args) => add(&args),
        KeyCommand::List(args) => list(&args),
        KeyCommand::Revoke(args) => revoke(&args),
        KeyCommand::Rotate(args) => rotate::run(args),
    }
}

/// The text of a file of secrets, and its lines.
fn read(file: &Path) -> anyhow::Result<(String, Lines)> {
    key::read(file)?; // it is one, and nobody else reads it
    let text = std::fs::read_to_string(file).with_context(|| file.shown().to_string())?;
    let lines = key::parse(&text).map_err(|(_, why)| anyhow::anyhow!("{why}"))?;
    Ok((text, lines))
}

fn add(args: &AddArgs) -> anyhow::Result<()> {
    let (name, file) = (&args.name, &args.hosts.key_file);
    let (mut text, lines) = read(file)?;
    if lines.key.flatten().is_none() {
        bail!("{}: messages of this cluster are not sealed: a key would keep nobody out", file.shown());
    }
    ensure!(key::is_name(name), "{}: the name of a client has up to 64 letters, digits, - and _", name.shown());
    ensure!(
        lines.clients.iter().all(|client| client.name != *name),
        "{name} has a key already: revoke that one first, or choose another name"
    );
    ensure!(lines.clients.len() < CLIENTS_MAX, "there are {CLIENTS_MAX} keys of clients already: revoke some");
    ensure!(args.gid.len() <= GROUPS_MAX, "{} groups: a key has at most {GROUPS_MAX}", args.gid.len());
    let gids = args.gid.iter().copied().collect();
    let identity = args.uid.map(|uid| Identity { uid, gids, caps: 0 });
    let client = ClientLine { name: name.clone(), key: random_bytes()?, identity };
    let output = args.output.clone().unwrap_or_else(|| file.with_extension(format!("{name}.key")));
    write_new(&output, &key::text(Some(&client.key), None), 0o600)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&client.text());
    if let Err(error) = replace(file, &text) {
        _ = std::fs::remove_file(&output); // it opens nothing
        return Err(error).with_context(|| file.shown().to_string());
    }
    say(&format!("onpath: wrote {}, the key of {name}: whoever has it {}", output.shown(), may(&client)));
    say(&format!("onpath: copy {} to all hosts, which read it within seconds", file.shown()));
    Ok(())
}

/// What a key is good for.
fn may(client: &ClientLine) -> String {
    match &client.identity {
        None => "may be any user".to_owned(),
        Some(Identity { uid, gids, .. }) => {
            let gids: Vec<String> = gids.iter().map(u32::to_string).collect();
            format!("is uid {uid} with groups {}, and nobody else", gids.join(", "))
        }
    }
}

fn list(args: &ListArgs) -> anyhow::Result<()> {
    let (_, lines) = read(&args.hosts.key_file)?;
    let id = |client: &ClientLine| format!("{:08x}", Key::new(client.key).id());
    if args.json {
        let of = |client: &ClientLine| {
            let (uid, gids) = client.identity.as_ref().map(|is| (is.uid, is.gids.to_vec())).unzip();
            json!({ "name": client.name, "key": id(client), "uid": uid, "gids": gids })
        };
        say(&json!({ "clients": lines.clients.iter().map(of).collect::<Vec<_>>() }).to_string());
        return Ok(());
    }
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_header(["CLIENT", "KEY", "WHOEVER HAS IT"]);
    for client in &lines.clients {
        table.add_row([client.name.clone(), id(client), may(client)]);
    }
    say(table.trim_fmt().as_str());
    Ok(())
}

fn revoke(args: &RevokeArgs) -> anyhow::Result<()> {
    let (name, file) = (&args.name, &args.hosts.key_file);
    let (text, lines) = read(file)?;
    ensure!(lines.clients.iter().any(|client| client.name == *name), "{}: no client {}", file.shown(), name.shown());
    let is_its = |line: &&str| line.split_once('=').is_some_and(|(of, _)| of.trim().strip_prefix(CLIENT) == Some(name));
    let rest: String = text.lines().filter(|line| !is_its(line)).map(|line| format!("{line}\n")).collect();
    replace(file, &rest).with_context(|| file.shown().to_string())?;
    say(&format!(
        "onpath: {name} has no key any more: copy {} to all hosts; some seconds later they take nothing from it, and its sessions end",
        file.shown()
    ));
    Ok(())
}
