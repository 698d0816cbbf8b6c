//! The charges of requests: reserved before it is forwarded, settled once when it ends.
//!
//! The request path works in memory and leaves one record in the settlement file; a request waits for the
//! database only if too little is leased. `docs/internals/ledger.md` describes the design. This file is the
//! public interface; balances are in `balance` and `accounts`, rules in `charge`, commits in `writer`,
//! crashes in `recovery`.

mod account;
mod accounts;
mod bill;
mod demand;
mod fund;
mod lease_waiters;
mod queue;
mod recovery;
mod renewal;
mod reservation;
mod stats;
mod writer;

pub use crate::balance::Holdings;
pub use reservation::{Ending, Reservation, Settled};
pub use stats::LedgerStats;

use crate::{
    balance::Need,
    charge::UpperBound,
    clock::{Clock, Timestamp},
    directory::{Unavailable, spawn},
    entry::slots_for,
    journal::Journal,
    key,
    ownership::Stored,
    store::{
        Store, StoreError,
        database::{Peer, Wake},
    },
};
use account::ReserveOutcome;
use accounts::Accounts;
use bill::Terms;
use parking_lot::Mutex;
use renewal::{Begun, Renewals};
use stats::Stats;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
        mpsc::sync_channel,
    },
    time::{Duration, Instant},
};
use tokio::sync::watch;
pub use tollgate_types::Shortage;
use tollgate_types::{Format, KeyId, Money, PerUnit, RequestId, Tariff};
use writer::{Command, Writer};

/// How much a ledger keeps in memory and how long it waits.
#[derive(Clone, Debug)]
pub struct LedgerSettings {
    /// Most requests that are reserved or not entered yet, one KiB on disk each; more wait until a commit frees
    /// some, and are shed if none does.
    pub open_requests: u32,
    /// Most callers that wait for accounts to be loaded; more are shed.
    pub waiting_callers: usize,
    /// Lease what the requests of ten seconds need instead of all that is free, as processes on a server do.
    #[cfg(test)]
    pub lease_by_use: bool,
    /// The longest wait for an account.
    pub load_timeout: Duration,
    /// The most idle accounts that are kept; if there are more, they are removed after 5 s of idleness.
    pub idle_accounts: usize,
    /// How long an account stays in memory unused.
    pub idle_after: Duration,
    /// How long records of requests are kept, an hour at least; `None`: for ever.
    pub keep_history: Option<Duration>,
    /// How long the owner of a stored item is remembered, at most as long as records.
    pub keep_owned: Duration,
    /// The most stored items whose owner is remembered.
    pub most_owned: u64,
}

impl Default for LedgerSettings {
    fn default() -> Self {
        Self {
            open_requests: 8192,
            waiting_callers: 16 * 1024,
            #[cfg(test)]
            lease_by_use: false,
            load_timeout: Duration::from_secs(2),
            idle_accounts: 50_000,
            idle_after: Duration::from_secs(600),
            keep_history: Some(Duration::from_secs(90 * 86_400)),
            keep_owned: Duration::from_secs(35 * 86_400),
            most_owned: 1_000_000,
        }
    }
}

impl LedgerSettings {
    /// How long owners are kept. Without its record, a response would count as paid.
    fn owners_kept(&self) -> Duration {
        self.keep_owned
            .min(self.keep_history.unwrap_or(Duration::MAX))
    }
}

/// The facts of a request in its record.
#[derive(Clone, Debug)]
pub struct RequestInfo {
    /// Its identifier; settled at most once.
    pub id: RequestId,
    /// The requested model.
    pub model: Arc<str>,
    /// Why the gateway chose the model that serves, if the request left the choice to it.
    pub reason: Option<Box<str>>,
    /// The client's format. `None`: the request is forwarded unread.
    pub format: Option<Format>,
    /// Whether the answer is streamed.
    pub streamed: bool,
}

