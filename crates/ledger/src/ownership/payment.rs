//! Whether a stored response has been paid for.
//!
//! A request whose caller disconnected, whose provider broke off, or whose answer had no usage is charged an
//! estimate. Its provider may have finished and stored the whole response. The record of that request shows it.
//! The rest is charged when the response is retrieved, under a request id that is derived from the first one, so
//! that charging it again changes nothing.

use super::{AT_START, Inner, Known, Ownership, Stored};
use crate::{
    bounded_cache::bounded_cache,
    charge::{BillingState, CountSource},
    clock::Timestamp,
    directory::Unavailable,
    history::UsageRecord,
    store::StoreError,
};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use std::{collections::HashSet, sync::Arc, time::Duration};
use tollgate_types::{Money, RequestId, Tariff, Usage};

/// The amount due before a response can be retrieved.
#[derive(Debug)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// Unknown yet: the request that made it is not settled, or its record is not committed.
    Unknown,
    /// The usage beyond the estimate.
    Rest(Payable),
}

/// A response whose request was charged an estimate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payable {
    /// The id of the second charge.
    pub request: RequestId,
    /// The requested model.
    pub asked: Arc<str>,
    /// The model that served.
    pub served: Arc<str>,
    /// The usage that was charged.
    pub charged: Usage,
    /// What it cost; `None` if the price was unknown.
    pub cost: Option<Money>,
    /// The weights and prices of the first request; `None` for an item of a response.
    pub tariff: Option<Arc<Tariff>>,
    /// The request saw the response end, but no usage: only a report can show that more is due.
    pub has_ended: bool,
}

impl Payable {
    /// Whether the client of the first request got the response, and paid for its output.
    pub const fn is_seen(&self) -> bool {
        self.has_ended && self.charged.output > 0
    }

    /// The part of `usage` that was not charged.
    #[must_use]
    pub fn rest(&self, usage: &Usage) -> Usage {
        let mut paid = self.charged.total_input();
        let mut less = |tokens: u64| {
            let rest = tokens.saturating_sub(paid);
            paid = paid.saturating_sub(tokens);
            rest
        };
        let output = usage.output.saturating_sub(self.charged.output);
        Usage {
            // An estimate does not distinguish cached tokens.
            input: less(usage.input),
            cache_write: less(usage.cache_write),
            cache_read: less(usage.cache_read),
            output,
            reasoning: usage.reasoning.min(output),
        }
    }
}

/// Responses that have been paid for, and those that are being paid for.
pub(super) struct Paid {
    known: Known<()>,
    under_way: Mutex<HashSet<Arc<str>>>,
}

impl Paid {
    /// No responses. At most `known` are kept in memory.
    pub(super) fn new(known: usize) -> Self {
        Self {
            known: bounded_cache(known, AT_START),
            under_way: Mutex::default(),
        }
    }
}

/// A response that is being paid for, by one request at a time.
pub struct Paying {
    ownership: Ownership,
    id: Arc<str>,
}

impl Paying {
    /// It has been paid for.
    pub fn done(self) {
        let paid = &self.ownership.0.paid;
        paid.known.insert(Arc::clone(&self.id), ());
    }
}

impl Drop for Paying {
    fn drop(&mut self) {
        self.ownership.0.paid.under_way.lock().remove(&self.id);
    }
}

/// How long to wait until earlier settlements are committed.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);
/// The longest time for which a request without a record can still run. After that, it counts as crashed
/// before any delivery.
const LONGEST_REQUEST: Duration = Duration::from_secs(86_400);

impl Ownership {
    /// The amount due before a response can be retrieved.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn due(&self, stored: &Stored) -> Result<Due, Unavailable> {
        let Some(request) = stored.request else {
            return Ok(Due::Nothing);
        };
        if self.0.paid.known.get(&stored.id).is_some() {
            return Ok(Due::Nothing);
        }
        let mut due = self.look_at_record(stored, request).await?;
        if matches!(due, Due::Unknown) && self.0.ledger.caught_up(PATIENCE).await {
            due = self.look_at_record(stored, request).await?;
        }
        if matches!(due, Due::Nothing) {
            self.0.paid.known.insert(Arc::clone(&stored.id), ());
        }
        Ok(due)
    }

    /// Begins to charge the amount due for a response. `None`: another request is charging it.
    pub fn begin_paying(&self, id: &Arc<str>) -> Option<Paying> {
        let begun = self.0.paid.under_way.lock().insert(Arc::clone(id));
        begun.then(|| Paying {
            ownership: self.clone(),
            id: Arc::clone(id),
        })
    }

    async fn look_at_record(
        &self,
        stored: &Stored,
        request: RequestId,
    ) -> Result<Due, Unavailable> {
        let tariff = stored.tariff.clone();
        self.read(&stored.key, move |inner| inner.due_by(&request, tariff))
            .await
    }
}

