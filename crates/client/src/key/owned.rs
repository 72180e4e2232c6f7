//! Keys of clients in the file of the hosts: a line each, that says whose it is.

use super::{DIGITS, KEY_BYTES, digits, hexadecimal};
use onpath_host::udp::{Key, Keys, OwnedKey};
use onpath_wire::identity::Identity;
use std::collections::BTreeMap;

/// What the names of clients' lines begin with.
pub const CLIENT: &str = "client.";
/// Keys of clients in a file.
pub const CLIENTS_MAX: usize = 1_024;
/// Groups of the owner of a key.
pub const GROUPS_MAX: usize = 64;
/// Bytes of a client's name.
const NAME_BYTES_MAX: usize = 64;
const ANY: &str = "any";
const OWNER: &str = "behind the key of a client stands `any`, or whose it is: uid=U gid=G,… with up to 64 groups";
const NAME: &str = "the name of a client has up to 64 letters, digits, - and _";

/// The key of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientLine {
    /// What people call it.
    pub name: String,
    /// The key.
    pub key: [u8; KEY_BYTES],
    /// As whom alone whoever has it may act; none if as anybody.
    pub identity: Option<Identity>,
}

impl ClientLine {
    /// The line, with its end.
    pub fn text(&self) -> String {
        let owner = match &self.identity {
            None => ANY.to_owned(),
            Some(Identity { uid, gids, .. }) => {
                let gids: Vec<String> = gids.iter().map(u32::to_string).collect();
                format!("uid={uid} gid={}", gids.join(","))
            }
        };
        format!("{CLIENT}{} = {} {owner}\n", self.name, hexadecimal(&self.key))
    }

    pub(super) fn parse(name: &str, value: &str) -> Result<ClientLine, &'static str> {
        let mut words = value.split_ascii_whitespace();
        let key = words.next().and_then(digits).ok_or(DIGITS)?;
        let owner: Vec<&str> = words.collect();
        let identity = match owner[..] {
            [ANY] => None,
            [uid, gid] => Some(identity(uid, gid).ok_or(OWNER)?),
            _ => return Err(OWNER),
        };
        if !is_name(name) {
            return Err(NAME);
        }
        Ok(ClientLine { name: name.to_owned(), key, identity })
    }
}

/// Whether a client may be called so.
pub fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(fits)
}

fn identity(uid: &str, gid: &str) -> Option<Identity> {
    let uid = uid.strip_prefix("uid=")?.parse().ok()?;
    let gids = gid.strip_prefix("gid=")?.split(',').map(|gid| gid.parse().ok());
    let gids = gids.collect::<Option<Vec<u32>>>()?;
    (gids.len() <= GROUPS_MAX).then(|| Identity { uid, gids: gids.into_iter().collect(), caps: 0 })
}

/// The keys of clients by their names, all of which are different; an error is whose is not.
pub(super) fn owned(shared: &Keys, clients: &[ClientLine]) -> Result<BTreeMap<u32, OwnedKey>, String> {
    let mut owned = BTreeMap::new();
    for ClientLine { name, key, identity } in clients {
        let key = Key::new(*key);
        let id = key.id();
        let is_new = shared.all().all(|other| other.id() != id);
        if !is_new
            || owned.insert(id, OwnedKey { name: name.as_str().into(), key, identity: identity.clone() }).is_some()
        {
            return Err(name.clone());
        }
    }
    Ok(owned)
}

#[cfg(test)]
mod tests {
    use super::super::{Lines, parse, text};
    use super::*;

    #[test]
    fn keys_of_clients_are_read_as_they_are_written() {
        let identity = Some(Identity { uid: 1_000, gids: [100, 27].into_iter().collect(), caps: 0 });
        let alice = ClientLine { name: "alice".to_owned(), key: [3; KEY_BYTES], identity };
        let all = ClientLine { name: "root_s-2".to_owned(), key: [4; KEY_BYTES], identity: None };
        let text = text(Some(&[7; KEY_BYTES]), None) + &alice.text() + &all.text();
        let key = Some(Some([7; KEY_BYTES]));
        let read = Lines { key, clients: vec![alice.clone(), all.clone()], ..Lines::default() };
        assert_eq!(parse(&text), Ok(read));
        assert!(text.ends_with("04 any\n") && text.contains("03 uid=1000 gid=100,27\n"), "{text}");
        let found = owned(&Keys::one(Key::new([7; KEY_BYTES])), &[alice.clone(), all.clone()]).unwrap();
        let hers = &found[&Key::new([3; KEY_BYTES]).id()];
        assert_eq!((&*hers.name, &hers.identity), ("alice", &alice.identity));
        assert_eq!(found[&Key::new([4; KEY_BYTES]).id()].identity, None);
        for other in [3, 7].map(|byte| ClientLine { key: [byte; KEY_BYTES], ..all.clone() }) {
            let refused = owned(&Keys::one(Key::new([7; KEY_BYTES])), &[alice.clone(), other]);
            assert_eq!(refused, Err("root_s-2".to_owned()), "nobody has a key twice");
        }
        let digits = "03".repeat(KEY_BYTES);
        for (wrong, why) in [
            ("a = 12 any".to_owned(), DIGITS),
            (format!("a = {digits}"), OWNER),
            (format!("a = {digits} all"), OWNER),
            (format!("a = {digits} uid=1"), OWNER),
            (format!("a = {digits} uid=1 gid="), OWNER),
            (format!("a = {digits} uid=-1 gid=1"), OWNER),
            (format!("a = {digits} uid=1 gid=1,x"), OWNER),
            (format!("a = {digits} uid=1 gid={}0", "0,".repeat(GROUPS_MAX)), OWNER),
            (format!("a/b = {digits} any"), NAME),
            (format!(" = {digits} any"), NAME),
            (format!("{} = {digits} any", "a".repeat(65)), NAME),
        ] {
            assert_eq!(parse(&format!("client.{wrong}")), Err((1, why)), "{wrong}");
        }
        let line = alice.text();
        assert_eq!(parse(&format!("{line}{line}")), Err((2, "a second line of this name")));
    }
}
