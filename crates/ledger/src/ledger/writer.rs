//! The only thread that writes: it gathers messages (`batch`), commits them together, and between commits
//! exchanges tokens with other processes (`leases`) and does periodic work (`upkeep`).

mod batch;
mod leases;
mod upkeep;

use super::{
    Shared,
    queue::{Next, Queue},
    renewal::Begun,
};
use crate::{
    balance::Piece,
    directory::Unavailable,
    entry::Entry,
    journal::Slot,
    ownership::Stored,
    store::{
        StoreError,
        database::{self, BeyondLease, Committed, Lease, Process, Share, Wake},
    },
};
use batch::Batch;
pub(super) use batch::Command;
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};
use tollgate_types::{KeyId, PerUnit};
pub(super) use upkeep::Seen;

/// How long the writer rests after every few records of a commit, some 0.1 ms of work. A rest of twice
/// the length helps the serving threads as much; one of four times helps them no more.
const PAUSE: Duration = Duration::from_micros(250);
/// How often the writer looks for changes of other processes, and commits settlements.
const TICK: Duration = Duration::from_millis(200);
/// How long a failed commit waits before it is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// How often a persistent fault is logged.
const LOG_EVERY: Duration = Duration::from_secs(1);
/// The number of tries of a process's last commit. After that, the settlement file has the rest.
const LAST_TRIES: u32 = 20;

pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) process: Box<dyn Process>,
    pub(super) commands: Queue,
    /// The database can call it as long as it exists.
    pub(super) _wake: Wake,
    pub(super) seen: Seen,
    /// Leased tokens that memory has given up and that are not committed yet.
    pub(super) returns: Vec<Piece>,
    /// This process ends, and other processes serve the keys.
    pub(super) retired: bool,
    /// The memory of the last batch, used again by the next one.
    pub(super) room: Vec<(Slot, Entry)>,
}

/// Without a writer the process would spend its leases, and then refuse every request. It is fenced and exits instead;
/// the next process with its folder recovers the settlements.
impl Drop for Writer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared
                .fence("the thread that writes to the ledger has panicked");
            self.shared.accounts.refuse_all(&Unavailable::Fenced);
        }
    }
}

impl Writer {
    pub(super) fn run(mut self) {
        let mut next_tick = Instant::now();
        while !self.abandoned() {
            let now = Instant::now();
            if now >= next_tick {
                if let Err(fault) = self.tick() {
                    self.log_fault("the upkeep of the ledger failed", &fault);
                }
                next_tick = now.checked_add(TICK).unwrap_or(now);
            }
            match self.commands.wait(next_tick) {
                Next::Command(command) => {
                    let batch = self.gather(command, next_tick);
                    if self.abandoned() || self.commit_batch(batch) {
                        return;
                    }
                }
                Next::Nothing => {}
                Next::Ended => {
                    if !self.abandoned() {
                        self.close();
                    }
                    return;
                }
            }
        }
    }

    /// Whether a test simulates a crash, after which nothing is written.
    fn abandoned(&self) -> bool {
        self.shared.abandoned.load(Ordering::Acquire)
    }

    /// Commits a batch, and answers the requests in it. Returns `true` after the last one of the process.
    fn commit_batch(&mut self, mut batch: Batch) -> bool {
        let Some(shares) = self.commit_with_retries(&mut batch) else {
            return true;
        };
        let made = batch.made.len();
        self.shared.uncommitted.fetch_sub(made, Ordering::Relaxed);
        let entered = batch.settled.len();
        let settled = batch.settled.drain(..);
        self.shared.journal.release(settled.map(|(slot, _)| slot));
        self.shared.stats.add_entered(entered);
        self.room = batch.settled;
        self.distribute(shares);
        for reader in batch.readers {
            // The reader can have left.
            let _ = reader.send(());
        }
        self.give_up_half(batch.sharing);
        self.retired |= batch.retire;
        if batch.look {
            self.look();
        }
        match batch.close {
            Some(done) => {
                // The caller can have stopped waiting.
                let _ = done.send(self.close());
                true
            }
            None => false,
        }
    }

    /// Commits a batch, with as many tries as it takes. `None`: the process has ended before.
    fn commit_with_retries(&mut self, batch: &mut Batch) -> Option<Vec<(KeyId, Option<Share>)>> {
        if batch.is_empty() {
            return Some(Vec::new());
        }
        self.give_up_for_overdrafts(batch);
        let mut tries = 0_u32;
        loop {
            let start = Instant::now();
            match self.commit(batch) {
                Ok(committed) => {
                    self.shared.stats.committed(start.elapsed());
                    self.refuse_if_fenced(batch);
                    return Some(committed.shares);
                }
                Err(fault) => {
                    tries = tries.saturating_add(1);
                    self.log_fault("settlements cannot be committed", &fault);
                    self.shared
                        .stats
                        .failed_commits
                        .fetch_add(1, Ordering::Relaxed);
                    // A connection that was lost is opened again by the second try.
                    if tries > 1 {
                        self.report(&fault, batch);
                    }
                    // A commit can wait for a lock of another transaction again and again. That must not
                    // end the process. Its fault is that of the commit otherwise.
                    let _ = self.check_in_if_due();
                    if self.abandoned() || (batch.close.is_some() && tries > LAST_TRIES) {
                        return None;
                    }
                    std::thread::park_timeout(RETRY_AFTER);
                }
            }
        }
    }

