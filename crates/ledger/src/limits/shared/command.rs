//! The commands that are sent to the server, and the meaning of its answers.

use super::{
    super::{
        Admission, Limiter, Mode,
        admission::Shared,
        bucket::{Bucket, WINDOW_MS, change},
        meter::{Meter, Paces},
        pace::{Amounts, Taken},
    },
    LastAnswer,
};
use parking_lot::MutexGuard;
use redis::{Cmd, RedisError, Value};
use std::{num::NonZeroU32, sync::Arc, time::Duration};
use tokio::sync::oneshot;
use tollgate_types::{Denied, Dimension, KeyId, Limited, Limits};

/// How long the requests of a process count after it was last heard of.
pub(super) const LEASE: Duration = Duration::from_secs(10);

pub(in super::super) enum Command {
    Admit(Order),
    Settle(Settlement),
    Renew(Renewal),
}

/// A request that is to be admitted, or was.
pub(in super::super) struct Order {
    key: KeyId,
    meter: Arc<Meter>,
    limiter: Limiter,
    limits: Limits,
    amounts: Amounts,
    /// `None`: the request was admitted already.
    reply: Option<oneshot::Sender<Result<Admission, Limited>>>,
    is_answered: bool,
}

/// Amounts that are given back or owed.
pub(in super::super) struct Settlement {
    key: KeyId,
    limits: Limits,
    has_slot: bool,
    changes: [i64; 3],
    /// The debt of all processes, at least, apart from the changes.
    floor: [u64; 3],
}

/// How many requests of this process run.
pub(in super::super) struct Renewal {
    key: KeyId,
    running: u32,
}

/// The script as the server knows it, and this process.
pub(super) struct Script {
    pub(super) sha: String,
    pub(super) node: String,
}

impl Script {
    fn call(&self, operation: &str, key: &KeyId) -> Cmd {
        let lease = u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX);
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.sha).arg(1).arg(name(key));
        call.arg(operation).arg(&self.node).arg(lease);
        call
    }
}

/// The name of a key's hash. The braces keep it on one node of a cluster.
fn name(key: &KeyId) -> String {
    format!("tollgate:limits:{{{key}}}")
}

fn number(limit: Option<NonZeroU32>) -> u32 {
    limit.map_or(0, NonZeroU32::get)
}

fn buckets(limits: &Limits) -> [Option<NonZeroU32>; 3] {
    [limits.requests, limits.input_tokens, limits.output_tokens]
}

impl Order {
    /// Until it is answered or dropped, the number of requests that the server counts for this process is
    /// unknown.
    pub(in super::super) fn new(
        limiter: &Limiter,
        key: &KeyId,
        limits: &Limits,
        amounts: Amounts,
        reply: oneshot::Sender<Result<Admission, Limited>>,
    ) -> Self {
        let mut order = Self::charge(limiter, key, limits, amounts);
        let mut paces = order.meter.paces();
        paces.server.unanswered = paces.server.unanswered.saturating_add(1);
        drop(paces);
        order.reply = Some(reply);
        order
    }

    /// For a request that [`Meter::take_ahead`] has admitted.
    pub(in super::super) fn charge(
        limiter: &Limiter,
        key: &KeyId,
        limits: &Limits,
        amounts: Amounts,
    ) -> Self {
        Self {
            key: key.clone(),
            meter: limiter.meter(key),
            limiter: limiter.clone(),
            limits: *limits,
            amounts,
            reply: None,
            is_answered: false,
        }
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.reply.as_ref().is_some_and(oneshot::Sender::is_closed)
    }

    pub(super) const fn meter(&self) -> (&KeyId, &Arc<Meter>) {
        (&self.key, &self.meter)
    }

    pub(super) fn call(&self, script: &Script) -> Cmd {
        let operation = if self.reply.is_some() {
            "admit"
        } else {
            "charge"
        };
        let mut call = script.call(operation, &self.key);
        call.arg(number(self.limits.concurrent));
        let Amounts {
            requests,
            input,
            output,
        } = self.amounts;
        for (limit, count) in buckets(&self.limits)
            .into_iter()
            .zip([requests, input, output])
        {
            call.arg(number(limit)).arg(count);
        }
        call
    }

    /// Hands the answer on. If the request no longer waits for it, everything goes back.
    pub(super) fn answered(mut self, answer: Result<Value, RedisError>) -> Result<(), RedisError> {
        let answer: Vec<i64> = redis::from_redis_value(answer?)?;
        self.is_answered = true;
        match self.reply.take() {
            // If it fails, it drops the admission.
            Some(reply) => drop(reply.send(self.read(&answer))),
            None => {
                let mut paces = self.mirror(&answer);
                if answer.first() != Some(&0) {
                    // Beyond a limit: for a window all requests wait for the server.
                    paces.server.waits_until_ms = self.limiter.now_ms().saturating_add(WINDOW_MS);
                }
            }
        }
        Ok(())
    }

