//! A process that spends, over a connection of its own.
//!
//! Locks are taken in one order by every transaction: the row of the process, the rows of keys by
//! number, then the rest. The row of a key guards its grants, leases, totals and record times.
//!
//! Processes may be on several machines. Each renews its row with every commit and every check-in, and over
//! another connection while these take long. A process may be recovered without its settlement file if its
//! row was the same for a whole term, in which the observer itself reached the database all the time. It has
//! stopped admitting requests by then ([`crate::store::database::Database::lease_term`]). No clock of one machine is compared with that of another.

use super::{
    changes,
    connection::{Connection, Session},
    leases, purge, settle, storable_time, stored,
};
use crate::{
    balance::Piece,
    clock::Timestamp,
    entry::Entry,
    store::{
        StoreError,
        database::{
            Batch, CheckIn, Committed, LeaseMode, Leftover, Look, News, Peer, Process,
            ProcessNumber, Quarantined, Recovered, Renewal, Retention,
        },
        rows,
        statements::quarantine,
    },
};
use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};
use tollgate_types::{KeyId, Money, PerUnit};

/// A process that has no lease: its charges are paid from what is free.
const NO_PROCESS: ProcessNumber = ProcessNumber(-1);
/// The most records of a crashed process that one transaction enters: it locks their keys.
const MOST_ENTERED: usize = 500;
/// The longest time between two check-ins of an observer that reaches the database all the time.
const MOST_PAUSE: Duration = Duration::from_secs(5);

pub(super) struct PostgresProcess {
    connection: Connection,
    number: ProcessNumber,
    term: Duration,
    /// The number of confirmed commits.
    commits: i64,
    /// The number of a commit that moved tokens and may have been applied: its COMMIT was answered with an error,
    /// or not at all.
    in_doubt: Option<i64>,
    /// The process may have lease requests.
    has_lease_requests: bool,
    /// The newest change and lease request at the last look, and how many requests there were.
    version: Option<(i64, i64, i64)>,
    /// The row of each peer, and since when it is the same.
    renewals: HashMap<ProcessNumber, (i64, Instant)>,
    checked_in_at: Instant,
    purge: purge::Purge,
}

impl PostgresProcess {
    pub(super) fn begin(
        mut connection: Connection,
        journal: &str,
        term: Duration,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let number = connection.change(|session| {
            // The name is random: a row that has it is of this call, whose answer was lost.
            let begun = session.query_one(
                "INSERT INTO processes (settlements, started_at) VALUES ($1, $2)
                 ON CONFLICT (settlements) DO UPDATE SET started_at = excluded.started_at
                 RETURNING number",
                &[&journal, &storable_time(now)],
            )?;
            begun.try_get(0)
        })?;
        Ok(Self {
            connection,
            number: ProcessNumber(number),
            term,
            commits: 0,
            in_doubt: None,
            has_lease_requests: false,
            version: None,
            renewals: HashMap::new(),
            checked_in_at: Instant::now(),
            purge: purge::Purge::default(),
        })
    }

    /// The row of a peer if it was the same for a whole term.
    fn silent_at(&self, process: ProcessNumber) -> Option<i64> {
        let (renewals, since) = self.renewals.get(&process)?;
        (since.elapsed() >= self.term).then_some(*renewals)
    }

    /// Ends a process whose row has been the same for a whole term, unless it has been renewed since.
    fn end_silent(&mut self, process: ProcessNumber, now: Timestamp) -> Result<(), StoreError> {
        let Some(renewals) = self.silent_at(process) else {
            return Ok(());
        };
        self.connection.change(|session| {
            if lock_process(session, process)? == Some(renewals) {
                end(session, process, now)?;
            }
            Ok(())
        })
    }

    /// Notes the rows of the peers.
    fn observe(&mut self, rows: &[(Peer, i64)], asked_at: Instant) {
        let answered_at = Instant::now();
        if answered_at.duration_since(self.checked_in_at) > MOST_PAUSE {
            // The database may have been out of reach for all processes.
            self.renewals.clear();
        }
        self.checked_in_at = asked_at;
        let living: HashSet<ProcessNumber> = rows.iter().map(|(peer, _)| peer.number).collect();
        self.renewals.retain(|number, _| living.contains(number));
        for (peer, renewals) in rows {
            let seen = self.renewals.entry(peer.number);
            let seen = seen.or_insert((*renewals, answered_at));
            if seen.0 != *renewals {
                *seen = (*renewals, answered_at);
            }
        }
    }
}

