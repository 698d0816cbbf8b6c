//! Limits of one configuration: sizes, times, and concurrency. Values only; `gateway` decides
//! which request is refused.

use crate::machine;
use std::time::Duration;
use tollgate_config::LimitSettings;

/// The limits of a request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// The body's size and time.
    pub body: BodyLimits,
    /// How long an unused connection of a caller is kept.
    pub keepalive: Duration,
    /// How long a caller may take to accept a piece of an answer.
    pub write: Duration,
    /// The least rate at which a client must read, in bytes a second.
    pub min_send_rate: Option<u64>,
    /// How long a head may take.
    pub head_timeout: Duration,
    /// Connections at one time.
    pub connections: u32,
    /// Connections at one time from one address.
    pub connections_per_address: Option<u32>,
    /// Requests at one time over one connection of HTTP/2.
    pub http2_streams: u32,
    /// The limits of concurrent work.
    pub load: LoadLimits,
}

impl Limits {
    /// Headers in one request: no client sends half as many, and Pingora's parser ends at 256.
    pub const MOST_HEADERS: usize = 128;

    /// From the configuration, within the limits of the machine.
    pub fn of(settings: &LimitSettings) -> Self {
        let memory = settings.memory.map(|memory| memory.get());
        let memory = memory.unwrap_or_else(machine::usual_memory);
        let load = LoadLimits {
            requests: settings.requests_in_flight,
            bodies: settings.bodies_within(memory).get(),
            largest: settings.body_bytes.get(),
            memory,
            files: machine::files_for_callers(),
            reserved: settings.reserved_for_priority,
        };
        Self {
            head_bytes: usize::try_from(settings.head_bytes.get()).unwrap_or(usize::MAX),
            body: BodyLimits {
                size: load.largest_body(),
                time: settings.body_timeout.get(),
                rate: settings
                    .min_body_rate
                    .map(|rate| rate.get())
                    .filter(|rate| *rate > 0),
            },
            keepalive: settings.keepalive_timeout.get(),
            write: settings.downstream_write_timeout.get(),
            min_send_rate: settings
                .min_send_rate
                .map(|rate| rate.get())
                .filter(|rate| *rate > 0),
            head_timeout: settings.head_timeout.get(),
            connections: settings.connections.min(machine::most_connections()),
            connections_per_address: settings.connections_per_address,
            http2_streams: settings.http2_streams,
            load,
        }
    }
}

/// The size of a body, and the time for it.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// Bytes.
    pub size: u64,
    /// For the whole body.
    pub time: Duration,
    /// The least rate after [`BodyLimits::GRACE`], in bytes a second.
    pub rate: Option<u64>,
}

impl BodyLimits {
    /// How long a body may be slower than its rate: a caller may take this long to begin.
    pub const GRACE: Duration = Duration::from_secs(10);

    /// The time left for the next piece, after `read` bytes in the time `passed`.
    pub fn left(&self, read: u64, passed: Duration) -> Duration {
        let paid = |rate: u64| {
            let micros = read.saturating_mul(1_000_000).div_euclid(rate.max(1));
            Self::GRACE.saturating_add(Duration::from_micros(micros))
        };
        let most = self.rate.map_or(self.time, paid).min(self.time);
        most.saturating_sub(passed)
    }
}

/// The limits of concurrent work.
#[derive(Clone, Copy, Debug)]
pub struct LoadLimits {
    /// Requests under way.
    pub requests: u32,
    /// Bytes of request bodies, their copies and translations, and answers that are held or translated whole.
    pub bodies: u64,
    /// Bytes of the largest body.
    pub largest: u64,
    /// Bytes of memory of the whole program.
    pub memory: u64,
    /// Open files, for clients and for the connections to providers.
    pub files: u64,
    /// Per cent of each that only keys with priority may use.
    pub reserved: u8,
}

/// The rank of a request's key, which decides which requests are refused first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// The key is not known yet, or has priority.
    Priority,
    /// Any other key.
    Standard,
}

impl LoadLimits {
    /// The part of `of` that requests of a rank may use.
    pub fn share(&self, of: u64, rank: Rank) -> u64 {
        let reserved = match rank {
            Rank::Priority => 0,
            Rank::Standard => u64::from(self.reserved.min(100)),
        };
        // Rounded down, so that the reserve is never zero.
        let rest = u128::from(of).saturating_mul(u128::from(100 - reserved));
        u64::try_from(rest.div_euclid(100)).unwrap_or(of)
    }

    /// Bytes of the largest body that any key can send.
    pub fn largest_body(&self) -> u64 {
        let half = self.share(self.bodies, Rank::Standard).div_euclid(2);
        self.largest.min(half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_body_has_its_grace_and_then_as_long_as_it_brings_bytes() {
        let limits = BodyLimits {
            size: 1 << 20,
            time: 60 * SECOND,
            rate: Some(1000),
        };
        assert_eq!(limits.left(0, Duration::ZERO), BodyLimits::GRACE);
        assert_eq!(limits.left(999, 10 * SECOND), Duration::from_millis(999));
        assert_eq!(limits.left(1, 11 * SECOND), Duration::ZERO, "a trickle");
        assert_eq!(limits.left(20_000, 20 * SECOND), 10 * SECOND);
        assert_eq!(
            limits.left(1 << 20, 59 * SECOND),
            SECOND,
            "never beyond its time"
        );
        let patient = BodyLimits {
            rate: None,
            ..limits
        };
        assert_eq!(patient.left(0, 20 * SECOND), 40 * SECOND);
    }
}
