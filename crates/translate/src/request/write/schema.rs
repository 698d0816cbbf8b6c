//! JSON schemas for messages, which takes fewer of them than the other formats: answers follow
//! schemas whose objects name all their members, and the schema of a tool is one object at its top.
//!
//! Decides which parts of a schema can be written in that way. Other parts are an error that names the
//! place within the schema and the reason.

use crate::{
    Refusal,
    document::{self, Kind, Text},
};
use serde_json::{Map, Value, json};

/// Why a schema cannot be said to the provider.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Obstacle {
    /// Where it stands within the schema: `.properties.a`.
    pub(crate) path: String,
    pub(crate) why: &'static str,
}

impl Obstacle {
    /// The refusal of a schema that stands in the caller's field.
    pub(crate) fn refusal(&self, field: &str) -> Refusal {
        let path: String = self.path.chars().take(LONGEST_PATH).collect();
        let why = format!("{}, which this model does not take", self.why);
        Refusal::new(format!("{field}{path}"), why)
    }
}

/// How much of a place within a schema a message names, in characters.
const LONGEST_PATH: usize = 256;

/// How large a schema may be that is changed, in bytes: as a tree it takes many times as much, which
/// is not reserved.
pub(crate) const LONGEST_SCHEMA: usize = 256 * 1024;

/// The schema in the caller's field, to be changed.
pub(crate) fn parse(schema: document::Value<'_>, field: &str) -> Result<Value, Refusal> {
    if schema.raw().len() > LONGEST_SCHEMA {
        let why = format!("is larger than {LONGEST_SCHEMA} bytes, which this model does not take");
        return Err(Refusal::new(field, why));
    }
    serde_json::from_slice(schema.raw())
        .map_err(|_| Refusal::new(field, "cannot be read: it is nested too deep"))
}

/// Keywords whose value is a list of schemas that hold for one value.
const BRANCHES: [&str; 3] = ["anyOf", "oneOf", "allOf"];
/// Keywords whose value is an object of schemas.
const NAMED: [&str; 4] = ["properties", "$defs", "definitions", "dependentSchemas"];
/// Keywords whose value is a schema, or a list of them.
const ITEMS: [&str; 3] = ["items", "prefixItems", "additionalItems"];

/// Keywords that Anthropic refuses in enforced schemas, besides `minItems` above 1.
const BOUNDS: [&str; 9] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
];

/// Forbids additional members in each object of a schema, and moves bounds into descriptions. Returns
/// whether the schema has changed.
pub(crate) fn close(schema: &mut Value) -> Result<bool, Obstacle> {
    close_at(schema, &mut String::new())
}

fn close_at(schema: &mut Value, path: &mut String) -> Result<bool, Obstacle> {
    let Some(schema) = schema.as_object_mut() else {
        return Ok(false);
    };
    let mut has_changed = close_object(schema).map_err(|why| Obstacle {
        path: path.clone(),
        why,
    })?;
    has_changed |= describe_bounds(schema);
    for (key, value) in schema {
        let length = path.len();
        let is_one_of = |keywords: &[&str]| keywords.contains(&key.as_str());
        path.push('.');
        path.push_str(key);
        match value {
            Value::Object(schemas) if is_one_of(&NAMED) => {
                for (name, inner) in schemas {
                    let length = path.len();
                    path.push('.');
                    path.push_str(name);
                    has_changed |= close_at(inner, path)?;
                    path.truncate(length);
                }
            }
            Value::Array(schemas) if is_one_of(&BRANCHES) || is_one_of(&ITEMS) => {
                for (at, inner) in schemas.iter_mut().enumerate() {
                    let length = path.len();
                    path.push_str(&format!("[{at}]"));
                    has_changed |= close_at(inner, path)?;
                    path.truncate(length);
                }
            }
            Value::Object(_) if is_one_of(&ITEMS) => has_changed |= close_at(value, path)?,
            _ => {}
        }
        path.truncate(length);
    }
    Ok(has_changed)
}

