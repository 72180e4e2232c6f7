//! The client session: routing, handles, retries. Layer L2.

pub mod fs;
