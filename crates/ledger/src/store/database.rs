//! The operations that the ledger needs of a database, in terms of the domain.
//!
//! An implementation has all of its statements in its own folder; nothing else in the crate knows
//! them. The operations take and return plain values, never a row, a connection or a transaction.
//!
//! - **Blocking.** An operation waits for the database. The callers are threads that may wait: the
//!   writer of settlements, the loaders of keys, the blocking pool, a command line. Never call one on
//!   a request thread.
//! - **Atomic.** Each operation that changes something is one transaction: after an error nothing
//!   is changed, and after a return everything survives the machine. [`Database::change_answers`],
//!   [`Database::expire_answers`] and [`Database::lease_limits`] alone may be lost with the machine.
//! - **Concurrent.** Any number of threads and processes may call any operation of [`Database`] at
//!   the same time. A [`Process`] belongs to one thread.
//! - **Repeatable.** A caller that does not know whether an operation was carried out repeats it.
//!   Each operation says by which id a repetition is noticed.

use super::{
    GrantView, KeyFilter, KeyUse, NewGrants, OrderName, PlanInUse, StoreError, Verification,
    copy::{Contents, Rows, Sink, Source},
};
use crate::{
    balance::{Grant, Piece},
    clock::Timestamp,
    entry::Entry,
    history::{Direction, Found, HistoryQuery, UsageSummary},
    journal::LostSlot,
    key::KeyHash,
    limits::{LimitClaim, LimitLease},
    memory::{MemoryLimits, Remembered},
    ownership::{Stored, Unpaid},
    record::KeyRecord,
    report::{ReportQuery, ReportRow, RequestRecord},
};
use bytes::Bytes;
use std::{collections::HashSet, path::Path, sync::Arc, time::Duration};
use tollgate_types::{KeyId, Limits, PerUnit, RequestId, Unit};

/// A database, open under one pepper.
pub(crate) trait Database: Send + Sync {
    /// The path beside which the settlement files of processes lie; their names begin with its name.
    fn path(&self) -> &Path;

    /// How long after it was last renewed (by [`Process::commit`], [`Process::check_in`] or
    /// [`Process::renewal`]) a process may be recovered by others that do not see its settlement file. It must
    /// have stopped admitting requests by then. `None`: all processes are on one machine. They share no limits
    /// here, and the numbers of records grow with their commits: a reader of a number has seen all smaller
    /// ones.
    fn lease_term(&self) -> Option<Duration> {
        None
    }

    /// Enters a key and its first grants. A repetition is noticed by the id of the key, which an order
    /// determines: [`Outcome::DoneBefore`], or [`Outcome::OtherOrder`] if the order made something
    /// else.
    fn add_key(
        &self,
        key: &KeyRecord,
        hash: &KeyHash,
        grants: Option<&NewGrants<'_>>,
        order: Option<&OrderName>,
    ) -> Result<Outcome, StoreError>;

