//! The identity of a request: an API key as the request path sees it.

use crate::{KeyId, KeyShares, Limits};

/// The holder of an active key. It carries no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The key's public identifier.
    pub key: KeyId,
    /// Its label.
    pub name: String,
    /// The plan with which it was created, if any.
    pub plan: Option<String>,
    /// The model groups that it may use.
    pub groups: Allowance,
    /// The endpoints that it may use, by path as in the table of endpoints.
    pub endpoints: Allowance,
    /// Its own limits; the plan's apply to those that are not set.
    pub limits: Limits,
    /// Its requests pay in money, so they need a model with a price.
    pub pays_money: bool,
    /// The resources that its requests use now.
    pub shares: KeyShares,
}

/// The names of a set that a key may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// Everything, including later additions.
    All,
    /// These only.
    Only(Vec<String>),
}

impl Allowance {
    /// Whether `name` is allowed.
    pub fn admits(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.iter().any(|allowed| allowed == name),
        }
    }
}
