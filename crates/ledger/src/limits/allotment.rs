//! How the processes of one database divide the limits of a key. No I/O.
//!
//! Each process has a share of the limits, in millionths, and its own debts, which flow off at its share of
//! each limit. A share that grows takes from what no process has, and one that shrinks goes back there, each
//! with its part of the debts: all shares together are never more than the limit.

use super::bucket::{MOST_WINDOWS, WINDOW_MS, cost};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use tollgate_types::KeyId;

/// The parts of a whole limit.
pub(crate) const WHOLE: u32 = 1_000_000;
/// How long a process keeps its share that claims nothing, in milliseconds.
pub(crate) const TERM_MS: u64 = 2_000;

/// What is owed of requests, input and output tokens, in the units of [`Bucket`](super::bucket::Bucket).
pub(crate) type Debts = [u64; 3];

/// A part of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fraction {
    pub(crate) parts: u32,
    pub(crate) of: NonZeroU32,
}

impl Fraction {
    /// All of it.
    pub(crate) const ALL: Self = Self::one_of(1);

    /// One of so many equal parts; of 0 as of 1.
    pub(crate) const fn one_of(of: u32) -> Self {
        let of = match NonZeroU32::new(of) {
            Some(of) => of,
            None => NonZeroU32::MIN,
        };
        Self { parts: 1, of }
    }

    /// Of so many millionths.
    pub(crate) const fn millionths(parts: u32) -> Self {
        let Self { of, .. } = Self::one_of(WHOLE);
        Self { parts, of }
    }

    /// This part of a debt, rounded up.
    pub(crate) fn of_debt(self, debt: u64) -> u64 {
        let part = u128::from(debt).saturating_mul(self.parts.into());
        u64::try_from(part.div_ceil(self.of.get().into())).unwrap_or(u64::MAX)
    }

    /// This part of a limit, rounded down, and at least one.
    pub(crate) fn of_limit(self, limit: NonZeroU32) -> NonZeroU32 {
        let part = u64::from(limit.get()).saturating_mul(self.parts.into());
        let part = part.checked_div(self.of.get().into()).unwrap_or(0);
        let part = u32::try_from(part).unwrap_or(u32::MAX);
        NonZeroU32::new(part).unwrap_or(NonZeroU32::MIN)
    }
}

/// What a process needs of the limits of a key.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) key: KeyId,
    /// Requests, input and output tokens a minute of all processes together; 0: no limit.
    pub(crate) limits: [u32; 3],
    /// What it has taken of each since its last claim; negative: it has given some back.
    pub(crate) taken: [i64; 3],
    /// What all processes owe at least, apart from `taken`.
    pub(crate) floor: Debts,
    /// What its requests have needed lately, admitted or not; only compared with other processes.
    pub(crate) demand: u64,
    /// Some were refused lately.
    pub(crate) is_refused: bool,
    pub(crate) running: u32,
    /// It has no more requests, and returns its share.
    pub(crate) is_last: bool,
}

/// The answer to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// The share of the process, in millionths.
    pub(crate) parts: u32,
    /// What it owes.
    pub(crate) debts: Debts,
    /// What all processes owe together.
    pub(crate) total: Debts,
    /// Requests that run in other processes.
    pub(crate) others: u32,
}

/// What a process has of the limits of a key, or what none has. A row of the database has these names.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Allotment {
    pub(crate) parts: u32,
    pub(crate) debts: Debts,
    pub(crate) demand: u64,
    pub(crate) is_refused: bool,
    pub(crate) running: u32,
    /// When it was written, by the clock of the database.
    pub(crate) at_ms: u64,
}

/// A key's limits as the processes have divided them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Division {
    /// What no process has.
    pub(crate) free: Allotment,
    /// That of the process which claims.
    pub(crate) own: Allotment,
    pub(crate) others: Vec<(String, Allotment)>,
}

impl Allotment {
    fn flow_off(&mut self, limits: [u32; 3], now_ms: u64) {
        let passed = now_ms
            .saturating_sub(self.at_ms)
            .min(WINDOW_MS.saturating_mul(MOST_WINDOWS));
        let parts = u64::from(self.parts);
        self.debts = each(self.debts, limits, |debt, limit| {
            let flow = passed.saturating_mul(limit.into()).saturating_mul(parts);
            debt.saturating_sub(flow / u64::from(WHOLE))
        });
    }

    /// Moves so many parts, with their part of the debts.
    fn give(&mut self, parts: u32, to: &mut Self) {
        let parts = parts.min(self.parts);
        let Some(of) = NonZeroU32::new(self.parts) else {
            return;
        };
        let debts = self.debts.map(|debt| Fraction { parts, of }.of_debt(debt));
        self.parts = self.parts.saturating_sub(parts);
        self.debts = each(self.debts, debts, u64::saturating_sub);
        to.parts = to.parts.saturating_add(parts);
        to.debts = each(to.debts, debts, u64::saturating_add);
    }