    /// The keys that a query names, in the order in which they were made.
    fn keys(&self, query: &KeyQuery<'_>) -> Result<Vec<KeyRecord>, StoreError>;

    /// Changes a key. Revoking is idempotent and keeps the first time; limits are replaced; an
    /// extension is added once for each order, and each time without one.
    fn change_key(
        &self,
        key: &KeyId,
        change: &KeyChange<'_>,
        now: Timestamp,
    ) -> Result<Outcome, StoreError>;

    /// Makes a grant of each unit that is given, unless the key is revoked or has no room for them. A
    /// repetition is noticed by the ids of the grants, which an order determines.
    fn add_grants(
        &self,
        key: &KeyId,
        grants: &NewGrants<'_>,
        now: Timestamp,
    ) -> Result<GrantsAdded, StoreError>;

    /// The grants of a key, oldest first; if it has more than a thousand, the newest thousand.
    fn grants(&self, key: &KeyId) -> Result<Vec<GrantView>, StoreError>;

    /// The keys that work and have used the largest shares of their valid grants, largest first.
    fn most_used(&self, now: Timestamp, limit: u32) -> Result<Vec<KeyUse>, StoreError>;

    /// The plans of keys that work at `now` (neither revoked nor expired), apart from those that are
    /// `known`: the ones of most keys first, at most `most` of them. Reads every key.
    fn plans_beyond(
        &self,
        known: &[&str],
        most: u32,
        now: Timestamp,
    ) -> Result<Vec<PlanInUse>, StoreError>;

    /// The key with this hash, and the newest change of the same snapshot.
    fn look_up_key(&self, hash: &KeyHash) -> Result<KeyLookup, StoreError>;

    /// The keys that changed after a change, their grants included. Spending is no change.
    fn changes_since(&self, seen: Option<i64>) -> Result<KeyChanges, StoreError>;

    /// Calls `wake` as long as it exists, whenever something may have changed that
    /// [`Database::changes_since`] or [`Process::news`] reports. Callers look from time to time as well: a
    /// database need not do this, and a call can be lost.
    fn wake_on_changes(&self, _wake: &Wake) -> Result<(), StoreError> {
        Ok(())
    }

    /// Enters a process that spends. Its settlement file has this name, by which others recover it.
    fn begin_process(&self, journal: &str, now: Timestamp) -> Result<Box<dyn Process>, StoreError>;

    /// Records of a key's requests. Reads a bounded number of them, whatever the query is.
    fn history(
        &self,
        key: &KeyId,
        query: &HistoryQuery,
        direction: Direction,
        limit: usize,
    ) -> Result<Found, StoreError>;

    /// The grants and the use of a key; the use of each model includes purged records.
    fn summary(&self, key: &KeyId, now: Timestamp) -> Result<UsageSummary, StoreError>;

    /// Adds up the records of all keys. `each` gets a row for each group, and ends it with `false`.
    fn report(
        &self,
        query: &ReportQuery,
        each: &mut dyn FnMut(ReportRow) -> bool,
    ) -> Result<(), StoreError>;

    /// The record of a request, whatever key sent it.
    fn request(&self, id: &RequestId) -> Result<Option<RequestRecord>, StoreError>;

    /// Those of these stored items that are known.
    fn stored(&self, ids: &[&str]) -> Result<Vec<Stored>, StoreError>;

    /// The responses that the input of a stored response shows and that were not known to be paid for.
    fn shown_by(&self, response: &str) -> Result<Vec<Unpaid>, StoreError>;

    /// A remembered answer of this key, if it was made at `since` or later and is undamaged.
    fn answer(
        &self,
        key: &KeyId,
        id: RequestId,
        since: Timestamp,
    ) -> Result<Option<Remembered>, StoreError>;

    /// The response of a remembered answer, without what was answered.
    fn response(
        &self,
        key: &KeyId,
        id: RequestId,
        since: Timestamp,
    ) -> Result<Option<Bytes>, StoreError>;

    /// Remembers and forgets answers, in their order, until `most` bytes were written or overwritten;
    /// the caller repeats the rest. Deletes the oldest beyond the limits. Without limits nothing is
    /// remembered. A repetition is noticed by the request id.
    fn change_answers(
        &self,
        changes: &[AnswerChange<'_>],
        limits: Option<MemoryLimits>,
        most: u64,
        now: Timestamp,
    ) -> Result<AnswersChanged, StoreError>;

    /// Deletes answers older than `age`, and the oldest beyond so many bytes, as many as fit a
    /// tenth of a second. Returns the bytes that are left.
    fn expire_answers(
        &self,
        now: Timestamp,
        age: Duration,
        most_bytes: u64,
    ) -> Result<u64, StoreError>;

    /// Leases shares of the limits of keys to the process of this name: of all of them if as many processes
    /// lease as are expected, else of as much less. Returns one answer for each claim, in their order. A
    /// repetition takes once more what a claim has taken.
    fn lease_limits(
        &self,
        _node: &str,
        _expected: u32,
        _claims: &[LimitClaim],
    ) -> Result<Vec<LimitLease>, StoreError> {
        Ok(Vec::new())
    }

    /// Checks everything that must add up, in one snapshot.
    fn verify(&self) -> Result<Verification, StoreError>;

    /// The contents that decide whether a copy can be made here.
    fn contents(&self) -> Result<Contents, StoreError>;

    /// Gives rows of one snapshot to `sink`.
    fn read_out(&self, rows: Rows, sink: &mut Sink<'_>) -> Result<(), StoreError>;

    /// Inserts all rows that `source` gives, or none. `first`: they are the last ones; records with smaller
    /// numbers are deleted.
    fn fill(&self, source: &mut Source<'_>, first: Option<i64>) -> Result<(), StoreError>;

    /// Writes a copy of one snapshot, without leases. `target` must not exist.
    fn backup(&self, target: &Path) -> Result<(), StoreError>;
}

/// A process that spends, entered in the database.
///
/// Its leases are its own until it ends or another process recovers it. From then on it is fenced: it
/// leases nothing more, and its settlements are paid from what is free.
pub(crate) trait Process: Send {
    /// The changes of other processes since the last call; `None` if there are none.
    fn news(&mut self, seen: i64, look: Look) -> Result<Option<News>, StoreError>;

    /// Commits a batch. Each settlement is entered once, by its request id; the first of several
    /// counts, and what this process has leased for the others is free again. One that the database refuses is
    /// kept in quarantine. A batch is repeated only after an error. A repetition of the rest returns no more than
    /// is leased, and leases only what is free.
    fn commit(&mut self, batch: &Batch<'_>) -> Result<Committed, StoreError>;

    /// Withdraws the lease requests of this process, except for these keys.
    fn keep_lease_requests(&mut self, keys: &HashSet<KeyId>) -> Result<(), StoreError>;

    /// Whether this process still counts as living, and which others do. Called once a second.
    fn check_in(&mut self) -> Result<CheckIn, StoreError>;

    /// A function for another thread that counts this process as living while its own operations take long.
    /// `None`: it needs none.
    fn renewal(&self) -> Option<Renewal> {
        None
    }

    /// Enters what a crashed process left, and ends that process. `None`: it is not known any more,
    /// or never was. A repetition is noticed by the request ids. Not atomic: some of it may be entered
    /// after an error. Without a leftover, which is out of reach, a process is ended that
    /// [`Peer::is_silent`], unless it has been renewed since.
    fn recover(
        &mut self,
        process: Option<ProcessNumber>,
        leftover: Option<&Leftover<'_>>,
        now: Timestamp,
    ) -> Result<Recovered, StoreError>;

    /// Deletes old records, a bounded number in bounded time, and maintains the database. Called once a second.
    /// Returns the number of deleted records of requests.
    fn maintain(&mut self, retention: &Retention, now: Timestamp) -> Result<usize, StoreError>;

    /// Returns all leases and ends the process.
    fn end(&mut self, now: Timestamp) -> Result<(), StoreError>;
}

/// The outcome of an operation that is carried out once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was carried out.
    Done,
    /// It was carried out when it came first.
    DoneBefore,
    /// The order made this before, which is something else.
    OtherOrder(String),
    /// The key is revoked.
    Revoked,
}

/// The outcome of adding grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GrantsAdded {
    /// They were made.
    New,
    /// The key has grants that an order of this name made.
    Known(Vec<GrantView>),
    /// The order made this before, which is something else.
    OtherOrder(String),
    /// The key is revoked.
    Revoked,
    /// The time of the key itself is over.
    Expired,
    /// The key has as many grants to spend as a request can be paid from.
    TooMany,
}

/// Which keys.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyQuery<'a> {
    Id(&'a KeyId),
    /// Keys that begin so, at most so many of them.
    Prefix(&'a str, u32),
    /// Keys that a filter admits, at most `limit` of them, made after the key `after`.
    Page {
        filter: &'a KeyFilter,
        after: Option<&'a KeyId>,
        limit: u32,
        now: Timestamp,
    },
}

/// A change of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyChange<'a> {
    Revoke,
    Limits(&'a Limits),
    /// Lets the key and its grants live longer, unless it is revoked.
    Extend {
        span: Duration,
        order: Option<&'a OrderName>,
    },
}

/// A key that was looked up.
#[derive(Clone, Debug)]
pub(crate) struct KeyLookup {
    /// The number of the newest change in the snapshot.
    pub(crate) change: i64,
    /// The key; `None` if no key has the hash.
    pub(crate) record: Option<KeyRecord>,
}

/// Which keys changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyChanges {
    /// The number of the newest change.
    pub(crate) newest: i64,
    /// The keys; `None` if any key may have changed.
    pub(crate) hashes: Option<Vec<KeyHash>>,
}

/// The function to call after a change. It must not wait.
pub(crate) type Wake = Arc<dyn Fn() + Send + Sync>;

/// Returns whether the process has not ended.
pub(crate) type Renewal = Box<dyn FnMut() -> Result<bool, StoreError> + Send>;

/// The number of a process in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProcessNumber(pub(crate) i64);

/// Whether to look for news even if no other process has changed anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    IfChanged,
    Always,
}

/// The changes of other processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// The number of the newest change of a key.
    pub(crate) newest: i64,
    /// The keys that changed; `None` if any key may have changed.
    pub(crate) changed: Option<Vec<KeyId>>,
    /// The keys of which other processes request tokens and this one leases some, at most a thousand.
    pub(crate) requested: Vec<KeyId>,
}

/// The contents of one transaction of a process.
pub(crate) struct Batch<'a> {
    /// Requests that were settled.
    pub(crate) settled: &'a [&'a Entry],
    /// Items that providers have stored. The first key of an id stays its owner; a size only grows.
    pub(crate) stored: &'a [Arc<Stored>],
    /// Leased tokens that are given back.
    pub(crate) returned: &'a [Piece],
    /// The leases to take, after all the rest.
    pub(crate) leases: &'a [Lease],
    /// The time. It is asked for in the transaction, because the wait for that may be long.
    pub(crate) now: &'a dyn Fn() -> Timestamp,
    /// Called every few records, so that the thread can leave the processor to others.
    pub(crate) pause: &'a dyn Fn(),
}

