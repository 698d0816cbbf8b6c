//! Links, the index and the length of the pages.

use crate::support::root;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The pages of the documentation, and those beside it.
fn pages() -> Vec<PathBuf> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|it| it == "md") {
                found.push(path);
            }
        }
    }
    let mut found = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    collect(&root().join("docs"), &mut found);
    found
}

/// A page without its blocks of code.
fn prose(page: &Path) -> String {
    let text = fs::read_to_string(page).unwrap();
    let outside = text.split("\n```").step_by(2);
    outside.collect()
}

/// What a page links to, without what is elsewhere on the network.
fn links(page: &Path) -> Vec<String> {
    let text = prose(page);
    let targets = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'));
    targets
        .map(|(target, _)| target.to_owned())
        .filter(|target| !target.contains("://"))
        .collect()
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let text = prose(page);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        for link in links(&page) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            let is_there =
                target.exists() && (anchor.is_empty() || anchors(&target).contains(anchor));
            if !is_there {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_index_lists_every_page() {
    let index = root().join("docs/README.md");
    let listed: BTreeSet<_> = links(&index)
        .iter()
        .map(|link| index.parent().unwrap().join(link))
        .collect();
    let missing: Vec<_> = pages()
        .into_iter()
        .filter(|page| page.starts_with(root().join("docs")) && *page != index)
        .filter(|page| !listed.contains(page))
        .collect();
    assert!(missing.is_empty(), "docs/README.md lacks {missing:#?}");
}

/// The words of a page that are written by hand: outside blocks of code, and outside tables that tests
/// generate or compare.
fn words_by_hand(page: &Path) -> usize {
    let text = prose(page);
    let generated = |line: &str| line.starts_with("<!--") && line.contains("TOLLGATE_BLESS");
    if text.lines().take(5).any(generated) {
        return 0;
    }
    let mut is_generated = false;
    let by_hand = text.lines().filter(|line| {
        match line.strip_prefix("<!-- ") {
            Some(mark) => is_generated = !mark.starts_with("end of "),
            None => return !is_generated,
        }
        false
    });
    let words = by_hand.flat_map(str::split_whitespace);
    let is_word = |word: &&str| word.contains(char::is_alphanumeric);
    words.filter(is_word).count()
}

#[test]
fn the_pages_are_short_together() {
    let words: usize = pages().iter().map(|page| words_by_hand(page)).sum();
    assert!((10_000..=25_000).contains(&words), "{words} words");
}

#[test]
fn guides_are_short() {
    for page in pages() {
        let words = fs::read_to_string(&page)
            .unwrap()
            .split_whitespace()
            .count();
        let is_guide = page.starts_with(root().join("docs/guides"));
        assert!(
            !is_guide || words <= 1200,
            "{}: {words} words",
            page.display()
        );
    }
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.lines().count() <= 150);
}
