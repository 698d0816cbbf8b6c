//! The sources of a configuration: its files and variables, with a digest of the contents of each,
//! so that every change is noticed.
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
pub(super) type Digest = Option<u64>;

/// The state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    /// The most bytes that it may have: one that is longer cannot be read, now or again.
    most_bytes: u64,
    digest: Digest,
}

impl Look {
    fn at(
        path: &Path,
        most_bytes: u64,
        environment: &dyn Environment,
    ) -> (io::Result<Vec<u8>>, Self) {
        let bytes = environment.read_bytes(path, most_bytes);
        // Of bytes: certificates need not be text, and what is refused for not being text is to be
        // known again.
        let digest = bytes.as_deref().ok().map(digest);
        (bytes, Self { most_bytes, digest })
    }
}

/// The files and variables that a configuration was read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    files: BTreeMap<PathBuf, Look>,
    variables: BTreeMap<String, Digest>,
}

impl Sources {
    /// The files alone, read again.
    pub fn look_again(&self, environment: &dyn Environment) -> Self {
        let look = |(path, earlier): (&PathBuf, &Look)| {
            let (_, look) = Look::at(path, earlier.most_bytes, environment);
            (path.clone(), look)
        };
        Self {
            files: self.files.iter().map(look).collect(),
            variables: BTreeMap::new(),
        }
    }

    /// The paths of the files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path)
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
        for (path, look) in &others.files {
            self.files.entry(path.clone()).or_insert(*look);
        }
    }

    pub(super) fn file(&self, path: &Path) -> Option<&Digest> {
        self.files.get(path).map(|look| &look.digest)
    }

    pub(super) fn variable(&self, name: &str) -> Option<&Digest> {
        self.variables.get(name)
    }
}

fn digest(bytes: &[u8]) -> u64 {
    static KEY: Lazy<RandomState> = Lazy::new(RandomState::new);
    KEY.hash_one(bytes)
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
        let digest = value.as_deref().map(|it| digest(it.as_bytes()));
        let mut sources = self.sources.borrow_mut();
        sources.variables.insert(name.to_owned(), digest);
        value
    }

    fn is_not_text(&self, name: &str) -> bool {
        self.environment.is_not_text(name)
    }

    fn read_bytes(&self, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
        let (bytes, look) = Look::at(path, max_bytes, self.environment);
        let mut sources = self.sources.borrow_mut();
        sources.files.insert(path.to_owned(), look);
        bytes
    }
}
