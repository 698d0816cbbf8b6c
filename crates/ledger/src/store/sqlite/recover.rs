//! Entering what a crashed process left, in one transaction.

use super::{
    process, settle,
    write::{WriteConnection, WriteTransaction},
};
use crate::{
    clock::Timestamp,
    journal::LostSlot,
    store::{
        database::{Leftover, ProcessNumber, Recovered},
        statements::quarantine,
    },
};

/// A process that has no lease: its charges are paid from what is free.
const NO_PROCESS: ProcessNumber = ProcessNumber(-1);

/// Enters the records of a crashed process and ends it.
pub(super) fn recover(
    file: &WriteConnection,
    crashed: Option<ProcessNumber>,
    leftover: &Leftover<'_>,
    now: Timestamp,
) -> rusqlite::Result<Recovered> {
    let crashed = crashed.unwrap_or(NO_PROCESS);
    let transaction = file.begin()?;
    for record in &leftover.unreadable {
        quarantine::add(
            &mut transaction.connection(),
            record,
            quarantine::UNREADABLE,
            now,
        )?;
    }
    let mut recovered = Recovered::default();
    for entry in &leftover.entries {
        if settle::enter(&transaction, crashed, entry, now)? {
            let count = match entry.is_progress {
                true => &mut recovered.cut,
                false => &mut recovered.settled,
            };
            *count = count.saturating_add(1);
        }
    }
    recovered.torn = keep_torn(&transaction, leftover.torn, now)?;
    process::end(&transaction, crashed, now)?;
    transaction.commit()?;
    Ok(recovered)
}

/// Puts slots without a whole record in quarantine, because a charge may stand in them; except for the
/// rest of a record that has been entered, whose slots were being emptied. Returns how many are new.
fn keep_torn(
    transaction: &WriteTransaction<'_>,
    torn: &[LostSlot],
    now: Timestamp,
) -> rusqlite::Result<usize> {
    let mut kept = 0_usize;
    for slot in torn {
        let cause = match &slot.request {
            Some(request) if settle::is_on_record(transaction, request)? => continue,
            Some(request) => format!("{}: {request} is not on record", quarantine::TORN),
            None => quarantine::TORN.to_owned(),
        };
        if quarantine::add(&mut transaction.connection(), &slot.bytes, &cause, now)? {
            kept = kept.saturating_add(1);
        }
    }
    Ok(kept)
}
