//! Which requests are refused under load.
//!
//! New requests are refused before running ones are affected: first those of a key that uses more than it
//! leaves for others, last those of plans with priority. The gateway refuses at once; only some requests
//! wait, for memory (`memory_admission.rs`).

use super::exchange::Exchange;
use super::memory_permit::{Bounds, SMALL};
use crate::limits::{LoadLimits, Rank};
use crate::machine;
use std::time::Duration;
use tollgate_telemetry::events::{self, InFlight, Shed};
use tollgate_types::{ErrorCode, Identity, KeyShares, PublicError, Resource, Share, leaves_room};

/// Counts a request among the concurrent ones.
pub struct Concurrent {
    /// Among those of its key, once that is known.
    of_key: Option<Share>,
    /// Among all.
    in_flight: InFlight,
}

impl Concurrent {
    /// One more request, whose key is not known yet.
    pub fn begin() -> Self {
        Self {
            of_key: None,
            in_flight: InFlight::begin(),
        }
    }

    /// Stops counting the request, which is answered, while its client still sends. `false`: too many
    /// clients do, and the gateway does not wait for this one.
    pub fn linger(&mut self) -> bool {
        self.of_key = None;
        self.in_flight.linger()
    }
}

/// The connection to the provider, and the watch over it.
const FILES_OF_A_REQUEST: u64 = 2;

impl LoadLimits {
    /// The most concurrent requests that the gateway answers itself. They have a limit of their own, so that
    /// it answers them while providers keep it busy.
    fn local_requests(&self) -> u64 {
        const LEAST: u64 = 16;
        u64::from(self.requests).div_euclid(8).max(LEAST)
    }

    /// Checks whether a request of this rank is within the limits. `now` includes it.
    ///
    /// # Errors
    ///
    /// The limit that it exceeds.
    fn check(&self, rank: Rank, of_key: Option<u64>, now: Load) -> Result<(), Shed> {
        // The key's other requests.
        let own = of_key.unwrap_or(0).saturating_sub(1);
        if now.is_local {
            let most = self.share(self.local_requests(), rank);
            fits(
                own,
                most,
                now.local,
                [Shed::LocalRequests, Shed::KeyLocalRequests],
            )?;
        } else {
            let most = self.share(u64::from(self.requests), rank);
            fits(
                own,
                most,
                now.under_way,
                [Shed::Requests, Shed::KeyRequests],
            )?;
            // An HTTP/2 connection has many requests.
            let files = now.under_way.saturating_mul(FILES_OF_A_REQUEST);
            let files = files.saturating_add(now.connections);
            let own = own.saturating_mul(FILES_OF_A_REQUEST);
            let most = self.share(self.files, rank);
            fits(own, most, files, [Shed::Files, Shed::KeyFiles])?;
        }
        if now.memory > self.share(self.memory, rank) {
            return Err(Shed::Memory);
        }
        Ok(())
    }

    /// The memory that requests of this rank may use. An eighth of it (a sixteenth of the process's memory)
    /// is for small requests, so that a few large ones leave room for the others. Half of the rest is for
    /// copies and translations of bodies. One of the largest bodies and an edited copy of it always fit.
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
            of_priority: rank == Rank::Priority,
        }
    }
}

/// The current use of each resource, including the request in question.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Whether the gateway answers the request by itself.
    is_local: bool,
    under_way: u64,
    local: u64,
    connections: u64,
    memory: u64,
}

/// Checks that `held` of a resource is within `most`, and that `own`, the part of the key's other
/// requests, is within the key's share.
fn fits(own: u64, most: u64, held: u64, [all, of_key]: [Shed; 2]) -> Result<(), Shed> {
    match () {
        () if held > most => Err(all),
        () if !leaves_room(own, most, held) => Err(of_key),
        () => Ok(()),
    }
}

/// The memory that a request may use.
pub fn bounds(exchange: &Exchange) -> Bounds {
    exchange.snapshot.limits.load.bounds(rank(exchange))
}

/// The counters of the request's key.
pub fn shares(exchange: &Exchange) -> Option<&KeyShares> {
    identity(exchange).map(|identity| &identity.shares)
}

fn identity(exchange: &Exchange) -> Option<&Identity> {
    exchange.stage.identity().map(|identity| &**identity)
}

/// The memory that an answer may use until it is complete. The answer of a small request may use the part
/// of small requests: it is already paid, and the bodies of other requests must not cause its loss.
pub fn answer_bounds(exchange: &Exchange) -> Bounds {
    let bounds = bounds(exchange);
    match exchange.stage.body().is_none_or(|it| it.len() <= SMALL) {
        true => bounds.of_small(),
        false => bounds,
    }
}

/// The error for a request that exceeds a limit. Counts it in the metrics.
pub fn shed(why: Shed) -> PublicError {
    events::request_shed(why);
    match why.is_for_the_key() {
        true => over_its_share(why),
        false => overloaded(),
    }
}

/// The rank of a request.
pub fn rank(exchange: &Exchange) -> Rank {
    let Some(identity) = identity(exchange) else {
        return Rank::Priority;
    };
    let plans = &exchange.snapshot.priority_plans;
    match &identity.plan {
        Some(plan) if plans.contains(plan) => Rank::Priority,
        _ => Rank::Standard,
    }
}

/// Refuses a request before its key is known, if a limit of all keys is reached.
///
/// # Errors
///
/// 503 `service_unavailable`.
pub fn check(exchange: &Exchange) -> Result<(), PublicError> {
    let mut now = load(exchange);
    // The request itself is counted once its key is known.
    now.under_way = now.under_way.saturating_add(1);
    now.local = now.local.saturating_add(1);
    refuse(exchange, Rank::Priority, None, now)
}

