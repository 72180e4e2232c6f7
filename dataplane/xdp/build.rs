//! Compiles the program with clang, where there is one, for the library to carry it. A build without clang carries none and says so when it is asked for it.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names it"));
    let object = out.join("xdp.o");
    for source in ["xdp.c", "maps.h", "cache.h", "frame.h", "innet_of_frame.h", "command.h", "../c/include"] {
        println!("cargo::rerun-if-changed={source}");
    }
    println!("cargo::rerun-if-env-changed=ONPATH_CLANG");
    println!("cargo::rustc-check-cfg=cfg(no_program)");
    let clang = std::env::var_os("ONPATH_CLANG").unwrap_or("clang".into());
    if Command::new(&clang).arg("--version").output().is_ok_and(|output| output.status.success()) {
        compile(&clang, &object);
    } else {
        // A file that is never there: the next build looks for clang again.
        println!("cargo::rerun-if-changed={}", out.join("clang").display());
        println!("cargo::rustc-cfg=no_program");
    }
}

fn compile(clang: &std::ffi::OsStr, object: &Path) {
    let flags = ["-target", "bpf", "-O2", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I../c/include"];
    let mut command = Command::new(clang);
    command.args(flags).args(["-c", "xdp.c", "-o"]).arg(object);
    // clang does not look there for another machine's headers, but those of the kernel are the same.
    let multiarch = Command::new("cc").arg("-print-multiarch").output().map(|output| output.stdout).unwrap_or_default();
    command.arg(format!("-I/usr/include/{}", String::from_utf8_lossy(&multiarch).trim()));
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
