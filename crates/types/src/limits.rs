//! How fast a key may go.

use serde::Serialize;
use std::num::NonZeroU32;

/// The limits of a key; `None` where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Requests a minute.
    pub requests: Option<NonZeroU32>,
    /// Input tokens a minute.
    pub input_tokens: Option<NonZeroU32>,
    /// Output tokens a minute.
    pub output_tokens: Option<NonZeroU32>,
    /// Requests at once.
    pub concurrent: Option<NonZeroU32>,
}

impl Limits {
    /// These, and the others where one of these is not set.
    #[must_use]
    pub fn or(self, others: &Self) -> Self {
        Self {
            requests: self.requests.or(others.requests),
            input_tokens: self.input_tokens.or(others.input_tokens),
            output_tokens: self.output_tokens.or(others.output_tokens),
            concurrent: self.concurrent.or(others.concurrent),
        }
    }
}