/// Closes one schema, if it is one of objects, and returns whether that is new.
fn close_object(schema: &mut Map<String, Value>) -> Result<bool, &'static str> {
    let properties = schema.get("properties").and_then(Value::as_object);
    if properties.is_none() && !allows_objects(schema) {
        return Ok(false);
    }
    let others = schema.get("additionalProperties");
    if others == Some(&Value::Bool(false)) {
        return Ok(false);
    }
    let describes_others = others
        .and_then(Value::as_object)
        .is_some_and(|it| !it.is_empty());
    if describes_others || schema.contains_key("patternProperties") {
        return Err("has members that are not named");
    }
    let mut branches = branches(schema);
    if properties.is_none_or(Map::is_empty) {
        return match schema.contains_key("$ref") || branches.next().is_some() {
            // They say which members there are.
            true => Ok(false),
            false => Err("is an object that may have any members"),
        };
    }
    let adds_members = |branch: &Value| {
        let has = |key| branch.get(key).is_some();
        has("properties") || has("$ref")
    };
    if schema.contains_key("$ref") || branches.any(adds_members) {
        return Err("names its members in several places");
    }
    drop(branches);
    schema.insert("additionalProperties".to_owned(), Value::Bool(false));
    Ok(true)
}

/// Moves the bounds of one schema into its description, as Anthropic's SDKs do; returns whether it had some.
fn describe_bounds(schema: &mut Map<String, Value>) -> bool {
    let mut bounds = Vec::new();
    for key in BOUNDS.into_iter().chain(["minItems"]) {
        let is_taken =
            |bound: &Value| key == "minItems" && bound.as_u64().is_some_and(|it| it <= 1);
        if schema.get(key).is_some_and(|bound| !is_taken(bound))
            && let Some(bound) = schema.shift_remove(key)
        {
            bounds.push(format!("{key}: {bound}"));
        }
    }
    if bounds.is_empty() {
        return false;
    }
    let bounds = format!("{{{}}}", bounds.join(", "));
    let said = schema.get("description").and_then(Value::as_str);
    let description = said.map_or_else(|| bounds.clone(), |said| format!("{said}\n\n{bounds}"));
    schema.insert("description".to_owned(), description.into());
    true
}

/// Whether a schema has bounds that Anthropic refuses. A property can have the name of a bound:
/// its value is a schema.
pub(crate) fn has_bounds(schema: document::Value<'_>) -> bool {
    let is_bound = |key: Text<'_>, value: document::Value<'_>| match value.kind() {
        Kind::Number if key.is("minItems") => value.as_u64().is_none_or(|least| least > 1),
        Kind::Number | Kind::Bool => BOUNDS.iter().any(|bound| key.is(bound)),
        _ => has_bounds(value),
    };
    let mut members = schema.members();
    members.any(|(key, value)| is_bound(key, value)) || schema.elements().any(has_bounds)
}

fn branches(schema: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let lists = BRANCHES.iter().filter_map(|key| schema.get(*key));
    lists.filter_map(Value::as_array).flatten()
}

/// Whether a schema's `type` has objects in it.
fn allows_objects(schema: &Map<String, Value>) -> bool {
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        kind => kind.is_some_and(|kind| kind == "object"),
    }
}

/// Whether a tool's schema is several at its top.
pub(crate) fn is_several(schema: document::Value<'_>) -> bool {
    BRANCHES.iter().any(|key| schema.get(key).is_some())
}

/// The schemas that are made one: each is compared with the others.
const MOST_BRANCHES: usize = 64;

