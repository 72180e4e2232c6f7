//! See [`onpath_fuzz::told`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onpath_fuzz::told(input));
