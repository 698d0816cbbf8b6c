//! One key's balances in this process.

use crate::{
    balance::{Holdings, Need, Payment, Piece, Pieces, Short},
    clock::Timestamp,
    ledger::fund::{Fund, Lack},
    store::database::Share,
};
use parking_lot::Mutex;
use tollgate_types::{KeyId, PerUnit, Shortage, Unit};

/// One key's balances in this process.
pub(super) struct Account {
    pub(super) id: KeyId,
    /// The key's number in the file.
    pub(super) key: i64,
    state: Mutex<State>,
}

struct State {
    funds: PerUnit<Fund>,
    /// The writer leases more with its next commit.
    refilling: bool,
    /// Its leases have been given back: a request that still has the account must load it again.
    closed: bool,
    used_at: Timestamp,
}

impl State {
    fn give_up(&mut self, of_free: impl Fn(u64) -> u64) -> Vec<Piece> {
        let funds = self.funds.iter_mut();
        funds.flat_map(|fund| fund.give_up(&of_free)).collect()
    }

    /// The units in which requests must be covered: those of the grants that the key was ever given.
    fn required(&self) -> impl Iterator<Item = Unit> + use<> {
        let given = PerUnit::from_fn(|unit| self.funds.get(unit).is_given);
        // A key that was given nothing has no tokens.
        let is_required = move |unit: &Unit| match unit {
            Unit::Tokens => given.tokens || !given.money,
            Unit::Money => given.money,
        };
        Unit::ALL.into_iter().filter(is_required)
    }

    fn release(&mut self, reserved: &Reserved) {
        for unit in Unit::ALL {
            if let Some(pieces) = reserved.of(unit) {
                self.funds.get_mut(unit).balance.release(pieces);
            }
        }
    }

    /// Whether the writer must lease more: `true` once, until it has.
    fn must_refill(&mut self, now: Timestamp) -> bool {
        let runs_low = self.funds.iter_mut().any(|fund| fund.runs_low(now));
        runs_low && !std::mem::replace(&mut self.refilling, true)
    }

    /// Whether this process has requested a part of what other processes lease.
    fn has_lease_request(&self) -> bool {
        self.funds.iter().any(|fund| fund.lease_request.is_some())
    }
}

/// The amounts of grants that a request has reserved in each unit; `None` if it need not be covered in that unit.
#[derive(Debug, Default)]
pub(super) struct Reserved(PerUnit<Option<Pieces>>);

impl Reserved {
    pub(super) fn of(&self, unit: Unit) -> Option<&Pieces> {
        self.0.get(unit).as_ref()
    }

    /// The number of grants, a grant of each unit counted by itself.
    pub(super) fn grants(&self) -> usize {
        self.0.iter().flatten().map(|pieces| pieces.len()).sum()
    }

    pub(super) fn amounts(&self) -> PerUnit<Option<u64>> {
        PerUnit::from_fn(|unit| {
            let amounts = self.of(unit)?.iter().map(|piece| piece.amount);
            Some(amounts.fold(0, u64::saturating_add))
        })
    }
}

/// The result of a reservation.
pub(super) enum ReserveOutcome {
    Reserved {
        reserved: Reserved,
        /// The writer must lease more.
        must_refill: bool,
    },
    Refused(Shortage),
    /// Too little is leased while some is free in the database: lease it.
    Unleased,
    /// Too little is leased here, while other processes lease some.
    LeasedElsewhere {
        /// The writer does not request it yet.
        is_first: bool,
    },
    /// The account was closed meanwhile: load it again.
    Closed,
}

/// What becomes of a request that is not covered.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Remedy {
    /// There is no remedy: waiting does not help, or only the end of other requests does.
    Refuse(Shortage),
    LeaseMore,
    RequestFromOthers,
}

/// The remedy for the lacks in some of the `required` units in which the request must be covered.
fn remedy(lacks: &PerUnit<Option<Lack>>, required: usize) -> Remedy {
    let expired = Some(Lack::Here(Short::Expired));
    let exhausted = Some(Lack::Here(Short::Exhausted));
    let has = |lack| lacks.iter().any(|it| *it == Some(lack));
    let is_over = |unit: &Unit| [expired, exhausted].contains(lacks.get(*unit));
    if lacks.iter().filter(|it| **it == expired).count() == required {
        Remedy::Refuse(Shortage::Expired)
    } else if let Some(unit) = Unit::ALL.into_iter().find(is_over) {
        Remedy::Refuse(Shortage::Exhausted(unit))
    } else if has(Lack::Unleased) {
        Remedy::LeaseMore
    } else if has(Lack::LeasedElsewhere) {
        Remedy::RequestFromOthers
    } else {
        Remedy::Refuse(Shortage::Busy)
    }
}