/// Counts a request whose key is known, and refuses it if a limit or the key's share is reached.
///
/// # Errors
///
/// 503 `service_unavailable`, 429 `rate_limit_exceeded`.
pub fn check_key(exchange: &mut Exchange) -> Result<(), PublicError> {
    let resource = match is_local(exchange) {
        true => Resource::LocalRequests,
        false => Resource::Requests,
    };
    let of_key = shares(exchange).map(|shares| shares.take_one(resource));
    let concurrent = &mut exchange.concurrent;
    concurrent.of_key = of_key;
    match resource {
        Resource::LocalRequests => concurrent.in_flight.count_as_local(),
        _ => concurrent.in_flight.count_as_upstream(),
    }
    let of_key = concurrent.of_key.as_ref();
    // Including this one.
    let of_key = of_key.map(|it| it.of_others().saturating_add(it.amount()));
    refuse(exchange, rank(exchange), of_key, load(exchange))
}

/// Whether the gateway answers a request itself.
fn is_local(exchange: &Exchange) -> bool {
    let request = exchange.stage.request();
    request.is_some_and(|it| it.endpoint.is_local())
}

fn load(exchange: &Exchange) -> Load {
    Load {
        is_local: is_local(exchange),
        under_way: InFlight::count(),
        local: InFlight::local(),
        connections: u64::try_from(events::connections()).unwrap_or(0),
        memory: machine::resident(),
    }
}

fn refuse(
    exchange: &Exchange,
    rank: Rank,
    of_key: Option<u64>,
    now: Load,
) -> Result<(), PublicError> {
    let checked = exchange.snapshot.limits.load.check(rank, of_key, now);
    if checked == Err(Shed::Memory) {
        machine::schedule_give_back();
    }
    checked.map_err(shed)
}

/// Short, because most requests end within seconds.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The error for a request that a full gateway refuses.
pub fn overloaded() -> PublicError {
    PublicError::new(
        ErrorCode::ServiceUnavailable,
        "the gateway is at its limit of concurrent work; retry in a second",
    )
    .with_retry_after(RETRY_AFTER)
}

/// The error for a request whose key is beyond its share while the gateway is busy: a request with another
/// key would be served.
fn over_its_share(why: Shed) -> PublicError {
    let message = match why {
        Shed::KeyBodies => {
            "this API key has too many bytes of request bodies in progress while the gateway is busy; \
             retry when some of its requests have ended"
        }
        _ => {
            "this API key has too many requests in progress while the gateway is busy; retry when some \
             of them have ended"
        }
    };
    PublicError::new(ErrorCode::RateLimitExceeded, message).with_retry_after(RETRY_AFTER)
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

    const fn load(under_way: u64, connections: u64, memory: u64) -> Load {
        Load {
            is_local: false,
            under_way,
            local: 0,
            connections,
            memory,
        }
    }

    #[test]
    fn the_last_share_is_for_keys_with_priority() {
        let check = |rank, now| LIMITS.check(rank, Some(1), now);
        let (standard, priority) = (Rank::Standard, Rank::Priority);
        assert_eq!(check(standard, load(9, 9, 900)), Ok(()));
        assert_eq!(check(standard, load(10, 0, 0)), Err(Shed::Requests));
        assert_eq!(check(priority, load(10, 10, 1000)), Ok(()));
        assert_eq!(check(priority, load(11, 0, 0)), Err(Shed::Requests));
        assert_eq!(check(standard, load(1, 1, 901)), Err(Shed::Memory));
        assert_eq!(check(priority, load(1, 1, 1001)), Err(Shed::Memory));
        // Two files for each request, and one for each connection.
        assert_eq!(check(standard, load(9, 10, 0)), Err(Shed::Files));
        assert_eq!(check(priority, load(10, 11, 0)), Err(Shed::Files));
    }

    #[test]
    fn a_key_has_no_more_than_it_leaves() {
        let check = |of_key, now| LIMITS.check(Rank::Standard, Some(of_key), now);
        // Alone, half of nine.
        assert_eq!(check(5, load(5, 1, 0)), Ok(()));
        assert_eq!(check(6, load(6, 1, 0)), Err(Shed::KeyRequests));
        assert_eq!(check(1, load(6, 1, 0)), Ok(()), "another key");
        assert_eq!(check(3, load(8, 1, 0)), Err(Shed::KeyRequests));
        // Of 27 files.
        assert_eq!(check(3, load(5, 13, 0)), Ok(()));
        assert_eq!(check(3, load(5, 14, 0)), Err(Shed::KeyFiles));
    }

    #[test]
    fn local_requests_have_room_whatever_providers_keep_under_way() {
        let local = |local| Load {
            is_local: true,
            local,
            ..load(1000, 1000, 0)
        };
        let check = |of_key, now| LIMITS.check(Rank::Standard, Some(of_key), now);
        assert_eq!(check(1, local(1)), Ok(()));
        assert_eq!(check(1, local(14)), Ok(()));
        assert_eq!(check(1, local(15)), Err(Shed::LocalRequests));
        assert_eq!(check(9, local(9)), Err(Shed::KeyLocalRequests));
    }

    #[test]
    fn large_requests_leave_an_eighth_to_small_ones_where_the_largest_fits_all_the_same() {
        let all = Bounds {
            held: 1000,
            held_by_large: 875,
            read_by_large: 437,
            memory: 1000,
            memory_by_large: 938,
            of_priority: true,
        };
        assert_eq!(LIMITS.bounds(Rank::Priority), all);
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
        assert_eq!(
            limits.check(Rank::Standard, None, load(10, 1, u64::MAX)),
            Ok(())
        );
    }
}
