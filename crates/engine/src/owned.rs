//! The owners of items that providers store, and the amount due for a stored response. Connects the ledger to
//! the interfaces of filters and gateway.

use std::sync::Arc;
use tollgate_filter::{StoredItem, StoredItems};
use tollgate_ledger::{
    Due, InputDue, Ledger, Ownership, Payable, Paying, RequestInfo, Reservation, Reserve, Store,
    Unpaid,
};
use tollgate_types::{
    Claim, Format, KeyId, MOST_ROUNDS, MaybeReady, NamedItem, OwnerFailure, RequestId, Shortage,
    StoredAt, Tariff, Unavailable, UpperBound,
};

/// The most owners of stored items in memory.
const KNOWN_OWNED: usize = 20_000;

/// The owners of stored items, and the amounts due for them.
pub struct Owned {
    ownership: Ownership,
    ledger: Ledger,
}

impl Owned {
    /// Owners are in `store`; `ledger` charges the amounts due.
    pub fn new(store: &Store, ledger: Ledger) -> Self {
        Self {
            ownership: Ownership::new(store, ledger.clone(), KNOWN_OWNED),
            ledger,
        }
    }

    /// Remembers that a provider has stored an item for a key. `tokens`: its size as input of a later request, if
    /// known. `request`: the request that made it, for a response or an item of one; `tariff`: that of a response.
    pub fn remember(
        &self,
        key: &KeyId,
        id: &str,
        at: &StoredAt,
        tokens: Option<u64>,
        request: Option<RequestId>,
        tariff: Option<Arc<Tariff>>,
    ) {
        self.ownership.remember(tollgate_ledger::Stored {
            tokens,
            request,
            tariff,
            ..stored(key, id, at)
        });
    }

    /// Remembers the unpaid responses that the input of a new response shows.
    pub fn remember_shown(&self, key: &KeyId, id: &str, at: &StoredAt, unpaid: &[Unpaid]) {
        if !unpaid.is_empty() {
            self.ownership.remember_shown(&stored(key, id, at), unpaid);
        }
    }

    /// Notes that a response or an item is paid for, with everything that it shows.
    pub fn note_paid(&self, id: &str) {
        self.ownership.note_paid(id);
    }

    /// The unpaid ones of the responses and items that a request names, and of those that they show.
    ///
    /// # Errors
    ///
    /// The ledger does not answer now.
    pub async fn unpaid(
        &self,
        key: &KeyId,
        names: Vec<Arc<str>>,
    ) -> Result<Vec<Unpaid>, Unavailable> {
        self.ownership.unpaid(key, names).await
    }

    /// Whether the key can retrieve the input of a response.
    ///
    /// # Errors
    ///
    /// The ledger does not answer now.
    pub async fn due_of_input(&self, key: &KeyId, id: &str) -> Result<InputDue, Unavailable> {
        match self.own(key, id).await? {
            Some(stored) => self.ownership.due_of_input(&stored).await,
            None => Ok(InputDue::Unknown),
        }
    }

    /// The amount due before the key can retrieve a response.
    ///
    /// # Errors
    ///
    /// The ledger does not answer now.
    pub async fn due(&self, key: &KeyId, id: &str) -> Result<Due, Unavailable> {
        match self.own(key, id).await? {
            Some(stored) => self.ownership.due(&stored).await,
            None => Ok(Due::Unknown),
        }
    }

    /// Finds a stored item of the key. `None`: it was dropped meanwhile.
    async fn own(
        &self,
        key: &KeyId,
        id: &str,
    ) -> Result<Option<Arc<tollgate_ledger::Stored>>, Unavailable> {
        match self.ownership.owner(key, id).await {
            Ok(stored) => Ok(Some(stored)),
            Err(OwnerFailure::NotOwned) => Ok(None),
            Err(OwnerFailure::Unavailable(cause)) => Err(cause),
        }
    }

    /// Begins to charge the amount due for a response. `None`: another request is charging it.
    pub fn begin_paying(&self, id: &str) -> Option<Paying> {
        self.ownership.begin_paying(&id.into())
    }

    /// Reserves the rest of the key's balance, up to `most` tokens of output, for the amount due. `window`: the most
    /// input that the model can process at once.
    ///
    /// # Errors
    ///
    /// Nothing is left, or the ledger does not answer now.
    pub async fn reserve(
        &self,
        key: &KeyId,
        due: &Payable,
        most: u64,
        window: u64,
        tariff: Tariff,
    ) -> Result<Reservation, Shortage> {
        // The first request can have offered hosted tools. The part that it has paid is not due.
        let plausible = |most: u64, paid| most.saturating_mul(MOST_ROUNDS).saturating_sub(paid);
        let bound = UpperBound {
            input: 0,
            hidden_input: 0,
            plausible_input: plausible(window, due.charged.total_input()),
            output: most,
            plausible_output: plausible(most, due.charged.output),
            useful_output: 1,
        };
        let info = RequestInfo {
            id: due.request,
            model: Arc::clone(&due.asked),
            reason: None,
            format: Some(Format::Responses),
            streamed: false,
        };
        match self.ledger.reserve(key, info.clone(), bound, tariff) {
            Reserve::Reserved(reservation) => Ok(reservation),
            Reserve::Refused(refused) => Err(refused),
            Reserve::Wait(pending) => {
                self.ledger
                    .reserve_after(pending, info, bound, tariff)
                    .await
            }
        }
    }
}

impl StoredItems for Owned {
    fn find(&self, key: &KeyId, id: &str) -> MaybeReady<Result<StoredItem, OwnerFailure>> {
        self.ownership.owner(key, id).map(|answer| {
            if let Err(OwnerFailure::Unavailable(cause)) = &answer {
                log::error!("the owner of a stored item cannot be looked up: {cause}");
            }
            answer.map(|stored| item(&stored))
        })
    }

    fn check(&self, key: &KeyId, items: &[NamedItem]) -> MaybeReady<Claim> {
        self.ownership.check(key, items).map(|claim| {
            if let Claim::Unavailable(cause) = &claim {
                log::error!("the owners of items cannot be looked up: {cause}");
            }
            claim
        })
    }
}

/// A stored item of unknown size.
fn stored(key: &KeyId, id: &str, at: &StoredAt) -> tollgate_ledger::Stored {
    tollgate_ledger::Stored {
        id: id.into(),
        key: key.clone(),
        provider: Arc::clone(&at.provider),
        credential: Arc::clone(&at.credential),
        tokens: None,
        request: None,
        tariff: None,
    }
}

fn item(stored: &tollgate_ledger::Stored) -> StoredItem {
    StoredItem {
        at: StoredAt {
            provider: Arc::clone(&stored.provider),
            credential: Arc::clone(&stored.credential),
        },
        tokens: stored.tokens,
    }
}
