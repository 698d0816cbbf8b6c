//! What benchmarks and crash tests begin with: a file, a key with tokens that last, a request and
//! its end. How much a request costs is theirs to say.

#![expect(
    clippy::unwrap_used,
    reason = "a test or a benchmark fails by panicking"
)]

use std::{path::Path, time::Duration};
use tollgate_ledger::{
    BillingState, Clock, CreatedKey, Ending, GrantTerms, KeyHasher, NewKey, RequestInfo, Store,
};
use tollgate_types::{Format, RequestId, Usage};

/// The store in a file.
pub fn open(path: &Path) -> Store {
    let hasher = KeyHasher::new(b"a pepper for tests").unwrap();
    Store::open(path, hasher, Clock::system()).unwrap()
}

/// A key with more tokens than a test spends, valid for a day.
pub fn make_key(store: &Store) -> CreatedKey {
    let grant = GrantTerms {
        tokens: 1 << 50,
        validity: Duration::from_secs(86_400),
        ..GrantTerms::default()
    };
    let key = NewKey {
        grant: Some(grant),
        ..NewKey::named("test")
    };
    store.create_key(&key).unwrap()
}

/// A streamed request of this id.
pub fn request(id: RequestId) -> RequestInfo {
    RequestInfo {
        id,
        model: "alpha-sonnet-5".into(),
        reason: None,
        format: Some(Format::Chat),
        streamed: true,
    }
}

/// The end of a request whose provider reported this.
pub fn completed(usage: Usage) -> Ending {
    Ending {
        status: 200,
        reported: Some(usage),
        ..Ending::unreported(BillingState::Completed, usage)
    }
}
