//! A circuit breaker.
//!
//! It opens after a number of consecutive failures, after too large a share of failures, or at once after a
//! failure that is clear enough. It stays open for a cooldown, which grows with each opening. Then it is
//! half-open and lets one attempt pass, the probe, and another one if that takes long. A probe closes the
//! breaker or opens it again.
//!
//! A success costs one load to enter and one addition to report. Failures take a lock. The caller decides
//! what a failure counts against, and what happens to a request that finds the breaker open.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// When breakers open, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerPolicy {
    /// Consecutive failures that open it. `None`: no such limit.
    pub consecutive_failures: Option<u32>,
    /// The share of failures, from 0 to 1, that opens it. `None`: no such limit.
    pub error_rate: Option<f64>,
    /// The fewest recent outcomes from which the share counts.
    pub min_requests: u32,
    /// How fast outcomes lose weight in the share: an outcome of this age counts 37 %.
    pub window: Duration,
    /// The first cooldown. Each further opening doubles it.
    pub cooldown: Duration,
    /// The longest cooldown. A breaker that stayed closed for this time starts again with the first.
    pub max_cooldown: Duration,
}

/// How long a probe is the only request, in milliseconds. A provider that has recovered must not wait for traffic until
/// the end of a long answer.
const SOLE_PROBE_MS: u64 = 10_000;

/// The requests that a breaker lets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Everything.
    Closed,
    /// One attempt, and it is free.
    HalfOpen,
    /// Nothing until the cooldown ends. If it has ended, nothing until the probe ends or takes too long, or
    /// [`Breaker::hold`] is released.
    Open {
        /// The end of the cooldown in milliseconds.
        until: u64,
    },
}

/// How bad a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// It counts.
    Counts,
    /// It opens the breaker by itself.
    Opens,
    /// It opens the breaker by itself, for as long as the provider asks.
    Rests(Duration),
}

/// A breaker has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is open for this long.
    Opened(Duration),
    /// It is closed again.
    Closed,
}

/// The last failure that counted against a breaker, for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastFailure {
    /// The class of the failure, as in metrics.
    pub class: &'static str,
    /// When it happened, in milliseconds of the breaker's clock.
    pub at: u64,
}

/// The permission to pass a breaker. It is handed back with the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    epoch: u32,
    /// [`Breaker::probe_until`] of a probe; 0: it is none.
    probe: u64,
    /// Its success was counted while the breaker was closed. A failure takes that back.
    has_succeeded: bool,
}

/// One breaker. All times are milliseconds of one monotonic clock.
#[derive(Debug, Default)]
pub struct Breaker {
    /// The end of the cooldown; 0 while closed.
    until: AtomicU64,
    /// Successes since the last failure.
    successes: AtomicU64,
    /// The number of changes so far. The outcome of an attempt from an earlier epoch is ignored.
    epoch: AtomicU32,
    /// Until when the probe in flight is the only one; 0: there is none.
    probe_until: AtomicU64,
    /// It is open because a provider asked to wait.
    is_resting: AtomicBool,
    /// An active check decides when it closes: no probe passes.
    is_held: AtomicBool,
    record: Mutex<Record>,
}

/// The state that only failures and changes use.
#[derive(Debug, Default)]
struct Record {
    consecutive: u32,
    /// Recent outcomes; older ones count less.
    failed: f64,
    succeeded: f64,
    /// When the last failure happened.
    at: u64,
    /// Openings since it last stayed closed for `max_cooldown`, without those for a wait that a provider asked for.
    openings: u32,
    closed_at: u64,
    /// When it last opened or closed; 0: never.
    changed_at: u64,
    last_failure: Option<LastFailure>,
}

impl Breaker {
    /// The requests that may pass at this moment.
    pub fn standing(&self, now: u64) -> Standing {
        match self.until.load(Ordering::Acquire) {
            0 => Standing::Closed,
            until
                if now < until
                    || now < self.probe_until.load(Ordering::Relaxed)
                    || self.is_held.load(Ordering::Relaxed) =>
            {
                Standing::Open { until }
            }
            _ => Standing::HalfOpen,
        }
    }

    /// When the wait ends that a provider asked for. `None`: there is none.
    pub fn rests_until(&self, now: u64) -> Option<u64> {
        let until = self.until.load(Ordering::Acquire);
        (now < until && self.is_resting.load(Ordering::Relaxed)).then_some(until)
    }

