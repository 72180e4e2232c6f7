//! Inputs cut into numbers and strings of bytes. Where an input ends, zeros and nothing follow.

/// What is left of an input.
pub(crate) struct Cut<'a>(pub(crate) &'a [u8]);

impl<'a> Cut<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.bytes(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    pub(crate) fn byte(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    pub(crate) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// Bytes behind their length, which has two bytes.
    pub(crate) fn string(&mut self) -> &'a [u8] {
        let length = u16::from_le_bytes(self.array());
        self.bytes(length.into())
    }
}
