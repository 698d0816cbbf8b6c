//! Why a request cannot be translated: the field, and what would be right.

use std::fmt;
use tollgate_types::{ErrorCode, PublicError};

/// A request that cannot be translated. Every word of it is the gateway's own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Refusal {
    /// Where in the request, as `messages[2].content[0].source`; empty for the body itself.
    pub path: String,
    /// The fault and its correction.
    pub message: String,
}

impl Refusal {
    /// A refusal of the field at `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "'{}' {}", self.path, self.message)
    }
}

impl From<Refusal> for PublicError {
    fn from(refusal: Refusal) -> Self {
        let error = Self::new(ErrorCode::InvalidRequest, refusal.to_string());
        match refusal.path.is_empty() {
            true => error,
            false => error.with_param(refusal.path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_path_of_the_field_if_a_field_is_at_fault() {
        let of = |path: &str| PublicError::from(Refusal::new(path, "cannot be sent"));
        let field = of("messages[2].content");
        assert_eq!(field.param.as_deref(), Some("messages[2].content"));
        assert_eq!(field.message, "'messages[2].content' cannot be sent");
        assert_eq!(of("").param, None);
    }
}
