//! See [`onpath_fuzz::handshakes`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onpath_fuzz::handshakes(input));
