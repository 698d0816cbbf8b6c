//! Identifiers.

use serde::{Deserialize, Serialize};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The public identifier of an API key: not a secret, safe to log.
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
    pub const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

    /// Composes an identifier from a clock (milliseconds since 1970, 48 bits) and 80 bits of
    /// randomness (the low bits of `random`).
    pub fn from_parts(unix_ms: u64, random: u128) -> Self {
        const RANDOM_BITS: u32 = 80;
        let value = (u128::from(unix_ms) << RANDOM_BITS) | (random & ((1 << RANDOM_BITS) - 1));
        let mut text = [0; Self::LEN];
        let (prefix, digits) = text.split_at_mut(Self::PREFIX.len());
        prefix.copy_from_slice(Self::PREFIX);
        for (index, digit) in digits.iter_mut().rev().enumerate() {
            let five_bits = (value >> (5 * index)) & 31;
            *digit = Self::ALPHABET
                .get(five_bits as usize)
                .copied()
                .unwrap_or(b'0');
        }
        Self(text)
    }

    /// The time at which the request arrived; 1970 if the identifier is not the gateway's.
    pub fn time(&self) -> SystemTime {
        const TIME: std::ops::Range<usize> = RequestId::PREFIX.len()..RequestId::PREFIX.len() + 10;
        let digits = self.0.get(TIME).unwrap_or_default().iter();
        let mut values = digits.map(|digit| Self::ALPHABET.iter().position(|it| it == digit));
        let ms = values.try_fold(0_u64, |ms, value| Some(ms << 5 | value? as u64));
        UNIX_EPOCH + Duration::from_millis(ms.unwrap_or(0))
    }

    /// From the text of an identifier; `None` if its length is wrong.
    pub fn from_text(text: &str) -> Option<Self> {
        let text = text.is_ascii().then_some(text)?;
        text.as_bytes().try_into().ok().map(Self)
    }

    /// The request whose answer the gateway remembers, from the id of that answer (`resp_` and the
    /// 26 characters) or of an item of it (`msg_`, the characters, `_0`). `None`: not an id of the
    /// gateway.
    pub fn in_answer_id(id: &str) -> Option<Self> {
        let (_, rest) = id.split_once('_')?;
        let (digits, item) = rest.split_at_checked(Self::LEN - Self::PREFIX.len())?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        let is_ours = digits.bytes().all(|it| Self::ALPHABET.contains(&it));
        if !is_ours || !(item.is_empty() || item.strip_prefix('_').is_some_and(is_number)) {
            return None;
        }
        let mut text = [0; Self::LEN];
        let (prefix, rest) = text.split_at_mut(Self::PREFIX.len());
        prefix.copy_from_slice(Self::PREFIX);
        rest.copy_from_slice(digits.as_bytes());
        Some(Self(text))
    }

    /// The request whose answer the gateway remembers under this id. `None`: not an answer's id of
    /// the gateway.
    pub fn of_answer(id: &str) -> Option<Self> {
        Self::in_answer_id(id).filter(|request| request.as_answer_id() == id)
    }

    /// The id of the answer that the gateway remembers of this request.
    pub fn as_answer_id(&self) -> String {
        let (_, digits) = self.as_str().split_at(Self::PREFIX.len());
        format!("resp_{digits}")
    }

    /// The identifier as text.
    pub fn as_str(&self) -> &str {
        // Always ASCII.
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
    fn an_answer_and_its_items_lead_back_to_their_request_and_no_other_id_does() {
        let request = RequestId::from_parts(1_790_000_000_000, 7);
        let digits = &request.as_str()[4..];
        for id in [
            format!("resp_{digits}"),
            format!("msg_{digits}_0"),
            format!("rs_{digits}_17"),
        ] {
            assert_eq!(RequestId::in_answer_id(&id), Some(request), "{id}");
        }
        assert_eq!(request.as_answer_id(), format!("resp_{digits}"));
        assert_eq!(RequestId::of_answer(&request.as_answer_id()), Some(request));
        assert_eq!(RequestId::of_answer(&format!("msg_{digits}_0")), None);
        for id in [
            format!("resp_{digits}0"),
            format!("msg_{digits}_"),
            format!("msg_{digits}_x"),
            format!("resp_{}", digits.to_lowercase()),
            "resp_0123456789abcdef0123456789abcdef".to_owned(),
            "resp_".to_owned(),
            digits.to_owned(),
        ] {
            assert_eq!(RequestId::in_answer_id(&id), None, "{id}");
        }
    }

    #[test]
    fn identifiers_sort_by_time_and_have_one_length() {
        let early = RequestId::from_parts(1_790_000_000_000, u128::MAX);
        let late = RequestId::from_parts(1_790_000_000_001, 0);
        assert!(early < late, "{early} {late}");
        assert_eq!(early.as_str().len(), 30);
        assert!(late.as_str().starts_with("req_01"), "{late}");
    }
}
