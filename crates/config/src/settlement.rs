//! The section `settlement`: how the usage of a request is found out when its caller disconnects
//! before the provider reports it. The rules of charging are in docs/reference/charging.md.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate_settings::{ByteSize, Duration};

/// How requests are settled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SettlementSettings {
    /// How far the gateway reads on in an answer that is about to end, after its caller has
    /// disconnected, to learn the usage that the provider reports.
    pub drain: DrainSettings,
}

/// How far the gateway reads on after a disconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DrainSettings {
    /// How long the gateway reads an answer after the client has disconnected.
    pub time: Duration,
    /// How many bytes of such an answer it reads.
    pub bytes: ByteSize,
    /// Most such answers at a time, of which one key uses at most half. 0: a disconnect closes the provider's stream at once.
    pub requests: u32,
}

impl Default for DrainSettings {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(2),
            bytes: ByteSize::new(1 << 20),
            requests: 256,
        }
    }
}
