//! The cost model: the simulator's roles on virtual time in which nothing fails and everything takes its time (docs/internals/cost-model.md).
//!
//! Servers have cores with a run queue; each input of a role, each record and each message costs virtual CPU
//! ([`Calibration`]), links and flushes take their time. Clients are a closed loop or a stream of random arrivals. The
//! roles are the real ones, so what is sent to whom, what waits for what and what is applied in one go is not modelled
//! but happens.

pub mod calibrate;
mod calibration;
mod clients;
mod config;
mod fit;
mod free_only;
mod hot;
pub mod label;
mod looks;
mod meter;
mod model;
mod names;
mod passes;
mod places;
mod result;
mod server;
mod sessions;
mod steps;
mod tree;
mod users;
mod walkers;
mod work;

pub use calibration::{Calibration, Line};
pub use clients::{Answered, Clients, Cluster};
pub use config::{Cache, Load, ModelConfig, PathNodes, Table, Tracking};
pub use hot::Requests;
pub use looks::{FallBack, Follow, Looks, Shares};
pub use meter::{Clock, Meter};
pub use model::{Model, RECIRCULATED, Until};
pub use names::{HOT_IN, NamesShape, Order};
pub use onpath_path::IndexKind;
pub use onpath_switch::Locks;
pub use result::{Latencies, Measured};
pub use tree::{Branch, TreeShape};
pub use users::{Accesses, FilesShape};
pub use work::{Ask, Creates, File, Kind, MakeDirs, Mix, Place, Touches, Work};
