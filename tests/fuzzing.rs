//! The inputs of the fuzz targets that are kept, run through the same functions: what a fuzzer
//! has found once is found by every test run.

#![cfg(test)]

#[path = "../fuzz/src/amazon.rs"]
mod amazon;
#[path = "../fuzz/src/answers.rs"]
mod answers;
#[path = "../fuzz/src/edge.rs"]
mod edge;
#[path = "../fuzz/src/embeddings.rs"]
mod embeddings;
#[path = "../fuzz/src/fitted.rs"]
mod fitted;
#[path = "../fuzz/src/input.rs"]
mod input;
#[path = "../fuzz/src/ledger.rs"]
mod ledger;
#[path = "../fuzz/src/requests.rs"]
mod requests;
#[path = "../fuzz/src/streams.rs"]
mod streams;
#[path = "../crates/translate/tests/answers/strict/mod.rs"]
mod strict;
#[expect(dead_code, reason = "what the tests of the translation need besides")]
#[path = "../crates/translate/tests/answers/summary.rs"]
mod summary;
#[expect(dead_code, reason = "what the tests of the translation need besides")]
#[path = "../crates/translate/tests/answers/support.rs"]
mod support;

use std::{collections::BTreeSet, fs, path::Path};

type Target = fn(&[u8]);

const TARGETS: &[(&str, Target)] = &[
    ("amazon", amazon::amazon),
    ("answer", answers::answer),
    ("body", requests::body),
    ("config", edge::config),
    ("embeddings", embeddings::embeddings),
    ("fault", answers::fault),
    ("fitted", fitted::fitted),
    ("frames", edge::frames),
    ("head", edge::head),
    ("key", ledger::key),
    ("ledger", ledger::files),
    ("proxy_header", edge::proxy_header),
    ("stream", streams::passed),
    ("translate_body", requests::translated),
    ("translate_stream", streams::translated),
    ("unsealed", requests::unsealed),
];

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let stems = entries.map(|entry| entry.path().file_stem().unwrap().to_owned());
    stems.map(|stem| stem.into_string().unwrap()).collect()
}

#[test]
fn every_fuzz_target_has_seeds_and_is_run_here() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let here: BTreeSet<_> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(&fuzz.join("fuzz_targets")), here);
    assert_eq!(names(&fuzz.join("seeds")), here);
}

#[test]
fn every_kept_input_passes() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
    for (name, target) in TARGETS {
        let mut count = 0;
        for entry in fs::read_dir(seeds.join(name)).unwrap() {
            let path = entry.unwrap().path();
            let input = fs::read(&path).unwrap();
            let ran = std::panic::catch_unwind(|| target(&input));
            assert!(ran.is_ok(), "{} fails", path.display());
            count += 1;
        }
        assert!(count > 0, "no inputs for {name}");
    }
}
