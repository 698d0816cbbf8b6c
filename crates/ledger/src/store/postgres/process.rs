//! A process that spends, over a connection of its own.
//!
//! Locks are taken in one order by every transaction: the row of the process, the rows of keys by
//! number, then the rest. The row of a key guards its grants, leases, totals and record times.

use super::{connection::Connection, leases, quarantine, settle, storable_time};
use crate::{
    clock::Timestamp,
    store::{
        StoreError,
        database::{
            Batch, CheckIn, Committed, Leftover, Look, News, Peer, Process, ProcessNumber,
            Quarantined, Recovered, Retention,
        },
    },
};
use postgres::Transaction;
use std::{collections::HashSet, time::Duration};
use tollgate_types::KeyId;

/// Younger records are never deleted: the id of a recent request makes its second record nothing.
const SHORTEST_HISTORY: Duration = Duration::from_secs(3600);
/// How many rows go in one transaction.
const AT_ONCE: i64 = 500;

pub(super) struct PostgresProcess {
    connection: Connection,
    number: ProcessNumber,
    /// The newest change and lease request at the last look, and how many requests there were.
    version: Option<(i64, i64, i64)>,
}

impl PostgresProcess {
    pub(super) fn begin(
        mut connection: Connection,
        journal: &str,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let insert =
            "INSERT INTO processes (settlements, started_at) VALUES ($1, $2) RETURNING number";
        let number = connection.run(|client| {
            let row = client.query_one(insert, &[&journal, &storable_time(now)])?;
            row.try_get(0)
        })?;
        Ok(Self {
            connection,
            number: ProcessNumber(number),
            version: None,
        })
    }
}

fn commit(
    transaction: &mut Transaction<'_>,
    process: ProcessNumber,
    batch: &Batch<'_>,
) -> Result<Committed, postgres::Error> {
    let is_fenced = !is_living(transaction, process)?;
    let keys: Vec<&str> = batch.leases.iter().map(|it| it.key.as_str()).collect();
    let numbers: Vec<i64> = batch.settled.iter().map(|it| it.key).collect();
    let paid = batch.settled.iter().flat_map(|it| it.pieces());
    let grants: Vec<i64> = paid
        .chain(batch.returned.iter().copied())
        .map(|it| it.grant.0)
        .collect();
    lock_keys(transaction, &keys, &numbers, &grants)?;
    let now = (batch.now)();
    for entry in batch.settled {
        settle::enter(transaction, process, entry, now)?;
    }
    leases::give_back(transaction, process, batch.returned)?;
    // In one order, so that two processes that enter the same things do not wait for each other.
    let mut stored: Vec<_> = batch.stored.iter().collect();
    stored.sort_by(|one, other| one.id.cmp(&other.id));
    for thing in stored {
        super::stored::insert(transaction, thing, now)?;
    }
    let mut shares = Vec::new();
    // No process would give back what a fenced process leases.
    for lease in batch.leases.iter().filter(|_| !is_fenced) {
        let share = leases::lease(transaction, process, lease, now)?;
        shares.push((lease.key.clone(), share));
    }
    Ok(Committed { shares, is_fenced })
}

