//! See [`onpath_fuzz::segments`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onpath_fuzz::segments(input));