    /// Moves debts that no share is left to pay.
    fn give_debts(&mut self, to: &mut Self) {
        to.debts = each(
            to.debts,
            std::mem::take(&mut self.debts),
            u64::saturating_add,
        );
    }
}

impl Division {
    /// Applies a claim at this time of the database. Returns the answer, and the names of processes that have
    /// lost their share because they have not claimed for a term.
    pub(crate) fn apply(&mut self, claim: &Claim, now_ms: u64) -> (Lease, Vec<String>) {
        let Self { free, own, others } = self;
        free.flow_off(claim.limits, now_ms);
        own.flow_off(claim.limits, now_ms);
        let mut gone = Vec::new();
        others.retain_mut(|(node, other)| {
            other.flow_off(claim.limits, now_ms);
            let is_gone = other.at_ms.saturating_add(TERM_MS) < now_ms;
            if is_gone {
                other.give(other.parts, free);
                other.give_debts(free);
                gone.push(std::mem::take(node));
            }
            !is_gone
        });
        self.owe(claim);
        let total = self.total();
        self.own.demand = claim.demand;
        self.own.is_refused = claim.is_refused;
        self.own.running = claim.running;
        let parts = if claim.is_last { 0 } else { self.wanted() };
        let Self { free, own, others } = self;
        own.at_ms = now_ms;
        free.at_ms = now_ms;
        match parts.checked_sub(own.parts) {
            Some(more) => free.give(more, own),
            None => own.give(own.parts.saturating_sub(parts), free),
        }
        if claim.is_last {
            own.give_debts(free);
        } else if free.parts == 0 && own.parts > 0 {
            free.give_debts(own);
        }
        let running = others.iter().map(|(_, it)| it.running);
        let lease = Lease {
            parts: own.parts,
            debts: own.debts,
            total,
            others: running.fold(0, u32::saturating_add),
        };
        (lease, gone)
    }

    /// Adds what the process has taken, and raises the debts of all to the floor.
    fn owe(&mut self, claim: &Claim) {
        let missing = each(claim.floor, self.total(), u64::saturating_sub);
        let Self { free, own, .. } = self;
        free.debts = each(free.debts, missing, u64::saturating_add);
        let changes = claim.taken.map(|units| (units.unsigned_abs(), units < 0));
        // What was taken in advance may be owed elsewhere by now.
        let elsewhere = each(own.debts, changes, |debt, (change, is_back)| {
            if is_back {
                change.saturating_sub(debt)
            } else {
                0
            }
        });
        own.debts = each(own.debts, changes, |debt, (change, is_back)| {
            if is_back {
                debt.saturating_sub(change)
            } else {
                debt.saturating_add(change)
            }
        });
        own.debts = each(own.debts, claim.limits, |debt, limit| {
            debt.min(cost(u64::from(limit)).saturating_mul(MOST_WINDOWS))
        });
        free.debts = each(free.debts, elsewhere, u64::saturating_sub);
    }

    fn total(&self) -> Debts {
        let others = self.others.iter().map(|(_, it)| it.debts);
        let own = each(self.own.debts, self.free.debts, u64::saturating_add);
        others.fold(own, |sum, it| each(sum, it, u64::saturating_add))
    }

    /// The share for which this process should aim.
    ///
    /// Requests that are refused decide: the limit is divided in proportion to the demands, and a process
    /// that alone refuses some takes all that the others leave. Otherwise shares stay as they are, but no
    /// process has less than an equal one while another has more: a few requests now and then on each process
    /// need no exchange.
    fn wanted(&self) -> u32 {
        let Self { own, others, .. } = self;
        let mut refusing = others.iter().filter(|(_, it)| it.is_refused);
        if refusing.next().is_some() {
            let demands = others.iter().map(|(_, it)| u128::from(it.demand));
            let all = demands.fold(own.demand.into(), u128::saturating_add);
            let part = u128::from(own.demand).saturating_mul(WHOLE.into());
            let part = part.checked_div(all).map(u32::try_from);
            return match part {
                Some(Ok(part)) => part.min(self.most()),
                _ => own.parts,
            };
        }
        if own.is_refused {
            return self.most();
        }
        let processes = u32::try_from(others.len()).unwrap_or(u32::MAX);
        let equal = WHOLE / processes.saturating_add(1);
        let wanted = match others.iter().any(|(_, it)| it.parts < equal) {
            true => equal,
            false => equal.max(own.parts),
        };
        wanted.min(self.most())
    }

    fn most(&self) -> u32 {
        self.own.parts.saturating_add(self.free.parts)
    }
}

fn each<A, B, C>(these: [A; 3], those: [B; 3], join: impl Fn(A, B) -> C) -> [C; 3] {
    let ([a, b, c], [x, y, z]) = (these, those);
    [join(a, x), join(b, y), join(c, z)]
}

#[cfg(test)]
mod tests;
