//! `onpath ls [PATH…]`: what directories have in them, as ls(1) shows it.

use super::name::{printed, put_name};
use super::people::{Names, human, mode, time};
use super::{AtArgs, Target, Work, stat};
use crate::cli::say;
use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use onpath_client::{Error, FileType, Metadata};
use serde_json::Value;
use std::cmp::{Ordering, Reverse};
use std::ffi::OsString;
use std::io::{IsTerminal, stdout};

/// Exit code where a PATH itself cannot be looked at, as ls(1) has it.
const EXIT_PATH: u8 = 2;

/// Arguments of `onpath ls`.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct LsArgs {
    #[arg(help = paths!("What to list"), default_value = "/", value_name = "PATH")]
    paths: Vec<OsString>,
    /// Modes, links, owners, sizes and times, too.
    #[arg(short)]
    long: bool,
    /// The same with numbers of owners instead of their names.
    #[arg(short = 'n', long)]
    numeric_uid_gid: bool,
    /// Names that begin with a dot, too.
    #[arg(short = 'a', long)]
    all: bool,
    /// Of a directory itself, not of what is in it.
    #[arg(short, long)]
    directory: bool,
    /// What is in directories below, too.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// One name a line, also on a terminal.
    #[arg(short = '1')]
    single: bool,
    /// Sizes with a unit: K, M, G, … of 1,024.
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// The latest modification first.
    #[arg(short = 't')]
    by_time: bool,
    /// The largest first.
    #[arg(short = 'S')]
    by_size: bool,
    /// The other way round.
    #[arg(short, long)]
    reverse: bool,
    /// Print an object of JSON for each name, one a line.
    #[arg(long)]
    json: bool,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    #[command(flatten)]
    at: AtArgs,
}

/// A line of a list.
struct Row {
    name: Vec<u8>,
    /// What it is, where that is shown or sorted by, and what a symbolic link leads to.
    is: Option<Metadata>,
    file_type: FileType,
    link: Option<Vec<u8>>,
}

pub(crate) fn run(mut args: LsArgs) -> anyhow::Result<()> {
    args.long |= args.numeric_uid_gid;
    let mut work = args.at.begin();
    let (mut rows, mut dirs) = (Vec::new(), Vec::new());
    let targets = work.targets(&args.paths)?;
    let several = targets.len() > 1 || args.recursive;
    for target in targets {
        let looked = look(&work, &args, &target);
        let Some(is) = work.told(looked) else { continue };
        if is.is_dir() && !args.directory {
            dirs.push((target, is));
        } else {
            rows.push((row(&work, &args, &target, target.name(), is.file_type, Some(is)), target));
        }
    }
    let missing = work.report.failures() > 0;
    let mut lister = Lister { several, ..Lister::of(&args) };
    rows.sort_by(|(a, _), (b, _)| args.order(a, b));
    let rows: Vec<_> = rows.into_iter().map(|(row, target)| (row, target.path)).collect();
    // Of columns that are as wide as the directories would need them, too.
    let beside: Vec<_> = dirs.iter().map(|(_, is)| *is).collect();
    lister.show(&rows, Some(&beside));
    dirs.sort_by(|(a, is_a), (b, is_b)| args.order_of((&a.name(), Some(is_a)), (&b.name(), Some(is_b))));
    for (dir, _) in dirs {
        lister.tree(&work, dir);
    }
    work.end_with(missing.then_some(EXIT_PATH))
}

/// A PATH: a symbolic link to a directory stands for that, unless it is the link of which much is told.
fn look(work: &Work, args: &LsArgs, target: &Target) -> Result<Metadata, Error> {
    let is = target.lstat(&work.me)?;
    if is.file_type != FileType::Symlink || args.long || args.directory || args.json {
        return Ok(is);
    }
    let there = target.client.stat(&work.me, &target.path);
    Ok(there.ok().filter(Metadata::is_dir).unwrap_or(is))
}

