//! What a verification of the database found.

use schemars::JsonSchema;
use serde::Serialize;
use tollgate_types::{Money, Unit};

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Verification {
    /// Grants looked at.
    pub grants: u64,
    /// Records of requests looked at.
    pub requests: u64,
    /// Tokens given.
    pub granted: u64,
    /// Tokens charged.
    pub spent: u64,
    /// Tokens leased to processes.
    pub leased: u64,
    /// Money given.
    pub money_granted: Money,
    /// Money charged.
    pub money_spent: Money,
    /// Money leased to processes.
    pub money_leased: Money,
    /// What does not add up, in words; empty if everything does.
    pub faults: Vec<String>,
    /// What verification could not check, in words, with what to do.
    pub warnings: Vec<String>,
}

impl Verification {
    /// Sets what was given, charged and leased in a unit.
    pub(super) fn set_sums(&mut self, unit: Unit, [granted, spent, leased]: [u64; 3]) {
        match unit {
            Unit::Tokens => [self.granted, self.spent, self.leased] = [granted, spent, leased],
            Unit::Money => {
                [self.money_granted, self.money_spent, self.money_leased] =
                    [granted, spent, leased].map(Money::from_nanos);
            }
        }
    }

    /// Whether everything adds up.
    pub fn holds(&self) -> bool {
        self.faults.is_empty()
    }
}
