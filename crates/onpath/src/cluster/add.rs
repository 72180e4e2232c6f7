//! `onpath cluster add FILE NAME=ADDRESS[:PORT]`: adds a host to a configuration. What is in the file stays as it is written.

use super::config::{Cluster, HOSTS_MAX};
use super::init::{NewHost, parse_host};
use crate::cli::{absolute, say};
use anyhow::{Context, ensure};
use clap::Args;
use onpath_wire::innet::INNET_UDP_PORT;
use onpath_wire::shown::Shown;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Arguments of `onpath cluster add`.
#[derive(Args, Debug)]
pub(crate) struct AddArgs {
    /// The configuration.
    file: PathBuf,
    /// What the host is called, and where it is reached.
    #[arg(value_name = "NAME=ADDRESS[:PORT]", value_parser = parse_host)]
    host: NewHost,
    /// It is a switch. (Shards and data nodes stay where they are: their places are part of the format.)
    #[arg(long, required = true)]
    switch: bool,
}

pub(crate) fn run(args: AddArgs) -> anyhow::Result<()> {
    let file = absolute(&args.file)?;
    let cluster = Cluster::read(&file)?;
    let number = cluster.hosts.last().map_or(1, |host| host.number + 1);
    ensure!(number <= HOSTS_MAX, "{} has {} hosts: at most {HOSTS_MAX}", file.shown(), cluster.hosts.len());
    let mut text = std::fs::read_to_string(&file)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&args.host.table(number));
    text.push_str(&format!("switch_port = {INNET_UDP_PORT}\n"));
    Cluster::parse(&file, &text)?;
    replace(&file, &text)?;
    say(&format!(
        "onpath: added host {} to {}; give the file to all hosts, start the new one, and let the others read it (SIGHUP)",
        args.host.name,
        file.shown()
    ));
    Ok(())
}

/// Replaces a file by one with this text: either is there, whole, at any moment.
fn replace(file: &Path, text: &str) -> anyhow::Result<()> {
    let dir = file.parent().context("a file is in a directory")?;
    let mut new = tempfile::NamedTempFile::new_in(dir)?;
    new.write_all(text.as_bytes())?;
    new.as_file().set_permissions(std::fs::metadata(file)?.permissions())?;
    new.as_file().sync_all()?;
    new.persist(file)?;
    Ok(())
}
