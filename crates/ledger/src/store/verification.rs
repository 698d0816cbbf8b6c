//! What a verification of the database found.

use schemars::JsonSchema;
use serde::Serialize;

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
    /// What does not add up, in words; empty if everything does.
    pub faults: Vec<String>,
    /// What verification could not check, in words, with what to do.
    pub warnings: Vec<String>,
}

impl Verification {
    /// Whether everything adds up.
    pub fn holds(&self) -> bool {
        self.faults.is_empty()
    }
}
