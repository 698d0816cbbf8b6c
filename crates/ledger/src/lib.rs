//! API keys, their balances, limits and usage.
//!
//! The crate stores keys as keyed hashes, and finds them in memory or in the database without
//! waiting for the disk on a request thread. Plans, model groups and endpoints are names here; the
//! catalog and the configuration give them meaning. `store::database` is the interface of a
//! database.

#![forbid(unsafe_code)]

mod balance;
mod bounded_cache;
mod charge;
mod clock;
mod directory;
mod entry;
mod file;
mod history;
mod journal;
mod key;
mod keyed_semaphore;
mod ledger;
mod limits;
mod lookups;
mod memory;
mod ownership;
mod record;
mod report;
mod store;
mod view;

pub use charge::{BillingState, Charge, CountSource, Counts, Least, UpperBound};
pub use clock::{Clock, Timestamp};
pub use directory::{
    DirectoryHealth, DirectorySettings, KeyDirectory, LookupFailure, Refusal, Unavailable,
};
pub use history::{
    Given, History, HistoryError, HistoryPage, HistoryQuery, InvalidCursor, ModelTotal,
    UsageRecord, UsageSummary,
};
pub use key::{ApiKey, KeyHash, KeyHasher, MalformedKey, PepperError};
pub use keyed_semaphore::{KeyedPermit, KeyedSemaphore, TooManyCallers};
pub use ledger::{
    Ending, Holdings, Ledger, LedgerSettings, LedgerStats, PendingAccount, RequestInfo,
    Reservation, Reserve, Settled, Shortage,
};
pub use limits::{
    Admission, Denied, Dimension, Level, LimitServer, LimitServerError, Limited, Limiter,
    SharedLimits, SharedLimitsStats, Standing,
};
pub use memory::{Lookup as MemoryLookup, Memory, MemoryLimits, MemoryStats, Remembered};
pub use ownership::{
    Claim, Due, InputDue, OwnerFailure, Ownership, Payable, Paying, Stored, Unpaid,
};
pub use record::{InvalidKey, KeyRecord, KeyState, NewKey, allowance};
pub use report::{GroupBy, ReportQuery, ReportRow, RequestRecord};
pub use store::{
    Copied, CreatedKey, Glance, GrantTerms, GrantView, KeyFilter, KeySelector, KeyUse, OrderName,
    PlanInUse, Revocation, Server, ServerSettings, ServerTls, Store, StoreError, Verification,
    check_pepper, glance, migrate, plans_beyond,
};
pub use view::{KeyView, LimitsView, grants_table, keys_table};
