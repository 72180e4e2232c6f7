//! Writes the header's layout for C and P4: `cargo run -p onpath-dataplane --example headers`.
//!
//! `tests/headers.rs` fails if the files are not what this gives.

mod text;

fn main() -> std::io::Result<()> {
    let dataplane = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (path, text) in text::files() {
        let path = dataplane.join(path);
        std::fs::create_dir_all(path.parent().expect("a file is in a directory"))?;
        std::fs::write(path, text)?;
    }
    Ok(())
}
