//! Leases shares of limits in the database, while no shared server counts.
//!
//! A thread reports what each key with recent requests needs and has taken, and applies the answers, which
//! `lease_limits` in the schema computes. No request waits for it: without an answer the last shares hold.
//! Between two answers a process may use the amount that it leases and what its share of the limit lets flow
//! back.

use super::{
    Keys, Processes,
    bucket::{WINDOW_MS, cost},
    meter::{Meter, Paces},
    pace::Amounts,
    share::{Part, Share},
};
use crate::{
    directory::spawn,
    key,
    store::{Store, StoreError, database::Database},
};
use parking_lot::Mutex;
use serde::{Serialize, Serializer};
use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};
use tollgate_types::{Dimension, KeyId, Limits};

/// How often a process reports a key with recent requests.
pub(super) const PERIOD: Duration = Duration::from_millis(250);
/// The same for the first request of a key.
const LEAST_PERIOD: Duration = Duration::from_millis(100);
/// How long a process waits after its start: one that ran alone reports its keys from the next second on.
const FIRST_PAUSE: Duration = Duration::from_millis(1500);
/// How long a process keeps the share of a key without requests, in milliseconds.
const IDLE_MS: u64 = 5_000;
/// After how many milliseconds without an answer the database counts as away.
const AWAY_MS: u64 = 3_000;
/// The part of an equal share that a process may use without a lease.
const FIRST_PART: NonZeroU32 = NonZeroU32::new(10).unwrap();
/// Far from the end of the numbers of the database.
const MOST_DEMAND: u64 = 1 << 40;
/// The buckets of keys that gateways lock in the database. All gateways must divide keys alike.
const BUCKETS: u32 = 64;
/// About how many claims a process sends in one call, so that others can lease in other buckets meanwhile.
const CLAIMS_PER_CALL: usize = 250;

/// The report of a process about one limit of a key. Amounts are in the units of [`Bucket`](super::bucket::Bucket).
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LimitClaim {
    pub(crate) key: KeyId,
    #[serde(serialize_with = "by_number")]
    pub(crate) dimension: Dimension,
    #[serde(rename = "most")]
    pub(crate) limit: NonZeroU32,
    /// The amount that was taken since the last report. Negative: given back.
    pub(crate) taken: i64,
    /// The least debt of all processes, apart from `taken`.
    pub(crate) floor: u64,
    /// The process keeps this much: its running requests, if the limit is theirs.
    pub(crate) kept: u64,
    /// The amount that recent requests needed, admitted or not. Only compared with other processes.
    pub(crate) demand: u64,
}

impl LimitClaim {
    /// The bucket of its key.
    pub(crate) fn bucket(&self) -> i32 {
        bucket(&self.key).cast_signed()
    }

    /// Divides claims in the order of their buckets into calls. No bucket is in two calls.
    pub(crate) fn calls(claims: &[Self]) -> impl Iterator<Item = &[Self]> {
        let calls = claims.len().div_ceil(CLAIMS_PER_CALL);
        let calls = u32::try_from(calls).unwrap_or(BUCKETS).min(BUCKETS);
        let call = move |claim: &Self| bucket(&claim.key).saturating_mul(calls) / BUCKETS;
        claims.chunk_by(move |a, b| call(a) == call(b))
    }
}

/// The dimension as the database knows it.
fn by_number<S: Serializer>(dimension: &Dimension, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8(match dimension {
        Dimension::Requests => 0,
        Dimension::InputTokens => 1,
        Dimension::OutputTokens => 2,
        Dimension::Concurrent => 3,
    })
}

fn bucket(key: &KeyId) -> u32 {
    crc32fast::hash(key.as_str().as_bytes()) % BUCKETS
}

/// The answer to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitLease {
    /// The share of the process.
    pub(crate) part: Part,
    /// The debt of all processes, as far as they have reported it.
    pub(crate) debt: u64,
    /// The amount that the process may use at once, now or later.
    pub(crate) leased: u64,
}

impl LimitLease {
    /// The debt of the process: its bucket has the leased amount left, and owes its part of the debt beyond the
    /// whole limit. If nothing is leased, it owes the part `least` of the whole debt.
    fn debt_of_process(&self, limit: NonZeroU32, least: Part) -> u64 {
        if self.part == Part::NONE {
            return least.of(self.debt);
        }
        let most = cost(self.part.of_limit(limit).get().into());
        let beyond = self.debt.saturating_sub(cost(limit.get().into()));
        let owed = most.saturating_sub(self.leased);
        owed.saturating_add(self.part.of(beyond))
    }

    /// How many concurrent requests are leased.
    fn slots(&self) -> u32 {
        u32::try_from(self.leased / WINDOW_MS).unwrap_or(u32::MAX)
    }
}

