//! Why the gateway refuses a body, and the message for the caller.

use crate::json::JsonError;
use std::fmt::Write as _;
use tollgate_types::{ErrorCode, PublicError};

/// The status of a malformed `model`; an unknown one has another.
const BAD_REQUEST: u16 = 400;

/// Why a request body cannot be acted on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeekError {
    /// The body is not JSON, or nested too deeply.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The body is JSON, but no object.
    #[error("the request body must be a JSON object")]
    NotAnObject,
    /// A key stands twice in an object that is read.
    #[error("the key {key} is given twice (again at byte {at}); give it once")]
    DuplicateKey {
        /// The key: quoted, escaped and shortened.
        key: String,
        /// Where it stands for the second time.
        at: u64,
    },
    /// A key of an object that is read differs from a known one in case only.
    #[error("the key {key} differs from '{known}' in case only (at byte {at}); write '{known}'")]
    KeyCase {
        /// The key: quoted, escaped and shortened.
        key: String,
        /// The known key.
        known: String,
        /// Where the key stands.
        at: u64,
    },
    /// An object that is read has too many keys.
    #[error("an object has more than {limit} keys at byte {at}")]
    TooManyKeys {
        /// How many are allowed.
        limit: usize,
        /// Where the first stands that is too many.
        at: u64,
    },
    /// A key of an object that is read is too long.
    #[error("the key at byte {at} is longer than {limit} bytes")]
    KeyTooLong {
        /// How many bytes are allowed.
        limit: usize,
        /// Where the key stands.
        at: u64,
    },
    /// The model is not named as it must be.
    #[error("{0}")]
    Model(ModelFault),
    /// A field has a value that it cannot have.
    #[error("'{field}' must be {wanted} (at byte {at})")]
    Field {
        /// The field's path.
        field: &'static str,
        /// The required value.
        wanted: &'static str,
        /// Where its value stands.
        at: u64,
    },
    /// An entry of a top-level list, or a member of one, is not what it must be.
    #[error("'{list}[{index}]{field}' {problem} (at byte {at})")]
    Entry {
        /// The list.
        list: &'static str,
        /// The entry, counted from 0.
        index: u32,
        /// The member with a point before it; empty for the entry itself.
        field: &'static str,
        /// The fault.
        problem: &'static str,
        /// Where its value stands, or the entry that lacks it.
        at: u64,
    },
    /// A field that is acted on stands in `extra_body`.
    #[error(
        "'{key}' is not taken from 'extra_body' (at byte {at}): put it into the request itself"
    )]
    Extra {
        /// The field.
        key: String,
        /// Where it stands.
        at: u64,
    },
    /// A field is absent that must be there.
    #[error("'{field}' is required: {wanted}")]
    Missing {
        /// The field's name.
        field: &'static str,
        /// The required value.
        wanted: &'static str,
    },
    /// The request names too many stored items.
    #[error("the request names more than {limit} stored items (files, containers, responses …)")]
    TooManyStoredIds {
        /// How many are allowed.
        limit: usize,
    },
    /// The identifier of a stored item is too long.
    #[error("the identifier at byte {at} is longer than {limit} bytes")]
    StoredIdTooLong {
        /// How many bytes are allowed.
        limit: usize,
        /// Where it stands.
        at: u64,
    },
}

/// The fault of the `model` of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelFault {
    /// The field is absent.
    #[error("'model' is required: the name of a model, as GET /v1/models lists them")]
    Missing,
    /// The field is no string.
    #[error("'model' must be a string: the name of a model, as GET /v1/models lists them")]
    NotAString,
    /// The field is an empty string.
    #[error("'model' must not be empty; GET /v1/models lists the models")]
    Empty,
    /// The name is longer than the given number of bytes.
    #[error("'model' is longer than {0} bytes; GET /v1/models lists the models")]
    TooLong(usize),
}

impl PeekError {
    /// The longest piece of the caller's text that is echoed, in characters.
    const ECHO: usize = 40;

    /// A key that was given twice.
    pub(super) fn duplicate(key: &str, at: u64) -> Self {
        let key = Self::shown(key);
        Self::DuplicateKey { key, at }
    }

    /// A key that differs from a known one in case only.
    pub(super) fn wrong_case(key: &str, known: String, at: u64) -> Self {
        let key = Self::shown(key);
        Self::KeyCase { key, known, at }
    }

    /// A key: quoted, escaped and shortened.
    fn shown(key: &str) -> String {
        let mut shown = String::from("\"");
        for character in key.chars().take(Self::ECHO) {
            let _ = write!(shown, "{}", character.escape_default());
        }
        let cut = key.chars().nth(Self::ECHO).is_some();
        shown.push_str(if cut { "…\"" } else { "\"" });
        shown
    }

    /// The path of the field at fault, where one is known.
    fn param(&self) -> Option<Box<str>> {
        match self {
            Self::Model(_) => Some("model".into()),
            Self::Field { field, .. } | Self::Missing { field, .. } => Some((*field).into()),
            Self::Entry {
                list, index, field, ..
            } => Some(format!("{list}[{index}]{field}").into()),
            _ => None,
        }
    }

    /// The error as the caller sees it.
    pub fn public(&self) -> PublicError {
        let error = match self {
            Self::Model(fault) => PublicError::new(ErrorCode::InvalidModel, fault.to_string())
                .with_status(BAD_REQUEST),
            other => PublicError::invalid_request(other.message()),
        };
        match self.param() {
            Some(param) => error.with_param(param),
            None => error,
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Json(fault) if fault.is_too_deep() => {
                format!("The request body is {fault}.")
            }
            Self::Json(fault) => format!("The request body is not valid JSON: {fault}."),
            other => {
                let text = other.to_string();
                let mut rest = text.chars();
                let first = rest.next().map(|c| c.to_ascii_uppercase());
                first.into_iter().chain(rest).chain(['.']).collect()
            }
        }
    }
}
