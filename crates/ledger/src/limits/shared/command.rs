//! The commands that are sent to the server, and the meaning of its answers.

use super::{
    super::{
        Admission, Limiter, Mode,
        admission::AtServer,
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
    purpose: Purpose,
}

/// What the answer of the server is for.
enum Purpose {
    /// A request waits for it.
    Admit(oneshot::Sender<Result<Admission, Limited>>),
    /// [`Meter::take_ahead`] has admitted the request; the server has to count it.
    Charge,
    /// The answer was applied.
    Answered,
}

/// The answer of the script to an order.
struct Answer {
    refused: Option<Limited>,
    /// Of requests, input and output.
    debts: [u64; 3],
    /// Requests that run in other processes.
    others: u32,
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
        order.purpose = Purpose::Admit(reply);
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
            purpose: Purpose::Charge,
        }
    }

    pub(super) fn is_abandoned(&self) -> bool {
        matches!(&self.purpose, Purpose::Admit(reply) if reply.is_closed())
    }

    pub(super) const fn meter(&self) -> (&KeyId, &Arc<Meter>) {
        (&self.key, &self.meter)
    }

    pub(super) fn call(&self, script: &Script) -> Cmd {
        let operation = match self.purpose {
            Purpose::Admit(_) => "admit",
            Purpose::Charge | Purpose::Answered => "charge",
        };
        let mut call = script.call(operation, &self.key);
        call.arg(number(self.limits.concurrent));
        for (limit, count) in buckets(&self.limits).into_iter().zip(self.amounts.each()) {
            call.arg(number(limit)).arg(count);
        }
        call
    }

    /// Hands the answer on. If the request no longer waits for it, everything goes back.
    pub(super) fn answered(mut self, answer: Result<Value, RedisError>) -> Result<(), RedisError> {
        let answer = Answer::read(
            redis::from_redis_value(answer?.extract_error()?)?,
            &self.limits,
        );
        match std::mem::replace(&mut self.purpose, Purpose::Answered) {
            // If it fails, it drops the admission.
            Purpose::Admit(reply) => drop(reply.send(self.decide(&answer))),
            Purpose::Charge | Purpose::Answered => {
                let mut paces = self.mirror(&answer);
                if answer.refused.is_some() {
                    // The request exceeds a limit: for a window, all requests wait for the server.
                    paces.server.waits_until_ms = self.limiter.now_ms().saturating_add(WINDOW_MS);
                }
            }
        }
        Ok(())
    }

    fn mirror(&self, answer: &Answer) -> MutexGuard<'_, Paces> {
        let mut paces = self.meter.paces();
        // A late answer must not overwrite what was taken without the server since.
        if let Mode::Server(server, _) = self.limiter.mode() {
            paces.mirror(&self.limits, answer.debts, self.limiter.now_ms());
            paces.server.last = Some(LastAnswer {
                period: server.period(),
                others: answer.others,
            });
        }
        paces
    }

    fn decide(&self, answer: &Answer) -> Result<Admission, Limited> {
        let refused = answer.refused.map_or(Ok(()), Err);
        if refused.is_err_and(|it| it.dimension == Dimension::Concurrent) {
            // The script has not looked at the debts.
            refused?;
        }
        let paces = self.mirror(answer);
        refused?;
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
            at_server: self.limiter.server().map(|server| AtServer {
                key: self.key.clone(),
                server: server.clone(),
                has_slot: self.limits.concurrent.is_some(),
            }),
            used: None,
        }
    }
}

impl Answer {
    fn read(answer: [i64; 6], limits: &Limits) -> Self {
        let [dimension, excess, requests, input, output, others] = answer;
        let units = |number: i64| u64::try_from(number).unwrap_or_default();
        let refused = |dimension, limit: Option<NonZeroU32>| {
            let denied = match (excess, limit) {
                (-1, _) | (_, None) => Denied::NeverFits,
                (excess, Some(limit)) => Denied::Wait(Bucket::wait(limit, units(excess))),
            };
            Some(Limited { dimension, denied })
        };
        Self {
            refused: match dimension {
                1 => refused(Dimension::Requests, limits.requests),
                2 => refused(Dimension::InputTokens, limits.input_tokens),
                3 => refused(Dimension::OutputTokens, limits.output_tokens),
                4 => Some(Limited {
                    dimension: Dimension::Concurrent,
                    // The end of the next one is unknown.
                    denied: Denied::Wait(Duration::from_secs(1)),
                }),
                _ => None,
            },
            debts: [requests, input, output].map(units),
            others: u32::try_from(units(others)).unwrap_or(u32::MAX),
        }
    }
}

impl Drop for Order {
    fn drop(&mut self) {
        let mut paces = self.meter.paces();
        paces.server.unanswered = paces.server.unanswered.saturating_sub(1);
        // The server may have counted it; then it counts twice.
        if let Purpose::Charge = self.purpose {
            paces.mark_uncounted(self.amounts.each().map(change));
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