/// The leases of the limits of a key, and the demand for them.
#[derive(Debug, Default)]
pub(super) struct Leased {
    /// [`Leases::active`] has the key.
    is_active: bool,
    used_at_ms: u64,
    /// In the order of [`Dimension::ALL`].
    limits: [LeasedLimit; 4],
}

#[derive(Debug, Default)]
struct LeasedLimit {
    lease: Option<LimitLease>,
    /// The demand since the last report, and that of the report.
    demand: [u64; 2],
    total: TotalDebt,
}

/// The debt of all processes, as far as this one knows it.
#[derive(Debug, Default)]
struct TotalDebt {
    /// At `at_ms`; it flows off since.
    units: u64,
    at_ms: u64,
    /// The database has counted it.
    is_reported: bool,
}

/// State of the leases, for request threads and the thread that leases.
pub(super) struct Leases {
    keys: Arc<Keys>,
    processes: Processes,
    /// Keys with recent requests.
    active: Mutex<HashMap<KeyId, Arc<Meter>>>,
    wake: SyncSender<()>,
    /// When the database last answered, or was not asked.
    answered_ms: AtomicU64,
}

impl Leases {
    /// Starts the thread, which ends with the last clone. `None`: the database is a file.
    pub(super) fn start(
        store: &Store,
        keys: &Arc<Keys>,
        processes: &Processes,
    ) -> Result<Option<Arc<Self>>, StoreError> {
        let database = Arc::clone(store.database());
        if database.lease_term().is_none() {
            return Ok(None);
        }
        let mut node = String::new();
        key::push_random(&mut node, 12)?;
        let (wake, woken) = sync_channel(1);
        let leases = Arc::new(Self {
            keys: Arc::clone(keys),
            processes: processes.clone(),
            active: Mutex::default(),
            wake,
            answered_ms: AtomicU64::new(keys.now_ms()),
        });
        let thread = Thread {
            leases: Arc::downgrade(&leases),
            database,
            node,
            is_failing: false,
        };
        spawn("limit-leases", store.path(), move || thread.run(&woken))?;
        Ok(Some(leases))
    }

    /// Whether this process shares limits through the database now.
    fn is_used(&self) -> bool {
        self.processes.open_server().is_none() && self.processes.number() > NonZeroU32::MIN
    }

    /// How many processes must lease so that all share the whole limit. Others may still reach the server.
    fn expected(&self) -> NonZeroU32 {
        match self.processes.server {
            Some(_) => self.processes.number(),
            None => NonZeroU32::MIN,
        }
    }

    /// Whether the database answers, or is not asked.
    pub(super) fn is_answered(&self) -> bool {
        let answered_ms = self.answered_ms.load(Ordering::Relaxed);
        self.keys.now_ms().saturating_sub(answered_ms) < AWAY_MS
    }

    fn least(&self) -> Part {
        Part::one_of(self.processes.number().saturating_mul(FIRST_PART))
    }

    /// The share of this process: its lease of each limit. It has a small part of a limit without a lease, or
    /// an equal one while the database is away.
    pub(super) fn share(&self, limits: &Limits, paces: &Paces) -> Share {
        let first = match self.is_answered() {
            true => self.least(),
            false => Part::one_of(self.processes.number()),
        };
        let [requests, input, output, concurrent] = &paces.leased.limits;
        let parts = [requests, input, output].map(|it| it.lease.map_or(first, |lease| lease.part));
        let slots = limits.concurrent.map(|most| match concurrent.lease {
            Some(lease) => {
                NonZeroU32::new(lease.slots()).map_or(NonZeroU32::MIN, |it| it.min(most))
            }
            None => first.of_limit(most),
        });
        Share::of(limits, parts, slots)
    }

    /// Notes a request, admitted or not. Returns whether nothing is leased for it yet.
    pub(super) fn note(
        &self,
        (key, meter): (&KeyId, &Arc<Meter>),
        paces: &mut Paces,
        share: &Share,
        amounts: Amounts,
    ) -> bool {
        if share.whole == Limits::default() {
            return false;
        }
        paces.set_share(share, || self.keys.now_ms());
        let leased = &mut paces.leased;
        let counts = [amounts.requests, amounts.input, amounts.output, 1];
        for (limit, count) in leased.limits.iter_mut().zip(counts) {
            let [demand, _] = &mut limit.demand;
            *demand = demand.saturating_add(count);
        }
        if !std::mem::replace(&mut leased.is_active, true) {
            self.active.lock().insert(key.clone(), Arc::clone(meter));
            // If it is full, the thread is about to look.
            let _ = self.wake.try_send(());
        }
        leased.limits.iter().all(|it| it.lease.is_none())
    }

