//! The differences between two configurations, by key path.
//!
//! Values are shown if they are harmless: numbers, switches, and texts that begin with a
//! digit (sizes, durations, addresses to listen on). Everything else is reported as changed,
//! without its value; of secrets not even the source's text goes beyond what stands in the file.

use super::Config;
use super::sources::Sources;
use super::tree::{Node, NodeValue};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use tollgate_settings::{KeyPath, Segment};

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Change {
    /// The key path. Of a part that is there as a whole or not at all, the path of the part.
    pub path: String,
    /// What is new about it.
    pub kind: ChangeKind,
    /// What it was, where that can be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// What it is, where that can be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// How a key differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It has another value.
    Changed,
    /// It is gone.
    Removed,
    /// Its text is the same, but the file or variable that it names has other content.
    Content,
}

impl fmt::Display for Change {
    /// `server.limits.body_bytes: changed from 32MiB to 64MiB`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ChangeKind::Added => "added",
            ChangeKind::Changed => "changed",
            ChangeKind::Removed => "removed",
            ChangeKind::Content => "content changed",
        };
        write!(f, "{}: {kind}", self.path)?;
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => write!(f, " from {before} to {after}"),
            (None, Some(after)) => write!(f, " ({after})"),
            _ => Ok(()),
        }
    }
}

impl Config {
    /// The differences from `earlier`, in the order of the file.
    pub fn changes_since(&self, earlier: &Self) -> Vec<Change> {
        let mut found = Vec::new();
        compare(
            &earlier.tree.to_value(),
            &self.tree.to_value(),
            &KeyPath::root(),
            &mut found,
        );
        let content = Content {
            now: self,
            before: earlier,
        };
        content.compare(&self.tree, &KeyPath::root(), &mut found);
        found
    }

    /// The differences from the settings that another process has shown ([`Config::shown`]).
    pub fn changes_since_shown(&self, earlier: &Value) -> Vec<Change> {
        let mut found = Vec::new();
        compare(earlier, &self.shown(), &KeyPath::root(), &mut found);
        found
    }

    /// The settings as they stand in the files, merged, for an operator to see: what may be a
    /// secret is replaced by a digest.
    pub fn shown(&self) -> Value {
        masked(&self.tree.to_value(), &KeyPath::root())
    }

    /// The same configuration has the same name in every process of this version: 16
    /// hexadecimal digits. What files and variables hold is no part of it.
    pub fn hash(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.shown().to_string().hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    /// The files and variables that it was read from.
    pub const fn sources(&self) -> &Sources {
        &self.sources
    }
}

fn compare(before: &Value, after: &Value, path: &KeyPath, found: &mut Vec<Change>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            compare_mappings(before, after, path, found);
        }
        (Value::Array(before), Value::Array(after)) => {
            let longer = before.len().max(after.len());
            for place in 0..longer {
                let values = (before.get(place), after.get(place));
                compare_entries(values, &path.index(place), found);
            }
        }
        (before, after) if before == after => {}
        (before, after) => compare_entries((Some(before), Some(after)), path, found),
    }
}

fn compare_mappings(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    path: &KeyPath,
    found: &mut Vec<Change>,
) {
    for (key, value) in after {
        compare_entries((before.get(key), Some(value)), &path.key(key), found);
    }
    for (key, value) in before.iter().filter(|(key, _)| !after.contains_key(*key)) {
        compare_entries((Some(value), None), &path.key(key), found);
    }
}

fn compare_entries(
    values: (Option<&Value>, Option<&Value>),
    path: &KeyPath,
    found: &mut Vec<Change>,
) {
    let both_hold_more = |before: &Value, after: &Value| {
        let kinds = (before, after);
        matches!(
            kinds,
            (Value::Object(_), Value::Object(_)) | (Value::Array(_), Value::Array(_))
        )
    };
    let (kind, before, after) = match values {
        (Some(before), Some(after)) if before == after => return,
        (Some(before), Some(after)) if both_hold_more(before, after) => {
            return compare(before, after, path, found);
        }
        (Some(before), Some(after)) => (ChangeKind::Changed, Some(before), Some(after)),
        (None, after) => (ChangeKind::Added, None, after),
        (before, None) => (ChangeKind::Removed, before, None),
    };
    found.push(Change {
        path: path.to_string(),
        kind,
        before: before.and_then(|value| plain(value, path)),
        after: after.and_then(|value| plain(value, path)),
    });
}

