//! Which directory each host of a cluster has, as the others remember it: one that is lost must not be taken for an empty one.
//!
//! A directory draws an identity when it is formatted, and greetings tell it. Each host remembers the first one that it hears of each
//! other host, on stable storage before it takes its messages, and takes no messages of another one. A directory that is *new*
//! serves no client before all other hosts have taken it: one of them would know it if there had been another. `hosts` in DIR:
//!
//! ```text
//! this 6b0f54d2a91cc3e7 known
//! 2 90a1f3324cbb7d15 17 2049 c3a51e0d77b2f648
//! ```
//!
//! The two numbers of another host are the highest birth and term that it has told to give out next; what it has drawn at that start
//! follows. A directory that tells a lower term than that, or the same one of another start, is an old copy of itself, since every start
//! takes a term; nothing is taken from it. One that takes the place of a lost one
//! asks the others, and begins above ([`Next::after_a_loss`]), so that nothing repeats of what the lost one has given out (R-18).

use crate::dir::{DirError, replace_file};
use crate::held;
use crate::sys;
use onpath_wire::ids::{Birth, SessionNumber, Term};
use onpath_wire::wire_struct;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

/// The file of a DIR.
const NAME: &str = "hosts";

wire_struct! {
    /// What a host tells of its directory.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Directory {
        /// Its identity; 0: the host has none.
        pub id: u64,
        /// Somebody has said that it takes the place of another one.
        pub meant: bool,
        /// Which secrets it has ([`onpath_wire::secrets::Secrets::digest`]); 0: there is none.
        pub secrets: u64,
        /// What it gives out next.
        pub next: Next,
        /// Drawn at its last start, 0 without one: two that tell one term and differ in this are a directory and a copy of it.
        pub start: u64,
    }
}

wire_struct! {
    /// What a directory gives out next, as of its last start.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Next {
        /// Birth of inodes.
        pub birth: Birth,
        /// Term of a role.
        pub term: Term,
        /// Session; none where the coordinator is not.
        pub session: SessionNumber,
    }
}

/// Births that a lost directory may have taken since it was last heard of: one a start, and one more each time that a shard has made
/// 65,536 inodes in each of its slots.
const UNHEARD_BIRTHS: u32 = 1_024;
/// Terms that it may have taken: one a start.
const UNHEARD_TERMS: u32 = 1_024;
/// Sessions that may have joined since the last start.
const UNHEARD_SESSIONS: u64 = 1 << 24;

impl Next {
    /// Nothing before either.
    #[must_use]
    pub fn max(self, other: Next) -> Next {
        let (birth, term) = (self.birth.max(other.birth), self.term.max(other.term));
        Next { birth, term, session: self.session.max(other.session) }
    }

    /// Where a directory begins that takes the place of the one that was heard to be here.
    #[must_use]
    pub fn after_a_loss(self) -> Next {
        let birth = self.birth.0.saturating_add(UNHEARD_BIRTHS).min(Birth::NEVER.0);
        let term = self.term.0.saturating_add(UNHEARD_TERMS).min(Term::MAX.0);
        let session = match self.session.0 {
            0 => 0,
            next => next.saturating_add(UNHEARD_SESSIONS).min(SessionNumber::MAX.0),
        };
        Next { birth: Birth(birth), term: Term(term), session: SessionNumber(session) }
    }
}

/// Whether messages of a host are taken, by what it tells of its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// They are.
    Admitted,
    /// Another directory is known of that host.
    OtherDirectory,
    /// It has other secrets: names would not be where this host looks for them.
    OtherSecrets,
    /// Its directory was further when it was last heard of: it is an old copy.
    OldCopy,
    /// What it tells cannot be remembered, so nothing is taken from it for now.
    Unnoted,
}

/// How far a directory is known to the other hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Somebody may have known another one.
    New,
    /// It takes the place of another one, which not all of them have heard.
    Meant,
    Known,
    /// Another host has heard of a later state of it.
    Old,
}

