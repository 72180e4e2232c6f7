//! `onpath find PATH…`: entries that fit, or what they sum up to.

use super::filter::{Age, Kind, Size, ago, fits, letter};
use super::owner::Database;
use super::{Counter, Summary, Task};
use crate::progress::{Progress, above, bytes};
use crate::remote::WordsArgs;
use crate::walk::{Attributes, Entry, Failure, Node, Tree, Visitor, WalkArgs};
use clap::Args;
use onpath_wire::shown::Shown;
use rustix::fs::FileType;
use serde_json::{Map, json};
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Arguments of `onpath find`.
#[derive(Args, Debug)]
pub(crate) struct FindArgs {
    /// Trees to look through.
    #[arg(default_value = ".")]
    paths: Vec<OsString>,
    /// The name fits this pattern of *, ? and [a-z].
    #[arg(long, value_name = "PATTERN")]
    name: Option<String>,
    /// Its kind: f, d, l, p, s, b or c.
    #[arg(long = "type", value_name = "KIND")]
    kind: Option<Kind>,
    /// Larger than so many bytes (k, M, G, T).
    #[arg(long, value_name = "SIZE")]
    larger: Option<Size>,
    /// Smaller than so many bytes.
    #[arg(long, value_name = "SIZE")]
    smaller: Option<Size>,
    /// Modified within this time (s, m, h, d, w).
    #[arg(long, value_name = "AGE")]
    newer: Option<Age>,
    /// Not modified for so long.
    #[arg(long, value_name = "AGE")]
    older: Option<Age>,
    /// Owned by this user.
    #[arg(long)]
    user: Option<String>,
    /// Of this group.
    #[arg(long)]
    group: Option<String>,
    /// Only say how many there are of each kind, and their bytes. With --json that is all that is printed anyway.
    #[arg(long)]
    summary: bool,
    /// End each path with a zero byte instead of a line end. Without this, paths on a terminal are quoted where a shell needs that.
    #[arg(short = '0', long)]
    print0: bool,
    #[command(flatten)]
    walk: WalkArgs,
    #[command(flatten)]
    at: WordsArgs,
}

pub(crate) fn run(args: FindArgs) -> anyhow::Result<()> {
    let user = args.user.as_deref().map(|name| Database::Passwd.id(name)).transpose()?;
    let group = args.group.as_deref().map(|name| Database::Group.id(name)).transpose()?;
    let (newer, older) = (args.newer.map(ago), args.older.map(ago));
    let task =
        Task { doing: "searching", paths: &args.paths, at: &args.at, follow: true, recursive: true, args: &args.walk };
    let progress = task.progress();
    let visitor = Finder {
        args: &args,
        wanted: Wanted { user, group, newer, older },
        progress: &progress,
        kinds: Default::default(),
        bytes: Counter::default(),
        output: Mutex::default(),
        quoted: !args.print0 && std::io::stdout().is_terminal(),
    };
    task.run(&progress, &visitor, |finder, _| finder.summary())
}

/// What was given by name or relative to now.
struct Wanted {
    user: Option<u32>,
    group: Option<u32>,
    newer: Option<i64>,
    older: Option<i64>,
}

struct Finder<'a> {
    args: &'a FindArgs,
    wanted: Wanted,
    progress: &'a Progress,
    /// Of the kinds of [`KINDS`].
    kinds: [Counter; 7],
    bytes: Counter,
    /// Whole paths that are not printed yet.
    output: Mutex<Vec<u8>>,
    /// Somebody looks at them, who shall see each as one line that does nothing to the terminal.
    quoted: bool,
}

/// In the order of the summary.
const KINDS: [(FileType, &str); 7] = [
    (FileType::RegularFile, "files"),
    (FileType::Directory, "directories"),
    (FileType::Symlink, "symlinks"),
    (FileType::Fifo, "fifos"),
    (FileType::Socket, "sockets"),
    (FileType::BlockDevice, "block_devices"),
    (FileType::CharacterDevice, "character_devices"),
];

/// Bytes of paths that are printed together.
const TOGETHER_BYTES: usize = 8 << 10;

