//! A key's balance of one unit in one process: leases and reservations of each grant, and the order of
//! spending. Pure: no clock, no lock, no file.
//!
//! The invariant, for every grant: leased and not returned = `free + reserved + spent`. Three methods of [`Grant`]
//! alone move amounts between the three: `reserve`, `release` and `spend`.

use crate::clock::Timestamp;
use smallvec::SmallVec;
use std::time::Duration;
use tollgate_types::{Rates, Unit, UpperBound};

/// A grant's number in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GrantNumber(pub(crate) i64);

/// An amount of one grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) grant: GrantNumber,
    /// In the unit of the grant.
    pub(crate) amount: u64,
}

/// The grants that one request reserves or pays with: nearly always one, which needs no allocation.
pub(crate) type Pieces = SmallVec<[Piece; 1]>;

/// The most grants that pay one request, so that its record has a bounded size. A key can have as many
/// grants to spend at once.
pub(crate) const MAX_PIECES: usize = 64;

/// The amounts that a request needs from a balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// The most that the request can take.
    pub(crate) wanted: u64,
    /// The smallest useful amount.
    pub(crate) useful: u64,
}

impl Need {
    /// The need of a request of this bound at these rates.
    pub(crate) fn of(bound: &UpperBound, rates: &Rates) -> Self {
        Self {
            // A free request needs a balance, too.
            wanted: bound.amount(rates).max(1),
            useful: bound.useful_amount(rates),
        }
    }
}

/// One grant, with the amounts that are leased to this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) number: GrantNumber,
    /// The unit of its amounts.
    pub(crate) unit: Unit,
    /// How long it is valid from its first use.
    pub(crate) validity: Duration,
    /// When it ends; `None` before its first use.
    pub(crate) expires_at: Option<Timestamp>,
    /// Leased, and reserved by no request.
    pub(crate) free: u64,
    /// Reserved by requests.
    pub(crate) reserved: u64,
}

impl Grant {
    pub(crate) fn is_valid(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }

    const fn reserve(&mut self, amount: u64) {
        self.free = self.free.saturating_sub(amount);
        self.reserved = self.reserved.saturating_add(amount);
    }

    const fn release(&mut self, amount: u64) {
        self.reserved = self.reserved.saturating_sub(amount);
        self.free = self.free.saturating_add(amount);
    }

    /// Spends a free amount. The validity begins with the first amount above zero, or by [`Balance::begin`].
    fn spend(&mut self, amount: u64, now: Timestamp) {
        self.free = self.free.saturating_sub(amount);
        if amount > 0 && self.expires_at.is_none() {
            self.expires_at = Some(now.plus(self.validity));
        }
    }

    /// Grants that have begun come first, in order of expiry; then the others, the shortest first; then
    /// by age.
    fn order(&self) -> (Timestamp, Duration, GrantNumber) {
        let expires_at = self.expires_at.unwrap_or(Timestamp::MAX);
        (expires_at, self.validity, self.number)
    }
}

/// Why a reservation could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Short {
    /// All grants of the key have ended.
    Expired,
    /// Too little is left for this request.
    Exhausted,
    /// Too little is left while other requests reserve the rest.
    Busy,
}

/// How a settlement was paid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Payment {
    /// The amount of each grant, in order of expiry; 0 of a grant whose validity began without a charge.
    pub(crate) pieces: Pieces,
    /// The overdraft: the amount that no grant covered.
    pub(crate) overdraft: u64,
}

/// The rest of a key's valid grants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// The amount that no request reserves.
    pub free: u64,
    /// The amount that requests reserve.
    pub reserved: u64,
}

impl Holdings {
    /// Both together.
    pub(crate) const fn all(&self) -> u64 {
        self.free.saturating_add(self.reserved)
    }
}

/// All grants of a key in one unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Balance {
    /// In the order in which they are spent.
    grants: Vec<Grant>,
}

impl Balance {
    /// Adds a lease. If the grant is here already, adds to its leased amount and takes over its expiry from
    /// the database.
    pub(crate) fn lease(&mut self, news: Grant) {
        match self.find(news.number) {
            Some(grant) => {
                grant.free = grant.free.saturating_add(news.free);
                grant.validity = news.validity;
                // The database knows extensions and grants that other processes began; it may not know
                // yet that this process began the grant.
                grant.expires_at = news.expires_at.or(grant.expires_at);
            }
            None => self.grants.push(news),
        }
        self.grants.sort_unstable_by_key(Grant::order);
    }

    /// Reserves the wanted amount, or all that is free if that is at least the useful amount.
    pub(crate) fn reserve(&mut self, need: Need, now: Timestamp) -> Result<Pieces, Short> {
        let Need { wanted, useful } = need;
        let payers = || self.grants.iter().filter(|grant| grant.is_valid(now));
        let spendable = sum(payers()
            .filter(|g| g.free > 0)
            .take(MAX_PIECES)
            .map(|g| g.free));
        // An empty balance admits no request, even if it would be free.
        if spendable < useful.max(1) {
            return Err(self.why_short(useful, now));
        }
        let mut missing = wanted.min(spendable).max(useful);
        let mut pieces = Pieces::new();
        let payers = self.grants.iter_mut().filter(|grant| grant.is_valid(now));
        for grant in payers.filter(|grant| grant.free > 0).take(MAX_PIECES) {
            let amount = missing.min(grant.free);
            if amount == 0 {
                break;
            }
            grant.reserve(amount);
            missing = missing.saturating_sub(amount);
            pieces.push(Piece {
                grant: grant.number,
                amount,
            });
        }
        Ok(pieces)
    }

