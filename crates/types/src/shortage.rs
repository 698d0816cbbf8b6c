//! Why a ledger does not answer, and why it reserves nothing.

use crate::{ErrorCode, LimitHit, PublicError, Unit};
use std::{error::Error, fmt, sync::Arc};

/// Why the store could not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// Too many look-ups are waiting already.
    Overloaded,
    /// The store did not answer in time.
    TimedOut,
    /// The store failed.
    Store(Arc<str>),
    /// More settlements wait to be committed than there is room for.
    Backlog,
    /// Settlements cannot be committed; the ledger logs the reason once a second.
    Stalled(Arc<str>),
    /// The process is shutting down.
    Closed,
    /// This process is fenced in the ledger, and ends.
    Fenced,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overloaded => f.write_str("too many look-ups are waiting"),
            Self::TimedOut => f.write_str("the store did not answer in time"),
            Self::Store(cause) => write!(f, "the store failed: {cause}"),
            Self::Backlog => f.write_str("too many settlements wait to be committed"),
            Self::Stalled(cause) => write!(f, "settlements cannot be committed: {cause}"),
            Self::Closed => f.write_str("the store is closed"),
            Self::Fenced => f.write_str("this process is fenced in the ledger, and ends"),
        }
    }
}

impl Error for Unavailable {}

/// Why nothing is reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Too little is left in a unit: 402.
    Exhausted(Unit),
    /// The key pays in money, and the price of the request is unknown: 403.
    Unpriced,
    /// The validity of all grants has passed: 401.
    Expired,
    /// Too little is left only because other requests reserve the rest: 429.
    Busy,
    /// The ledger does not answer now: 503.
    Unavailable(Unavailable),
}

impl Shortage {
    /// The error for the client.
    pub fn public(&self) -> PublicError {
        let error = match self {
            Self::Exhausted(unit) => PublicError::new(
                ErrorCode::QuotaExhausted,
                match unit {
                    Unit::Tokens => {
                        "the API key has too few tokens left for this request: GET /v1/usage shows them"
                    }
                    Unit::Money => {
                        "the API key has too little money left for this request: GET /v1/usage shows it"
                    }
                },
            ),
            Self::Unpriced => PublicError::new(
                ErrorCode::PermissionDenied,
                "the API key pays in money, and no deployment that can serve this request has a price",
            ),
            // A key whose grants have all expired is expired, and gets the same answer as an unknown key.
            Self::Expired => PublicError::invalid_api_key(),
            Self::Busy => PublicError::new(
                ErrorCode::RateLimitExceeded,
                "the rest of the API key's balance is reserved by its other requests or leased to another \
                 process of the gateway; retry in a few seconds",
            ),
            Self::Unavailable(_) => PublicError::new(
                ErrorCode::ServiceUnavailable,
                "balances cannot be checked now; retry in a few seconds",
            ),
        };
        error.with_limit(LimitHit::of(self))
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exhausted(Unit::Tokens) => f.write_str("too few tokens are left"),
            Self::Exhausted(Unit::Money) => f.write_str("too little money is left"),
            Self::Unpriced => f.write_str("the price is unknown"),
            Self::Expired => f.write_str("all grants have expired"),
            Self::Busy => f.write_str("other requests reserve what is left"),
            Self::Unavailable(cause) => cause.fmt(f),
        }
    }
}

impl Error for Shortage {}

impl From<Unavailable> for Shortage {
    fn from(cause: Unavailable) -> Self {
        Self::Unavailable(cause)
    }
}
