//! The list of filters: which ones run, and in which order.
//!
//! The settings of an entry are the filter's own to read; here stand the shape of the
//! list and the rules that the table of filters gives for it.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};
use std::borrow::Cow;
use tollgate_filters::{KINDS, kinds};
use tollgate_settings::{Fault, KeyPath, unknown_name, without_rust_types};

/// One entry of `filters`.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterEntry {
    /// The filter's name in the table of filters.
    pub name: String,
    /// Its own settings: the entry without `name`; null for a bare name.
    pub settings: Value,
    /// Where the entry stands: what a fault's path in it comes after.
    pub path: KeyPath,
}

impl FilterEntry {
    /// A fault in the entry's settings, at `path` relative to it (`messages.not_found`).
    pub fn fault(&self, path: &str, message: impl Into<String>) -> Fault {
        // A path that cannot be read still has its entry.
        let inner: KeyPath = path.parse().unwrap_or_default();
        let message: String = message.into();
        inner.under(&self.path).fault(without_rust_types(&message))
    }
}

/// An entry as it stands in the file: a bare name, or a mapping with `name` in it.
#[derive(Clone, Debug)]
pub(super) struct FilterSettings {
    name: String,
    settings: Value,
}

impl<'de> Deserialize<'de> for FilterSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(name) => Ok(Self {
                name,
                settings: Value::Null,
            }),
            Value::Object(mut settings) => match settings.remove("name") {
                Some(Value::String(name)) => Ok(Self {
                    name,
                    settings: settings_or_null(settings),
                }),
                _ => Err(de::Error::custom("'name' is missing")),
            },
            _ => Err(de::Error::custom(
                "expected the name of a filter, or a mapping",
            )),
        }
    }
}

fn settings_or_null(settings: Map<String, Value>) -> Value {
    if settings.is_empty() {
        Value::Null
    } else {
        Value::Object(settings)
    }
}

impl JsonSchema for FilterSettings {
    fn schema_name() -> Cow<'static, str> {
        "FilterSettings".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = kinds().map(|kind| kind.name).collect();
        json_schema!({
            "description": "A filter by its name, or a mapping with its name and its own settings.",
            "anyOf": [
                { "type": "string", "enum": names },
                {
                    "type": "object",
                    "properties": {
                        "name": { "type": "string", "enum": names, "description": "Which filter. A program with filters of its own also has theirs." },
                    },
                    "required": ["name"],
                },
            ],
        })
    }
}

/// The list that runs where the file has none: every built-in filter, in the order of the table.
pub(super) fn default_list() -> Vec<FilterEntry> {
    let section = KeyPath::root().key("filters");
    KINDS
        .iter()
        .enumerate()
        .map(|(place, kind)| FilterEntry {
            name: kind.name.to_owned(),
            settings: Value::Null,
            path: section.index(place),
        })
        .collect()
}

/// The list of the file, with everything that is wrong with it.
pub(super) fn build(settings: Vec<FilterSettings>) -> (Vec<FilterEntry>, Vec<Fault>) {
    let section = KeyPath::root().key("filters");
    let entries: Vec<_> = settings
        .into_iter()
        .enumerate()
        .map(|(place, entry)| FilterEntry {
            name: entry.name,
            settings: entry.settings,
            path: section.index(place),
        })
        .collect();
    let mut faults = Vec::new();
    for (place, entry) in entries.iter().enumerate() {
        faults.extend(entry_fault(&entries, place, entry).map(|message| entry.path.fault(message)));
    }
    let missing = kinds()
        .filter(|kind| kind.required && !entries.iter().any(|entry| entry.name == kind.name));
    faults.extend(missing.map(|kind| {
        section.fault(format!(
            "the filter '{}' is required; add it to the list",
            kind.name
        ))
    }));
    (entries, faults)
}

fn entry_fault(entries: &[FilterEntry], place: usize, entry: &FilterEntry) -> Option<String> {
    let Some(kind) = tollgate_filters::kind(&entry.name) else {
        let known = kinds().map(|kind| kind.name);
        return Some(unknown_name("filter", &entry.name, known));
    };
    let mut earlier = entries.iter().take(place);
    if earlier.clone().any(|other| other.name == entry.name) {
        return Some(format!("'{}' is given twice", entry.name));
    }
    let too_late = kind.after.iter().find(|before| {
        entries.iter().any(|other| other.name == **before)
            && !earlier.any(|other| other.name == **before)
    })?;
    Some(format!("'{}' must stand after '{too_late}'", entry.name))
}
