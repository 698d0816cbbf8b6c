//! The statements by which the ledger's one writer changes the file.
//!
//! Each function is one step inside a transaction; which steps share one is decided in
//! `writer`. That keys and grants are there which rows refer to is seen to here: on the writer's
//! connection SQLite does not check it.

mod records;
mod times;

use crate::{
    balance::{Grant, GrantNumber, MAX_PIECES, Piece},
    clock::Timestamp,
    entry::Entry,
    store::{WriteTransaction, storable_time, stored_time},
};
use records::Record;
use rusqlite::{Connection, OptionalExtension, ffi, params};
use std::{collections::BTreeMap, time::Duration};
use times::Times;
use tollgate_types::{KeyId, RequestId, Usage};

/// The most grants of one key that a process looks at; those that can be spent come
/// first.
const MAX_GRANTS: usize = MAX_PIECES;

/// A process's number in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessNumber(pub(crate) i64);

/// A process's share of a key's grants.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    /// The key's number.
    pub(crate) key: i64,
    /// The key's grants; `free` is what was newly leased.
    pub(crate) grants: Vec<Grant>,
    /// What other processes hold of them, and what is left in grants beyond those that are
    /// looked at.
    pub(crate) elsewhere: u64,
    /// What is left of the valid grants, whoever holds it; what was settled and is not
    /// written down yet is still counted.
    pub(crate) left: u64,
    /// Whether there are such grants.
    pub(crate) has_more: bool,
}

impl Share {
    /// Whether anything was newly leased.
    pub(crate) fn gains(&self) -> bool {
        self.grants.iter().any(|grant| grant.free > 0)
    }
}

/// Enters a new process.
pub(crate) fn begin(
    file: &Connection,
    settlements: &str,
    now: Timestamp,
) -> rusqlite::Result<ProcessNumber> {
    file.execute(
        "INSERT INTO processes (settlements, started_at) VALUES (?1, ?2)",
        params![settlements, storable_time(now)],
    )?;
    Ok(ProcessNumber(file.last_insert_rowid()))
}

/// Gives everything back that a process still holds, and closes it.
pub(crate) fn end(
    file: &Connection,
    process: ProcessNumber,
    now: Timestamp,
) -> rusqlite::Result<()> {
    file.execute("DELETE FROM leases WHERE process = ?1", [process.0])?;
    file.execute("DELETE FROM lease_requests WHERE process = ?1", [process.0])?;
    file.execute(
        "UPDATE processes SET ended_at = ?2 WHERE number = ?1 AND ended_at IS NULL",
        params![process.0, storable_time(now)],
    )?;
    Ok(())
}

/// Whether somebody else has closed this process.
pub(crate) fn is_fenced(file: &Connection, process: ProcessNumber) -> rusqlite::Result<bool> {
    file.prepare_cached("SELECT 1 FROM processes WHERE number = ?1 AND ended_at IS NULL")?
        .exists([process.0])
        .map(|living| !living)
}

/// The other processes that have not ended: number and settlement file.
pub(crate) fn peers(
    file: &Connection,
    process: ProcessNumber,
) -> rusqlite::Result<Vec<(ProcessNumber, String)>> {
    file.prepare_cached(
        "SELECT number, settlements FROM processes WHERE ended_at IS NULL AND number <> ?1",
    )?
    .query_map([process.0], |row| {
        Ok((ProcessNumber(row.get(0)?), row.get(1)?))
    })?
    .collect()
}

/// Leases everything that is free of a key's valid grants. `None`: there is no such key.
pub(crate) fn lease(
    file: &Connection,
    process: ProcessNumber,
    key: &KeyId,
    now: Timestamp,
) -> rusqlite::Result<Option<Share>> {
    let Some(share) = share_of(file, process, key, now)? else {
        return Ok(None);
    };
    let mut take = file.prepare_cached(
        "INSERT INTO leases (grant_number, process, tokens) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET tokens = tokens + excluded.tokens",
    )?;
    for grant in share.grants.iter().filter(|grant| grant.free > 0) {
        take.execute(params![grant.number.0, process.0, storable(grant.free)])?;
    }
    Ok(Some(share))
}

