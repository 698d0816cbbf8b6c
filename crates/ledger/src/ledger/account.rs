//! One key's balance in this process, with what is known of the tokens that it does not lease.

use crate::{
    balance::{Balance, Holdings, Payment, Piece, Pieces, Short},
    clock::Timestamp,
    ledger::demand::Demand,
    store::database::Share,
};
use parking_lot::Mutex;
use tollgate_types::KeyId;

/// One key's balance in this process.
pub(super) struct Account {
    pub(super) id: KeyId,
    /// The key's number in the file.
    pub(super) key: i64,
    state: Mutex<State>,
}

struct State {
    balance: Balance,
    /// What to lease; `None`: all that is free.
    demand: Option<Demand>,
    /// What was free in the database, and was not leased.
    unleased: u64,
    /// The writer leases more with its next commit.
    refilling: bool,
    /// Other processes lease tokens of this key.
    elsewhere: bool,
    /// The most that they can lease of them.
    most_elsewhere: u64,
    /// This process has requested a part of them.
    asked: bool,
    /// What the requests need that wait for it: the most that one of them wants.
    asked_for: u64,
    /// The fewest tokens that were enough for the last request.
    useful: u64,
    /// Its leases have been given back: a request that still has it must load it again.
    closed: bool,
    used_at: Timestamp,
}

impl State {
    fn give_up(&mut self, of_free: impl Fn(u64) -> u64) -> Vec<Piece> {
        let given = self.balance.give_up(of_free);
        // The other process now leases it, and may have to be asked in turn.
        self.elsewhere |= !given.is_empty();
        let tokens = given.iter().map(|piece| piece.tokens);
        self.most_elsewhere = tokens.fold(self.most_elsewhere, u64::saturating_add);
        given
    }

    /// Whether the writer must lease more. `true` once, until it has.
    fn must_refill(&mut self, now: Timestamp) -> bool {
        let Some(demand) = self.demand.as_mut().filter(|_| self.unleased > 0) else {
            return false;
        };
        let runs_low = demand.runs_low(self.balance.holdings(now), now);
        runs_low && !std::mem::replace(&mut self.refilling, true)
    }

    /// Whether so much is left, wherever it is.
    fn could_have(&self, tokens: u64, now: Timestamp) -> bool {
        let here = self.balance.holdings(now).all();
        here.saturating_add(self.most_elsewhere) >= tokens.max(1)
    }
}

/// What came of a reservation.
pub(super) enum Reserved {
    Pieces {
        pieces: Pieces,
        /// The writer must lease more.
        must_refill: bool,
    },
    Short(Short),
    /// Too little is leased while some is free in the database: lease it.
    Unleased,
    /// Too little here while other processes lease some. `true`: they must be asked now.
    Elsewhere(bool),
    /// The account was closed meanwhile: load it again.
    Closed,
}

impl Account {
    pub(super) fn new(id: KeyId, share: Share, demand: Option<Demand>, now: Timestamp) -> Self {
        let account = Self {
            id,
            key: share.key,
            state: Mutex::new(State {
                balance: Balance::default(),
                demand,
                unleased: 0,
                refilling: false,
                elsewhere: false,
                most_elsewhere: 0,
                asked: false,
                asked_for: 0,
                useful: 0,
                closed: false,
                used_at: now,
            }),
        };
        account.take_in(share, now);
        account
    }

    /// Takes in what was newly leased.
    pub(super) fn take_in(&self, share: Share, now: Timestamp) {
        let mut state = self.state.lock();
        let gained = share.has_leased();
        state.balance.forget_spent();
        for grant in share.grants {
            state.balance.lease(grant);
        }
        state.unleased = share.unleased;
        state.refilling = false;
        state.elsewhere = share.elsewhere > 0;
        // What was given up and is not committed yet does not count as here.
        let here = state.balance.holdings(now).all();
        state.most_elsewhere = share.left.saturating_sub(here);
        // The request stands until tokens came.
        state.asked &= state.elsewhere && !gained && state.unleased == 0;
    }

