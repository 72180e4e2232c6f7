//! See [`onpath_fuzz::records`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onpath_fuzz::records(input));