/// The result of a reservation.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is matched immediately, and boxed by a caller that keeps it"
)]
pub enum Reserve {
    /// It is reserved.
    Reserved(Reservation),
    /// It is not reserved.
    Refused(Shortage),
    /// The key's account is not in memory, or leases too little, or the settlement file is full: wait, then
    /// reserve again.
    Wait(PendingAccount),
}

/// The accounts of all keys. Cheap to clone. When the last clone is dropped, everything is committed and
/// given back in the background; [`Ledger::close`] waits for it.
#[derive(Clone)]
pub struct Ledger(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    commands: queue::Commands,
}

/// State that request threads and the writer share.
struct Shared {
    /// The folder of the settlement files.
    folder: PathBuf,
    /// The prefix of the names of settlement files.
    prefix: String,
    clock: Clock,
    settings: LedgerSettings,
    accounts: Accounts,
    journal: Arc<Journal>,
    stats: Stats,
    /// Stored items that are not committed yet.
    uncommitted: AtomicUsize,
    /// Why the last commit failed or is not answered, until one succeeds.
    stalled: Mutex<Option<Arc<str>>>,
    renewals: Renewals,
    /// [`Database::lease_term`](crate::store::database::Database::lease_term).
    term: Option<Duration>,
    /// The number of running processes, including this one.
    nodes: Arc<AtomicU32>,
    /// This process admits nothing more.
    shut: AtomicBool,
    /// Another process has ended this one, or its writer has panicked.
    fenced: watch::Sender<bool>,
    /// A test simulates a crash.
    abandoned: AtomicBool,
}

impl Shared {
    /// Another process has ended this one in the database.
    fn fence_by_another(&self) {
        self.fence(match self.renewals.are_bounded() {
            true => {
                "another process has fenced this one: it has not reached the database for its lease term, or lacks a \
                 commit there"
            }
            false => "another process has fenced this one: it has lost its settlement file",
        });
    }

    fn fence(&self, why: &str) {
        self.shut.store(true, Ordering::Release);
        if !self.fenced.send_replace(true) {
            log::error!("{why}: this process accepts no more requests, and exits");
        }
    }

    /// Counts and logs what no grant has paid of a request's charge.
    fn note_overdraft(&self, request: &RequestId, key: &str, overdraft: &PerUnit<u64>) {
        self.stats.add_overdraft(overdraft);
        let PerUnit { tokens, money } = *overdraft;
        if tokens > 0 {
            log::warn!("{request}: {tokens} tokens beyond the balance of {key}");
        }
        if money > 0 {
            let cost = Money::from_nanos(money);
            log::warn!("{request}: a cost of {cost} beyond the balance of {key}");
        }
    }

    /// Counts a request for which the settlement file has no room. Returns the reason.
    fn shed(&self) -> Unavailable {
        self.stats.shed.fetch_add(1, Ordering::Relaxed);
        self.why_stalled().unwrap_or(Unavailable::Backlog)
    }

    /// The database does not answer, until a commit succeeds.
    fn stall(&self, why: &str) {
        self.stalled.lock().get_or_insert_with(|| why.into());
    }

    /// Why nothing is committed; `None` if commits succeed.
    fn why_stalled(&self) -> Option<Unavailable> {
        self.stalled.lock().clone().map(Unavailable::Stalled)
    }

    /// Why no request is admitted, whatever its key.
    fn refusal_at_once(&self) -> Option<Unavailable> {
        if self.shut.load(Ordering::Acquire) {
            return Some(self.why_shut());
        }
        let is_overdue = self.renewals.are_overdue();
        is_overdue.then(|| self.why_stalled().unwrap_or(Unavailable::TimedOut))
    }

    /// Why nothing is admitted.
    fn why_shut(&self) -> Unavailable {
        if *self.fenced.borrow() {
            Unavailable::Fenced
        } else {
            Unavailable::Closed
        }
    }

