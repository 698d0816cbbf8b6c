//! Entering settled requests: the record of each, what its grants paid, and the totals of its key.
//!
//! Requests that come together are entered together, with few statements for all of them. Whatever
//! cannot be entered so is entered one by one. That the keys and grants exist which rows refer to is
//! checked here: on the connection of the writer SQLite does not check it.

use super::{
    amount, leases,
    records::{self, Record},
    storable,
    times::Times,
    write::{WriteConnection, WriteTransaction},
};
use crate::{
    balance::{GrantNumber, Piece},
    clock::Timestamp,
    entry::Entry,
    store::{
        database::{Batch, ProcessNumber},
        statements::{grants, quarantine},
    },
};
use rusqlite::{Connection, ErrorCode, OptionalExtension, ffi, params};
use std::collections::BTreeMap;
use tollgate_types::{Money, PerUnit, RequestId, Unit, Usage};

/// Begins a transaction and enters the settled requests of a batch. If they cannot be entered together
/// (a record exists or is refused, a lease is gone), the transaction is rolled back as a whole: a
/// savepoint would copy every page for it. Then each is entered by itself.
pub(super) fn enter_all<'file>(
    file: &'file WriteConnection,
    process: ProcessNumber,
    batch: &Batch<'_>,
) -> rusqlite::Result<WriteTransaction<'file>> {
    let transaction = file.begin()?;
    if batch.settled.is_empty() {
        return Ok(transaction);
    }
    match settle_together(&transaction, process, batch) {
        Ok(true) => return Ok(transaction),
        Err(fault) if !is_about_the_record(&fault) => return Err(fault),
        Ok(false) | Err(_) => transaction.rollback()?,
    }
    let transaction = file.begin()?;
    let now = (batch.now)();
    for entry in batch.settled {
        if is_on_record(&transaction, &entry.request)? {
            // Another process has entered it: this one has not spent its lease. A commit that failed was not
            // carried out.
            let pieces: Vec<Piece> = entry.all_pieces().collect();
            leases::give_back(&transaction, process, &pieces)?;
        } else {
            enter(&transaction, process, entry, now)?;
        }
    }
    Ok(transaction)
}

/// Enters a record, in a savepoint of its own. One that the database refuses is put in quarantine with
/// the reason, so that it delays no other and is not lost. Whether it was new.
pub(super) fn enter(
    transaction: &WriteTransaction<'_>,
    process: ProcessNumber,
    entry: &Entry,
    now: Timestamp,
) -> rusqlite::Result<bool> {
    match transaction.attempt(|| settle(transaction, process, entry, now))? {
        Err(fault) if is_about_the_record(&fault) => {
            log::error!("{}: the ledger refuses the record: {fault}", entry.request);
            let record = entry.to_json().unwrap_or_default();
            quarantine::add(
                &mut transaction.connection(),
                &record,
                &fault.to_string(),
                now,
            )?;
            Ok(false)
        }
        entered => entered,
    }
}

/// Whether trying again would fail again.
fn is_about_the_record(fault: &rusqlite::Error) -> bool {
    matches!(
        fault.sqlite_error_code(),
        Some(
            ErrorCode::ConstraintViolation
                | ErrorCode::TypeMismatch
                | ErrorCode::TooBig
                | ErrorCode::ParameterOutOfRange
        )
    )
}

/// Enters a settled request and charges its grants. `false`: it was there already, and
/// nothing was changed.
fn settle(
    file: &WriteTransaction<'_>,
    process: ProcessNumber,
    entry: &Entry,
    now: Timestamp,
) -> rusqlite::Result<bool> {
    #[cfg(test)]
    assert_ne!(*entry.asked, *crate::entry::PANICS);
    refuse_missing_key(file, entry.key)?;
    let mut times = Times::read(file, now)?;
    // The pieces are paid and noted one by one.
    let record = Record {
        entry,
        at: times.of(entry.at),
        paid_by: PerUnit::default(),
    };
    if !records::insert(file, &record)? {
        return Ok(false);
    }
    let usage = file.last_insert_rowid();
    times.write(file)?;
    let mut uncovered = PerUnit::<u64>::default();
    for unit in Unit::ALL {
        let uncovered = uncovered.get_mut(unit);
        for piece in entry.pieces(unit) {
            let paid = pay(file, process, entry.key, piece)?;
            *uncovered = uncovered.saturating_add(piece.amount.saturating_sub(paid));
            if paid > 0 {
                let piece = Piece {
                    amount: paid,
                    ..piece
                };
                spend(file, piece, entry.at)?;
                note_charge(file, usage, piece)?;
            }
        }
    }
    if uncovered != PerUnit::default() {
        file.prepare_cached(
            "UPDATE usage SET overdraft = overdraft + ?2, cost_overdraft = cost_overdraft + ?3
             WHERE number = ?1",
        )?
        .execute([usage, storable(uncovered.tokens), storable(uncovered.money)])?;
    }
    let mut totals = Totals::default();
    totals.add(entry, &uncovered);
    add_totals(file, entry.key, &entry.served, &totals)?;
    begin(file, entry)?;
    Ok(true)
}

