//! Leases shares of limits in the database, while no shared server counts.
//!
//! A thread of its own sends what each key with recent requests needs and has taken, and takes over the
//! answers. Requests never wait for it: without an answer the last shares hold.

use super::{
    Keys, Limiter,
    allotment::{Claim, Fraction, Lease, WHOLE},
    meter::{Meter, Paces, Share},
    pace::{Taken, Wanted},
    shared::SharedLimits,
};
use crate::{
    directory::spawn,
    key,
    store::{Store, StoreError, database::Database},
};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};
use tollgate_types::{Denied, KeyId, Limited, Limits};

/// How often a key with recent requests is claimed.
const PERIOD: Duration = Duration::from_millis(400);
/// The same, if requests are refused for lack of a first lease.
const LEAST_PERIOD: Duration = Duration::from_millis(100);
/// Most keys of one transaction, which locks them.
const MOST_KEYS: usize = 500;
/// How long a share is kept after the last request, and how long a refusal counts, in milliseconds.
const IDLE_MS: u64 = 5_000;
/// After how long without an answer the last shares hold, for metrics.
const AWAY_MS: u64 = 3_000;
/// Far from the end of the numbers of the database.
const MOST_DEMAND: u64 = 1 << 52;
/// A process may always use this part of an equal share.
const FIRST_PART: u32 = 10;

/// What request threads and the thread that claims share.
pub(super) struct Claims {
    keys: Arc<Keys>,
    server: Option<SharedLimits>,
    /// Keys that had a request since they were claimed last.
    listed: Mutex<Vec<(KeyId, Arc<Meter>)>>,
    wake: SyncSender<()>,
    /// When the database last answered, or nothing was asked.
    answered_ms: AtomicU64,
    is_failing: AtomicBool,
}

/// A share that the database has leased.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Leased {
    parts: u32,
    /// Requests that run in other processes.
    others: u32,
    /// The time without the shared server in which it holds; see [`SharedLimits::period`].
    period: u64,
}

/// What is noted about a key between two claims.
#[derive(Debug, Default)]
pub(super) struct Demand {
    is_listed: bool,
    now: u64,
    before: u64,
    refused_at_ms: Option<u64>,
}

impl Claims {
    /// Starts the thread, which ends with the last clone. `None`: the processes of this database do not
    /// divide limits.
    pub(super) fn start(
        store: &Store,
        keys: &Arc<Keys>,
        server: Option<&SharedLimits>,
    ) -> Result<Option<Arc<Self>>, StoreError> {
        let database = Arc::clone(store.database());
        let mut node = String::new();
        key::push_random(&mut node, 12)?;
        if database.claim_limits(&node, &[])?.is_none() {
            return Ok(None);
        }
        let (wake, woken) = sync_channel(1);
        let claims = Arc::new(Self {
            keys: Arc::clone(keys),
            server: server.cloned(),
            listed: Mutex::default(),
            wake,
            answered_ms: AtomicU64::new(keys.now_ms()),
            is_failing: AtomicBool::new(false),
        });
        let thread = Thread {
            claims: Arc::downgrade(&claims),
            database,
            node,
            known: HashMap::new(),
        };
        spawn("limit-shares", store.path(), move || thread.run(&woken))?;
        Ok(Some(claims))
    }

    /// Whether the database answers. `true` if there is nothing to ask.
    pub(super) fn is_answered(&self) -> bool {
        let answered_ms = self.answered_ms.load(Ordering::Relaxed);
        !self.is_failing.load(Ordering::Relaxed)
            && self.keys.now_ms().saturating_sub(answered_ms) < AWAY_MS
    }

    fn period(&self) -> u64 {
        self.server.as_ref().map_or(0, SharedLimits::period)
    }

    /// What the database has leased to this process since the server was lost.
    fn leased(&self, paces: &Paces) -> Option<Leased> {
        paces.leased.filter(|it| it.period == self.period())
    }

