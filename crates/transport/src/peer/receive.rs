//! What arrives: checked wholly, then taken.

use super::{Delivered, Peer};
use crate::error::ReceiveError;
use crate::head::{CHECK_AT, HEAD_BYTES, Head, peek};
use crate::part::{Part, Parts};
use crate::window::Seen;
use bytes::Bytes;
use onpath_wire::Packet;
use onpath_wire::checksum::crc32c;
use onpath_wire::ids::NodeId;

impl Peer {
    /// Takes a datagram, which is opened in place, and appends what it delivers.
    ///
    /// # Errors
    /// It is dropped without any effect but a count.
    pub fn receive(
        &mut self,
        now_us: u64,
        datagram: &mut [u8],
        delivered: &mut Vec<Delivered>,
    ) -> Result<(), ReceiveError> {
        let head = peek(datagram).inspect_err(|error| self.counters.drop_of(error))?;
        self.receive_as(now_us, &head, datagram, delivered)
    }

    /// The same for a datagram whose header was looked at already.
    ///
    /// # Errors
    /// It is dropped without any effect but a count.
    pub fn receive_as(
        &mut self,
        now_us: u64,
        head: &Head,
        datagram: &mut [u8],
        delivered: &mut Vec<Delivered>,
    ) -> Result<(), ReceiveError> {
        let bytes = datagram.len() as u64;
        let result = self.take(now_us, head, datagram, delivered);
        match &result {
            Ok(()) => {
                self.counters.datagrams_received += 1;
                self.counters.bytes_received += bytes;
            }
            Err(error) => self.counters.drop_of(error),
        }
        result
    }

    fn take(
        &mut self,
        now_us: u64,
        head: &Head,
        datagram: &mut [u8],
        delivered: &mut Vec<Delivered>,
    ) -> Result<(), ReceiveError> {
        self.check_head(head)?;
        let parts = self.verify(head, datagram)?;
        let mut all = Parts::new(parts);
        // Most datagrams are one message; of others every part is looked at before any has an effect.
        let alone = match all.next().transpose()? {
            Some(Part::Message { to, head, bulk }) if all.is_over() => Some((to, head, bulk)),
            _ => {
                self.check_parts(parts)?;
                None
            }
        };
        self.window.insert(head.number);
        self.losses.came(head.number, head.twice());
        match alone {
            Some(message) => self.deliver(message, delivered),
            None => self.apply(now_us, head, parts, delivered),
        }
        Ok(())
    }

    fn check_head(&mut self, head: &Head) -> Result<(), ReceiveError> {
        if head.cluster != self.config.cluster {
            return Err(ReceiveError::Cluster(head.cluster));
        }
        if head.endpoint != self.peer {
            return Err(ReceiveError::Endpoint(head.endpoint.0));
        }
        match (head.sealed(), self.config.key.is_some()) {
            (true, false) => return Err(ReceiveError::Sealed),
            (false, true) => return Err(ReceiveError::NotSealed),
            _ => {}
        }
        if head.handshake() {
            return Err(ReceiveError::Head("handshake flag"));
        }
        if head.to_boot != self.config.boot {
            return Err(ReceiveError::StaleBoot { to_boot: head.to_boot });
        }
        if self.boot != Some(head.boot) {
            return Err(ReceiveError::ForeignBoot { boot: head.boot });
        }
        match self.window.seen(head.number) {
            Seen::New => Ok(()),
            Seen::Before => {
                self.losses.came_again(head.number);
                Err(ReceiveError::Duplicate)
            }
            Seen::Unknown => Err(ReceiveError::Old),
        }
    }

    /// The parts, if the datagram is as it was sent.
    fn verify<'a>(&self, head: &Head, datagram: &'a mut [u8]) -> Result<&'a [u8], ReceiveError> {
        if let Some(seal) = &self.open {
            return seal.open(head.number, datagram).ok_or(ReceiveError::Forged);
        }
        datagram[CHECK_AT..CHECK_AT + 4].fill(0);
        let parts = &datagram[HEAD_BYTES..];
        if crc32c(datagram) == head.check { Ok(parts) } else { Err(ReceiveError::Checksum) }
    }

    /// Looks at every part before any of them has an effect.
    fn check_parts(&self, parts: &[u8]) -> Result<(), ReceiveError> {
        let mut fragments = 0;
        for part in Parts::new(parts) {
            match part? {
                Part::Fragment(fragment) => {
                    fragments += 1;
                    if fragments > 1 {
                        return Err(ReceiveError::Part("second fragment"));
                    }
                    self.reassembly.check(&fragment)?;
                }
                Part::Message { .. } | Part::Ack(_) => {}
            }
        }
        Ok(())
    }

    fn deliver(&mut self, (to, head, bulk): (NodeId, &[u8], &[u8]), delivered: &mut Vec<Delivered>) {
        let bulk = if bulk.is_empty() { Bytes::new() } else { Bytes::copy_from_slice(bulk) };
        delivered.push((to, Packet::encoded(head.to_vec(), bulk)));
        self.counters.messages_delivered += 1;
    }

    fn apply(&mut self, now_us: u64, head: &Head, parts: &[u8], delivered: &mut Vec<Delivered>) {
        let mut acknowledged = false;
        for part in Parts::new(parts).map_while(Result::ok) {
            match part {
                Part::Message { to, head, bulk } => self.deliver((to, head, bulk), delivered),
                Part::Fragment(fragment) => {
                    let complete = self.reassembly.take(now_us, head.number, &fragment, &mut self.counters);
                    if let Some(packet) = complete {
                        delivered.push((fragment.shape.to, packet));
                        self.counters.messages_delivered += 1;
                        self.counters.fragmented_delivered += 1;
                    }
                }
                Part::Ack(ack) => {
                    let (congestion, counters) = (&mut self.congestion, &mut self.counters);
                    self.outgoing.acknowledge(now_us, &ack, self.number, (congestion, counters));
                    acknowledged = true;
                }
            }
        }
        if acknowledged {
            self.outgoing.find_lost(now_us, &mut self.congestion);
        }
    }
}
