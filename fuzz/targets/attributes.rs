//! See [`onpath_fuzz::attributes`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onpath_fuzz::attributes(input));
