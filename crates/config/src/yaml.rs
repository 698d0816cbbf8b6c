//! From the text of a YAML file to a tree with positions.
//!
//! The parser's events are taken as they come, so that every key and value keeps its
//! line and column, which no map of values does. Scalars follow the core schema of
//! YAML 1.2: `yes` and `on` are texts. Anchors, aliases and merge keys work, and what
//! they may unfold to is bounded; tags and further documents are refused.

use super::{
    faults::{Faults, Located},
    tree::{Entry, Node, NodeValue, Position},
};
use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span};
use serde_json::{Number, Value};
use std::{borrow::Cow, collections::HashMap, sync::Arc};
use tollgate_settings::{Fault, KeyPath};

/// Values in one file, aliases unfolded.
const MAX_NODES: usize = 100_000;
/// Values within values.
const MAX_DEPTH: usize = 64;

/// Parses `text`, naming `file` in positions.
///
/// # Errors
/// The fault at which the text stops being YAML, together with those found before it.
pub(super) fn parse(text: &str, file: &Arc<str>) -> Result<Node, Faults> {
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut reader = Reader {
        events: Parser::new_from_str_with_options(text, options),
        file,
        anchors: HashMap::new(),
        nodes: 0,
        depth: 0,
        faults: Faults::default(),
    };
    match reader.stream() {
        Ok(node) if reader.faults.is_empty() => Ok(node),
        Ok(_) => Err(reader.faults),
        Err(Stop(located)) => {
            reader.faults.push(*located);
            Err(reader.faults)
        }
    }
}

/// A fault after which nothing more can be read.
struct Stop(Box<Located>);

struct Reader<'file, P> {
    events: P,
    file: &'file Arc<str>,
    /// Finished nodes by the parser's number for their anchor.
    anchors: HashMap<usize, Node>,
    nodes: usize,
    /// How many collections are open.
    depth: usize,
    faults: Faults,
}

impl<'input, P> Reader<'_, P>
where
    P: Iterator<Item = Result<(Event<'input>, Span), ScanError>>,
{
    fn stream(&mut self) -> Result<Node, Stop> {
        let mut document = None;
        loop {
            let (event, position) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
                Event::StreamEnd => break,
                _ if document.is_some() => {
                    return Err(stop(
                        position,
                        "a configuration is one document; a second one begins here",
                    ));
                }
                event => document = Some(self.node(event, position)?),
            }
        }
        Ok(document.unwrap_or_else(|| Node {
            value: NodeValue::Scalar(Value::Null),
            position: self.start_of_file(),
        }))
    }

    fn start_of_file(&self) -> Position {
        Position {
            file: Arc::clone(self.file),
            line: 1,
            column: 1,
        }
    }

    fn next(&mut self) -> Result<(Event<'input>, Position), Stop> {
        let at = |line, column: usize| Position {
            file: Arc::clone(self.file),
            line,
            column: column.saturating_add(1),
        };
        match self.events.next() {
            Some(Ok((event, span))) => Ok((event, at(span.start.line(), span.start.col()))),
            Some(Err(fault)) => {
                let marker = fault.marker();
                let position = at(marker.line(), marker.col());
                Err(stop(
                    position,
                    format!("this is not YAML: {}", fault.info()),
                ))
            }
            None => Err(stop(self.start_of_file(), "the file is incomplete")),
        }
    }

    fn count(&mut self, nodes: usize, position: &Position) -> Result<(), Stop> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes <= MAX_NODES {
            return Ok(());
        }
        let message = format!("more than {MAX_NODES} values, with aliases expanded");
        Err(stop(position.clone(), message))
    }

    /// The readers of the tree recurse: aliases must not make it deeper than the file.
    fn check_depth(&self, more: usize, position: &Position) -> Result<(), Stop> {
        if self.depth.saturating_add(more) <= MAX_DEPTH {
            return Ok(());
        }
        let message = format!("more than {MAX_DEPTH} levels, with aliases expanded");
        Err(stop(position.clone(), message))
    }

    fn check_tag(&mut self, event: &Event<'input>, position: &Position) {
        if event.tag().is_some() {
            let message = "tags are not supported; write the plain value";
            self.faults.push(at(position.clone(), message));
        }
    }

    /// Reads the node that begins with `event`.
    fn node(&mut self, event: Event<'input>, position: Position) -> Result<Node, Stop> {
        self.count(1, &position)?;
        self.check_tag(&event, &position);
        let anchor = event.anchor_id();
        let value = match event {
            Event::Alias(id) => {
                let Some(node) = self.anchors.get(&id).cloned() else {
                    return Err(stop(
                        position,
                        "an alias cannot stand within its own anchor",
                    ));
                };
                self.check_depth(depth(&node), &position)?;
                self.count(size(&node), &position)?;
                return Ok(node);
            }
            Event::Scalar(text, style, ..) => NodeValue::Scalar(scalar(text, style)),
            Event::SequenceStart(..) => self.collection(&position, Self::sequence)?,
            Event::MappingStart(..) => self.collection(&position, Self::mapping)?,
            _ => return Err(stop(position, "expected a value")),
        };
        let node = Node { value, position };
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn collection(
        &mut self,
        position: &Position,
        read: fn(&mut Self) -> Result<NodeValue, Stop>,
    ) -> Result<NodeValue, Stop> {
        self.check_depth(1, position)?;
        self.depth = self.depth.saturating_add(1);
        let value = read(self)?;
        self.depth = self.depth.saturating_sub(1);
        Ok(value)
    }

    fn sequence(&mut self) -> Result<NodeValue, Stop> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(NodeValue::Sequence(items)),
                (event, position) => items.push(self.node(event, position)?),
            }
        }
    }

    fn mapping(&mut self) -> Result<NodeValue, Stop> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut merged = Vec::new();
        loop {
            let (event, position) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                break;
            }
            self.check_tag(&event, &position);
            let anchor = event.anchor_id();
            let Event::Scalar(text, style, ..) = event else {
                return Err(stop(position, "a key is a string"));
            };
            self.count(1, &position)?;
            if let Some(anchor) = anchor {
                let value = NodeValue::Scalar(scalar(text.clone(), style));
                let position = position.clone();
                self.anchors.insert(anchor, Node { value, position });
            }
            let key = Key::new(text, style);
            let (event, value_position) = self.next()?;
            let node = self.node(event, value_position)?;
            match key {
                Key::Merge => merged.push(node),
                Key::Named(key) => {
                    if let Some(first) = entries.iter().find(|entry| entry.key == key) {
                        let message = format!(
                            "'{key}' is given twice, first on line {}",
                            first.position.line
                        );
                        self.faults.push(at(position, message));
                        continue;
                    }
                    entries.push(Entry {
                        key,
                        position,
                        node,
                    });
                }
            }
        }
        for node in merged {
            self.merge(&mut entries, node);
        }
        Ok(NodeValue::Mapping(entries))
    }

    /// Adds what `<<` brings; keys that are there already win, and so do earlier sources.
    fn merge(&mut self, entries: &mut Vec<Entry>, source: Node) {
        match source.value {
            NodeValue::Mapping(others) => {
                for other in others {
                    if !entries.iter().any(|entry| entry.key == other.key) {
                        entries.push(other);
                    }
                }
            }
            NodeValue::Sequence(sources) => {
                for source in sources {
                    self.merge(entries, source);
                }
            }
            NodeValue::Scalar(_) => {
                let message = "'<<' takes a mapping, or a list of them";
                self.faults.push(at(source.position, message));
            }
        }
    }
}

