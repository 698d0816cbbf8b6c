//! Responses that were stored for later, the newest few of them.

use parking_lot::Mutex;
use serde_json::Value;
use std::collections::VecDeque;

/// How many responses are kept.
const KEPT: usize = 256;

/// A stored response and what it answered.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) response: Value,
    pub(crate) input: Vec<Value>,
}

impl Stored {
    fn id(&self) -> Option<&str> {
        self.response.get("id")?.as_str()
    }
}

/// The stored responses.
#[derive(Debug, Default)]
pub(crate) struct Store {
    newest_last: Mutex<VecDeque<Stored>>,
}

impl Store {
    pub(crate) fn put(&self, stored: Stored) {
        let mut all = self.newest_last.lock();
        all.retain(|other| other.id() != stored.id());
        if all.len() >= KEPT {
            all.pop_front();
        }
        all.push_back(stored);
    }

    pub(crate) fn get(&self, id: &str) -> Option<Stored> {
        self.newest_last
            .lock()
            .iter()
            .find(|stored| stored.id() == Some(id))
            .cloned()
    }

    /// Whether there was such a response.
    pub(crate) fn delete(&self, id: &str) -> bool {
        let mut all = self.newest_last.lock();
        let before = all.len();
        all.retain(|stored| stored.id() != Some(id));
        all.len() < before
    }
}
