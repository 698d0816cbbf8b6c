//! Who is refused when there is too much to do: the newest first, and keys of plans with
//! priority last. What cannot be served now is told so at once; for memory alone some wait
//! (`turn.rs`).

use super::exchange::Exchange;
use super::hold::{Bounds, SMALL};
use crate::events::{self, InFlight, Shed};
use crate::machine;
use crate::shares::Shares;
use std::time::Duration;
use tollgate_types::{ErrorCode, PublicError};

/// The connection to the provider, and the watch over it.
const FILES_OF_A_REQUEST: u64 = 2;

/// Requests under way by key.
static OF_KEYS: Shares = Shares::new();

/// How much there may be at one time.
#[derive(Clone, Copy, Debug)]
pub struct LoadLimits {
    /// Requests under way.
    pub requests: u32,
    /// Bytes of request bodies, of what is made of them, and of answers that are translated whole.
    pub bodies: u64,
    /// Bytes of the largest body there may be.
    pub largest: u64,
    /// Bytes of memory of the whole program.
    pub memory: u64,
    /// Open files, for callers and for those that are asked for them.
    pub files: u64,
    /// Per cent of each that only keys with priority may use.
    pub reserved: u8,
}

/// Whose request it is, as far as it decides on who is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Nobody knows yet, or a key with priority.
    Whole,
    /// Any other key.
    Standard,
}

impl LoadLimits {
    fn share(&self, of: u64, rank: Rank) -> u64 {
        let reserved = match rank {
            Rank::Whole => 0,
            Rank::Standard => u64::from(self.reserved.min(100)),
        };
        // Rounded down, so that a reservation is never nothing.
        let rest = u128::from(of).saturating_mul(u128::from(100 - reserved));
        u64::try_from(rest.div_euclid(100)).unwrap_or(of)
    }

    /// Whether a request of this rank can be taken besides those under way, itself included.
    ///
    /// # Errors
    ///
    /// 503 `service_unavailable`.
    fn check(&self, rank: Rank, under_way: u64, connections: u64, memory: u64) -> Result<(), Shed> {
        if under_way > self.share(u64::from(self.requests), rank) {
            return Err(Shed::Requests);
        }
        // Of HTTP/2 one connection brings many requests.
        let files = under_way.saturating_mul(FILES_OF_A_REQUEST);
        if files.saturating_add(connections) > self.share(self.files, rank) {
            return Err(Shed::Files);
        }
        if memory > self.share(self.memory, rank) {
            return Err(Shed::Memory);
        }
        Ok(())
    }

    /// Whether a key may have so many requests under way: it takes no more than half of the
    /// files, so that others find some where there are few.
    ///
    /// # Errors
    ///
    /// 503 `service_unavailable`.
    fn check_key(&self, rank: Rank, under_way: u64) -> Result<(), Shed> {
        let most = self.share(self.files, rank).div_euclid(2);
        match under_way.saturating_mul(FILES_OF_A_REQUEST) > most {
            true => Err(Shed::Files),
            false => Ok(()),
        }
    }

    /// How much memory requests of this rank may hold. An eighth of it (of the program's memory a
    /// sixteenth) is for small ones, so that a few large ones leave room for everybody else, and
    /// half of the rest for what is made of bodies that were read; but one of the largest and an
    /// edited copy of it always fit.
    pub fn bounds(&self, rank: Rank) -> Bounds {
        let held = self.share(self.bodies, rank);
        let memory = self.share(self.memory, rank);
        let eighth = held.div_euclid(8);
        let for_small = eighth.min(held.saturating_sub(self.largest.saturating_mul(2)));
        let held_by_large = held.saturating_sub(for_small);
        Bounds {
            held,
            held_by_large,
            read_by_large: held_by_large.div_euclid(2),
            memory,
            memory_by_large: memory.saturating_sub(memory.div_euclid(16)),
            of_priority: rank == Rank::Whole,
        }
    }

    /// Bytes of the largest body that any key can send.
    pub fn largest_body(&self) -> u64 {
        let half = self.share(self.bodies, Rank::Standard).div_euclid(2);
        self.largest.min(half)
    }
}

/// How much memory a request may hold.
pub fn bounds(exchange: &Exchange) -> Bounds {
    exchange.snapshot.limits.load.bounds(rank(exchange))
}

/// How much memory an answer may hold until it is whole: that of a small request may have the share
/// of small ones, for a provider has made it and is paid for it, and it would be lost for the
/// bodies of others.
pub fn answer_bounds(exchange: &Exchange) -> Bounds {
    let bounds = bounds(exchange);
    match exchange.body.as_ref().is_none_or(|it| it.len() <= SMALL) {
        true => bounds.of_small(),
        false => bounds,
    }
}

/// Refuses a request for which there is no memory.
pub fn shed(why: Shed) -> PublicError {
    events::request_shed(why);
    overloaded()
}

