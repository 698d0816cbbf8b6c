//! The one thread that writes: it gathers what has come in, commits it together, and
//! between commits looks after what other processes and time have changed.

use super::{
    Shared,
    accounts::Accounts,
    books::{self, ProcessNumber, Share},
    enter::enter_all,
    purge,
    quarantine::Quarantined,
    queue::{Next, Queue},
    recovery,
};
use crate::{
    balance::Piece,
    clock::Timestamp,
    directory::Unavailable,
    entry::Entry,
    journal::Slot,
    ownership::{self, Stored},
    store::{StoreError, WriteConnection, data_version},
};
use rusqlite::Transaction;
use std::{
    collections::HashSet,
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};
use tollgate_types::KeyId;

/// How long settlements gather at least before they are committed, and how long where somebody
/// waits to read them. They are safe meanwhile: the settlement file has them. Where nobody waits
/// they gather until the next tick, since a commit costs the more by the request the fewer it
/// holds: its pages of each index, its sync.
const GATHER: Duration = Duration::from_millis(20);
/// The most that one transaction holds, so that no lock is held for long; of a small settlement
/// file a quarter of its slots.
const MAX_BATCH: usize = 2000;
/// How long the writer rests after every few records of a commit, some 0.1 ms of work. Twice as
/// long does as much for those who are served meanwhile, four times as long nothing.
const PAUSE: Duration = Duration::from_micros(250);
/// How often the file is asked what others changed, and what was settled is committed.
const TICK: Duration = Duration::from_millis(200);
/// Every so many ticks: dead peers, idle accounts, old records.
const TICKS_PER_ROUND: u32 = 5;
/// Every so many: files that no process's row names. Once a minute, in a round; tests do not wait
/// as long.
const TICKS_PER_SWEEP: u32 = if cfg!(test) { 1 } else { 60 } * TICKS_PER_ROUND;
/// Every so many: the write-ahead log is moved into the file, so that a damaged log costs little.
/// Once a minute, in a round.
const TICKS_PER_CHECKPOINT: u32 = 60 * TICKS_PER_ROUND;
/// How long a checkpoint waits for readers, each time and at the end.
const CHECKPOINT_PATIENCE: Duration = Duration::from_millis(50);
const LAST_CHECKPOINT_PATIENCE: Duration = Duration::from_secs(1);
/// How long a failed commit waits before it is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// How often a fault that goes on is logged.
const LOG_EVERY: Duration = Duration::from_secs(1);
/// How often a last commit is tried. What stays is in the settlement file.
const LAST_TRIES: u32 = 20;

/// What the writer is told.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are the large one, and a box would be freed by another thread"
)]
pub(super) enum Command {
    /// A request has ended. Its record is in the slot; a request that was refused before it
    /// held anything has none.
    Settle(Option<Slot>, Entry),
    /// Something was stored at a provider.
    Remember(Arc<Stored>),
    /// Somebody needs this key's account, or more of its tokens.
    Load(KeyId),
    /// Somebody wants to read what was settled before. Answered when it is in the file.
    CatchUp(tokio::sync::oneshot::Sender<()>),
    /// Another process is about to serve the same keys: give it half of what nothing holds.
    /// Answered when it is there to be taken.
    ShareOut(tokio::sync::oneshot::Sender<()>),
    /// This process ends: leave the others what nothing holds.
    Retire,
    /// Commit what there is and give everything back. Answered when done.
    Close(std::sync::mpsc::SyncSender<bool>),
}

impl Command {
    /// A request waits for the answer.
    pub(super) const fn is_urgent(&self) -> bool {
        matches!(self, Self::Load(_) | Self::ShareOut(_) | Self::Close(_))
    }
}

#[derive(Default)]
struct Batch {
    settled: Vec<(Option<Slot>, Entry)>,
    made: Vec<Arc<Stored>>,
    loads: HashSet<KeyId>,
    readers: Vec<tokio::sync::oneshot::Sender<()>>,
    sharing: Vec<tokio::sync::oneshot::Sender<()>>,
    retire: bool,
    close: Option<std::sync::mpsc::SyncSender<bool>>,
}

