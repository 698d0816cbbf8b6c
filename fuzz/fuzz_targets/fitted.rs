#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tollgate_fuzz::fitted::fitted(data));
tollgate_fuzz::mutate!(json);
