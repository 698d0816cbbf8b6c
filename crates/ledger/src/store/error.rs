//! What can go wrong with the database, in words that tell an operator what to do.

use super::GrantTerms;
use crate::{
    balance::MAX_PIECES,
    key::PepperError,
    record::{InvalidKey, KeyState},
};
use std::{path::PathBuf, time::Duration};

/// A failure of the ledger file or of an operation on it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file was made by a newer program.
    #[error(
        "{path} has format {found}, this program knows up to {supported}: \
         use the newer program, or a backup from before the upgrade"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: i64,
        /// The newest format of this program.
        supported: i64,
    },
    /// The database was made by an older program, or has no tables yet.
    #[error(
        "{path} has format {found}, this program needs {supported}: run tollgate ledger migrate"
    )]
    Older {
        /// The database.
        path: PathBuf,
        /// The format of the database; 0 if it is empty.
        found: i64,
        /// The format that this program needs.
        supported: i64,
    },
    /// The URL of a PostgreSQL database cannot be read.
    #[error(
        "the URL of the database cannot be read: it has the form \
         postgres://USER:PASSWORD@HOST:PORT/DATABASE, with special characters of the password \
         written as %40 (for @) and so on"
    )]
    DatabaseUrl,
    /// The file is something else, or damaged beyond recognition.
    #[error("{path} is not a ledger file (or its beginning is damaged)")]
    NotALedger {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged.
    #[error("{path} is damaged ({cause}): restore it from a backup")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// SQLite's words.
        cause: String,
    },
    /// The file holds fewer commits than were made.
    #[error(
        "{path} lacks {} commits: it is at commit {held}, {sequence} at {known}. The file or its \
         log ({path}-wal) is damaged, or an older copy is in its place. Nothing was changed. \
         Restore a backup, or go on without these commits: tollgate ledger accept-loss",
        known.saturating_sub(*held)
    )]
    CommitsMissing {
        /// The file.
        path: PathBuf,
        /// The file beside it that has the number of the last commit.
        sequence: PathBuf,
        /// How many commits the file holds.
        held: u64,
        /// How many were made.
        known: u64,
    },
    /// Another process held the write lock for too long.
    #[error("{path} is locked by another process (waited {} s)", waited.as_secs())]
    Locked {
        /// The file.
        path: PathBuf,
        /// How long the lock was waited for.
        waited: Duration,
    },
    /// The file or its folder cannot be written.
    #[error("{path} cannot be written: check the permissions of the file and of its folder")]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// A file that would be made exists.
    #[error("{path} exists already: choose another path")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be opened.
    #[error("{path} cannot be opened: {cause}")]
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// The system's or SQLite's words.
        cause: String,
    },
    /// No space left.
    #[error("{path} cannot grow: the disk is full")]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// The file was made under another pepper: none of its keys would ever match.
    #[error("the ledger was created with another pepper: set keys.pepper to that secret")]
    WrongPepper,
    /// The pepper protects nothing.
    #[error(transparent)]
    Pepper(#[from] PepperError),
    /// The key cannot be made as asked.
    #[error(transparent)]
    InvalidKey(#[from] InvalidKey),
    /// The text cannot name a key.
    #[error(
        "this names no key: give an id (key_…), the beginning of a key \
         (sk- and one to eight letters and digits), or a whole key"
    )]
    Selector,
    /// No key has this id, prefix or hash.
    #[error("there is no such key")]
    NoSuchKey,
    /// More than one key begins so.
    #[error("more than one key begins with {prefix}: {}", candidates.join(", "))]
    Ambiguous {
        /// The beginning that was given.
        prefix: String,
        /// The ids of the first ten such keys.
        candidates: Vec<String>,
    },
    /// A stored time or list cannot be read.
    #[error("the record of {id} is damaged: {what}")]
    BadRecord {
        /// The id of the key.
        id: String,
        /// Which part.
        what: &'static str,
    },
    /// The grant cannot be made as asked.
    #[error(
        "a grant needs between 1 and {} tokens, or money up to {}, and a validity between a second and 100 years",
        GrantTerms::MAX_TOKENS,
        GrantTerms::MAX_MONEY
    )]
    InvalidGrant,
    /// The key has as many grants as one request can be paid from.
    #[error(
        "the key has {MAX_PIECES} grants with something left already, and a request is paid from no \
         more: give one larger grant when one of them is spent or over"
    )]
    TooManyGrants,
    /// A revoked key gets nothing more.
    #[error("{id} is revoked: it cannot be given tokens or time; create a new key")]
    KeyRevoked {
        /// The id of the key.
        id: String,
    },
    /// A key that has expired cannot spend what it is given.
    #[error("{id} has expired: extend it first (`tollgate keys extend`)")]
    KeyExpired {
        /// The id of the key.
        id: String,
    },
    /// The text cannot name an order.
    #[error("the Idempotency-Key must have 1 to 255 visible ASCII characters")]
    OrderName,
    /// Another order was given this name before.
    #[error("another operation was sent under this Idempotency-Key: it created {id}")]
    OtherOrder {
        /// What the other one made.
        id: String,
    },
    /// The key was made when the order came first; its text was shown then.
    #[error(
        "the first request with this Idempotency-Key created {id} and returned its text; it is {state}. \
         If the text was lost, {advice}send the request with another Idempotency-Key",
        advice = if *state == KeyState::Active { "revoke it and " } else { "" }
    )]
    KeyMade {
        /// The id of the key.
        id: String,
        /// Whether it works still.
        state: KeyState,
    },
    /// The system has no randomness to give.
    #[error("the system returns no random bytes: {0}")]
    Randomness(#[from] getrandom::Error),
    /// Anything else that the database reports.
    #[error("{path}: {cause}")]
    Other {
        /// The file.
        path: PathBuf,
        /// The words of the database.
        cause: String,
    },
}
