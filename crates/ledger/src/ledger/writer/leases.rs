//! Which tokens this process leases, and which it leaves to other processes on the same file.

use super::{super::Shared, Command, Writer};
use crate::store::{
    StoreError,
    database::{Lease, LeaseMode, Look, News, Share},
};
use std::collections::HashSet;
use tollgate_types::KeyId;

/// The most keys of one commit that reads changes: it locks all of them.
const MOST_LEASES: usize = 200;

impl Writer {
    /// Reads the changes of other processes: top-ups, lease requests, returned tokens. `asking`: how to lease
    /// for accounts whose lease requests stand. A repeated request is a change, which the database announces.
    pub(super) fn apply_external_changes(
        &mut self,
        look: Look,
        asking: LeaseMode,
    ) -> Result<(), StoreError> {
        let Some(news) = self.process.news(self.seen.change, look)? else {
            return Ok(());
        };
        for leases in self.leases_after(&news, asking).chunks(MOST_LEASES) {
            let committed = self.commit_all(&[], &[], leases)?;
            if committed.is_fenced {
                return Ok(());
            }
            self.distribute(committed.shares);
        }
        self.seen.change = news.newest;
        self.give_up_on_request(&news.requested);
        Ok(())
    }

    /// The leases for accounts in memory that have changed or need tokens.
    fn leases_after(&self, news: &News, if_asking: LeaseMode) -> Vec<Lease> {
        let accounts = &self.shared.accounts;
        let asking = accounts.filter(|account| account.has_lease_request());
        let asking: HashSet<KeyId> = asking.iter().map(|account| account.id.clone()).collect();
        let changed: HashSet<KeyId> = match &news.changed {
            Some(keys) => {
                let keys = keys.iter().filter(|key| accounts.get(key).is_some());
                keys.cloned().collect()
            }
            None => {
                let all = accounts.filter(|_| true);
                all.iter().map(|account| account.id.clone()).collect()
            }
        };
        let mode = |key: &KeyId| match asking.contains(key) {
            true => if_asking,
            // The serving process leases new tokens; this one only needs to know of them.
            false if self.retired => LeaseMode::Look,
            false => LeaseMode::Take,
        };
        let now = self.shared.clock.now();
        let keys = changed.union(&asking);
        keys.map(|key| accounts.lease(key, mode(key), now))
            .collect()
    }

    /// The leases for waiting requests, and for accounts that run low.
    pub(super) fn leases_for(
        &self,
        loads: &HashSet<KeyId>,
        refills: &HashSet<KeyId>,
    ) -> Vec<Lease> {
        let Shared {
            accounts, clock, ..
        } = &*self.shared;
        let now = clock.now();
        let refills = refills.difference(loads).filter(|_| !self.retired);
        let needed = loads.iter().map(|key| (key, LeaseMode::Need));
        let all = needed.chain(refills.map(|key| (key, LeaseMode::Take)));
        all.map(|(key, mode)| accounts.lease(key, mode, now))
            .collect()
    }

    /// Puts leased tokens into the accounts, and answers the requests that wait for them.
    pub(super) fn distribute(&mut self, shares: Vec<(KeyId, Option<Share>)>) {
        // Spending here makes room for grants that were not read; the database does not report that as a
        // change.
        let waits = |share: &Share| share.has_more && !share.has_leased() && !share.has_unleased();
        let mut leased = shares.iter().filter_map(|(_, share)| share.as_ref());
        self.seen.look_again |= leased.any(waits);
        let Shared {
            accounts, clock, ..
        } = &*self.shared;
        for (key, share) in shares {
            let found = share.is_some();
            if let Some(share) = share {
                accounts.add_lease(&key, &share, clock.now());
            }
            if accounts.answer(&key, &Ok(found)) {
                self.commands.put_back(Command::Load(key));
            }
        }
    }

    /// Gives other processes a part of the tokens that no request here reserves, or all of them if this
    /// process ends. A lease request that gets nothing now is looked at again.
    fn give_up_on_request(&mut self, wanted: &[KeyId]) {
        for key in wanted {
            if let Some(account) = self.shared.accounts.get(key) {
                let given = if self.retired {
                    account.give_up_all()
                } else {
                    account.give_up_on_request(self.shared.clock.now())
                };
                self.seen.look_again |= given.is_empty();
                self.returns.extend(given);
            }
        }
    }

    /// Gives up half of the tokens that no request reserves, of every account, and answers when that is
    /// committed.
    pub(super) fn give_up_half(&mut self, waiting: Vec<tokio::sync::oneshot::Sender<()>>) {
        if waiting.is_empty() {
            return;
        }
        // A change that is seen only afterwards (a grant that has begun is one) would make this
        // process lease again what it gives up now.
        let shared = self.apply_external_changes(Look::Always, LeaseMode::Take);
        let shared = shared.and_then(|()| {
            for account in self.shared.accounts.filter(|_| true) {
                self.returns.extend(account.give_up_half());
            }
            self.give_back()
        });
        if let Err(fault) = shared {
            // The next tick tries again; the waiting process notices the tokens itself.
            self.seen.look_again = true;
            return log::warn!("half of the unreserved balances could not be given back: {fault}");
        }
        for done in waiting {
            // The waiting process can have left.
            let _ = done.send(());
        }
    }

    /// Withdraws the lease requests of accounts that no longer wait: they have left memory, or were loaded
    /// again. Otherwise, other processes would keep giving tokens for them.
    pub(super) fn withdraw_lease_requests(&mut self) -> Result<(), StoreError> {
        let asking = self
            .shared
            .accounts
            .filter(|account| account.has_lease_request());
        let asking = asking.iter().map(|account| account.id.clone()).collect();
        self.process.keep_lease_requests(&asking)
    }

    /// Commits the leases that memory has given up. After a fault, they are committed later; no process
    /// spends them until then. If the last commit failed, finds out whether one succeeds now.
    pub(super) fn give_back(&mut self) -> Result<(), StoreError> {
        if self.returns.is_empty() && self.shared.why_stalled().is_none() {
            return Ok(());
        }
        self.commit_all(&[], &[], &[]).map(|_| ())
    }
}
