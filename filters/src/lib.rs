//! The built-in filters: one file makes one decision about a request.
//!
//! [`KINDS`] is their table. The configuration, the documents and the tests read it. A program
//! that is built on the gateway can add kinds of its own ([`register`]).

#![forbid(unsafe_code)]

mod bound;
mod context;
mod errors;
mod headers;
mod key;
mod limits;
mod model;
mod quota;
mod stored;
#[cfg(test)]
mod testing;

use serde::{Deserialize, Deserializer, de::Error as _};
use std::sync::OnceLock;
use tollgate_filter::FilterKind;
use tollgate_settings::TokenCount;

/// Every filter that a configuration can name, in the default order.
pub const KINDS: &[FilterKind] = &[
    headers::KIND,
    key::KIND,
    stored::KIND,
    model::KIND,
    context::KIND,
    limits::KIND,
    quota::KIND,
    errors::KIND,
];

/// Reads a number of tokens, with or without a unit.
fn tokens<'de, D: Deserializer<'de>, T: TryFrom<u32>>(deserializer: D) -> Result<T, D::Error> {
    let tokens = TokenCount::deserialize(deserializer)?.get();
    let narrow = u32::try_from(tokens).ok();
    let narrow = narrow.and_then(|tokens| T::try_from(tokens).ok());
    narrow.ok_or_else(|| D::Error::custom(format!("expected 1 to {}, found {tokens}", u32::MAX)))
}

/// The kinds that the program has added.
static OWN: OnceLock<&'static [FilterKind]> = OnceLock::new();

/// Adds kinds of filters. They run only if the configuration lists them. Call it once, before the
/// process reads a configuration.
///
/// # Errors
///
/// A name is taken, or kinds were added before.
pub fn register(own: &'static [FilterKind]) -> Result<(), String> {
    for (index, kind) in own.iter().enumerate() {
        let mut earlier = KINDS.iter().chain(own.iter().take(index));
        if earlier.any(|other| other.name == kind.name) {
            let name = kind.name;
            return Err(format!(
                "there are two kinds of filters named '{name}': every kind needs a name of its own"
            ));
        }
    }
    let set = OWN.set(own);
    set.map_err(|_| "kinds of filters can be added once in a process".to_owned())
}

/// Every kind of filter that a configuration can name: [`KINDS`], then those of the program.
pub fn kinds() -> impl Iterator<Item = &'static FilterKind> + Clone {
    KINDS.iter().chain(OWN.get().copied().unwrap_or_default())
}

/// The filter of this name.
pub fn kind(name: &str) -> Option<&'static FilterKind> {
    kinds().find(|kind| kind.name == name)
}

/// A client's text in a message: printable and short.
pub(crate) struct Shown<'a>(pub(crate) &'a str);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const LONGEST: usize = 80;
        for (index, character) in self.0.chars().enumerate() {
            if index == LONGEST {
                return f.write_str("…");
            }
            write!(f, "{}", character.escape_debug())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_itself_is_in_an_order_that_its_rows_allow() {
        for (index, kind) in KINDS.iter().enumerate() {
            for before in kind.after {
                let found = KINDS.iter().position(|other| other.name == *before);
                assert!(
                    found.is_some_and(|found| found < index),
                    "{before} before {}",
                    kind.name
                );
            }
        }
    }

    #[test]
    fn a_kind_whose_name_is_taken_is_refused() {
        const TAKEN: &[FilterKind] = &[key::KIND];
        let refused = register(TAKEN).unwrap_err();
        assert!(refused.contains("'key'"), "{refused}");
        assert_eq!(kinds().count(), KINDS.len());
    }

    #[test]
    fn no_body_is_read_for_a_caller_without_a_key() {
        for kind in KINDS.iter().filter(|kind| kind.phases.body) {
            assert!(
                kind.after.contains(&"key"),
                "{} must stand after 'key'",
                kind.name
            );
        }
    }

    #[test]
    fn every_filter_has_its_page() {
        for kind in KINDS {
            let page = format!(
                "{}/../docs/reference/filters/{}.md",
                env!("CARGO_MANIFEST_DIR"),
                kind.name
            );
            let text = std::fs::read_to_string(&page).unwrap_or_default();
            assert!(
                text.contains(kind.summary),
                "{page} must say: {}",
                kind.summary
            );
        }
    }
}
