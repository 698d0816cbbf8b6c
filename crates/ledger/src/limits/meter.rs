//! The use of the limits of one key, as this process knows it.

use super::{
    Standing,
    leases::Leased,
    pace::{Amounts, Pace, Taken},
    share::{Scope, Share},
    shared::ServerView,
};
use parking_lot::{Mutex, MutexGuard};
use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use tollgate_types::{Denied, Dimension, Limited, Limits};

/// The state of one key. It outlives changes of the limits, so that a running request gives back to
/// the state from which it took.
#[derive(Debug, Default)]
pub(super) struct Meter {
    running: AtomicU32,
    paces: Mutex<Paces>,
}

/// The limits by the minute.
#[derive(Debug, Default)]
pub(super) struct Paces {
    /// The limits of `requests`, `input` and `output`.
    pub(super) share: Share,
    /// Used if there is a shared server.
    pub(super) server: ServerView,
    /// Used if the database leases shares.
    pub(super) leased: Leased,
    requests: Pace,
    input: Pace,
    output: Pace,
}

impl Meter {
    pub(super) fn paces(&self) -> MutexGuard<'_, Paces> {
        self.paces.lock()
    }

    /// Requests of this process that are under way.
    pub(super) fn running(&self) -> u32 {
        self.running.load(Ordering::Relaxed)
    }

    /// Counts a request, if there are fewer than `most`.
    pub(super) fn enter(&self, most: Option<NonZeroU32>) -> Result<(), Limited> {
        let most = most.map_or(u32::MAX, NonZeroU32::get);
        let entered = self
            .running
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |running| {
                (running < most).then(|| running.saturating_add(1))
            });
        // The end of the next one is unknown.
        entered.map(|_| ()).map_err(|_| Limited {
            dimension: Dimension::Concurrent,
            denied: Denied::Wait(Duration::from_secs(1)),
        })
    }

    pub(super) fn leave(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a request and takes its amounts of each limit, or nothing of any.
    pub(super) fn admit(
        &self,
        paces: &mut Paces,
        share: &Share,
        amounts: Amounts,
        now_ms: impl Fn() -> u64,
    ) -> Result<Taken, Limited> {
        self.enter(share.limits.concurrent)?;
        paces.set_share(share, &now_ms);
        if !paces.is_paced() {
            return Ok(Taken::default());
        }
        let taken = paces.take(amounts, now_ms());
        taken.inspect_err(|_| self.leave())
    }

    /// Takes the amounts without waiting for the server, to which the caller sends a charge. One request
    /// at a time, and only if it fits the share of this process of the room that the server has last seen.
    pub(super) fn take_ahead(
        &self,
        limits: &Limits,
        amounts: Amounts,
        processes: NonZeroU32,
        period: u64,
        now_ms: u64,
    ) -> Option<Taken> {
        let mut paces = self.paces.lock();
        let others = paces.server.others(period, now_ms)?;
        let has_slot = limits
            .concurrent
            .is_none_or(|most| self.running() < most.get().saturating_sub(others) / processes);
        if paces.share.limits != *limits
            || !has_slot
            || !paces.standing(|| now_ms).fits(amounts, processes)
        {
            return None;
        }
        let taken = paces.take(amounts, now_ms).ok()?;
        paces.uncounted(now_ms);
        paces.server.unanswered = paces.server.unanswered.saturating_add(1);
        self.enter(None).ok()?;
        Some(taken)
    }
}

impl Paces {
    /// Sets a share of limits. Debts that were counted for all processes are divided like the
    /// limits.
    pub(super) fn set_share(&mut self, share: &Share, now_ms: impl Fn() -> u64) {
        let before = std::mem::replace(&mut self.share, *share);
        if let (Scope::AllProcesses, Scope::ThisProcess(parts)) = (before.scope, share.scope) {
            let now_ms = now_ms();
            let totals = self.each(parts, |pace, part| pace.divide(part, now_ms));
            self.leased.note_totals(totals, now_ms);
        }
        let Share { limits, whole, .. } = share;
        if before.limits == *limits && before.whole == *whole {
            return;
        }
        let now_ms = now_ms();
        self.requests
            .set_limit(limits.requests, whole.requests, now_ms);
        self.input
            .set_limit(limits.input_tokens, whole.input_tokens, now_ms);
        self.output
            .set_limit(limits.output_tokens, whole.output_tokens, now_ms);
    }

