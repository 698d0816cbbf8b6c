//! Typed access to the fields of a request, with the faults that each vendor reports for
//! a field that is missing, of another type or out of bounds.

use crate::format::Fault;
use serde_json::{Map, Value};
use std::fmt::Display;

/// Whose sentences the faults use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vendor {
    OpenAi,
    Anthropic,
}

/// The fields of one object in a request.
pub(crate) struct Fields<'a> {
    vendor: Vendor,
    /// Where the object stands, `messages[1]` or `messages.1`; empty at the top.
    path: String,
    fields: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// The fields of `value`, which stands at `path`.
    ///
    /// # Errors
    /// A fault if it is no object.
    pub(crate) fn of(value: &'a Value, path: &str, vendor: Vendor) -> Result<Self, Fault> {
        match value {
            Value::Object(fields) => Ok(Self {
                vendor,
                path: path.to_owned(),
                fields,
            }),
            other => Err(wrong_type(vendor, path, "an object", other)),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    /// # Errors
    /// A fault that names the first field which `known` does not list.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Fault> {
        let Some(name) = self
            .fields
            .keys()
            .find(|name| !known.contains(&name.as_str()))
        else {
            return Ok(());
        };
        let path = self.path_of(name);
        Err(match self.vendor {
            Vendor::OpenAi => Fault::bad_request(format!("Unknown parameter: '{path}'."))
                .at(&path)
                .code("unknown_parameter"),
            Vendor::Anthropic => {
                Fault::bad_request(format!("{path}: Extra inputs are not permitted"))
            }
        })
    }

    /// # Errors
    /// A fault if the field is missing or null.
    pub(crate) fn required(&self, name: &str) -> Result<&'a Value, Fault> {
        self.get(name).ok_or_else(|| self.missing(name))
    }

    /// # Errors
    /// A fault if the field is there and no text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, Fault> {
        self.typed(name, "a string", Value::as_str)
    }

    /// # Errors
    /// A fault if the field is there and no list.
    pub(crate) fn list(&self, name: &str) -> Result<Option<&'a Vec<Value>>, Fault> {
        self.typed(name, "an array", Value::as_array)
    }

    /// # Errors
    /// A fault if the field is there and neither true nor false.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Fault> {
        self.typed(name, "a boolean", Value::as_bool)
    }

    /// # Errors
    /// A fault if the field is there and no object.
    pub(crate) fn object(&self, name: &str) -> Result<Option<&'a Value>, Fault> {
        self.typed(name, "an object", |value| {
            value.is_object().then_some(value)
        })
    }

    /// # Errors
    /// A fault if the field is there and not an integer within the bounds.
    pub(crate) fn integer(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, Fault> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        if value.as_i64().is_some_and(|number| number < 0) && least <= most {
            return Err(self.beyond(name, "integer", Edge::Least(&least), value));
        }
        let number = value
            .as_u64()
            .ok_or_else(|| self.wrong(name, "an integer", value))?;
        match number {
            number if number < least => {
                Err(self.beyond(name, "integer", Edge::Least(&least), value))
            }
            number if number > most => Err(self.beyond(name, "integer", Edge::Most(&most), value)),
            number => Ok(Some(number)),
        }
    }

    /// # Errors
    /// A fault if the field is there and not a number within the bounds.
    pub(crate) fn number(&self, name: &str, least: f64, most: f64) -> Result<Option<f64>, Fault> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let number = value
            .as_f64()
            .ok_or_else(|| self.wrong(name, "a decimal", value))?;
        match number {
            number if number < least => {
                Err(self.beyond(name, "decimal", Edge::Least(&least), value))
            }
            number if number > most => Err(self.beyond(name, "decimal", Edge::Most(&most), value)),
            number => Ok(Some(number)),
        }
    }

    /// The fault of a field whose value is none of those that it may have.
    pub(crate) fn not_one_of(&self, name: &str, value: &str, known: &[&str]) -> Fault {
        let path = self.path_of(name);
        let quoted: Vec<_> = known.iter().map(|one| format!("'{one}'")).collect();
        let known = quoted.join(", ");
        match self.vendor {
            Vendor::OpenAi => Fault::bad_request(format!(
                "Invalid value: '{value}'. Supported values are: {known}."
            ))
            .at(&path)
            .code("invalid_value"),
            Vendor::Anthropic => {
                Fault::bad_request(format!("{path}: Input should be one of {known}"))
            }
        }
    }

    fn typed<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        read(value)
            .map(Some)
            .ok_or_else(|| self.wrong(name, expected, value))
    }

    fn missing(&self, name: &str) -> Fault {
        let path = self.path_of(name);
        match self.vendor {
            Vendor::OpenAi if path == "model" => {
                Fault::bad_request("you must provide a model parameter").at("model")
            }
            Vendor::OpenAi => Fault::bad_request(format!("Missing required parameter: '{path}'."))
                .at(&path)
                .code("missing_required_parameter"),
            Vendor::Anthropic => Fault::bad_request(format!("{path}: Field required")),
        }
    }

    fn wrong(&self, name: &str, expected: &str, value: &Value) -> Fault {
        wrong_type(self.vendor, &self.path_of(name), expected, value)
    }

    fn beyond(&self, name: &str, kind: &str, edge: Edge<'_>, value: &Value) -> Fault {
        let path = self.path_of(name);
        let (side, sign, words, bound) = match edge {
            Edge::Least(bound) => ("below minimum", ">=", "greater", bound),
            Edge::Most(bound) => ("above maximum", "<=", "less", bound),
        };
        match self.vendor {
            Vendor::OpenAi => Fault::bad_request(format!(
                "Invalid '{path}': {kind} {side} value. Expected a value {sign} {bound}, but got {value} instead."
            ))
            .at(&path)
            .code(match (kind, sign) {
                ("integer", ">=") => "integer_below_min_value",
                ("integer", _) => "integer_above_max_value",
                (_, ">=") => "decimal_below_min_value",
                _ => "decimal_above_max_value",
            }),
            Vendor::Anthropic => Fault::bad_request(format!(
                "{path}: Input should be {words} than or equal to {bound}"
            )),
        }
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }
}

#[derive(Clone, Copy)]
enum Edge<'a> {
    Least(&'a dyn Display),
    Most(&'a dyn Display),
}

/// Where element `index` of the list `name` stands, as the vendor writes it.
pub(crate) fn element(vendor: Vendor, name: &str, index: usize) -> String {
    match vendor {
        Vendor::OpenAi => format!("{name}[{index}]"),
        Vendor::Anthropic => format!("{name}.{index}"),
    }
}

pub(crate) fn wrong_type(vendor: Vendor, path: &str, expected: &str, value: &Value) -> Fault {
    let got = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a decimal number",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    match vendor {
        Vendor::OpenAi => Fault::bad_request(format!(
            "Invalid type for '{path}': expected {expected}, but got {got} instead."
        ))
        .at(path)
        .code("invalid_type"),
        Vendor::Anthropic => {
            let expected = expected.trim_start_matches("an ").trim_start_matches("a ");
            Fault::bad_request(format!("{path}: Input should be a valid {expected}"))
        }
    }
}