/// A key whose tokens are looked at or leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) key: KeyId,
    pub(crate) mode: LeaseMode,
    /// The most to lease.
    pub(crate) most: PerUnit<u64>,
}

/// The use of a key's free tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseMode {
    /// Lease nothing: what is free is for other processes.
    Look,
    /// Lease what is free.
    Take,
    /// Lease what is free. If nothing is, request tokens of the other processes.
    Need,
}

/// The outcome of a batch.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    /// What there is of each key that was to be leased; `None` if there is no such key. Empty if the
    /// process is fenced.
    pub(crate) shares: Vec<(KeyId, Option<Share>)>,
    /// The entered requests that the leases did not cover. Empty without a [`Database::lease_term`]: the
    /// process has then leased everything that is free.
    pub(crate) beyond: Vec<BeyondLease>,
    /// Another process has ended this one.
    pub(crate) is_fenced: bool,
}

/// The part of a request's charge that the leases of its process did not cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BeyondLease {
    pub(crate) request: RequestId,
    /// The key's number.
    pub(crate) key: i64,
    /// The amount that was free, and pays.
    pub(crate) paid: PerUnit<u64>,
    /// The amount that no grant pays.
    pub(crate) overdraft: PerUnit<u64>,
}

/// A process's share of a key's grants.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    /// The key's number.
    pub(crate) key: i64,
    /// The key's grants; `free` is what was newly leased.
    pub(crate) grants: Vec<Grant>,
    /// The rest of them, by unit.
    pub(crate) of: PerUnit<UnitShare>,
    /// Whether there are grants beyond those that were looked at.
    pub(crate) has_more: bool,
}

