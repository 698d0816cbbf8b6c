//! The accounts in memory: one per key in use, loaded once, given back when idle.

use crate::{
    balance::{Holdings, Piece},
    clock::Timestamp,
    directory::Unavailable,
    ledger::{
        account::Account,
        fund::Fund,
        lease_waiters::{LeaseWaiter, LeaseWaiters},
    },
    store::database::{Lease, LeaseMode, Share},
};
use parking_lot::{Mutex, RwLock};
use std::{collections::HashMap, hash::BuildHasher, sync::Arc, time::Duration};
use tokio::sync::oneshot;
use tollgate_types::{KeyId, PerUnit, Unit};

/// A caller's end of a load: the account is in memory, or there is no such key (`false`).
pub(super) type Waiting = oneshot::Receiver<Result<bool, Unavailable>>;

const SHARDS: usize = 16;

/// All accounts in memory, and the current loads.
pub(super) struct Accounts {
    shards: [RwLock<HashMap<KeyId, Arc<Account>, Hasher>>; SHARDS],
    hasher: Hasher,
    loads: Mutex<Loads>,
    /// Requests that wait for tokens of other processes.
    lease_waiters: LeaseWaiters,
    most_waiting: usize,
    /// Accounts lease by their use instead of all that is free.
    by_use: bool,
}

#[derive(Default)]
struct Loads {
    loads: HashMap<KeyId, LoadUnderWay, Hasher>,
    waiting: usize,
}

#[derive(Default)]
struct LoadUnderWay {
    callers: Vec<oneshot::Sender<Result<bool, Unavailable>>>,
    /// The sum that they need.
    wanted: PerUnit<u64>,
    /// How many of them the last lease was sized for, and the sum that they need.
    counted: (usize, PerUnit<u64>),
}

impl Loads {
    /// Adds a caller that needs `wanted` of `id`. Returns whether it is the first.
    fn enter(
        &mut self,
        id: &KeyId,
        wanted: &PerUnit<u64>,
        most: usize,
    ) -> Result<(Waiting, bool), Unavailable> {
        if self.waiting >= most {
            return Err(Unavailable::Overloaded);
        }
        self.waiting = self.waiting.saturating_add(1);
        let (sender, receiver) = oneshot::channel();
        let load = self.loads.entry(id.clone()).or_default();
        load.callers.push(sender);
        for unit in Unit::ALL {
            let sum = load.wanted.get_mut(unit);
            *sum = sum.saturating_add(*wanted.get(unit));
        }
        Ok((receiver, load.callers.len() == 1))
    }

    /// Removes the callers of a load; with `counted_alone`, only those that the lease was sized for.
    fn leave(
        &mut self,
        id: &KeyId,
        counted_alone: bool,
    ) -> Vec<oneshot::Sender<Result<bool, Unavailable>>> {
        let mut load = self.loads.remove(id).unwrap_or_default();
        let (count, counted) = std::mem::take(&mut load.counted);
        if counted_alone && count < load.callers.len() {
            let later = load.callers.split_off(count);
            let rest = |unit| load.wanted.get(unit).saturating_sub(*counted.get(unit));
            let rest = LoadUnderWay {
                callers: later,
                wanted: PerUnit::from_fn(rest),
                ..LoadUnderWay::default()
            };
            self.loads.insert(id.clone(), rest);
        }
        self.waiting = self.waiting.saturating_sub(load.callers.len());
        load.callers
    }
}

type Hasher = foldhash::fast::RandomState;

impl Accounts {
    pub(super) fn new(most_waiting: usize, by_use: bool) -> Self {
        Self {
            shards: Default::default(),
            hasher: Hasher::default(),
            loads: Mutex::default(),
            lease_waiters: LeaseWaiters::new(most_waiting),
            most_waiting,
            by_use,
        }
    }

