//! Entering settled requests: the record of each, what its grants paid, and the totals of its key.
//! The caller has locked the keys.
//!
//! Requests that come together are entered together, with few statements for all of them. If that is
//! impossible, each is entered by itself.

use super::{amount, connection::Session, leases, plain, storable, storable_time};
use crate::{
    balance::{GrantNumber, MAX_PIECES, Piece},
    clock::Timestamp,
    entry::Entry,
    store::{
        database::{BeyondLease, ProcessNumber},
        statements::{grants, quarantine},
        times,
    },
};
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};
use tollgate_types::{Format, PerUnit, RequestId, Unit};

/// A request as it is entered.
struct Record<'a> {
    entry: &'a Entry,
    /// Its time, milliseconds since 1970.
    at: u64,
    /// What its grants of each unit pay in fact.
    paid: PerUnit<Vec<Piece>>,
    /// What no grant covers.
    overdraft: PerUnit<u64>,
}

/// The settled requests of a batch.
pub(super) struct Entered<'a> {
    /// Those that were entered.
    pub(super) new: Vec<&'a Entry>,
    /// Those that had a record.
    pub(super) known: Vec<&'a Entry>,
    /// Those of the new ones that the leases did not cover.
    pub(super) beyond: Vec<BeyondLease>,
}

/// Enters the settled requests of a batch. If they cannot be entered together (a record is refused, a
/// lease is gone), each is entered by itself.
pub(super) fn enter_all<'a>(
    session: &mut Session,
    process: ProcessNumber,
    entries: &[&'a Entry],
    now: Timestamp,
) -> Result<Entered<'a>, postgres::Error> {
    let (new, known) = by_record(session, entries)?;
    // What was beyond the lease may be free.
    let (beyond, new): (Vec<&Entry>, Vec<&Entry>) = new
        .into_iter()
        .partition(|entry| entry.overdrafts() != PerUnit::default());
    let mut entered = Entered {
        new: Vec::new(),
        known,
        beyond: Vec::new(),
    };
    enter_together(session, process, new, now, &mut entered)?;
    enter_each(session, process, beyond, now, &mut entered)?;
    Ok(entered)
}

fn enter_together<'a>(
    session: &mut Session,
    process: ProcessNumber,
    new: Vec<&'a Entry>,
    now: Timestamp,
    all: &mut Entered<'a>,
) -> Result<(), postgres::Error> {
    if new.is_empty() {
        return Ok(());
    }
    let paid = leases::summed(new.iter().flat_map(|entry| entry.all_pieces()));
    if leases::cover(session, process, &paid)? {
        let times = Times::read(session, &new, now)?;
        let records: Vec<Record<'_>> = new.iter().map(|entry| times.record(entry)).collect();
        let entered = session.attempt(|session| {
            leases::spend_all(session, process, &paid)?;
            write(session, &records)
        })?;
        match entered {
            Err(fault) if is_about_the_record(&fault) => {}
            entered => return entered.map(|()| all.new.extend(new)),
        }
    }
    enter_each(session, process, new, now, all)
}

fn enter_each<'a>(
    session: &mut Session,
    process: ProcessNumber,
    new: Vec<&'a Entry>,
    now: Timestamp,
    all: &mut Entered<'a>,
) -> Result<(), postgres::Error> {
    for entry in new {
        let Some(overdraft) = enter(session, process, entry, now)? else {
            continue;
        };
        all.new.push(entry);
        let beyond = entry.overdrafts();
        if [beyond, overdraft] != [PerUnit::default(); 2] {
            let paid = |unit| beyond.get(unit).saturating_sub(*overdraft.get(unit));
            all.beyond.push(BeyondLease {
                request: entry.request,
                key: entry.key,
                paid: PerUnit::from_fn(paid),
                overdraft,
            });
        }
    }
    Ok(())
}

