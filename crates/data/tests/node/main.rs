//! A data node driven by hand: its disk, journal, home and sessions are played by the tests.

mod bytes;
mod concurrent;
mod counts;
mod cuts;
mod hostile;
mod model;
mod parts;
mod ranges;
mod recovery;
mod world;
