//! The kernel under every role: straight-line `async fn` operations on virtual or real time.
//!
//! Layer L1. A role is a value ([`Role`]): inputs go in, outputs come out, nothing inside touches a clock, a
//! socket, a file, a thread or a random device. Inside, operations are plain `async fn`s whose only
//! awaitables are those of [`Cx`]: `lock_all`, `until` (grants), `call`, `sleep_until` (design.md, "Roles and operations").

mod calls;
mod cx;
pub mod gate;
mod gauge;
mod locks;
mod meter;
mod planted;
mod role;
mod run;
mod timers;

pub use calls::{Answer, Answers};
pub use cx::{Core, Cx, OpId, Protocol};
pub use gauge::Gauge;
pub use locks::{Key, Keys, Mode};
pub use meter::Meter;
pub use role::{Input, Need, Now, Output, Role};
pub use run::Kernel;
