//! See [`onpath_fuzz::dataplane`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onpath_fuzz::dataplane(input));
