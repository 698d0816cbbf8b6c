#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::amazon::amazon(data));
tollgate_fuzz::mutate!(json);
