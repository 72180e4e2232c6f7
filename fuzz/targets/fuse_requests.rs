//! See [`onpath_fuzz::fuse_requests`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onpath_fuzz::fuse_requests(input));
