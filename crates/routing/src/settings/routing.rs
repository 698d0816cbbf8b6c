//! How requests are spread over deployments, and when one of those is passed over.

use crate::health::BreakerPolicy;
use crate::plan::Balancing;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use tollgate_settings::{ByteSize, Duration, TokenCount};

/// How requests are spread over deployments.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RoutingSettings {
    /// How requests are balanced over deployments of one priority, unless the model has its own
    /// `balance`.
    pub balance: Balance,
    /// How a conversation is kept where its prompt cache is.
    pub affinity: AffinitySettings,
    /// When something that fails is passed over, unless a provider says otherwise.
    pub health: HealthSettings,
    /// Whether clients that send `x-explain: 1` get the chosen candidate and the reason in
    /// `x-route-reason`, without names of providers.
    pub explain: ExplainSetting,
}

/// Whether callers may ask why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExplainSetting {
    /// A client that asks gets it.
    #[default]
    OnRequest,
    /// No client gets it.
    Never,
}

/// How requests are spread over deployments of one priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Balance {
    /// By their weights.
    #[default]
    Weighted,
    /// To the one with the fewest requests under way for its weight, the cheaper among equals.
    LeastInFlight,
    /// To the better of two drawn by weight, by the time to the first token that was measured
    /// lately and the requests under way.
    Latency,
}

/// How a conversation is kept where its prompt cache is: at one deployment, with one
/// credential, for as long as that one is up and not overloaded.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AffinitySettings {
    /// Whether conversations are kept together.
    pub enabled: bool,
    /// Headers that identify a conversation; the first one in the request counts.
    pub headers: Vec<String>,
    /// Requests of at least this size without a header or `prompt_cache_key` are identified by
    /// their beginning, up to the first turn of the user. Smaller ones are balanced: providers
    /// cache nothing below some 1,024 tokens.
    pub min_bytes: ByteSize,
    /// Factor of its share of running requests above which a deployment passes conversations on: at
    /// least 1.
    #[schemars(range(min = 1, max = 100))]
    pub load_factor: f64,
    /// Running requests that a deployment may have regardless of its share.
    pub slack: u32,
}

impl Default for AffinitySettings {
    fn default() -> Self {
        let headers = [
            "x-claude-code-session-id",
            "session_id",
            "session-id",
            "x-session-id",
            "x-session-affinity",
        ];
        Self {
            enabled: true,
            headers: headers.map(str::to_owned).into(),
            min_bytes: ByteSize::new(4096),
            load_factor: 1.25,
            slack: 8,
        }
    }
}

/// When something that fails is passed over, and for how long.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HealthSettings {
    /// Whether breakers open at all.
    pub enabled: bool,
    /// Consecutive failures that open the breaker of a provider or a deployment. `null`: no such limit.
    pub consecutive_failures: Option<NonZeroU32>,
    /// The share of failures that opens it, from 0.01 to 1. `null`: no such limit.
    #[schemars(range(min = 0.01, max = 1))]
    pub error_rate: Option<f64>,
    /// The fewest recent outcomes for `error_rate` to apply.
    #[schemars(range(min = 1))]
    pub min_requests: u32,
    /// The decay of outcomes: one of this age counts a third.
    pub window: Duration,
    /// The first cooldown. It doubles with each further failure.
    pub cooldown: Duration,
    /// The longest cooldown.
    pub max_cooldown: Duration,
    /// The longest `retry-after` of a provider that is respected.
    pub max_retry_after: Duration,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            consecutive_failures: const { NonZeroU32::new(5) },
            error_rate: Some(0.5),
            min_requests: 20,
            window: Duration::from_secs(30),
            cooldown: Duration::from_secs(5),
            max_cooldown: Duration::from_secs(120),
            max_retry_after: Duration::from_secs(300),
        }
    }
}

/// How much a deployment or a credential takes. What is full is passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitSettings {
    /// Most concurrent requests.
    pub in_flight: Option<NonZeroU32>,
    /// Most requests per minute.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Most tokens per minute, input and output: estimated before a request, corrected by its
    /// report.
    pub tokens_per_minute: Option<TokenCount>,
}

/// How a provider is looked after beside the requests.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CheckSettings {
    /// The path of the check on the provider's host; any status below 500 is good. Default: none,
    /// and a connection (with TLS, if the address has it) is enough.
    pub path: Option<String>,
    /// From one check to the next.
    pub every: Duration,
    /// The time-out for one address.
    pub timeout: Duration,
}

impl Default for CheckSettings {
    fn default() -> Self {
        Self {
            path: None,
            every: Duration::from_secs(10),
            timeout: Duration::from_secs(5),
        }
    }
}

impl HealthSettings {
    /// When breakers open; `None`: never.
    pub(crate) fn policy(&self) -> Option<BreakerPolicy> {
        self.enabled.then(|| BreakerPolicy {
            consecutive_failures: self.consecutive_failures.map(NonZeroU32::get),
            error_rate: self.error_rate,
            min_requests: self.min_requests,
            window: self.window.get(),
            cooldown: self.cooldown.get(),
            max_cooldown: self.max_cooldown.get(),
        })
    }
}

impl RoutingSettings {
    /// How requests to a model are spread that sets this.
    pub(crate) fn balancing(&self, own: Option<Balance>) -> Balancing {
        Balancing {
            balance: own.unwrap_or(self.balance),
            load_factor: self.affinity.load_factor,
            slack: self.affinity.slack,
        }
    }
}