    /// How much of a key to lease, and how.
    pub(super) fn lease(&self, id: &KeyId, mode: LeaseMode, now: Timestamp) -> Lease {
        let mut loads = self.loads.lock();
        let waiting = loads.loads.get_mut(id).map(|load| {
            load.counted = (load.callers.len(), load.wanted);
            load.wanted
        });
        drop(loads);
        let waiting = waiting.unwrap_or_default();
        let most = match self.get(id) {
            Some(account) => account.missing(&waiting, now),
            None => PerUnit::from_fn(|unit| {
                let mut fund = Fund::new(self.by_use);
                fund.missing(*waiting.get(unit), now)
            }),
        };
        Lease {
            key: id.clone(),
            mode,
            most,
        }
    }

    /// The number of callers that the last lease of a load was sized for.
    #[cfg(test)]
    pub(super) fn counted(&self, id: &KeyId) -> usize {
        let loads = self.loads.lock();
        loads.loads.get(id).map_or(0, |load| load.counted.0)
    }

    fn shard(&self, id: &KeyId) -> Option<&RwLock<HashMap<KeyId, Arc<Account>, Hasher>>> {
        let place = self.hasher.hash_one(id) % (SHARDS as u64);
        self.shards.get(usize::try_from(place).unwrap_or(0))
    }

    pub(super) fn get(&self, id: &KeyId) -> Option<Arc<Account>> {
        self.shard(id)?.read().get(id).cloned()
    }

    /// Adds a share to the account, which is created if necessary.
    pub(super) fn add_lease(&self, id: &KeyId, share: &Share, now: Timestamp) {
        let Some(shard) = self.shard(id) else { return };
        let mut shard = shard.write();
        match shard.get(id) {
            Some(account) if !account.is_closed() => account.add_lease(share, now),
            _ => {
                let account = Arc::new(Account::new(id.clone(), share, self.by_use, now));
                shard.insert(id.clone(), account);
            }
        }
    }

    /// Waits for a load of `id`, for a request that needs `wanted`. `true`: the caller must start the load.
    pub(super) fn wait(
        &self,
        id: &KeyId,
        wanted: &PerUnit<u64>,
    ) -> Result<(Waiting, bool), Unavailable> {
        self.loads.lock().enter(id, wanted, self.most_waiting)
    }

    /// Waits for tokens of `id` that other processes give back. `None` if too many wait.
    pub(super) fn wait_for_lease(&self, id: &KeyId) -> Option<LeaseWaiter> {
        let account = self.get(id)?;
        let waiter = self.lease_waiters.enter(id)?;
        if !account.has_lease_request() {
            // The tokens arrived meanwhile, or there are none.
            self.lease_waiters.wake(id);
        }
        Some(waiter)
    }

    /// Answers the callers that wait for `id`. `true`: others came after the lease was sized by use, and wait
    /// for the next one, which the caller must start. If they were answered now, most would find the lease used
    /// up and wait again, for several commits if they are many.
    pub(super) fn answer(&self, id: &KeyId, result: &Result<bool, Unavailable>) -> bool {
        let mut loads = self.loads.lock();
        let callers = loads.leave(id, self.by_use && *result == Ok(true));
        let others_wait = loads.loads.contains_key(id);
        drop(loads);
        for caller in callers {
            // The caller can have left.
            let _ = caller.send(result.clone());
        }
        let has_lease_request = self
            .get(id)
            .is_some_and(|account| account.has_lease_request());
        if !has_lease_request {
            self.lease_waiters.wake(id);
        }
        others_wait
    }

    /// Refuses all that wait for loads.
    pub(super) fn refuse_all(&self, why: &Unavailable) {
        let keys: Vec<KeyId> = self.loads.lock().loads.keys().cloned().collect();
        for key in keys {
            self.answer(&key, &Err(why.clone()));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().len()).sum()
    }

    /// The number of accounts, and their amounts of valid grants.
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

    /// Gives up leased tokens that accounts do not need.
    pub(super) fn give_up_excess(&self, now: Timestamp) -> Vec<Piece> {
        if !self.by_use {
            return Vec::new();
        }
        let given = |shard: &RwLock<HashMap<KeyId, Arc<Account>, Hasher>>| {
            let shard = shard.read();
            let given = shard.values().flat_map(|it| it.give_up_excess(now));
            given.collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(given).collect()
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
                        // A removed account gets no tokens.
                        self.lease_waiters.wake(id);
                        false
                    }
                    None => true,
                });
        }
        given
    }
}