/// The rank of a request.
pub fn rank(exchange: &Exchange) -> Rank {
    let identity = exchange
        .request
        .as_ref()
        .and_then(|request| request.identity.as_ref());
    let Some(identity) = identity else {
        return Rank::Whole;
    };
    let plans = &exchange.snapshot.priority_plans;
    match &identity.plan {
        Some(plan) if plans.contains(plan) => Rank::Whole,
        _ => Rank::Standard,
    }
}

/// Refuses a request for which there is no room.
///
/// # Errors
///
/// 503 `service_unavailable`.
pub fn check(exchange: &Exchange) -> Result<(), PublicError> {
    let limits = exchange.snapshot.limits.load;
    let under_way = u64::try_from(InFlight::count()).unwrap_or(0);
    let connections = u64::try_from(events::connections()).unwrap_or(0);
    let memory = machine::resident();
    let checked = limits.check(rank(exchange), under_way, connections, memory);
    if checked == Err(Shed::Memory) {
        machine::give_back_soon();
    }
    checked.map_err(shed)
}

/// Refuses a request whose key is known and has too much under way, or for which there is no
/// room.
///
/// # Errors
///
/// 503 `service_unavailable`.
pub fn check_key(exchange: &mut Exchange) -> Result<(), PublicError> {
    check(exchange)?;
    let request = exchange.request.as_ref();
    let Some(identity) = request.and_then(|request| request.identity.as_ref()) else {
        return Ok(());
    };
    let (of_key, under_way) = OF_KEYS.take(identity.key.as_str());
    let checked = exchange
        .snapshot
        .limits
        .load
        .check_key(rank(exchange), under_way);
    exchange.of_key = Some(of_key);
    checked.map_err(shed)
}

/// The error for a request that comes at a bad time.
pub fn overloaded() -> PublicError {
    /// Short: what is in the way ends within seconds, or others are refused then.
    const AGAIN: Duration = Duration::from_secs(1);
    PublicError::new(
        ErrorCode::ServiceUnavailable,
        "the gateway has too much to do: try again shortly",
    )
    .with_retry_after(AGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: LoadLimits = LoadLimits {
        requests: 10,
        bodies: 1000,
        largest: 400,
        memory: 1000,
        files: 30,
        reserved: 10,
    };

    #[test]
    fn the_last_share_is_for_keys_with_priority() {
        let (standard, whole) = (Rank::Standard, Rank::Whole);
        assert_eq!(LIMITS.check(standard, 9, 9, 900), Ok(()));
        assert_eq!(LIMITS.check(standard, 10, 0, 0), Err(Shed::Requests));
        assert_eq!(LIMITS.check(whole, 10, 10, 1000), Ok(()));
        assert_eq!(LIMITS.check(whole, 11, 0, 0), Err(Shed::Requests));
        assert_eq!(LIMITS.check(standard, 1, 1, 901), Err(Shed::Memory));
        assert_eq!(LIMITS.check(whole, 1, 1, 1001), Err(Shed::Memory));
        // Two files for each request, and one for each connection.
        assert_eq!(LIMITS.check(standard, 9, 10, 0), Err(Shed::Files));
        assert_eq!(LIMITS.check(whole, 10, 11, 0), Err(Shed::Files));
        // Half of them for one key.
        assert_eq!(LIMITS.check_key(standard, 6), Ok(()));
        assert_eq!(LIMITS.check_key(standard, 7), Err(Shed::Files));
        assert_eq!(LIMITS.check_key(whole, 7), Ok(()));
        assert_eq!(LIMITS.check_key(whole, 8), Err(Shed::Files));
    }

    #[test]
    fn large_requests_leave_an_eighth_to_small_ones_where_the_largest_fits_all_the_same() {
        let whole = Bounds {
            held: 1000,
            held_by_large: 875,
            read_by_large: 437,
            memory: 1000,
            memory_by_large: 938,
            of_priority: true,
        };
        assert_eq!(LIMITS.bounds(Rank::Whole), whole);
        let with = |largest| LoadLimits { largest, ..LIMITS };
        for (largest, by_large) in [(400, 800), (440, 880), (450, 900)] {
            let bounds = with(largest).bounds(Rank::Standard);
            let read = (bounds.held_by_large, bounds.read_by_large);
            assert_eq!(read, (by_large, largest));
            assert_eq!(with(largest).largest_body(), largest);
        }
        assert_eq!(with(5000).largest_body(), 450);
    }

    #[test]
    fn without_a_reservation_all_are_alike() {
        let limits = LoadLimits {
            reserved: 0,
            memory: u64::MAX,
            files: u64::MAX,
            ..LIMITS
        };
        assert_eq!(limits.check(Rank::Standard, 10, 1, u64::MAX), Ok(()));
    }
}
