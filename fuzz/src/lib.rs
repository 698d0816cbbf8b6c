//! What each fuzz target checks.
//!
//! `fuzz_targets/` hands the fuzzer's inputs to these functions. `tests/fuzzing.rs` of the
//! gateway hands them the committed inputs, so that `cargo test` repeats every crash that a
//! fuzzer found.

#[path = "../../crates/translate/tests/answers/strict/mod.rs"]
mod strict;
#[expect(dead_code, reason = "what the tests of the translation need besides")]
#[path = "../../crates/translate/tests/answers/summary.rs"]
mod summary;
#[expect(dead_code, reason = "what the tests of the translation need besides")]
#[path = "../../crates/translate/tests/answers/support.rs"]
mod support;

pub mod amazon;
pub mod answers;
#[cfg(feature = "edge")]
pub mod edge;
pub mod embeddings;
pub mod fitted;
pub mod input;
#[cfg(feature = "ledger")]
pub mod ledger;
pub mod mutation;
pub mod requests;
pub mod streams;

/// Adds a mutation of [`mutation`] to those of libFuzzer.
#[macro_export]
macro_rules! mutate {
    ($mutation:ident) => {
        libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
            let mutated = if seed % 2 == 0 {
                tollgate_fuzz::mutation::$mutation(&data[..size], &data[..size], seed)
            } else {
                None
            };
            match mutated.filter(|it| it.len() <= max_size) {
                Some(mutated) => {
                    data[..mutated.len()].copy_from_slice(&mutated);
                    mutated.len()
                }
                None => libfuzzer_sys::fuzzer_mutate(data, size, max_size),
            }
        });
        libfuzzer_sys::fuzz_crossover!(|data1: &[u8], data2: &[u8], out: &mut [u8], seed: u32| {
            let crossed = tollgate_fuzz::mutation::$mutation(data1, data2, seed);
            let crossed = crossed.filter(|it| it.len() <= out.len());
            crossed.map_or(0, |crossed| {
                out[..crossed.len()].copy_from_slice(&crossed);
                crossed.len()
            })
        });
    };
}
