#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::requests::body(data));
tollgate_fuzz::mutate!(json);