    /// With many accounts in memory, idle ones are removed sooner.
    fn idle_after(&self) -> Duration {
        const CROWDED: Duration = Duration::from_secs(5);
        if self.accounts.len() > self.settings.idle_accounts {
            CROWDED.min(self.settings.idle_after)
        } else {
            self.settings.idle_after
        }
    }
}

/// The folder of the settlement files of a database, the beginning of their names, and a new name.
fn journal_path(database: &Path) -> Result<(PathBuf, String, OsString), StoreError> {
    let folder = match database.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut name = database.file_name().unwrap_or_default().to_os_string();
    name.push(".settlements-");
    let prefix = name.to_string_lossy().into_owned();
    let mut suffix = String::new();
    key::push_random(&mut suffix, 12)?;
    name.push(suffix);
    Ok((folder, prefix, name))
}

impl Ledger {
    /// Registers this process in the database of `store`, recovers crashed processes, and starts the writer.
    ///
    /// # Errors
    /// The database cannot be written, or the settlement file cannot be created.
    pub fn open(store: &Store, settings: LedgerSettings) -> Result<Self, StoreError> {
        let path = store.path();
        let clock = store.clock().clone();
        let (folder, prefix, name) = journal_path(path)?;
        let journal = Journal::create(folder.join(&name), settings.open_requests, path)?;
        let name = name.to_string_lossy();
        let renewal = Begun::now();
        let begun = store.database().begin_process(&name, clock.now());
        let mut process = begun.inspect_err(|_| journal.remove())?;
        let peers = process.check_in()?.peers;
        let term = store.database().lease_term();
        let stats = recovery::at_start(&mut *process, term, &peers, &folder, &prefix, &clock)?;
        let nodes = Arc::new(AtomicU32::new(running_processes(term, &peers)));
        let by_use = term.is_some();
        #[cfg(test)]
        let by_use = by_use || settings.lease_by_use;
        let shared = Arc::new(Shared {
            folder,
            prefix,
            accounts: Accounts::new(settings.waiting_callers, by_use),
            journal,
            stats,
            uncommitted: AtomicUsize::new(0),
            stalled: Mutex::new(None),
            renewals: Renewals::new(term, renewal),
            term,
            nodes,
            shut: AtomicBool::new(false),
            fenced: watch::Sender::new(false),
            abandoned: AtomicBool::new(false),
            clock,
            settings,
        });
        let (commands, queue) = queue::commands();
        let inner = Arc::new(Inner { shared, commands });
        let to_wake = Arc::downgrade(&inner);
        let wake: Wake = Arc::new(move || {
            if let Some(inner) = to_wake.upgrade() {
                // If the writer has ended, there is nothing to do.
                let _ = inner.commands.send(Command::Look);
            }
        });
        store.database().wake_on_changes(&wake)?;
        if let Some(renew) = process.renewal() {
            renewal::start(&inner.shared, renew, path)?;
        }
        let writer = Writer {
            shared: Arc::clone(&inner.shared),
            process,
            commands: queue,
            _wake: wake,
            seen: writer::Seen::new(),
            returns: Vec::new(),
            retired: false,
            room: Vec::new(),
        };
        spawn("ledger-writer", path, move || writer.run())?;
        Ok(Self(inner))
    }

