//! See [`onpath_fuzz::command_line`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onpath_fuzz::command_line(input));
