//! The balances in memory: one account per key in use, loaded once, given back when idle.

use crate::{
    balance::{Balance, Holdings, Payment, Piece, Pieces, Short},
    clock::Timestamp,
    directory::Unavailable,
    ledger::lease_waiters::{LeaseWaiter, LeaseWaiters},
    store::database::Share,
};
use parking_lot::{Mutex, RwLock};
use std::{collections::HashMap, hash::BuildHasher, sync::Arc, time::Duration};
use tokio::sync::oneshot;
use tollgate_types::KeyId;

/// A caller's end of a load: the account is in memory, or there is no such key (`false`).
pub(super) type Waiting = oneshot::Receiver<Result<bool, Unavailable>>;

const SHARDS: usize = 16;

/// One key's balance in this process.
pub(super) struct Account {
    pub(super) id: KeyId,
    /// The key's number in the file.
    pub(super) key: i64,
    state: Mutex<State>,
}

struct State {
    balance: Balance,
    /// Other processes lease tokens of this key.
    elsewhere: bool,
    /// The most that they can lease of them.
    most_elsewhere: u64,
    /// This process has requested a part of them.
    asked: bool,
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

    /// Whether so much is left, wherever it is.
    fn could_have(&self, tokens: u64, now: Timestamp) -> bool {
        let here = self.balance.holdings(now).all();
        here.saturating_add(self.most_elsewhere) >= tokens.max(1)
    }
}

/// What came of a reservation.
pub(super) enum Reserved {
    Pieces(Pieces),
    Short(Short),
    /// Too little here while other processes lease some. `true`: they must be asked now.
    Elsewhere(bool),
    /// The account was closed meanwhile: load it again.
    Closed,
}

