//! See [`onpath_fuzz::frames`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onpath_fuzz::frames(input));