impl Account {
    /// `by_use`: leases by the use of the key instead of all that is free.
    pub(super) fn new(id: KeyId, share: &Share, by_use: bool, now: Timestamp) -> Self {
        let account = Self {
            id,
            key: share.key,
            state: Mutex::new(State {
                funds: PerUnit::from_fn(|_| Fund::new(by_use)),
                refilling: false,
                closed: false,
                used_at: now,
            }),
        };
        account.add_lease(share, now);
        account
    }

    /// Adds new leases.
    pub(super) fn add_lease(&self, share: &Share, now: Timestamp) {
        let mut state = self.state.lock();
        for unit in Unit::ALL {
            let of_unit = share.of.get(unit);
            let grants = share.grants.iter().filter(|grant| grant.unit == unit);
            let fund = state.funds.get_mut(unit);
            fund.add_lease(of_unit, grants.cloned());
            fund.note_left(of_unit.left, now);
            // The lease request stands until some tokens arrive.
            if share.has_leased_of(unit) || !fund.is_waiting(now) {
                fund.lease_request = None;
            }
        }
        state.refilling = false;
    }

    /// Reserves the needs of a request in all units in which it must be covered, or in none. `is_reachable`:
    /// the database can lease more now.
    pub(super) fn reserve(
        &self,
        needs: &PerUnit<Option<Need>>,
        is_reachable: &dyn Fn() -> bool,
        now: Timestamp,
    ) -> ReserveOutcome {
        let mut state = self.state.lock();
        if state.closed {
            return ReserveOutcome::Closed;
        }
        state.used_at = now;
        let mut reserved = Reserved::default();
        let mut lacks = PerUnit::default();
        let mut required = 0_usize;
        for unit in state.required() {
            let Some(need) = needs.get(unit) else {
                state.release(&reserved);
                return ReserveOutcome::Refused(Shortage::Unpriced);
            };
            required = required.saturating_add(1);
            let fund = state.funds.get_mut(unit);
            match fund.reserve(*need, is_reachable, now) {
                Ok(pieces) => *reserved.0.get_mut(unit) = Some(pieces),
                Err(lack) => *lacks.get_mut(unit) = Some(lack),
            }
        }
        if lacks.iter().all(Option::is_none) {
            let must_refill = state.must_refill(now);
            return ReserveOutcome::Reserved {
                reserved,
                must_refill,
            };
        }
        state.release(&reserved);
        match remedy(&lacks, required) {
            Remedy::Refuse(shortage) => ReserveOutcome::Refused(shortage),
            Remedy::LeaseMore => ReserveOutcome::Unleased,
            Remedy::RequestFromOthers => {
                let is_first = !state.has_lease_request();
                for unit in Unit::ALL {
                    if *lacks.get(unit) == Some(Lack::LeasedElsewhere) {
                        let wanted = needs.get(unit).map(|need| need.wanted);
                        let fund = state.funds.get_mut(unit);
                        fund.lease_request = fund.lease_request.max(wanted);
                    }
                }
                ReserveOutcome::LeasedElsewhere { is_first }
            }
        }
    }

    /// Ends a reservation without a charge.
    pub(super) fn release(&self, reserved: &Reserved, now: Timestamp) {
        let mut state = self.state.lock();
        state.used_at = now;
        state.release(reserved);
    }

    /// Ends a reservation: pays the charge in each unit in which something is reserved. The record has `room` for
    /// so many grants. Returns how it was paid, and whether the writer must lease more.
    pub(super) fn settle(
        &self,
        reserved: &Reserved,
        charge: &PerUnit<u64>,
        mut room: usize,
        now: Timestamp,
    ) -> (PerUnit<Payment>, bool) {
        let mut state = self.state.lock();
        state.used_at = now;
        let mut paid = PerUnit::<Payment>::default();
        // Each unit leaves room for the reserved grants of the units after it.
        let mut later = reserved.grants();
        for unit in Unit::ALL {
            let Some(pieces) = reserved.of(unit) else {
                continue;
            };
            later = later.saturating_sub(pieces.len());
            let most = room.saturating_sub(later);
            let fund = state.funds.get_mut(unit);
            let payment = fund.settle(pieces, *charge.get(unit), most, now);
            room = room.saturating_sub(payment.pieces.len());
            *paid.get_mut(unit) = payment;
        }
        let must_refill = state.must_refill(now);
        (paid, must_refill)
    }