/// The rest of a key's grants in one unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnitShare {
    /// The free part, which was not leased.
    pub(crate) unleased: u64,
    /// What other processes lease of them, and what is left in grants beyond those that were looked
    /// at.
    pub(crate) elsewhere: u64,
    /// What is left of the valid grants, leased or not; settled requests that are not entered yet still
    /// count.
    pub(crate) left: u64,
}

impl Share {
    /// The share of a key before anything is leased. With each grant come the amount that other processes
    /// lease of it and the amount that is left.
    pub(crate) fn of<F>(
        key: i64,
        grants: impl Iterator<Item = Result<(Grant, u64, u64), F>>,
        now: Timestamp,
    ) -> Result<Self, F> {
        let mut share = Self {
            key,
            grants: Vec::with_capacity(grants.size_hint().0),
            of: PerUnit::default(),
            has_more: false,
        };
        for grant in grants {
            let (mut grant, elsewhere, left) = grant?;
            if grant.expires_at.is_none_or(|end| now < end) {
                let of_unit = share.of.get_mut(grant.unit);
                of_unit.elsewhere = of_unit.elsewhere.saturating_add(elsewhere);
                of_unit.left = of_unit.left.saturating_add(left);
            } else {
                grant.free = 0;
            }
            share.grants.push(grant);
        }
        Ok(share)
    }

    /// Whether anything was newly leased.
    pub(crate) fn has_leased(&self) -> bool {
        Unit::ALL.into_iter().any(|unit| self.has_leased_of(unit))
    }

