//! The declaration of a filter: its name, when it runs, how it is built.

use crate::{DynFilter, Services};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The description of a filter: one row in the table of filters.
pub struct FilterKind {
    /// Its name under `filters` in the configuration.
    pub name: &'static str,
    /// Its decision, in one line.
    pub summary: &'static str,
    /// When it runs.
    pub phases: Phases,
    /// The names of the filters that must precede it in the configuration.
    pub after: &'static [&'static str],
    /// Whether every configuration must contain it.
    pub required: bool,
    /// Builds it from its settings, or returns every fault in them. Runs once per configuration.
    pub build: fn(&Value, &Services) -> Built,
}

/// A filter, or every fault in its settings.
pub type Built = Result<DynFilter, Vec<SettingsFault>>;

/// When a filter runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// After the request's body was read. A filter without `body` runs on every request, and before the
    /// body is read unless it stands after a filter with `body`.
    pub body: bool,
    /// With `body`: also on requests for stored responses, which have no body.
    pub stored: bool,
    /// With `body`: also on requests for the paths of providers that the configuration opens, whose
    /// body is not read.
    pub passthrough: bool,
    /// Before the head of each answer is sent.
    pub answer: bool,
    /// Before each error is sent.
    pub error: bool,
}

impl Phases {
    /// Only the head of the request.
    pub const HEAD: Self = Self {
        body: false,
        stored: false,
        passthrough: false,
        answer: false,
        error: false,
    };

    /// The head and the body of the request.
    pub const BODY: Self = Self {
        body: true,
        ..Self::HEAD
    };
}

/// A fault in a filter's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsFault {
    /// The key in the filter's entry, such as `limits.burst`. Empty for the entry itself.
    pub path: String,
    /// The fault, and the right value.
    pub message: String,
}

/// Reads the settings of a filter into its type. The type should deny unknown fields.
///
/// # Errors
///
/// The field that cannot be read.
pub fn settings<T: DeserializeOwned>(value: &Value) -> Result<T, Vec<SettingsFault>> {
    // An entry without settings is null; serde needs an empty object to apply the defaults.
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

/// Checks that a filter without settings gets none.
///
/// # Errors
///
/// The setting that it gets.
pub fn no_settings(value: &Value) -> Result<(), Vec<SettingsFault>> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct NoSettings {}
    settings::<NoSettings>(value).map(|NoSettings {}| ())
}