/// What there is of a key's valid grants, for a process that leases nothing of them: what is free
/// is for others. `None`: there is no such key.
pub(crate) fn look(
    file: &Connection,
    process: ProcessNumber,
    key: &KeyId,
    now: Timestamp,
) -> rusqlite::Result<Option<Share>> {
    let mut share = share_of(file, process, key, now)?;
    if let Some(share) = &mut share {
        let free = share
            .grants
            .iter_mut()
            .map(|grant| std::mem::take(&mut grant.free));
        share.elsewhere = free.fold(share.elsewhere, u64::saturating_add);
    }
    Ok(share)
}

/// What is free of a key's valid grants, and what others hold. `None`: there is no such key.
fn share_of(
    file: &Connection,
    process: ProcessNumber,
    key: &KeyId,
    now: Timestamp,
) -> rusqlite::Result<Option<Share>> {
    let number: Option<i64> = file
        .prepare_cached("SELECT number FROM keys WHERE id = ?1")?
        .query_row([key.as_str()], |row| row.get(0))
        .optional()?;
    let read = |number| read_share(file, process, number, now);
    number.map(read).transpose()
}

/// The key's grants, those that can be spent before those that cannot, with what is
/// free of each.
fn read_share(
    file: &Connection,
    process: ProcessNumber,
    key: i64,
    now: Timestamp,
) -> rusqlite::Result<Share> {
    let (mut elsewhere, mut seen): (u64, u64) = (0, 0);
    let most = i64::try_from(MAX_GRANTS).unwrap_or(i64::MAX);
    let grants = file
        .prepare_cached(
            "SELECT number, validity_ms, expires_at, tokens - spent - coalesce(held, 0),
                    coalesce(others, 0), tokens - spent
             FROM grants LEFT JOIN (
                 SELECT grant_number, sum(tokens) AS held,
                        sum(tokens) FILTER (WHERE process <> ?2) AS others
                 FROM leases
                 WHERE grant_number IN (SELECT number FROM grants WHERE key = ?1)
                 GROUP BY grant_number
             ) ON grant_number = number
             WHERE key = ?1
             ORDER BY coalesce(expires_at <= ?3, FALSE), tokens = spent, expires_at IS NULL,
                      expires_at, validity_ms, number
             LIMIT ?4",
        )?
        .query_map(params![key, process.0, storable_time(now), most], |row| {
            let validity_ms: i64 = row.get(1)?;
            let expires_at: Option<i64> = row.get(2)?;
            let grant = Grant {
                number: GrantNumber(row.get(0)?),
                validity: Duration::from_millis(validity_ms.unsigned_abs()),
                expires_at: expires_at.and_then(stored_time),
                free: amount(row.get(3)?),
                reserved: 0,
            };
            Ok((grant, amount(row.get(4)?), amount(row.get(5)?)))
        })?
        .map(|row| {
            let (mut grant, others, left) = row?;
            if grant.expires_at.is_none_or(|end| now < end) {
                elsewhere = elsewhere.saturating_add(others);
                seen = seen.saturating_add(left);
            } else {
                grant.free = 0;
            }
            Ok(grant)
        })
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let beyond = if grants.len() < MAX_GRANTS {
        0
    } else {
        left_of(file, key, now)?.saturating_sub(seen)
    };
    Ok(Share {
        key,
        grants,
        elsewhere: elsewhere.saturating_add(beyond),
        left: seen.saturating_add(beyond),
        has_more: beyond > 0,
    })
}

/// What is left of a key's valid grants, whoever holds it.
fn left_of(file: &Connection, key: i64, now: Timestamp) -> rusqlite::Result<u64> {
    file.prepare_cached(
        "SELECT coalesce(sum(tokens - spent), 0) FROM grants
         WHERE key = ?1 AND spent < tokens AND coalesce(expires_at > ?2, TRUE)",
    )?
    .query_row(params![key, storable_time(now)], |row| row.get(0))
    .map(amount)
}

/// Asks the other processes for a share of a key's grants, or no longer. Asking again is a change
/// of the file as well: they look when it has changed.
pub(crate) fn want(
    file: &Connection,
    process: ProcessNumber,
    key: i64,
    wanted: bool,
) -> rusqlite::Result<()> {
    let sql = if wanted {
        "INSERT INTO lease_requests (key, process) VALUES (?1, ?2)
         ON CONFLICT DO UPDATE SET key = excluded.key"
    } else {
        "DELETE FROM lease_requests WHERE key = ?1 AND process = ?2"
    };
    file.prepare_cached(sql)?.execute([key, process.0])?;
    Ok(())
}