    /// Begins the validity of a grant in each unit in which a request has ended without a charge, and notes it in the
    /// payment.
    pub(super) fn begin(&self, reserved: &Reserved, paid: &mut PerUnit<Payment>, now: Timestamp) {
        for unit in Unit::ALL {
            let payment = paid.get_mut(unit);
            let Some(pieces) = reserved.of(unit).filter(|_| payment.is_nothing()) else {
                continue;
            };
            let mut state = self.state.lock();
            let begun = state.funds.get_mut(unit).balance.begin(pieces, now);
            payment
                .pieces
                .extend(begun.map(|grant| Piece { grant, amount: 0 }));
        }
    }

    /// The number of grants that would pay a charge if the record had room for all.
    pub(super) fn payers(
        &self,
        reserved: &Reserved,
        charge: &PerUnit<u64>,
        now: Timestamp,
    ) -> usize {
        let state = self.state.lock();
        let payers = Unit::ALL.into_iter().filter_map(|unit| {
            let pieces = reserved.of(unit)?;
            let balance = &state.funds.get(unit).balance;
            Some(balance.payers(pieces, *charge.get(unit), now))
        });
        payers.sum()
    }

    /// The most to lease in addition, for waiting requests that need `waiting` together.
    pub(super) fn missing(&self, waiting: &PerUnit<u64>, now: Timestamp) -> PerUnit<u64> {
        let mut state = self.state.lock();
        PerUnit::from_fn(|unit| {
            let fund = state.funds.get_mut(unit);
            fund.missing(*waiting.get(unit), now)
        })
    }

    /// Gives up leased tokens that are not needed.
    pub(super) fn give_up_excess(&self, now: Timestamp) -> Vec<Piece> {
        let mut state = self.state.lock();
        let funds = state.funds.iter_mut();
        funds.flat_map(|fund| fund.give_up_excess(now)).collect()
    }

    /// Gives up half of the unreserved tokens, rounded up.
    pub(super) fn give_up_half(&self) -> Vec<Piece> {
        self.state.lock().give_up(|free| free.div_ceil(2))
    }

    /// Gives up all unreserved tokens.
    pub(super) fn give_up_all(&self) -> Vec<Piece> {
        self.state.lock().give_up(|free| free)
    }

    /// Gives up unreserved amounts of valid grants, in each unit at most `most`.
    pub(super) fn give_up_at_most(&self, most: &PerUnit<u64>, now: Timestamp) -> Vec<Piece> {
        let mut state = self.state.lock();
        let give_up = |unit| {
            let mut left = *most.get(unit);
            state.funds.get_mut(unit).balance.give_up(|grant| {
                let given = if grant.is_valid(now) {
                    grant.free.min(left)
                } else {
                    0
                };
                left = left.saturating_sub(given);
                given
            })
        };
        Unit::ALL.into_iter().flat_map(give_up).collect()
    }

    /// Gives up half of the unreserved tokens, or all of them if half is not enough for a request here: the
    /// last tokens of a key are only useful together. Two processes that request each other's tokens would
    /// exchange them for ever, so a process that itself requests tokens gives all or nothing, at random.
    pub(super) fn give_up_on_request(&self, now: Timestamp) -> Vec<Piece> {
        let mut state = self.state.lock();
        // One draw for both units, which are only useful together.
        let all = !state.has_lease_request() || !fastrand::bool();
        let funds = state.funds.iter_mut();
        funds
            .flat_map(|fund| fund.give_up_on_request(all, now))
            .collect()
    }

    /// The amounts in this process, of each unit in which requests must be covered.
    pub(super) fn holdings(&self, now: Timestamp) -> PerUnit<Option<Holdings>> {
        let state = self.state.lock();
        let mut holdings = PerUnit::default();
        for unit in state.required() {
            *holdings.get_mut(unit) = Some(state.funds.get(unit).balance.holdings(now));
        }
        holdings
    }

    pub(super) fn has_lease_request(&self) -> bool {
        self.state.lock().has_lease_request()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Closes the account if no request reserves any of it and it was not used since `before`.
    pub(super) fn close_if_idle(&self, before: Timestamp) -> Option<Vec<Piece>> {
        let mut state = self.state.lock();
        let is_idle = state.funds.iter().all(|fund| fund.balance.is_idle());
        if state.closed || state.used_at > before || !is_idle {
            return None;
        }
        state.closed = true;
        for fund in state.funds.iter_mut() {
            fund.lease_request = None;
        }
        Some(state.give_up(|free| free))
    }
}

#[cfg(test)]
mod tests;