    /// While it is held, an open breaker stays open past its cooldown until a success is reported. Holding
    /// does not open a closed breaker.
    pub fn hold(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::Relaxed);
    }

    /// When it last opened or closed. `None`: it never has.
    pub fn changed_at(&self) -> Option<u64> {
        let at = self.record.lock().changed_at;
        (at != 0).then_some(at)
    }

    /// The last failure that was noted.
    pub fn last_failure(&self) -> Option<LastFailure> {
        self.record.lock().last_failure
    }

    /// Notes a failure for operators, whether or not it opens the breaker.
    pub fn note(&self, failure: LastFailure) {
        self.record.lock().last_failure = Some(failure);
    }

    /// Begins an attempt if the breaker lets one pass.
    pub fn enter(&self, now: u64) -> Option<Pass> {
        let epoch = self.epoch.load(Ordering::Acquire);
        let probe = match self.standing(now) {
            Standing::Closed => 0,
            Standing::Open { .. } => return None,
            Standing::HalfOpen => {
                let ended = self.probe_until.load(Ordering::Relaxed);
                let until = now.saturating_add(SOLE_PROBE_MS).max(1);
                let entered = ended <= now && self.replace_probe(ended, until);
                entered.then_some(until)?
            }
        };
        Some(Pass {
            epoch,
            probe,
            has_succeeded: false,
        })
    }

    /// Begins an attempt in any state: a last resort.
    pub fn force(&self) -> Pass {
        Pass {
            epoch: self.epoch.load(Ordering::Acquire),
            probe: 0,
            has_succeeded: false,
        }
    }

    /// Reports the success of an attempt, which can still fail.
    pub fn succeeded(&self, pass: &mut Pass, now: u64) -> Option<Change> {
        if self.until.load(Ordering::Acquire) == 0 {
            self.successes.fetch_add(1, Ordering::Relaxed);
            pass.has_succeeded = true;
            // A last resort has closed it before the probe ended.
            self.end_probe(pass);
            return None;
        }
        let mut record = self.record.lock();
        let is_news = self.epoch.load(Ordering::Acquire) == pass.epoch;
        let change = (is_news && self.until.load(Ordering::Acquire) != 0).then(|| {
            pass.epoch = self.close(&mut record, now);
            Change::Closed
        });
        self.end_probe(pass);
        change
    }

    /// Closes it, whatever attempts in flight report: breakers are switched off.
    pub fn release(&self, now: u64) -> Option<Change> {
        self.hold(false);
        if self.until.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut record = self.record.lock();
        (self.until.load(Ordering::Acquire) != 0).then(|| {
            record.openings = 0;
            self.close(&mut record, now);
            Change::Closed
        })
    }

    /// Closes an open breaker and returns the new epoch.
    fn close(&self, record: &mut Record, now: u64) -> u32 {
        *record = Record {
            openings: record.openings,
            closed_at: now,
            changed_at: now,
            last_failure: record.last_failure,
            ..Record::default()
        };
        self.successes.store(0, Ordering::Relaxed);
        let epoch = self.epoch.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        self.probe_until.store(0, Ordering::Relaxed);
        self.until.store(0, Ordering::Release);
        self.is_resting.store(false, Ordering::Relaxed);
        epoch
    }

    /// Reports the failure of an attempt. `random` spreads the cooldown.
    pub fn failed(
        &self,
        pass: &mut Pass,
        severity: Severity,
        policy: &BreakerPolicy,
        now: u64,
        random: u64,
    ) -> Option<Change> {
        let mut record = self.record.lock();
        let is_news = self.epoch.load(Ordering::Acquire) == pass.epoch;
        let until = self.until.load(Ordering::Acquire);
        let opens = match until {
            _ if !is_news => false,
            0 => {
                let successes = self.successes.swap(0, Ordering::Relaxed);
                let own = u64::from(std::mem::take(&mut pass.has_succeeded));
                record.note_failure(successes.saturating_sub(own), policy, now);
                severity != Severity::Counts || record.is_too_much(policy)
            }
            // The probe has failed, or a last resort after the cooldown.
            _ => now >= until,
        };
        let change = opens.then(|| {
            let cooldown = record.open(severity, policy, now, random);
            let rests = matches!(severity, Severity::Rests(_));
            self.is_resting.store(rests, Ordering::Relaxed);
            pass.epoch = self.epoch.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
            let until = now.saturating_add(millis(cooldown)).max(1);
            self.probe_until.store(0, Ordering::Relaxed);
            self.until.store(until, Ordering::Release);
            Change::Opened(cooldown)
        });
        if change.is_none() {
            self.prolong(severity, now);
        }
        self.end_probe(pass);
        change
    }

    /// Keeps an open breaker open for as long as the provider asks. Requires the lock of the record.
    fn prolong(&self, severity: Severity, now: u64) {
        let Severity::Rests(asked) = severity else {
            return;
        };
        let until = self.until.load(Ordering::Acquire);
        let asked_until = now.saturating_add(millis(asked));
        if now < until && until < asked_until {
            self.is_resting.store(true, Ordering::Relaxed);
            self.until.store(asked_until, Ordering::Release);
        }
    }

    /// Ends an attempt without an outcome.
    pub fn abandoned(&self, pass: &mut Pass) {
        self.end_probe(pass);
    }

    /// Lets another probe pass, unless one does already.
    fn end_probe(&self, pass: &mut Pass) {
        let probe = std::mem::take(&mut pass.probe);
        if probe != 0 {
            self.replace_probe(probe, 0);
        }
    }

    fn replace_probe(&self, known: u64, new: u64) -> bool {
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        let replaced = self
            .probe_until
            .compare_exchange(known, new, order.0, order.1);
        replaced.is_ok()
    }
}

