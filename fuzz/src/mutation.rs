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

/// Marks a second key of the same name: a [`Map`] has each key once. The marker is removed from the result.
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
        let (before, _, after) = part(text, &mut rng)?;
        let json = &text[before.len()..text.len() - after.len()];
        let is_whole = before.is_empty() && after.is_empty();
        format!("{before}{}{after}", spaced(json, is_whole, &mut rng))
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

/// A new version of a text of indented lines. Some changes copy a line of another text.
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

/// The JSON with white space around its tokens. Within a longer text a line break would end its line.
fn spaced(json: &str, is_whole: bool, rng: &mut Rng) -> String {
    let spaces = match is_whole {
        true => [" ", "\t", "\n", "\r"],
        false => [" ", "\t", "", ""],
    };
    let mut is_string = false;
    let mut is_escaped = false;
    let mut out = String::new();
    for letter in json.chars() {
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
    match (node, rng.u8(..4)) {
        (node, 0) => *node = scalar(rng),
        (Value::Object(fields), 1..) => change_object(fields, given, rng)?,
        (Value::Array(items), 1..) if !items.is_empty() => match rng.bool() {
            true => drop(items.remove(rng.usize(..items.len()))),
            false => items.insert(rng.usize(..=items.len()), given),
        },
        (Value::String(text), 1 | 2) => change_text(text, rng)?,
        (node, _) => *node = given,
    }
    Some(())
}

fn change_object(fields: &mut Map<String, Value>, given: Value, rng: &mut Rng) -> Option<()> {
    let key = any_key(fields, rng);
    match (rng.u8(..7), key, given) {
        (0, Some(key), _) => drop(fields.remove(&key)),
        (1, Some(key), _) => {
            let value = fields.remove(&key)?;
            fields.insert(name(&OF_JSON, rng)?, value);
        }
        (2, Some(key), _) => {
            let value = fields.remove(&key)?;
            fields.insert(misspelt(&key, rng), value);
        }
        (3, Some(key), given) => drop(fields.insert(key + AGAIN, given)),
        (4, Some(key), given) => drop(fields.insert(key, given)),
        (5, _, Value::Object(mut given)) if !given.is_empty() => {
            let key = any_key(&given, rng)?;
            fields.insert(key.clone(), given.remove(&key)?);
        }
        (_, _, given) => drop(fields.insert(name(&OF_JSON, rng)?, given)),
    }
    Some(())
}

fn change_text(text: &mut String, rng: &mut Rng) -> Option<()> {
    match rng.u8(..4) {
        0 => *text = name(&OF_JSON, rng)?,
        1 => *text = misspelt(text, rng),
        2 => text.push_str(&name(&OF_JSON, rng)?),
        _ => {
            // Names of events begin in the same way.
            text.truncate(text.find('.').map_or(0, |dot| dot + 1));
            text.push_str(&name(&OF_JSON, rng)?);
        }
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

/// Any of the names, sometimes misspelt.
fn name(names: &[String], rng: &mut Rng) -> Option<String> {
    let name = names.get(rng.usize(..names.len().max(1)))?;
    Some(match rng.u8(..4) {
        0 => misspelt(name, rng),
        _ => name.clone(),
    })
}

/// A name with one letter changed or left out: a comparison byte by byte has a branch for each of them.
fn misspelt(name: &str, rng: &mut Rng) -> String {
    let mut name = name.to_owned();
    if name.is_ascii() && !name.is_empty() {
        let place = rng.usize(..name.len());
        let letter = match rng.u8(..4) {
            0 => String::new(),
            _ => rng.lowercase().to_string(),
        };
        name.replace_range(place..=place, &letter);
    }
    name
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
