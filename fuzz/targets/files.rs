//! See [`onpath_fuzz::files`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onpath_fuzz::files(input));