/// Enters settled requests as [`settle`] does, with few statements for all of them and one for each
/// grant, lease and total that they touch. `false`: a request is on record already, or a lease does
/// not cover them because this process was fenced; what was written must be rolled back.
fn settle_together(
    file: &WriteTransaction<'_>,
    process: ProcessNumber,
    batch: &Batch<'_>,
) -> rusqlite::Result<bool> {
    let mut times = Times::read(file, (batch.now)())?;
    let mut paid: BTreeMap<i64, Paid> = BTreeMap::new();
    let mut totals: BTreeMap<(i64, &str), Totals> = BTreeMap::new();
    let mut records = Vec::new();
    for &entry in batch.settled {
        let record = Record {
            entry,
            at: times.of(entry.at),
            paid_by: entry.paid_by_one(),
        };
        for piece in entry.all_pieces() {
            paid.entry(piece.grant.0).or_default().add(&piece, entry.at);
        }
        let totals = totals.entry((entry.key, &entry.served)).or_default();
        totals.add(entry, &PerUnit::default());
        begin(file, entry)?;
        // The pieces of several grants are noted under the number of the record.
        let paid_by_one = |unit: &Unit| {
            record.paid_by.get(*unit).is_some() || entry.pieces(*unit).next().is_none()
        };
        if Unit::ALL.iter().all(paid_by_one) {
            records.push(record);
        } else if !enter_pieces(file, &record)? {
            return Ok(false);
        }
    }
    // Neighbours in an index together: with many keys its pages are each looked up once.
    records.sort_by_key(|record| record.entry.key);
    if !records::insert_all(file, &records, batch.pause)? {
        return Ok(false);
    }
    times.write(file)?;
    for (grant, Paid { tokens, first_at }) in paid {
        let piece = Piece {
            grant: GrantNumber(grant),
            amount: tokens,
        };
        if !leases::spend(file, process, piece)? {
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

/// Begins the validity of the grants that the request has used without a payment.
fn begin(file: &WriteTransaction<'_>, entry: &Entry) -> rusqlite::Result<()> {
    for grant in entry.begun() {
        let at = Timestamp::from_unix_ms(entry.at);
        grants::begin(&mut file.connection(), grant, entry.key, at)?;
    }
    Ok(())
}

/// Refuses a record whose key does not exist, as after an older backup was put in the place of the
/// file.
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
        self.tokens = self.tokens.saturating_add(piece.amount);
    }
}

/// What a key's requests to a model add up to.
#[derive(Default)]
struct Totals {
    requests: u64,
    usage: Usage,
    charged: u64,
    overdraft: u64,
    cost: Money,
    cost_paid: u64,
}

impl Totals {
    /// Adds a request, of which so much turned out to be covered by nothing.
    fn add(&mut self, entry: &Entry, uncovered: &PerUnit<u64>) {
        let sum = &mut self.usage;
        self.requests = self.requests.saturating_add(1);
        sum.input = sum.input.saturating_add(entry.usage.input);
        sum.cache_read = sum.cache_read.saturating_add(entry.usage.cache_read);
        sum.cache_write = sum.cache_write.saturating_add(entry.usage.cache_write);
        sum.output = sum.output.saturating_add(entry.usage.output);
        self.charged = self.charged.saturating_add(entry.charged());
        let overdraft = entry.overdraft.saturating_add(uncovered.tokens);
        self.overdraft = self.overdraft.saturating_add(overdraft);
        self.cost = self.cost.plus(entry.cost.unwrap_or_default());
        let cost_paid = entry.cost_paid().saturating_sub(uncovered.money);
        self.cost_paid = self.cost_paid.saturating_add(cost_paid);
    }
}

/// Enters the record of a request that several grants have paid, and their pieces.
fn enter_pieces(file: &WriteTransaction<'_>, record: &Record<'_>) -> rusqlite::Result<bool> {
    if !records::insert(file, record)? {
        return Ok(false);
    }
    let usage = file.last_insert_rowid();
    for unit in Unit::ALL {
        // The record names the grant that has paid alone.
        if record.paid_by.get(unit).is_none() {
            for piece in record.entry.pieces(unit) {
                note_charge(file, usage, piece)?;
            }
        }
    }
    Ok(true)
}

/// Takes a piece from the process's lease, or as much as is free if the lease is gone because the
/// process was fenced. Returns what was taken. After a restore, the number can be of a grant of another key.
fn pay(file: &Connection, process: ProcessNumber, key: i64, piece: Piece) -> rusqlite::Result<u64> {
    if leases::spend(file, process, piece)? {
        return Ok(piece.amount);
    }
    let free: Option<i64> = file
        .prepare_cached(
            "SELECT tokens - spent - coalesce(
                 (SELECT sum(tokens) FROM leases WHERE grant_number = number), 0)
             FROM grants WHERE number = ?1 AND key = ?2",
        )?
        .query_row([piece.grant.0, key], |row| row.get(0))
        .optional()?;
    Ok(amount(free.unwrap_or(0)).min(piece.amount))
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
        .execute(params![piece.grant.0, storable(piece.amount), storable(at)])?;
    if rows == 1 {
        Ok(())
    } else {
        Err(missing("grant"))
    }
}