impl Standing {
    const ALL: [(Standing, &str); 4] =
        [(Standing::New, "new"), (Standing::Meant, "meant"), (Standing::Known, "known"), (Standing::Old, "old")];
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Book {
    this: u64,
    standing: Standing,
    others: BTreeMap<u16, Other>,
}

/// What is known of another host's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Other {
    id: u64,
    /// The highest that it has told.
    next: Next,
    /// See [`Directory::start`].
    start: u64,
}

impl Book {
    fn new(this: u64, standing: Standing) -> Book {
        Book { this, standing, others: BTreeMap::new() }
    }

    fn text(&self) -> String {
        let standing = Standing::ALL.iter().find(|(standing, _)| *standing == self.standing).expect("all are listed").1;
        let line = |(host, Other { id, next, start }): (&u16, &Other)| {
            format!("{host} {id:016x} {} {} {} {start:016x}\n", next.birth, next.term, next.session)
        };
        let others = self.others.iter().map(line);
        format!("this {:016x} {standing}\n{}", self.this, others.collect::<String>())
    }

    fn read(text: &str) -> Option<Book> {
        let id = |word: &str| u64::from_str_radix(word, 16).ok().filter(|id| *id != 0);
        let mut lines = text.lines();
        let first: Vec<&str> = lines.next()?.split(' ').collect();
        let ["this", this, standing] = first[..] else { return None };
        let standing = Standing::ALL.iter().find(|(_, word)| *word == standing)?.0;
        let other = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let [host, other, birth, term, session, start] = words[..] else { return None };
            let (birth, term) = (Birth(birth.parse().ok()?), Term(term.parse().ok()?));
            let session = session.parse().ok().map(SessionNumber).filter(|session| *session <= SessionNumber::MAX)?;
            let next = Next { birth, term, session };
            Some((host.parse().ok()?, Other { id: id(other)?, next, start: id(start)? }))
        };
        let others = lines.map(other).collect::<Option<BTreeMap<u16, Other>>>()?;
        Some(Book { this: id(this)?, standing, others }).filter(|book| book.text() == text)
    }

    fn write(&self, dir: &Path) -> Result<(), DirError> {
        let failed = |(path, source)| DirError::Io { path, what: "write", source };
        replace_file(dir, NAME, self.text().as_bytes()).map_err(failed)
    }
}

/// A file of what is known, read and written again; none if it is no such file.
#[cfg(feature = "fuzzing")]
pub(crate) fn again(text: &str) -> Option<String> {
    Book::read(text).map(|book| book.text())
}

/// What a host knows of the directories of all.
pub(crate) struct Known {
    dir: PathBuf,
    /// Which secrets the directory has.
    secrets: u64,
    /// Hosts that have directories, but this one.
    wanted: BTreeSet<u16>,
    /// What the directory gives out next.
    next: Next,
    /// See [`Directory::start`].
    start: u64,
    state: Mutex<State>,
}

struct State {
    book: Book,
    /// Hosts that have taken this one's directory since the start.
    taken: BTreeSet<u16>,
}

/// A directory of this identity is formatted.
pub(crate) fn format(dir: &Path, id: u64) -> Result<(), DirError> {
    Book::new(id, Standing::New).write(dir)
}

/// Refuses a directory of which another host has said that it is an old copy: each start would make it seem later than it is.
pub(crate) fn refuse_old(dir: &Path) -> Result<(), DirError> {
    match read(dir)? {
        Some(book) if book.standing == Standing::Old => Err(DirError::OldCopy { path: dir.to_owned() }),
        _ => Ok(()),
    }
}