/// Prints paths, where no bar is in their way.
fn print(paths: &mut Vec<u8>) {
    let printed = above(|| {
        let mut output = std::io::stdout().lock();
        output.write_all(paths).and_then(|()| output.flush())
    });
    if printed.is_err() {
        // Nobody reads any further.
        std::process::exit(0);
    }
    paths.clear();
}

impl Finder<'_> {
    /// Whether the attributes need not be asked for.
    fn needs_attributes(&self) -> bool {
        let args = self.args;
        let counted = args.summary || args.walk.json;
        counted
            || args.larger.is_some()
            || args.smaller.is_some()
            || args.newer.is_some()
            || args.older.is_some()
            || args.user.is_some()
            || args.group.is_some()
    }

    fn fits(&self, name: &[u8], kind: FileType) -> bool {
        let named = self.args.name.as_ref().is_none_or(|pattern| fits(pattern.as_bytes(), name));
        named && self.args.kind.is_none_or(|Kind(wanted)| wanted == kind)
    }

    fn attributes_fit(&self, is: &Attributes) -> bool {
        let (size, time) = (is.bytes, is.mtime);
        self.args.larger.is_none_or(|Size(bytes)| size > bytes)
            && self.args.smaller.is_none_or(|Size(bytes)| size < bytes)
            && self.wanted.newer.is_none_or(|since| time >= since)
            && self.wanted.older.is_none_or(|until| time <= until)
            && self.wanted.user.is_none_or(|uid| uid == is.uid)
            && self.wanted.group.is_none_or(|gid| gid == is.gid)
    }

    fn look<T: Tree>(&self, entry: &Entry<'_, T, ()>, kind: FileType, is: Option<&Attributes>) -> Result<(), Failure> {
        self.progress.entry();
        let path = entry.path();
        let name = path.file_name().unwrap_or(path.as_os_str());
        if !self.fits(name.as_bytes(), kind) {
            return Ok(());
        }
        let asked = match is {
            None if self.needs_attributes() => Some(entry.stat()?),
            _ => None,
        };
        let is = is.or(asked.as_ref());
        if is.is_some_and(|is| !self.attributes_fit(is)) {
            return Ok(());
        }
        if let Some(at) = KINDS.iter().position(|(known, _)| *known == kind) {
            self.kinds[at].add(1);
        }
        if kind == FileType::RegularFile {
            self.bytes.add(is.map_or(0, |is| is.bytes));
        }
        if !self.args.summary && !self.args.walk.json {
            self.print(&path);
        }
        Ok(())
    }

    fn print(&self, path: &Path) {
        let end = if self.args.print0 { b"\0" } else { b"\n" };
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        match self.quoted {
            true => output.extend_from_slice(path.shown().to_string().as_bytes()),
            false => output.extend_from_slice(path.as_os_str().as_bytes()),
        }
        output.extend_from_slice(end);
        if output.len() >= TOGETHER_BYTES {
            print(&mut output);
        }
    }

    fn summary(&self) -> Summary {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        print(&mut output);
        let mut numbers = Map::new();
        let mut words = Vec::new();
        for ((kind, name), count) in KINDS.iter().zip(&self.kinds) {
            numbers.insert((*name).to_owned(), json!(count.get()));
            if count.get() > 0 {
                words.push(format!("{} {} ({})", count.get(), name.replace('_', " "), letter(*kind)));
            }
        }
        numbers.insert("bytes".into(), json!(self.bytes.get()));
        let words = if words.is_empty() { "nothing".to_owned() } else { words.join(", ") };
        let words = format!("{words}, {} in files", bytes(self.bytes.get()));
        Summary { words: if self.args.summary { words.into() } else { Vec::new() }, numbers: numbers.into() }
    }
}

impl<T: Tree> Visitor<T> for Finder<'_> {
    type Dir = ();

    fn enter(&self, dir: &Entry<'_, T, ()>, _open: &T::Dir, is: &Attributes) -> Result<(), Failure> {
        self.look(dir, FileType::Directory, Some(is))
    }

    fn visit(&self, entry: &Entry<'_, T, ()>) -> Result<(), Failure> {
        self.look(entry, entry.kind(), None)
    }

    fn leave(&self, _tree: &T, _dir: &Node<T, ()>) -> Result<(), Failure> {
        Ok(())
    }
}