    /// Reserves up to `wanted` tokens, at least `useful`. `is_reachable`: what is free in the database
    /// can be leased.
    pub(super) fn reserve(
        &self,
        wanted: u64,
        useful: u64,
        is_reachable: bool,
        now: Timestamp,
    ) -> Reserved {
        let mut state = self.state.lock();
        if state.closed {
            return Reserved::Closed;
        }
        state.used_at = now;
        state.useful = useful;
        if let Some(demand) = &mut state.demand {
            demand.wants(wanted, now);
        }
        let has_unleased = state.unleased > 0;
        if has_unleased && is_reachable && state.balance.holdings(now).free < wanted {
            return Reserved::Unleased;
        }
        match state.balance.reserve(wanted, useful, now) {
            Ok(pieces) => {
                let reserved = state.balance.holdings(now).reserved;
                if let Some(demand) = &mut state.demand {
                    demand.reserves(reserved);
                }
                let must_refill = state.must_refill(now);
                Reserved::Pieces {
                    pieces,
                    must_refill,
                }
            }
            Err(_) if has_unleased => Reserved::Unleased,
            // If all tokens together are too few, there is nothing to wait for.
            Err(_) if state.elsewhere && state.could_have(useful, now) => {
                let is_first = !std::mem::replace(&mut state.asked, true);
                let before = if is_first { 0 } else { state.asked_for };
                state.asked_for = wanted.max(before);
                Reserved::Elsewhere(is_first)
            }
            Err(short) => Reserved::Short(short),
        }
    }

    /// Ends a reservation. Returns how it was paid, and whether the writer must lease more.
    pub(super) fn settle(
        &self,
        reserved: &[Piece],
        charge: u64,
        most: usize,
        now: Timestamp,
    ) -> (Payment, bool) {
        let mut state = self.state.lock();
        state.used_at = now;
        let payment = state.balance.settle(reserved, charge, most, now);
        if let Some(demand) = &mut state.demand {
            demand.spends(payment.paid(), now);
        }
        let must_refill = state.must_refill(now);
        (payment, must_refill)
    }

    /// What to lease more, if requests that want `waiting` tokens together wait for it.
    pub(super) fn missing(&self, waiting: u64, now: Timestamp) -> u64 {
        let mut state = self.state.lock();
        let asked_for = if state.asked { state.asked_for } else { 0 };
        let leased = state.balance.holdings(now);
        match &mut state.demand {
            Some(demand) => demand.missing(leased, waiting.max(asked_for), now),
            None => u64::MAX,
        }
    }

    /// Gives up what is leased and not needed.
    pub(super) fn give_up_excess(&self, now: Timestamp) -> Vec<Piece> {
        let mut state = self.state.lock();
        let leased = state.balance.holdings(now);
        let keeps = state.demand.as_mut().and_then(|it| it.keeps(leased, now));
        let Some(mut keeps) = keeps else {
            return Vec::new();
        };
        let given = state.balance.give_up(|free| {
            let kept = free.min(keeps);
            keeps = keeps.saturating_sub(kept);
            free.saturating_sub(kept)
        });
        let tokens = given.iter().map(|piece| piece.tokens);
        state.unleased = tokens.clone().fold(state.unleased, u64::saturating_add);
        state.most_elsewhere = tokens.fold(state.most_elsewhere, u64::saturating_add);
        given
    }

    /// Gives up half of what no request reserves, the last token included.
    pub(super) fn give_up_half(&self) -> Vec<Piece> {
        self.state.lock().give_up(|free| free.div_ceil(2))
    }

    /// Gives up all that no request reserves.
    pub(super) fn give_up_all(&self) -> Vec<Piece> {
        self.state.lock().give_up(|free| free)
    }

    /// Gives up half of what no request reserves, or all of it if half is not enough for a request here:
    /// the last tokens of a key are useful together. Two processes that request each other's tokens would
    /// exchange them for ever, so that a process that requests some gives all or nothing, by chance.
    pub(super) fn give_way(&self, now: Timestamp) -> Vec<Piece> {
        let mut state = self.state.lock();
        let half = state.balance.holdings(now).free / 2;
        match half < state.useful {
            true if state.asked && fastrand::bool() => Vec::new(),
            true => state.give_up(|free| free),
            false => state.give_up(|free| free.div_ceil(2)),
        }
    }

    pub(super) fn holdings(&self, now: Timestamp) -> Holdings {
        self.state.lock().balance.holdings(now)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    pub(super) fn is_asking(&self) -> bool {
        self.state.lock().asked
    }

    /// Closes an account of which no request reserves anything and that was not used since `before`.
    pub(super) fn close_if_idle(&self, before: Timestamp) -> Option<Vec<Piece>> {
        let mut state = self.state.lock();
        if state.closed || state.used_at > before || !state.balance.is_idle() {
            return None;
        }
        state.closed = true;
        state.asked = false;
        Some(state.balance.give_up(|free| free))
    }
}