/// Locks the rows of keys: by id, by number, and those of grants.
fn lock_keys(
    transaction: &mut Transaction<'_>,
    ids: &[&str],
    numbers: &[i64],
    grants: &[i64],
) -> Result<(), postgres::Error> {
    transaction.execute(
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

/// Whether a process has not ended. It cannot be ended before the transaction is over.
fn is_living(
    transaction: &mut Transaction<'_>,
    process: ProcessNumber,
) -> Result<bool, postgres::Error> {
    let living = "SELECT 1 FROM processes WHERE number = $1 AND ended_at IS NULL FOR SHARE";
    Ok(transaction.query_opt(living, &[&process.0])?.is_some())
}

/// Gives everything back that a process leases, and ends it.
fn end(
    transaction: &mut Transaction<'_>,
    process: ProcessNumber,
    now: Timestamp,
) -> Result<(), postgres::Error> {
    transaction.execute(
        "UPDATE processes SET ended_at = $2 WHERE number = $1 AND ended_at IS NULL",
        &[&process.0, &storable_time(now)],
    )?;
    transaction.execute("DELETE FROM leases WHERE process = $1", &[&process.0])?;
    transaction.execute(
        "DELETE FROM lease_requests WHERE process = $1",
        &[&process.0],
    )?;
    Ok(())
}

fn recover(
    transaction: &mut Transaction<'_>,
    crashed: ProcessNumber,
    leftover: &Leftover<'_>,
    now: Timestamp,
) -> Result<Recovered, postgres::Error> {
    let lock = "SELECT 1 FROM processes WHERE number = $1 FOR NO KEY UPDATE";
    transaction.execute(lock, &[&crashed.0])?;
    let numbers: Vec<i64> = leftover.entries.iter().map(|it| it.key).collect();
    let paid = leftover.entries.iter().flat_map(|it| it.pieces());
    let grants: Vec<i64> = paid.map(|it| it.grant.0).collect();
    lock_keys(transaction, &[], &numbers, &grants)?;
    for record in &leftover.unreadable {
        quarantine::add(transaction, record, quarantine::UNREADABLE, now)?;
    }
    let mut recovered = Recovered::default();
    for entry in &leftover.entries {
        if settle::enter(transaction, crashed, entry, now)? {
            let count = match entry.is_progress {
                true => &mut recovered.cut,
                false => &mut recovered.settled,
            };
            *count = count.saturating_add(1);
        }
    }
    for slot in leftover.torn {
        let cause = match &slot.request {
            Some(request) if settle::is_on_record(transaction, request)? => continue,
            Some(request) => format!("{}: {request} is not on record", quarantine::TORN),
            None => quarantine::TORN.to_owned(),
        };
        quarantine::add(transaction, &slot.bytes, &cause, now)?;
        recovered.torn = recovered.torn.saturating_add(1);
    }
    end(transaction, crashed, now)?;
    Ok(recovered)
}

/// Deletes the oldest records. Returns how many.
fn purge_usage(
    transaction: &mut Transaction<'_>,
    before: Timestamp,
) -> Result<usize, postgres::Error> {
    let oldest = "SELECT number, key FROM usage WHERE at < $1 ORDER BY at LIMIT $2";
    let rows = transaction.query(oldest, &[&storable_time(before), &AT_ONCE])?;
    let numbers: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    let keys: Vec<i64> = rows.iter().map(|row| row.get(1)).collect();
    lock_keys(transaction, &[], &keys, &[])?;
    // Another node may have deleted some of them before this one had the locks.
    transaction.execute(
        "UPDATE grants SET purged = purged + gone
         FROM (SELECT grant_number, sum(tokens)::bigint AS gone FROM (
                 SELECT paid_by AS grant_number, charged - overdraft AS tokens FROM usage
                 WHERE number = ANY($1) AND paid_by IS NOT NULL
                 UNION ALL
                 SELECT grant_number, tokens FROM charges WHERE usage = ANY($1)
             ) AS paid GROUP BY grant_number) AS purged
         WHERE grant_number = number",
        &[&numbers],
    )?;
    let gone = transaction.execute("DELETE FROM usage WHERE number = ANY($1)", &[&numbers])?;
    Ok(usize::try_from(gone).unwrap_or(usize::MAX))
}

impl Process for PostgresProcess {
    fn news(&mut self, seen: i64, look: Look) -> Result<Option<News>, StoreError> {
        let (number, last) = (self.number.0, self.version);
        let found = self.connection.change(|snapshot| {
            let row = snapshot.query_one(
                "SELECT coalesce((SELECT max(seq) FROM changes), 0), coalesce(max(seq), 0), count(*)
                 FROM lease_requests",
                &[],
            )?;
            let version = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            if last == Some(version) && look == Look::IfChanged {
                return Ok(None);
            }
            let (newest, changed) = super::changes::keys_since(snapshot, seen)?;
            let requested = snapshot.query(
                "SELECT DISTINCT id FROM lease_requests JOIN keys ON number = key
                 WHERE process <> $1 LIMIT 1000",
                &[&number],
            )?;
            let requested = requested
                .iter()
                .map(|row| row.try_get::<_, String>(0).map(KeyId::new));
            let requested = requested.collect::<Result<_, _>>()?;
            Ok(Some((
                version,
                News {
                    newest,
                    changed,
                    requested,
                },
            )))
        })?;
        Ok(found.map(|(version, news)| {
            self.version = Some(version);
            news
        }))
    }

    fn commit(&mut self, batch: &Batch<'_>) -> Result<Committed, StoreError> {
        let number = self.number;
        self.connection
            .change(|transaction| commit(transaction, number, batch))
    }

    fn keep_lease_requests(&mut self, keys: &HashSet<KeyId>) -> Result<(), StoreError> {
        let kept: Vec<&str> = keys.iter().map(KeyId::as_str).collect();
        let number = self.number.0;
        self.connection.run(|client| {
            client.execute(
                "DELETE FROM lease_requests WHERE process = $1
                 AND key NOT IN (SELECT number FROM keys WHERE id = ANY($2))",
                &[&number, &kept],
            )
        })?;
        Ok(())
    }

    fn check_in(&mut self) -> Result<CheckIn, StoreError> {
        let number = self.number.0;
        self.connection.change(|snapshot| {
            let living = "SELECT number, settlements FROM processes WHERE ended_at IS NULL";
            let (mut is_fenced, mut peers) = (true, Vec::new());
            for row in snapshot.query(living, &[])? {
                let peer = ProcessNumber(row.try_get(0)?);
                if peer.0 == number {
                    is_fenced = false;
                } else {
                    peers.push(Peer {
                        number: peer,
                        journal: row.try_get(1)?,
                    });
                }
            }
            let quarantined: Quarantined = quarantine::count(snapshot)?;
            Ok(CheckIn {
                is_fenced,
                peers,
                quarantined,
            })
        })
    }

    fn recover(
        &mut self,
        process: Option<ProcessNumber>,
        leftover: &Leftover<'_>,
        now: Timestamp,
    ) -> Result<Recovered, StoreError> {
        // A process that has no lease: its charges are paid from what is free.
        let crashed = process.unwrap_or(ProcessNumber(-1));
        self.connection
            .change(|transaction| recover(transaction, crashed, leftover, now))
    }

    fn purge(&mut self, retention: &Retention, now: Timestamp) -> Result<usize, StoreError> {
        let records = match retention.history {
            Some(age) => {
                let before = now.minus(age.max(SHORTEST_HISTORY));
                self.connection
                    .change(|transaction| purge_usage(transaction, before))?
            }
            None => 0,
        };
        let most = i64::try_from(retention.most_stored).unwrap_or(i64::MAX);
        let before = storable_time(now.minus(retention.stored));
        self.connection.run(|client| {
            client.execute(
                "DELETE FROM owned WHERE number IN (
                     SELECT number FROM (SELECT number, at FROM owned ORDER BY number LIMIT $3) AS oldest
                     WHERE at < $1 OR number <= (SELECT max(number) FROM owned) - $2)",
                &[&before, &most, &AT_ONCE],
            )
        })?;
        Ok(records)
    }

    fn maintain(&mut self) -> Result<(), StoreError> {
        // PostgreSQL's own background processes do it.
        Ok(())
    }

    fn end(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let number = self.number;
        self.connection
            .change(|transaction| end(transaction, number, now))
    }
}
