//! Items that providers store for keys: responses, conversations, files.

use crate::Unavailable;
use std::{error::Error, fmt, sync::Arc};

/// The provider and credential that store an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAt {
    /// The provider, by name.
    pub provider: Arc<str>,
    /// The credential under which it was created, by name.
    pub credential: Arc<str>,
}

/// Why a key may not name a stored item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerFailure {
    /// Another key created it, or its owner is unknown: 404.
    NotOwned,
    /// The ledger does not answer now: 503.
    Unavailable(Unavailable),
}

impl fmt::Display for OwnerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOwned => f.write_str("not made by this key"),
            Self::Unavailable(cause) => cause.fmt(f),
        }
    }
}

impl Error for OwnerFailure {}

impl From<Unavailable> for OwnerFailure {
    fn from(cause: Unavailable) -> Self {
        Self::Unavailable(cause)
    }
}

/// Whether a key may send items with these ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// No other key owns any of them.
    Allowed,
    /// Another key owns this item, or its owner must be known and is not.
    NotOwned(String),
    /// The ledger does not answer now.
    Unavailable(Unavailable),
}
