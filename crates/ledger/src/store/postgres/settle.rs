//! Entering settled requests: the record of each, what its grants paid, and the totals of its key.
//! The caller has locked the keys.

use super::{amount, leases, quarantine, storable};
use crate::{balance::Piece, clock::Timestamp, entry::Entry, store::database::ProcessNumber};
use postgres::Transaction;
use tollgate_types::RequestId;

/// How much later a record may be entered and still have the time of its settlement.
const LATE_MS: u64 = 2_000;
/// How far behind the latest record the clock may be, in milliseconds.
const WRONG_MS: u64 = 60_000;

/// Enters a record, in a savepoint of its own. One that the database refuses is put in quarantine with
/// the reason, so that it delays no other and is not lost. Whether it was new.
pub(super) fn enter(
    transaction: &mut Transaction<'_>,
    process: ProcessNumber,
    entry: &Entry,
    now: Timestamp,
) -> Result<bool, postgres::Error> {
    let mut attempt = transaction.transaction()?;
    match settle(&mut attempt, process, entry, now) {
        Ok(is_new) => attempt.commit().map(|()| is_new),
        Err(fault) if is_about_the_record(&fault) => {
            attempt.rollback()?;
            log::error!("{}: the ledger refuses the record: {fault}", entry.request);
            let record = entry.to_json().unwrap_or_default();
            quarantine::add(transaction, &record, &super::error::words(&fault), now)?;
            Ok(false)
        }
        Err(fault) => Err(fault),
    }
}

/// Whether trying again would fail again: classes 22 (data exception) and 23 (constraint).
fn is_about_the_record(fault: &postgres::Error) -> bool {
    let code = fault.code().map(|code| code.code());
    code.is_some_and(|code| code.starts_with("22") || code.starts_with("23"))
}

/// `false`: it was there already, and nothing was changed.
fn settle(
    file: &mut Transaction<'_>,
    process: ProcessNumber,
    entry: &Entry,
    now: Timestamp,
) -> Result<bool, postgres::Error> {
    let at = record_time(file, entry, now)?;
    let number = |value: u64| storable(value);
    let charged = entry
        .paid
        .iter()
        .fold(entry.overdraft, |sum, (_, it)| sum.saturating_add(*it));
    let row = file.query_opt(
        "INSERT INTO usage (request, key, at, model_asked, model_served, format, streamed, status,
             error, state, input, cache_read, cache_write, output, reasoning, charged, overdraft,
             source, clamped, first_byte_ms, duration_ms, route_reason)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
             $19, $20, $21, $22)
         ON CONFLICT (request) DO NOTHING RETURNING number",
        &[
            &entry.request.as_str(),
            &entry.key,
            &at,
            &&*entry.asked,
            &&*entry.served,
            &entry.format.as_str(),
            &entry.streamed,
            &i64::from(entry.status),
            &entry.error.map(|code| code.as_str()),
            &entry.state.as_str(),
            &number(entry.usage.input),
            &number(entry.usage.cache_read),
            &number(entry.usage.cache_write),
            &number(entry.usage.output),
            &number(entry.usage.reasoning),
            &number(charged),
            &number(entry.overdraft),
            &entry.source.as_str(),
            &entry.clamped,
            &entry.first_byte_ms.map(i64::from),
            &i64::from(entry.duration_ms),
            &entry.reason.as_deref(),
        ],
    )?;
    let Some(row) = row else {
        return Ok(false);
    };
    let usage: i64 = row.try_get(0)?;
    file.execute(
        "INSERT INTO record_times (key, latest) VALUES ($1, $2)
         ON CONFLICT (key) DO UPDATE SET latest = excluded.latest",
        &[&entry.key, &at],
    )?;
    let mut uncovered: u64 = 0;
    for piece in entry.pieces().filter(|piece| piece.tokens > 0) {
        let paid = pay(file, process, piece)?;
        uncovered = uncovered.saturating_add(piece.tokens.saturating_sub(paid));
        if paid > 0 {
            spend(
                file,
                Piece {
                    tokens: paid,
                    ..piece
                },
                entry.at,
            )?;
            file.execute(
                "INSERT INTO charges (usage, grant_number, tokens) VALUES ($1, $2, $3)",
                &[&usage, &piece.grant.0, &storable(paid)],
            )?;
        }
    }
    if uncovered > 0 {
        file.execute(
            "UPDATE usage SET overdraft = overdraft + $2 WHERE number = $1",
            &[&usage, &storable(uncovered)],
        )?;
    }
    let overdraft = entry.overdraft.saturating_add(uncovered);
    file.execute(
        "INSERT INTO totals AS t (key, model, requests, input, cache_read, cache_write, output,
             charged, overdraft)
         VALUES ($1, $2, 1, $3, $4, $5, $6, $7, $8)
         ON CONFLICT (key, model) DO UPDATE SET
             requests = t.requests + 1, input = t.input + excluded.input,
             cache_read = t.cache_read + excluded.cache_read,
             cache_write = t.cache_write + excluded.cache_write,
             output = t.output + excluded.output, charged = t.charged + excluded.charged,
             overdraft = t.overdraft + excluded.overdraft",
        &[
            &entry.key,
            &&*entry.served,
            &number(entry.usage.input),
            &number(entry.usage.cache_read),
            &number(entry.usage.cache_write),
            &number(entry.usage.output),
            &number(charged),
            &number(overdraft),
        ],
    )?;
    Ok(true)
}

