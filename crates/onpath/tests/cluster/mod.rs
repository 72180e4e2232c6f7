//! Clusters of processes on hosts of their own (network namespaces), which talk UDP.

mod cache;
mod clients;
mod covered;
mod failures;
mod forged;
mod forms;
mod hostile;
mod kept;
mod keys;
mod load;
mod lost;
mod names;
mod narrow;
mod owned;
mod past;
mod paths;
mod powers;
mod readme;
mod registers;
mod restarts;
mod secrets;
mod status;
mod strangers;
mod switches;
mod together;
mod writes;
