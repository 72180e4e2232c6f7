# `just` without arguments lists what there is.

_default:
    @just --list --unsorted

# What a release needs, built
build:
    cargo build --locked --release -p onpath

# Everything that continuous integration runs
test *ARGS:
    scripts/test {{ ARGS }}

# What one runs while working: formatting, lints, unit tests, the semantic suite, a thousand seeds, teeth
quick:
    scripts/test --quick

# All shapes of file systems and all seeds, an hour and more
full:
    scripts/test --full

# Formatting and lints
lint:
    cargo fmt --all --check
    cargo fmt --manifest-path fuzz/Cargo.toml --check
    cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
    cargo clippy --locked -p onpath --test system --all-features -- -D warnings
    cargo clippy --locked --manifest-path fuzz/Cargo.toml --target-dir target --all-targets -- -D warnings

# Formats everything
fmt:
    cargo fmt --all
    cargo fmt --manifest-path fuzz/Cargo.toml

# The full number of checked pairs on two mounts, and of full disks
size:
    ONPATH_TEST_MINUTES=600 ONPATH_PAIRS=100000 cargo test --locked --release -p onpath --test system -- two_mounts::
    ONPATH_TEST_MINUTES=600 ONPATH_PAIRS=100000 cargo test --locked --release -p onpath --test system -- remote::paths::
    ONPATH_TEST_MINUTES=600 ONPATH_FULL_ROUNDS=20 cargo test --locked --release -p onpath --test system -- disk_full::

# A tree of ten million files in 512 MiB of memory
large:
    ONPATH_TEST_MINUTES=600 ONPATH_LARGE_FILES=10000000 ONPATH_LARGE_MEMORY=536870912 cargo test --locked --release -p onpath --test system -- large:: --nocapture

# kill -9 under load, all rounds
crash:
    ONPATH_TEST_MINUTES=600 ONPATH_SEED=$$ ONPATH_CRASH_ROUNDS=50 cargo test --locked --release -p onpath --test system -- crash::

# Hosts, switch and clients of clusters fail under load, at random for so many seconds a test
soak-cluster SECONDS="600":
    ONPATH_TEST_MINUTES=600 ONPATH_SEED=$$ ONPATH_FAILURE_SECONDS={{ SECONDS }} cargo test --locked --release -p onpath --test system -- cluster::failures:: --nocapture --test-threads 1

# Random trees from four mounts, PostgreSQL through many kills, all of /usr, dbench for a minute, a build of this project, each at length
tried:
    ONPATH_TEST_MINUTES=600 ONPATH_SEED=$$ ONPATH_STORM_OPERATIONS=50000 cargo test --locked --release -p onpath --test system -- storms::
    ONPATH_TEST_MINUTES=600 ONPATH_DATABASE_ROUNDS=30 ONPATH_SYSTEM_TREE=/usr ONPATH_DBENCH_SECONDS=60 ONPATH_OWN_PACKAGE=onpath ONPATH_SCRIPT_SECONDS=3600 cargo test --locked --release -p onpath --test system -- programs::system:: programs::postgres::

# The reference model of the simulator against the kernel's own file system, ten times as many operations as the tests
model:
    ONPATH_MODEL_OPERATIONS=10000000 cargo test --locked --release -p onpath-sim --test simulator -- model_matches_kernel::

# The in-network program in C against the one in Rust, on a thousand million random packets from SEED on
differential SEED="1":
    ONPATH_DIFFERENTIAL_PACKETS=1000000000 ONPATH_DIFFERENTIAL_SEED={{ SEED }} cargo test --locked --release -p onpath-dataplane-native --test differential

# Random inputs for each parser of what comes from outside, guided by what they reach, for so many seconds each
fuzz SECONDS="5":
    scripts/fuzz {{ SECONDS }}

# The same with so many inputs each
fuzz-long INPUTS="10000000":
    scripts/fuzz --inputs {{ INPUTS }}

# The simulator on many seeds, from FIRST on, each twice; the commands of failing ones are appended to target/failing-seeds
soak FIRST="1" COUNT="1000" JOBS="2":
    cargo run --locked --release -p onpath -- sim --seed {{ FIRST }} --seeds {{ COUNT }} --twice --jobs {{ JOBS }} --failures target/failing-seeds --json

# The table of docs/internals/teeth.md: how many seeds, from STARTS starts, or schedules it takes until a checker notices a removed rule
teeth STARTS="5":
    ONPATH_TEETH_STARTS={{ STARTS }} cargo test --locked --release -p onpath-sim --features planted --test simulator -- teeth::a_checker_notices --nocapture | grep '^|'

# The tables of docs/benchmarks.md: the mount against the bare floor, in fresh directories of /var/tmp
bench *ARGS:
    scripts/bench {{ ARGS }}
