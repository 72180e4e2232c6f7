//! The headers for C and P4 are what the layout in `onpath_wire::innet` gives, and the one for C compiles.

#[path = "../examples/headers/text.rs"]
mod text;

use std::path::Path;
use std::process::Command;

fn dataplane() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn headers_are_what_the_layout_gives() {
    for (path, text) in text::files() {
        let found = std::fs::read_to_string(dataplane().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(found, text, "{path}: run `cargo run -p onpath-dataplane --example headers`");
    }
}

/// Its assertions are those of the compiler: every field lies where it should.
#[test]
fn the_header_for_c_compiles() {
    let header = dataplane().join("c/include/common/innet.h");
    let flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c"];
    match Command::new("cc").args(flags).arg(&header).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => onpath_testing::skipped("the_header_for_c_compiles", &format!("cc: {error}")),
    }
}