/// The keys of which this process wants a share: number and key.
pub(crate) fn wishes(
    file: &Connection,
    process: ProcessNumber,
) -> rusqlite::Result<Vec<(i64, KeyId)>> {
    file.prepare_cached(
        "SELECT key, id FROM lease_requests JOIN keys ON number = key WHERE process = ?1",
    )?
    .query_map([process.0], |row| {
        Ok((row.get(0)?, KeyId::new(row.get::<_, String>(1)?)))
    })?
    .collect()
}

/// The keys of which other processes want a share: key and its number.
pub(crate) fn wanted_by_others(
    file: &Connection,
    process: ProcessNumber,
) -> rusqlite::Result<Vec<KeyId>> {
    file.prepare_cached(
        "SELECT DISTINCT id FROM lease_requests JOIN keys ON number = key WHERE process <> ?1 LIMIT 1000",
    )?
    .query_map([process.0], |row| row.get::<_, String>(0).map(KeyId::new))?
    .collect()
}

/// Gives leased tokens back. Never more than is leased: a process that was fenced has
/// nothing to give.
pub(crate) fn give_back(
    file: &Connection,
    process: ProcessNumber,
    pieces: &[Piece],
) -> rusqlite::Result<()> {
    let mut less = file.prepare_cached(
        "UPDATE leases SET tokens = tokens - ?3
         WHERE grant_number = ?1 AND process = ?2 AND tokens >= ?3",
    )?;
    let mut gone = file.prepare_cached(
        "DELETE FROM leases WHERE grant_number = ?1 AND process = ?2 AND tokens = 0",
    )?;
    for piece in pieces {
        less.execute(params![piece.grant.0, process.0, storable(piece.tokens)])?;
        gone.execute(params![piece.grant.0, process.0])?;
    }
    Ok(())
}

/// Enters a settled request and charges its grants. `false`: it was there already, and
/// nothing was changed.
pub(crate) fn settle(
    file: &WriteTransaction<'_>,
    process: ProcessNumber,
    entry: &Entry,
    now: Timestamp,
) -> rusqlite::Result<bool> {
    refuse_missing_key(file, entry.key)?;
    let mut times = Times::read(file, now)?;
    // Who pays is found out piece by piece, and written down so.
    let record = Record {
        entry,
        at: times.of(entry.at),
        paid_by: None,
    };
    if !records::insert(file, &record)? {
        return Ok(false);
    }
    let usage = file.last_insert_rowid();
    times.write(file)?;
    let mut uncovered: u64 = 0;
    for piece in entry.pieces().filter(|piece| piece.tokens > 0) {
        let paid = pay(file, process, piece)?;
        uncovered = uncovered.saturating_add(piece.tokens.saturating_sub(paid));
        if paid > 0 {
            let piece = Piece {
                tokens: paid,
                ..piece
            };
            spend(file, piece, entry.at)?;
            note_charge(file, usage, piece)?;
        }
    }
    if uncovered > 0 {
        file.prepare_cached("UPDATE usage SET overdraft = overdraft + ?2 WHERE number = ?1")?
            .execute([usage, storable(uncovered)])?;
    }
    let mut totals = Totals::default();
    totals.add(entry, uncovered);
    add_totals(file, entry.key, &entry.served, &totals)?;
    Ok(true)
}