/// A row; `at` is where it is.
fn row(work: &Work, args: &LsArgs, at: &Target, name: Vec<u8>, file_type: FileType, is: Option<Metadata>) -> Row {
    let wanted = file_type == FileType::Symlink && (args.long || args.json);
    // Without its target a link that has gone meanwhile is shown as it was.
    let link = if wanted { at.client.readlink(&work.me, &at.path).ok() } else { None };
    Row { name, is, file_type, link }
}

impl LsArgs {
    fn wants_attributes(&self) -> bool {
        self.long || self.json || self.by_time || self.by_size
    }

    fn order(&self, a: &Row, b: &Row) -> Ordering {
        self.order_of((&a.name, a.is.as_ref()), (&b.name, b.is.as_ref()))
    }

    fn order_of(&self, a: (&[u8], Option<&Metadata>), b: (&[u8], Option<&Metadata>)) -> Ordering {
        let key = |is: Option<&Metadata>| match is {
            Some(is) if self.by_size => Reverse(is.size as i64), // of a file, below 2^63
            Some(is) if self.by_time => Reverse(is.mtime),
            _ => Reverse(0),
        };
        let order = key(a.1).cmp(&key(b.1)).then_with(|| a.0.cmp(b.0));
        if self.reverse { order.reverse() } else { order }
    }
}

/// What prints lists.
struct Lister<'a> {
    args: &'a LsArgs,
    names: Names,
    now: Timestamp,
    zone: TimeZone,
    /// Directories are told apart by a line with their name.
    several: bool,
    printed: bool,
}

