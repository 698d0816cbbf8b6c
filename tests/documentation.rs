//! Tests that the pages in `docs/` name exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Adds every Rust file below a folder, without build folders.
fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                rust_files(&path, found)?;
            }
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// The name of a test function that this line begins, if it does: `fn name() …`.
fn function(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("fn ")?;
    let (name, _) = rest.split_once("()")?;
    Some(name)
}

/// Names of tests that a cell of a table holds, in backticks.
fn named_tests(line: &str) -> impl Iterator<Item = &str> {
    let is_test = |name: &&str| {
        name.split('_').count() > 3
            && name
                .chars()
                .all(|c| c.is_ascii_lowercase() || "_0123456789".contains(c))
    };
    let cell = line
        .trim_end_matches('|')
        .rsplit('|')
        .next()
        .unwrap_or_default();
    cell.split('`').filter(is_test)
}

#[test]
fn every_test_that_the_security_page_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "crates", "filters", "tests"] {
        rust_files(&root.join(folder), &mut files).unwrap();
    }
    let texts: Vec<_> = files
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let functions: BTreeSet<_> = texts
        .iter()
        .flat_map(|text| text.lines().filter_map(function))
        .collect();
    let page = fs::read_to_string(root.join("docs/security.md")).unwrap();
    let promises = page.lines().filter(|line| line.starts_with("| "));
    let (mut named, mut missing) = (0, Vec::new());
    for name in promises.flat_map(named_tests) {
        named += 1;
        if !functions.contains(name) {
            missing.push(name);
        }
    }
    assert!(named > 40, "only {named} tests are named");
    assert!(
        missing.is_empty(),
        "docs/security.md names tests that do not exist: {missing:#?}"
    );
}
