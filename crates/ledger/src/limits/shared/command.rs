//! What is sent to the server, and what its answers mean.

use super::super::{
    Admission, Limiter,
    admission::Origin,
    bucket::Bucket,
    meter::{Meter, Paces},
    pace::{Taken, Wanted},
};
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

/// A request that is to be admitted.
pub(in super::super) struct Order {
    key: KeyId,
    meter: Arc<Meter>,
    limiter: Limiter,
    limits: Limits,
    wanted: Wanted,
    reply: Option<oneshot::Sender<Result<Admission, Limited>>>,
}

/// What a request gives back or owes.
pub(in super::super) struct Settlement {
    key: KeyId,
    limits: Limits,
    has_slot: bool,
    changes: [i64; 3],
}

/// How many requests of this process are under way.
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
    pub(in super::super) fn new(
        limiter: &Limiter,
        key: &KeyId,
        limits: &Limits,
        wanted: Wanted,
        reply: oneshot::Sender<Result<Admission, Limited>>,
    ) -> Self {
        Self {
            key: key.clone(),
            meter: limiter.meter(key),
            limiter: limiter.clone(),
            limits: *limits,
            wanted,
            reply: Some(reply),
        }
    }

    /// Puts it into a queue. Until it is answered or dropped, nobody knows how many requests of this
    /// process the server counts.
    pub(super) fn send(self, queue: impl FnOnce(Command) -> bool) -> bool {
        let meter = Arc::clone(&self.meter);
        // If the queue is full, the command is dropped within it and needs the lock.
        let mut paces = meter.paces();
        paces.asked = paces.asked.saturating_add(1);
        drop(paces);
        queue(Command::Admit(self))
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.reply.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    pub(super) const fn meter(&self) -> (&KeyId, &Arc<Meter>) {
        (&self.key, &self.meter)
    }

    pub(super) fn call(&self, script: &Script) -> Cmd {
        let mut call = script.call("admit", &self.key);
        call.arg(number(self.limits.concurrent));
        let Wanted {
            requests,
            input,
            output,
        } = self.wanted;
        for (limit, count) in buckets(&self.limits)
            .into_iter()
            .zip([requests, input, output])
        {
            call.arg(number(limit)).arg(count);
        }
        call
    }

    /// Hands the answer on. If the request has gone on without, everything goes back.
    pub(super) fn answered(mut self, answer: Result<Value, RedisError>) -> Result<(), RedisError> {
        let answer: Vec<i64> = redis::from_redis_value(answer?)?;
        let answer = self.read(&answer);
        if let Some(reply) = self.reply.take() {
            // An answer that nobody takes is dropped, and with it the admission.
            let _ = reply.send(answer);
        }
        Ok(())
    }

    fn read(&self, answer: &[i64]) -> Result<Admission, Limited> {
        let units = |place: usize| {
            let units = answer.get(place).copied().unwrap_or_default();
            u64::try_from(units).unwrap_or_default()
        };
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
        let mut paces = self.meter.paces();
        let debts = [units(2), units(3), units(4)];
        paces.mirror(&self.limits, debts, self.limiter.now_ms());
        if let Some((dimension, limit)) = dimension {
            let denied = match answer.get(1) {
                Some(-1) => Denied::NeverFits,
                _ => Denied::Wait(Bucket::wait(limit.unwrap_or(NonZeroU32::MIN), units(1))),
            };
            return Err(Limited { dimension, denied });
        }
        // Counted under the lock: a renewal sees either none or both of this and the server's count.
        self.meter.enter(None)?;
        drop(paces);
        let (key, server) = (self.key.clone(), self.limiter.server().cloned());
        Ok(Admission {
            meter: Arc::clone(&self.meter),
            limiter: self.limiter.clone(),
            taken: self.wanted.under(&self.limits),
            origin: match server {
                Some(server) => Origin::Shared {
                    key,
                    server,
                    has_slot: self.limits.concurrent.is_some(),
                },
                None => Origin::Node,
            },
        })
    }
}

impl Drop for Order {
    fn drop(&mut self) {
        let mut paces = self.meter.paces();
        paces.asked = paces.asked.saturating_sub(1);
    }
}

impl Settlement {
    pub(super) fn new(
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
        }
    }

    pub(super) fn is_needed(&self) -> bool {
        self.has_slot || self.changes != [0; 3]
    }

    pub(super) fn call(&self, script: &Script) -> Cmd {
        let mut call = script.call("settle", &self.key);
        call.arg(u32::from(self.has_slot));
        for (limit, change) in buckets(&self.limits).into_iter().zip(self.changes) {
            call.arg(number(limit)).arg(change);
        }
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
        let is_counted = paces.limits.concurrent.is_some() && paces.asked == 0;
        is_counted.then(|| Self {
            key: key.clone(),
            running: meter.running(),
        })
    }

    /// Another process that has a request under way, or that one without it: whether the server lets
    /// this user do all that is needed.
    pub(super) fn trial(running: u32) -> Self {
        let key = KeyId::new("-");
        Self { key, running }
    }

    pub(super) fn call(&self, script: &Script) -> Cmd {
        let mut call = script.call("renew", &self.key);
        call.arg(self.running);
        call
    }
}
