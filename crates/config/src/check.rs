//! The shape of a configuration: every key known, every value of its type.
//!
//! The JSON Schema decides, so that an editor that has it says the same as the gateway;
//! the sentences are written here, for the operator.

use super::{schema::schema, tree::Part};
use jsonschema::{
    JsonType, ValidationError, Validator, error::TypeKind, error::ValidationErrorKind,
};
use serde_json::Value;
use tollgate_settings::{Fault, KeyPath, Segment, did_you_mean};
use tollgate_types::is_hidden;

/// Known keys are listed up to this many.
const LISTED: usize = 12;

/// The schema and its validator. They take a megabyte, and a few milliseconds to make.
pub(super) struct Shape {
    schema: Value,
    validator: Option<Validator>,
}

impl Shape {
    pub(super) fn new() -> Self {
        let schema = schema();
        Self {
            validator: jsonschema::validator_for(&schema).ok(),
            schema,
        }
    }

    /// Every fault in the shape of `value`, and whether it is about a key or its value.
    pub(super) fn faults(&self, value: &Value) -> Vec<(Part, Fault)> {
        // The schema is ours: a test sees that it compiles.
        let Some(validator) = &self.validator else {
            let message =
                "the configuration's own schema is broken; this is a fault of the program";
            return vec![(Part::Value, KeyPath::root().fault(message))];
        };
        let mut faults = Vec::new();
        for error in validator.iter_errors(value) {
            describe(&error, value, &self.schema, &mut faults);
        }
        faults.dedup();
        faults
    }
}

fn describe(
    error: &ValidationError<'_>,
    root: &Value,
    schema: &Value,
    faults: &mut Vec<(Part, Fault)>,
) {
    let path = key_path(error, root);
    let found = error.instance();
    let message = match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            for key in unexpected {
                faults.push((
                    Part::Key,
                    path.key(key).fault(unknown_key(key, beside(error, schema))),
                ));
            }
            return;
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            match nearest(context, error) {
                Some(inner) => inner
                    .iter()
                    .for_each(|error| describe(error, root, schema, faults)),
                None => faults.push((Part::Value, path.fault(no_branch(context, found, schema)))),
            }
            return;
        }
        ValidationErrorKind::Required { property } => {
            let message = format!("'{}' is missing", property.as_str().unwrap_or_default());
            faults.push((Part::Key, path.fault(message)));
            return;
        }
        kind => sentence(kind, error, beside(error, schema)),
    };
    faults.push((Part::Value, path.fault(message)));
}

/// The message for a value that fails a keyword of the schema `here`.
fn sentence(
    kind: &ValidationErrorKind,
    error: &ValidationError<'_>,
    here: Option<&Value>,
) -> String {
    let found = error.instance();
    let expected = here.and_then(|schema| schema.get("x-expected")?.as_str());
    let is_secret = here.is_some_and(|schema| schema.get("writeOnly").is_some());
    match (kind, expected) {
        (
            ValidationErrorKind::Type { .. } | ValidationErrorKind::Pattern { .. },
            Some(expected),
        ) => {
            if is_secret || found.as_str().is_some_and(|text| text.len() > 60) {
                return format!("expected {expected}");
            }
            format!("expected {expected}, found {}", shown(found))
        }
        (ValidationErrorKind::Type { kind }, None) => {
            format!("expected {}, found {}", types(kind), name_of(found))
        }
        (ValidationErrorKind::Pattern { pattern }, None) => {
            format!("expected a string that matches {pattern}")
        }
        (ValidationErrorKind::Enum { options }, _) => {
            let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
            one_of(&options.iter().collect::<Vec<_>>(), found)
        }
        (ValidationErrorKind::Constant { expected_value }, _) => one_of(&[expected_value], found),
        (ValidationErrorKind::Minimum { limit }, _) => format!("must be at least {limit}"),
        (ValidationErrorKind::Maximum { limit }, _) => format!("must be at most {limit}"),
        (ValidationErrorKind::MinItems { limit: 1 }, _) => "must not be empty".to_owned(),
        (ValidationErrorKind::MinItems { limit }, _) => format!("needs at least {limit} entries"),
        (ValidationErrorKind::MaxItems { limit }, _) => format!("has room for {limit} entries"),
        _ => error.masked_with("this value").to_string(),
    }
}

/// The alternatives that come nearest to what was written: those of its type, and of
/// these the one with the fewest faults. A list of names is the nearest only to a string.
fn nearest<'a>(
    context: &'a [Vec<ValidationError<'static>>],
    error: &ValidationError<'_>,
) -> Option<&'a [ValidationError<'static>]> {
    let here = error.instance_path().as_str();
    let is_other = |inner: &ValidationError<'_>| {
        let is_kind = matches!(
            inner.kind(),
            ValidationErrorKind::Type { .. } | ValidationErrorKind::Constant { .. }
        );
        is_kind && inner.instance_path().as_str() == here
    };
    let is_list = |inner: &ValidationError<'_>| {
        use ValidationErrorKind as Kind;
        let is_kind = matches!(
            inner.kind(),
            Kind::Enum { .. } | Kind::AnyOf { .. } | Kind::OneOfNotValid { .. }
        );
        is_kind && inner.instance_path().as_str() == here && !error.instance().is_string()
    };
    context
        .iter()
        .filter(|errors| !errors.iter().any(is_other))
        .min_by_key(|errors| (errors.iter().any(is_list), errors.len()))
        .map(Vec::as_slice)
}

