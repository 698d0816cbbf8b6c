//! Orders that are carried out once, however often they are sent.
//!
//! It decides what an order is known by: the id of what it makes is made of the sender's word
//! for it. That id is unique in the file already, so that no table of orders has to be kept,
//! bounded or purged. What is done about a second order is for those who make things.

use super::error::StoreError;
use crate::key;
use sha2::{Digest as _, Sha256};

/// The sender's word for an order, as `Idempotency-Key` gives it.
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

    /// `mark` and as many letters and digits as asked, at most 32: always the same ones.
    pub(super) fn id(&self, mark: &str, count: usize) -> String {
        let mut hash = Sha256::new();
        // What is made by one kind of order says nothing of the others.
        hash.update(mark);
        hash.update([0]);
        hash.update(&self.0);
        let digits = hash.finalize();
        let digits = digits.iter().take(count).map(|byte| key::digit_of(*byte));
        mark.chars().chain(digits).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_the_same_id_for_ever_and_another_one_another() {
        let name = OrderName::new("order-1").unwrap();
        let id = name.id("grant_", 20);
        assert_eq!(id, OrderName::new("order-1").unwrap().id("grant_", 20));
        assert_eq!(id.len(), "grant_".len() + 20);
        assert!(id.bytes().skip(6).all(|it| it.is_ascii_alphanumeric()));
        assert_ne!(id, OrderName::new("order-2").unwrap().id("grant_", 20));
        assert_ne!(id[6..], name.id("key_", 20)[4..]);
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = "x".repeat(256);
        for name in ["", " ", "a b", "a\n", "ä", long.as_str()] {
            assert!(OrderName::new(name).is_err(), "{name:?}");
        }
        assert!(OrderName::new(&long[1..]).is_ok());
    }
}