impl Inner {
    /// The amount due by the records in the database, and the tariff of the request.
    pub(super) fn due_by(
        &self,
        request: &RequestId,
        tariff: Option<Arc<Tariff>>,
    ) -> Result<Due, StoreError> {
        let Some(first) = self.database.request(request)? else {
            let came = Timestamp::of_request(request);
            let has_ended = came <= self.ledger.now().minus(LONGEST_REQUEST);
            // An older one may have had a record.
            return Ok(match has_ended && came >= self.ledger.owned_since() {
                true => Due::Nothing,
                false => Due::Unknown,
            });
        };
        let second = second_charge(request);
        if is_final(&first.record) || self.database.request(&second)?.is_some() {
            return Ok(Due::Nothing);
        }
        let has_ended = !is_cut(&first.record);
        Ok(Due::Rest(Payable {
            request: second,
            asked: first.record.model_asked.into(),
            served: first.record.model_served.into(),
            charged: first.record.usage,
            cost: first.record.cost,
            tariff,
            has_ended,
        }))
    }
}

/// Whether the provider has reported the usage of the whole response. A report that was corrected at the end of
/// the response is the same when the response is retrieved.
fn is_final(record: &UsageRecord) -> bool {
    let is_reported = record.source.as_deref() == Some(CountSource::Reported.as_str());
    match is_cut(record) {
        true => is_reported && record.usage.output > 0,
        false => is_reported || record.clamped,
    }
}

/// Whether the client did not get the end of the response. The gateway cuts unusable answers with an error.
fn is_cut(record: &UsageRecord) -> bool {
    match BillingState::from_name(&record.state) {
        Some(BillingState::ClientClosed | BillingState::UpstreamFailed) => true,
        Some(BillingState::Incomplete) => record.error.is_some(),
        _ => false,
    }
}

/// The request id of the second charge: always the same for a request.
fn second_charge(request: &RequestId) -> RequestId {
    /// `req_` and the time.
    const KEPT: usize = 14;
    let mut hash = Sha256::new();
    hash.update("second charge");
    hash.update(request.as_str());
    let hash = hash.finalize();
    let kept = request.as_str().chars().take(KEPT);
    let others = hash.iter().filter_map(|byte| {
        let digit = RequestId::ALPHABET.get(usize::from(byte & 31))?;
        Some(char::from(*digit))
    });
    let length = request.as_str().len();
    let text: String = kept.chain(others).take(length).collect();
    // Of the same length as the first one.
    RequestId::from_text(&text).unwrap_or(*request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_charge_of_a_request_always_has_the_same_id() {
        let first = RequestId::from_parts(1_790_000_000_000, 1);
        let second = second_charge(&first);
        assert_eq!(second, second_charge(&first));
        assert_ne!(second, first);
        assert_eq!(second.as_str()[..14], first.as_str()[..14]);
        let other = RequestId::from_parts(1_790_000_000_000, 2);
        assert_ne!(second, second_charge(&other));
    }

    #[test]
    fn the_rest_is_what_was_used_beyond_what_was_charged() {
        let payable = |input, output| Payable {
            request: RequestId::from_parts(0, 0),
            asked: "m".into(),
            served: "m".into(),
            charged: Usage {
                input,
                output,
                ..Usage::default()
            },
            cost: None,
            tariff: None,
            has_ended: false,
        };
        let used = Usage {
            input: 100,
            cache_read: 500,
            cache_write: 10,
            output: 70,
            reasoning: 60,
        };
        let rest = payable(300, 20).rest(&used);
        let expected = Usage {
            input: 0,
            cache_read: 310,
            cache_write: 0,
            output: 50,
            reasoning: 50,
        };
        assert_eq!(rest, expected);
        assert_eq!(payable(1000, 1000).rest(&used), Usage::default());
    }
}