    /// Gives up, of each key, at most its overdrafts in the batch: a server pays them from free amounts, and these may
    /// have been leased to this process since the settlement.
    fn give_up_for_overdrafts(&mut self, batch: &Batch) {
        let nothing = PerUnit::default();
        let mut overdrafts: HashMap<i64, PerUnit<u64>> = HashMap::new();
        for entry in batch.entries().filter(|it| it.overdrafts() != nothing) {
            let (sum, more) = (overdrafts.entry(entry.key).or_default(), entry.overdrafts());
            *sum = PerUnit::from_fn(|unit| sum.get(unit).saturating_add(*more.get(unit)));
        }
        // A file leases all that is free.
        if overdrafts.is_empty() || self.shared.term.is_none() {
            return;
        }
        let now = self.shared.clock.now();
        let accounts = self
            .shared
            .accounts
            .filter(|it| overdrafts.contains_key(&it.key));
        for account in accounts {
            let most = overdrafts.get(&account.key).unwrap_or(&nothing);
            self.returns.extend(account.give_up_at_most(most, now));
        }
    }

    fn commit(&mut self, batch: &Batch) -> Result<Committed, StoreError> {
        let settled: Vec<&Entry> = batch.entries().collect();
        let leases = self.leases_for(&batch.loads, &batch.refills);
        self.commit_all(&settled, &batch.made, &leases)
    }

    /// Commits the batch, and the leases that memory has given up.
    pub(super) fn commit_all(
        &mut self,
        settled: &[&Entry],
        stored: &[Arc<Stored>],
        leases: &[Lease],
    ) -> Result<Committed, StoreError> {
        let shared = &self.shared;
        let begun = Begun::now();
        let committed = self.process.commit(&database::Batch {
            settled,
            stored,
            returned: &self.returns,
            leases,
            now: &|| shared.clock.now(),
            pause: &|| shared.pause(),
        })?;
        shared.note_beyond(&committed.beyond);
        self.returns.clear();
        *self.shared.stalled.lock() = None;
        if committed.is_fenced {
            self.shared.fence_by_another();
            self.shared.stats.add_late(settled.len());
        } else {
            self.shared.renewals.done(begun);
        }
        Ok(committed)
    }

    /// Refuses the requests that wait for accounts if this process is fenced.
    fn refuse_if_fenced(&self, batch: &mut Batch) {
        let shared = &self.shared;
        if *shared.fenced.borrow() {
            for key in batch.loads.drain() {
                shared.accounts.answer(&key, &Err(Unavailable::Fenced));
            }
        }
    }

    /// Logs a fault with its reason, at most once a second, because the operation is retried.
    pub(super) fn log_fault(&mut self, what: &str, fault: &StoreError) {
        let is_recent = |at: Instant| at.elapsed() < LOG_EVERY;
        if !self.seen.fault_logged_at.is_some_and(is_recent) {
            self.seen.fault_logged_at = Some(Instant::now());
            log::error!("{what}; retrying: {fault}");
        }
    }

    /// Answers the callers that wait for an account with the fault. Settlements stay in the batch.
    fn report(&mut self, fault: &StoreError, batch: &mut Batch) {
        let reason: Arc<str> = fault.to_string().into();
        *self.shared.stalled.lock() = Some(Arc::clone(&reason));
        let failed = Err(Unavailable::Stalled(reason));
        for key in batch.loads.drain() {
            // An account that needs more tokens requests them again.
            self.seen.look_again = true;
            self.shared.accounts.answer(&key, &failed);
        }
    }

    /// Gives all leases back and removes the settlement file. Returns `false` if requests still have
    /// reservations: then only the rest is given back, the file stays, and the next process or a peer
    /// finishes the work.
    fn close(&mut self) -> bool {
        let in_use = self.shared.journal.in_use();
        if in_use > 0 {
            log::warn!("{in_use} requests have not been settled at the end of the process");
            for account in self.shared.accounts.filter(|_| true) {
                self.returns.extend(account.give_up_all());
            }
            if let Err(fault) = self.give_back() {
                log::warn!("the ledger's leases could not be given back: {fault}");
            }
            return false;
        }
        let now = self.shared.clock.now();
        match self.process.end(now) {
            Ok(()) => {
                self.shared.shut.store(true, Ordering::Release);
                self.shared.journal.remove();
                true
            }
            Err(fault) => {
                log::warn!("the ledger's leases could not be given back: {fault}");
                false
            }
        }
    }
}

impl Shared {
    /// Counts the payments of charges that the leases did not cover.
    fn note_beyond(&self, charges: &[BeyondLease]) {
        let overdrawn = || {
            let charges = charges.iter();
            charges.filter(|it| it.overdraft != PerUnit::default())
        };
        let keys: HashSet<i64> = overdrawn().map(|it| it.key).collect();
        // Reads all accounts, once for the batch.
        let accounts = match keys.is_empty() {
            true => Vec::new(),
            false => self.accounts.filter(|account| keys.contains(&account.key)),
        };
        let ids: HashMap<i64, &KeyId> = accounts.iter().map(|it| (it.key, &it.id)).collect();
        for beyond in charges {
            self.stats.add_paid(&beyond.paid);
        }
        for beyond in overdrawn() {
            // An idle account can have left the memory.
            let key = ids.get(&beyond.key).map_or("its key", |id| id.as_str());
            self.note_overdraft(&beyond.request, key, &beyond.overdraft);
        }
    }

    /// Yields the processor within a commit. Entering thousands of records without a pause would
    /// delay the threads that serve requests by milliseconds. There is no pause while slots run out.
    fn pause(&self) {
        if !self.journal.is_scarce() {
            std::thread::park_timeout(PAUSE);
        }
    }
}