fn note_charge(file: &Connection, usage: i64, piece: Piece) -> rusqlite::Result<()> {
    file.prepare_cached("INSERT INTO charges (usage, grant_number, tokens) VALUES (?1, ?2, ?3)")?
        .execute([usage, piece.grant.0, storable(piece.amount)])?;
    Ok(())
}

fn add_totals(file: &Connection, key: i64, model: &str, totals: &Totals) -> rusqlite::Result<()> {
    file.prepare_cached(
        "INSERT INTO totals (key, model, requests, input, cache_read, cache_write, output,
             charged, overdraft, cost, cost_paid)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
         ON CONFLICT DO UPDATE SET
             requests = requests + excluded.requests,
             input = input + excluded.input,
             cache_read = cache_read + excluded.cache_read,
             cache_write = cache_write + excluded.cache_write,
             output = output + excluded.output,
             charged = charged + excluded.charged,
             overdraft = overdraft + excluded.overdraft,
             cost = min(cost + excluded.cost, 9223372036854775807),
             cost_paid = cost_paid + excluded.cost_paid",
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
        // A batch can cost more than any request. A sum without room would refuse the batch: SQLite makes
        // a floating-point number of it.
        i64::try_from(totals.cost.nanos()).unwrap_or(i64::MAX),
        // Grants bound this one.
        storable(totals.cost_paid),
    ])?;
    Ok(())
}

/// Whether a request has a record.
pub(super) fn is_on_record(file: &Connection, request: &RequestId) -> rusqlite::Result<bool> {
    file.prepare_cached("SELECT 1 FROM usage WHERE request = ?1")?
        .exists([request.as_str()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::largest;

    #[test]
    fn the_total_cost_of_a_batch_is_exact_and_has_an_end() {
        let file = Connection::open_in_memory().unwrap();
        file.execute_batch(
            "CREATE TABLE totals (key INTEGER, model TEXT, requests INTEGER, input INTEGER,
                 cache_read INTEGER, cache_write INTEGER, output INTEGER, charged INTEGER,
                 overdraft INTEGER, cost INTEGER, cost_paid INTEGER, PRIMARY KEY (key, model)) STRICT",
        )
        .unwrap();
        let enter = |costs: &[u64]| {
            let mut totals = Totals::default();
            for nanos in costs {
                let cost = Some(Money::from_nanos(*nanos));
                totals.add(&Entry { cost, ..largest() }, &PerUnit::default());
            }
            add_totals(&file, 1, "model", &totals).unwrap();
            let cost = "SELECT cost FROM totals";
            file.query_row(cost, [], |row| row.get::<_, i64>(0))
                .unwrap()
        };
        const DEAREST: u64 = 1 << 52;
        assert_eq!(enter(&[DEAREST, DEAREST, 1]), (1 << 53) + 1);
        assert_eq!(enter(&[1]), (1 << 53) + 2);
        assert_eq!(enter(&[u64::MAX]), i64::MAX);
        assert_eq!(enter(&[1]), i64::MAX);
    }
}
