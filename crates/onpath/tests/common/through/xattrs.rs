//! Extended attributes, by the client.

use super::{At, Ids, Link, caller, done_by_client};
use crate::common::sys::R;
use onpath_client::SetXattr;

/// What a buffer of that many bytes gets, of the call that asks for the length alone if it has none.
fn into_buffer(told: Vec<u8>, bytes: usize) -> R<(usize, Vec<u8>)> {
    let length = told.len();
    if bytes == 0 {
        return Ok((length, told));
    }
    if length > bytes { Err(libc::ERANGE) } else { Ok((length, told)) }
}

impl At {
    pub fn setxattr(&self, name: &[u8], value: &[u8], flags: i32, link: Link) -> R {
        let (client, path) = self.place()?;
        let how = match flags {
            0 => SetXattr::Any,
            libc::XATTR_CREATE => SetXattr::Create,
            libc::XATTR_REPLACE => SetXattr::Replace,
            _ => return Err(libc::EINVAL),
        };
        done_by_client(client.setxattr(&caller(Ids::Effective), path, name, value, how, link))
    }

    pub fn getxattr(&self, name: &[u8], link: Link) -> R<Vec<u8>> {
        let (client, path) = self.place()?;
        done_by_client(client.getxattr(&caller(Ids::Effective), path, name, link))
    }

    pub fn getxattr_into(&self, name: &[u8], bytes: usize) -> R<(usize, Vec<u8>)> {
        into_buffer(self.getxattr(name, Link::Follow)?, bytes)
    }

    pub fn listxattr_into(&self, bytes: usize) -> R<(usize, Vec<u8>)> {
        let (client, path) = self.place()?;
        let names = done_by_client(client.listxattr(&caller(Ids::Effective), path, Link::Follow))?;
        into_buffer(names.into_iter().flat_map(|name| [name, vec![0]].concat()).collect(), bytes)
    }

    pub fn removexattr(&self, name: &[u8], link: Link) -> R {
        let (client, path) = self.place()?;
        done_by_client(client.removexattr(&caller(Ids::Effective), path, name, link))
    }
}
