//! What arrives: checked wholly, then taken.

use super::{Delivered, Peer, Seals};
use crate::error::ReceiveError;
use crate::head::{CHECK_AT, HEAD_BYTES, Head, peek};
use crate::part::{Part, Parts};
use crate::window::Seen;
use bytes::Bytes;
use onpath_wire::Packet;
use onpath_wire::checksum::crc32c;
use smallvec::SmallVec;

/// The parts of a datagram, of which each was looked at: mostly one.
type Checked<'a> = SmallVec<[Part<'a>; 1]>;

/// The parts of a datagram that nothing seals, if it is as it was sent.
fn unsealed<'a>(head: &Head, datagram: &'a mut [u8]) -> Result<&'a [u8], ReceiveError> {
    datagram[CHECK_AT..CHECK_AT + 4].fill(0);
    if crc32c(datagram) == head.check { Ok(&datagram[HEAD_BYTES..]) } else { Err(ReceiveError::Checksum) }
}

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
        let parts = self.check(head, datagram).inspect_err(|error| self.counters.drop_of(error))?;
        self.window.insert(head.number);
        self.losses.came(head.number, head.twice());
        self.apply(now_us, head, parts, delivered);
        self.counters.datagrams_received += 1;
        self.counters.bytes_received += bytes;
        Ok(())
    }

    /// The message of a datagram that was made for this peer ([`Peer::single`]), and that has come back; nothing if it is not as it was sent.
    pub fn open_own(&mut self, head: &Head, datagram: &mut [u8]) -> Option<Packet> {
        self.renew_seals();
        let parts = match &self.seals {
            Some(Seals { send: (id, seal), .. }) if head.sealed() && *id == head.check => {
                seal.open(head.number, datagram)?
            }
            Some(_) => return None,
            None => unsealed(head, datagram).ok()?,
        };
        match Parts::new(parts).next()?.ok()? {
            Part::Message { head, bulk, .. } => Some(Packet::encoded(head.to_vec(), Bytes::copy_from_slice(bulk))),
            _ => None,
        }
    }

    /// The parts of a datagram that is as it was sent, makes sense and has not come before.
    fn check<'a>(&mut self, head: &Head, datagram: &'a mut [u8]) -> Result<Checked<'a>, ReceiveError> {
        self.check_head(head)?;
        let parts = self.verify(head, datagram)?;
        self.check_parts(parts)
    }

    fn check_head(&mut self, head: &Head) -> Result<(), ReceiveError> {
        if head.cluster != self.config.cluster {
            return Err(ReceiveError::Cluster(head.cluster));
        }
        if head.endpoint != self.peer {
            return Err(ReceiveError::Endpoint(head.endpoint.0));
        }
        match (head.sealed(), self.config.keyring.seals()) {
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
    fn verify<'a>(&mut self, head: &Head, datagram: &'a mut [u8]) -> Result<&'a [u8], ReceiveError> {
        self.renew_seals();
        if let Some(Seals { open, .. }) = &self.seals {
            let (_, seal) = open.iter().find(|(id, _)| *id == head.check).ok_or(ReceiveError::OtherKey)?;
            return seal.open(head.number, datagram).ok_or(ReceiveError::Forged);
        }
        unsealed(head, datagram)
    }

    /// Looks at every part before any of them has an effect.
    fn check_parts<'a>(&self, parts: &'a [u8]) -> Result<Checked<'a>, ReceiveError> {
        let (mut checked, mut fragments) = (Checked::new(), 0);
        for part in Parts::new(parts) {
            let part = part?;
            if let Part::Fragment(fragment) = &part {
                fragments += 1;
                if fragments > 1 {
                    return Err(ReceiveError::Part("second fragment"));
                }
                self.reassembly.check(fragment)?;
            }
            checked.push(part);
        }
        Ok(checked)
    }

    fn apply(&mut self, now_us: u64, head: &Head, parts: Checked<'_>, delivered: &mut Vec<Delivered>) {
        let mut acknowledged = false;
        for part in parts {
            match part {
                Part::Message { to, head, bulk } => {
                    let bulk = if bulk.is_empty() { Bytes::new() } else { Bytes::copy_from_slice(bulk) };
                    delivered.push((to, Packet::encoded(head.to_vec(), bulk)));
                    self.counters.messages_delivered += 1;
                }
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
