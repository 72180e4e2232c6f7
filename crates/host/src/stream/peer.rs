//! Who is at the other end of a socket: the kernel says it, as of the connect.

use crate::sys::{self, Peer};
use onpath_wire::caller::cap;
use onpath_wire::identity::{GIDS_MAX, Identity};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// As whom alone the process at the other end acts.
pub(super) fn identity(stream: &UnixStream, peer: Peer) -> io::Result<Identity> {
    let groups = sys::peer_groups(stream)?.into_iter().filter(|gid| *gid != peer.gid);
    let gids = std::iter::once(peer.gid).chain(groups).take(GIDS_MAX).collect();
    Ok(Identity { uid: peer.uid, gids, caps: capabilities(stream, peer).unwrap_or(0) })
}

/// Its effective capabilities, where they count for files of this host; nothing where that cannot be seen, or where they may be another
/// program's than the one that has connected.
fn capabilities(stream: &UnixStream, peer: Peer) -> Option<u32> {
    let process = sys::peer_handle(stream).ok()?;
    let place = Path::new("/proc").join(peer.pid.to_string());
    let read = || std::fs::read(place.join("status")).ok().as_deref().and_then(parse);
    let own = |namespace: &str| {
        let of = |place: &Path| std::fs::read_link(place.join("ns").join(namespace)).ok();
        of(&place).is_some_and(|is| Some(is) == of(Path::new("/proc/self")))
    };
    let before = read()?;
    // Who has become another user, or has got capabilities by a program that gives some, is not its own any more, and says so: the kernel
    // gives its directory to root.
    let is_its_own = std::fs::metadata(&place).ok()?.uid() == peer.uid;
    let after = read()?;
    let same = before == after && after.uid == peer.uid && is_its_own;
    // Nobody comes back to this namespace: what was read was read here.
    (same && own("user") && own("pid") && sys::still_runs(&process)).then_some(after.caps)
}

/// What is read of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Status {
    /// Its effective user id.
    uid: u32,
    /// Bits of [`cap`] that are effective.
    caps: u32,
}

/// Reads `/proc/PID/status`.
fn parse(status: &[u8]) -> Option<Status> {
    let text = String::from_utf8_lossy(status);
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let uid = field("Uid:")?.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let caps = u64::from_str_radix(field("CapEff:")?, 16).ok()?;
    Some(Status { uid, caps: caps as u32 & cap::ALL })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read() {
        let text = "Name:\tUid: 0\nUmask:\t0022\nUid:\t1\t7\t3\t4\nGid:\t5\t5\t5\t5\nCapEff:\t000001ff80000009\n";
        assert_eq!(parse(text.as_bytes()), Some(Status { uid: 7, caps: cap::SETFCAP | cap::CHOWN | cap::FOWNER }));
        for wrong in ["", "Uid:\t1\n", "Uid:\t1\tx\nCapEff:\t0\n", "Uid:\t1\t2\nCapEff:\tx\n"] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn this_process_is_who_it_is() {
        let (here, _there) = UnixStream::pair().unwrap();
        let peer = sys::peer(&here).unwrap();
        let is = identity(&here, peer).unwrap();
        let effective = std::fs::read("/proc/self/status").unwrap();
        let caps = parse(&effective).unwrap().caps;
        assert_eq!((is.uid, is.gid(), is.caps), (peer.uid, peer.gid, caps));
        // Of somebody else's process nothing is believed.
        assert_eq!(capabilities(&here, Peer { uid: peer.uid + 1, ..peer }), None);
    }
}
