//! Extended attributes and ACLs as plain functions: the system calls, and the kernel's binary form of an ACL.
#![allow(unsafe_code)]

use super::sys::{R, c, call};
use super::through::{self, Link};
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// Name of the access ACL.
pub const ACCESS: &str = "system.posix_acl_access";
/// Name of the default ACL.
pub const DEFAULT: &str = "system.posix_acl_default";

fn name_of(name: impl AsRef<[u8]>) -> CString {
    CString::new(name.as_ref()).expect("no NUL in a name")
}

/// setxattr(2); `flags` are XATTR_CREATE and XATTR_REPLACE.
pub fn setxattr_as(path: impl AsRef<Path>, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>, flags: i32) -> R {
    if let Some(at) = through::path(&path) {
        return at.setxattr(name.as_ref(), value.as_ref(), flags, Link::Follow);
    }
    let (path, name, value) = (c(path), name_of(name), value.as_ref());
    call!(libc::setxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), flags)).map(drop)
}

pub fn setxattr(path: impl AsRef<Path>, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> R {
    setxattr_as(path, name, value, 0)
}

/// Of a symlink itself.
pub fn lsetxattr(path: impl AsRef<Path>, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> R {
    if let Some(at) = through::path(&path) {
        return at.setxattr(name.as_ref(), value.as_ref(), 0, Link::Itself);
    }
    let (path, name, value) = (c(path), name_of(name), value.as_ref());
    call!(libc::lsetxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0)).map(drop)
}

pub fn fsetxattr(fd: impl AsFd, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> R {
    if let Some(open) = through::of(&fd) {
        return open.setxattr(name.as_ref(), value.as_ref());
    }
    let (fd, name, value) = (fd.as_fd().as_raw_fd(), name_of(name), value.as_ref());
    call!(libc::fsetxattr(fd, name.as_ptr(), value.as_ptr().cast(), value.len(), 0)).map(drop)
}

/// getxattr(2) into a buffer of that many bytes: the length that it gives, and the buffer.
pub fn getxattr_into(path: impl AsRef<Path>, name: impl AsRef<[u8]>, bytes: usize) -> R<(usize, Vec<u8>)> {
    if let Some(at) = through::path(&path) {
        return at.getxattr_into(name.as_ref(), bytes);
    }
    let (path, name) = (c(path), name_of(name));
    let mut value = vec![0_u8; bytes];
    let length = call!(libc::getxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), bytes))?;
    Ok((length as usize, value))
}

pub fn getxattr(path: impl AsRef<Path>, name: impl AsRef<[u8]>) -> R<Vec<u8>> {
    let (length, mut value) = getxattr_into(path, name, 64 << 10)?;
    value.truncate(length);
    Ok(value)
}

/// Of a symlink itself.
pub fn lgetxattr(path: impl AsRef<Path>, name: impl AsRef<[u8]>) -> R<Vec<u8>> {
    if let Some(at) = through::path(&path) {
        return at.getxattr(name.as_ref(), Link::Itself);
    }
    let (path, name) = (c(path), name_of(name));
    let mut value = vec![0_u8; 64 << 10];
    let length = call!(libc::lgetxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()))?;
    value.truncate(length as usize);
    Ok(value)
}

pub fn fgetxattr(fd: impl AsFd, name: impl AsRef<[u8]>) -> R<Vec<u8>> {
    if let Some(open) = through::of(&fd) {
        return open.getxattr(name.as_ref());
    }
    let (fd, name) = (fd.as_fd().as_raw_fd(), name_of(name));
    let mut value = vec![0_u8; 64 << 10];
    let length = call!(libc::fgetxattr(fd, name.as_ptr(), value.as_mut_ptr().cast(), value.len()))?;
    value.truncate(length as usize);
    Ok(value)
}

