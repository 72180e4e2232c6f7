//! The tests of the whole program, each suite a module. `scripts/test` runs each suite in a process of its own
//! (`cargo test -p onpath --test system -- SUITE::`), since some change what a process has only once: its umask, its mounts, its signals.

mod arguments;
mod bad_input;
mod bench;
mod cluster;
mod common;
mod crash;
mod directories;
mod disk_full;
mod docs;
mod ending;
mod foreign_namespace;
mod formats;
mod fsck;
mod health;
mod inode_numbers;
mod inspect;
mod killed;
mod large;
mod layering;
mod messages;
mod metrics;
mod mount_helper;
mod namespaces;
mod package;
mod posix;
mod power_loss;
mod programs;
mod progress;
mod reshape;
mod returned;
mod signals;
mod storms;
mod switch_command;
mod tools;
mod two_mounts;
