//! See [`onpath_fuzz::data_records`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onpath_fuzz::data_records(input));
