//! Finishing what dead processes left: their settlements are entered, their leases given
//! back. A request that was not settled at a crash is charged what it had delivered by its last
//! progress record; the rest of its reservation is released.

use super::{
    books::{self, ProcessNumber},
    quarantine,
};
use crate::{
    clock::Timestamp,
    entry::Entry,
    journal::{self, Other, Remains, Remnant, name_without_copy},
    store::WriteConnection,
};
use rusqlite::Transaction;
use std::{cmp::Reverse, collections::BTreeSet, path::Path};

/// Looks at every other process that has not ended, and buries those that are dead. How
/// many were.
pub(super) fn bury_dead_peers(
    file: &WriteConnection,
    folder: &Path,
    process: ProcessNumber,
    now: Timestamp,
) -> rusqlite::Result<usize> {
    let mut buried = 0_usize;
    for (peer, settlements) in books::peers(file, process)? {
        match journal::examine(&folder.join(&settlements)) {
            Ok(Other::Alive) => continue,
            Ok(Other::Dead(remains)) => bury(file, peer, remains, now)?,
            // Another process may have buried it since the list was read.
            Ok(Other::Missing) if books::is_fenced(file, peer)? => continue,
            Ok(Other::Missing) => {
                log::error!(
                    "the settlement file {settlements} is gone: charges that its process had \
                     not entered yet are lost"
                );
                file.change(|file| books::end(file, peer, now))?;
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

/// Takes up settlement files that no living process's row names: left by a crash between
/// a commit and the removal of the file, or before the row was written, or by a process that was
/// closed while it lived. Before their request ids are forgotten, or what was entered is charged again.
pub(super) fn sweep(
    file: &WriteConnection,
    folder: &Path,
    prefix: &str,
    process: ProcessNumber,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let names = names.filter(|name| name.starts_with(prefix));
    // A file and its copy are looked at together.
    let names: BTreeSet<String> = names.map(|it| name_without_copy(&it).to_owned()).collect();
    for name in names {
        // One's own files are locked, and so are those of a process that is just starting.
        let remains = match journal::examine(&folder.join(&name)) {
            Ok(Other::Dead(remains)) => remains,
            Ok(Other::Alive | Other::Missing) => continue,
            Err(fault) => {
                log::error!("{name}: cannot be examined: {fault}");
                continue;
            }
        };
        // Asked last: it may have begun since, and died. Then it is a peer.
        let peers = books::peers(file, process)?;
        if !peers.iter().any(|(_, settlements)| *settlements == name) {
            bury(file, NOBODY, remains, now)?;
        }
    }
    Ok(())
}

/// A process that has no lease: its charges are paid from what is free.
const NOBODY: ProcessNumber = ProcessNumber(-1);

/// All in one transaction; the file goes after it. Should that fail, the records come
/// again and their request ids make them nothing.
fn bury(
    file: &WriteConnection,
    peer: ProcessNumber,
    remains: Remains,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let transaction = file.begin()?;
    let mut entered = 0_usize;
    let mut cut = 0_usize;
    for entry in last_of_each(read(&transaction, &remains.records, now)?) {
        if super::enter::enter(&transaction, peer, &entry, now)? {
            let count = if entry.is_progress {
                &mut cut
            } else {
                &mut entered
            };
            *count = count.saturating_add(1);
        }
    }
    let torn = keep_torn(&transaction, &remains.torn, now)?;
    books::end(&transaction, peer, now)?;
    transaction.commit()?;
    log::warn!("a process had ended without finishing: {entered} settlements were entered");
    if cut > 0 {
        log::warn!("{cut} requests were cut by its end: what they had delivered is charged");
    }
    if torn > 0 {
        log::error!(
            "{torn} slots of its settlement file could not be read and are kept in quarantine: \
             what they charged may not have been entered"
        );
    }
    remains.remove();
    Ok(())
}

/// The records that can be read; the others are kept in quarantine.
fn read(
    transaction: &Transaction<'_>,
    records: &[Vec<u8>],
    now: Timestamp,
) -> rusqlite::Result<Vec<Entry>> {
    let mut entries = Vec::with_capacity(records.len());
    for record in records {
        match Entry::from_record(record) {
            Some(entry) => entries.push(entry),
            None => books::quarantine(transaction, record, quarantine::UNREADABLE, now)?,
        }
    }
    Ok(entries)
}

/// Puts the last that is known of a request first, since the first of several records of one
/// request counts: the file and its copy may differ by one. A settlement is the last.
fn last_of_each(mut entries: Vec<Entry>) -> Vec<Entry> {
    let rank = |entry: &Entry| {
        let newest = Reverse((entry.at, entry.usage.output));
        entry.is_progress.then_some(newest)
    };
    entries.sort_by_key(rank);
    entries
}

/// Keeps what is no whole record, since a charge may stand in it. Not what is left of one that
/// has been entered: its slots were being emptied. How many were kept.
fn keep_torn(
    transaction: &Transaction<'_>,
    torn: &[Remnant],
    now: Timestamp,
) -> rusqlite::Result<usize> {
    let mut kept = 0_usize;
    for slot in torn {
        let cause = match &slot.request {
            Some(request) if books::is_on_record(transaction, request)? => continue,
            Some(request) => format!("{}: {request} is not on record", quarantine::TORN),
            None => quarantine::TORN.to_owned(),
        };
        books::quarantine(transaction, &slot.bytes, &cause, now)?;
        kept = kept.saturating_add(1);
    }
    Ok(kept)
}
