#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::edge::config(data));
tollgate_fuzz::mutate!(lines);
