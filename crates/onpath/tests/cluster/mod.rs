//! Clusters of processes on hosts of their own (network namespaces), which talk UDP.

mod clients;
mod covered;
mod failures;
mod forms;
mod kept;
mod load;
mod lost;
mod names;
mod narrow;
mod past;
mod powers;
mod readme;
mod registers;
mod restarts;
mod status;
mod switches;
mod together;
