//! See [`onpath_fuzz::batches`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onpath_fuzz::batches(input));
