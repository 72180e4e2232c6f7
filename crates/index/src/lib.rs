//! The index of a path node, and of a client that keeps ways: what they know of directories, found by id, by (parent, name), and by whole paths.
//!
//! Layer L0: no I/O, no clock, no chance, no `std`. [`Index`] is what a path node asks of it; [`Hi`] is the one that it uses: records of
//! 40 bytes *are* a hash table keyed by (parent, name). `onpath-mart` has two more behind the same trait.
//!
//! A directory is known by the id of its parent and its name, never by its path. So what homes grant and recall, one directory at a time, is
//! one record here, a rename is one record however much lies below, and a child may be known before its parent is.
//!
//! ```
//! use onpath_index::{Access, Directory, DirId, End, Grant, Heap, Hi, Index, Search, Secret};
//!
//! let mut index = Hi::new(Secret::new([7; 16]), Heap::default(), 1 << 20);
//! let access = Access { mode: 0o755, uid: 0, gid: 0, acl: false };
//! let grant = Grant { term: 1, count: 1 };
//! index.bind(&Directory::root(access, grant)).unwrap();
//! index.bind(&Directory { id: DirId(9), parent: DirId::ROOT, name: b"usr", access, grant }).unwrap();
//! let walk = index.walk(DirId::ROOT, b"/usr/lib", &mut |_, _: &Access| Search::Allowed);
//! assert_eq!(walk.end, End::Missing); // "lib" is not held
//! assert_eq!((walk.last.unwrap().id, &b"/usr/lib"[walk.at..]), (DirId(9), &b"lib"[..]));
//! ```

#![no_std]

extern crate alloc;

mod api;
mod hash;
mod hi;
mod path;
mod types;
mod walk;

pub use api::{Bound, Index, Memory};
pub use hash::Secret;
pub use hi::{Heap, Hi, IdMap, PAGE_BYTES, Page, Slabs};
pub use path::{Component, Components};
pub use types::{Access, DirId, Directory, Grant, IndexError, NAME_BYTES_MAX, NameBuf, Part};
pub use walk::{Ask, Check, Class, End, LANES, Search, Walk};
