//! What clients ask for.

use onpath_wire::codec::Blob;
use onpath_wire::ids::InodeId;
use onpath_wire::inode::Kind as FileKind;
use onpath_wire::name::Name;
use onpath_wire::reply::Reply;
use onpath_wire::request::{NewNode, Request};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Kinds of operations, as results tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A new directory.
    Mkdir,
    /// A new file.
    Create,
    /// Attributes of a directory: exact (collects).
    Statdir,
    /// A name.
    Lookup,
    /// Attributes of a file.
    Stat,
    /// A file's name is removed.
    Unlink,
    /// A path is looked at.
    Look,
    /// The mode of what is at the end of a path is changed.
    Chmod,
    /// What is at the end of a path gets another name in its parent.
    Rename,
    /// Bytes of a file.
    Read,
    /// The same, written.
    Write,
    /// A file is opened or closed, as where that is no more than a look at its path.
    Open,
    /// The names in a directory.
    Readdir,
    /// An empty directory is removed.
    Rmdir,
}

impl Kind {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Mkdir => "mkdir",
            Kind::Create => "create",
            Kind::Statdir => "statdir",
            Kind::Lookup => "lookup",
            Kind::Stat => "stat",
            Kind::Unlink => "unlink",
            Kind::Look => "look",
            Kind::Chmod => "chmod",
            Kind::Rename => "rename",
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Open => "open",
            Kind::Readdir => "readdir",
            Kind::Rmdir => "rmdir",
        }
    }
}

/// A request.
pub struct Ask {
    /// Its kind.
    pub kind: Kind,
    /// The request.
    pub request: Request,
}

/// A source of requests.
pub trait Work {
    /// The next request of a client that has `under_way` without an answer; nothing if it waits for one of them, or has
    /// no more.
    fn next(&mut self, client: u32, under_way: u32) -> Option<Ask>;
    /// An answer.
    fn answered(&mut self, client: u32, ask: &Ask, reply: &Reply);
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a short name")
}

fn make(kind: Kind, parent: InodeId, text: &str) -> Ask {
    let (file, mode) = if kind == Kind::Mkdir { (FileKind::Directory, 0o755) } else { (FileKind::File, 0o644) };
    let node = NewNode { kind: file, mode, umask: 0, rdev: 0, target: Blob::default(), open: 0 };
    Ask { kind, request: Request::Create { parent, name: name(text), node } }
}

/// A file of the work.
#[derive(Clone, Debug)]
pub struct File {
    parent: InodeId,
    name: Name,
    id: InodeId,
}

/// Makes directories below the root.
#[derive(Debug)]
pub struct MakeDirs {
    wanted: u32,
    asked: u32,
    /// Those that were made.
    pub made: Vec<InodeId>,
}

impl MakeDirs {
    /// So many.
    pub fn new(wanted: u32) -> MakeDirs {
        MakeDirs { wanted, asked: 0, made: vec![] }
    }
}

impl Work for MakeDirs {
    fn next(&mut self, _client: u32, _under_way: u32) -> Option<Ask> {
        (self.asked < self.wanted).then(|| {
            self.asked += 1;
            make(Kind::Mkdir, InodeId::ROOT, &format!("dir.{}", self.asked))
        })
    }

    fn answered(&mut self, _client: u32, _ask: &Ask, reply: &Reply) {
        match reply {
            Reply::Entry { attr, created: true, .. } => self.made.push(attr.id),
            other => panic!("mkdir was answered {other:?}"),
        }
    }
}

/// In which directory a client works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Any, at random.
    Anywhere,
    /// Its own: client n in directory n modulo their number.
    Own,
}

/// Which of the directories a client picks now.
fn pick(dirs: &[InodeId], place: Place, client: u32, rng: &mut ChaCha8Rng) -> InodeId {
    match place {
        Place::Own => dirs[client as usize % dirs.len()],
        Place::Anywhere => dirs[rng.random_range(0..dirs.len())],
    }
}

/// Where a client is in its turn.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// It makes files in this directory, so many until now.
    Creating { dir: InodeId, made: u32 },
    /// It waits for its statdir.
    Reading,
}

/// Creates; if wanted, each client waits after some creates in one directory until they are answered, and asks for its
/// attributes.
#[derive(Debug)]
pub struct Creates {
    dirs: Vec<InodeId>,
    place: Place,
    updates: Option<u32>,
    turns: Vec<Turn>,
    seed: u64,
    number: u64,
    rng: ChaCha8Rng,
    /// Files that were made, if somebody wants them.
    pub files: Option<Vec<File>>,
}

