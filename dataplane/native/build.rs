//! Compiles the C form, with the rules that can be removed only if the feature `planted` asks for them.

fn main() {
    let mut build = cc::Build::new();
    build.file("native.c").include("../c/include").std("c11").opt_level(2).flag("-ffreestanding");
    build.flag("-Wall").flag("-Wextra").flag("-Werror");
    if std::env::var_os("CARGO_FEATURE_PLANTED").is_some() {
        build.define("ONPATH_PLANTED", None);
    }
    build.compile("onpath_dataplane_native");
    for source in ["native.c", "cache_state.h", "cache_control.h"] {
        println!("cargo::rerun-if-changed={source}");
    }
    println!("cargo::rerun-if-changed=../c/include");
}
