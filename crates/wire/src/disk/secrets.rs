//! The secrets of a superblock, as they are ([`crate::secrets`]); a secret of zeros does not load.

use super::Stored;
use crate::codec::{Reader, WireError};
use crate::secrets::{Inner, Placement};

macro_rules! as_they_are {
    ($($secret:ty),*) => {$(
        impl Stored for $secret {
            fn store(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.reveal());
            }
            fn load(r: &mut Reader<'_>) -> Result<Self, WireError> {
                <$secret>::read(r)
            }
        }
    )*};
}
as_they_are!(Inner, Placement);
