//! Decides which large request waits longest for memory. Otherwise, large requests that leave no room for one
//! another would all be refused. One request of each key, and one of all keys, has a slot: it waits until the
//! others have given up, and continues with the memory that they return.

use once_cell::sync::Lazy;
use std::time::Duration;
use tollgate_telemetry::events::Shed;
use tollgate_types::{KeyShares, Resource, Share};

/// How long a request with the slot of its key waits: longer than any request without a slot.
const OF_KEY: Duration = Duration::from_secs(2);

/// The same with the slot of all keys. A request that has the slot of its key and the memory that
/// this one waits for gives up earlier.
const OF_ALL: Duration = Duration::from_secs(4);

/// The same with the slot of all keys with priority.
const OF_PRIORITY: Duration = Duration::from_secs(6);

/// The slots of all keys: with priority, and without.
static ALL: Lazy<[KeyShares; 2]> = Lazy::new(Default::default);

/// The slots that one request has taken; given back on drop.
#[derive(Default)]
pub struct WaitSlots {
    of_key: Option<Share>,
    of_all: Option<Share>,
}

impl WaitSlots {
    /// How long a request that finds no room (`shed` is the reason) waits: the longest time of its slots, or
    /// `least` without a slot. Takes the slot for `shed` if no other request has it. A request that waits for
    /// its key gives up the slot of all keys, which would not help it. Keys with priority have their own
    /// slot, so that no other key causes their refusal.
    pub fn patience(
        &mut self,
        shed: Shed,
        has_priority: bool,
        of_key: Option<&KeyShares>,
        least: Duration,
    ) -> Duration {
        let take = |shares: &KeyShares| shares.take_only(Resource::MemoryWait);
        let [priority, others] = &*ALL;
        let (all, of_all) = match has_priority {
            true => (priority, OF_PRIORITY),
            false => (others, OF_ALL),
        };
        if shed.is_for_the_key() {
            self.of_all = None;
            self.of_key = self.of_key.take().or_else(|| of_key.and_then(take));
        } else {
            self.of_all = self.of_all.take().or_else(|| take(all));
        }
        match self {
            Self {
                of_all: Some(_), ..
            } => of_all,
            Self {
                of_key: Some(_), ..
            } => OF_KEY,
            _ => least,
        }
    }
}
