//! See [`onpath_fuzz::configuration`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onpath_fuzz::configuration(input));
