//! An exchange by X25519 (RFC 7748) between two starts of two processes, whose result is part of the keys of their datagrams: who has recorded
//! these and learns the cluster's key later, when one of the two processes is over, cannot read them.
//!
//! Each start draws its half once and tells the public part in its handshakes, so that a repeated handshake has the same result.

use crate::seal::hidden;
use std::fmt;
use x25519_dalek::{PublicKey, StaticSecret};

/// The half of one start of a process.
#[derive(Clone)]
pub struct Exchange {
    secret: StaticSecret,
    public: [u8; 32],
}

hidden! {
    /// What two starts have agreed.
    Agreed
}

impl Agreed {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exchange(…)")
    }
}

impl Exchange {
    /// The half that is made of 32 random bytes.
    pub fn new(bytes: [u8; 32]) -> Exchange {
        let secret = StaticSecret::from(bytes);
        let public = PublicKey::from(&secret).to_bytes();
        Exchange { secret, public }
    }

    /// What the other process is told.
    pub fn public(&self) -> [u8; 32] {
        self.public
    }

    /// What is agreed with the start of another process that has told this; nothing if that leaves no secret, which no honest one tells.
    pub fn agree(&self, public: [u8; 32]) -> Option<Agreed> {
        let shared = self.secret.diffie_hellman(&PublicKey::from(public));
        shared.was_contributory().then(|| Agreed::new(shared.to_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_agree_and_nobody_else() {
        let [a, b, c] = [1, 2, 3].map(|byte| Exchange::new([byte; 32]));
        assert_eq!(a.agree(b.public()), b.agree(a.public()));
        assert_ne!(a.agree(b.public()), a.agree(c.public()));
        assert!(a.agree(b.public()).is_some());
        assert_eq!(a.agree([0; 32]), None, "a public part that leaves no secret");
        assert_eq!(format!("{a:?} {:?}", a.agree(b.public())), "Exchange(…) Some(Agreed(…))");
    }
}
