//! Who pays: API keys and where they are kept.

mod clock;
mod key;
mod record;

pub use clock::{Clock, Timestamp};
pub use key::{ApiKey, KeyHash, KeyHasher, MalformedKey, PepperError};
pub use record::{InvalidKey, KeyRecord, KeyState, NewKey, allowance};
