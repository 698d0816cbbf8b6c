//! Prices, as they stand in the configuration file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate_settings::Date;
use tollgate_types::Money;

/// What tokens cost, per million, in the one currency that all prices of the file are in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceSettings {
    /// Input.
    pub input: Money,
    /// Input read from a cache. Default: as `input`.
    pub cache_read: Option<Money>,
    /// Input written to a cache. Default: as `input`.
    pub cache_write: Option<Money>,
    /// Output, reasoning included.
    pub output: Money,
    /// Later prices, in the order of their dates. Requests that end before keep their cost.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub changes: Vec<PriceChangeSettings>,
}

/// Prices from a date on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceChangeSettings {
    /// The first day, in UTC.
    pub from: Date,
    /// Input.
    pub input: Money,
    /// Input read from a cache. Default: as `input`.
    pub cache_read: Option<Money>,
    /// Input written to a cache. Default: as `input`.
    pub cache_write: Option<Money>,
    /// Output, reasoning included.
    pub output: Money,
}
