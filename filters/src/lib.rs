//! The filters of the gateway: one decision about a request per file.
//!
//! [`KINDS`] is the table of them; the configuration, the documents and the tests read it.

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

use tollgate_filter::FilterKind;

/// Every filter that a configuration can name, in the order that suits most.
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

/// Finds a filter by the name under which configurations know it.
pub fn kind(name: &str) -> Option<&'static FilterKind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// A caller's text in a message: printable and short.
pub(crate) struct Shown<'a>(pub(crate) &'a str);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const LONGEST: usize = 80;
        for (place, letter) in self.0.chars().enumerate() {
            if place == LONGEST {
                return f.write_str("…");
            }
            write!(f, "{}", letter.escape_debug())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_itself_is_in_an_order_that_its_rows_allow() {
        for (place, kind) in KINDS.iter().enumerate() {
            for before in kind.after {
                let found = KINDS.iter().position(|other| other.name == *before);
                assert!(
                    found.is_some_and(|found| found < place),
                    "{before} before {}",
                    kind.name
                );
            }
        }
    }

    #[test]
    fn no_body_is_read_for_a_caller_without_a_key() {
        for kind in KINDS.iter().filter(|kind| kind.wants.body) {
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
                "{}/../docs/filters/{}.md",
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
