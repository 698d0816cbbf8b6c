//! Orders that are carried out once, however often they are sent.
//!
//! The id of what an order makes (a key, a grant, an extension) is derived from the name of the
//! order. That id is unique in the database, so that no table of orders has to be kept and purged.

use super::StoreError;
use crate::key;
use sha2::{Digest as _, Sha256};
use tollgate_types::Unit;

/// Letters and digits of an id after its mark: 119 bits, so that no two are alike and none can be
/// guessed.
pub(super) const ID_CHARS: usize = 20;

/// What an order can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    Key,
    Grant(Unit),
    Extension,
}

impl Made {
    /// Whether both are the same kind of thing.
    pub(super) const fn is_like(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Key, Self::Key)
                | (Self::Grant(_), Self::Grant(_))
                | (Self::Extension, Self::Extension)
        )
    }

    /// How its id begins.
    pub(crate) const fn mark(self) -> &'static str {
        match self {
            Self::Key => "key_",
            Self::Grant(_) => "grant_",
            Self::Extension => "extension_",
        }
    }
}

/// The sender's name for an order, as `Idempotency-Key` gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderName(String);

impl OrderName {
    /// The longest name, in bytes.
    pub const MAX_LEN: usize = 255;

    /// A name of 1 to 255 visible ASCII characters.
    ///
    /// # Errors
    /// It is empty, too long, or holds something else.
    pub fn new(name: &str) -> Result<Self, StoreError> {
        let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic());
        if is_plain && (1..=Self::MAX_LEN).contains(&name.len()) {
            Ok(Self(name.to_owned()))
        } else {
            Err(StoreError::OrderName)
        }
    }

    /// The id of what an order of this name makes, which is always the same.
    pub(crate) fn id(&self, made: Made) -> String {
        let mark = made.mark();
        let mut hash = Sha256::new();
        // The ids of one kind of order say nothing about the others.
        hash.update(mark);
        hash.update([0]);
        if made == Made::Grant(Unit::Money) {
            // One order can make a grant of each unit.
            hash.update("money\0");
        }
        hash.update(&self.0);
        let digits = hash.finalize();
        let digits = digits.iter().take(ID_CHARS);
        let digits = digits.map(|byte| key::digit_of(*byte));
        mark.chars().chain(digits).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_the_same_id_for_ever_and_another_one_another() {
        let name = OrderName::new("order-1").unwrap();
        let grant = Made::Grant(Unit::Tokens);
        let id = name.id(grant);
        assert_eq!(id, OrderName::new("order-1").unwrap().id(grant));
        assert_eq!(id.len(), "grant_".len() + 20);
        assert!(id.bytes().skip(6).all(|it| it.is_ascii_alphanumeric()));
        assert_ne!(id, OrderName::new("order-2").unwrap().id(grant));
        assert_ne!(id, name.id(Made::Grant(Unit::Money)));
        assert_ne!(id[6..], name.id(Made::Key)[4..]);
    }

    #[test]
    fn a_malformed_name_is_refused() {
        let long = "x".repeat(256);
        for name in ["", " ", "a b", "a\n", "ä", long.as_str()] {
            assert!(OrderName::new(name).is_err(), "{name:?}");
        }
        assert!(OrderName::new(&long[1..]).is_ok());
    }
}