/// A value that can be shown without a thought.
fn plain(value: &Value, path: &KeyPath) -> Option<String> {
    const LONGEST: usize = 48;
    if may_be_secret(path) {
        return None;
    }
    match value {
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) if text.len() <= LONGEST => {
            let begins = text.bytes().next().is_some_and(|it| it.is_ascii_digit());
            begins.then(|| text.clone())
        }
        _ => None,
    }
}

/// Whether something stands at a path that an operator may take for a secret: headers for a
/// provider, credentials, and what the schema says is for writing only.
fn may_be_secret(path: &KeyPath) -> bool {
    let is_secret = |segment: &Segment| {
        matches!(segment, Segment::Key(key) if matches!(
            key.as_str(),
            "headers" | "credentials" | "credential" | "secret" | "token" | "pepper" | "password"
        ))
    };
    path.segments().iter().any(is_secret)
}

fn masked(value: &Value, path: &KeyPath) -> Value {
    match value {
        Value::Object(entries) => {
            let entry = |(key, value): (&String, &Value)| {
                let path = path.key(key);
                (key.clone(), masked(value, &path))
            };
            Value::Object(entries.iter().map(entry).collect())
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            let item = |(place, item)| masked(item, &path.index(place));
            Value::Array(items.map(item).collect())
        }
        Value::String(text) if may_be_secret(path) && !names_a_source(text) => {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            Value::String(format!("digest:{:016x}", hasher.finish()))
        }
        other => other.clone(),
    }
}

fn names_a_source(text: &str) -> bool {
    text.starts_with("env:") || text.starts_with("file:")
}

/// Compares what the sources hold that a configuration names.
struct Content<'a> {
    now: &'a Config,
    before: &'a Config,
}

impl Content<'_> {
    fn compare(&self, node: &Node, path: &KeyPath, found: &mut Vec<Change>) {
        match &node.value {
            NodeValue::Mapping(entries) => {
                for entry in entries {
                    self.compare(&entry.node, &path.key(&entry.key), found);
                }
            }
            NodeValue::Sequence(items) => {
                for (place, item) in items.iter().enumerate() {
                    self.compare(item, &path.index(place), found);
                }
            }
            NodeValue::Scalar(Value::String(text)) if self.has_changed(text, path) => {
                found.push(Change {
                    path: path.to_string(),
                    kind: ChangeKind::Content,
                    before: None,
                    after: None,
                });
            }
            NodeValue::Scalar(_) => {}
        }
    }

    /// Whether a text names a source whose content is known from before and now, and differs.
    fn has_changed(&self, text: &str, path: &KeyPath) -> bool {
        let (before, now) = match text.strip_prefix("env:") {
            Some(name) => (
                self.before.sources.variable(name),
                self.now.sources.variable(name),
            ),
            None => {
                let name = Path::new(text.strip_prefix("file:").unwrap_or(text));
                let now = named_in(self.now, path, name);
                // The same text is another file's name where it stands in another folder now.
                let before = self.before.tree.file(path).is_some();
                let before = if before { self.before } else { self.now };
                let before = named_in(before, path, name);
                (
                    self.before.sources.file(&before),
                    self.now.sources.file(&now),
                )
            }
        };
        matches!((before, now), (Some(before), Some(now)) if before != now)
    }
}

/// The file that `name` means at a place of a configuration.
fn named_in(config: &Config, path: &KeyPath, name: &Path) -> PathBuf {
    let file = config.tree.file(path).map(Path::new);
    let folder = file.and_then(Path::parent).unwrap_or(Path::new(""));
    folder.join(name)
}
