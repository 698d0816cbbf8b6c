mod page;

use super::*;
use page::page;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// The fields of the official SDKs' types, by place, kind and name; each with the objects
/// that it holds. `scripts/translation-fields` writes it.
type Sdk = BTreeMap<String, BTreeMap<String, BTreeMap<String, Vec<String>>>>;

fn sdk(format: Format) -> Sdk {
    let all: Value = serde_json::from_str(include_str!("../../sdk/fields.json")).unwrap();
    serde_json::from_value(all[format.as_str()].clone()).unwrap()
}

/// The shape of the objects of one kind at a place.
fn shape_at(format: Format, at: &str, tag: &str) -> Option<&'static Shape> {
    let is_here = |shape: &&Shape| {
        shape.at.contains(&at) && (shape.tags.is_empty() || shape.tags.contains(&tag))
    };
    shapes(format).find(is_here)
}

/// Whether objects of a kind are dealt with by their `type` alone.
fn is_judged_by_type(format: Format, at: &str, tag: &str) -> bool {
    let here = kinds(format).filter(|kinds| kinds.at.contains(&at));
    let mut rows = here
        .flat_map(|kinds| kinds.rows)
        .filter(|row| row.name == tag)
        .peekable();
    rows.peek().is_some() && rows.all(|row| !is_entered(row, format))
}

/// Whether a reader looks into the value.
fn is_entered(row: &Row, from: Format) -> bool {
    let others = Format::OF_CONVERSATIONS
        .into_iter()
        .filter(|to| *to != from);
    !row.whole && others.into_iter().any(|to| row.fate(to).is_read())
}

/// Walks the SDK's types from the body down, as far as the table says that readers look.
/// Returns what the table does not know, and what was met.
fn walk(format: Format) -> (BTreeSet<String>, BTreeSet<(String, String, String)>) {
    let sdk = sdk(format);
    let mut unknown = BTreeSet::new();
    let mut met = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut next = vec![(String::new(), String::new())];
    while let Some((at, tag)) = next.pop() {
        if !seen.insert((at.clone(), tag.clone())) {
            continue;
        }
        let Some(shape) = shape_at(format, &at, &tag) else {
            unknown.insert(format!("{format}: objects at '{at}' of the kind '{tag}'"));
            continue;
        };
        for (name, held) in &sdk[&at][&tag] {
            met.insert((at.clone(), tag.clone(), name.clone()));
            let Some((_, row)) = shape.row(name) else {
                unknown.insert(format!(
                    "{format}: '{}' of the kind '{tag}'",
                    field_path(&at, name)
                ));
                continue;
            };
            if !is_entered(row, format) {
                continue;
            }
            for object in held {
                let (list, tag) = object.trim_end_matches('>').split_once('<').unwrap();
                let at = field_path(&at, name) + list;
                met.insert((at.clone(), tag.to_owned(), String::new()));
                if !is_judged_by_type(format, &at, tag) {
                    next.push((at, tag.to_owned()));
                }
            }
        }
    }
    (unknown, met)
}

#[test]
fn every_request_field_of_the_official_sdks_is_in_the_table() {
    for format in Format::OF_CLIENTS {
        let (unknown, _) = walk(format);
        assert!(unknown.is_empty(), "the table does not know {unknown:#?}");
    }
}

#[test]
fn every_field_of_the_table_is_one_of_the_sdks_or_marked_as_none() {
    let mut strange = Vec::new();
    for format in Format::OF_CLIENTS {
        let (_, met) = walk(format);
        for shape in shapes(format) {
            for row in shape.rows.iter().filter(|row| !row.extra) {
                let is_met = met.iter().any(|(at, tag, name)| {
                    shape.at.contains(&at.as_str())
                        && (shape.tags.is_empty() || shape.tags.contains(&tag.as_str()))
                        && name == row.name
                });
                if !is_met {
                    strange.push(format!(
                        "{format}: {}.{} {:?}",
                        shape.path(),
                        row.name,
                        shape.tags
                    ));
                }
            }
        }
        for kinds in kinds(format) {
            for row in kinds.rows.iter().filter(|row| !row.extra) {
                let is_met = |(at, tag, _): &(String, String, String)| {
                    kinds.at.contains(&at.as_str()) && tag == row.name
                };
                if !met.iter().any(is_met) {
                    strange.push(format!(
                        "{format}: {} of type {}",
                        kinds.at.join(" "),
                        row.name
                    ));
                }
            }
        }
    }
    assert!(strange.is_empty(), "not in the SDKs: {strange:#?}");
}

#[test]
fn no_shape_has_a_field_twice_or_more_fields_than_a_reader_holds() {
    for format in Format::OF_CLIENTS {
        for shape in shapes(format) {
            let names: BTreeSet<_> = shape.rows.iter().map(|row| row.name).collect();
            assert_eq!(names.len(), shape.rows.len(), "{format} {}", shape.path());
            assert!(names.len() <= 48, "{format} {}", shape.path());
        }
    }
}

#[test]
fn refused_and_dropped_fields_have_a_reason() {
    for format in Format::OF_CLIENTS {
        let rows = shapes(format).flat_map(|shape| shape.rows);
        for row in rows.chain(kinds(format).flat_map(|kinds| kinds.rows)) {
            for to in Format::OF_CONVERSATIONS
                .into_iter()
                .filter(|to| *to != format)
            {
                let fate = row.fate(to);
                let needs_none = fate == Fate::Carried;
                assert_eq!(
                    fate.reason().is_empty(),
                    needs_none,
                    "{format}: {}",
                    row.name
                );
            }
        }
    }
}

/// `TOLLGATE_BLESS=1 cargo test -p tollgate-translate page` writes the page anew.
#[test]
fn the_page_of_the_documentation_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/translation.md");
    let page = page();
    if std::env::var_os("TOLLGATE_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/translation.md is stale: TOLLGATE_BLESS=1 cargo test -p tollgate-translate page"
    );
}
