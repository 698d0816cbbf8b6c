//! What an attempt holds of those that it asks, from its beginning to the end of its answer.

use super::breaker::{Change, LastFailure, Pass, Severity, Standing};
use super::{Blame, Breaker, Full, Place, Seat};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Why an attempt cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A breaker is open.
    Benched,
    /// There is no room.
    Full(Full),
}

/// Whose breaker it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The provider's.
    Provider,
    /// The deployment's.
    Deployment,
    /// The credential's.
    Credential,
    /// That of the credential at the deployment.
    Seat,
}

impl Whose {
    /// Every one, from the largest to the smallest.
    pub const ALL: [Self; 4] = [
        Self::Provider,
        Self::Deployment,
        Self::Credential,
        Self::Seat,
    ];

    /// The name in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Deployment => "deployment",
            Self::Credential => "credential",
            Self::Seat => "seat",
        }
    }
}

/// A breaker has opened or closed.
#[derive(Debug)]
pub struct Transition<'a> {
    /// Whose.
    pub whose: Whose,
    /// Where it showed.
    pub place: &'a Place,
    /// With which credential.
    pub seat: &'a Seat,
    /// What it did.
    pub change: Change,
}

/// An attempt under way. Dropped, it says nothing of anybody and gives back what it holds.
#[derive(Debug)]
pub struct Ticket {
    place: Arc<Place>,
    seat: usize,
    /// In the order of [`Whose::ALL`].
    passes: [Pass; 4],
    /// What is taken of limits on tokens.
    tokens: u64,
    has_content: bool,
}

impl Place {
    /// The breaker of one of those that are asked here.
    pub fn breaker<'a>(&'a self, whose: Whose, seat: &'a Seat) -> &'a Breaker {
        match whose {
            Whose::Provider => &self.provider.breaker,
            Whose::Deployment => &self.health.breaker,
            Whose::Credential => &seat.account.breaker,
            Whose::Seat => &seat.health.breaker,
        }
    }

    /// Whether all breakers are closed.
    pub fn is_closed(&self, seat: &Seat, now: u64) -> bool {
        let closed = |whose| self.breaker(whose, seat).standing(now) == Standing::Closed;
        Whose::ALL.into_iter().all(closed)
    }

    /// Whether there is room for a request of so many tokens.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn room(&self, seat: &Seat, tokens: u64, now: u64) -> Result<(), Full> {
        self.health
            .load
            .room(&self.deployment.limits, tokens, now)?;
        match &seat.credential {
            Some(it) => seat.account.load.room(&it.limits, tokens, now),
            None => Ok(()),
        }
    }

    /// Begins an attempt with a credential, for a request of so many tokens. A last resort
    /// passes breakers that are open, but neither limits nor a wait that was asked for.
    ///
    /// # Errors
    ///
    /// A breaker is open, or there is no room.
    pub fn enter(
        self: &Arc<Self>,
        seat: usize,
        tokens: u64,
        now: u64,
        is_last_resort: bool,
    ) -> Result<Ticket, Refusal> {
        let of = self.seats.get(seat).ok_or(Refusal::Benched)?;
        if let Some(until) = of.health.breaker.rests_until(now) {
            let wait = Some(Duration::from_millis(until.saturating_sub(now)));
            return Err(Refusal::Full(Full { wait }));
        }
        let mut passes: [Option<Pass>; 4] = [None; 4];
        for (whose, pass) in Whose::ALL.into_iter().zip(&mut passes) {
            let breaker = self.breaker(whose, of);
            let forced = || is_last_resort.then(|| breaker.force());
            *pass = breaker.enter(now).or_else(forced);
        }
        let [Some(a), Some(b), Some(c), Some(d)] = passes else {
            self.abandon(of, &mut passes);
            return Err(Refusal::Benched);
        };
        if let Err(full) = self.take_room(of, tokens, now) {
            self.abandon(of, &mut passes);
            return Err(Refusal::Full(full));
        }
        of.health.in_flight.fetch_add(1, Ordering::Relaxed);
        Ok(Ticket {
            place: Arc::clone(self),
            seat,
            passes: [a, b, c, d],
            tokens,
            has_content: false,
        })
    }

    fn take_room(&self, seat: &Seat, tokens: u64, now: u64) -> Result<(), Full> {
        let limits = &self.deployment.limits;
        self.health.load.enter(limits, tokens, now)?;
        let of_credential = seat.credential.as_ref().map(|it| it.limits);
        let of_credential = of_credential.unwrap_or_default();
        let taken = seat.account.load.enter(&of_credential, tokens, now);
        if taken.is_err() {
            self.health.load.give_back(limits, tokens, now);
            self.health.load.leave();
        }
        taken
    }

    fn abandon(&self, seat: &Seat, passes: &mut [Option<Pass>; 4]) {
        for (whose, pass) in Whose::ALL.into_iter().zip(passes) {
            if let Some(pass) = pass {
                self.breaker(whose, seat).abandoned(pass);
            }
        }
    }
}

