//! The record of a key, and the rules for its values.

use crate::{clock::Timestamp, store::GrantTerms};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};
use tollgate_types::{Allowance, Identity, KeyId, Limits, hidden_character};

/// The stored facts about a key. It never has the key itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// The key's identity and permissions, which the request path carries along.
    pub identity: Arc<Identity>,
    /// The beginning of the key, for people to tell keys apart; not unique.
    pub prefix: Box<str>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When the last of its grants is over; `None`: it has none, or one that has not begun.
    pub granted_until: Option<Timestamp>,
}

impl KeyRecord {
    /// The public identifier, `key_…`.
    pub fn id(&self) -> &KeyId {
        &self.identity.key
    }

    /// The state at `now`. Revoked wins over expired; the moment of expiry itself
    /// is expired. A key is expired as well when all of its grants are.
    pub fn state(&self, now: Timestamp) -> KeyState {
        if self.revoked_at.is_some() {
            KeyState::Revoked
        } else if [self.expires_at, self.granted_until]
            .into_iter()
            .flatten()
            .any(|end| end <= now)
        {
            KeyState::Expired
        } else {
            KeyState::Active
        }
    }
}

tollgate_types::named! {
    /// Whether a key works.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum KeyState {
        /// It works.
        Active = "active",
        /// It was revoked.
        Revoked = "revoked",
        /// Its time is over, or that of everything it was given.
        Expired = "expired",
    }
}

impl fmt::Display for KeyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The allowance of `names`: everything if there are none, otherwise only these, sorted, each once.
pub fn allowance<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Allowance {
    let mut names: Vec<String> = names.into_iter().map(Into::into).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        Allowance::All
    } else {
        Allowance::Only(names)
    }
}

/// The terms of a new key.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Its name: 1 to 128 characters, none of them hidden.
    pub name: String,
    /// The plan, by name.
    pub plan: Option<String>,
    /// The model groups it may use.
    pub groups: Allowance,
    /// The endpoints it may use, by path as in the table of endpoints.
    pub endpoints: Allowance,
    /// Limits of its own; where one is `None`, its plan's holds.
    pub limits: Limits,
    /// When it stops working. A time that has passed is refused.
    pub expires_at: Option<Timestamp>,
    /// Its first grant.
    pub grant: Option<GrantTerms>,
}

/// A key that cannot be made as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// The name is blank or too long.
    #[error("the name must have 1 to {max} characters", max = NewKey::MAX_NAME_CHARS)]
    Name,
    /// The name has a control character, or an invisible one.
    #[error(
        "the name must have no control character and no invisible one; it has U+{:04X}",
        u32::from(*.0)
    )]
    Hidden(char),
    /// The name of a plan, a model group or an endpoint breaks the rules.
    #[error(
        "{what} {name:?} is no name: 1 to {max} letters, digits and any of . _ - / : {{ }} are allowed",
        max = NewKey::MAX_TERM_LEN
    )]
    Term {
        /// `plan`, `group` or `endpoint`.
        what: &'static str,
        /// The text that was given, cut to a readable length.
        name: String,
    },
    /// A list is longer than anything that could be meant.
    #[error("more than {max} names in one list of {what}s", max = NewKey::MAX_TERMS)]
    TooMany {
        /// `group` or `endpoint`.
        what: &'static str,
    },
    /// A list allows nothing at all.
    #[error("the list of {what}s is empty: leave it out to allow all of them")]
    Nothing {
        /// `group` or `endpoint`.
        what: &'static str,
    },
    /// The key would be expired before its first use.
    #[error("the expiry {0} has already passed")]
    ExpiryPassed(Timestamp),
}

impl NewKey {
    /// Longest name in characters.
    pub const MAX_NAME_CHARS: usize = 128;
    /// Longest name of a plan, group or endpoint in bytes.
    pub const MAX_TERM_LEN: usize = 64;
    /// Most groups or endpoints in one key.
    pub const MAX_TERMS: usize = 64;

    /// A key for `name` that may use everything.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            plan: None,
            groups: Allowance::All,
            endpoints: Allowance::All,
            limits: Limits::default(),
            expires_at: None,
            grant: None,
        }
    }

    /// Whether a key can have a plan of this name.
    ///
    /// # Errors
    /// The name is not valid.
    pub fn check_plan(name: &str) -> Result<(), InvalidKey> {
        check_term("plan", name)
    }

    pub(crate) fn validate(&self, now: Timestamp) -> Result<(), InvalidKey> {
        let chars = self.name.chars().count();
        let blank = self.name.trim().is_empty();
        if blank || chars > Self::MAX_NAME_CHARS {
            return Err(InvalidKey::Name);
        }
        if let Some(hidden) = hidden_character(&self.name) {
            return Err(InvalidKey::Hidden(hidden));
        }
        if let Some(plan) = &self.plan {
            check_term("plan", plan)?;
        }
        check_terms("group", &self.groups)?;
        check_terms("endpoint", &self.endpoints)?;
        match self.expires_at {
            Some(end) if end <= now => Err(InvalidKey::ExpiryPassed(end)),
            _ => Ok(()),
        }
    }
}

fn check_terms(what: &'static str, allowance: &Allowance) -> Result<(), InvalidKey> {
    let Allowance::Only(names) = allowance else {
        return Ok(());
    };
    if names.is_empty() {
        return Err(InvalidKey::Nothing { what });
    }
    if names.len() > NewKey::MAX_TERMS {
        return Err(InvalidKey::TooMany { what });
    }
    names.iter().try_for_each(|name| check_term(what, name))
}

fn check_term(what: &'static str, name: &str) -> Result<(), InvalidKey> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:{}".contains(&byte);
    if (1..=NewKey::MAX_TERM_LEN).contains(&name.len()) && name.bytes().all(legal) {
        return Ok(());
    }
    let name = name.chars().take(NewKey::MAX_TERM_LEN).collect();
    Err(InvalidKey::Term { what, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_allow_themselves_and_no_names_allow_all() {
        let some = allowance(["opus", "codex", "opus"]);
        assert_eq!(some, Allowance::Only(vec!["codex".into(), "opus".into()]));
        assert_eq!(allowance([""; 0]), Allowance::All);
    }

    #[test]
    fn implausible_values_are_refused_with_their_reason() {
        let now = Timestamp::from_unix_ms(1000);
        let fault = |change: fn(&mut NewKey)| {
            let mut new = NewKey::named("ci");
            change(&mut new);
            new.validate(now).map_err(|e| e.to_string())
        };
        assert_eq!(fault(|_| ()), Ok(()));
        for bad in [
            fault(|k| k.name = "  ".into()),
            fault(|k| k.name = "x".repeat(129)),
            fault(|k| k.name = "a\u{1b}[2J".into()),
            fault(|k| k.name = "a\u{202e}b".into()),
        ] {
            assert!(bad.unwrap_err().starts_with("the name must have"));
        }
        let plan = fault(|k| k.plan = Some("pro;--".into())).unwrap_err();
        assert!(plan.contains("plan \"pro;--\""), "{plan}");
        let group = fault(|k| k.groups = allowance(["a b"])).unwrap_err();
        assert!(group.contains("group \"a b\""), "{group}");
        let many = fault(|k| k.endpoints = allowance((0..65).map(|n| n.to_string())));
        assert!(many.unwrap_err().contains("more than 64"));
        let none = fault(|k| k.groups = Allowance::Only(Vec::new()));
        assert!(none.unwrap_err().contains("list of groups is empty"));
        let past = fault(|k| k.expires_at = Some(Timestamp::from_unix_ms(1000)));
        assert!(past.unwrap_err().contains("has already passed"));
    }
}
