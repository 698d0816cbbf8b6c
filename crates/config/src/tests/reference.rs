//! The reference of the configuration for people, made from the schema.
//!
//! docs/reference/configuration.md holds it; a test sees that it is up to date.

use super::schema;
use serde_json::{Map, Value};
use std::fmt::Write;

const HEAD: &str = "\
# Configuration

<!-- Written from the types by `TOLLGATE_BLESS=1 cargo test -p tollgate-config page`; edit those. -->

The gateway reads one YAML file. An unknown key, a wrong type or a name that leads nowhere is a fault. `tollgate check` reports all
faults at once, with file, line and column. `tollgate schema` prints a JSON Schema for editors. `conf/` has a commented example for
each feature; copy `conf/default.yaml` for the whole catalog. [Change the configuration](../guides/configuration-changes.md) describes
reloads.

- **Durations** are a whole number with a unit: `200ms`, `5s`, `10m`, `2h`, `1d`.
- **Sizes** are bytes: `4096`, or with a unit `64KiB`, `32MiB`, `1GiB` (`kB`, `MB`, `GB` for powers of 1000).
- **Tokens** are a count: `4096`, or `200k`, `10M`, `1G`.
- **Secrets** never stand in the file: `env:NAME` names an environment variable, `file:PATH` a file. A line break at the end of the
  file is not part of the secret.
- **Relative paths** start at the folder of the file in which they stand. This holds for secrets, too.
- YAML anchors, aliases and `<<` work. `yes` and `on` are strings, as in YAML 1.2.

In the tables `<name>` is a key of your choice and `[]` each entry of a list. `-` means no default: the feature is off, unless the
meaning says otherwise.
";

pub(super) fn reference() -> String {
    let mut page = HEAD.to_owned();
    for (name, property) in properties(schema()) {
        let _ = write!(page, "\n## `{name}`\n\n{}\n", meaning(property));
        let mut rows = Vec::new();
        collect(property, name, &About::new(property), &mut rows);
        let (own, inner): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.key == *name);
        if inner.is_empty() {
            for row in own {
                let _ = write!(
                    page,
                    "\n{}; default {}.\n",
                    sentence(&row.kind),
                    row.default
                );
            }
            continue;
        }
        page.push_str("\n| Key | Type | Default | Meaning |\n|---|---|---|---|\n");
        for row in inner {
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} |",
                row.key, row.kind, row.default, row.meaning
            );
        }
    }
    page
}

struct Row {
    key: String,
    kind: String,
    default: String,
    meaning: String,
}

/// What rows of entries take over from the list or mapping that holds them.
#[derive(Clone)]
struct About {
    default: String,
    meaning: String,
}

impl About {
    fn new(schema: &Value) -> Self {
        Self {
            default: schema.get("default").map_or_else(|| "-".to_owned(), shown),
            meaning: meaning(schema).replace('\n', " ").replace('|', "\\|"),
        }
    }
}

/// One row for `schema` itself where it holds a plain value, and those of all within it.
fn collect(schema: &Value, key: &str, about: &About, rows: &mut Vec<Row>) {
    let kinds = alternatives(schema);
    let inner: Vec<_> = kinds.iter().filter(|kind| has_inner(kind)).collect();
    if inner.len() < kinds.len() || inner.is_empty() {
        let kinds: Vec<_> = kinds.iter().map(kind_of).collect();
        rows.push(Row {
            key: key.to_owned(),
            kind: kinds.join(" or "),
            default: about.default.clone(),
            meaning: about.meaning.clone(),
        });
    }
    for kind in inner {
        collect_inner(kind, key, about, rows);
    }
}

fn collect_inner(kind: &Value, key: &str, about: &About, rows: &mut Vec<Row>) {
    let required = kind.get("required").and_then(Value::as_array);
    for (name, property) in properties(kind) {
        let mut about = About::new(property);
        if required.is_some_and(|names| names.iter().any(|it| it == name)) {
            about.default = "required".to_owned();
        }
        collect(property, &format!("{key}.{name}"), &about, rows);
    }
    if let Some(value) = kind.get("additionalProperties").filter(|it| it.is_object()) {
        collect(value, &format!("{key}.<name>"), about, rows);
    }
    if let Some(item) = kind.get("items") {
        let key = format!("{key}[]");
        if alternatives(item).iter().all(has_inner) {
            rows.push(Row {
                key: key.clone(),
                kind: "mapping".to_owned(),
                default: about.default.clone(),
                meaning: about.meaning.clone(),
            });
        }
        collect(item, &key, about, rows);
    }
}

/// Whether there are keys or entries below, worth rows of their own.
fn has_inner(kind: &Value) -> bool {
    let holds_more = |inner: &Value| alternatives(inner).iter().any(has_inner);
    !properties(kind).is_empty()
        || kind
            .get("additionalProperties")
            .is_some_and(Value::is_object)
        || kind.get("items").is_some_and(holds_more)
}

/// What a value may be, references followed, null left out.
fn alternatives(schema: &Value) -> Vec<Value> {
    let schema = follow(schema);
    let branches = schema.get("anyOf").and_then(Value::as_array);
    let Some(branches) = branches else {
        return vec![schema.clone()];
    };
    branches
        .iter()
        .filter(|branch| branch.get("type") != Some(&Value::from("null")))
        .flat_map(alternatives)
        .collect()
}

fn follow(schema: &Value) -> &Value {
    schema
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|target| super::schema().pointer(target.strip_prefix('#')?))
        .map_or(schema, follow)
}

fn properties(schema: &Value) -> &Map<String, Value> {
    static NONE: once_cell::sync::Lazy<Map<String, Value>> = once_cell::sync::Lazy::new(Map::new);
    schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&NONE)
}

/// The meaning of the place, else that of its type.
fn meaning(schema: &Value) -> String {
    let own = schema.get("description").and_then(Value::as_str);
    let of_type = || {
        alternatives(schema)
            .first()?
            .get("description")?
            .as_str()
            .map(str::to_owned)
    };
    own.map(str::to_owned).or_else(of_type).unwrap_or_default()
}

fn kind_of(kind: &Value) -> String {
    if let Some(title) = kind.get("title").and_then(Value::as_str) {
        return title.to_owned();
    }
    let constants = kind.get("oneOf").and_then(Value::as_array).map(|options| {
        let names = options.iter().filter_map(|option| option.get("const"));
        names.map(shown).collect::<Vec<_>>()
    });
    let options = kind.get("enum").and_then(Value::as_array);
    let options = options.map(|options| {
        options
            .iter()
            .filter(|it| !it.is_null())
            .map(shown)
            .collect()
    });
    if let Some(names) = constants.or(options) {
        return names.join(", ");
    }
    if let Some(item) = kind.get("items") {
        let items: Vec<_> = alternatives(item).iter().map(kind_of).collect();
        return format!("list of {}", items.join(" or "));
    }
    let named = |name: &str| match name {
        "boolean" => "true, false",
        "integer" => "whole number",
        "object" => "mapping",
        "string" => "string",
        _ => "value",
    };
    match kind.get("type") {
        Some(Value::String(name)) => named(name).to_owned(),
        Some(Value::Array(names)) => {
            let names = names.iter().filter_map(Value::as_str);
            names
                .filter(|name| *name != "null")
                .map(named)
                .collect::<Vec<_>>()
                .join(" or ")
        }
        _ => "value".to_owned(),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{text}`"),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Object(pairs) if pairs.is_empty() => "none".to_owned(),
        Value::Null => "-".to_owned(),
        other => format!("`{other}`"),
    }
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}
