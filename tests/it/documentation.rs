//! What the pages in `docs/` say: their commands and examples work, their links lead somewhere, what is
//! generated is up to date, and the tests that they name exist.

mod commands;
mod links;
mod reference;

use crate::support::{Ports, bounded, tollgate};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::{fs, io};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};

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
    let page = fs::read_to_string(root.join("docs/reference/security.md")).unwrap();
    let (_, promises) = page.split_once("\n## Promises\n").unwrap();
    let (promises, _) = promises.split_once("\n## ").unwrap();
    let rows = promises.lines().filter(|line| line.starts_with("| "));
    let promises: Vec<_> = rows.filter(|row| !row.starts_with("| Promise ")).collect();
    for promise in &promises {
        assert!(named_tests(promise).next().is_some(), "no test: {promise}");
    }
    let (mut named, mut missing) = (0, Vec::new());
    for name in promises.into_iter().flat_map(named_tests) {
        named += 1;
        if !functions.contains(name) {
            missing.push(name);
        }
    }
    assert!(named > 40, "only {named} tests are named");
    assert!(
        missing.is_empty(),
        "docs/reference/security.md names tests that do not exist: {missing:#?}"
    );
}

#[test]
fn the_guide_shows_the_filter_of_the_example() {
    let read = |path| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let filter = read("examples/own-filter/src/project.rs");
    let block = format!("```rust\n{filter}```\n");
    let guide = read("docs/guides/write-a-filter.md");
    assert!(guide.contains(&block), "the guide lacks:\n{block}");
}

/// Starts a gateway with an example of a page beside the least that serves; what it logs until then.
async fn started_with(example: &str) -> Result<(), String> {
    let folder = TempDir::new().unwrap();
    let Ports { callers, operators } = Ports::free();
    let text = format!(
        "server: {{ listen: [{{ address: '{callers}' }}] }}\n\
         admin: {{ listen: '{operators}' }}\n\
         providers: {{ local: {{ address: 'http://127.0.0.1:9', formats: [chat] }} }}\n\
         families: {{ local: {{ group: other, deployments: [local] }} }}\n\
         models: {{ my-model: {{ family: local }} }}\n\
         {example}"
    );
    fs::write(folder.path().join("tollgate.yaml"), text).unwrap();
    let mut process = tollgate()
        .arg("serve")
        .current_dir(&folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let mut log = String::new();
    while let Some(line) = bounded("the start", lines.next_line()).await.unwrap() {
        if line.ends_with("serving") {
            return Ok(());
        }
        log = log + &line + "\n";
    }
    Err(log)
}

#[tokio::test]
async fn the_example_of_each_page_of_a_filter_boots() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/filters");
    for entry in fs::read_dir(folder).unwrap() {
        let page = entry.unwrap().path();
        let text = fs::read_to_string(&page).unwrap();
        let examples: Vec<_> = text.split("```yaml\n").skip(1).collect();
        let has_settings = text.contains("\n| Setting |");
        assert_eq!(has_settings, !examples.is_empty(), "{}", page.display());
        for example in examples {
            let (example, _) = example.split_once("```").unwrap();
            if let Err(log) = started_with(example).await {
                panic!("{}: {log}", page.display());
            }
        }
    }
}
