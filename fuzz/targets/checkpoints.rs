//! See [`onpath_fuzz::checkpoints`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onpath_fuzz::checkpoints(input));
