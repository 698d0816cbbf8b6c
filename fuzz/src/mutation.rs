//! Mutations of inputs by their structure. libFuzzer changes bytes, which seldom leaves a long text valid.

use crate::input::HEADER;
use fastrand::Rng;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// The names in the dictionaries that `scripts/fuzz-seeds` makes; none without them.
static OF_JSON: LazyLock<Vec<String>> = LazyLock::new(|| names("answer"));
static OF_CONFIG: LazyLock<Vec<String>> = LazyLock::new(|| names("config"));

fn names(target: &str) -> Vec<String> {
    let path = format!("{}/corpus/{target}.dict", env!("CARGO_MANIFEST_DIR"));
    let lines = std::fs::read_to_string(path).unwrap_or_default();
    let names = lines.lines().map(|line| line.replace(['"', '\\'], ""));
    names.filter(|name| !name.is_empty()).collect()
}

/// Marks a key that stands twice in its object, which a [`Map`] cannot hold.
const AGAIN: &str = "\0again";

/// A new version of an input that has JSON or events with JSON, with a part of another one.
/// `None`: this seed leads to none.
pub fn json(input: &[u8], other: &[u8], seed: u32) -> Option<Vec<u8>> {
    let mut rng = Rng::with_seed(seed.into());
    let (header, text) = input.split_at_checked(HEADER)?;
    let text = std::str::from_utf8(text).ok()?;
    let other = std::str::from_utf8(other.get(HEADER..)?).ok()?;
    let text = if text.contains("\n\n") && rng.u8(..4) == 0 {
        with_other_events(text, other, &mut rng)
    } else if rng.u8(..16) == 0 {
        spaced(text, &mut rng)
    } else {
        let (before, mut value, after) = part(text, &mut rng)?;
        let (_, donor, _) = part(other, &mut rng)?;
        for _ in 0..rng.usize(1..4) {
            change(&mut value, &donor, &mut rng)?;
        }
        let json = value.to_string().replace("\\u0000again", "");
        format!("{before}{json}{after}")
    };
    Some([header, text.as_bytes()].concat())
}

/// A new version of a text of indented lines, with a line of another one.
pub fn lines(input: &[u8], other: &[u8], seed: u32) -> Option<Vec<u8>> {
    let mut rng = Rng::with_seed(seed.into());
    let mut lines: Vec<String> = (std::str::from_utf8(input).ok()?.lines())
        .map(str::to_owned)
        .collect();
    let others: Vec<&str> = std::str::from_utf8(other).ok()?.lines().collect();
    for _ in 0..rng.usize(1..4) {
        let given = *others.get(rng.usize(..others.len().max(1)))?;
        let place = rng.usize(..lines.len().max(1));
        let line = lines.get_mut(place)?;
        let key = line.split_once(": ").map(|(key, _)| key.to_owned());
        match (key, rng.u8(..6)) {
            (Some(key), 0) => *line = format!("{key}: {}", scalar(&mut rng)),
            (Some(key), 1) => {
                let value = given.split_once(": ").map_or(given, |(_, value)| value);
                *line = format!("{key}: {value}");
            }
            (Some(key), 2) => *line = format!("{key}: {}", name(&OF_CONFIG, &mut rng)?),
            (_, 0 | 3) => drop(lines.remove(place)),
            (_, 1 | 4) => lines.insert(place, given.to_owned()),
            _ => {
                let indentation = line.len() - line.trim_start().len();
                let given = format!("{}{}", &line[..indentation], given.trim_start());
                lines.insert(place + 1, given);
            }
        }
    }
    Some(lines.join("\n").into_bytes())
}

/// The text with white space around the tokens of its JSON, of the kind that ends no event.
fn spaced(text: &str, rng: &mut Rng) -> String {
    let spaces = match text.contains("\n\n") {
        true => [" ", "\t", "", ""],
        false => [" ", "\t", "\n", "\r"],
    };
    let mut is_string = false;
    let mut is_escaped = false;
    let mut out = String::new();
    for letter in text.chars() {
        let is_token = !is_string && "{}[]:,".contains(letter);
        let mut space = || if is_token { spaces[rng.usize(..4)] } else { "" };
        out.push_str(space());
        out.push(letter);
        out.push_str(space());
        is_string ^= letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
    }
    out
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
    match (node, rng.u8(..8)) {
        (Value::Object(fields), 0) => {
            let key = any_key(fields, rng)?;
            fields.remove(&key);
        }
        (Value::Object(fields), 1) => {
            let key = any_key(fields, rng)?;
            let value = fields.remove(&key)?;
            fields.insert(name(&OF_JSON, rng)?, value);
        }
        (Value::Object(fields), 2) => drop(fields.insert(name(&OF_JSON, rng)?, given)),
        (Value::Object(fields), 3) => {
            let key = any_key(fields, rng)?;
            fields.insert(key + AGAIN, given);
        }
        (Value::Object(fields), 4 | 5) => {
            let given = given.as_object()?;
            let key = any_key(given, rng)?;
            fields.insert(key.clone(), given[&key].clone());
        }
        (Value::Array(items), 0) if !items.is_empty() => {
            drop(items.remove(rng.usize(..items.len())))
        }
        (Value::Array(items), 1..=4) => items.insert(rng.usize(..=items.len()), given),
        (Value::String(text), 0 | 1) => *text = name(&OF_JSON, rng)?,
        (Value::String(text), 2) => text.push_str(&name(&OF_JSON, rng)?),
        (Value::String(text), 3) => {
            // Names of events begin in the same way.
            text.truncate(text.find('.').map_or(0, |dot| dot + 1));
            text.push_str(&name(&OF_JSON, rng)?);
        }
        (node, 6) => *node = scalar(rng),
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

/// A name, sometimes with a letter changed: what compares names byte by byte has a branch for each.
fn name(names: &[String], rng: &mut Rng) -> Option<String> {
    let mut name = names.get(rng.usize(..names.len().max(1)))?.clone();
    if name.is_ascii() && rng.u8(..4) == 0 {
        let place = rng.usize(..name.len());
        name.replace_range(place..=place, rng.lowercase().encode_utf8(&mut [0; 4]));
    }
    Some(name)
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
