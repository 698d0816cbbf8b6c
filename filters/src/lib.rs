//! The filters of the gateway: one decision about a request per file.
//!
//! [`KINDS`] is the table of them; the configuration, the documents and the tests read it.

mod bound;
mod errors;
mod headers;
mod key;
mod limits;
mod model;
mod quota;
#[cfg(test)]
mod testing;

use tollgate_filter::FilterKind;

/// Every filter that a configuration can name, in the order that suits most.
pub const KINDS: &[FilterKind] = &[
    headers::KIND,
    key::KIND,
    model::KIND,
    limits::KIND,
    quota::KIND,
    errors::KIND,
];

/// Finds a filter by the name under which configurations know it.
pub fn kind(name: &str) -> Option<&'static FilterKind> {
    KINDS.iter().find(|kind| kind.name == name)
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