    /// The claims of keys with recent requests in the order of their buckets, and the meter of each claim. Leaves
    /// the other keys.
    fn claims(&self, is_used: bool) -> (Vec<LimitClaim>, Vec<Arc<Meter>>) {
        let now_ms = self.keys.now_ms();
        let mut active: Vec<_> = self.active.lock().clone().into_iter().collect();
        active.sort_by_cached_key(|(key, _)| bucket(key));
        let (mut claims, mut meters) = (Vec::new(), Vec::new());
        for (key, meter) in active {
            let mut paces = meter.paces();
            if !is_used || paces.is_idle(meter.running(), now_ms) {
                self.leave(&key, &mut paces, is_used);
                continue;
            }
            paces.claim(&key, meter.running(), now_ms, &mut claims);
            drop(paces);
            meters.resize(claims.len(), meter);
        }
        (claims, meters)
    }

    /// Applies the answer to a claim.
    fn apply(&self, meter: &Meter, claim: &LimitClaim, lease: Option<&LimitLease>) {
        let now_ms = self.keys.now_ms();
        let mut paces = meter.paces();
        let Some(lease) = lease.filter(|_| self.is_used()) else {
            // The shared server may not hear of it from the database.
            if let Some(pace) = paces.of(claim.dimension) {
                pace.mark_uncounted(claim.taken);
            }
            return;
        };
        paces.lease(claim, *lease, self.least(), now_ms);
        let share = self.share(&paces.share.whole, &paces);
        paces.set_share(&share, || now_ms);
    }

    /// Leaves the key until its next request.
    fn leave(&self, key: &KeyId, paces: &mut Paces, is_used: bool) {
        paces.leased.is_active = false;
        self.active.lock().remove(key);
        if self.is_answered() {
            let part = if is_used { self.least() } else { Part::ALL };
            paces.release(part, self.keys.now_ms());
        }
    }
}

struct Thread {
    leases: Weak<Leases>,
    database: Arc<dyn Database>,
    /// The name of this process in the database.
    node: String,
    is_failing: bool,
}

impl Thread {
    fn run(mut self, woken: &Receiver<()>) {
        thread::park_timeout(FIRST_PAUSE);
        let pause = PERIOD.saturating_sub(LEAST_PERIOD);
        while woken.recv_timeout(pause) != Err(RecvTimeoutError::Disconnected) {
            let Some(leases) = self.leases.upgrade() else {
                return;
            };
            let leased = self.lease(&leases);
            self.report(&leases, leased);
            drop(leases);
            thread::park_timeout(LEAST_PERIOD);
        }
    }

    fn lease(&self, leases: &Leases) -> Result<(), StoreError> {
        let is_used = leases.is_used();
        let (claims, meters) = leases.claims(is_used);
        let ask = |claims: &[LimitClaim]| {
            let expected = leases.expected().get();
            self.database.lease_limits(&self.node, expected, claims)
        };
        if is_used && claims.is_empty() {
            // To see whether it answers.
            return ask(&[]).map(|_| ());
        }
        let (mut meters, mut outcome) = (meters.iter(), Ok(()));
        for claims in LimitClaim::calls(&claims) {
            // After a fault, the rest waits for the next report.
            let leased = outcome.and_then(|()| ask(claims));
            let mut answers = leased.iter().flatten();
            for (claim, meter) in claims.iter().zip(&mut meters) {
                leases.apply(meter, claim, answers.next());
            }
            outcome = leased.map(|_| ());
        }
        outcome
    }

    /// Notes whether the database has answered, and logs each change.
    fn report(&mut self, leases: &Leases, leased: Result<(), StoreError>) {
        match leased {
            Ok(()) => {
                let now_ms = leases.keys.now_ms();
                leases.answered_ms.store(now_ms, Ordering::Relaxed);
                if std::mem::take(&mut self.is_failing) {
                    log::info!("shares of limits are leased from the database again");
                }
            }
            Err(fault) if !std::mem::replace(&mut self.is_failing, true) => log::warn!(
                "shares of limits cannot be leased from the database: {fault}; the last shares hold"
            ),
            Err(_) => {}
        }
    }
}

impl TotalDebt {
    fn at(&self, limit: Option<NonZeroU32>, now_ms: u64) -> u64 {
        let passed = now_ms.saturating_sub(self.at_ms);
        let limit = limit.map_or(0, NonZeroU32::get);
        let flown = passed.saturating_mul(limit.into());
        self.units.saturating_sub(flown)
    }
}

impl Leased {
    /// Notes the debt of all processes, which the database has not counted.
    pub(super) fn note_totals(&mut self, totals: [u64; 3], now_ms: u64) {
        for (limit, units) in self.limits.iter_mut().zip(totals) {
            limit.total = TotalDebt {
                units,
                at_ms: now_ms,
                is_reported: false,
            };
        }
    }