/// What is noted, if anything is.
fn read(dir: &Path) -> Result<Option<Book>, DirError> {
    let path = dir.join(NAME);
    match held::read_to_string(&path) {
        Ok(text) => Book::read(&text).map(Some).ok_or(DirError::Hosts { path }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(DirError::Hosts { path }),
        Err(source) => Err(DirError::Io { path, what: "read", source }),
    }
}

impl Known {
    /// Reads what a directory has, whose identity and secrets are these. `wanted`: the other hosts that have directories; `meant`:
    /// somebody says that this one shall take the place of any other; `next`: what it gives out next.
    pub(crate) fn open(
        dir: &Path,
        (id, secrets): (u64, u64),
        wanted: BTreeSet<u16>,
        meant: bool,
        next: Next,
    ) -> Result<Known, DirError> {
        let before = read(dir)?;
        // Without the file it has been used already.
        let mut book = before.clone().unwrap_or_else(|| Book::new(id, Standing::Known));
        if book.this != id {
            return Err(DirError::Hosts { path: dir.join(NAME) }); // that of another directory
        }
        if wanted.is_empty() {
            book.standing = Standing::Known;
        } else if meant {
            book.standing = Standing::Meant;
        }
        if before.as_ref() != Some(&book) {
            book.write(dir)?;
        }
        if book.standing == Standing::New {
            tracing::info!(hosts = ?wanted, "the directory is new: clients are served when these hosts have said that they know no other");
        }
        let state = Mutex::new(State { book, taken: BTreeSet::new() });
        let random = |source| DirError::Io { path: dir.to_owned(), what: "random bytes", source };
        let start = sys::random_bytes().map(u64::from_le_bytes).map_err(random)?.max(1);
        Ok(Known { dir: dir.to_owned(), secrets, wanted, next, start, state })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("what is known does not panic")
    }

    /// What this host tells of its own.
    pub(crate) fn own(&self) -> Directory {
        let state = self.lock();
        let meant = state.book.standing == Standing::Meant;
        Directory { id: state.book.this, meant, secrets: self.secrets, next: self.next, start: self.start }
    }

    /// Whether all other hosts have taken the directory: then it has their secrets.
    pub(crate) fn is_known(&self) -> bool {
        self.lock().book.standing == Standing::Known
    }

    /// Whether clients may be served.
    pub(crate) fn serves(&self) -> bool {
        self.lock().book.standing != Standing::New
    }

    /// What a host has told that it gives out next, if it was heard of.
    pub(crate) fn next_of(&self, host: u16) -> Next {
        self.lock().book.others.get(&host).map(|other| other.next).unwrap_or_default()
    }

    /// Whether messages of a host with that directory are taken: no other and no later one is known, on stable storage.
    pub(crate) fn admits(&self, host: u16, told: Directory) -> Admission {
        if told.id != 0 && told.secrets != self.secrets {
            return Admission::OtherSecrets;
        }
        let mut state = self.lock();
        let before = state.book.others.get(&host).copied();
        let same = before.map_or(0, |other| other.id) == told.id;
        if same && told.id == 0 {
            return Admission::Admitted;
        }
        if !same && (told.id == 0 || !self.wanted.contains(&host) || before.is_some() && !told.meant) {
            return Admission::OtherDirectory;
        }
        let known = before.map(|other| other.next).unwrap_or_default();
        let other_start = same && before.is_some_and(|other| other.start != told.start);
        if told.next.term < known.term || told.next.term == known.term && other_start {
            return Admission::OldCopy;
        }
        let next = known.max(told.next);
        if same && next == known {
            return Admission::Admitted;
        }
        let mut book = state.book.clone();
        book.others.insert(host, Other { id: told.id, next, start: told.start });
        if let Err(error) = book.write(&self.dir) {
            tracing::error!(host, error = error.to_string(), "what a host tells of its directory cannot be remembered");
            // A full disk here keeps no host out whose directory is known: how far it is is remembered when there is room.
            if !same {
                return Admission::Unnoted;
            }
        }
        state.book = book;
        if before.is_some() && !same {
            tracing::warn!(host, "a host has a new directory in place of the one that it had");
        }
        Admission::Admitted
    }

    /// Another host has heard of a later state of this directory: no later start makes it pass for the present one.
    pub(crate) fn is_old_copy(&self) {
        let mut state = self.lock();
        let book = Book { standing: Standing::Old, ..state.book.clone() };
        match book.write(&self.dir) {
            Ok(()) => state.book = book,
            Err(error) => {
                tracing::error!(error = error.to_string(), "it cannot be noted that the directory is an old copy")
            }
        }
    }

    /// Another host takes this one's messages.
    pub(crate) fn taken_by(&self, host: u16) {
        let mut state = self.lock();
        state.taken.insert(host);
        if state.book.standing == Standing::Known || !self.wanted.is_subset(&state.taken) {
            return;
        }
        let book = Book { standing: Standing::Known, ..state.book.clone() };
        match book.write(&self.dir) {
            Ok(()) => {
                state.book = book;
                tracing::info!("all other hosts know the directory");
            }
            Err(error) => tracing::error!(error = error.to_string(), "it cannot be noted that the directory is known"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn known(dir: &Path, wanted: &[u16], meant: bool) -> Known {
        Known::open(dir, (ID, SECRETS), wanted.iter().copied().collect(), meant, next(1, 1)).unwrap()
    }

    fn next(birth: u32, term: u32) -> Next {
        Next { birth: Birth(birth), term: Term(term), session: SessionNumber::NONE }
    }

    const SECRETS: u64 = 5;
    const ID: u64 = 0x6b0f_54d2_a91c_c3e7;

    fn told(id: u64, meant: bool) -> Directory {
        Directory { id, meant, secrets: SECRETS, next: next(1, 1), start: 9 }
    }

    fn admits(one: &Known, host: u16, told: Directory) -> bool {
        one.admits(host, told) == Admission::Admitted
    }

    #[test]
    fn a_host_with_other_secrets_is_not_admitted() {
        let tmp = tempfile::tempdir().unwrap();
        format(tmp.path(), ID).unwrap();
        let one = known(tmp.path(), &[2], false);
        let other = Directory { secrets: 6, ..told(7, false) };
        assert_eq!(one.admits(2, other), Admission::OtherSecrets);
        assert_eq!(one.admits(2, Directory { meant: true, ..other }), Admission::OtherSecrets);
        assert!(!one.is_known(), "it gives up, if anybody has to");
        assert!(admits(&one, 2, told(8, false)), "nothing was remembered of the other one");
        assert!(admits(&one, 3, Directory::default()), "a host without a directory needs none");
        one.taken_by(2);
        assert!(one.is_known());
        assert_eq!(one.admits(2, Directory { secrets: 6, ..told(8, false) }), Admission::OtherSecrets);
    }

    #[test]
    fn a_new_directory_waits_for_all_others() {
        let tmp = tempfile::tempdir().unwrap();
        format(tmp.path(), ID).unwrap();
        let one = known(tmp.path(), &[2, 3], false);
        assert!(!one.serves());
        one.taken_by(2);
        assert!(!one.serves());
        let id = one.own().id;
        let again = known(tmp.path(), &[2, 3], false);
        assert!(!again.serves(), "it is as new as before");
        again.taken_by(3);
        assert!(!again.serves());
        again.taken_by(2);
        assert!(again.serves());
        let again = known(tmp.path(), &[2, 3], false);
        assert!(again.serves());
        assert_eq!(again.own(), Directory { start: again.own().start, ..told(id, false) });
    }

    #[test]
    fn another_directory_is_refused_until_it_is_meant() {
        let tmp = tempfile::tempdir().unwrap();
        format(tmp.path(), ID).unwrap();
        let one = known(tmp.path(), &[2], false);
        assert!(!admits(&one, 3, told(7, true)), "there is no such host");
        assert!(admits(&one, 3, told(0, false)), "one without a directory");
        assert!(admits(&one, 2, told(7, false)));
        for one in [one, known(tmp.path(), &[2], false)] {
            let admitted = [told(7, false), told(8, false), told(0, true)].map(|told| admits(&one, 2, told));
            assert_eq!(admitted, [true, false, false]);
        }
        let one = known(tmp.path(), &[2], false);
        let admitted = [told(8, true), told(8, false), told(7, false)].map(|told| admits(&one, 2, told));
        assert_eq!(admitted, [true, true, false]);
    }

    #[test]
    fn an_old_copy_is_refused_and_whoever_replaces_begins_above() {
        let tmp = tempfile::tempdir().unwrap();
        format(tmp.path(), ID).unwrap();
        let at = |id, meant, birth, term| Directory { next: next(birth, term), ..told(id, meant) };
        let one = known(tmp.path(), &[2], false);
        assert_eq!(one.next_of(2), Next::default());
        assert!(admits(&one, 2, at(7, false, 3, 100)) && admits(&one, 2, at(7, false, 5, 170)));
        assert!(admits(&one, 2, at(7, false, 4, 170)), "a record that was not durable yet");
        for one in [one, known(tmp.path(), &[2], false)] {
            assert_eq!(one.next_of(2), next(5, 170));
            assert_eq!(one.admits(2, at(7, false, 3, 169)), Admission::OldCopy);
            let same_term = Directory { start: 10, ..at(7, false, 5, 170) };
            assert_eq!(one.admits(2, same_term), Admission::OldCopy, "of the start before");
            assert_eq!(one.admits(2, at(8, true, 1, 1)), Admission::OldCopy, "it has not asked where to begin");
        }
        let one = known(tmp.path(), &[2], false);
        let begins = one.next_of(2).after_a_loss();
        assert_eq!(begins, next(5 + 1_024, 170 + 1_024));
        assert!(admits(&one, 2, at(8, true, begins.birth.0, begins.term.0)));
        assert_eq!(one.next_of(2), begins);
        let last = next(Birth::MAX.0, Term::MAX.0).after_a_loss();
        assert_eq!(last, Next { birth: Birth::NEVER, term: Term::MAX, session: SessionNumber::NONE });
        let session = Next { session: SessionNumber(7), ..last }.after_a_loss().session;
        assert_eq!(session, SessionNumber(7 + UNHEARD_SESSIONS));
    }

    #[test]
    fn what_another_host_calls_an_old_copy_starts_no_more() {
        let tmp = tempfile::tempdir().unwrap();
        format(tmp.path(), ID).unwrap();
        let one = known(tmp.path(), &[2], false);
        refuse_old(tmp.path()).unwrap();
        one.is_old_copy();
        let refused = refuse_old(tmp.path()).unwrap_err();
        assert!(matches!(refused, DirError::OldCopy { .. }), "{refused}");
    }

    #[test]
    fn without_room_who_is_known_goes_on_and_who_is_not_waits() {
        let tmp = tempfile::tempdir().unwrap();
        let one = known(tmp.path(), &[2, 3], false);
        assert!(admits(&one, 2, told(7, false)));
        drop(tmp); // nothing can be written any more
        let further = Directory { next: next(1, 2), ..told(7, false) };
        assert!(admits(&one, 2, further) && one.next_of(2) == next(1, 2));
        assert_eq!(one.admits(3, told(8, false)), Admission::Unnoted);
    }

    #[test]
    fn one_that_is_meant_says_so_until_all_know_it() {
        let tmp = tempfile::tempdir().unwrap();
        format(tmp.path(), ID).unwrap();
        assert!(known(tmp.path(), &[2, 3], true).serves());
        let one = known(tmp.path(), &[2, 3], false);
        assert!(one.own().meant && one.serves());
        one.taken_by(2);
        one.taken_by(3);
        assert!(!one.own().meant);
    }

    #[test]
    fn directories_of_before_are_known_and_damage_is_told() {
        let tmp = tempfile::tempdir().unwrap();
        let id = known(tmp.path(), &[2], false).own().id;
        let one = known(tmp.path(), &[2], false);
        assert!(one.serves() && one.own().id == id);
        for text in ["", "this 0 known\n", "this 1 known\n", "this 6b0f54d2a91cc3e7 known\n2 90a1f3324cbb7d15\n", "\n"]
        {
            fs::write(tmp.path().join(NAME), text).unwrap();
            assert!(
                matches!(
                    Known::open(tmp.path(), (ID, SECRETS), BTreeSet::new(), false, next(1, 1)),
                    Err(DirError::Hosts { .. })
                ),
                "{text:?}"
            );
        }
        fs::write(tmp.path().join(NAME), [0xff, 0xfe]).unwrap();
        assert!(matches!(
            Known::open(tmp.path(), (ID, SECRETS), BTreeSet::new(), false, next(1, 1)),
            Err(DirError::Hosts { .. })
        ));
    }
}
