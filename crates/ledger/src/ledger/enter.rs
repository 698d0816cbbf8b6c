//! Entering settled requests into the file: together, and where that does not go one by one.

use super::books::{self, ProcessNumber};
use crate::{
    clock::Timestamp,
    entry::Entry,
    store::{WriteConnection, WriteTransaction},
};
use rusqlite::ErrorCode;

/// Begins a transaction and enters all of them. What cannot be entered together (a record that
/// is there already or that the file refuses, a lease that is gone) is rolled back as a whole:
/// a savepoint would copy every page for it. `now` is asked within the transaction, for the wait
/// for it may be long; `pause` is called every few records.
pub(super) fn enter_all<'file, 'entry, I>(
    file: &'file WriteConnection,
    process: ProcessNumber,
    now: impl Fn() -> Timestamp,
    entries: impl Fn() -> I,
    pause: impl Fn(),
) -> rusqlite::Result<WriteTransaction<'file>>
where
    I: Iterator<Item = &'entry Entry>,
{
    let transaction = file.begin()?;
    match books::settle_together(&transaction, process, entries(), now(), pause) {
        Ok(true) => return Ok(transaction),
        Err(fault) if !is_about_the_record(&fault) => return Err(fault),
        Ok(false) | Err(_) => transaction.rollback()?,
    }
    let transaction = file.begin()?;
    let now = now();
    for entry in entries() {
        enter(&transaction, process, entry, now)?;
    }
    Ok(transaction)
}

/// Enters a record, in a savepoint of its own; one that the file refuses is kept aside with the
/// reason, so that it holds up no other and is not lost. Whether it was new.
pub(super) fn enter(
    transaction: &WriteTransaction<'_>,
    process: ProcessNumber,
    entry: &Entry,
    now: Timestamp,
) -> rusqlite::Result<bool> {
    match transaction.attempt(|| books::settle(transaction, process, entry, now))? {
        Err(fault) if is_about_the_record(&fault) => {
            log::error!("{}: the ledger refuses the record: {fault}", entry.request);
            let record = entry.to_json().unwrap_or_default();
            books::quarantine(transaction, &record, &fault.to_string(), now)?;
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
