//! What a filter declares about itself: its name, what it wants, how it is built.

use crate::{DynFilter, Services};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A filter as the configuration knows it: one row of the table of filters.
pub struct FilterKind {
    /// The name under `filters` in the configuration.
    pub name: &'static str,
    /// What it decides, in one line.
    pub summary: &'static str,
    /// What it wants to see.
    pub wants: Wants,
    /// The names of filters that must stand before it in the list.
    pub after: &'static [&'static str],
    /// Whether every configuration must have it.
    pub required: bool,
    /// Builds it from its own settings, or says everything that is wrong with them.
    pub build: fn(&Value, &Services) -> Built,
}

/// A filter, or everything that is wrong with its settings.
pub type Built = Result<DynFilter, Vec<SettingsFault>>;

/// What a filter wants to see. It pays for that alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// The request's body, peeked: it then runs once the body was read, which is after
    /// the key was accepted.
    pub body: bool,
    /// Requests for what a provider has stored as well: they have no body to peek at. For a
    /// filter that runs behind the body alone; one before it sees every request.
    pub stored: bool,
    /// The head of every answer.
    pub answer: bool,
    /// Every error before it leaves.
    pub error: bool,
}

/// A fault in a filter's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsFault {
    /// Where, relative to the filter's entry (`limits.burst`); empty for the entry itself.
    pub path: String,
    /// What is wrong and what would be right.
    pub message: String,
}

/// Reads the settings of a filter into its own type, which should deny unknown fields.
///
/// # Errors
///
/// A [`SettingsFault`] that names the field.
pub fn settings<T: DeserializeOwned>(value: &Value) -> Result<T, Vec<SettingsFault>> {
    // An entry that is a bare name has no settings at all.
    let empty = Value::Object(serde_json::Map::new());
    let value = if value.is_null() { &empty } else { value };
    serde_path_to_error::deserialize(value).map_err(|fault| {
        let path = fault.path().to_string();
        vec![SettingsFault {
            path: if path == "." { String::new() } else { path },
            message: fault.into_inner().to_string(),
        }]
    })
}

/// For a filter without settings: refuses every one that is given.
///
/// # Errors
///
/// A [`SettingsFault`] that names the unknown setting.
pub fn no_settings(value: &Value) -> Result<(), Vec<SettingsFault>> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct NoSettings {}
    settings::<NoSettings>(value).map(|NoSettings {}| ())
}