/// Enters settled requests as [`settle`] does, with few statements for all of them and one for
/// each grant, lease and total that they touch. `false`: a request is on record already, or a
/// lease does not cover them, since this process was fenced; what was written must be rolled
/// back, and each be settled by itself. `pause` is called every few records.
pub(crate) fn settle_together<'a>(
    file: &WriteTransaction<'_>,
    process: ProcessNumber,
    entries: impl Iterator<Item = &'a Entry>,
    now: Timestamp,
    pause: impl Fn(),
) -> rusqlite::Result<bool> {
    let mut times = Times::read(file, now)?;
    let mut paid: BTreeMap<i64, Paid> = BTreeMap::new();
    let mut totals: BTreeMap<(i64, &str), Totals> = BTreeMap::new();
    let mut records = Vec::new();
    for entry in entries {
        let record = Record {
            entry,
            at: times.of(entry.at),
            paid_by: entry.paid_by_one(),
        };
        for piece in entry.pieces().filter(|piece| piece.tokens > 0) {
            paid.entry(piece.grant.0).or_default().add(&piece, entry.at);
        }
        let totals = totals.entry((entry.key, &entry.served)).or_default();
        totals.add(entry, 0);
        // What several grants paid is noted under the number of the record.
        if record.paid_by.is_some() || entry.pieces().all(|piece| piece.tokens == 0) {
            records.push(record);
        } else if !enter_pieces(file, &record)? {
            return Ok(false);
        }
    }
    // Neighbours in an index together: with many keys its pages are each looked up once.
    records.sort_by_key(|record| record.entry.key);
    if !records::insert_all(file, &records, pause)? {
        return Ok(false);
    }
    times.write(file)?;
    for (grant, Paid { tokens, first_at }) in paid {
        let piece = Piece {
            grant: GrantNumber(grant),
            tokens,
        };
        if !take_from_lease(file, process, piece)? {
            return Ok(false);
        }
        spend(file, piece, first_at)?;
    }
    let mut seen = None;
    for ((key, model), totals) in totals {
        if seen.replace(key) != Some(key) {
            refuse_missing_key(file, key)?;
        }
        add_totals(file, key, model, &totals)?;
    }
    Ok(true)
}

/// Refuses what refers to a key that is gone, as where an older backup was put in the place of
/// the file.
fn refuse_missing_key(file: &Connection, key: i64) -> rusqlite::Result<()> {
    let is_there = file
        .prepare_cached("SELECT 1 FROM keys WHERE number = ?1")?
        .exists([key])?;
    if is_there {
        Ok(())
    } else {
        Err(missing("key"))
    }
}

/// What SQLite says of a row that refers to nothing.
fn missing(what: &str) -> rusqlite::Error {
    let fault = ffi::Error::new(ffi::SQLITE_CONSTRAINT_FOREIGNKEY);
    rusqlite::Error::SqliteFailure(fault, Some(format!("its {what} is not in the file")))
}

/// What a grant pays for several requests.
#[derive(Default)]
struct Paid {
    tokens: u64,
    /// When the earliest of them was settled.
    first_at: u64,
}

impl Paid {
    fn add(&mut self, piece: &Piece, at: u64) {
        self.first_at = match self.tokens {
            0 => at,
            _ => self.first_at.min(at),
        };
        self.tokens = self.tokens.saturating_add(piece.tokens);
    }
}

/// What a key's requests to a model add up to.
#[derive(Default)]
struct Totals {
    requests: u64,
    usage: Usage,
    charged: u64,
    overdraft: u64,
}

impl Totals {
    /// Adds a request, of which so many tokens turned out to be covered by nothing.
    fn add(&mut self, entry: &Entry, uncovered: u64) {
        let paid = entry.paid.iter().map(|(_, tokens)| *tokens);
        let charged = paid.fold(entry.overdraft, u64::saturating_add);
        let sum = &mut self.usage;
        self.requests = self.requests.saturating_add(1);
        sum.input = sum.input.saturating_add(entry.usage.input);
        sum.cache_read = sum.cache_read.saturating_add(entry.usage.cache_read);
        sum.cache_write = sum.cache_write.saturating_add(entry.usage.cache_write);
        sum.output = sum.output.saturating_add(entry.usage.output);
        self.charged = self.charged.saturating_add(charged);
        let overdraft = entry.overdraft.saturating_add(uncovered);
        self.overdraft = self.overdraft.saturating_add(overdraft);
    }
}

/// Enters the record of a request that several grants have paid, and their pieces.
fn enter_pieces(file: &WriteTransaction<'_>, record: &Record<'_>) -> rusqlite::Result<bool> {
    if !records::insert(file, record)? {
        return Ok(false);
    }
    let usage = file.last_insert_rowid();
    let pieces = record.entry.pieces();
    for piece in pieces.filter(|piece| piece.tokens > 0) {
        note_charge(file, usage, piece)?;
    }
    Ok(true)
}