    /// Whether anything is free that was not leased.
    pub(crate) fn has_unleased(&self) -> bool {
        self.of.iter().any(|of_unit| of_unit.unleased > 0)
    }

    /// Whether anything of this unit was newly leased.
    pub(crate) fn has_leased_of(&self, unit: Unit) -> bool {
        let mut grants = self.grants.iter().filter(|grant| grant.free > 0);
        grants.any(|grant| grant.unit == unit)
    }

    /// Whether in some unit something is to be leased, nothing was, and other processes have some.
    pub(crate) fn is_elsewhere(&self, most: &PerUnit<u64>) -> bool {
        Unit::ALL.into_iter().any(|unit| {
            *most.get(unit) > 0 && self.of.get(unit).elsewhere > 0 && !self.has_leased_of(unit)
        })
    }

    /// Adds what is left in grants beyond those that were looked at, given what is left of all.
    pub(crate) fn add_beyond(&mut self, left_of_all: &PerUnit<u64>) {
        for unit in Unit::ALL {
            let of_unit = self.of.get_mut(unit);
            let beyond = left_of_all.get(unit).saturating_sub(of_unit.left);
            of_unit.elsewhere = of_unit.elsewhere.saturating_add(beyond);
            of_unit.left = of_unit.left.saturating_add(beyond);
            self.has_more |= beyond > 0;
        }
    }

    /// Leaves what is free beyond `most`. The grants that are spent first are leased first.
    pub(crate) fn lease_at_most(&mut self, most: &PerUnit<u64>) {
        let mut room = *most;
        for grant in &mut self.grants {
            let room = room.get_mut(grant.unit);
            let leased = grant.free.min(*room);
            let left = grant.free.saturating_sub(leased);
            let of_unit = self.of.get_mut(grant.unit);
            of_unit.unleased = of_unit.unleased.saturating_add(left);
            *room = room.saturating_sub(leased);
            grant.free = leased;
        }
    }

    /// Leaves what is free to other processes.
    pub(crate) fn leave_free(&mut self) {
        for grant in &mut self.grants {
            let free = std::mem::take(&mut grant.free);
            let of_unit = self.of.get_mut(grant.unit);
            of_unit.elsewhere = of_unit.elsewhere.saturating_add(free);
        }
    }
}

/// How a process and the others are.
#[derive(Clone, Debug, Default)]
pub(crate) struct CheckIn {
    /// Another process has ended this one.
    pub(crate) is_fenced: bool,
    /// The other processes that have not ended.
    pub(crate) peers: Vec<Peer>,
    /// The records in quarantine.
    pub(crate) quarantined: Quarantined,
}

/// Another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) number: ProcessNumber,
    /// The name of its settlement file.
    pub(crate) journal: String,
    /// Whether it counts as crashed if its settlement file is not here. On one machine it always does.
    pub(crate) is_silent: bool,
}

/// How many records are in quarantine, by cause: the first thousand are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quarantined {
    pub(crate) torn: u64,
    pub(crate) unreadable: u64,
    pub(crate) refused: u64,
}

/// The leftovers of a crashed process.
#[derive(Debug, Default)]
pub(crate) struct Leftover<'a> {
    /// The records, those first that count if a request has several.
    pub(crate) entries: Vec<Entry>,
    /// Whole records that this program cannot read.
    pub(crate) unreadable: Vec<&'a [u8]>,
    /// Slots without a whole record.
    pub(crate) torn: &'a [LostSlot],
}

/// What was recovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// Settlements that were new.
    pub(crate) settled: usize,
    /// Requests that the crash cut, charged by their progress.
    pub(crate) cut: usize,
    /// Torn slots that were put in quarantine.
    pub(crate) torn: usize,
}

/// How long records are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    /// Records of requests, an hour at least; `None`: for ever.
    pub(crate) history: Option<Duration>,
    /// Owners of stored items.
    pub(crate) stored: Duration,
    /// Most owners of stored items.
    pub(crate) most_stored: u64,
}

/// A change of the remembered answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AnswerChange<'a> {
    Remember(&'a Remembered),
    Forget(&'a KeyId, RequestId),
}

/// What came of changes of the remembered answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswersChanged {
    /// For each change that was carried out, whether an answer was added or removed.
    pub(crate) done: Vec<bool>,
    /// Bytes of all answers.
    pub(crate) bytes: u64,
}
