//! The C form as a BPF program: clang compiles the headers for that target, and the kernel's verifier takes what it made.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Past libtest, which hides what a test prints that passes.
fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}

/// What a program said, or why it could not be run.
fn run(program: &str, arguments: &[&str]) -> Result<Output, String> {
    Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

/// Compiles the wrapper into this directory; an error is the reason why that cannot be tried.
fn compiled(dir: &Path) -> Result<PathBuf, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let object = dir.join("wrapper.o");
    // clang does not look there for another machine's headers, but those of the kernel are the same.
    let multiarch = run("cc", &["-print-multiarch"])?;
    let headers = format!("-I/usr/include/{}", String::from_utf8_lossy(&multiarch.stdout).trim());
    let include = format!("-I{}", here.join("../c/include").display());
    let source = here.join("tests/bpf/wrapper.c");
    let flags = ["-target", "bpf", "-O2", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror", &headers, &include];
    let files = ["-c", source.to_str().expect("a path"), "-o", object.to_str().expect("a path")];
    let output = run("clang", &[&flags[..], &files[..]].concat())?;
    assert!(output.status.success(), "{}", said(&output));
    Ok(object)
}

#[test]
fn clang_compiles_the_headers_for_bpf() {
    let dir = tempfile::tempdir().expect("a directory");
    match compiled(dir.path()) {
        // An ELF file for machine 247, which is BPF.
        Ok(object) => {
            let bytes = std::fs::read(object).expect("an object file");
            assert_eq!((&bytes[..4], &bytes[18..20]), (&b"\x7fELF"[..], &247_u16.to_le_bytes()[..]));
        }
        Err(why) => skipped("clang_compiles_the_headers_for_bpf", &why),
    }
}

/// The program is loaded in a mount namespace of its own, attached to nothing, and goes with it.
#[test]
fn the_kernel_takes_the_program() {
    const TEST: &str = "the_kernel_takes_the_program";
    /// Of a kernel that lets nobody load any program, or not these people.
    const REFUSALS: [&str; 2] = ["Operation not permitted", "Function not implemented"];
    let dir = tempfile::tempdir().expect("a directory");
    let object = match compiled(dir.path()) {
        Ok(object) => object,
        Err(why) => return skipped(TEST, &why),
    };
    let (object, pins) = (object.to_str().expect("a path"), dir.path().join("pins"));
    let pins = pins.to_str().expect("a path");
    std::fs::create_dir(pins).expect("a directory");
    let script = "PATH=$PATH:/usr/sbin; command -v bpftool || exit 90; mount -t bpf bpf \"$1\" || exit 91; \
                  bpftool prog load \"$0\" \"$1/program\" type xdp";
    let output = match run("unshare", &["--mount", "sh", "-c", script, object, pins]) {
        Ok(output) => output,
        Err(why) => return skipped(TEST, &why),
    };
    let said = said(&output);
    match output.status.code() {
        Some(0) => {}
        Some(90) => skipped(TEST, "no bpftool"),
        code if code == Some(91) || REFUSALS.iter().any(|refusal| said.contains(refusal)) => {
            skipped(TEST, said.lines().last().unwrap_or_default());
        }
        _ => panic!("{said}"),
    }
}
