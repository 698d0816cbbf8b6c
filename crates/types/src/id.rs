//! Identifiers.

use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// The public identifier of an API key: safe to log, no secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyId(Arc<str>);

impl KeyId {
    /// Wraps an identifier as the ledger made it.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The identifier as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The identifier of one request: `req_` and 26 characters, first a millisecond
/// clock and then randomness, so that identifiers sort by time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId([u8; Self::LEN]);

impl RequestId {
    const PREFIX: &[u8; 4] = b"req_";
    const LEN: usize = 30;
    /// Crockford's base 32, as in ULIDs.
    const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

    /// Composes an identifier from a clock (milliseconds since 1970, 48 bits) and 80 bits of
    /// randomness (the low bits of `random`).
    pub fn from_parts(unix_ms: u64, random: u128) -> Self {
        const RANDOM_BITS: u32 = 80;
        let value = (u128::from(unix_ms) << RANDOM_BITS) | (random & ((1 << RANDOM_BITS) - 1));
        let mut text = [0; Self::LEN];
        let (prefix, digits) = text.split_at_mut(Self::PREFIX.len());
        prefix.copy_from_slice(Self::PREFIX);
        for (place, digit) in digits.iter_mut().rev().enumerate() {
            let five_bits = (value >> (5 * place)) & 31;
            *digit = Self::ALPHABET
                .get(five_bits as usize)
                .copied()
                .unwrap_or(b'0');
        }
        Self(text)
    }

    /// From text that was an identifier once; `None` where it has not its length.
    pub fn from_text(text: &str) -> Option<Self> {
        let text = text.is_ascii().then_some(text)?;
        text.as_bytes().try_into().ok().map(Self)
    }

    /// The identifier as text.
    pub fn as_str(&self) -> &str {
        // Only ASCII is ever put in.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_sort_by_time_and_have_one_length() {
        let early = RequestId::from_parts(1_790_000_000_000, u128::MAX);
        let late = RequestId::from_parts(1_790_000_000_001, 0);
        assert!(early < late, "{early} {late}");
        assert_eq!(early.as_str().len(), 30);
        assert!(late.as_str().starts_with("req_01"), "{late}");
    }
}
