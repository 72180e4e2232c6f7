//! make and cargo: builds whose results are those of the local disk, and which then see what is up to date.

use crate::common::server::Site;
use crate::common::tree::{Times, assert_same, list};
use crate::programs::{installed, sh};
use std::fs;
use std::path::Path;

/// C files of the make project.
const UNITS: usize = 24;

const MAKEFILE: &str = "\
OBJECTS := $(patsubst %.c,%.o,$(sort $(wildcard *.c)))
all: program libunits.a
program: $(OBJECTS)
\t$(CC) -o $@ $^
libunits.a: $(filter-out main.o,$(OBJECTS))
\tar rcD $@ $^
%.o: %.c units.h
\t$(CC) -O1 -Wall -Werror -c -o $@ $<
clean:
\trm -f *.o program libunits.a
";

fn make_c_project(dir: &Path) {
    fs::create_dir(dir).expect("mkdir");
    let file = |name: &str, text: String| fs::write(dir.join(name), text).expect("a source file");
    file("Makefile", MAKEFILE.to_owned());
    let declarations: String = (0..UNITS).map(|n| format!("int unit{n}(int x);\n")).collect();
    file("units.h", declarations);
    for n in 0..UNITS {
        let next = if n + 1 < UNITS { format!("unit{}(x + {n})", n + 1) } else { "x".to_owned() };
        file(
            &format!("unit{n}.c"),
            format!("#include \"units.h\"\nint unit{n}(int x) {{ return {next} * 3 % 10007; }}\n"),
        );
    }
    let main = "#include <stdio.h>\n#include \"units.h\"\nint main(void) { printf(\"%d\\n\", unit0(1)); return 0; }\n";
    file("main.c", main.to_owned());
}

#[test]
fn make() {
    if !installed("make on the mount", &["make", "gcc", "ar"]) {
        return;
    }
    let Some(site) = Site::new("make on the mount") else { return };
    let mount = site.dev(&[]);
    let (local, there) = (site.root().join("project"), mount.path().join("project"));
    for project in [&local, &there] {
        make_c_project(project);
        sh(project, "make -s -j4 CC=gcc", &[]);
    }
    assert_same("make", &list(&local, Times::Ignored), &list(&there, Times::Ignored));
    assert_eq!(sh(&there, "./program", &[]), sh(&local, "./program", &[]));
    let nothing = sh(&there, "make CC=gcc", &[]);
    assert!(nothing.contains("Nothing to be done"), "{nothing}");
    sh(&there, "touch unit3.c", &[]);
    let compiled = sh(&there, "make CC=gcc", &[]).lines().filter(|line| line.contains(" -c ")).count();
    assert_eq!(compiled, 1, "one object is older than its source");
    sh(&there, "touch units.h", &[]);
    let compiled = sh(&there, "make -j4 CC=gcc", &[]).lines().filter(|line| line.contains(" -c ")).count();
    assert_eq!(compiled, UNITS + 1, "all objects are older than the header");
    sh(&there, "make -s clean", &[]);
    mount.stop();
    site.assert_clean("after make");
}

fn make_rust_project(dir: &Path) {
    let file = |name: &str, text: &str| {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("mkdir");
        fs::write(path, text).expect("a source file");
    };
    file("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"sum\", \"tool\"]\n");
    file("sum/Cargo.toml", "[package]\nname = \"sum\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    let generate = "fn main() {\n    let out = std::env::var(\"OUT_DIR\").unwrap();\n    std::fs::write(format!(\"{out}/generated.rs\"), \"pub const START: u64 = 40;\").unwrap();\n    println!(\"cargo:rerun-if-changed=build.rs\");\n}\n";
    file("sum/build.rs", generate);
    let library = "include!(concat!(env!(\"OUT_DIR\"), \"/generated.rs\"));\npub fn sum(numbers: &[u64]) -> u64 {\n    START + numbers.iter().sum::<u64>()\n}\n#[test]\nfn adds() {\n    assert_eq!(sum(&[1, 1]), 42);\n}\n";
    file("sum/src/lib.rs", library);
    let manifest = "[package]\nname = \"tool\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\nsum = { path = \"../sum\" }\n";
    file("tool/Cargo.toml", manifest);
    file("tool/src/main.rs", "fn main() {\n    println!(\"{}\", sum::sum(&[1, 1]));\n}\n");
}

#[test]
fn cargo() {
    let Some(site) = Site::new("cargo on the mount") else { return };
    let mount = site.dev(&[]);
    let project = mount.path().join("project");
    make_rust_project(&project);
    let cargo = Path::new(env!("CARGO"));
    let build = r#""$1" build --offline 2>&1"#;
    let first = sh(&project, build, &[cargo]);
    assert_eq!(first.matches("Compiling").count(), 2, "{first}");
    assert_eq!(sh(&project, "target/debug/tool", &[]), "42\n");
    let second = sh(&project, build, &[cargo]);
    assert_eq!(second.matches("Compiling").count(), 0, "everything is up to date: {second}");
    fs::write(project.join("sum/src/lib.rs"), "pub fn sum(_: &[u64]) -> u64 {\n    43\n}\n").expect("a source file");
    let third = sh(&project, build, &[cargo]);
    assert_eq!(third.matches("Compiling").count(), 2, "a changed library and its user: {third}");
    assert_eq!(sh(&project, "target/debug/tool", &[]), "43\n");
    make_rust_project(&project);
    let tested = sh(&project, r#""$1" test --offline 2>&1"#, &[cargo]);
    assert!(tested.contains("test adds ... ok"), "{tested}");
    sh(&project, r#""$1" clean --offline && test ! -e target"#, &[cargo]);
    mount.stop();
    site.assert_clean("after cargo");
}
