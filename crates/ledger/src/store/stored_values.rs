//! Values as every database keeps them: signed integers of 64 bits, and lists of names in JSON.

use super::StoreError;
use crate::{
    clock::Timestamp,
    record::{KeyRecord, allowance},
};
use std::{num::NonZeroU32, sync::Arc};
use tollgate_types::{Allowance, Identity, KeyId, KeyShares, Limits};

/// Reads a stored time; `None` if it is before 1970.
pub(super) fn stored_time(ms: i64) -> Option<Timestamp> {
    u64::try_from(ms).ok().map(Timestamp::from_unix_ms)
}

/// A time as it is stored; [`Timestamp::MAX`] is far below the limit.
pub(super) fn storable_time(time: Timestamp) -> i64 {
    i64::try_from(time.unix_ms()).unwrap_or(i64::MAX)
}

/// An amount as it is stored. Four quadrillion is more than any request is charged, and sums of it stay
/// far from the end.
pub(super) fn storable(value: u64) -> i64 {
    const MOST: u64 = 1 << 52;
    i64::try_from(value.min(MOST)).unwrap_or(i64::MAX)
}

/// Reads a stored amount; one below zero cannot be, and counts as nothing.
pub(super) fn amount(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}

/// A key as its row keeps it.
pub(super) struct StoredKey {
    pub(super) id: String,
    pub(super) prefix: Box<str>,
    pub(super) name: String,
    pub(super) plan: Option<String>,
    pub(super) groups: Option<String>,
    pub(super) endpoints: Option<String>,
    pub(super) created_at: i64,
    pub(super) expires_at: Option<i64>,
    pub(super) revoked_at: Option<i64>,
    /// Requests, input tokens, output tokens and concurrent requests.
    pub(super) limits: [Option<i64>; 4],
    pub(super) granted_until: Option<i64>,
    /// It has a grant of money.
    pub(super) pays_money: bool,
}

impl StoredKey {
    /// The key.
    ///
    /// # Errors
    /// The row is malformed.
    pub(super) fn record(self) -> Result<KeyRecord, StoreError> {
        let id = &self.id;
        let bad = |what| StoreError::BadRecord {
            id: id.clone(),
            what,
        };
        let time = |ms: Option<i64>, what| match ms {
            None => Ok(None),
            Some(ms) => stored_time(ms).map(Some).ok_or_else(|| bad(what)),
        };
        // An impossible limit becomes the smallest one, not none.
        let least = |number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
        let limit = |stored: i64| least(u32::try_from(stored).unwrap_or(0));
        let [requests, input_tokens, output_tokens, concurrent] =
            self.limits.map(|it| it.map(limit));
        let names = |json: Option<&str>, what| names_from_json(json).ok_or_else(|| bad(what));
        let identity = Identity {
            key: KeyId::new(id.as_str()),
            name: self.name,
            plan: self.plan,
            groups: names(self.groups.as_deref(), "its groups")?,
            endpoints: names(self.endpoints.as_deref(), "its endpoints")?,
            limits: Limits {
                requests,
                input_tokens,
                output_tokens,
                concurrent,
            },
            pays_money: self.pays_money,
            shares: KeyShares::default(),
        };
        Ok(KeyRecord {
            identity: Arc::new(identity),
            prefix: self.prefix,
            created_at: stored_time(self.created_at).ok_or_else(|| bad("its creation time"))?,
            expires_at: time(self.expires_at, "its expiry")?,
            revoked_at: time(self.revoked_at, "its revocation time")?,
            granted_until: time(self.granted_until, "a grant's end")?,
        })
    }
}

/// Names as they are stored; `None` for all.
pub(super) fn names_to_json(allowance: &Allowance) -> Option<String> {
    match allowance {
        Allowance::All => None,
        Allowance::Only(names) => Some(serde_json::Value::from(names.as_slice()).to_string()),
    }
}

/// An empty list is refused: it allows nothing, and would come out as all.
fn names_from_json(json: Option<&str>) -> Option<Allowance> {
    let Some(json) = json else {
        return Some(Allowance::All);
    };
    let names: Vec<String> = serde_json::from_str(json).ok()?;
    (!names.is_empty()).then(|| allowance(names))
}
