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

pub mod answers;
#[cfg(feature = "edge")]
pub mod edge;
pub mod input;
#[cfg(feature = "ledger")]
pub mod ledger;
pub mod requests;
pub mod streams;
