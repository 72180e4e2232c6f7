//! `onpath stat PATH…`: what stat(1) tells, without a mount.

use super::AtArgs;
use super::name::put_name;
use crate::cli::say;
use clap::Args;
use onpath_client::Metadata;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt::Write as _;

/// Arguments of `onpath stat`.
#[derive(Args, Debug)]
pub(crate) struct StatArgs {
    #[arg(help = paths!("Paths"), required = true, value_name = "PATH")]
    paths: Vec<OsString>,
    /// Tell of what a symbolic link leads to, not of the link.
    #[arg(short = 'L', long)]
    dereference: bool,
    /// Print an object of JSON for each path, one a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: AtArgs,
}

pub(crate) fn run(args: StatArgs) -> anyhow::Result<()> {
    let mut work = args.at.begin();
    for target in work.targets(&args.paths)? {
        let told = match args.dereference {
            true => target.client.stat(&work.me, &target.path),
            false => target.lstat(&work.me),
        };
        match work.told(told) {
            Some(is) if args.json => say(&as_json(&target.name(), &is).to_string()),
            Some(is) => say(&as_text(&target.shown(), &is)),
            None => {}
        }
    }
    work.end()
}

/// A time as `SECONDS.NANOSECONDS` since 1970.
fn time(ns: i64) -> String {
    format!("{}.{:09}", ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000))
}

fn as_text(name: &str, is: &Metadata) -> String {
    let mut text = format!("  File: {name}\n");
    let Metadata { ino, file_type, permissions, nlink, uid, gid, size, blocks, atime, mtime, ctime, btime, .. } = *is;
    _ = writeln!(text, "  Size: {size}\tBlocks: {blocks}\t{}", file_type.describe());
    _ = writeln!(text, " Inode: {ino}\tLinks: {nlink}");
    _ = writeln!(text, "Access: ({permissions:04o})\tUid: {uid}\tGid: {gid}");
    for (what, ns) in [("Access", atime), ("Modify", mtime), ("Change", ctime), (" Birth", btime.unwrap_or(0))] {
        _ = writeln!(text, "{what}: {}", time(ns));
    }
    text.trim_end().to_owned()
}

/// Major and minor number of a device, of what st_rdev has (Linux).
pub(super) fn device(rdev: u64) -> String {
    let major = (rdev >> 8) & 0xfff | (rdev >> 32) & !0xfff;
    let minor = rdev & 0xff | (rdev >> 12) & !0xff;
    format!("{major}, {}", minor as u32)
}

/// What is known of a file, for programs.
pub(super) fn as_json(path: &[u8], is: &Metadata) -> Value {
    let mut object = json!({
        "type": is.file_type.describe(),
        "mode": format!("{:06o}", is.mode()),
        "ino": is.ino,
        "nlink": is.nlink,
        "uid": is.uid,
        "gid": is.gid,
        "size": is.size,
        "blocks": is.blocks,
        "rdev": is.rdev,
        "atime_ns": is.atime,
        "mtime_ns": is.mtime,
        "ctime_ns": is.ctime,
        "btime_ns": is.btime,
    });
    put_name(&mut object, "path", path);
    object
}