    /// Reserves the maximum cost of `request`, or the rest of the balance if it is enough for a
    /// useful answer. In memory; never waits.
    pub fn reserve(
        &self,
        key: &KeyId,
        request: RequestInfo,
        bound: UpperBound,
        tariff: impl Into<Tariff>,
    ) -> Reserve {
        let tariff = tariff.into();
        let Inner { shared, .. } = &*self.0;
        if let Some(why) = shared.refusal_at_once() {
            return Reserve::Refused(why.into());
        }
        let needs = PerUnit::from_fn(|unit| {
            let rates = tariff.rates(unit);
            rates.map(|rates| Need::of(&bound, &rates))
        });
        let Some(account) = shared.accounts.get(key) else {
            return self.load(key, &needs);
        };
        let Some(mut slot) = shared.journal.take() else {
            return self.wait_for_room(key, 1);
        };
        let now = shared.clock.now();
        let is_reachable = || shared.why_stalled().is_none();
        let refused = match account.reserve(&needs, &is_reachable, now) {
            ReserveOutcome::Reserved {
                reserved,
                must_refill,
            } => {
                if must_refill {
                    self.0.send(Command::Refill(key.clone()));
                }
                let slots = slots_for(reserved.grants());
                if !shared.journal.widen(&mut slot, slots) {
                    account.release(&reserved, now);
                    shared.journal.give_back(slot);
                    return self.wait_for_room(key, slots);
                }
                shared.stats.reservations.fetch_add(1, Ordering::Relaxed);
                let terms = Terms {
                    bound,
                    tariff,
                    prices: None,
                    reserved: reserved.amounts(),
                };
                let ledger = Arc::clone(&self.0);
                return Reserve::Reserved(Reservation::new(
                    ledger, account, slot, reserved, terms, request,
                ));
            }
            // Another process may have given it something since.
            ReserveOutcome::Refused(Shortage::Exhausted(_) | Shortage::Expired)
            | ReserveOutcome::Unleased
                if let Some(why) = shared.why_stalled() =>
            {
                why.into()
            }
            ReserveOutcome::Refused(shortage) => shortage,
            ReserveOutcome::LeasedElsewhere { is_first } => {
                if is_first {
                    self.0.send(Command::Load(key.clone()));
                }
                Shortage::Busy
            }
            unloaded @ (ReserveOutcome::Unleased | ReserveOutcome::Closed) => {
                let waits = u64::from(matches!(unloaded, ReserveOutcome::Unleased));
                shared.stats.lease_waits.fetch_add(waits, Ordering::Relaxed);
                shared.journal.give_back(slot);
                return self.load(key, &needs);
            }
        };
        shared.journal.give_back(slot);
        Reserve::Refused(refused)
    }

    /// Reserves for a request that waits. Other requests can reserve first what was leased for it, and an idle
    /// account can leave the memory: then it waits again, but begins no wait after 2 s. Must be awaited on a
    /// tokio runtime.
    ///
    /// # Errors
    /// The balance does not cover the request, the store could not answer in time, or the settlement file has
    /// no room.
    pub async fn reserve_after(
        &self,
        mut pending: PendingAccount,
        request: RequestInfo,
        bound: UpperBound,
        tariff: impl Into<Tariff>,
    ) -> Result<Reservation, Shortage> {
        const PATIENCE: Duration = Duration::from_secs(2);
        let (begun, key, tariff) = (Instant::now(), pending.key.clone(), tariff.into());
        while begun.elapsed() < PATIENCE {
            pending.wait().await?;
            pending = match self.reserve(&key, request.clone(), bound, tariff) {
                Reserve::Reserved(reservation) => return Ok(reservation),
                Reserve::Refused(refused) => return Err(refused),
                Reserve::Wait(pending) => pending,
            };
        }
        Err(pending.timed_out().into())
    }

    /// The settlement file lacks so many free slots: waits until the writer has committed what comes before,
    /// if that can make room.
    fn wait_for_room(&self, key: &KeyId, slots: usize) -> Reserve {
        let shared = &self.0.shared;
        // In this order: slots are free before their settlements count as entered.
        let only_open_requests = shared.stats.have_all_been_entered();
        if shared.why_stalled().is_some() || only_open_requests && !shared.journal.has_room(slots) {
            return Reserve::Refused(shared.shed().into());
        }
        self.wait(key, &PerUnit::default(), Awaited::Room)
    }

    fn load(&self, key: &KeyId, needs: &PerUnit<Option<Need>>) -> Reserve {
        self.wait(key, needs, Awaited::Lease)
    }

