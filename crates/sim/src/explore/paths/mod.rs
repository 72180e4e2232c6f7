//! Situations of paths: path nodes, ways that sessions keep, and those who change what is on them. What everybody saw is judged as one history.

mod beginnings;
mod history;
mod hot;
mod scene;
mod situations;
mod walk;
mod walkers;

pub(super) use hot::OF_HOT;
pub(super) use scene::Scene;
pub(super) use situations::OF_PATHS;
pub(super) use walkers::Walkers;