impl Account {
    fn new(id: KeyId, share: Share, now: Timestamp) -> Self {
        let account = Self {
            id,
            key: share.key,
            state: Mutex::new(State {
                balance: Balance::default(),
                elsewhere: false,
                most_elsewhere: 0,
                asked: false,
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
        state.elsewhere = share.elsewhere > 0;
        // What was given up and is not committed yet does not count as here.
        let here = state.balance.holdings(now).all();
        state.most_elsewhere = share.left.saturating_sub(here);
        // The request stands until tokens came.
        state.asked &= state.elsewhere && !gained;
    }

    pub(super) fn reserve(&self, wanted: u64, useful: u64, now: Timestamp) -> Reserved {
        let mut state = self.state.lock();
        if state.closed {
            return Reserved::Closed;
        }
        state.used_at = now;
        state.useful = useful;
        match state.balance.reserve(wanted, useful, now) {
            Ok(pieces) => Reserved::Pieces(pieces),
            // If all tokens together are too few, there is nothing to wait for.
            Err(_) if state.elsewhere && state.could_have(useful, now) => {
                Reserved::Elsewhere(!std::mem::replace(&mut state.asked, true))
            }
            Err(short) => Reserved::Short(short),
        }
    }

    pub(super) fn settle(
        &self,
        reserved: &[Piece],
        charge: u64,
        most: usize,
        now: Timestamp,
    ) -> Payment {
        let mut state = self.state.lock();
        state.used_at = now;
        state.balance.settle(reserved, charge, most, now)
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

    pub(super) fn is_asking(&self) -> bool {
        self.state.lock().asked
    }

    /// Closes an account of which no request reserves anything and that was not used since `before`.
    fn close_if_idle(&self, before: Timestamp) -> Option<Vec<Piece>> {
        let mut state = self.state.lock();
        if state.closed || state.used_at > before || !state.balance.is_idle() {
            return None;
        }
        state.closed = true;
        state.asked = false;
        Some(state.balance.give_up(|free| free))
    }
}

/// All accounts in memory, and the loads under way.
pub(super) struct Accounts {
    shards: [RwLock<HashMap<KeyId, Arc<Account>, Hasher>>; SHARDS],
    hasher: Hasher,
    loads: Mutex<Loads>,
    /// Requests that wait for tokens of other processes.
    lease_waiters: LeaseWaiters,
    most_waiting: usize,
}

#[derive(Default)]
struct Loads {
    callers: HashMap<KeyId, Vec<oneshot::Sender<Result<bool, Unavailable>>>, Hasher>,
    waiting: usize,
}

impl Loads {
    /// Adds a caller that waits for `id`. Returns whether it is the first.
    fn enter(&mut self, id: &KeyId, most: usize) -> Result<(Waiting, bool), Unavailable> {
        if self.waiting >= most {
            return Err(Unavailable::Overloaded);
        }
        self.waiting = self.waiting.saturating_add(1);
        let (sender, receiver) = oneshot::channel();
        let callers = self.callers.entry(id.clone()).or_default();
        callers.push(sender);
        Ok((receiver, callers.len() == 1))
    }

    fn leave(&mut self, id: &KeyId) -> Vec<oneshot::Sender<Result<bool, Unavailable>>> {
        let callers = self.callers.remove(id).unwrap_or_default();
        self.waiting = self.waiting.saturating_sub(callers.len());
        callers
    }
}

type Hasher = foldhash::fast::RandomState;

impl Accounts {
    pub(super) fn new(most_waiting: usize) -> Self {
        Self {
            shards: Default::default(),
            hasher: Hasher::default(),
            loads: Mutex::default(),
            lease_waiters: LeaseWaiters::new(most_waiting),
            most_waiting,
        }
    }

    fn shard(&self, id: &KeyId) -> Option<&RwLock<HashMap<KeyId, Arc<Account>, Hasher>>> {
        let place = self.hasher.hash_one(id) % (SHARDS as u64);
        self.shards.get(usize::try_from(place).unwrap_or(0))
    }

    pub(super) fn get(&self, id: &KeyId) -> Option<Arc<Account>> {
        self.shard(id)?.read().get(id).cloned()
    }

    /// Takes in a share: into the account that is there, or a new one.
    pub(super) fn take_in(&self, id: &KeyId, share: Share, now: Timestamp) {
        let Some(shard) = self.shard(id) else { return };
        let mut shard = shard.write();
        match shard.get(id) {
            Some(account) if !account.state.lock().closed => account.take_in(share, now),
            _ => {
                let account = Arc::new(Account::new(id.clone(), share, now));
                shard.insert(id.clone(), account);
            }
        }
    }

    /// Waits for a load of `id`. `true`: the caller must start it.
    pub(super) fn wait(&self, id: &KeyId) -> Result<(Waiting, bool), Unavailable> {
        self.loads.lock().enter(id, self.most_waiting)
    }

    /// Waits for tokens of `id` that other processes give back, if they were asked.
    pub(super) fn wait_for_lease(&self, id: &KeyId) -> Option<LeaseWaiter> {
        let account = self.get(id)?;
        let waiter = self.lease_waiters.enter(id)?;
        if !account.is_asking() {
            // The tokens came meanwhile, or there are none.
            self.lease_waiters.wake(id);
        }
        Some(waiter)
    }

    /// Answers the callers that wait for `id`.
    pub(super) fn answer(&self, id: &KeyId, result: &Result<bool, Unavailable>) {
        let callers = self.loads.lock().leave(id);
        for caller in callers {
            // A caller that has left is no fault.
            let _ = caller.send(result.clone());
        }
        let is_asking = self.get(id).is_some_and(|account| account.is_asking());
        if !is_asking {
            self.lease_waiters.wake(id);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().len()).sum()
    }

    /// How many accounts there are, and their tokens of valid grants.
    pub(super) fn holdings(&self, now: Timestamp) -> (usize, Holdings) {
        let mut count = 0_usize;
        let mut sum = Holdings::default();
        for shard in &self.shards {
            for account in shard.read().values() {
                let holdings = account.holdings(now);
                count = count.saturating_add(1);
                sum.free = sum.free.saturating_add(holdings.free);
                sum.reserved = sum.reserved.saturating_add(holdings.reserved);
            }
        }
        (count, sum)
    }

    /// The accounts for which `wanted` holds.
    pub(super) fn filter(&self, wanted: impl Fn(&Account) -> bool) -> Vec<Arc<Account>> {
        let pick = |shard: &RwLock<HashMap<KeyId, Arc<Account>, Hasher>>| {
            let shard = shard.read();
            let wanted = shard.values().filter(|account| wanted(account));
            wanted.cloned().collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(pick).collect()
    }

    /// Removes accounts that have been idle for `span`. The caller must give back what they had.
    pub(super) fn evict_idle(&self, span: Duration, now: Timestamp) -> Vec<Piece> {
        let before = now.minus(span);
        let mut given = Vec::new();
        for shard in &self.shards {
            shard
                .write()
                .retain(|id, account| match account.close_if_idle(before) {
                    Some(pieces) => {
                        given.extend(pieces);
                        // No tokens come to an account that is gone.
                        self.lease_waiters.wake(id);
                        false
                    }
                    None => true,
                });
        }
        given
    }
}
