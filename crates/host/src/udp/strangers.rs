//! What a process does for whom it does not know.
//!
//! Whoever asks without the present *challenge* gets that first: it costs a hash, is no longer than the question, and nothing is
//! remembered. It is good for one endpoint, boot and address, for some seconds, and until another boot of that endpoint is adopted: so
//! whoever repeats it is where he says, a recorded question is none a moment later, and a boot that was replaced never comes back.
//! Then budgets bound what one address may cause, so that nobody uses up what others need.

use onpath_transport::Head;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;

/// A challenge is good for this time, and at most as long again, microseconds.
const GOOD_FOR_US: u64 = 8_000_000;
/// Places for budgets; addresses whose keyed hashes are alike share one.
const PLACES: usize = 1_024;

/// The challenges of one life of a process.
pub(super) struct Challenges {
    key: [u8; 16],
}

impl Challenges {
    /// `key` is drawn at each start.
    pub(super) fn new(key: [u8; 16]) -> Challenges {
        Challenges { key }
    }

    fn of(&self, head: &Head, from: SocketAddr, era: u32, time: u64) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write_u32(head.endpoint.0);
        hasher.write_u64(head.boot);
        match from.ip().to_canonical() {
            IpAddr::V4(ip) => hasher.write_u128(ip.to_bits().into()),
            IpAddr::V6(ip) => hasher.write_u128(ip.to_bits()),
        }
        hasher.write_u16(from.port());
        hasher.write_u32(era);
        hasher.write_u64(time);
        hasher.finish().max(1)
    }

    /// What the sender of a datagram with this header has to repeat; `era`: how many boots of that endpoint were adopted.
    pub(super) fn make(&self, head: &Head, from: SocketAddr, era: u32, now_us: u64) -> u64 {
        self.of(head, from, era, now_us / GOOD_FOR_US)
    }

    /// Whether a question with this header repeats it.
    pub(super) fn is_met(&self, head: &Head, from: SocketAddr, era: u32, now_us: u64) -> bool {
        let time = now_us / GOOD_FOR_US;
        [time, time.saturating_sub(1)].iter().any(|&time| self.of(head, from, era, time) == head.to_boot)
    }
}

/// What an address may cause in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Budget {
    /// Challenges.
    Challenges,
    /// Questions and answers that are opened, which costs the derivation of a key.
    Opened,
    /// Of these, such as did not open: of who has not the key.
    Forged,
    /// Answers to who is no peer.
    Answers,
}

impl Budget {
    const COUNT: usize = 4;

    fn per_second(self) -> u16 {
        match self {
            Budget::Challenges | Budget::Opened => 2_000,
            Budget::Forged => 50,
            Budget::Answers => 1_000,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Place {
    second: u64,
    taken: [u16; Budget::COUNT],
}

/// The budgets of all addresses, in bounded memory.
pub(super) struct Budgets {
    key: [u8; 16],
    places: Mutex<Vec<Place>>,
}

impl Budgets {
    /// `key` is drawn at each start, so that nobody knows who shares a place with whom.
    pub(super) fn new(key: [u8; 16]) -> Budgets {
        Budgets { key, places: Mutex::new(vec![Place::default(); PLACES]) }
    }

    /// An IPv4 address, or the network of an IPv6 one: its owner has all of that.
    fn place_of(&self, from: IpAddr) -> usize {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        match from.to_canonical() {
            IpAddr::V4(ip) => hasher.write_u32(ip.to_bits()),
            IpAddr::V6(ip) => hasher.write_u64((ip.to_bits() >> 64) as u64),
        }
        hasher.finish() as usize % PLACES
    }

    fn with<T>(&self, from: IpAddr, now_us: u64, act: impl FnOnce(&mut [u16; Budget::COUNT]) -> T) -> T {
        let second = now_us / 1_000_000;
        let place = &mut self.places.lock().expect("budgets do not panic")[self.place_of(from)];
        if place.second != second {
            *place = Place { second, ..Place::default() };
        }
        act(&mut place.taken)
    }

    /// Takes one of a budget; false if nothing of it is left.
    pub(super) fn take(&self, from: IpAddr, budget: Budget, now_us: u64) -> bool {
        self.with(from, now_us, |taken| {
            let taken = &mut taken[budget as usize];
            let left = *taken < budget.per_second();
            *taken += u16::from(left);
            left
        })
    }

    /// Whether something of a budget is left.
    pub(super) fn has(&self, from: IpAddr, budget: Budget, now_us: u64) -> bool {
        self.with(from, now_us, |taken| taken[budget as usize] < budget.per_second())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_transport::EndpointId;

    fn head(endpoint: u32, boot: u64, to_boot: u64) -> Head {
        let (endpoint, number) = (EndpointId(endpoint), 1);
        Head { flags: 0, cluster: 1, endpoint, check: 0, number, boot, to_boot, length: 44 }
    }

    #[test]
    fn a_challenge_is_good_for_one_sender_place_and_time() {
        let challenges = Challenges::new([7; 16]);
        let from: SocketAddr = "10.0.0.1:5000".parse().unwrap();
        let now = 20 * GOOD_FOR_US;
        let challenge = challenges.make(&head(5, 9, 0), from, 3, now);
        let is_met = |endpoint, boot, from: &str, era, now| {
            challenges.is_met(&head(endpoint, boot, challenge), from.parse().unwrap(), era, now)
        };
        assert!(is_met(5, 9, "10.0.0.1:5000", 3, now + GOOD_FOR_US));
        assert!(is_met(5, 9, "[::ffff:10.0.0.1]:5000", 3, now), "the same place, as another socket sees it");
        assert!(!is_met(6, 9, "10.0.0.1:5000", 3, now), "another endpoint");
        assert!(!is_met(5, 8, "10.0.0.1:5000", 3, now), "another boot");
        assert!(!is_met(5, 9, "10.0.0.1:5001", 3, now) && !is_met(5, 9, "10.0.0.2:5000", 3, now), "another place");
        assert!(!is_met(5, 9, "10.0.0.1:5000", 4, now), "another boot was adopted since then");
        assert!(!is_met(5, 9, "10.0.0.1:5000", 3, now + 2 * GOOD_FOR_US), "it is old");
        let other = Challenges::new([8; 16]);
        assert!(!other.is_met(&head(5, 9, challenge), from, 3, now), "another life of the process");
    }

    #[test]
    fn nobody_uses_up_what_others_need() {
        let budgets = Budgets::new([1; 16]);
        let [greedy, other]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().unwrap());
        assert_ne!(budgets.place_of(greedy), budgets.place_of(other));
        let all = (0..10_000).filter(|_| budgets.take(greedy, Budget::Forged, 5_000_000)).count();
        assert_eq!(all, usize::from(Budget::Forged.per_second()));
        assert!(!budgets.has(greedy, Budget::Forged, 5_999_999) && budgets.has(greedy, Budget::Forged, 6_000_000));
        assert!(budgets.take(greedy, Budget::Opened, 5_000_000), "each budget is one of its own");
        assert!(budgets.take(other, Budget::Forged, 5_000_000));
        // All of a network of IPv6 have one, since its owner may take any address of it.
        let [one, next, far]: [IpAddr; 3] = ["fd00::1", "fd00::2", "fd00:1::1"].map(|ip| ip.parse().unwrap());
        assert_eq!(budgets.place_of(one), budgets.place_of(next));
        assert_ne!(budgets.place_of(one), budgets.place_of(far));
    }
}
