//! Token usage in its canonical form.

use serde::{Deserialize, Serialize};

/// Tokens of one request, in exclusive form: no token is counted in two fields.
///
/// Chat and responses report inclusively (`prompt_tokens` contains the cached
/// ones); messages reports exclusively. The wire crate converts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that were neither read from nor written to a cache.
    pub input: u64,
    /// Input tokens read from the provider's prompt cache.
    pub cache_read: u64,
    /// Input tokens written to the provider's prompt cache.
    pub cache_write: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// The part of the output tokens that was reasoning.
    pub reasoning: u64,
}

impl Usage {
    /// All input tokens: what chat and responses call `prompt_tokens` and `input_tokens`.
    pub const fn total_input(&self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }

    /// All tokens of the request.
    pub const fn total(&self) -> u64 {
        self.total_input().saturating_add(self.output)
    }
}