/// The time of a record: never before that of a record of the key that was entered before, so that
/// cursors stay right; that of its settlement, unless it is entered late.
fn record_time(
    file: &mut Transaction<'_>,
    entry: &Entry,
    now: Timestamp,
) -> Result<i64, postgres::Error> {
    let latest = file.query_opt(
        "SELECT latest FROM record_times WHERE key = $1",
        &[&entry.key],
    )?;
    let latest: i64 = latest.map_or(Ok(0), |row| row.try_get(0))?;
    let now_ms = now.unix_ms();
    let floor = Some(amount(latest)).filter(|it| *it <= now_ms.saturating_add(WRONG_MS));
    let in_time = now_ms.saturating_sub(LATE_MS)..=now_ms;
    let at = if in_time.contains(&entry.at) {
        entry.at
    } else {
        now_ms
    };
    Ok(storable(at.max(floor.unwrap_or(0))))
}

/// Takes a piece from the process's lease, or as much as is free if the lease is gone because the
/// process was fenced. Returns what was taken.
fn pay(
    file: &mut Transaction<'_>,
    process: ProcessNumber,
    piece: Piece,
) -> Result<u64, postgres::Error> {
    if leases::spend(file, process, piece)? {
        return Ok(piece.tokens);
    }
    let free = file.query_opt(
        "SELECT tokens - spent - coalesce(
             (SELECT sum(tokens) FROM leases WHERE grant_number = number), 0)::bigint
         FROM grants WHERE number = $1",
        &[&piece.grant.0],
    )?;
    let free: i64 = free.map_or(Ok(0), |row| row.try_get(0))?;
    Ok(amount(free).min(piece.tokens))
}

/// Spends a piece of a grant, whose validity begins with its first use.
fn spend(file: &mut Transaction<'_>, piece: Piece, at: u64) -> Result<(), postgres::Error> {
    file.execute(
        "UPDATE grants SET spent = spent + $2, first_used_at = least(first_used_at, $3),
             expires_at = CASE
                 WHEN expires_at IS NULL THEN $3 + validity_ms
                 WHEN $3 < first_used_at THEN least(expires_at, $3 + validity_ms)
                 ELSE expires_at END
         WHERE number = $1",
        &[&piece.grant.0, &storable(piece.tokens), &storable(at)],
    )?;
    Ok(())
}

/// Whether a request has a record.
pub(super) fn is_on_record(
    file: &mut Transaction<'_>,
    request: &RequestId,
) -> Result<bool, postgres::Error> {
    let find = "SELECT 1 FROM usage WHERE request = $1";
    Ok(file.query_opt(find, &[&request.as_str()])?.is_some())
}
