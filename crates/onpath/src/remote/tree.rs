//! `onpath tree [-L LEVELS] PATH…`: what directories have in them, as a picture.

use super::name::{printed, put_name};
use super::{AtArgs, Target, Work};
use crate::cli::say;
use clap::Args;
use onpath_client::{Entry, Error, FileType};
use serde_json::json;
use std::ffi::OsString;

/// Arguments of `onpath tree`.
#[derive(Args, Debug)]
pub(crate) struct TreeArgs {
    #[arg(help = paths!("Directories"), default_value = "/", value_name = "PATH")]
    paths: Vec<OsString>,
    /// So many levels below a PATH.
    #[arg(short = 'L', long, value_name = "LEVELS", value_parser = clap::value_parser!(u32).range(1..))]
    level: Option<u32>,
    /// Names that begin with a dot, too.
    #[arg(short, long)]
    all: bool,
    /// Directories alone.
    #[arg(short = 'd', long)]
    directories: bool,
    /// Print an object of JSON for each name, one a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: AtArgs,
}

/// A directory whose entries are being printed.
struct Level {
    dir: Target,
    entries: std::vec::IntoIter<Entry>,
    /// What is in front of its entries.
    indent: String,
}

pub(crate) fn run(args: TreeArgs) -> anyhow::Result<()> {
    let mut work = args.at.begin();
    let mut counts = (0, 0);
    for target in work.targets(&args.paths)? {
        let top = entries(&work, &args, &target);
        let Some(top) = work.told(top) else { continue };
        if !args.json {
            say(&printed(&target.name()));
        }
        draw(&work, &args, Level { dir: target, entries: top, indent: String::new() }, &mut counts);
    }
    if !args.json {
        let (directories, others) = counts;
        let files = if args.directories { String::new() } else { format!(", {others} files") };
        say(&format!("\n{directories} directories{files}"));
    }
    work.end()
}

fn draw(work: &Work, args: &TreeArgs, top: Level, (directories, others): &mut (u64, u64)) {
    let mut levels = vec![top];
    while let Some(level) = levels.last_mut() {
        let Some(entry) = level.entries.next() else {
            levels.pop();
            continue;
        };
        let is_dir = entry.file_type == FileType::Directory;
        *(if is_dir { &mut *directories } else { &mut *others }) += 1;
        let (at, is_last) = (level.dir.below(&entry.name), level.entries.len() == 0);
        let link =
            (entry.file_type == FileType::Symlink).then(|| at.client.readlink(&work.me, &at.path).ok()).flatten();
        let depth = levels.len() as u32; // of paths, which are short
        let level = levels.last().expect("looked at above");
        if args.json {
            let mut object = json!({ "type": entry.file_type.describe(), "ino": entry.ino, "depth": depth });
            put_name(&mut object, "path", &at.name());
            link.iter().for_each(|link| put_name(&mut object, "target", link));
            say(&object.to_string());
        } else {
            let branch = if is_last { "└── " } else { "├── " };
            let mut line = [level.indent.as_bytes(), branch.as_bytes(), &printed(&entry.name)].concat();
            link.iter().for_each(|link| line.extend([b" -> ", &printed(link)[..]].concat()));
            say(&line);
        }
        if is_dir && args.level.is_none_or(|most| depth < most) {
            let indent = format!("{}{}", level.indent, if is_last { "    " } else { "│   " });
            let below = entries(work, args, &at);
            levels.extend(work.told(below).map(|entries| Level { dir: at, entries, indent }));
        }
    }
}

/// What is shown of a directory, in order.
fn entries(work: &Work, args: &TreeArgs, dir: &Target) -> Result<std::vec::IntoIter<Entry>, Error> {
    let (mut all, mut listing) = (Vec::new(), dir.client.list(&work.me, &dir.path, false)?);
    while let Some(page) = listing.next()? {
        let wanted = |entry: &Entry| {
            (args.all || !entry.name.starts_with(b".")) && (!args.directories || entry.file_type == FileType::Directory)
        };
        all.extend(page.into_iter().filter(wanted));
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all.into_iter())
}
