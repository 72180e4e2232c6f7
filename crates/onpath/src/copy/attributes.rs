//! Owner, mode, extended attributes (so access control lists, too) and times of what was copied: all to the very inode.

use super::copier::Done;
use super::object::{Facts, Object, we_are_root};
use crate::walk::{Failure, to, to_copy};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ffi::CStr;

/// Gives what was there already, as a copy, what `source` has; `is` are the facts of the source. False if that must not be done: root changes
/// nothing that has further names, for these may be anybody's. Then it is to be copied anew.
pub(super) fn renew(source: &impl Object, is: &Facts, there: &impl Object, done: &Done) -> Result<bool, Failure> {
    let have = there.is();
    if have.links > 1 && we_are_root() {
        let same_owner = (have.uid, have.gid, have.permissions) == (is.uid, is.gid, is.permissions);
        return Ok(same_owner && have.modified == is.modified && same_xattrs(source, there)?);
    }
    let had = change(source, is, there, done)?;
    if (had.accessed, had.modified) != (is.accessed, is.modified) {
        set_times(is, there)?;
    }
    Ok(true)
}

/// Gives `copy` what `source` has; `is` are the facts of the source.
pub(super) fn copy(source: &impl Object, is: &Facts, copy: &impl Object, done: &Done) -> Result<(), Failure> {
    change(source, is, copy, done)?;
    set_times(is, copy)
}

/// In this order: a change of owner takes set-id bits and capabilities, and an access control list decides over the mode. What the copy was
/// before.
fn change(source: &impl Object, is: &Facts, copy: &impl Object, done: &Done) -> Result<Facts, Failure> {
    let look = || copy.now().map_err(to_copy("stat the copy of"));
    let had = look()?;
    let mut have = had;
    if (have.uid, have.gid) != (is.uid, is.gid) {
        match copy.chown(is.uid, is.gid) {
            Err(Errno::PERM) if copy.keeps_its_owner() => done.owners_lost.add(1),
            result => result.map_err(to_copy("give its owner to the copy of"))?,
        }
        have = look()?;
    }
    if is.kind != FileType::Symlink && have.permissions != is.permissions {
        copy.chmod(is.permissions).map_err(to_copy("give its mode to the copy of"))?;
    }
    xattrs(source, copy, done)?;
    Ok(had)
}

/// At the end: everything else changes times.
fn set_times(is: &Facts, copy: &impl Object) -> Result<(), Failure> {
    copy.set_times(is.accessed, is.modified).map_err(to_copy("give its times to the copy of"))
}

/// The copy gets the source's, no others.
fn xattrs(source: &impl Object, copy: &impl Object, done: &Done) -> Result<(), Failure> {
    let wanted = source.xattrs().map_err(to("list the extended attributes of"))?;
    let have = copy.xattrs().unwrap_or_default();
    for name in &wanted {
        let Some(value) = source.xattr(name).map_err(to("read an extended attribute of"))? else { continue };
        if have.contains(name) && value_is(copy, name, &value) {
            continue;
        }
        match copy.set_xattr(name, &value) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM | Errno::INVAL) => done.xattrs_lost.add(1),
            result => result.map_err(to_copy("give an extended attribute to the copy of"))?,
        }
    }
    for name in have.difference(&wanted) {
        // What the destination gives to all its files may not be ours to take.
        _ = copy.remove_xattr(name);
    }
    Ok(())
}

fn same_xattrs(source: &impl Object, copy: &impl Object) -> Result<bool, Failure> {
    let wanted = source.xattrs().map_err(to("list the extended attributes of"))?;
    if wanted != copy.xattrs().unwrap_or_default() {
        return Ok(false);
    }
    for name in &wanted {
        let value = source.xattr(name).map_err(to("read an extended attribute of"))?;
        if value.is_some_and(|value| !value_is(copy, name, &value)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn value_is(of: &impl Object, name: &CStr, wanted: &[u8]) -> bool {
    of.xattr(name).is_ok_and(|value| value.as_deref() == Some(wanted))
}