    /// What this one of `nodes` processes may use now.
    pub(super) fn share(&self, limits: &Limits, paces: &Paces, nodes: u32) -> Share {
        if nodes <= 1 {
            return Share::of(limits, Fraction::ALL);
        }
        let least = WHOLE / FIRST_PART.saturating_mul(nodes).min(WHOLE);
        let leased = self.leased(paces).unwrap_or_default();
        let fraction = Fraction::millionths(leased.parts.max(least));
        let mut share = Share::of(limits, fraction).beside(leased.others);
        share.is_provisional = leased.parts < least;
        share
    }

    /// Notes a request, admitted or not.
    pub(super) fn note(
        &self,
        (key, meter, paces): (&KeyId, &Arc<Meter>, &mut Paces),
        share: &Share,
        wanted: Wanted,
        admitted: &mut Result<Taken, Limited>,
    ) {
        if share.whole == Limits::default() {
            return;
        }
        // If the request was refused before.
        paces.go_by_share(share, || self.keys.now_ms());
        let is_first = self.leased(paces).is_none();
        let demand = &mut paces.demand;
        demand.now = demand.now.saturating_add(weight(&share.whole, wanted));
        if let Err(Limited {
            denied: Denied::Wait(wait),
            ..
        }) = admitted
        {
            demand.refused_at_ms = Some(self.keys.now_ms());
            if share.is_provisional {
                // The next answers are likely to change the share.
                *wait = PERIOD.min(*wait);
            }
            if is_first {
                // If it is full, the thread is about to look.
                let _ = self.wake.try_send(());
            }
        }
        if !std::mem::replace(&mut demand.is_listed, true) {
            self.listed.lock().push((key.clone(), Arc::clone(meter)));
        }
    }
}

/// The largest part of a limit that a request needs, in millionths.
fn weight(limits: &Limits, wanted: Wanted) -> u64 {
    let part = |limit: Option<NonZeroU32>, count: u64| {
        let limit = limit.map_or(u64::MAX, |limit| limit.get().into());
        count.saturating_mul(1_000_000).div_ceil(limit)
    };
    part(limits.requests, wanted.requests)
        .max(part(limits.input_tokens, wanted.input))
        .max(part(limits.output_tokens, wanted.output))
        .max(part(limits.concurrent, 1))
}

struct Thread {
    claims: Weak<Claims>,
    database: Arc<dyn Database>,
    /// The name of this process in the database.
    node: String,
    /// Keys with recent requests, and when they had the last one.
    known: HashMap<KeyId, (Arc<Meter>, u64)>,
}

impl Thread {
    fn run(mut self, woken: &Receiver<()>) {
        let pause = PERIOD.saturating_sub(LEAST_PERIOD);
        while woken.recv_timeout(pause) != Err(RecvTimeoutError::Disconnected) {
            let Some(claims) = self.claims.upgrade() else {
                return;
            };
            let asked = self.claim(&claims);
            claims.report(asked);
            drop(claims);
            thread::park_timeout(LEAST_PERIOD);
        }
    }

    fn claim(&mut self, claims: &Claims) -> Result<(), StoreError> {
        let period = claims.period();
        let now_ms = claims.keys.now_ms();
        for (key, meter) in claims.listed.lock().drain(..) {
            self.known.insert(key, (meter, now_ms));
        }
        if claims.is_counted_by_server() {
            for (_, (meter, _)) in self.known.drain() {
                meter.paces().forget_lease();
            }
            return Ok(());
        }
        let mut all: Vec<Claim> = Vec::with_capacity(self.known.len());
        for (key, (meter, used_at_ms)) in &mut self.known {
            let mut paces = meter.paces();
            if paces.demand.now > 0 || meter.running() > 0 {
                *used_at_ms = now_ms;
            }
            let is_last = now_ms.saturating_sub(*used_at_ms) >= IDLE_MS;
            let is_first = claims.leased(&paces).is_none();
            let claim = paces.claim(key, meter.running(), (is_first, is_last), now_ms);
            all.push(claim);
        }
        let mut outcome = Ok(());
        for part in all.chunks(MOST_KEYS) {
            // After a fault the rest counts as not sent.
            let answered = match outcome {
                Ok(()) => self.database.claim_limits(&self.node, part),
                Err(_) => Ok(None),
            };
            let leases = answered.unwrap_or_else(|fault| {
                outcome = Err(fault);
                None
            });
            let mut leases = leases.into_iter().flatten();
            for claim in part {
                self.take_over(claims, claim, leases.next(), period);
            }
        }
        outcome
    }