impl Creates {
    /// Creates only, each in a directory picked anew. The names are others for another seed.
    pub fn new(dirs: Vec<InodeId>, place: Place, clients: u32, seed: u64) -> Creates {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let turn = |client| Turn::Creating { dir: pick(&dirs, place, client, &mut rng), made: 0 };
        let turns = (0..clients).map(turn).collect();
        Creates { dirs, place, updates: None, turns, seed, number: 0, rng, files: None }
    }

    /// With a statdir after every `updates` creates of a client.
    pub fn with_statdirs(self, updates: u32) -> Creates {
        Creates { updates: Some(updates), ..self }
    }

    fn pick(&mut self, client: u32) -> InodeId {
        pick(&self.dirs, self.place, client, &mut self.rng)
    }
}

impl Work for Creates {
    fn next(&mut self, client: u32, under_way: u32) -> Option<Ask> {
        let dir = match (self.updates, self.turns[client as usize]) {
            (None, _) => self.pick(client),
            (Some(updates), Turn::Creating { dir, made }) if made < updates => {
                self.turns[client as usize] = Turn::Creating { dir, made: made + 1 };
                dir
            }
            _ if under_way > 0 => return None,
            (Some(_), Turn::Creating { dir, .. }) => {
                self.turns[client as usize] = Turn::Reading;
                return Some(statdir(dir));
            }
            (Some(_), Turn::Reading) => {
                let dir = self.pick(client);
                self.turns[client as usize] = Turn::Creating { dir, made: 1 };
                dir
            }
        };
        self.number += 1;
        Some(make(Kind::Create, dir, &format!("file.{}.{:08}", self.seed, self.number)))
    }

    fn answered(&mut self, _client: u32, ask: &Ask, reply: &Reply) {
        match (&ask.request, reply) {
            (Request::Create { parent, name, .. }, Reply::Entry { attr, created: true, .. }) => {
                let file = File { parent: *parent, name: name.clone(), id: attr.id };
                self.files.iter_mut().for_each(|files| files.push(file.clone()));
            }
            (Request::GetAttr { .. }, Reply::Attr { .. }) => {}
            (_, other) => panic!("{} was answered {other:?}", ask.kind.name()),
        }
    }
}

fn statdir(id: InodeId) -> Ask {
    Ask { kind: Kind::Statdir, request: Request::GetAttr { id } }
}

/// Statdirs and creates, each drawn anew, of directories at random.
#[derive(Debug)]
pub struct Mix {
    dirs: Vec<InodeId>,
    /// Of each hundred requests, statdirs.
    statdir_percent: u32,
    seed: u64,
    number: u64,
    rng: ChaCha8Rng,
}

impl Mix {
    /// With so many statdirs in a hundred. The names are others for another seed.
    pub fn new(dirs: Vec<InodeId>, statdir_percent: u32, seed: u64) -> Mix {
        Mix { dirs, statdir_percent, seed, number: 0, rng: ChaCha8Rng::seed_from_u64(seed) }
    }
}

impl Work for Mix {
    fn next(&mut self, client: u32, _under_way: u32) -> Option<Ask> {
        let dir = pick(&self.dirs, Place::Anywhere, client, &mut self.rng);
        if self.rng.random_range(0..100) < self.statdir_percent {
            return Some(statdir(dir));
        }
        self.number += 1;
        Some(make(Kind::Create, dir, &format!("mixed.{}.{:08}", self.seed, self.number)))
    }

    fn answered(&mut self, _client: u32, ask: &Ask, reply: &Reply) {
        let fits = matches!(reply, Reply::Attr { .. } | Reply::Entry { created: true, .. });
        assert!(fits, "{} was answered {reply:?}", ask.kind.name());
    }
}

/// One request for each file, in their order.
pub struct Touches {
    kind: Kind,
    files: std::vec::IntoIter<File>,
}

impl Touches {
    /// Lookups, stats or unlinks.
    ///
    /// # Panics
    /// Another kind.
    pub fn new(kind: Kind, files: Vec<File>) -> Touches {
        assert!(matches!(kind, Kind::Lookup | Kind::Stat | Kind::Unlink), "{} is not for files", kind.name());
        Touches { kind, files: files.into_iter() }
    }
}

impl Work for Touches {
    fn next(&mut self, _client: u32, _under_way: u32) -> Option<Ask> {
        let File { parent, name, id } = self.files.next()?;
        let request = match self.kind {
            Kind::Lookup => Request::Lookup { parent, name },
            Kind::Unlink => Request::Unlink { parent, name },
            _ => Request::GetAttr { id },
        };
        Some(Ask { kind: self.kind, request })
    }

    fn answered(&mut self, _client: u32, ask: &Ask, reply: &Reply) {
        let failed = matches!(reply, Reply::Failed { .. } | Reply::Busy);
        assert!(!failed, "{} was answered {reply:?}", ask.kind.name());
    }
}