/// Those that have no record yet, of several of one request the first; and the others.
fn by_record<'a>(
    session: &mut Session,
    entries: &[&'a Entry],
) -> Result<(Vec<&'a Entry>, Vec<&'a Entry>), postgres::Error> {
    if entries.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let requests: Vec<&str> = entries.iter().map(|it| it.request.as_str()).collect();
    let oldest = entries.iter().map(|it| earliest(&it.request)).min();
    let known = "SELECT request FROM usage WHERE request = ANY($1) AND at >= $2";
    let known = session.query(known, &[&requests, &oldest])?;
    let known = known.iter().map(|row| row.try_get::<_, String>(0));
    let mut known: HashSet<String> = known.collect::<Result<_, _>>()?;
    let is_new = |entry: &&Entry| known.insert(entry.request.as_str().to_owned());
    Ok(entries.iter().copied().partition(is_new))
}

/// Enters a new record in its own savepoint, and returns the overdraft. If the database refuses the record, puts it
/// in quarantine with the reason, so that the others are not delayed, and returns `None`.
fn enter(
    session: &mut Session,
    process: ProcessNumber,
    entry: &Entry,
    now: Timestamp,
) -> Result<Option<PerUnit<u64>>, postgres::Error> {
    match session.attempt(|session| settle(session, process, entry, now))? {
        Err(fault) if is_about_the_record(&fault) => {
            let message = super::error::words(&fault);
            log::error!(
                "{}: the ledger refuses the record: {message}",
                entry.request
            );
            let record = entry.to_json().unwrap_or_default();
            quarantine::add(session, &record, &message, now)?;
            Ok(None)
        }
        entered => entered.map(Some),
    }
}

/// Whether trying again would fail again: classes 22 (data exception) and 23 (constraint).
fn is_about_the_record(fault: &postgres::Error) -> bool {
    let code = fault.code().map(|code| code.code());
    code.is_some_and(|code| code.starts_with("22") || code.starts_with("23"))
}

/// Enters a new record, and returns the overdraft. The free amount of grants pays for the part that no lease covers.
fn settle(
    session: &mut Session,
    process: ProcessNumber,
    entry: &Entry,
    now: Timestamp,
) -> Result<PerUnit<u64>, postgres::Error> {
    let mut record = Times::read(session, &[entry], now)?.record(entry);
    for unit in Unit::ALL {
        let (pieces, overdraft) = (record.paid.get_mut(unit), record.overdraft.get_mut(unit));
        for piece in pieces.iter_mut() {
            let paid = pay(session, process, *piece)?;
            let uncovered = piece.amount.saturating_sub(paid);
            *overdraft = overdraft.saturating_add(uncovered);
            piece.amount = paid;
        }
        if *overdraft > 0 {
            let free = leases::free(session, entry.key, unit, now)?;
            pay_from(&free, pieces, overdraft);
        }
        pieces.retain(|piece| piece.amount > 0);
    }
    let overdraft = record.overdraft;
    write(session, &[record])?;
    Ok(overdraft)
}

/// Pays an overdraft from what is free: a process leases only what it expects to need.
fn pay_from(free: &[(GrantNumber, u64)], pieces: &mut Vec<Piece>, overdraft: &mut u64) {
    for (grant, free) in free {
        let known = pieces.iter().position(|piece| piece.grant == *grant);
        let place = known.unwrap_or(pieces.len());
        if known.is_none() && place < MAX_PIECES {
            pieces.push(Piece {
                grant: *grant,
                amount: 0,
            });
        }
        if let Some(piece) = pieces.get_mut(place) {
            // What is paid already still counts as free.
            let more = free.saturating_sub(piece.amount).min(*overdraft);
            piece.amount = piece.amount.saturating_add(more);
            *overdraft = overdraft.saturating_sub(more);
        }
    }
}

/// Takes a piece from the process's lease, or as much as is free if the lease is gone because the
/// process was fenced. Returns what was taken.
fn pay(
    session: &mut Session,
    process: ProcessNumber,
    piece: Piece,
) -> Result<u64, postgres::Error> {
    if leases::cover(session, process, &[piece])? {
        leases::spend_all(session, process, &[piece])?;
        return Ok(piece.amount);
    }
    let free = session.query_opt(
        "SELECT tokens - spent - coalesce(
             (SELECT sum(tokens) FROM leases WHERE grant_number = number), 0)::bigint
         FROM grants WHERE number = $1",
        &[&piece.grant.0],
    )?;
    let free: i64 = free.map_or(Ok(0), |row| row.try_get(0))?;
    Ok(amount(free).min(piece.amount))
}

