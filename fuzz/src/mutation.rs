//! Mutations of inputs by the structure of their JSON. libFuzzer changes bytes, which seldom leaves a long text valid.

use crate::input::HEADER;
use fastrand::Rng;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// The names in the dictionary that `scripts/fuzz-seeds` makes; none without it.
static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/answer.dict");
    let lines = std::fs::read_to_string(path).unwrap_or_default();
    let names = lines.lines().map(|line| line.replace(['"', '\\'], ""));
    names.filter(|name| !name.is_empty()).collect()
});

/// A new version of an input that has JSON or events with JSON. `None`: this seed leads to none.
pub fn mutated(input: &[u8], seed: u32) -> Option<Vec<u8>> {
    crossed(input, input, seed)
}

/// An input with a part of another one.
pub fn crossed(input: &[u8], other: &[u8], seed: u32) -> Option<Vec<u8>> {
    let mut rng = Rng::with_seed(seed.into());
    let (header, text) = input.split_at_checked(HEADER)?;
    let text = std::str::from_utf8(text).ok()?;
    let other = std::str::from_utf8(other.get(HEADER..)?).ok()?;
    let text = if text.contains("\n\n") && rng.u8(..4) == 0 {
        with_other_events(text, other, &mut rng)
    } else {
        let (before, mut value, after) = part(text, &mut rng)?;
        let (_, donor, _) = part(other, &mut rng)?;
        for _ in 0..rng.usize(1..4) {
            change(&mut value, &donor, &mut rng)?;
        }
        format!("{before}{value}{after}")
    };
    Some([header, text.as_bytes()].concat())
}

/// The text if it is JSON, else what a line of it has: with the text before and after it.
fn part<'a>(text: &'a str, rng: &mut Rng) -> Option<(&'a str, Value, &'a str)> {
    if let Ok(value) = serde_json::from_str(text) {
        return Some(("", value, ""));
    }
    let lines: Vec<&str> = text.split('\n').collect();
    let line = lines.get(rng.usize(..lines.len()))?;
    let json = line.find('{').and_then(|start| line.get(start..))?;
    let json = json.trim_end_matches('\r');
    let value = serde_json::from_str(json).ok()?;
    let start = json.as_ptr().addr() - text.as_ptr().addr();
    Some((&text[..start], value, &text[start + json.len()..]))
}

fn with_other_events(text: &str, other: &str, rng: &mut Rng) -> String {
    let mut events: Vec<&str> = text.split("\n\n").collect();
    let others: Vec<&str> = other.split("\n\n").collect();
    let [place, second] = [0; 2].map(|_| rng.usize(..events.len()));
    match rng.u8(..3) {
        0 => drop(events.remove(place)),
        1 => events.swap(place, second),
        _ => events.insert(place, others[rng.usize(..others.len())]),
    }
    events.join("\n\n")
}

fn change(value: &mut Value, donor: &Value, rng: &mut Rng) -> Option<()> {
    let node = nth(value, &mut rng.usize(..count(value)))?;
    let mut place = rng.usize(..count(donor));
    let given = nth(&mut donor.clone(), &mut place)?.take();
    match (node, rng.u8(..4)) {
        (Value::Object(fields), 0) => {
            let key = any_key(fields, rng)?;
            fields.remove(&key);
        }
        (Value::Object(fields), 1) => {
            let key = any_key(fields, rng)?;
            let value = fields.remove(&key)?;
            fields.insert(name(rng)?, value);
        }
        (Value::Object(fields), 2) => drop(fields.insert(name(rng)?, given)),
        (Value::Array(items), 0) if !items.is_empty() => {
            drop(items.remove(rng.usize(..items.len())))
        }
        (Value::Array(items), 1 | 2) => items.insert(rng.usize(..=items.len()), given),
        (Value::String(text), 0) => *text = name(rng)?,
        (node, 1) => *node = scalar(rng),
        (node, _) => *node = given,
    }
    Some(())
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// The node of this number, in the order of the text.
fn nth<'a>(value: &'a mut Value, number: &mut usize) -> Option<&'a mut Value> {
    if *number == 0 {
        return Some(value);
    }
    *number -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|it| nth(it, number)),
        Value::Object(fields) => fields.values_mut().find_map(|it| nth(it, number)),
        _ => None,
    }
}

fn any_key(fields: &Map<String, Value>, rng: &mut Rng) -> Option<String> {
    fields.keys().nth(rng.usize(..fields.len().max(1))).cloned()
}

fn name(rng: &mut Rng) -> Option<String> {
    NAMES.get(rng.usize(..NAMES.len().max(1))).cloned()
}

fn scalar(rng: &mut Rng) -> Value {
    let all = [
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(""),
        json!("a"),
        json!([]),
        json!({}),
    ];
    all[rng.usize(..all.len())].clone()
}