    fn mirror(&self, answer: &[i64]) -> MutexGuard<'_, Paces> {
        let mut paces = self.meter.paces();
        // A late answer must not overwrite what was taken without the server since.
        if let Mode::Server(server, _) = self.limiter.mode() {
            let debts = [2, 3, 4].map(|place| units(answer, place));
            paces.mirror(&self.limits, debts, self.limiter.now_ms());
            paces.server.last = Some(LastAnswer {
                period: server.period(),
                others: u32::try_from(units(answer, 5)).unwrap_or(u32::MAX),
            });
        }
        paces
    }

    fn read(&self, answer: &[i64]) -> Result<Admission, Limited> {
        let dimension = match answer.first() {
            Some(1) => Some((Dimension::Requests, self.limits.requests)),
            Some(2) => Some((Dimension::InputTokens, self.limits.input_tokens)),
            Some(3) => Some((Dimension::OutputTokens, self.limits.output_tokens)),
            Some(4) => {
                return Err(Limited {
                    dimension: Dimension::Concurrent,
                    // The end of the next one is unknown.
                    denied: Denied::Wait(Duration::from_secs(1)),
                });
            }
            _ => None,
        };
        let paces = self.mirror(answer);
        if let Some((dimension, limit)) = dimension {
            let denied = match answer.get(1) {
                Some(-1) => Denied::NeverFits,
                _ => Denied::Wait(Bucket::wait(
                    limit.unwrap_or(NonZeroU32::MIN),
                    units(answer, 1),
                )),
            };
            return Err(Limited { dimension, denied });
        }
        // Under the lock: a renewal sees the count of this process and that of the server agree.
        self.meter.enter(None)?;
        drop(paces);
        Ok(self.admission(self.amounts.under(&self.limits)))
    }

    /// Of a request that the server counts or will count.
    pub(in super::super) fn admission(&self, taken: Taken) -> Admission {
        Admission {
            meter: Arc::clone(&self.meter),
            limiter: self.limiter.clone(),
            taken,
            sharing: self.limiter.server().map(|server| Shared {
                key: self.key.clone(),
                server: server.clone(),
                has_slot: self.limits.concurrent.is_some(),
            }),
            used: None,
        }
    }
}

/// A number of an answer.
fn units(answer: &[i64], place: usize) -> u64 {
    let units = answer.get(place).copied().unwrap_or_default();
    u64::try_from(units).unwrap_or_default()
}

impl Drop for Order {
    fn drop(&mut self) {
        let mut paces = self.meter.paces();
        paces.server.unanswered = paces.server.unanswered.saturating_sub(1);
        // The server may have counted it; then it counts twice.
        if self.reply.is_none() && !self.is_answered {
            let Amounts {
                requests,
                input,
                output,
            } = self.amounts;
            paces.mark_uncounted([requests, input, output].map(change));
        }
    }
}

impl Settlement {
    pub(in super::super) fn of_request(
        key: &KeyId,
        limits: &Limits,
        has_slot: bool,
        taken: &Taken,
        used: Option<(u64, u64)>,
    ) -> Self {
        let Taken {
            requests,
            input,
            output,
        } = *taken;
        let back = |taken: Option<u64>| taken.map_or(0, |taken| bounded(0, taken));
        let changes = match used {
            None => [requests, input, output].map(back),
            Some((used_input, used_output)) => {
                let change = |taken: Option<u64>, used| taken.map_or(0, |it| bounded(used, it));
                [0, change(input, used_input), change(output, used_output)]
            }
        };
        Self {
            key: key.clone(),
            limits: *limits,
            has_slot,
            changes,
            floor: [0; 3],
        }
    }

    /// The amounts that were taken without the server.
    pub(super) fn missed(key: &KeyId, paces: &mut Paces, now_ms: u64) -> Self {
        Self {
            key: key.clone(),
            limits: paces.share.whole,
            has_slot: false,
            changes: paces
                .uncounted(now_ms)
                .map(|units| units / WINDOW_MS.cast_signed()),
            floor: paces.leased.take_totals(&paces.share.whole, now_ms),
        }
    }

    pub(super) fn is_needed(&self) -> bool {
        self.has_slot || self.changes != [0; 3] || self.floor != [0; 3]
    }

    pub(super) fn call(&self, script: &Script) -> Cmd {
        let mut call = script.call("settle", &self.key);
        call.arg(u32::from(self.has_slot));
        for (limit, change) in buckets(&self.limits).into_iter().zip(self.changes) {
            call.arg(number(limit)).arg(change);
        }
        call.arg(&self.floor);
        call
    }
}

/// How much more was used than taken. More than a bucket can owe makes no difference.
fn bounded(used: u64, taken: u64) -> i64 {
    const MOST: i128 = 10 << 32;
    let change = i128::from(used).saturating_sub(i128::from(taken));
    i64::try_from(change.clamp(-MOST, MOST)).unwrap_or_default()
}

impl Renewal {
    /// `None` if requests are not counted, or an answer is on its way.
    pub(super) fn of(key: &KeyId, paces: &Paces, meter: &Meter) -> Option<Self> {
        let is_counted = paces.share.limits.concurrent.is_some() && paces.server.unanswered == 0;
        is_counted.then(|| Self {
            key: key.clone(),
            running: meter.running(),
        })
    }

    /// Harmless calls, which show whether the user has all permissions, and whether the server has all keys: these
    /// are in the first and in the last slot of a cluster.
    pub(super) fn trials(running: u32) -> [Self; 2] {
        ["afps", "hia"].map(|key| Self {
            key: KeyId::new(key),
            running,
        })
    }

    pub(super) fn call(&self, script: &Script) -> Cmd {
        let mut call = script.call("renew", &self.key);
        call.arg(self.running);
        call
    }
}