impl Ticket {
    /// Where it is under way.
    pub const fn place(&self) -> &Arc<Place> {
        &self.place
    }

    /// Its first content has come: everybody it asked does well. `took` is how long that
    /// was in a stream; what comes at once says nothing of a first token.
    pub fn first_content(
        &mut self,
        took: Option<Duration>,
        now: u64,
        tell: &mut dyn FnMut(&Transition<'_>),
    ) {
        self.has_content = true;
        if let Some(took) = took {
            self.place.health.latency.observe(took, now);
        }
        self.well(&Whose::ALL, now, tell);
    }

    /// It has failed; `class` is the word for it, `retry_after` how long its provider asks to
    /// wait, and `random` what spreads cooldowns. What fails before its first content has used
    /// no tokens.
    pub fn failed(
        &mut self,
        blame: Blame,
        class: &'static str,
        retry_after: Option<Duration>,
        now: u64,
        random: u64,
        tell: &mut dyn FnMut(&Transition<'_>),
    ) {
        if !self.has_content {
            self.used(0, now);
        }
        let counts = match retry_after {
            Some(wait) if !wait.is_zero() => Severity::Rests(wait),
            _ => Severity::Counts,
        };
        let opens = match counts {
            Severity::Counts => Severity::Opens,
            rests => rests,
        };
        let (whose, severity, well): (_, _, &[Whose]) = match blame {
            // Who refuses a request is there, and hears who asks.
            Blame::Nobody => return self.well(&Whose::ALL, now, tell),
            Blame::Provider => (Whose::Provider, counts, &[]),
            Blame::Deployment => (Whose::Deployment, counts, &[Whose::Provider]),
            Blame::Model => (Whose::Deployment, opens, &[Whose::Provider]),
            Blame::Credential => (Whose::Credential, opens, &[Whose::Provider]),
            Blame::Seat => (Whose::Seat, opens, &[Whose::Provider]),
            // Nor is a wait that is told with it one for everybody.
            Blame::SeatInDoubt => (Whose::Seat, Severity::Counts, &[Whose::Provider]),
        };
        self.well(well, now, tell);
        let place = &self.place;
        let Some(seat) = place.seats.get(self.seat) else {
            return;
        };
        let breaker = place.breaker(whose, seat);
        breaker.note(LastFailure { class, at: now });
        let Some(policy) = place.policy() else {
            return;
        };
        for (it, pass) in Whose::ALL.into_iter().zip(&mut self.passes) {
            if it != whose {
                continue;
            }
            if let Some(change) = breaker.failed(pass, severity, policy, now, random) {
                tell(&Transition {
                    whose,
                    place,
                    seat,
                    change,
                });
            }
        }
    }

    fn well(&mut self, those: &[Whose], now: u64, tell: &mut dyn FnMut(&Transition<'_>)) {
        let place = &self.place;
        let Some(seat) = place.seats.get(self.seat) else {
            return;
        };
        for (whose, pass) in Whose::ALL.into_iter().zip(&mut self.passes) {
            if !those.contains(&whose) {
                continue;
            }
            if let Some(change) = place.breaker(whose, seat).succeeded(pass, now) {
                tell(&Transition {
                    whose,
                    place,
                    seat,
                    change,
                });
            }
        }
    }

    /// It has used so many tokens: what was taken of limits is corrected to that.
    pub fn used(&mut self, tokens: u64, now: u64) {
        let taken = std::mem::replace(&mut self.tokens, tokens);
        let Some(seat) = self.place.seats.get(self.seat) else {
            return;
        };
        let limits = &self.place.deployment.limits;
        self.place.health.load.correct(limits, taken, tokens, now);
        if let Some(credential) = &seat.credential {
            let limits = &credential.limits;
            seat.account.load.correct(limits, taken, tokens, now);
        }
    }

    /// Its request was not sent: what was taken of limits goes back, the request itself too.
    pub fn not_sent(&mut self, now: u64) {
        let taken = std::mem::take(&mut self.tokens);
        let Some(seat) = self.place.seats.get(self.seat) else {
            return;
        };
        let limits = &self.place.deployment.limits;
        self.place.health.load.give_back(limits, taken, now);
        if let Some(credential) = &seat.credential {
            seat.account.load.give_back(&credential.limits, taken, now);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Some(seat) = self.place.seats.get(self.seat) else {
            return;
        };
        let mut passes = self.passes.map(Some);
        self.place.abandon(seat, &mut passes);
        seat.health.in_flight.fetch_sub(1, Ordering::Relaxed);
        seat.account.load.leave();
        self.place.health.load.leave();
    }
}