/// Renews the row of a process. `false`: it has ended. It cannot be ended before the transaction is
/// over.
fn renew(session: &mut Session, process: ProcessNumber) -> Result<bool, postgres::Error> {
    let renewed = session.execute(
        "UPDATE processes SET renewals = renewals + 1 WHERE number = $1 AND ended_at IS NULL",
        &[&process.0],
    )?;
    Ok(renewed == 1)
}

/// Waits for the end of a commit whose connection was lost: the server may still work on it. The wait is a
/// transaction of its own, because its lock keeps out renewals as well.
fn await_doubtful(session: &mut Session, process: ProcessNumber) -> Result<u64, postgres::Error> {
    let lock = "SELECT FROM processes WHERE number = $1 FOR NO KEY UPDATE";
    session.execute(lock, &[&process.0])
}

/// Commits a batch, and returns the number of the commit as well. `known`: how many commits were
/// confirmed. `in_doubt`: the number of one that may have been applied. If it was, or if one that
/// was confirmed is gone (a standby has taken over that did not have it), the process does not know what
/// it leases, and ends: memory would give back the same tokens twice, or never use what was leased.
///
/// The row is locked against the end of the process, but not against renewals, until the last statement.
fn commit(
    session: &mut Session,
    process: ProcessNumber,
    known: i64,
    in_doubt: Option<i64>,
    batch: &Batch<'_>,
) -> Result<(Committed, i64), postgres::Error> {
    let read =
        "SELECT commits + 1 FROM processes WHERE number = $1 AND ended_at IS NULL FOR KEY SHARE";
    let row = session.query_opt(read, &[&process.0])?;
    let number: i64 = row.as_ref().map_or(Ok(0), |row| row.try_get(0))?;
    let is_unclear = number <= known || in_doubt.is_some_and(|doubtful| number > doubtful);
    let is_fenced = row.is_none() || is_unclear;
    let keys: Vec<&str> = batch.leases.iter().map(|it| it.key.as_str()).collect();
    let numbers: Vec<i64> = batch.settled.iter().map(|it| it.key).collect();
    let paid = batch.settled.iter().flat_map(|it| it.all_pieces());
    let grants: Vec<i64> = paid
        .chain(batch.returned.iter().copied())
        .map(|it| it.grant.0)
        .collect();
    lock_keys(session, &keys, &numbers, &grants)?;
    let now = (batch.now)();
    if is_unclear {
        end(session, process, now)?;
    }
    // Returned amounts come first: they can pay charges beyond a lease.
    leases::give_back(session, process, batch.returned)?;
    let entered = settle::enter_all(session, process, batch.settled, now)?;
    // Another process has entered these, unless an unconfirmed commit of this one has. Such a commit is over by
    // now: it had locked the keys.
    if !entered.known.is_empty() && commits(session, process)? == Some(known) {
        let reserved: Vec<Piece> = entered
            .known
            .iter()
            .flat_map(|it| it.all_pieces())
            .collect();
        leases::give_back(session, process, &reserved)?;
    }
    stored::insert(session, batch.stored, now)?;
    let mut shares = Vec::new();
    // No process would give back what a fenced process leases.
    for lease in batch.leases.iter().filter(|_| !is_fenced) {
        let share = leases::lease(session, process, lease, now)?;
        shares.push((lease.key.clone(), share));
    }
    let committed = Committed {
        shares,
        beyond: entered.beyond,
        is_fenced,
    };
    if is_fenced {
        return Ok((committed, number));
    }
    let counted = session.query_one(
        "UPDATE processes SET renewals = renewals + 1, commits = commits + 1 WHERE number = $1
         RETURNING commits",
        &[&process.0],
    )?;
    Ok((committed, counted.try_get(0)?))
}

/// How many commits of a process there are.
fn commits(session: &mut Session, process: ProcessNumber) -> Result<Option<i64>, postgres::Error> {
    let read = "SELECT commits FROM processes WHERE number = $1";
    let row = session.query_opt(read, &[&process.0])?;
    row.map(|row| row.try_get(0)).transpose()
}

/// Locks the rows of keys: by id, by number, and those of grants.
pub(super) fn lock_keys(
    session: &mut Session,
    ids: &[&str],
    numbers: &[i64],
    grants: &[i64],
) -> Result<(), postgres::Error> {
    if ids.is_empty() && numbers.is_empty() && grants.is_empty() {
        return Ok(());
    }
    session.execute(
        "SELECT number FROM keys
         WHERE number IN (
             SELECT number FROM keys WHERE id = ANY($1)
             UNION SELECT unnest($2::bigint[])
             UNION SELECT key FROM grants WHERE number = ANY($3))
         ORDER BY number FOR NO KEY UPDATE",
        &[&ids, &numbers, &grants],
    )?;
    Ok(())
}

