//! Several datagrams in a system call: sendmmsg(2), recvmmsg(2), and Linux' segmentation of UDP (GSO, GRO).

#![allow(unsafe_code)]

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Most datagrams of one call.
pub(super) const MANY: usize = 64;
/// Longest datagram of a comparison.
pub(super) const BYTES_MAX: usize = 8_192;

/// Room for datagrams that come or leave together.
pub(super) struct Packets {
    buffer: Vec<u8>,
    names: Vec<libc::sockaddr_storage>,
    parts: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Packets {
    pub(super) fn new() -> Packets {
        // SAFETY: all-zero bytes are a valid socket address, iovec and mmsghdr each.
        let (name, part, header) = unsafe { (std::mem::zeroed(), std::mem::zeroed(), std::mem::zeroed()) };
        Packets {
            buffer: vec![0; MANY * BYTES_MAX],
            names: vec![name; MANY],
            parts: vec![part; MANY],
            headers: vec![header; MANY],
        }
    }

    /// What a request holds: nothing of interest.
    pub(super) fn request(&self, bytes: usize) -> &[u8] {
        &self.buffer[..bytes]
    }

    /// Points the headers of the first `count` datagrams of `bytes` each at their room.
    fn prepare(&mut self, count: usize, bytes: usize, named: bool) {
        assert!(count <= MANY && bytes <= BYTES_MAX);
        for index in 0..count {
            let base = self.buffer[index * BYTES_MAX..].as_mut_ptr().cast();
            self.parts[index] = libc::iovec { iov_base: base, iov_len: bytes };
            let header = &mut self.headers[index].msg_hdr;
            header.msg_iov = &raw mut self.parts[index];
            header.msg_iovlen = 1;
            header.msg_name = if named { (&raw mut self.names[index]).cast() } else { std::ptr::null_mut() };
            header.msg_namelen = if named { size_of::<libc::sockaddr_storage>() as u32 } else { 0 };
        }
    }

    /// Receives what is there, at most [`MANY`] datagrams; waits for the first one if the socket does.
    pub(super) fn receive(&mut self, socket: &UdpSocket, named: bool) -> io::Result<usize> {
        self.prepare(MANY, BYTES_MAX, named);
        let none = std::ptr::null_mut();
        // SAFETY: each header points to memory of this value that is writable for the lengths given and outlives the call.
        let got = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), self.headers.as_mut_ptr(), MANY as u32, libc::MSG_WAITFORONE, none)
        };
        if got < 0 { Err(io::Error::last_os_error()) } else { Ok(got as usize) }
    }

    /// Sends the first `count` datagrams, `bytes` of each, to where the last ones came from or else to the peer of the socket.
    pub(super) fn send(&mut self, socket: &UdpSocket, count: usize, bytes: usize, named: bool) -> io::Result<()> {
        let lengths: Vec<u32> = self.headers[..count].iter().map(|header| header.msg_hdr.msg_namelen).collect();
        self.prepare(count, bytes, named);
        if named {
            self.headers.iter_mut().zip(lengths).for_each(|(header, length)| header.msg_hdr.msg_namelen = length);
        }
        let mut sent = 0;
        while sent < count {
            let rest = &mut self.headers[sent..count];
            // SAFETY: each header points to memory of this value that outlives the call, which only reads it.
            let now = unsafe { libc::sendmmsg(socket.as_raw_fd(), rest.as_mut_ptr(), rest.len() as u32, 0) };
            if now < 0 {
                return Err(io::Error::last_os_error());
            }
            sent += now as usize;
        }
        Ok(())
    }
}

fn set(socket: &UdpSocket, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let bytes = size_of::<libc::c_int>() as u32;
    // SAFETY: the value outlives the call and is as long as said.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, option, (&raw const value).cast(), bytes) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// From now on what comes is handed over together.
pub(super) fn receive_together(socket: &UdpSocket) -> io::Result<()> {
    set(socket, libc::UDP_GRO, 1)
}

/// From now on what is given to the socket leaves as datagrams of so many bytes.
pub(super) fn send_apart(socket: &UdpSocket, bytes: usize) -> io::Result<()> {
    set(socket, libc::UDP_SEGMENT, bytes as libc::c_int)
}
