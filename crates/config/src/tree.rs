//! A configuration as a tree of values, each of which knows where it was written.

use serde_json::{Map, Value};
use std::sync::Arc;
use tollgate_settings::{KeyPath, Segment};

/// A place in a file: line and column from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The file, as it was named.
    pub file: Arc<str>,
    /// The line, from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
}

/// A value and where it begins.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) value: NodeValue,
    pub(super) position: Position,
}

#[derive(Clone, Debug)]
pub(super) enum NodeValue {
    Scalar(Value),
    Sequence(Vec<Node>),
    Mapping(Vec<Entry>),
}

/// A key of a mapping with its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) position: Position,
    pub(super) node: Node,
}

/// Which part of a mapping's entry a fault is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Key,
    Value,
}

impl Node {
    pub(super) fn mapping(entries: Vec<Entry>, position: Position) -> Self {
        Self {
            value: NodeValue::Mapping(entries),
            position,
        }
    }

    /// The same as plain values.
    pub(super) fn to_value(&self) -> Value {
        match &self.value {
            NodeValue::Scalar(value) => value.clone(),
            NodeValue::Sequence(items) => items.iter().map(Self::to_value).collect(),
            NodeValue::Mapping(entries) => {
                let pairs = entries
                    .iter()
                    .map(|it| (it.key.clone(), it.node.to_value()));
                Value::Object(pairs.collect::<Map<_, _>>())
            }
        }
    }

    /// A plain value, all of it at one position.
    pub(super) fn from_value(value: Value, position: &Position) -> Self {
        let value = match value {
            Value::Array(items) => {
                let items = items.into_iter();
                NodeValue::Sequence(items.map(|it| Self::from_value(it, position)).collect())
            }
            Value::Object(pairs) => {
                let entry = |(key, value)| Entry {
                    key,
                    position: position.clone(),
                    node: Self::from_value(value, position),
                };
                NodeValue::Mapping(pairs.into_iter().map(entry).collect())
            }
            scalar => NodeValue::Scalar(scalar),
        };
        Self {
            value,
            position: position.clone(),
        }
    }

    /// The file that gives the value at a path; `None` where no file does.
    pub(super) fn file(&self, path: &KeyPath) -> Option<&str> {
        let mut node = self;
        for step in path.segments() {
            node = match (&node.value, step) {
                (NodeValue::Mapping(entries), Segment::Key(key)) => {
                    &entries.iter().find(|entry| entry.key == *key)?.node
                }
                (NodeValue::Sequence(items), Segment::Index(index)) => items.get(*index)?,
                _ => return None,
            };
        }
        (node.position.line > 0).then_some(&*node.position.file)
    }

    /// Where `path` stands, or the deepest part of it that there is.
    pub(super) fn locate(&self, path: &KeyPath, part: Part) -> &Position {
        let mut node = self;
        let mut position = &self.position;
        let mut steps = path.segments().iter().peekable();
        while let Some(step) = steps.next() {
            match (&node.value, step) {
                (NodeValue::Mapping(entries), Segment::Key(key)) => {
                    let Some(entry) = entries.iter().find(|entry| entry.key == *key) else {
                        return position;
                    };
                    node = &entry.node;
                    // A long value is best found by its key.
                    let is_scalar = matches!(node.value, NodeValue::Scalar(_));
                    let is_about_key = part == Part::Key && steps.peek().is_none();
                    position = if is_scalar && !is_about_key {
                        &node.position
                    } else {
                        &entry.position
                    };
                }
                (NodeValue::Sequence(items), Segment::Index(index)) => {
                    let Some(item) = items.get(*index) else {
                        return position;
                    };
                    node = item;
                    position = &item.position;
                }
                _ => return position,
            }
        }
        position
    }

    /// Lays `self` over `base`: mappings are merged key by key, anything else replaces
    /// what was there. Keys keep the order in which they first came.
    pub(super) fn over(self, base: Self) -> Self {
        match (self.value, base.value) {
            (NodeValue::Mapping(upper), NodeValue::Mapping(mut lower)) => {
                for entry in upper {
                    let Some(place) = lower.iter().position(|it| it.key == entry.key) else {
                        lower.push(entry);
                        continue;
                    };
                    let old = lower.remove(place);
                    let merged = Entry {
                        node: entry.node.over(old.node),
                        ..entry
                    };
                    lower.insert(place, merged);
                }
                Self::mapping(lower, self.position)
            }
            (value, _) => Self {
                value,
                position: self.position,
            },
        }
    }

    /// Puts `node` at `path`, making the mappings on the way; a list takes an item of its
    /// own or one more. `false`: a part of the way leads nowhere.
    pub(super) fn set(&mut self, path: &[Segment], node: Self) -> bool {
        let Some((step, rest)) = path.split_first() else {
            *self = node;
            return true;
        };
        if matches!(&self.value, NodeValue::Scalar(Value::Null)) {
            self.value = match step {
                Segment::Key(_) => NodeValue::Mapping(Vec::new()),
                Segment::Index(_) => NodeValue::Sequence(Vec::new()),
            };
        }
        let empty = Self {
            value: NodeValue::Scalar(Value::Null),
            position: node.position.clone(),
        };
        match (&mut self.value, step) {
            (NodeValue::Mapping(entries), Segment::Key(key)) => {
                let place = entries.iter().position(|entry| entry.key == *key);
                let place = place.unwrap_or_else(|| {
                    entries.push(Entry {
                        key: key.clone(),
                        position: node.position.clone(),
                        node: empty,
                    });
                    entries.len().saturating_sub(1)
                });
                let entry = entries.get_mut(place);
                entry.is_some_and(|entry| entry.node.set(rest, node))
            }
            (NodeValue::Sequence(items), Segment::Index(index)) => {
                if *index == items.len() {
                    items.push(empty);
                }
                let item = items.get_mut(*index);
                item.is_some_and(|item| item.set(rest, node))
            }
            _ => false,
        }
    }

    /// Takes `key` out of the mapping.
    pub(super) fn take(&mut self, key: &str) -> Option<Self> {
        let NodeValue::Mapping(entries) = &mut self.value else {
            return None;
        };
        let place = entries.iter().position(|entry| entry.key == key)?;
        Some(entries.remove(place).node)
    }
}
