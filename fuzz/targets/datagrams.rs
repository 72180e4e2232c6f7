//! See [`onpath_fuzz::datagrams`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onpath_fuzz::datagrams(input));