    /// Returns the debt of all processes, for the shared server.
    pub(super) fn take_totals(&mut self, whole: &Limits, now_ms: u64) -> [u64; 3] {
        let mut totals = [0; 3];
        let limits = self.limits.iter().zip(dimensions(whole));
        for (total, (limit, (_, whole))) in totals.iter_mut().zip(limits) {
            *total = limit.total.at(whole, now_ms);
        }
        self.note_totals([0; 3], now_ms);
        totals
    }

    const fn of(&mut self, dimension: Dimension) -> &mut LeasedLimit {
        let [requests, input, output, concurrent] = &mut self.limits;
        match dimension {
            Dimension::Requests => requests,
            Dimension::InputTokens => input,
            Dimension::OutputTokens => output,
            Dimension::Concurrent => concurrent,
        }
    }
}

impl Paces {
    /// Whether the key had no request for long.
    fn is_idle(&mut self, running: u32, now_ms: u64) -> bool {
        let Leased {
            limits, used_at_ms, ..
        } = &mut self.leased;
        if running > 0 || limits.iter().any(|it| it.demand != [0; 2]) {
            *used_at_ms = now_ms;
        }
        now_ms.saturating_sub(*used_at_ms) >= IDLE_MS
    }

    /// Adds the claim of each limit. The claimed amounts count as reported.
    fn claim(&mut self, key: &KeyId, running: u32, now_ms: u64, claims: &mut Vec<LimitClaim>) {
        for (dimension, limit) in dimensions(&self.share.whole) {
            let pace = self.of(dimension);
            let running = if pace.is_none() { running } else { 0 };
            let taken = pace.map_or(0, |it| it.uncounted(now_ms));
            let leased = self.leased.of(dimension);
            let [now, before] = &mut leased.demand;
            let demand = now.saturating_add(*before).saturating_add(running.into());
            *before = std::mem::take(now);
            let Some(limit) = limit else {
                leased.lease = None;
                continue;
            };
            let total = leased.total.at(Some(limit), now_ms);
            claims.push(LimitClaim {
                key: key.clone(),
                dimension,
                limit,
                taken,
                floor: if leased.total.is_reported { 0 } else { total },
                kept: cost(running.into()),
                demand: demand.min(MOST_DEMAND),
            });
        }
    }

    /// Applies a lease. Without demand there is none; then the process has the part `least`.
    fn lease(&mut self, claim: &LimitClaim, lease: LimitLease, least: Part, now_ms: u64) {
        let limit = self.leased.of(claim.dimension);
        limit.lease = (lease.part > Part::NONE).then_some(lease);
        limit.total = TotalDebt {
            units: lease.debt,
            at_ms: now_ms,
            is_reported: true,
        };
        if let Some(pace) = self.of(claim.dimension) {
            pace.recount(lease.debt_of_process(claim.limit, least), now_ms);
        }
    }

    /// Ends the lease: the process goes on with this part of each limit and of the debt of all processes.
    fn release(&mut self, part: Part, now_ms: u64) {
        for (dimension, limit) in dimensions(&self.share.whole) {
            let leased = self.leased.of(dimension);
            let was_leased = leased.lease.take().is_some();
            let debt = part.of(leased.total.at(limit, now_ms));
            if let Some(pace) = self.of(dimension).filter(|_| was_leased) {
                pace.recount(debt, now_ms);
            }
        }
    }
}

/// The limits in the order of [`Dimension::ALL`].
const fn dimensions(limits: &Limits) -> [(Dimension, Option<NonZeroU32>); 4] {
    [
        (Dimension::Requests, limits.requests),
        (Dimension::InputTokens, limits.input_tokens),
        (Dimension::OutputTokens, limits.output_tokens),
        (Dimension::Concurrent, limits.concurrent),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_of_a_process_has_the_leased_amount_left() {
        let (limit, least) = (NonZeroU32::new(60).unwrap(), Part::billionths(100_000_000));
        let half = Part::billionths(500_000_000);
        for (part, debt, leased, owed) in [
            (half, 0, 30, 0),
            (half, 40, 20, 10),
            (half, 60, 0, 30),
            // All processes owe 20 beyond the limit.
            (half, 80, 0, 40),
            (Part::ALL, 10, 50, 10),
            // No lease.
            (Part::NONE, 40, 0, 4),
        ] {
            let lease = LimitLease {
                part,
                debt: cost(debt),
                leased: cost(leased),
            };
            assert_eq!(lease.debt_of_process(limit, least), cost(owed), "{lease:?}");
        }
    }
}
