//! The balances in memory: one account per key in use, loaded once, given back when idle.

use crate::{
    balance::{Holdings, Need, Payment, Piece, Pieces, Short},
    clock::Timestamp,
    directory::Unavailable,
    ledger::{
        fund::{Fund, Lack},
        lease_waiters::{LeaseWaiter, LeaseWaiters},
    },
    store::database::Share,
};
use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;
use std::{collections::HashMap, hash::BuildHasher, sync::Arc, time::Duration};
use tokio::sync::oneshot;
use tollgate_types::{KeyId, PerUnit, Unit};

/// A caller's end of a load: the account is in memory, or there is no such key (`false`).
pub(super) type Waiting = oneshot::Receiver<Result<bool, Unavailable>>;

const SHARDS: usize = 16;

/// One key's balances in this process.
pub(super) struct Account {
    pub(super) id: KeyId,
    /// The key's number in the file.
    pub(super) key: i64,
    state: Mutex<State>,
}

struct State {
    funds: PerUnit<Fund>,
    /// This process has requested a part of what other processes lease.
    asked: bool,
    /// Its leases have been given back: a request that still has it must load it again.
    closed: bool,
    used_at: Timestamp,
}

impl State {
    fn give_up(&mut self, of_free: impl Fn(u64) -> u64) -> Vec<Piece> {
        let funds = self.funds.iter_mut();
        funds.flat_map(|fund| fund.give_up(&of_free)).collect()
    }

    /// The units in which requests must be covered: those in which something was given.
    fn required(&self) -> impl Iterator<Item = Unit> + use<> {
        let given = PerUnit::from_fn(|unit| self.funds.get(unit).is_given);
        // A key that was given nothing has no tokens.
        let is_required = move |unit: &Unit| match unit {
            Unit::Tokens => given.tokens || !given.money,
            Unit::Money => given.money,
        };
        Unit::ALL.into_iter().filter(is_required)
    }

    fn release(&mut self, held: &Held, now: Timestamp) {
        for unit in Unit::ALL {
            if let Some(pieces) = held.get(unit) {
                let balance = &mut self.funds.get_mut(unit).balance;
                balance.settle(pieces, 0, 0, now);
            }
        }
    }
}

/// What a request reserves in each unit; `None` if it need not be covered in that.
pub(super) type Held = PerUnit<Option<Pieces>>;

/// From how many grants a request is paid.
pub(super) fn count(held: &Held) -> usize {
    held.iter().flatten().map(|pieces| pieces.len()).sum()
}

/// What came of a reservation.
pub(super) enum Reserved {
    Pieces(Held),
    Short(Short),
    /// Too little here while other processes lease some. `true`: they must be asked now.
    Elsewhere(bool),
    /// The request must be covered in money, and its price is unknown.
    Unpriced,
    /// The account was closed meanwhile: load it again.
    Closed,
}

/// The one answer to what is lacking in several units. What no wait can end comes first.
fn refusal(lacks: &[Lack], required: usize) -> Result<Short, ()> {
    let expired = Lack::Here(Short::Expired);
    let is_over = |lack: &Lack| matches!(lack, Lack::Here(Short::Expired | Short::Exhausted));
    if lacks.len() == required && lacks.iter().all(|lack| *lack == expired) {
        Ok(Short::Expired)
    } else if lacks.iter().any(is_over) {
        Ok(Short::Exhausted)
    } else if lacks.contains(&Lack::Elsewhere) {
        Err(())
    } else {
        Ok(Short::Busy)
    }
}

impl Account {
    fn new(id: KeyId, share: &Share, now: Timestamp) -> Self {
        let account = Self {
            id,
            key: share.key,
            state: Mutex::new(State {
                funds: PerUnit::default(),
                asked: false,
                closed: false,
                used_at: now,
            }),
        };
        account.take_in(share, now);
        account
    }

    /// Takes in what was newly leased.
    pub(super) fn take_in(&self, share: &Share, now: Timestamp) {
        let mut state = self.state.lock();
        let gained = share.has_leased();
        for unit in Unit::ALL {
            let of_unit = share.of.get(unit);
            let grants = share.grants.iter().filter(|grant| grant.unit == unit);
            let fund = state.funds.get_mut(unit);
            fund.take_in(of_unit, grants.cloned());
            fund.note_left(of_unit.left, now);
        }
        // The request stands until something came.
        let elsewhere = state.funds.iter().any(|fund| fund.elsewhere);
        state.asked &= elsewhere && !gained;
    }