    fn wait(&self, key: &KeyId, needs: &PerUnit<Option<Need>>, awaited: Awaited) -> Reserve {
        let wanted = |unit| needs.get(unit).map_or(0, |need: Need| need.wanted);
        match self.0.shared.accounts.wait(key, &PerUnit::from_fn(wanted)) {
            Ok((answer, first)) => {
                if first {
                    self.0.send(Command::Load(key.clone()));
                }
                Reserve::Wait(PendingAccount {
                    key: key.clone(),
                    answer,
                    awaited,
                    shared: Arc::clone(&self.0.shared),
                })
            }
            Err(unavailable) => Reserve::Refused(unavailable.into()),
        }
    }

    /// The time by which it settles.
    pub(crate) fn now(&self) -> Timestamp {
        self.0.shared.clock.now()
    }

    /// The time before which stored items have no owner.
    pub(crate) fn owned_since(&self) -> Timestamp {
        self.now().minus(self.0.shared.settings.owners_kept())
    }

    /// Sends the owner of a stored item to the writer. If too many wait, the newest are dropped: then only
    /// this process knows them.
    pub(crate) fn remember(&self, stored: Arc<Stored>) {
        const MOST: usize = 50_000;
        let uncommitted = &self.0.shared.uncommitted;
        if uncommitted.fetch_add(1, Ordering::Relaxed) < MOST {
            self.0.send(Command::Remember(stored));
        } else {
            uncommitted.fetch_sub(1, Ordering::Relaxed);
            log::error!("too many stored items wait to be committed");
        }
    }

    /// Waits until all earlier settlements are committed, at most `patience`. Returns whether they are. Must
    /// run on a tokio runtime; the caller limits how many wait.
    pub async fn caught_up(&self, patience: Duration) -> bool {
        let (done, answer) = tokio::sync::oneshot::channel();
        self.0.send(Command::CatchUp(done));
        matches!(tokio::time::timeout(patience, answer).await, Ok(Ok(())))
    }

    /// Prepares for another process that is about to serve the same keys: gives back half of the unreserved
    /// tokens. Returns whether that is committed. Must run on a tokio runtime.
    pub async fn give_up_half(&self) -> bool {
        let (done, answer) = tokio::sync::oneshot::channel();
        self.0.send(Command::GiveUpHalf(done));
        answer.await.is_ok()
    }

    /// Leaves the keys to the other processes, because this one ends: a process that requests tokens gets
    /// everything that no request reserves here, instead of half. Until then the tokens are for clients
    /// that have kept their connections.
    pub fn retire(&self) {
        self.0.send(Command::Retire);
    }

    /// Waits for tokens of the key that other processes give back, at most 500 ms, after [`Shortage::Busy`].
    /// `None` if no lease request stands, or too many requests wait. The caller then reserves again. Must be
    /// awaited on a tokio runtime.
    pub fn wait_for_release(
        &self,
        key: &KeyId,
    ) -> Option<impl Future<Output = ()> + Send + 'static> {
        // Each process looks five times a second for lease requests and for returned tokens.
        const PATIENCE: Duration = Duration::from_millis(500);
        let accounts = &self.0.shared.accounts;
        if !accounts.get(key)?.has_lease_request() {
            return None;
        }
        let waiter = accounts.wait_for_lease(key)?;
        Some(async move {
            // The caller reserves again in either case.
            let _ = tokio::time::timeout(PATIENCE, waiter.wait()).await;
        })
    }

    /// The amounts of a key's valid grants that this process leases, in the units in which its requests must be
    /// covered; `None` if the account is not in memory.
    pub fn holdings(&self, key: &KeyId) -> Option<PerUnit<Option<Holdings>>> {
        let shared = &self.0.shared;
        let account = shared.accounts.get(key)?;
        Some(account.holdings(shared.clock.now()))
    }

    /// Whether this process is fenced, by another one or after a panic of its writer: it accepts no more
    /// requests. Running requests are settled.
    pub fn is_fenced(&self) -> bool {
        *self.0.shared.fenced.borrow()
    }

    /// Waits until this process is fenced.
    pub async fn fenced(&self) {
        let mut fenced = self.0.shared.fenced.subscribe();
        // The sender lives as long as this does.
        let _ = fenced.wait_for(|it| *it).await;
    }

    /// The number of processes that use the database, including this one, updated once a second. A crashed
    /// process counts until its term is over. 1 if the database is a file.
    pub fn nodes(&self) -> Arc<AtomicU32> {
        Arc::clone(&self.0.shared.nodes)
    }

    /// Counts for metrics.
    pub fn stats(&self) -> LedgerStats {
        let shared = &self.0.shared;
        let (accounts, holdings) = shared.accounts.holdings(shared.clock.now());
        LedgerStats {
            fenced: u64::from(self.is_fenced()),
            failed_syncs: shared.journal.failed_syncs(),
            ..shared
                .stats
                .snapshot(accounts, holdings, shared.journal.in_use())
        }
    }

    /// Commits all settlements and returns all leases. Returns `false` if requests were still open,
    /// or the database could not be written in time: the next process then finishes the work.
    /// Blocks.
    pub fn close(self, patience: Duration) -> bool {
        self.0.shared.shut.store(true, Ordering::Release);
        let (done, answer) = sync_channel(1);
        self.0.send(Command::Close(done));
        answer.recv_timeout(patience).unwrap_or(false)
    }

    /// Ends like a killed process: writes nothing more, and releases the lock.
    #[cfg(test)]
    pub(crate) fn crash(self) {
        self.0.shared.abandoned.store(true, Ordering::Release);
        self.0.shared.journal.die();
    }
}

