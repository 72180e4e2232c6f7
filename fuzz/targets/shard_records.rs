//! See [`onpath_fuzz::shard_records`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onpath_fuzz::shard_records(input));