/// Returns everything that a process leases, and ends it.
fn end(
    session: &mut Session,
    process: ProcessNumber,
    now: Timestamp,
) -> Result<(), postgres::Error> {
    session.execute(
        "UPDATE processes SET ended_at = $2 WHERE number = $1 AND ended_at IS NULL",
        &[&process.0, &storable_time(now)],
    )?;
    session.execute("DELETE FROM leases WHERE process = $1", &[&process.0])?;
    session.execute(
        "DELETE FROM lease_requests WHERE process = $1",
        &[&process.0],
    )?;
    Ok(())
}

/// Locks the row of a process, after its commits. Returns its renewals.
fn lock_process(
    session: &mut Session,
    process: ProcessNumber,
) -> Result<Option<i64>, postgres::Error> {
    let lock = "SELECT renewals FROM processes WHERE number = $1 FOR UPDATE";
    let row = session.query_opt(lock, &[&process.0])?;
    row.map(|row| row.try_get(0)).transpose()
}

/// Enters records of a crashed process. Returns how many were settled requests, and how many the crash cut.
fn enter_leftover(
    session: &mut Session,
    crashed: ProcessNumber,
    entries: &[&Entry],
    now: Timestamp,
) -> Result<(usize, usize), postgres::Error> {
    lock_process(session, crashed)?;
    let numbers: Vec<i64> = entries.iter().map(|it| it.key).collect();
    let paid = entries.iter().flat_map(|it| it.all_pieces());
    let grants: Vec<i64> = paid.map(|it| it.grant.0).collect();
    lock_keys(session, &[], &numbers, &grants)?;
    let entered = settle::enter_all(session, crashed, entries, now)?;
    for charge in entered.beyond {
        let PerUnit { tokens, money } = charge.overdraft;
        if charge.overdraft != PerUnit::default() {
            let (request, cost) = (charge.request, Money::from_nanos(money));
            log::warn!(
                "{request}: recovered with an overdraft of {tokens} tokens, {cost} in money"
            );
        }
    }
    let entered = entered.new;
    let cut = entered.iter().filter(|it| it.is_progress).count();
    Ok((entered.len().saturating_sub(cut), cut))
}

/// Ends a crashed process whose records are entered, and keeps what could not be read. Returns how many
/// slots that were.
fn end_crashed(
    session: &mut Session,
    crashed: ProcessNumber,
    leftover: &Leftover<'_>,
    now: Timestamp,
) -> Result<usize, postgres::Error> {
    lock_process(session, crashed)?;
    for record in &leftover.unreadable {
        quarantine::add(session, record, quarantine::UNREADABLE, now)?;
    }
    let mut torn = 0_usize;
    for slot in leftover.torn {
        let cause = match &slot.request {
            // The rest of a record that has been entered, whose slots were being emptied.
            Some(request) if settle::is_on_record(session, request)? => continue,
            Some(request) => format!("{}: {request} is not on record", quarantine::TORN),
            None => quarantine::TORN.to_owned(),
        };
        if quarantine::add(session, &slot.bytes, &cause, now)? {
            torn = torn.saturating_add(1);
        }
    }
    end(session, crashed, now)?;
    Ok(torn)
}

impl Process for PostgresProcess {
    fn news(&mut self, seen: i64, look: Look) -> Result<Option<News>, StoreError> {
        let number = self.number.0;
        let (version, has_lease_request) = self.connection.run(|session| {
            let row = session.query_one(
                "SELECT coalesce((SELECT max(seq) FROM changes), 0), coalesce(max(seq), 0),
                        count(*), coalesce(bool_or(process = $1), FALSE)
                 FROM lease_requests",
                &[&number],
            )?;
            let version = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            Ok((version, row.try_get::<_, bool>(3)?))
        })?;
        self.has_lease_requests = has_lease_request;
        // What another process gives back is no change that a process without lease requests misses.
        if self.version == Some(version) && look == Look::IfChanged && !has_lease_request {
            return Ok(None);
        }
        let news = self.connection.read(|session| {
            let (newest, changed) = changes::keys_since(session, seen)?;
            let requested = leases::requested_by_others(session, ProcessNumber(number))?;
            Ok(News {
                newest,
                changed,
                requested,
            })
        })?;
        self.version = Some(version);
        Ok(Some(news))
    }

