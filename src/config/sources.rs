//! What a configuration was read from: the files and variables that were looked at, with a
//! digest of what was in each, so that it can be told whether any of them has changed.
//!
//! Contents themselves are not kept: many of them are secrets. The digests are keyed anew in
//! each process and say nothing outside of it.

use once_cell::sync::Lazy;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use tollgate_settings::Environment;

/// Of what was read; `None`: it could not be.
type Digest = Option<u64>;

/// The files and variables that a configuration was read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    files: BTreeMap<PathBuf, Digest>,
    variables: BTreeMap<String, Digest>,
}

impl Sources {
    /// As much of a file as is looked at: more than any file of a configuration may have.
    const MOST_BYTES: u64 = 1 << 20;

    /// The files alone, read again.
    pub fn look_again(&self, environment: &dyn Environment) -> Self {
        let read = |path: &PathBuf| {
            let text = environment.read(path, Self::MOST_BYTES);
            (path.clone(), text.ok().as_deref().map(digest))
        };
        Self {
            files: self.files.keys().map(read).collect(),
            variables: BTreeMap::new(),
        }
    }

    /// The files alone, as they were.
    pub fn files(&self) -> Self {
        Self {
            files: self.files.clone(),
            variables: BTreeMap::new(),
        }
    }

    /// Adds what others were read from; what is here already stays as it was.
    pub fn add(&mut self, others: &Self) {
        for (path, digest) in &others.files {
            self.files.entry(path.clone()).or_insert(*digest);
        }
    }

    pub(super) fn file(&self, path: &Path) -> Option<&Digest> {
        self.files.get(path)
    }

    pub(super) fn variable(&self, name: &str) -> Option<&Digest> {
        self.variables.get(name)
    }
}

fn digest(text: &str) -> u64 {
    static KEY: Lazy<RandomState> = Lazy::new(RandomState::new);
    KEY.hash_one(text)
}

/// An environment that takes down what is asked of it.
pub(super) struct Recording<'a> {
    environment: &'a dyn Environment,
    sources: RefCell<Sources>,
}

impl<'a> Recording<'a> {
    pub(super) fn of(environment: &'a dyn Environment) -> Self {
        Self {
            environment,
            sources: RefCell::default(),
        }
    }

    pub(super) fn into_sources(self) -> Sources {
        self.sources.into_inner()
    }
}

impl Environment for Recording<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        let value = self.environment.variable(name);
        let digest = value.as_deref().map(digest);
        let mut sources = self.sources.borrow_mut();
        sources.variables.insert(name.to_owned(), digest);
        value
    }

    fn read(&self, path: &Path, max_bytes: u64) -> io::Result<String> {
        let text = self.environment.read(path, max_bytes);
        let digest = text.as_deref().ok().map(digest);
        let mut sources = self.sources.borrow_mut();
        sources.files.insert(path.to_owned(), digest);
        text
    }
}
