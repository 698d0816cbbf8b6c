//! What one process has of a key's grants in one unit, and what it knows of the rest.

use crate::{
    balance::{Balance, Grant, Need, Piece, Pieces, Short},
    clock::Timestamp,
    store::database::UnitShare,
};

/// A key's balance of one unit in this process, and what other processes lease of it.
#[derive(Default)]
pub(super) struct Fund {
    pub(super) balance: Balance,
    /// The key was given something in this unit once: its requests must be covered in it.
    pub(super) is_given: bool,
    /// Other processes lease some of it.
    pub(super) elsewhere: bool,
    /// The most that they can lease of it.
    most_elsewhere: u64,
    /// The least that was enough for the last request.
    useful: u64,
}

/// Why a fund does not cover a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// Too little is here.
    Here(Short),
    /// Too little is here while other processes lease some.
    Elsewhere,
}

impl Fund {
    /// Takes in what was newly leased, and what is known of the rest.
    pub(super) fn take_in(&mut self, share: &UnitShare, grants: impl Iterator<Item = Grant>) {
        self.balance.forget_spent();
        for grant in grants {
            self.is_given = true;
            self.balance.lease(grant);
        }
        self.elsewhere = share.elsewhere > 0;
    }

    /// Notes what is left of the valid grants, wherever it is.
    pub(super) fn note_left(&mut self, left: u64, now: Timestamp) {
        // What was given up and is not committed yet does not count as here.
        let here = self.balance.holdings(now).all();
        self.most_elsewhere = left.saturating_sub(here);
    }

    pub(super) fn reserve(&mut self, need: Need, now: Timestamp) -> Result<Pieces, Lack> {
        self.useful = need.useful;
        match self.balance.reserve(need, now) {
            Ok(pieces) => Ok(pieces),
            // If everything together is too little, there is nothing to wait for.
            Err(_) if self.elsewhere && self.could_have(need.useful, now) => Err(Lack::Elsewhere),
            Err(short) => Err(Lack::Here(short)),
        }
    }

    /// Whether so much is left, wherever it is.
    fn could_have(&self, amount: u64, now: Timestamp) -> bool {
        let here = self.balance.holdings(now).all();
        here.saturating_add(self.most_elsewhere) >= amount.max(1)
    }

    pub(super) fn give_up(&mut self, of_free: impl Fn(u64) -> u64) -> Vec<Piece> {
        let given = self.balance.give_up(of_free);
        // The other process now leases it, and may have to be asked in turn.
        self.elsewhere |= !given.is_empty();
        let amounts = given.iter().map(|piece| piece.tokens);
        self.most_elsewhere = amounts.fold(self.most_elsewhere, u64::saturating_add);
        given
    }

    /// Gives up half of what no request reserves, or all of it if half is not enough for a request here
    /// and `all` allows it.
    pub(super) fn give_way(&mut self, all: bool, now: Timestamp) -> Vec<Piece> {
        let half = self.balance.holdings(now).free / 2;
        match half < self.useful {
            true if all => self.give_up(|free| free),
            true => Vec::new(),
            false => self.give_up(|free| free.div_ceil(2)),
        }
    }
}