impl Batch {
    fn add(&mut self, command: Command) {
        match command {
            Command::Settle(slot, entry) => self.settled.push((slot, entry)),
            Command::Remember(stored) => self.made.push(stored),
            Command::Load(key) => {
                self.loads.insert(key);
            }
            Command::CatchUp(done) => self.readers.push(done),
            Command::ShareOut(done) => self.sharing.push(done),
            Command::Retire => self.retire = true,
            Command::Close(done) => self.close = Some(done),
        }
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.settled.iter().map(|(_, entry)| entry)
    }

    fn is_urgent(&self) -> bool {
        !self.loads.is_empty() || !self.sharing.is_empty() || self.close.is_some()
    }

    /// Somebody reads, or another process may be asked for what was made.
    fn is_waited_for(&self) -> bool {
        !self.readers.is_empty() || !self.made.is_empty()
    }

    /// There is nothing to commit.
    fn is_empty(&self) -> bool {
        let nothing = self.settled.is_empty() && self.made.is_empty() && self.loads.is_empty();
        nothing && self.close.is_none()
    }

    fn len(&self) -> usize {
        let all = [self.settled.len(), self.made.len(), self.loads.len()];
        all.into_iter().fold(0, usize::saturating_add)
    }
}

pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) file: WriteConnection,
    pub(super) process: ProcessNumber,
    pub(super) commands: Queue,
    /// What was seen of the file at the last tick.
    pub(super) seen: Seen,
    /// What memory has given up and the file does not know yet.
    pub(super) returns: Vec<Piece>,
    /// This process ends, and others serve the keys.
    pub(super) retired: bool,
    /// Room for the settlements of the next batch, that of the last one.
    pub(super) room: Vec<(Option<Slot>, Entry)>,
}

#[derive(Default)]
pub(super) struct Seen {
    version: Option<i64>,
    change: i64,
    ticks: u32,
    /// Something stands open although the file has not changed: a wish for tokens that
    /// requests here still hold, a load that failed, a lease of the dead that is free now.
    look_again: bool,
    /// When a fault was last logged.
    fault_logged_at: Option<Instant>,
}