/// Takes a piece from the process's lease. Where the lease is gone (the process was
/// fenced), from what is free, as far as that goes. What was taken.
fn pay(file: &Connection, process: ProcessNumber, piece: Piece) -> rusqlite::Result<u64> {
    if take_from_lease(file, process, piece)? {
        return Ok(piece.tokens);
    }
    let free: Option<i64> = file
        .prepare_cached(
            "SELECT tokens - spent - coalesce(
                 (SELECT sum(tokens) FROM leases WHERE grant_number = number), 0)
             FROM grants WHERE number = ?1",
        )?
        .query_row([piece.grant.0], |row| row.get(0))
        .optional()?;
    Ok(amount(free.unwrap_or(0)).min(piece.tokens))
}

/// Takes a piece from the process's lease; `false` where the lease does not hold as much.
fn take_from_lease(
    file: &Connection,
    process: ProcessNumber,
    piece: Piece,
) -> rusqlite::Result<bool> {
    let rows = file
        .prepare_cached(
            "UPDATE leases SET tokens = tokens - ?3
             WHERE grant_number = ?1 AND process = ?2 AND tokens >= ?3",
        )?
        .execute(params![piece.grant.0, process.0, storable(piece.tokens)])?;
    Ok(rows == 1)
}

/// Spends a piece of a grant, whose validity begins with its first use.
fn spend(file: &Connection, piece: Piece, at: u64) -> rusqlite::Result<()> {
    let rows = file
        .prepare_cached(
            "UPDATE grants SET spent = spent + ?2,
             first_used_at = min(coalesce(first_used_at, ?3), ?3),
             expires_at = CASE
                 WHEN expires_at IS NULL THEN ?3 + validity_ms
                 WHEN ?3 < first_used_at THEN min(expires_at, ?3 + validity_ms)
                 ELSE expires_at
             END
         WHERE number = ?1",
        )?
        .execute(params![piece.grant.0, storable(piece.tokens), storable(at)])?;
    if rows == 1 {
        Ok(())
    } else {
        Err(missing("grant"))
    }
}

fn note_charge(file: &Connection, usage: i64, piece: Piece) -> rusqlite::Result<()> {
    file.prepare_cached("INSERT INTO charges (usage, grant_number, tokens) VALUES (?1, ?2, ?3)")?
        .execute([usage, piece.grant.0, storable(piece.tokens)])?;
    Ok(())
}

fn add_totals(file: &Connection, key: i64, model: &str, totals: &Totals) -> rusqlite::Result<()> {
    file.prepare_cached(
        "INSERT INTO totals (key, model, requests, input, cache_read, cache_write, output,
             charged, overdraft)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT DO UPDATE SET
             requests = requests + excluded.requests,
             input = input + excluded.input,
             cache_read = cache_read + excluded.cache_read,
             cache_write = cache_write + excluded.cache_write,
             output = output + excluded.output,
             charged = charged + excluded.charged,
             overdraft = overdraft + excluded.overdraft",
    )?
    .execute(params![
        key,
        model,
        storable(totals.requests),
        storable(totals.usage.input),
        storable(totals.usage.cache_read),
        storable(totals.usage.cache_write),
        storable(totals.usage.output),
        storable(totals.charged),
        storable(totals.overdraft),
    ])?;
    Ok(())
}

/// Whether a request has a record.
pub(crate) fn is_on_record(file: &Connection, request: &RequestId) -> rusqlite::Result<bool> {
    file.prepare_cached("SELECT 1 FROM usage WHERE request = ?1")?
        .exists([request.as_str()])
}

/// Keeps a record that could not be entered.
pub(crate) fn quarantine(
    file: &Connection,
    record: &[u8],
    cause: &str,
    now: Timestamp,
) -> rusqlite::Result<()> {
    file.execute(
        "INSERT INTO quarantine (at, record, cause) VALUES (?1, ?2, ?3)",
        params![storable_time(now), record, cause],
    )?;
    Ok(())
}

/// SQLite's integers are signed; four quadrillion is more than anybody is charged, and
/// sums of it stay far from the end.
pub(crate) fn storable(value: u64) -> i64 {
    const MOST: u64 = 1 << 52;
    i64::try_from(value.min(MOST)).unwrap_or(i64::MAX)
}

/// A stored amount; one below zero cannot be, and counts as nothing.
pub(crate) fn amount(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}