/// Enters records that are new, and charges the grants that pay.
fn write(session: &mut Session, records: &[Record<'_>]) -> Result<(), postgres::Error> {
    for record in records {
        make_week(session, storable(record.at))?;
    }
    insert(session, records)?;
    #[cfg(test)]
    for record in records {
        assert_ne!(*record.entry.asked, *crate::entry::PANICS);
    }
    note_times(session, records)?;
    spend(session, records)?;
    begin(session, records)?;
    note_charges(session, records)?;
    add_totals(session, records)
}

/// The grant of a unit that has paid all of a record but the overdraft; `None` if several paid, or none.
fn paid_by(record: &Record<'_>, unit: Unit) -> Option<i64> {
    match &**record.paid.get(unit) {
        [piece] => Some(piece.grant.0),
        _ => None,
    }
}

/// The earliest time that the record of a request can have, if clocks agree within a day. The server does not
/// search the weeks before it.
pub(super) fn earliest(request: &RequestId) -> i64 {
    const DAY: Duration = Duration::from_secs(86_400);
    storable_time(Timestamp::of_request(request).minus(DAY))
}

/// The week of a time, counted from 1970.
pub(super) const fn week(at: i64) -> i64 {
    const WEEK_MS: i64 = 7 * 86_400_000;
    at.div_euclid(WEEK_MS)
}

/// Creates the week of the history that has the records of a time, if it is missing.
pub(super) fn make_week(session: &mut Session, at: i64) -> Result<(), postgres::Error> {
    let week = week(at);
    if session.week != Some(week) {
        session.execute("SELECT make_history_part($1)", &[&week])?;
        session.week = Some(week);
    }
    Ok(())
}

fn insert(session: &mut Session, records: &[Record<'_>]) -> Result<(), postgres::Error> {
    fn all<'a, T>(records: &'a [Record<'_>], of: impl Fn(&'a Record<'_>) -> T) -> Vec<T> {
        records.iter().map(of).collect()
    }
    let numbers = |of: &dyn Fn(&Record<'_>) -> u64| all(records, |it| storable(of(it)));
    session.execute(
        "INSERT INTO usage (request, key, at, model_asked, model_served, format, streamed, status,
             error, state, input, cache_read, cache_write, output, reasoning, charged, overdraft,
             source, clamped, first_byte_ms, duration_ms, paid_by, route_reason, cost,
             cost_overdraft, cost_paid_by)
         SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::text[],
             $6::text[], $7::boolean[], $8::bigint[], $9::text[], $10::text[], $11::bigint[],
             $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[],
             $17::bigint[], $18::text[], $19::boolean[], $20::bigint[], $21::bigint[],
             $22::bigint[], $23::text[], $24::bigint[], $25::bigint[], $26::bigint[])",
        &[
            &all(records, |it| it.entry.request.as_str()),
            &all(records, |it| it.entry.key),
            &numbers(&|it| it.at),
            &all(records, |it| plain(&it.entry.asked)),
            &all(records, |it| plain(&it.entry.served)),
            &all(records, |it| Format::name_of(it.entry.format)),
            &all(records, |it| it.entry.streamed),
            &all(records, |it| i64::from(it.entry.status)),
            &all(records, |it| it.entry.error.map(|code| code.as_str())),
            &all(records, |it| it.entry.state.as_str()),
            &numbers(&|it| it.entry.usage.input),
            &numbers(&|it| it.entry.usage.cache_read),
            &numbers(&|it| it.entry.usage.cache_write),
            &numbers(&|it| it.entry.usage.output),
            &numbers(&|it| it.entry.usage.reasoning),
            &numbers(&|it| it.entry.charged()),
            &numbers(&|it| it.overdraft.tokens),
            &all(records, |it| it.entry.source.as_str()),
            &all(records, |it| it.entry.clamped),
            &all(records, |it| it.entry.first_byte_ms.map(i64::from)),
            &all(records, |it| i64::from(it.entry.duration_ms)),
            &all(records, |it| paid_by(it, Unit::Tokens)),
            &all(records, |it| it.entry.reason.as_deref().map(plain)),
            &all(records, |it| {
                it.entry.cost.map(|cost| storable(cost.nanos()))
            }),
            &all(records, |it| {
                let is_charged = it.entry.cost_overdraft.is_some();
                is_charged.then(|| storable(it.overdraft.money))
            }),
            &all(records, |it| paid_by(it, Unit::Money)),
        ],
    )?;
    Ok(())
}

/// Spends the pieces of grants, whose validity begins with their first use.
fn spend(session: &mut Session, records: &[Record<'_>]) -> Result<(), postgres::Error> {
    let mut paid: BTreeMap<i64, (u64, u64)> = BTreeMap::new();
    for record in records {
        for piece in record.paid.iter().flatten() {
            let (tokens, first_at) = paid.entry(piece.grant.0).or_insert((0, record.entry.at));
            *tokens = tokens.saturating_add(piece.amount);
            *first_at = (*first_at).min(record.entry.at);
        }
    }
    if paid.is_empty() {
        return Ok(());
    }
    let grants: Vec<i64> = paid.keys().copied().collect();
    let tokens: Vec<i64> = paid.values().map(|(tokens, _)| storable(*tokens)).collect();
    let first_at: Vec<i64> = paid.values().map(|(_, at)| storable(*at)).collect();
    session.execute(
        "UPDATE grants SET spent = spent + paid.tokens, first_used_at = least(first_used_at, paid.at),
             expires_at = CASE
                 WHEN expires_at IS NULL THEN paid.at + validity_ms
                 WHEN paid.at < first_used_at THEN least(expires_at, paid.at + validity_ms)
                 ELSE expires_at END
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS paid (grant_number, tokens, at)
         WHERE number = paid.grant_number",
        &[&grants, &tokens, &first_at],
    )?;
    Ok(())
}

/// Begins the validity of the grants that requests have used without a payment.
fn begin(session: &mut Session, records: &[Record<'_>]) -> Result<(), postgres::Error> {
    for Record { entry, .. } in records {
        for grant in entry.begun() {
            let at = Timestamp::from_unix_ms(entry.at);
            grants::begin(session, grant, entry.key, at)?;
        }
    }
    Ok(())
}

/// Notes the pieces of requests that several grants have paid.
fn note_charges(session: &mut Session, records: &[Record<'_>]) -> Result<(), postgres::Error> {
    let pieces = records.iter().flat_map(|record| {
        let request = record.entry.request.as_str();
        let several = record.paid.iter().filter(|pieces| pieces.len() > 1);
        several.flatten().map(move |piece| (request, piece))
    });
    let pieces: Vec<(&str, &Piece)> = pieces.collect();
    if pieces.is_empty() {
        return Ok(());
    }
    let requests: Vec<&str> = pieces.iter().map(|(request, _)| *request).collect();
    let oldest = records.iter().map(|it| storable(it.at)).min();
    let grants: Vec<i64> = pieces.iter().map(|(_, piece)| piece.grant.0).collect();
    let tokens: Vec<i64> = pieces.iter().map(|(_, it)| storable(it.amount)).collect();
    session.execute(
        "INSERT INTO charges (usage, at, grant_number, tokens)
         SELECT number, at, paid.grant_number, paid.tokens
         FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS paid (request, grant_number, tokens)
         JOIN usage ON usage.request = paid.request AND at >= $4",
        &[&requests, &grants, &tokens, &oldest],
    )?;
    Ok(())
}

/// Requests, tokens of the four kinds, charge, overdraft, cost and what was paid of it.
type Totals = [u64; 9];

fn add_totals(session: &mut Session, records: &[Record<'_>]) -> Result<(), postgres::Error> {
    let mut totals: BTreeMap<(i64, Cow<'_, str>), Totals> = BTreeMap::new();
    for Record {
        entry,
        paid,
        overdraft,
        ..
    } in records
    {
        let cost_paid = paid.money.iter().map(|piece| piece.amount);
        let sums = totals.entry((entry.key, plain(&entry.served)));
        let usage = &entry.usage;
        let more = [
            1,
            usage.input,
            usage.cache_read,
            usage.cache_write,
            usage.output,
            entry.charged(),
            overdraft.tokens,
            entry.cost.unwrap_or_default().nanos(),
            cost_paid.fold(0, u64::saturating_add),
        ];
        for (sum, more) in sums.or_default().iter_mut().zip(more) {
            *sum = sum.saturating_add(more);
        }
    }
    let keys: Vec<i64> = totals.keys().map(|(key, _)| *key).collect();
    let models: Vec<&str> = totals.keys().map(|(_, model)| &**model).collect();
    let [
        requests,
        input,
        cache_read,
        cache_write,
        output,
        charged,
        overdraft,
        cost,
        cost_paid,
    ] = [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|kind| -> Vec<i64> {
        // A batch can cost more than any request.
        let exact = |sum| i64::try_from(sum).unwrap_or(i64::MAX);
        let of_kind = match kind {
            7 => exact,
            _ => storable,
        };
        let of_kind = |sums: &Totals| sums.get(kind).copied().map_or(0, of_kind);
        totals.values().map(of_kind).collect()
    });
    session.execute(
        "INSERT INTO totals AS t (key, model, requests, input, cache_read, cache_write, output,
             charged, overdraft, cost, cost_paid)
         SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[],
             $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[])
         ON CONFLICT (key, model) DO UPDATE SET
             requests = t.requests + excluded.requests, input = t.input + excluded.input,
             cache_read = t.cache_read + excluded.cache_read,
             cache_write = t.cache_write + excluded.cache_write,
             output = t.output + excluded.output, charged = t.charged + excluded.charged,
             overdraft = t.overdraft + excluded.overdraft,
             cost = least(t.cost::numeric + excluded.cost, 9223372036854775807)::bigint,
             cost_paid = t.cost_paid + excluded.cost_paid",
        &[
            &keys,
            &models,
            &requests,
            &input,
            &cache_read,
            &cache_write,
            &output,
            &charged,
            &overdraft,
            &cost,
            &cost_paid,
        ],
    )?;
    Ok(())
}

/// The times of records, which follow those of their keys.
struct Times {
    now_ms: u64,
    /// The latest record of each key.
    latest: HashMap<i64, u64>,
}

impl Times {
    fn read(
        session: &mut Session,
        entries: &[&Entry],
        now: Timestamp,
    ) -> Result<Self, postgres::Error> {
        let keys: Vec<i64> = entries.iter().map(|entry| entry.key).collect();
        let latest = "SELECT key, latest FROM record_times WHERE key = ANY($1)";
        let latest = session.query(latest, &[&keys])?;
        let latest = latest
            .iter()
            .map(|row| Ok((row.try_get(0)?, amount(row.try_get(1)?))));
        Ok(Self {
            now_ms: now.unix_ms(),
            latest: latest.collect::<Result<_, postgres::Error>>()?,
        })
    }

    /// The record of a request that is paid for as it was settled.
    fn record<'a>(&self, entry: &'a Entry) -> Record<'a> {
        let latest = self.latest.get(&entry.key).copied();
        let floor = latest.filter(|it| !times::is_wrong(*it, self.now_ms));
        Record {
            entry,
            at: times::of_record(entry.at, self.now_ms, floor.unwrap_or(0)),
            paid: PerUnit::from_fn(|unit| entry.pieces(unit).collect()),
            overdraft: entry.overdrafts(),
        }
    }
}

fn note_times(session: &mut Session, records: &[Record<'_>]) -> Result<(), postgres::Error> {
    let mut latest: BTreeMap<i64, u64> = BTreeMap::new();
    for record in records {
        let known = latest.entry(record.entry.key).or_default();
        *known = record.at.max(*known);
    }
    let keys: Vec<i64> = latest.keys().copied().collect();
    let times: Vec<i64> = latest.values().map(|at| storable(*at)).collect();
    session.execute(
        "INSERT INTO record_times (key, latest) SELECT * FROM unnest($1::bigint[], $2::bigint[])
         ON CONFLICT (key) DO UPDATE SET latest = excluded.latest",
        &[&keys, &times],
    )?;
    Ok(())
}

/// Whether a request has a record.
pub(super) fn is_on_record(
    session: &mut Session,
    request: &RequestId,
) -> Result<bool, postgres::Error> {
    let find = "SELECT 1 FROM usage WHERE request = $1 AND at >= $2";
    let found = session.query_opt(find, &[&request.as_str(), &earliest(request)])?;
    Ok(found.is_some())
}
