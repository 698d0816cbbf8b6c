//! The share of one key in the resources of all keys.
//!
//! The counts are in the key's [`Identity`](crate::Identity), which every request carries: they are
//! exact and need no look-up.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Whether a key that uses `own` of a resource may take more of it, after which all keys use `held` of
/// `capacity`: it may if it uses no more than is still free.
///
/// One key alone can thus use half of a resource, two keys a third each, and `n` keys `1 / (n + 1)` each; as
/// much is always left for the next key (A. Choudhury, E. Hahne: Dynamic queue length thresholds for
/// shared-memory packet switches, 1998, with α = 1).
pub const fn leaves_room(own: u64, capacity: u64, held: u64) -> bool {
    own <= capacity.saturating_sub(held)
}

/// The resources that requests use while they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Requests to providers.
    Requests,
    /// Requests that the gateway answers by itself.
    LocalRequests,
    /// Bytes of memory for bodies.
    BodyBytes,
    /// Reads of the usage records.
    UsageReads,
    /// The slot to wait for memory; there is only one.
    MemoryWait,
    /// Answers that are read to their end after the client has disconnected.
    Drains,
}

/// The resources that the requests of one key use now. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct KeyShares(Arc<[AtomicU64; 6]>);

impl KeyShares {
    /// How much the key uses.
    pub fn held(&self, resource: Resource) -> u64 {
        self.count(resource).load(Ordering::Relaxed)
    }

    /// The share of a key that uses nothing.
    pub fn share(&self, resource: Resource) -> Share {
        Share {
            of: self.clone(),
            resource,
            amount: 0,
        }
    }

    /// Takes one of a resource.
    pub fn take_one(&self, resource: Resource) -> Share {
        let mut share = self.share(resource);
        share.grow(1);
        share
    }

    /// Takes the only one of a resource; `None` while another request has it.
    pub fn take_only(&self, resource: Resource) -> Option<Share> {
        let taken =
            self.count(resource)
                .compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
        let mut share = self.share(resource);
        share.amount = u64::from(taken.is_ok());
        taken.ok().map(|_| share)
    }

    fn count(&self, resource: Resource) -> &AtomicU64 {
        let [requests, local, bytes, reads, slot, drains] = &*self.0;
        match resource {
            Resource::Requests => requests,
            Resource::LocalRequests => local,
            Resource::BodyBytes => bytes,
            Resource::UsageReads => reads,
            Resource::MemoryWait => slot,
            Resource::Drains => drains,
        }
    }
}

/// The share of a key does not identify it.
impl PartialEq for KeyShares {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for KeyShares {}

/// The part of a resource that one request uses, returned on drop.
#[derive(Debug)]
pub struct Share {
    of: KeyShares,
    resource: Resource,
    amount: u64,
}

impl Share {
    /// The shares of its key.
    pub const fn of(&self) -> &KeyShares {
        &self.of
    }

    /// The amount.
    pub const fn amount(&self) -> u64 {
        self.amount
    }

    /// How much other requests of the key use.
    pub fn of_others(&self) -> u64 {
        self.of.held(self.resource).saturating_sub(self.amount)
    }

    /// Adds this amount.
    pub fn grow(&mut self, amount: u64) {
        self.of
            .count(self.resource)
            .fetch_add(amount, Ordering::Relaxed);
        self.amount = self.amount.saturating_add(amount);
    }

    /// Returns this amount, or all if it is less.
    pub fn shrink(&mut self, amount: u64) {
        let amount = amount.min(self.amount);
        self.of
            .count(self.resource)
            .fetch_sub(amount, Ordering::Relaxed);
        self.amount = self.amount.saturating_sub(amount);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink(self.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_holds_as_much_as_it_leaves() {
        const CAPACITY: u64 = 100;
        let (mut held, mut shares) = (0, Vec::new());
        for _ in 0..4 {
            let mut own = 0;
            while held < CAPACITY && leaves_room(own, CAPACITY, held + 1) {
                own += 1;
                held += 1;
            }
            shares.push(own);
        }
        // One after the other, so each took half of the free part.
        assert_eq!(shares, [50, 25, 13, 6]);
        // The first request of a key passes if anything is free.
        assert!(leaves_room(0, 1, 1));
        assert!(!leaves_room(1, 1, 2));
    }

    #[test]
    fn keys_that_take_turns_have_equal_shares_and_leave_one_more() {
        const CAPACITY: u64 = 120;
        let mut own = [0; 5];
        for turn in 0..1000 {
            let place = turn % own.len();
            let held: u64 = own.iter().sum();
            if leaves_room(own[place], CAPACITY, held + 1) {
                own[place] += 1;
            }
        }
        assert_eq!(own, [20; 5]);
    }

    #[test]
    fn shares_are_counted_by_key_and_resource_and_given_back() {
        let key = KeyShares::default();
        let one = key.take_one(Resource::Requests);
        let mut bytes = key.share(Resource::BodyBytes);
        bytes.grow(10);
        bytes.shrink(4);
        let other = key.take_one(Resource::Requests);
        assert_eq!((one.amount(), one.of_others()), (1, 1));
        assert_eq!((bytes.amount(), bytes.of_others()), (6, 0));
        assert_eq!(key.held(Resource::Requests), 2);
        assert_eq!(KeyShares::default().held(Resource::Requests), 0);
        drop((one, other, bytes));
        assert_eq!(key.held(Resource::Requests), 0);
        assert_eq!(key.held(Resource::BodyBytes), 0);
    }
}
