#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::streams::translated(data));
tollgate_fuzz::mutate!(json);
