//! See [`onpath_fuzz::proc`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onpath_fuzz::proc(input));
