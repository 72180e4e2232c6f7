//! Files whose writes data nodes answer (VISIBILITY, V-n): who has a file's merge part, and what its home learns later.

pub(crate) mod holders;
pub(crate) mod learn;
pub(crate) mod many;
pub(crate) mod policy;
pub(crate) mod table;
