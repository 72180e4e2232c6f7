//! See [`onpath_fuzz::messages`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onpath_fuzz::messages(input));
