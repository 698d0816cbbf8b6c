//! Finishing what dead processes left: their settlements are entered, their leases given
//! back. The rule for what was reserved and not settled at a crash: it is released, since
//! nobody can have received the end of an answer that was not settled.

use super::books::{self, ProcessNumber};
use crate::{
    clock::Timestamp,
    entry::Entry,
    journal::{self, Other, Remains},
};
use rusqlite::{Connection, TransactionBehavior};
use std::path::Path;

/// Looks at every other process that has not ended, and buries those that are dead. How
/// many were.
pub(super) fn bury_dead_peers(
    file: &mut Connection,
    folder: &Path,
    process: ProcessNumber,
    now: Timestamp,
) -> rusqlite::Result<usize> {
    let mut buried = 0_usize;
    for (peer, settlements) in books::peers(file, process)? {
        match journal::examine(&folder.join(&settlements)) {
            Ok(Other::Alive) => continue,
            Ok(Other::Dead(remains)) => bury(file, peer, remains, now)?,
            Ok(Other::Missing) => {
                log::error!(
                    "the settlement file {settlements} is gone: charges that its process had \
                     not entered yet are lost"
                );
                books::end(file, peer, now)?;
            }
            Err(fault) => {
                log::error!("{settlements}: cannot be examined: {fault}");
                continue;
            }
        }
        buried = buried.saturating_add(1);
    }
    Ok(buried)
}

/// All in one transaction; the file goes after it. Should that fail, the records come
/// again and their request ids make them nothing.
fn bury(
    file: &mut Connection,
    peer: ProcessNumber,
    remains: Remains,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let transaction = file.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut entered = 0_usize;
    for record in &remains.records {
        match Entry::from_record(record) {
            Some(entry) => {
                let new = super::writer::enter(&transaction, peer, &entry, now)?;
                entered = entered.saturating_add(usize::from(new));
            }
            None => books::quarantine(&transaction, record, "not readable", now)?,
        }
    }
    books::end(&transaction, peer, now)?;
    transaction.commit()?;
    log::warn!(
        "a process had ended without finishing: {entered} settlements were entered, {} were torn",
        remains.torn
    );
    remains.remove();
    Ok(())
}