    /// The limit of this dimension; `None` for concurrent requests, which go by no clock.
    pub(super) const fn of(&mut self, dimension: Dimension) -> Option<&mut Pace> {
        match dimension {
            Dimension::Requests => Some(&mut self.requests),
            Dimension::InputTokens => Some(&mut self.input),
            Dimension::OutputTokens => Some(&mut self.output),
            Dimension::Concurrent => None,
        }
    }

    /// The units of each limit that were taken and not counted: requests, input and output. They count as
    /// reported from now on.
    pub(super) fn uncounted(&mut self, now_ms: u64) -> [i64; 3] {
        self.each([(); 3], |pace, ()| pace.uncounted(now_ms))
    }

    /// Marks reported units as uncounted.
    pub(super) fn mark_uncounted(&mut self, units: [i64; 3]) {
        self.each(units, Pace::mark_uncounted);
    }

    fn each<A, B>(&mut self, [a, b, c]: [A; 3], act: impl Fn(&mut Pace, A) -> B) -> [B; 3] {
        [
            act(&mut self.requests, a),
            act(&mut self.input, b),
            act(&mut self.output, c),
        ]
    }

    /// Takes over the debts of each limit that the shared server returned.
    pub(super) fn mirror(&mut self, limits: &Limits, debts: [u64; 3], now_ms: u64) {
        self.share = Share::whole(limits);
        let [requests, input, output] = debts;
        self.requests.mirror(limits.requests, requests, now_ms);
        self.input.mirror(limits.input_tokens, input, now_ms);
        self.output.mirror(limits.output_tokens, output, now_ms);
    }

    /// Of a key that is asked for these limits.
    #[cfg(test)]
    pub(super) fn for_test(limits: &Limits) -> Self {
        Self {
            share: Share::whole(limits),
            ..Self::default()
        }
    }

    /// Whether anything here goes by the clock.
    const fn is_paced(&self) -> bool {
        self.requests.is_limited || self.input.is_limited || self.output.is_limited
    }

    fn take(&mut self, amounts: Amounts, now_ms: u64) -> Result<Taken, Limited> {
        let mut taken = Taken::default();
        let outcome = self.take_each(amounts, now_ms, &mut taken);
        if outcome.is_err() {
            self.give_back(&taken);
        }
        outcome.map(|()| taken)
    }

    fn take_each(
        &mut self,
        amounts: Amounts,
        now_ms: u64,
        taken: &mut Taken,
    ) -> Result<(), Limited> {
        let refused = |dimension| move |denied| Limited { dimension, denied };
        let Self {
            share: Share { whole, .. },
            requests,
            input,
            output,
            ..
        } = self;
        taken.requests = requests
            .take(amounts.requests, whole.requests, now_ms)
            .map_err(refused(Dimension::Requests))?;
        taken.input = input
            .take(amounts.input, whole.input_tokens, now_ms)
            .map_err(refused(Dimension::InputTokens))?;
        taken.output = output
            .take(amounts.output, whole.output_tokens, now_ms)
            .map_err(refused(Dimension::OutputTokens))?;
        Ok(())
    }

    pub(super) fn give_back(&mut self, taken: &Taken) {
        self.requests.give_back(taken.requests);
        self.input.give_back(taken.input);
        self.output.give_back(taken.output);
    }

    /// Corrects the taken tokens to the used ones.
    pub(super) fn correct(&mut self, taken: &Taken, input: u64, output: u64, now_ms: u64) {
        self.input.correct(taken.input, input, now_ms);
        self.output.correct(taken.output, output, now_ms);
    }

    pub(super) fn standing(&self, now_ms: impl FnOnce() -> u64) -> Standing {
        if !self.is_paced() {
            return Standing::default();
        }
        let now_ms = now_ms();
        Standing {
            requests: self.requests.level(now_ms),
            input_tokens: self.input.level(now_ms),
            output_tokens: self.output.level(now_ms),
        }
    }
}