    fn commit(&mut self, batch: &Batch<'_>) -> Result<Committed, StoreError> {
        let (number, known, in_doubt) = (self.number, self.commits, self.in_doubt);
        let mut leases = batch.leases.iter();
        self.has_lease_requests |= leases.any(|lease| lease.mode == LeaseMode::Need);
        if in_doubt.is_some() {
            self.connection
                .run(|session| await_doubtful(session, number))?;
        }
        let mut complete = None;
        let committed = self.connection.change(|session| {
            complete = None;
            let done = commit(session, number, known, in_doubt, batch)?;
            complete = Some(done.1);
            Ok(done)
        });
        match committed {
            Ok((committed, number)) => {
                self.commits = number;
                self.in_doubt = None;
                Ok(committed)
            }
            Err(fault) => {
                let moves_tokens = !batch.returned.is_empty() || !batch.leases.is_empty();
                self.in_doubt = in_doubt.or(complete.filter(|_| moves_tokens));
                Err(fault)
            }
        }
    }

    fn keep_lease_requests(&mut self, keys: &HashSet<KeyId>) -> Result<(), StoreError> {
        if !self.has_lease_requests {
            return Ok(());
        }
        let kept: Vec<&str> = keys.iter().map(KeyId::as_str).collect();
        let number = self.number.0;
        self.connection.run(|session| {
            session.execute(
                "DELETE FROM lease_requests WHERE process = $1
                 AND key NOT IN (SELECT number FROM keys WHERE id = ANY($2))",
                &[&number, &kept],
            )
        })?;
        Ok(())
    }

    fn check_in(&mut self) -> Result<CheckIn, StoreError> {
        let (number, asked_at) = (self.number, Instant::now());
        // One statement: on a slow server each one delays the settlements.
        let (is_renewed, rows, quarantined) = self.connection.run(|session| {
            let rows = session.query(
                "WITH renewed AS (
                     UPDATE processes SET renewals = renewals + 1
                     WHERE number = $1 AND ended_at IS NULL RETURNING number),
                 oldest AS (SELECT cause FROM quarantine ORDER BY number LIMIT 1000)
                 SELECT (SELECT count(*) FROM oldest WHERE starts_with(cause, $2)),
                        (SELECT count(*) FROM oldest WHERE cause = $3),
                        (SELECT count(*) FROM oldest),
                        number, settlements, renewals, number IN (SELECT number FROM renewed)
                 FROM processes WHERE ended_at IS NULL",
                &[&number.0, &quarantine::TORN, &quarantine::UNREADABLE],
            )?;
            let (mut is_renewed, mut peers) = (false, Vec::new());
            let mut quarantined = Quarantined::default();
            for row in &rows {
                quarantined = rows::quarantined(row)?;
                let other = ProcessNumber(row.try_get(3)?);
                if other == number {
                    is_renewed = row.try_get(6)?;
                    continue;
                }
                let peer = Peer {
                    number: other,
                    journal: row.try_get(4)?,
                    is_silent: false,
                };
                peers.push((peer, row.try_get(5)?));
            }
            Ok((is_renewed, peers, quarantined))
        })?;
        self.observe(&rows, asked_at);
        let peers = rows.into_iter().map(|(peer, _)| Peer {
            is_silent: self.silent_at(peer.number).is_some(),
            ..peer
        });
        Ok(CheckIn {
            is_fenced: !is_renewed,
            peers: peers.collect(),
            quarantined,
        })
    }

    fn renewal(&self) -> Option<Renewal> {
        let (mut connection, number) = (self.connection.another(), self.number);
        Some(Box::new(move || {
            connection.run(|session| renew(session, number))
        }))
    }

    fn recover(
        &mut self,
        process: Option<ProcessNumber>,
        leftover: Option<&Leftover<'_>>,
        now: Timestamp,
    ) -> Result<Recovered, StoreError> {
        let Some(leftover) = leftover else {
            process.map_or(Ok(()), |process| self.end_silent(process, now))?;
            return Ok(Recovered::default());
        };
        let crashed = process.unwrap_or(NO_PROCESS);
        let entries: Vec<&Entry> = leftover.entries.iter().collect();
        let mut recovered = Recovered::default();
        for entries in entries.chunks(MOST_ENTERED) {
            let (settled, cut) = self
                .connection
                .change(|session| enter_leftover(session, crashed, entries, now))?;
            recovered.settled = recovered.settled.saturating_add(settled);
            recovered.cut = recovered.cut.saturating_add(cut);
        }
        recovered.torn = self
            .connection
            .change(|session| end_crashed(session, crashed, leftover, now))?;
        Ok(recovered)
    }

    fn maintain(&mut self, retention: &Retention, now: Timestamp) -> Result<usize, StoreError> {
        self.purge.run(&mut self.connection, retention, now)
    }

    fn end(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let number = self.number;
        self.connection.change(|session| end(session, number, now))
    }
}