/// The number of processes among which limits are divided.
fn running_processes(term: Option<Duration>, peers: &[Peer]) -> u32 {
    if term.is_none() {
        return 1;
    }
    let others = peers.iter().filter(|peer| !peer.is_silent).count();
    u32::try_from(others).unwrap_or(u32::MAX).saturating_add(1)
}

impl Inner {
    fn send(&self, command: Command) {
        // After the writer has ended, the settlement file has the settlements.
        if !self.commands.send(command) {
            log::warn!("the ledger is closed; the next process enters the remaining settlements");
        }
    }
}

/// What a request waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// Its account, or a further lease.
    Lease,
    /// Slots in the settlement file.
    Room,
}

/// An account that is being loaded, or that leases more, or waits for room in the settlement file.
#[must_use = "an account is loaded for the request that waits for it"]
pub struct PendingAccount {
    key: KeyId,
    answer: accounts::Waiting,
    awaited: Awaited,
    shared: Arc<Shared>,
}

impl PendingAccount {
    /// Waits for the account, at most [`LedgerSettings::load_timeout`]; the caller then reserves again.
    /// Must run on a tokio runtime.
    ///
    /// # Errors
    /// There is no such key ([`Shortage::Expired`]), the store could not answer, or the settlement file has no room.
    pub async fn wait(mut self) -> Result<(), Shortage> {
        let shared = &self.shared;
        let answer = tokio::time::timeout(shared.settings.load_timeout, &mut self.answer).await;
        // The current lease can be enough.
        let is_here = || shared.accounts.get(&self.key).is_some();
        let found = match answer {
            Err(_) if self.awaited == Awaited::Room => return Err(self.timed_out().into()),
            Err(_) if is_here() => {
                shared.stall("the database does not answer");
                true
            }
            Err(_) => return Err(self.timed_out().into()),
            Ok(Ok(Err(Unavailable::Stalled(_)))) if is_here() => true,
            Ok(found) => found.unwrap_or(Err(Unavailable::Closed))?,
        };
        if found {
            Ok(())
        } else {
            Err(Shortage::Expired)
        }
    }

    /// The error of a request that waits no longer.
    fn timed_out(&self) -> Unavailable {
        if self.awaited == Awaited::Room {
            return self.shared.shed();
        }
        let why = self.shared.why_stalled();
        why.unwrap_or(Unavailable::TimedOut)
    }
}

impl std::fmt::Debug for PendingAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PendingAccount")
    }
}

#[cfg(test)]
mod tests;
