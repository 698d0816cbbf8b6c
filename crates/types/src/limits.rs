//! The limits of a key: requests and tokens per minute, concurrent requests.

use crate::{Shortage, Unit};
use serde::Serialize;
use std::{num::NonZeroU32, time::Duration};

/// The limits of a key; `None`: no limit.
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
    /// These limits; those of `others` if one of these is not set.
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

crate::named! {
    /// Which limit.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Dimension {
        /// Requests a minute.
        Requests = "requests",
        /// Input tokens a minute.
        InputTokens = "input_tokens",
        /// Output tokens a minute.
        OutputTokens = "output_tokens",
        /// Requests at once.
        Concurrent = "concurrent",
    }
}

impl Dimension {
    /// The name in error messages.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Requests => "requests a minute",
            Self::InputTokens => "input tokens a minute",
            Self::OutputTokens => "output tokens a minute",
            Self::Concurrent => "requests at one time",
        }
    }
}

/// A limit that has refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitHit {
    /// A limit of the key.
    Key(Dimension),
    /// The balance of the key, which is used up.
    Balance(Unit),
    /// The balance of the key, which its other requests reserve.
    Reserved,
    /// The invalid keys of an address.
    InvalidKeys,
}

impl LimitHit {
    /// Every limit.
    pub const ALL: [Self; 8] = [
        Self::Key(Dimension::Requests),
        Self::Key(Dimension::InputTokens),
        Self::Key(Dimension::OutputTokens),
        Self::Key(Dimension::Concurrent),
        Self::Balance(Unit::Tokens),
        Self::Balance(Unit::Money),
        Self::Reserved,
        Self::InvalidKeys,
    ];

    /// The limit behind a shortage; `None` if it is no limit.
    pub const fn of(shortage: &Shortage) -> Option<Self> {
        match shortage {
            Shortage::Exhausted(unit) => Some(Self::Balance(*unit)),
            Shortage::Busy => Some(Self::Reserved),
            Shortage::Unpriced | Shortage::Expired | Shortage::Unavailable(_) => None,
        }
    }

    /// The name in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Key(dimension) => dimension.as_str(),
            Self::Balance(Unit::Tokens) => "balance_tokens",
            Self::Balance(Unit::Money) => "balance_money",
            Self::Reserved => "balance_reserved",
            Self::InvalidKeys => "invalid_keys",
        }
    }
}

/// A request that exceeds a limit: 429.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    /// The limit that it exceeds.
    pub dimension: Dimension,
    /// Whether a retry helps.
    pub denied: Denied,
}

/// Why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// It will fit after this wait, unless another request comes first.
    Wait(Duration),
    /// It is more than the limit itself: it never fits.
    NeverFits,
}
