//! Which tokens this process leases, and which it leaves to other processes on the same file.

use super::{super::Shared, Writer};
use crate::{
    clock::Timestamp,
    ledger::{
        accounts::Accounts,
        books::{self, ProcessNumber, Share},
    },
};
use rusqlite::Transaction;
use std::collections::HashSet;
use tollgate_types::KeyId;

impl Writer {
    /// Takes up what other processes have changed: top-ups, lease requests, tokens that they gave back.
    pub(super) fn look_at_others(&mut self) -> rusqlite::Result<()> {
        let now = self.shared.clock.now();
        let process = self.process;
        let accounts = &self.shared.accounts;
        let transaction = self.file.begin()?;
        if books::is_fenced(&transaction, process)? {
            // No process would give back what a fenced process leases.
            self.shared.fence();
            return Ok(());
        }
        books::give_back(&transaction, process, &self.returns)?;
        let (newest, topped_up) = changed_accounts(&transaction, self.seen.change, accounts)?;
        let asking = accounts.filter(|account| account.is_asking());
        let asking: HashSet<_> = asking.iter().map(|account| account.id.clone()).collect();
        let mut shares = Vec::new();
        let topped_up: HashSet<_> = topped_up.into_iter().collect();
        for key in topped_up.union(&asking) {
            let asks = asking.contains(key);
            let share = match self.retired && !asks {
                // The serving process leases new tokens; this one only needs to know of them.
                true => books::look(&transaction, process, key, now)?,
                false => lease(&transaction, process, key, now, asks)?,
            };
            shares.push((key.clone(), share));
        }
        let wanted = books::wanted_by_others(&transaction, process)?;
        transaction.commit()?;
        self.returns.clear();
        self.seen.change = newest;
        self.hand_out(shares);
        self.give_way(&wanted);
        Ok(())
    }

    /// Puts leased tokens into the accounts, and answers the requests that wait for them.
    pub(super) fn hand_out(&mut self, shares: Vec<(KeyId, Option<Share>)>) {
        // Spending here frees places for grants that were not looked at; no change in the file
        // reports that.
        let waits = |share: &Share| share.has_more && !share.gains();
        let mut leased = shares.iter().filter_map(|(_, share)| share.as_ref());
        self.seen.look_again |= leased.any(waits);
        let Shared {
            accounts, clock, ..
        } = &*self.shared;
        for (key, share) in shares {
            let found = share.is_some();
            if let Some(share) = share {
                accounts.take_in(&key, share, clock.now());
            }
            accounts.answer(&key, &Ok(found));
        }
    }

    /// Gives other processes half of the tokens that no request here reserves, or all of them if this
    /// process ends. A lease request that gets nothing now is looked at again.
    fn give_way(&mut self, wanted: &[KeyId]) {
        for key in wanted {
            if let Some(account) = self.shared.accounts.get(key) {
                let given = if self.retired {
                    account.give_up_all()
                } else {
                    account.give_up_half()
                };
                self.seen.look_again |= given.is_empty();
                self.returns.extend(given);
            }
        }
    }

    /// Gives up half of the tokens that no request reserves, of every account, and answers when the
    /// file has that.
    pub(super) fn share_out(&mut self, waiting: Vec<tokio::sync::oneshot::Sender<()>>) {
        if waiting.is_empty() {
            return;
        }
        // A change that is seen only afterwards (a grant that has begun is one) would make this
        // process lease again what it gives up now.
        let shared = self.look_at_others().and_then(|()| {
            for account in self.shared.accounts.filter(|_| true) {
                self.returns.extend(account.give_up_half());
            }
            self.give_back()
        });
        if let Err(fault) = shared {
            // The next tick tries again; the waiting process notices by itself.
            return log::warn!("the ledger could not be shared out: {fault}");
        }
        for done in waiting {
            // A waiting process that has left is no fault.
            let _ = done.send(());
        }
    }

    /// Withdraws the lease requests of accounts that wait for nothing: they have left memory, or were
    /// loaded anew. Other processes would give tokens for them again and again.
    pub(super) fn withdraw_lease_requests(&self) -> rusqlite::Result<()> {
        let accounts = &self.shared.accounts;
        let waits = |key: &KeyId| accounts.get(key).is_some_and(|it| it.is_asking());
        let mut requests = books::wishes(&self.file, self.process)?;
        requests.retain(|(_, key)| !waits(key));
        if requests.is_empty() {
            return Ok(());
        }
        // Together, because each commit waits for the disk.
        let transaction = self.file.begin()?;
        for (number, _) in requests {
            books::want(&transaction, self.process, number, false)?;
        }
        transaction.commit()
    }

    /// Enters into the file what memory has given up. After a fault it is entered later; no process
    /// spends it until then.
    pub(super) fn give_back(&mut self) -> rusqlite::Result<()> {
        if self.returns.is_empty() {
            return Ok(());
        }
        let transaction = self.file.begin()?;
        books::give_back(&transaction, self.process, &self.returns)?;
        transaction.commit()?;
        self.returns.clear();
        Ok(())
    }
}

/// Leases what is free. If nothing is free and a request needs it, asks the other processes.
pub(super) fn lease(
    transaction: &Transaction<'_>,
    process: ProcessNumber,
    key: &KeyId,
    now: Timestamp,
    is_needed: bool,
) -> rusqlite::Result<Option<Share>> {
    let share = books::lease(transaction, process, key, now)?;
    if let Some(share) = &share {
        let wanted = share.elsewhere > 0 && !share.gains();
        if is_needed || !wanted {
            books::want(transaction, process, share.key, wanted)?;
        }
    }
    Ok(share)
}

/// The newest change, and the accounts in memory that changed since `seen`.
fn changed_accounts(
    transaction: &Transaction<'_>,
    seen: i64,
    accounts: &Accounts,
) -> rusqlite::Result<(i64, Vec<KeyId>)> {
    let (oldest, newest): (i64, i64) = transaction.query_row(
        "SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM changes",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let missed = oldest > seen.saturating_add(1) || newest < seen;
    if missed {
        let all = accounts.filter(|_| true);
        return Ok((newest, all.iter().map(|a| a.id.clone()).collect()));
    }
    let changed = transaction
        .prepare_cached(
            "SELECT DISTINCT id FROM changes JOIN keys ON keys.hash = changes.hash WHERE seq > ?1",
        )?
        .query_map([seen], |row| row.get::<_, String>(0).map(KeyId::new))?
        .filter(|key| !matches!(key, Ok(key) if accounts.get(key).is_none()))
        .collect::<rusqlite::Result<_>>()?;
    Ok((newest, changed))
}