impl<'a> Lister<'a> {
    fn of(args: &'a LsArgs) -> Lister<'a> {
        let zone = if args.long { TimeZone::system() } else { TimeZone::UTC };
        Lister { args, names: Names::default(), now: Timestamp::now(), zone, several: false, printed: false }
    }

    /// A directory, with -R those below it, too: each when the one before is done.
    fn tree(&mut self, work: &Work, dir: Target) {
        let mut waiting = vec![dir];
        while let Some(dir) = waiting.pop() {
            let listed = self.list(work, &dir);
            let Some(rows) = work.told(listed) else { continue };
            if self.several && !self.args.json {
                let line = if self.printed { &b"\n"[..] } else { b"" };
                say(&[line, &printed(&dir.name()), b":"].concat());
                self.printed = true;
            }
            self.show(&rows, None);
            if self.args.recursive {
                let below = rows.iter().rev().filter(|(row, _)| row.file_type == FileType::Directory);
                let below = below.filter(|(row, _)| row.name != b"." && row.name != b"..");
                waiting.extend(below.map(|(_, path)| dir.with_path(path.clone())));
            }
        }
    }

    /// What is in a directory, each with its path, in order.
    fn list(&self, work: &Work, dir: &Target) -> Result<Vec<(Row, Vec<u8>)>, Error> {
        let args = self.args;
        let mut rows = Vec::new();
        let mut listing = dir.client.list(&work.me, &dir.path, args.wants_attributes())?;
        let dots: &[&[u8]] = if args.all { &[b".", b".."] } else { &[] };
        for dot in dots {
            let at = dir.below(dot);
            let is = if args.wants_attributes() { Some(at.lstat(&work.me)?) } else { None };
            rows.push((Row { name: dot.to_vec(), is, file_type: FileType::Directory, link: None }, at.path));
        }
        while let Some(page) = listing.next()? {
            for entry in page.into_iter().filter(|entry| args.all || !entry.name.starts_with(b".")) {
                let at = dir.below(&entry.name);
                rows.push((row(work, args, &at, entry.name, entry.file_type, entry.metadata), at.path));
            }
        }
        rows.sort_by(|(a, _), (b, _)| args.order(a, b));
        Ok(rows)
    }

    /// Prints rows: all of a directory, or such as are named beside others.
    fn show(&mut self, rows: &[(Row, Vec<u8>)], beside: Option<&[Metadata]>) {
        let args = self.args;
        if args.json {
            return rows.iter().for_each(|(row, path)| say(&json(row, path).to_string()));
        }
        let mut text = Vec::new();
        if args.long {
            text = self.long(rows, beside);
        } else if let Some(width) = self.columns() {
            text = in_columns(rows, width);
        } else {
            for (row, _) in rows {
                text.extend(printed(&row.name));
                text.push(b'\n');
            }
        }
        if text.pop().is_some() {
            say(&text);
            self.printed = true;
        }
    }

    /// The width of a terminal, where names share lines.
    fn columns(&self) -> Option<usize> {
        let shared = !self.args.single && stdout().is_terminal();
        shared.then(|| terminal_size::terminal_size().map_or(80, |(width, _)| width.0.into()))
    }

    /// Modes, links, owners, size and time.
    fn cells(&mut self, is: &Metadata) -> [String; 6] {
        let (user, group) = match self.args.numeric_uid_gid {
            true => (is.uid.to_string(), is.gid.to_string()),
            false => (self.names.user(is.uid), self.names.group(is.gid)),
        };
        let size = match is.file_type {
            FileType::CharDevice | FileType::BlockDevice => stat::device(is.rdev),
            _ if self.args.human_readable => human(is.size),
            _ => is.size.to_string(),
        };
        [mode(is), is.nlink.to_string(), user, group, size, time(is.mtime, self.now, &self.zone)]
    }

    fn long(&mut self, rows: &[(Row, Vec<u8>)], beside: Option<&[Metadata]>) -> Vec<u8> {
        let mut text = Vec::new();
        if beside.is_none() {
            let blocks: u64 = rows.iter().filter_map(|(row, _)| row.is.as_ref()).map(|is| is.blocks).sum();
            let total = if self.args.human_readable { human(blocks * 512) } else { blocks.div_ceil(2).to_string() };
            text.extend(format!("total {total}\n").into_bytes());
        }
        let all = rows.iter().filter_map(|(row, _)| row.is.as_ref()).chain(beside.into_iter().flatten());
        let cells: Vec<[String; 6]> = all.map(|is| self.cells(is)).collect();
        let widest = |at: usize| cells.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let [links_width, user_width, group_width, size_width] = [1, 2, 3, 4].map(widest);
        for ((row, _), [mode, links, user, group, size, time]) in rows.iter().zip(&cells) {
            let owners = format!("{user:<user_width$} {group:<group_width$}");
            text.extend(format!("{mode} {links:>links_width$} {owners} {size:>size_width$} {time} ").into_bytes());
            text.extend(printed(&row.name));
            if let Some(link) = &row.link {
                text.extend(b" -> ");
                text.extend(printed(link));
            }
            text.push(b'\n');
        }
        text
    }
}

/// Names in as many columns as fit, downwards.
fn in_columns(rows: &[(Row, Vec<u8>)], width: usize) -> Vec<u8> {
    let names: Vec<String> =
        rows.iter().map(|(row, _)| String::from_utf8_lossy(&printed(&row.name)).into_owned()).collect();
    let widest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0) + 2;
    let lines = names.len().div_ceil((width / widest).max(1));
    let mut text = Vec::new();
    for line in 0..lines {
        let here: Vec<&String> = names.iter().skip(line).step_by(lines).collect();
        for (at, name) in here.iter().enumerate() {
            let fill = if at + 1 == here.len() { 0 } else { widest };
            text.extend(format!("{name:<fill$}").into_bytes());
        }
        text.push(b'\n');
    }
    text
}

fn json(row: &Row, path: &[u8]) -> Value {
    let mut object = row.is.as_ref().map_or_else(|| Value::Object(Default::default()), |is| stat::as_json(path, is));
    put_name(&mut object, "name", &row.name);
    if let Some(link) = &row.link {
        put_name(&mut object, "target", link);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_go_downwards() {
        let row = |name: &str| {
            (Row { name: name.into(), is: None, file_type: FileType::File, link: None }, name.as_bytes().to_vec())
        };
        let rows = ["a", "bb", "c", "d", "e"].map(row);
        assert_eq!(in_columns(&rows, 80), b"a   bb  c   d   e\n");
        assert_eq!(in_columns(&rows, 9), b"a   d\nbb  e\nc\n");
        assert_eq!(in_columns(&rows, 1), b"a\nbb\nc\nd\ne\n");
        assert_eq!(in_columns(&[], 80), b"");
    }
}
