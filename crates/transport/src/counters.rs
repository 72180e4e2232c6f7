//! What was counted towards one peer.

use crate::error::ReceiveError;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts since the [`crate::Peer`] was made.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
            /// Datagrams dropped, in the order of [`ReceiveError::NAMES`].
            pub dropped: [u64; ReceiveError::NAMES.len()],
        }

        impl Counters {
            /// All counters by name.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                let own = [$((stringify!($name), self.$name)),*];
                own.into_iter().chain(ReceiveError::NAMES.iter().copied().zip(self.dropped))
            }

            /// Adds those of another peer.
            pub fn add(&mut self, other: &Counters) {
                $(self.$name += other.$name;)*
                self.dropped.iter_mut().zip(other.dropped).for_each(|(sum, count)| *sum += count);
            }
        }
    };
}

counters! {
    /// Datagrams made.
    datagrams_sent,
    /// Of these, second copies of what nobody acknowledges.
    datagrams_doubled,
    /// Bytes of all.
    bytes_sent,
    /// Messages sent whole in one datagram.
    messages_sent,
    /// Messages that all fragments of were acknowledged.
    fragmented_acknowledged,
    /// Fragments sent, those sent again included.
    fragments_sent,
    /// Fragments sent again.
    fragments_resent,
    /// Acknowledgements sent.
    acks_sent,
    /// Retransmission timers that ran out.
    timeouts,
    /// Messages refused because too much waited.
    messages_refused,
    /// Messages dropped after their bound of time, without an acknowledgement.
    messages_given_up,
    /// Fragmented messages dropped because the peer has started anew.
    messages_of_old_boot,
    /// How often the way there turned out to take longer or only shorter datagrams than before.
    paths_changed,
    /// Datagrams taken.
    datagrams_received,
    /// Their bytes.
    bytes_received,
    /// Messages delivered.
    messages_delivered,
    /// Of these, messages that came in fragments.
    fragmented_delivered,
    /// Fragments that had come before, or whose message was complete.
    fragments_again,
    /// Fragments of messages so old that it is forgotten whether they were complete.
    fragments_forgotten,
    /// Acknowledgements of nothing that is under way.
    acks_of_nothing,
    /// Incomplete messages given up for newer ones, or because nothing more came.
    incoming_given_up,
    /// Fragments of messages for which other peers had left no room.
    fragments_without_room,
}

impl Counters {
    /// Counts a dropped datagram.
    pub fn drop_of(&mut self, error: &ReceiveError) {
        self.dropped[error.index()] += 1;
    }

    /// How many datagrams were dropped for a reason of this kind.
    pub fn dropped_as(&self, error: &ReceiveError) -> u64 {
        self.dropped[error.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_counter_has_one_name() {
        let mut counters = Counters { datagrams_sent: 3, ..Counters::default() };
        counters.drop_of(&ReceiveError::Conflict);
        counters.drop_of(&ReceiveError::Part("x"));
        counters.drop_of(&ReceiveError::Part("y"));
        let mut twice = counters.clone();
        twice.add(&counters);
        let names: BTreeSet<&str> = twice.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), twice.iter().count());
        let counted: Vec<(&str, u64)> = twice.iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [("datagrams_sent", 6), ("dropped_part", 4), ("dropped_conflict", 2)]);
        assert_eq!(twice.dropped_as(&ReceiveError::Part("")), 4);
    }
}