/// Makes one object of a tool's schema that is several at its top: it has the members of all of
/// them, and needs those that any value needs.
pub(crate) fn merge(schema: &mut Value) -> Result<(), Obstacle> {
    let Some(schema) = schema.as_object_mut() else {
        return Ok(());
    };
    let mut keys = BRANCHES.into_iter().filter(|key| schema.contains_key(*key));
    let Some(key) = keys.next() else {
        return Ok(());
    };
    let obstacle = |path: String, why| Err(Obstacle { path, why });
    if keys.next().is_some() {
        return obstacle(format!(".{key}"), "stands beside another list of schemas");
    }
    let Some(Value::Array(branches)) = schema.remove(key) else {
        return obstacle(format!(".{key}"), "must be an array");
    };
    if branches.len() > MOST_BRANCHES {
        return obstacle(format!(".{key}"), "has more than 64 schemas");
    }
    let mut merged = Merged::of(schema);
    for (at, branch) in branches.iter().enumerate() {
        match branch.as_object().filter(|branch| is_plain(branch)) {
            Some(branch) => merged.add(branch, key),
            None => {
                let path = format!(".{key}[{at}]");
                return obstacle(path, "is no object with members of its own");
            }
        }
    }
    merged.write(schema, key, branches.len());
    Ok(())
}

/// Whether a branch itself says which members it has.
fn is_plain(branch: &Map<String, Value>) -> bool {
    let elsewhere = ["$ref", "anyOf", "oneOf", "allOf", "not", "if"];
    let is_of_objects = !branch.contains_key("type") || allows_objects(branch);
    is_of_objects && !elsewhere.iter().any(|key| branch.contains_key(*key))
}

/// The members of several schemas.
struct Merged {
    properties: Map<String, Value>,
    /// How many of the branches need each member; `u64::MAX` for one that every value needs.
    needed_by: Map<String, Value>,
}

impl Merged {
    fn of(schema: &mut Map<String, Value>) -> Self {
        let take = |value: Option<Value>| value.unwrap_or_default();
        Self {
            properties: match take(schema.remove("properties")) {
                Value::Object(properties) => properties,
                _ => Map::new(),
            },
            needed_by: match take(schema.remove("required")) {
                Value::Array(names) => needed_by_all(names),
                _ => Map::new(),
            },
        }
    }

    fn add(&mut self, branch: &Map<String, Value>, key: &str) {
        // A member that several branches describe follows one of them, or all.
        let key = if key == "allOf" { "allOf" } else { "anyOf" };
        let properties = branch.get("properties").and_then(Value::as_object);
        for (name, said) in properties.into_iter().flatten() {
            match self.properties.get_mut(name) {
                None => drop(self.properties.insert(name.clone(), said.clone())),
                Some(known) if known == said => {}
                Some(known) => match known.get_mut(key).and_then(Value::as_array_mut) {
                    Some(all) if all.contains(said) => {}
                    Some(all) => all.push(said.clone()),
                    None => *known = json!({ key: [known.take(), said] }),
                },
            }
        }
        let required = branch.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            let count = self.needed_by.get(name).and_then(Value::as_u64);
            let count = count.unwrap_or_default().saturating_add(1);
            self.needed_by.insert(name.to_owned(), count.into());
        }
    }

    fn write(self, schema: &mut Map<String, Value>, key: &str, branches: usize) {
        let of_all = u64::try_from(branches).unwrap_or(u64::MAX);
        let least = if key == "allOf" { 1 } else { of_all };
        let is_needed = |count: &Value| count.as_u64().is_some_and(|count| count >= least);
        let needed = self.needed_by.into_iter();
        let needed = needed.filter(|(_, count)| is_needed(count));
        let needed: Vec<_> = needed.map(|(name, _)| Value::String(name)).collect();
        schema.insert("type".to_owned(), "object".into());
        schema.insert("properties".to_owned(), self.properties.into());
        if !needed.is_empty() {
            schema.insert("required".to_owned(), needed.into());
        }
    }
}

fn needed_by_all(names: Vec<Value>) -> Map<String, Value> {
    let names = names.into_iter().filter_map(|name| match name {
        Value::String(name) => Some((name, u64::MAX.into())),
        _ => None,
    });
    names.collect()
}

#[cfg(test)]
mod tests;
