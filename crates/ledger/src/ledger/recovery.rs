//! Recovering crashed processes: their settlements are entered and their leases given back. A request that a
//! crash interrupted is charged by its last progress record; the rest of its reservation is released.

use super::stats::Stats;
use crate::{
    clock::{Clock, Timestamp},
    entry::Entry,
    journal::{self, JournalState, LeftoverJournal, name_without_copy},
    store::{
        StoreError,
        database::{Leftover, Peer, Process, ProcessNumber, Recovered},
    },
};
use std::{
    cmp::Reverse,
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    time::Duration,
};

/// Recovers, at the start of a process, all that crashed processes have left. Returns the first statistics.
pub(super) fn at_start(
    process: &mut dyn Process,
    term: Option<Duration>,
    peers: &[Peer],
    folder: &Path,
    prefix: &str,
    clock: &Clock,
) -> Result<Stats, StoreError> {
    let stats = Stats::default();
    let recovered = recover_crashed(process, term, peers, folder, clock.now())?;
    stats.add_recovered(recovered);
    stats.add_late(sweep(process, folder, prefix, clock.now())?);
    stats.saw_quarantined(process.check_in()?.quarantined);
    Ok(stats)
}

/// Recovers the other processes that have crashed. Returns their number.
pub(super) fn recover_crashed(
    process: &mut dyn Process,
    term: Option<Duration>,
    peers: &[Peer],
    folder: &Path,
    now: Timestamp,
) -> Result<usize, StoreError> {
    let mut recovered = 0_usize;
    for peer in peers {
        let Peer {
            number, journal, ..
        } = peer;
        match journal::examine(&folder.join(journal)) {
            Ok(JournalState::Running) => continue,
            Ok(JournalState::Crashed(leftover)) => {
                recover(process, Some(*number), leftover, now)?;
            }
            // The process runs on another machine.
            Ok(JournalState::Missing) if !peer.is_silent => continue,
            // Another process can have recovered it since the list was read.
            Ok(JournalState::Missing) if !process.check_in()?.peers.contains(peer) => continue,
            Ok(JournalState::Missing) => {
                match term {
                    None => log::error!(
                        "the settlement file {journal} is gone: charges that its process had \
                         not entered yet are lost"
                    ),
                    Some(term) => log::warn!(
                        "the process with the settlement file {journal} has not reached the \
                         database for {} s: its leases are free, and its charges are entered when \
                         its machine runs a gateway again",
                        term.as_secs()
                    ),
                }
                process.recover(Some(*number), None, now)?;
            }
            Err(fault) => {
                log::error!("{journal}: cannot be examined: {fault}");
                continue;
            }
        }
        recovered = recovered.saturating_add(1);
    }
    Ok(recovered)
}

/// Recovers settlement files that the row of no running process names: left by a crash between a commit and
/// the removal of the file, or before the row was written, or by a process that was fenced. This must happen
/// before their request ids are purged, or their charges are entered again. Returns the number of entered
/// settlements.
pub(super) fn sweep(
    process: &mut dyn Process,
    folder: &Path,
    prefix: &str,
    now: Timestamp,
) -> Result<usize, StoreError> {
    let mut entered = 0_usize;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let names = names.filter(|name| name.starts_with(prefix));
    // A file and its copy are examined together.
    let names: BTreeSet<String> = names.map(|it| name_without_copy(&it).to_owned()).collect();
    for name in names {
        // The files of this process are locked, and so are those of a process that is starting.
        let leftover = match journal::examine(&folder.join(&name)) {
            Ok(JournalState::Crashed(leftover)) => leftover,
            Ok(JournalState::Running | JournalState::Missing) => continue,
            Err(fault) => {
                log::error!("{name}: cannot be examined: {fault}");
                continue;
            }
        };
        // Checked last: the process can have begun since, and crashed. Then it is a peer.
        let peers = process.check_in()?.peers;
        if !peers.iter().any(|peer| peer.journal == name) {
            let recovered = recover(process, None, leftover, now)?;
            entered = entered.saturating_add(recovered.settled);
        }
    }
    Ok(entered)
}

/// Enters all records, then removes the files. If the removal fails, the records are entered again, which is
/// idempotent on the request id.
fn recover(
    process: &mut dyn Process,
    crashed: Option<ProcessNumber>,
    journal: LeftoverJournal,
    now: Timestamp,
) -> Result<Recovered, StoreError> {
    let mut leftover = Leftover {
        torn: &journal.torn,
        ..Leftover::default()
    };
    for record in &journal.records {
        match Entry::from_record(record) {
            Some(entry) => leftover.entries.push(entry),
            None => leftover.unreadable.push(record),
        }
    }
    leftover.entries.sort_by_key(order);
    let recovered = match try_recover(process, crashed, &leftover, now) {
        Some(recovered) => recovered?,
        None => recover_each(process, crashed, &journal, now)?,
    };
    log::warn!(
        "a process had crashed: {} of its settlements were entered",
        recovered.settled
    );
    if recovered.cut > 0 {
        log::warn!(
            "{} requests were interrupted by the crash; their delivered tokens are charged",
            recovered.cut
        );
    }
    if recovered.torn > 0 {
        log::error!(
            "{} slots of its settlement file could not be read and are kept in quarantine: \
             their charges may be missing",
            recovered.torn
        );
    }
    journal.remove();
    Ok(recovered)
}

/// `None`: the program has panicked at a record. Its last transaction is rolled back then.
fn try_recover(
    process: &mut dyn Process,
    crashed: Option<ProcessNumber>,
    leftover: &Leftover<'_>,
    now: Timestamp,
) -> Option<Result<Recovered, StoreError>> {
    catch_unwind(AssertUnwindSafe(|| {
        process.recover(crashed, Some(leftover), now)
    }))
    .ok()
}

/// Enters the records one by one. The one at which the program panics is kept in quarantine: no process with this
/// folder could start otherwise. The first call ends the crashed process, so that the other records are late.
fn recover_each(
    process: &mut dyn Process,
    crashed: Option<ProcessNumber>,
    journal: &LeftoverJournal,
    now: Timestamp,
) -> Result<Recovered, StoreError> {
    let records = journal.records.iter();
    let mut records: Vec<_> = records.map(|it| (Entry::from_record(it), it)).collect();
    records.sort_by_key(|(entry, _)| entry.as_ref().map(order));
    let mut all = Recovered::default();
    let mut rest = Leftover {
        torn: &journal.torn,
        ..Leftover::default()
    };
    for (entry, record) in records {
        let Some(entry) = entry else {
            rest.unreadable.push(record);
            continue;
        };
        let alone = Leftover {
            entries: vec![entry],
            ..Leftover::default()
        };
        match try_recover(process, crashed, &alone, now) {
            Some(recovered) => {
                let recovered = recovered?;
                all.settled = all.settled.saturating_add(recovered.settled);
                all.cut = all.cut.saturating_add(recovered.cut);
            }
            None => {
                log::error!(
                    "a record of a settlement file cannot be entered and is kept in quarantine"
                );
                rest.unreadable.push(record);
            }
        }
    }
    all.torn = process.recover(crashed, Some(&rest), now)?.torn;
    Ok(all)
}

/// Sorts the newest record of a request first, because the first of several counts: the file and its copy can
/// differ by one. A settlement is the newest.
fn order(entry: &Entry) -> Option<Reverse<(u64, u64)>> {
    let newest = Reverse((entry.at, entry.usage.output));
    entry.is_progress.then_some(newest)
}
