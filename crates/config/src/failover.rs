//! The section `failover`: how often, how long and how widely a request is tried again. What
//! is tried again at all is decided by the class of the failure (docs/guides/failover.md).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate_settings::{Duration, Fault, KeyPath};

/// Attempts at other candidates if a provider fails before the answer is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FailoverSettings {
    /// Most attempts of a request, over all its candidates.
    #[schemars(range(min = 1, max = 8))]
    pub attempts: u8,
    /// Longest time of a request, over all attempts. Streams are cut, too.
    pub total: Duration,
    /// How often the only candidate is retried if it was unreachable, overloaded or failed, each
    /// time after a longer pause.
    #[schemars(range(max = 3))]
    pub again: u8,
    /// The first pause before such a retry, times 0.5 to 1.5 at random. A `retry-after` is respected.
    pub pause: Duration,
    /// How many attempts beyond the first all requests may have together.
    pub budget: RetryBudgetSettings,
}

impl Default for FailoverSettings {
    fn default() -> Self {
        Self {
            attempts: 4,
            total: Duration::from_secs(3600),
            again: 1,
            pause: Duration::from_millis(100),
            budget: RetryBudgetSettings::default(),
        }
    }
}

/// How many attempts beyond the first all requests may have together. Attempts after one that
/// reached no provider are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryBudgetSettings {
    /// Further attempts per hundred requests of the last ten seconds.
    #[schemars(range(max = 1000))]
    pub percent: u16,
    /// Further attempts per second in addition.
    #[schemars(range(max = 100_000))]
    pub per_second: u32,
}

impl Default for RetryBudgetSettings {
    fn default() -> Self {
        Self {
            percent: 50,
            per_second: 10,
        }
    }
}

impl FailoverSettings {
    /// Checks the rules that the types do not express.
    pub(super) fn check(&self) -> Vec<Fault> {
        /// The longest wait between two attempts.
        const LONGEST_PAUSE: Duration = Duration::from_secs(5);
        /// Money is reserved for prices that change within this time.
        const LONGEST: Duration = Duration::from_secs(3600);
        let section = KeyPath::root().key("failover");
        let mut faults = Vec::new();
        if self.pause > LONGEST_PAUSE {
            let message = format!("must be at most {LONGEST_PAUSE}");
            faults.push(section.key("pause").fault(message));
        }
        if self.total > LONGEST {
            let message = format!("must be at most {LONGEST}");
            faults.push(section.key("total").fault(message));
        }
        faults
    }
}