impl Writer {
    pub(super) fn run(mut self) {
        let mut next_tick = Instant::now();
        while !self.abandoned() {
            let now = Instant::now();
            if now >= next_tick {
                if let Err(fault) = self.tick() {
                    self.log_fault("the ledger cannot be looked after", &fault);
                }
                next_tick = now.checked_add(TICK).unwrap_or(now);
            }
            match self.commands.wait(next_tick) {
                Next::Command(command) => {
                    let batch = self.gather(command, next_tick);
                    if self.abandoned() || self.work_off(batch) {
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

    /// A test plays a crash: nothing more is done.
    fn abandoned(&self) -> bool {
        self.shared.abandoned.load(Ordering::Acquire)
    }

    fn gather(&mut self, first: Command, next_tick: Instant) -> Batch {
        let mut batch = Batch {
            settled: std::mem::take(&mut self.room),
            ..Batch::default()
        };
        batch.add(first);
        let most = MAX_BATCH.min(self.shared.journal.slots() / 4);
        let soon = Instant::now();
        let soon = soon.checked_add(GATHER).unwrap_or(soon);
        self.commands.gather(|come| {
            let room = most.saturating_sub(batch.len());
            come.take(room).for_each(|command| batch.add(command));
            if batch.is_urgent() || batch.len() >= most {
                None
            } else if batch.is_waited_for() || self.shared.journal.is_scarce() {
                Some(soon)
            } else {
                Some(soon.max(next_tick))
            }
        });
        batch
    }

    /// Commits a batch however long it takes. `true`: that was the end.
    fn work_off(&mut self, mut batch: Batch) -> bool {
        let mut tries = 0_u32;
        let shares = loop {
            if batch.is_empty() {
                break Vec::new();
            }
            let start = Instant::now();
            match self.commit(&batch) {
                Ok(shares) => {
                    self.shared.stats.committed(start.elapsed());
                    *self.shared.stalled.lock() = None;
                    self.refuse_if_fenced(&mut batch);
                    break shares;
                }
                Err(fault) => {
                    tries = tries.saturating_add(1);
                    self.report(&fault, &mut batch);
                    if self.abandoned() || (batch.close.is_some() && tries > LAST_TRIES) {
                        return true;
                    }
                    std::thread::park_timeout(RETRY_AFTER);
                }
            }
        };
        let made = batch.made.len();
        self.shared.unwritten.fetch_sub(made, Ordering::Relaxed);
        let settled = batch.settled.drain(..);
        self.shared
            .journal
            .release(settled.filter_map(|(slot, _)| slot));
        self.room = batch.settled;
        self.hand_out(shares);
        for reader in batch.readers {
            // A reader that has left is no fault.
            let _ = reader.send(());
        }
        self.share_out(batch.sharing);
        self.retired |= batch.retire;
        match batch.close {
            Some(done) => {
                // Nobody waits any more: no fault.
                let _ = done.send(self.close());
                true
            }
            None => false,
        }
    }

    fn commit(&mut self, batch: &Batch) -> rusqlite::Result<Vec<(KeyId, Option<Share>)>> {
        let process = self.process;
        let transaction = enter_all(
            &self.file,
            process,
            || self.shared.clock.now(),
            || batch.entries(),
            || self.pause(),
        )?;
        let fenced = books::is_fenced(&transaction, process)?;
        // Before anything is leased: what was given up is still this process's in the file.
        books::give_back(&transaction, process, &self.returns)?;
        for stored in &batch.made {
            ownership::insert(&transaction, stored, &self.shared.clock)?;
        }
        let mut shares = Vec::new();
        let now = self.shared.clock.now();
        for key in batch.loads.iter().filter(|_| !fenced) {
            shares.push((key.clone(), lease(&transaction, process, key, now, true)?));
        }
        transaction.commit()?;
        self.returns.clear();
        if fenced {
            self.shared.fence();
        }
        Ok(shares)
    }

    /// Lets others have the processor in the midst of a commit: thousands of records entered in
    /// one go keep it from everybody else for milliseconds, and the threads that serve requests
    /// run dry. Not where slots are running out.
    fn pause(&self) {
        if !self.shared.journal.is_scarce() {
            std::thread::park_timeout(PAUSE);
        }
    }

    /// Who waits for an account of a process that has been closed waits in vain.
    fn refuse_if_fenced(&self, batch: &mut Batch) {
        let shared = &self.shared;
        if *shared.fenced.borrow() {
            for key in batch.loads.drain() {
                shared.accounts.answer(&key, &Err(Unavailable::Fenced));
            }
        }
    }

    /// Logs a fault with its reason, at most once a second: what fails is tried again.
    fn log_fault(&mut self, what: &str, fault: &rusqlite::Error) {
        let is_recent = |at: Instant| at.elapsed() < LOG_EVERY;
        if !self.seen.fault_logged_at.is_some_and(is_recent) {
            self.seen.fault_logged_at = Some(Instant::now());
            log::error!("{what}, and it is tried again: {}", self.reason(fault));
        }
    }

    fn reason(&self, fault: &rusqlite::Error) -> StoreError {
        let path = self.file.path().unwrap_or_default();
        StoreError::from_sqlite(fault, Path::new(path))
    }

    /// Callers who wait for an account are told; settlements wait on.
    fn report(&mut self, fault: &rusqlite::Error, batch: &mut Batch) {
        self.log_fault("settlements cannot be committed", fault);
        self.shared
            .stats
            .failed_commits
            .fetch_add(1, Ordering::Relaxed);
        let reason: Arc<str> = self.reason(fault).to_string().into();
        *self.shared.stalled.lock() = Some(Arc::clone(&reason));
        let failed = Err(Unavailable::Stalled(reason));
        for key in batch.loads.drain() {
            // An account that asks for more must not wait for ever.
            self.seen.look_again = true;
            self.shared.accounts.answer(&key, &failed);
        }
    }

    fn hand_out(&mut self, shares: Vec<(KeyId, Option<Share>)>) {
        // What is spent here makes room for grants that were not looked at; no other process
        // tells of that.
        let waits = |share: &Share| share.has_more && !share.gains();
        let mut leased = shares.iter().filter_map(|(_, share)| share.as_ref());
        self.seen.look_again |= leased.any(waits);
        let Shared {
            accounts, clock, ..
        } = &*self.shared;
        for (key, share) in shares {
            let found = share.is_some();
            if let Some(share) = share {
                accounts.take_in(&key, share, clock.now());
            }
            accounts.answer(&key, &Ok(found));
        }
    }

    /// Gives everything back. Where requests still hold something, the settlement file
    /// stays, and whoever finds it without its owner finishes the work. Whether all is done.
    fn close(&mut self) -> bool {
        let in_use = self.shared.journal.in_use();
        if in_use > 0 {
            log::warn!("{in_use} requests have not been settled at the end of the process");
            return false;
        }
        let now = self.shared.clock.now();
        match self.file.change(|file| books::end(file, self.process, now)) {
            Ok(()) => {
                self.shared.shut.store(true, Ordering::Release);
                self.shared.journal.remove();
                self.checkpoint_at_end();
                true
            }
            Err(fault) => {
                log::warn!("the ledger's leases could not be given back: {fault}");
                false
            }
        }
    }

    /// Leaves everything in the file itself, so that the log of a stopped gateway can be lost.
    fn checkpoint_at_end(&self) {
        self.file.sync_sequence();
        match self.file.checkpoint(LAST_CHECKPOINT_PATIENCE) {
            Ok(true) => {}
            Ok(false) => log::warn!(
                "another process reads the ledger: the newest commits stay in its write-ahead log"
            ),
            Err(fault) => log::warn!("the ledger's write-ahead log stays as it is: {fault}"),
        }
    }

    fn tick(&mut self) -> rusqlite::Result<()> {
        self.seen.ticks = self.seen.ticks.wrapping_add(1);
        self.shared.journal.sync_progress();
        let version = data_version(&self.file)?;
        if self.seen.version != Some(version) || self.seen.look_again {
            // Should it fail, the version is still the old one, and it is tried again.
            self.seen.version = None;
            self.seen.look_again = false;
            self.look_at_others()?;
            self.seen.version = Some(version);
        }
        if self.seen.ticks.is_multiple_of(TICKS_PER_ROUND) {
            self.round()?;
        }
        self.give_back()
    }

    /// What others changed: top-ups, shares that they want, shares that they gave.
    fn look_at_others(&mut self) -> rusqlite::Result<()> {
        let now = self.shared.clock.now();
        let process = self.process;
        let accounts = &self.shared.accounts;
        let transaction = self.file.begin()?;
        if books::is_fenced(&transaction, process)? {
            // A lease that it took would be nobody's.
            self.shared.fence();
            return Ok(());
        }
        books::give_back(&transaction, process, &self.returns)?;
        let (newest, topped_up) = changed_accounts(&transaction, self.seen.change, accounts)?;
        let asking = accounts.filter(|account| account.is_asking());
        let asking: HashSet<_> = asking.iter().map(|account| account.id.clone()).collect();
        let mut shares = Vec::new();
        let topped_up: HashSet<_> = topped_up.into_iter().collect();
        for key in topped_up.union(&asking) {
            let asks = asking.contains(key);
            let share = match self.retired && !asks {
                // What is new is for the process that serves; what is still to be had must be known.
                true => books::look(&transaction, process, key, now)?,
                false => lease(&transaction, process, key, now, asks)?,
            };
            shares.push((key.clone(), share));
        }
        let wanted = books::wanted_by_others(&transaction, process)?;
        transaction.commit()?;
        self.returns.clear();
        self.seen.change = newest;
        self.hand_out(shares);
        self.give_way(&wanted);
        Ok(())
    }

    /// Gives other processes half of what nothing here holds, or all of it where this one
    /// ends. A wish that finds nothing now stands until something is let go.
    fn give_way(&mut self, wanted: &[KeyId]) {
        for key in wanted {
            if let Some(account) = self.shared.accounts.get(key) {
                let given = if self.retired {
                    account.give_up_all()
                } else {
                    account.give_up_half()
                };
                self.seen.look_again |= given.is_empty();
                self.returns.extend(given);
            }
        }
    }

    /// Gives half of what nothing holds of any account, and says when the file knows.
    fn share_out(&mut self, waiting: Vec<tokio::sync::oneshot::Sender<()>>) {
        if waiting.is_empty() {
            return;
        }
        // News that is seen only afterwards (a grant that began since the last look is one)
        // would make this process lease again what it gives now.
        let shared = self.look_at_others().and_then(|()| {
            for account in self.shared.accounts.filter(|_| true) {
                self.returns.extend(account.give_up_half());
            }
            self.give_back()
        });
        if let Err(fault) = shared {
            // The next tick tries again; whoever waits finds out by itself.
            return log::warn!("the ledger could not be shared out: {fault}");
        }
        for done in waiting {
            // Somebody who has left is no fault.
            let _ = done.send(());
        }
    }

    /// What time changes.
    fn round(&mut self) -> rusqlite::Result<()> {
        self.shared.journal.tidy();
        // One that has nothing to enter would not notice otherwise.
        if books::is_fenced(&self.file, self.process)? {
            self.shared.fence();
        }
        let now = self.shared.clock.now();
        let idle = self.shared.idle_after();
        self.returns
            .extend(self.shared.accounts.evict_idle(idle, now));
        let shared = Arc::clone(&self.shared);
        let buried = recovery::bury_dead_peers(&self.file, &shared.folder, self.process, now)?;
        self.seen.look_again |= buried > 0;
        self.withdraw_wishes()?;
        let quarantined = Quarantined::count(&self.file)?;
        self.shared.stats.saw_quarantined(quarantined);
        self.purge(now)?;
        self.file.sync_sequence();
        if self.seen.ticks.is_multiple_of(TICKS_PER_CHECKPOINT) {
            // A reader that is in the way now is not the next time.
            self.file.checkpoint(CHECKPOINT_PATIENCE)?;
        }
        if self.seen.ticks.is_multiple_of(TICKS_PER_SWEEP) {
            let (file, process) = (&self.file, self.process);
            recovery::sweep(file, &shared.folder, &shared.prefix, process, now)?;
        }
        Ok(())
    }

    /// Asks others no longer for what nobody here waits for: an account that has left, or one that
    /// was loaded and asks for nothing. They would give what nobody spends, again and again.
    fn withdraw_wishes(&self) -> rusqlite::Result<()> {
        let accounts = &self.shared.accounts;
        let waits = |key: &KeyId| accounts.get(key).is_some_and(|it| it.is_asking());
        let mut wishes = books::wishes(&self.file, self.process)?;
        wishes.retain(|(_, key)| !waits(key));
        if wishes.is_empty() {
            return Ok(());
        }
        // Together: each by itself would wait for the disk.
        let transaction = self.file.begin()?;
        for (number, _) in wishes {
            books::want(&transaction, self.process, number, false)?;
        }
        transaction.commit()
    }

    fn purge(&mut self, now: Timestamp) -> rusqlite::Result<()> {
        let settings = &self.shared.settings;
        if let Some(age) = settings.keep_history {
            purge::usage(&self.file, now, age)?;
        }
        let before = now.minus(settings.keep_owned);
        purge::owned(&self.file, before, settings.most_owned)
    }

    /// Tells the file what memory has given up. What cannot be told now is told later; it is
    /// spent by nobody meanwhile.
    fn give_back(&mut self) -> rusqlite::Result<()> {
        if self.returns.is_empty() {
            return Ok(());
        }
        let transaction = self.file.begin()?;
        books::give_back(&transaction, self.process, &self.returns)?;
        transaction.commit()?;
        self.returns.clear();
        Ok(())
    }
}

/// Leases what is free, and asks the others where nothing is and somebody needs it.
fn lease(
    transaction: &Transaction<'_>,
    process: ProcessNumber,
    key: &KeyId,
    now: Timestamp,
    is_needed: bool,
) -> rusqlite::Result<Option<Share>> {
    let share = books::lease(transaction, process, key, now)?;
    if let Some(share) = &share {
        let wanted = share.elsewhere > 0 && !share.gains();
        if is_needed || !wanted {
            books::want(transaction, process, share.key, wanted)?;
        }
    }
    Ok(share)
}

/// The newest change, and the accounts in memory that changed since `seen`.
fn changed_accounts(
    transaction: &Transaction<'_>,
    seen: i64,
    accounts: &Accounts,
) -> rusqlite::Result<(i64, Vec<KeyId>)> {
    let (oldest, newest): (i64, i64) = transaction.query_row(
        "SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM changes",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let missed = oldest > seen.saturating_add(1) || newest < seen;
    if missed {
        let all = accounts.filter(|_| true);
        return Ok((newest, all.iter().map(|a| a.id.clone()).collect()));
    }
    let changed = transaction
        .prepare_cached(
            "SELECT DISTINCT id FROM changes JOIN keys ON keys.hash = changes.hash WHERE seq > ?1",
        )?
        .query_map([seen], |row| row.get::<_, String>(0).map(KeyId::new))?
        .filter(|key| !matches!(key, Ok(key) if accounts.get(key).is_none()))
        .collect::<rusqlite::Result<_>>()?;
    Ok((newest, changed))
}