    fn why_short(&self, useful: u64, now: Timestamp) -> Short {
        if !self.grants.is_empty() && !self.grants.iter().any(|grant| grant.is_valid(now)) {
            return Short::Expired;
        }
        let held = self.holdings(now);
        if held.reserved > 0 && held.free.saturating_add(held.reserved) >= useful.max(1) {
            Short::Busy
        } else {
            Short::Exhausted
        }
    }

    /// Ends a reservation without a charge. An amount that is released into an expired grant is lost.
    pub(crate) fn release(&mut self, reserved: &[Piece]) {
        for piece in reserved {
            if let Some(grant) = self.find(piece.grant) {
                grant.release(piece.amount);
            }
        }
    }

    /// Ends a reservation: pays `charge` from it, even if a reserved grant has expired since, and then from all
    /// valid grants. At most `most` grants pay, or as many as were reserved: the record has room for no more.
    pub(crate) fn settle(
        &mut self,
        reserved: &[Piece],
        charge: u64,
        most: usize,
        now: Timestamp,
    ) -> Payment {
        self.release(reserved);
        let mut payment = Payment {
            overdraft: charge,
            ..Payment::default()
        };
        for piece in reserved {
            if let Some(grant) = self.find(piece.grant) {
                payment.take(grant, piece.amount, now);
            }
        }
        for grant in self.grants.iter_mut().filter(|grant| grant.is_valid(now)) {
            if payment.pieces.len() < most || payment.has(grant.number) {
                payment.take(grant, u64::MAX, now);
            }
        }
        self.grants.sort_unstable_by_key(Grant::order);
        payment
    }

    /// Begins the validity of the grant that would have paid, if a request has ended without a charge. Returns its
    /// number, unless it has begun before.
    pub(crate) fn begin(&mut self, reserved: &[Piece], now: Timestamp) -> Option<GrantNumber> {
        let place = match reserved.first() {
            Some(piece) => self.grants.iter().position(|it| it.number == piece.grant),
            None => self
                .grants
                .iter()
                .position(|it| it.is_valid(now) && it.free > 0),
        };
        let grant = self.grants.get_mut(place?)?;
        if grant.expires_at.is_some() {
            return None;
        }
        grant.expires_at = Some(now.plus(grant.validity));
        let number = grant.number;
        self.grants.sort_unstable_by_key(Grant::order);
        Some(number)
    }

    /// The number of grants that would pay a charge if the record had room for all.
    pub(crate) fn payers(&self, held: &[Piece], charge: u64, now: Timestamp) -> usize {
        let payment = self.clone().settle(held, charge, MAX_PIECES, now);
        payment.pieces.len()
    }

    /// Removes grants of which nothing is left in this process, if there are many.
    pub(crate) fn forget_spent(&mut self) {
        const MANY: usize = 2 * MAX_PIECES;
        if self.grants.len() > MANY {
            self.grants
                .retain(|grant| grant.free > 0 || grant.reserved > 0);
        }
    }

    /// Gives up a part of the unreserved amount: `of` computes it for each grant, in the order of spending.
    pub(crate) fn give_up(&mut self, mut of: impl FnMut(&Grant) -> u64) -> Vec<Piece> {
        let mut given = Vec::new();
        for grant in &mut self.grants {
            let amount = of(grant).min(grant.free);
            if amount > 0 {
                grant.free = grant.free.saturating_sub(amount);
                given.push(Piece {
                    grant: grant.number,
                    amount,
                });
            }
        }
        given
    }

    /// The rest of the valid grants.
    pub(crate) fn holdings(&self, now: Timestamp) -> Holdings {
        let valid = || self.grants.iter().filter(|grant| grant.is_valid(now));
        Holdings {
            free: sum(valid().map(|grant| grant.free)),
            reserved: sum(valid().map(|grant| grant.reserved)),
        }
    }

    /// Whether no request reserves anything.
    pub(crate) fn is_idle(&self) -> bool {
        self.grants.iter().all(|grant| grant.reserved == 0)
    }

    fn find(&mut self, number: GrantNumber) -> Option<&mut Grant> {
        self.grants.iter_mut().find(|grant| grant.number == number)
    }
}

impl Payment {
    /// The part of a charge that a reservation covers. Changes no balance.
    pub(crate) fn from_reserved(reserved: &[Piece], charge: u64) -> Self {
        let mut payment = Self {
            overdraft: charge,
            ..Self::default()
        };
        for piece in reserved {
            payment.add(piece.grant, piece.amount);
        }
        payment
    }

    /// Spends at most `most` of a grant on the rest of the charge.
    fn take(&mut self, grant: &mut Grant, most: u64, now: Timestamp) {
        let paid = self.add(grant.number, most.min(grant.free));
        grant.spend(paid, now);
    }

    /// Notes that a grant pays at most `most` of the rest of the charge. Returns what it pays.
    fn add(&mut self, grant: GrantNumber, most: u64) -> u64 {
        let amount = self.overdraft.min(most);
        self.overdraft = self.overdraft.saturating_sub(amount);
        if amount > 0 {
            match self.pieces.iter_mut().find(|piece| piece.grant == grant) {
                Some(piece) => piece.amount = piece.amount.saturating_add(amount),
                None => self.pieces.push(Piece { grant, amount }),
            }
        }
        amount
    }

    fn has(&self, number: GrantNumber) -> bool {
        self.pieces.iter().any(|piece| piece.grant == number)
    }

    /// Whether nothing was charged.
    pub(crate) fn is_nothing(&self) -> bool {
        self.pieces.is_empty() && self.overdraft == 0
    }

    /// The payment without the overdraft.
    pub(crate) fn paid(&self) -> u64 {
        sum(self.pieces.iter().map(|piece| piece.amount))
    }
}

fn sum(amounts: impl Iterator<Item = u64>) -> u64 {
    amounts.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests;
