//! The lease of one process on a key's grants in one unit, and what it knows about the rest.

use crate::{
    balance::{Balance, Grant, Need, Payment, Piece, Pieces, Short},
    clock::Timestamp,
    ledger::demand::Demand,
    store::database::UnitShare,
};

/// A key's balance of one unit in this process, and the leases of other processes.
#[derive(Default)]
pub(super) struct Fund {
    pub(super) balance: Balance,
    /// The key has ever had a grant in this unit: its requests must be covered in it.
    pub(super) is_given: bool,
    /// How much to lease by use; `None`: all that is free.
    demand: Option<Demand>,
    /// The free amount in the database that was not leased.
    unleased: u64,
    /// Other processes lease some of it.
    elsewhere: bool,
    /// The most that can be left outside this process.
    most_elsewhere: u64,
    /// The pending lease request to other processes: the largest need of a waiting request.
    pub(super) lease_request: Option<u64>,
    /// The smallest useful amount of the last request.
    useful: u64,
}

/// Why a fund does not cover a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// Too little is free, and leasing more does not help.
    Here(Short),
    /// Too little is leased here, while some is free in the database.
    Unleased,
    /// Too little is leased here, while other processes lease some.
    LeasedElsewhere,
}

impl Fund {
    /// `by_use`: leases by the use of the key instead of all that is free.
    pub(super) fn new(by_use: bool) -> Self {
        Self {
            demand: by_use.then(Demand::default),
            ..Self::default()
        }
    }

    /// Adds new leases, and notes the rest.
    pub(super) fn add_lease(&mut self, share: &UnitShare, grants: impl Iterator<Item = Grant>) {
        self.balance.forget_spent();
        for grant in grants {
            self.is_given = true;
            self.balance.lease(grant);
        }
        self.unleased = share.unleased;
        self.elsewhere = share.elsewhere > 0;
    }

    /// Notes how much is left of the valid grants, in all processes and the database.
    pub(super) fn note_left(&mut self, left: u64, now: Timestamp) {
        // Amounts that were given up but not committed do not count as here.
        let here = self.balance.holdings(now).all();
        self.most_elsewhere = left.saturating_sub(here);
    }

    pub(super) fn reserve(
        &mut self,
        need: Need,
        is_reachable: &dyn Fn() -> bool,
        now: Timestamp,
    ) -> Result<Pieces, Lack> {
        self.useful = need.useful;
        if let Some(demand) = &mut self.demand {
            demand.note_need(need.wanted, now);
        }
        // If the total is too little, waiting does not help.
        let is_unleased = self.unleased > 0
            && self.balance.holdings(now).free < need.wanted
            && self.could_have(need.useful, now);
        if is_unleased && is_reachable() {
            return Err(Lack::Unleased);
        }
        match self.balance.reserve(need, now) {
            Ok(pieces) => {
                if let Some(demand) = &mut self.demand {
                    demand.note_reserved(self.balance.holdings(now).reserved);
                }
                Ok(pieces)
            }
            Err(_) if is_unleased => Err(Lack::Unleased),
            Err(_) if self.elsewhere && self.could_have(need.useful, now) => {
                Err(Lack::LeasedElsewhere)
            }
            Err(short) => Err(Lack::Here(short)),
        }
    }

    /// Ends a reservation.
    pub(super) fn settle(
        &mut self,
        reserved: &[Piece],
        charge: u64,
        most: usize,
        now: Timestamp,
    ) -> Payment {
        let payment = self.balance.settle(reserved, charge, most, now);
        if let Some(demand) = &mut self.demand {
            demand.note_spent(payment.paid(), now);
        }
        payment
    }

    /// Whether this amount is left, in any process or the database.
    fn could_have(&self, amount: u64, now: Timestamp) -> bool {
        let here = self.balance.holdings(now).all();
        here.saturating_add(self.most_elsewhere) >= amount.max(1)
    }

    /// Whether a request here still waits for other processes.
    pub(super) fn is_waiting(&self, now: Timestamp) -> bool {
        let free = self.balance.holdings(now).free;
        let lacks = self.lease_request.is_some_and(|wanted| free < wanted);
        lacks && self.elsewhere && self.unleased == 0
    }

    /// Whether it is time to lease more of what is free in the database.
    pub(super) fn runs_low(&mut self, now: Timestamp) -> bool {
        let Some(demand) = self.demand.as_mut().filter(|_| self.unleased > 0) else {
            return false;
        };
        demand.runs_low(self.balance.holdings(now), now)
    }

    /// The most to lease in addition, for waiting requests that need `waiting` together.
    pub(super) fn missing(&mut self, waiting: u64, now: Timestamp) -> u64 {
        let Some(demand) = &mut self.demand else {
            return u64::MAX;
        };
        let lease_request = self.lease_request.unwrap_or(0);
        let missing = demand.missing(self.balance.holdings(now), waiting.max(lease_request), now);
        // A lease request stands as long as something is missing.
        missing.max(self.lease_request.map_or(0, |_| 1))
    }

    /// Gives up leased amounts that are not needed.
    pub(super) fn give_up_excess(&mut self, now: Timestamp) -> Vec<Piece> {
        let leased = self.balance.holdings(now);
        let keeps = self
            .demand
            .as_mut()
            .and_then(|it| it.amount_to_keep(leased, now));
        let Some(mut keeps) = keeps else {
            return Vec::new();
        };
        let given = self.balance.give_up(|grant| {
            let kept = grant.free.min(if grant.is_valid(now) { keeps } else { 0 });
            keeps = keeps.saturating_sub(kept);
            grant.free.saturating_sub(kept)
        });
        for piece in &given {
            self.unleased = self.unleased.saturating_add(piece.amount);
            self.most_elsewhere = self.most_elsewhere.saturating_add(piece.amount);
        }
        given
    }

    pub(super) fn give_up(&mut self, of_free: impl Fn(u64) -> u64) -> Vec<Piece> {
        let given = self.balance.give_up(|grant| of_free(grant.free));
        // The other process now leases it, so this one can have to request it again.
        self.elsewhere |= !given.is_empty();
        let amounts = given.iter().map(|piece| piece.amount);
        self.most_elsewhere = amounts.fold(self.most_elsewhere, u64::saturating_add);
        given
    }

    /// Gives up half of the unreserved amount; all of it if half is not enough for a request here and `all`
    /// is set, else nothing.
    pub(super) fn give_up_on_request(&mut self, all: bool, now: Timestamp) -> Vec<Piece> {
        let half = self.balance.holdings(now).free / 2;
        match half < self.useful {
            true if all => self.give_up(|free| free),
            true => Vec::new(),
            false => self.give_up(|free| free.div_ceil(2)),
        }
    }
}