    /// Reserves what a request needs in each unit in which it must be covered, in all of them or none.
    pub(super) fn reserve(&self, needs: &PerUnit<Option<Need>>, now: Timestamp) -> Reserved {
        let mut state = self.state.lock();
        if state.closed {
            return Reserved::Closed;
        }
        state.used_at = now;
        let mut held = Held::default();
        let (mut lacks, mut required) = (SmallVec::<[Lack; 2]>::new(), 0_usize);
        for unit in state.required() {
            let Some(need) = needs.get(unit) else {
                state.release(&held, now);
                return Reserved::Unpriced;
            };
            required = required.saturating_add(1);
            match state.funds.get_mut(unit).reserve(*need, now) {
                Ok(pieces) => *held.get_mut(unit) = Some(pieces),
                Err(lack) => lacks.push(lack),
            }
        }
        if lacks.is_empty() {
            return Reserved::Pieces(held);
        }
        state.release(&held, now);
        match refusal(&lacks, required) {
            Ok(short) => Reserved::Short(short),
            Err(()) => Reserved::Elsewhere(!std::mem::replace(&mut state.asked, true)),
        }
    }

    /// Ends a reservation: pays the charge in each unit in which something is reserved. Of `most` grants
    /// for which the record has room, those that are reserved come first.
    pub(super) fn settle(
        &self,
        held: &Held,
        charge: &PerUnit<u64>,
        most: usize,
        now: Timestamp,
    ) -> PerUnit<Payment> {
        let mut state = self.state.lock();
        state.used_at = now;
        let mut paid = PerUnit::<Payment>::default();
        let mut others = count(held);
        let mut room = most;
        for unit in Unit::ALL {
            let Some(pieces) = held.get(unit) else {
                continue;
            };
            others = others.saturating_sub(pieces.len());
            let balance = &mut state.funds.get_mut(unit).balance;
            let most = room.saturating_sub(others);
            let payment = balance.settle(pieces, *charge.get(unit), most, now);
            room = room.saturating_sub(payment.pieces.len());
            *paid.get_mut(unit) = payment;
        }
        paid
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
        // One chance for both units, which are useful together.
        let all = !state.asked || !fastrand::bool();
        let funds = state.funds.iter_mut();
        funds.flat_map(|fund| fund.give_way(all, now)).collect()
    }

    /// What is here of each unit in which something was given.
    pub(super) fn holdings(&self, now: Timestamp) -> PerUnit<Option<Holdings>> {
        let state = self.state.lock();
        let mut holdings = PerUnit::default();
        for unit in state.required() {
            *holdings.get_mut(unit) = Some(state.funds.get(unit).balance.holdings(now));
        }
        holdings
    }

    pub(super) fn is_asking(&self) -> bool {
        self.state.lock().asked
    }

    /// Closes an account of which no request reserves anything and that was not used since `before`.
    fn close_if_idle(&self, before: Timestamp) -> Option<Vec<Piece>> {
        let mut state = self.state.lock();
        let is_idle = state.funds.iter().all(|fund| fund.balance.is_idle());
        if state.closed || state.used_at > before || !is_idle {
            return None;
        }
        state.closed = true;
        state.asked = false;
        Some(state.give_up(|free| free))
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
    pub(super) fn take_in(&self, id: &KeyId, share: &Share, now: Timestamp) {
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

    /// How many accounts there are, and what they have of valid grants.
    pub(super) fn holdings(&self, now: Timestamp) -> (usize, PerUnit<Holdings>) {
        let mut count = 0_usize;
        let mut sum = PerUnit::<Holdings>::default();
        for shard in &self.shards {
            for account in shard.read().values() {
                count = count.saturating_add(1);
                let holdings = account.holdings(now);
                for unit in Unit::ALL {
                    let (sum, more) = (sum.get_mut(unit), holdings.get(unit).unwrap_or_default());
                    sum.free = sum.free.saturating_add(more.free);
                    sum.reserved = sum.reserved.saturating_add(more.reserved);
                }
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