/// listxattr(2) into a buffer of that many bytes: the length that it gives, and the buffer.
pub fn listxattr_into(path: impl AsRef<Path>, bytes: usize) -> R<(usize, Vec<u8>)> {
    if let Some(at) = through::path(&path) {
        return at.listxattr_into(bytes);
    }
    let path = c(path);
    let mut list = vec![0_u8; bytes];
    let length = call!(libc::listxattr(path.as_ptr(), list.as_mut_ptr().cast(), bytes))?;
    Ok((length as usize, list))
}

/// The names, sorted.
pub fn listxattr(path: impl AsRef<Path>) -> R<Vec<String>> {
    let (length, mut list) = listxattr_into(path, 64 << 10)?;
    list.truncate(length);
    let mut names: Vec<String> =
        list.split_inclusive(|&b| b == 0).map(|n| String::from_utf8_lossy(&n[..n.len() - 1]).into_owned()).collect();
    names.sort_unstable();
    Ok(names)
}

pub fn removexattr(path: impl AsRef<Path>, name: impl AsRef<[u8]>) -> R {
    if let Some(at) = through::path(&path) {
        return at.removexattr(name.as_ref(), Link::Follow);
    }
    let (path, name) = (c(path), name_of(name));
    call!(libc::removexattr(path.as_ptr(), name.as_ptr())).map(drop)
}

/// Of a symlink itself.
pub fn lremovexattr(path: impl AsRef<Path>, name: impl AsRef<[u8]>) -> R {
    if let Some(at) = through::path(&path) {
        return at.removexattr(name.as_ref(), Link::Itself);
    }
    let (path, name) = (c(path), name_of(name));
    call!(libc::lremovexattr(path.as_ptr(), name.as_ptr())).map(drop)
}

pub fn fremovexattr(fd: impl AsFd, name: impl AsRef<[u8]>) -> R {
    if let Some(open) = through::of(&fd) {
        return open.removexattr(name.as_ref());
    }
    let (fd, name) = (fd.as_fd().as_raw_fd(), name_of(name));
    call!(libc::fremovexattr(fd, name.as_ptr())).map(drop)
}

/// An ACL in the kernel's binary form, from text as setfacl(1) takes it, with numbers: `u::rwx,u:1000:r,g::r,m::rx,o::-`.
pub fn acl(text: &str) -> Vec<u8> {
    let mut value = 2_u32.to_le_bytes().to_vec();
    for entry in text.split(',') {
        let mut fields = entry.split(':');
        let (kind, who, perms) =
            (fields.next().unwrap_or(""), fields.next().unwrap_or(""), fields.next().unwrap_or(""));
        let tag: u16 = match (kind, who) {
            ("u", "") => 0x01,
            ("u", _) => 0x02,
            ("g", "") => 0x04,
            ("g", _) => 0x08,
            ("m", _) => 0x10,
            _ => 0x20,
        };
        let perm = [('r', 4), ('w', 2), ('x', 1)].iter().filter(|(c, _)| perms.contains(*c)).map(|(_, bit)| bit).sum();
        let id = who.parse().unwrap_or(u32::MAX);
        value.extend_from_slice(&tag.to_le_bytes());
        value.extend_from_slice(&u16::to_le_bytes(perm));
        value.extend_from_slice(&id.to_le_bytes());
    }
    value
}

/// The text of a binary ACL, as [`acl`] takes it.
pub fn acl_text(value: &[u8]) -> String {
    let entry = |bytes: &[u8]| {
        let (tag, perm) = (u16::from_le_bytes([bytes[0], bytes[1]]), u16::from_le_bytes([bytes[2], bytes[3]]));
        let id = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let who = if id == u32::MAX { String::new() } else { id.to_string() };
        let kind = match tag {
            0x01 | 0x02 => "u",
            0x04 | 0x08 => "g",
            0x10 => "m",
            _ => "o",
        };
        let perms: String =
            [('r', 4), ('w', 2), ('x', 1)].iter().filter(|(_, b)| perm & b != 0).map(|(c, _)| *c).collect();
        format!("{kind}:{who}:{}", if perms.is_empty() { "-".into() } else { perms })
    };
    value[4..].chunks(8).map(entry).collect::<Vec<_>>().join(",")
}
