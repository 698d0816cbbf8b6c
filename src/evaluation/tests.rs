//! The evaluation on data whose outcome is known beforehand.

use super::*;
use crate::config::Loader;
use serde_json::json;
use std::path::Path;
use tollgate_routing::Catalog;
use tollgate_settings::{Environment, ProcessEnvironment};

/// Variables are all set; files are those on disk.
struct Workshop;

impl Environment for Workshop {
    fn variable(&self, _: &str) -> Option<String> {
        Some("a-secret-that-is-long-enough-for-all".to_owned())
    }

    fn read_bytes(&self, path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
        ProcessEnvironment.read_bytes(path, most)
    }
}

fn catalog() -> Catalog {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("conf/auto.yaml");
    Loader::new(&Workshop).load(&path).unwrap().catalog
}

const SETTINGS: Settings = Settings {
    cost_weight: 0.3,
    seed: 7,
};

/// Labels for every model of the example; a light one at a tenth of the cost.
fn labels(light: f64, others: f64) -> serde_json::Value {
    let label = |quality: f64, cost: f64| json!({"quality": quality, "cost": cost});
    json!({
        "local-small": label(light, 0.1),
        "local-medium": label(others, 0.5),
        "local-vision": label(others, 0.5),
        "local-large": label(others, 1.0),
    })
}

#[test]
fn a_profile_that_can_tell_prompts_apart_beats_chance_and_no_oracle() {
    let catalog = catalog();
    let profile = catalog.profile("auto").unwrap();
    let mut text = String::from("# a comment\n\n");
    for number in 0..60 {
        let (prompt, light) = match number % 2 {
            0 => (
                "Prove this theorem, derive the lemma and justify why it fails.",
                0.0,
            ),
            _ => ("Translate this word.", 1.0),
        };
        let source = format!("source-{}", number % 3);
        let line = json!({"id": number.to_string(), "source": source, "prompt": prompt, "models": labels(light, 1.0)});
        text.push_str(&format!("{line}\n"));
    }
    let rows = read(Path::new("x.jsonl"), &text, profile).unwrap();
    let report = evaluate(profile, &rows, SETTINGS);
    let tuned = report.quality("tuned on the other sources").unwrap();
    assert_eq!((tuned.value, tuned.low), (1.0, 1.0), "{report}");
    let by_chance = report.difference("random at equal cost").unwrap();
    assert!(by_chance.low > 0.1, "{report}");
    let oracle = report.difference("oracle").unwrap();
    assert!(oracle.high <= 0.0, "{report}");
    let always = report.quality("always local-small").unwrap();
    assert!(
        (always.value - 0.5).abs() < 1e-9 && always.low < 0.5 && always.high > 0.5,
        "{report}"
    );
}

#[test]
fn a_line_that_cannot_be_used_is_told_with_its_place() {
    let catalog = catalog();
    let profile = catalog.profile("auto").unwrap();
    let fault = |line: serde_json::Value| {
        let text = format!("\n{line}\n");
        read(Path::new("x.jsonl"), &text, profile)
            .unwrap_err()
            .to_string()
    };
    let all = labels(1.0, 1.0);
    for (line, expected) in [
        (
            json!({"id": "a", "source": "s", "prompt": "x", "models": {}}),
            "x.jsonl:2: a: no label for the model 'local-medium'",
        ),
        (
            json!({"id": "a", "source": "s", "models": all}),
            "x.jsonl:2: a: one of 'prompt' and 'request' is needed",
        ),
        (
            json!({"id": "a", "source": "s", "prompt": "x", "models": labels(2.0, 1.0)}),
            "x.jsonl:2: a: a quality is from 0 to 1, a cost is not below 0",
        ),
        (
            json!({"id": "a", "source": "s", "request": {"model": "m"}, "models": all}),
            "x.jsonl:2: a: ",
        ),
    ] {
        let fault = fault(line);
        assert!(fault.starts_with(expected), "{fault}");
    }
}

/// The figures in the documentation are of this set: it is whole, and as large as is said.
#[test]
fn the_set_that_is_shipped_can_be_evaluated() {
    let catalog = catalog();
    let profile = catalog.profile("auto").unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("eval/auto.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let rows = read(&path, &text, profile).unwrap();
    let sources: std::collections::BTreeSet<_> = rows.iter().map(|row| &row.source).collect();
    assert!(
        rows.len() >= 120 && sources.len() >= 5,
        "{} {sources:?}",
        rows.len()
    );
}