/// The message for a value that is of none of the possible kinds.
fn no_branch(context: &[Vec<ValidationError<'static>>], found: &Value, schema: &Value) -> String {
    let errors = || context.iter().flatten();
    let constants: Vec<_> = errors()
        .filter_map(|error| match error.kind() {
            ValidationErrorKind::Constant { expected_value } => Some(&**expected_value),
            _ => None,
        })
        .collect();
    if !constants.is_empty() {
        return one_of(&constants, found);
    }
    let mut kinds: Vec<String> = Vec::new();
    for error in errors() {
        let kind = match (
            error.kind(),
            beside(error, schema).and_then(|it| it.get("x-expected")?.as_str()),
        ) {
            (_, Some(expected)) => expected.to_owned(),
            (ValidationErrorKind::Type { kind }, None) => types(kind),
            _ => continue,
        };
        if kind != name_of(&Value::Null) && !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    format!("expected {}, found {}", kinds.join(" or "), name_of(found))
}

fn one_of(options: &[&Value], found: &Value) -> String {
    let names: Vec<_> = options
        .iter()
        .filter_map(|option| option.as_str())
        .collect();
    let known = names.join(", ");
    let Some(found_text) = found.as_str() else {
        return format!("expected one of {known}; found {}", name_of(found));
    };
    match did_you_mean(found_text, names.iter().copied()) {
        Some(near) => format!("expected one of {known}; did you mean '{near}'?"),
        None => format!("expected one of {known}"),
    }
}

fn unknown_key(key: &str, here: Option<&Value>) -> String {
    let known: Vec<_> = here
        .and_then(|schema| schema.get("properties")?.as_object())
        .map(|properties| properties.keys().map(String::as_str).collect())
        .unwrap_or_default();
    if let Some(near) = did_you_mean(key, known.iter().copied()) {
        return format!("unknown key; did you mean '{near}'?");
    }
    if known.len() > LISTED {
        return "unknown key".to_owned();
    }
    format!("unknown key; known are {}", known.join(", "))
}

/// The schema object in which the keyword stands that the value fails.
fn beside<'a>(error: &ValidationError<'_>, schema: &'a Value) -> Option<&'a Value> {
    let (parent, _) = error.schema_path().as_str().rsplit_once('/')?;
    schema.pointer(parent)
}

/// From a JSON pointer to a key path: whether a step is a key or an index shows in the
/// value itself.
fn key_path(error: &ValidationError<'_>, root: &Value) -> KeyPath {
    let mut value = Some(root);
    error
        .instance_path()
        .as_str()
        .split('/')
        .skip(1)
        .map(|step| step.replace("~1", "/").replace("~0", "~"))
        .map(|step| {
            let items = value.and_then(Value::as_array);
            let segment = match (items, step.parse::<usize>()) {
                (Some(_), Ok(index)) => Segment::Index(index),
                _ => Segment::Key(step),
            };
            value = value.and_then(|value| match &segment {
                Segment::Index(index) => value.get(*index),
                Segment::Key(key) => value.get(key),
            });
            segment
        })
        .collect()
}

fn types(kind: &TypeKind) -> String {
    let named: Vec<_> = match kind {
        TypeKind::Single(one) => vec![*one],
        TypeKind::Multiple(set) => set.into_iter().collect(),
    };
    let names: Vec<_> = named
        .into_iter()
        .filter(|kind| *kind != JsonType::Null)
        .map(|kind| match kind {
            JsonType::Array => "a list",
            JsonType::Boolean => "true or false",
            JsonType::Integer => "a whole number",
            JsonType::Null => "nothing",
            JsonType::Number => "a number",
            JsonType::Object => "a mapping",
            JsonType::String => "a string",
        })
        .collect();
    if names.is_empty() {
        return "nothing".to_owned();
    }
    names.join(" or ")
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// A short value as it was written; long ones by their kind.
fn shown(value: &Value) -> String {
    /// The text, with escapes for characters that a reader does not see.
    fn visible(text: &str) -> String {
        text.chars().fold(String::new(), |mut shown, c| {
            match is_hidden(c) {
                true => shown.extend(c.escape_unicode()),
                false => shown.push(c),
            }
            shown
        })
    }

    match value {
        Value::String(text) => format!("'{}'", visible(text)),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        other => name_of(other).to_owned(),
    }
}