impl Record {
    /// Counts a failure, and the successes since the failure before it.
    fn note_failure(&mut self, successes: u64, policy: &BreakerPolicy, now: u64) {
        let elapsed = seconds(now.saturating_sub(self.at));
        let window = policy.window.as_secs_f64().max(0.001);
        let kept = (-elapsed / window).exp();
        // The successes are assumed to be spread evenly over the elapsed time.
        let spread = match elapsed > 0.0 {
            true => window / elapsed * (1.0 - kept),
            false => 1.0,
        };
        #[expect(clippy::cast_precision_loss, reason = "a count for a ratio")]
        let successes_now = successes as f64;
        self.succeeded = self
            .succeeded
            .mul_add(kept, successes_now * spread.min(1.0));
        self.failed = self.failed.mul_add(kept, 1.0);
        self.at = now;
        self.consecutive = match successes {
            0 => self.consecutive.saturating_add(1),
            _ => 1,
        };
    }

    fn is_too_much(&self, policy: &BreakerPolicy) -> bool {
        let in_a_row = policy
            .consecutive_failures
            .is_some_and(|most| self.consecutive >= most);
        let outcomes = self.failed + self.succeeded;
        // Outcomes that have lost a little weight still count as whole requests.
        let are_enough = outcomes + 0.5 >= f64::from(policy.min_requests);
        let too_large = policy
            .error_rate
            .is_some_and(|most| are_enough && self.failed >= most * outcomes);
        in_a_row || too_large
    }

    /// Opens, and returns the cooldown.
    fn open(
        &mut self,
        severity: Severity,
        policy: &BreakerPolicy,
        now: u64,
        random: u64,
    ) -> Duration {
        let is_calm = self.closed_at != 0
            && now.saturating_sub(self.closed_at) >= millis(policy.max_cooldown);
        if is_calm {
            self.openings = 0;
        }
        let (cooldown, openings) = match severity {
            Severity::Rests(asked) => (asked, self.openings),
            _ => (
                cooldown(policy, self.openings, random),
                self.openings.saturating_add(1),
            ),
        };
        *self = Self {
            openings,
            at: now,
            changed_at: now,
            last_failure: self.last_failure,
            ..Self::default()
        };
        cooldown
    }
}

/// The cooldown after this many earlier openings: doubled for each, and spread by ±25 %, so that breakers that
/// opened together do not close together.
fn cooldown(policy: &BreakerPolicy, openings: u32, random: u64) -> Duration {
    const MOST_DOUBLINGS: u32 = 16;
    let doubled = 1_u32 << openings.min(MOST_DOUBLINGS);
    let plain = policy.cooldown.saturating_mul(doubled);
    let plain = plain.min(policy.max_cooldown);
    #[expect(clippy::cast_precision_loss, reason = "53 bits of it are plenty")]
    let spread = 0.75 + 0.5 * ((random >> 11) as f64 / (1_u64 << 53) as f64);
    plain.mul_f64(spread).min(policy.max_cooldown)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "a span of time, not a count")]
fn seconds(millis: u64) -> f64 {
    millis as f64 / 1000.0
}

#[cfg(test)]
mod tests;
