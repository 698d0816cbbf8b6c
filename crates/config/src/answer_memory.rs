//! `translation.memory`: whether translated answers are remembered, how many and for how long.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate_ledger::MemoryLimits;
use tollgate_settings::{ByteSize, Duration};

/// Where translated answers are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryPlace {
    /// In the file of the store.
    #[default]
    Store,
    /// Nowhere. What was remembered before is removed.
    None,
}

/// The bounds of what is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemorySettings {
    /// Most bytes per key. Beyond it, the key's oldest answers are removed.
    pub per_key: ByteSize,
    /// Most bytes of all keys. Beyond it, the oldest answers of all keys are removed.
    pub total: ByteSize,
    /// How long an answer is remembered.
    pub time: Duration,
}

impl MemorySettings {
    /// The same in the words of the ledger.
    pub const fn limits(&self) -> MemoryLimits {
        MemoryLimits {
            bytes_per_key: self.per_key.get(),
            bytes: self.total.get(),
            time: self.time.get(),
        }
    }
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self {
            per_key: ByteSize::new(64 << 20),
            total: ByteSize::new(1 << 30),
            time: Duration::from_secs(30 * 86_400),
        }
    }
}