    fn take_over(&mut self, claims: &Claims, claim: &Claim, lease: Option<Lease>, period: u64) {
        let Some((meter, _)) = self.known.get(&claim.key) else {
            return;
        };
        let mut paces = meter.paces();
        let lease = match lease {
            Some(lease) if !claims.is_counted_by_server() && claims.period() == period => lease,
            // The server is back, and may not hear of it from the database.
            _ => return paces.miss(claim.taken),
        };
        paces.leased = Some(Leased {
            parts: lease.parts,
            others: lease.others,
            period,
        });
        paces.recount(&lease, claims.keys.now_ms());
        if claim.is_last {
            paces.forget_lease();
            drop(paces);
            self.known.remove(&claim.key);
        }
    }
}

impl Claims {
    fn is_counted_by_server(&self) -> bool {
        self.server.as_ref().is_some_and(SharedLimits::is_open)
    }

    /// Notes whether the database has answered, and logs each change.
    fn report(&self, asked: Result<(), StoreError>) {
        let was_failing = self.is_failing.swap(asked.is_err(), Ordering::Relaxed);
        match asked {
            Ok(()) => {
                self.answered_ms
                    .store(self.keys.now_ms(), Ordering::Relaxed);
                if was_failing {
                    log::info!("shares of limits are leased from the database again");
                }
            }
            Err(fault) if !was_failing => log::warn!(
                "shares of limits cannot be leased from the database: {fault}; the last shares hold"
            ),
            Err(_) => {}
        }
    }
}

impl Paces {
    /// What this process needs of the limits. What it has taken counts as reported.
    fn claim(
        &mut self,
        key: &KeyId,
        running: u32,
        (is_first, is_last): (bool, bool),
        now_ms: u64,
    ) -> Claim {
        let number = |limit: Option<NonZeroU32>| limit.map_or(0, NonZeroU32::get);
        let taken = self.uncounted(now_ms);
        let floor = self.total(now_ms);
        let (limits, demand) = (self.whole, &mut self.demand);
        let slots = u64::from(running).saturating_mul(1_000_000);
        let slots = slots.checked_div(number(limits.concurrent).into());
        // Of two periods, because each is short.
        let lately = demand.now.saturating_add(demand.before / 4);
        demand.before = std::mem::take(&mut demand.now);
        let refused_at_ms = demand.refused_at_ms;
        Claim {
            key: key.clone(),
            limits: [limits.requests, limits.input_tokens, limits.output_tokens].map(number),
            taken,
            floor: if is_first { floor } else { [0; 3] },
            demand: lately.saturating_add(slots.unwrap_or(0)).min(MOST_DEMAND),
            is_refused: refused_at_ms.is_some_and(|at| now_ms.saturating_sub(at) < IDLE_MS),
            running,
            is_last,
        }
    }

    fn forget_lease(&mut self) {
        self.leased = None;
        self.demand = Demand::default();
    }
}

impl Limiter {
    /// Whether the database answers claims; `None` if limits are not divided there.
    pub(super) fn is_leased(&self) -> Option<bool> {
        let claims = self.sharing.as_ref()?.claims.as_ref()?;
        Some(claims.is_answered())
    }
}