enum Key {
    Named(String),
    Merge,
}

impl Key {
    fn new(text: Cow<'_, str>, style: ScalarStyle) -> Self {
        if text == "<<" && style == ScalarStyle::Plain {
            return Self::Merge;
        }
        Self::Named(text.into_owned())
    }
}

fn at(position: Position, message: impl Into<String>) -> Located {
    Located {
        position,
        fault: Fault {
            path: KeyPath::root(),
            message: message.into(),
        },
    }
}

fn stop(position: Position, message: impl Into<String>) -> Stop {
    Stop(Box::new(at(position, message)))
}

/// Collections within one another.
fn depth(node: &Node) -> usize {
    let inner = match &node.value {
        NodeValue::Scalar(_) => return 0,
        NodeValue::Sequence(items) => items.iter().map(depth).max(),
        NodeValue::Mapping(entries) => entries.iter().map(|entry| depth(&entry.node)).max(),
    };
    inner.unwrap_or(0).saturating_add(1)
}

fn size(node: &Node) -> usize {
    let inner: usize = match &node.value {
        NodeValue::Scalar(_) => 0,
        NodeValue::Sequence(items) => items.iter().map(size).sum(),
        NodeValue::Mapping(entries) => entries.iter().map(|entry| size(&entry.node)).sum(),
    };
    inner.saturating_add(1)
}

/// A scalar by the core schema: only a plain one can be anything but text.
fn scalar(text: Cow<'_, str>, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::String(text.into_owned());
    }
    match &*text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        other => number(other).map_or_else(|| Value::String(text.into_owned()), Value::Number),
    }
}

fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok().map(Number::from);
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return u64::from_str_radix(octal, 8).ok().map(Number::from);
    }
    let looks_like_one = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'));
    if !looks_like_one {
        return None;
    }
    let plain = text.strip_prefix('+').unwrap_or(text);
    plain
        .parse::<u64>()
        .map(Number::from)
        .or_else(|_| plain.parse::<i64>().map(Number::from))
        .ok()
        .or_else(|| Number::from_f64(plain.parse().ok()?))
}

#[cfg(test)]
mod tests;
