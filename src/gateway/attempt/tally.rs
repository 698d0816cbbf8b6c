//! How many attempts a request has made, and how many more it may make.

use tollgate_engine::candidate;

/// How many attempts a request has made, by what became of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// All attempts that were started.
    pub(super) started: usize,
    /// Attempts over a connection that the provider had just closed.
    pub(super) stale: usize,
    /// Attempts that found an address unreachable, so that another one is tried.
    pub(super) unreached: usize,
    /// Attempts that asked the only candidate again.
    pub(super) repeats: usize,
}

impl Tally {
    /// The most attempts of a request: a candidate can need several if its provider has just closed a
    /// connection.
    pub const MOST: usize = 16;

    /// A tally of attempts of which each used a closed connection.
    #[cfg(test)]
    pub fn of_stale(stale: usize) -> Self {
        Self {
            started: stale,
            stale,
            ..Self::default()
        }
    }

    /// Attempts that have reached their provider.
    pub const fn made(&self) -> usize {
        self.started.saturating_sub(self.taken_back())
    }

    const fn taken_back(&self) -> usize {
        self.stale.saturating_add(self.unreached)
    }

    /// How often the only candidate was asked again.
    pub const fn repeats(&self) -> usize {
        self.repeats
    }

    /// Whether another attempt is allowed.
    pub const fn may_go_on(&self) -> bool {
        self.started < Self::MOST
    }

    /// Whether another attempt may use a connection that could be closed already: some attempts are reserved
    /// for the other candidates.
    pub const fn may_be_stale(&self) -> bool {
        self.taken_back() < Self::MOST - candidate::MOST
    }

    /// Whether a provider may once more refuse a request without having failed: one that closes its
    /// connections properly accepts the next.
    pub const fn may_be_refused(&self) -> bool {
        const MOST_REFUSED: usize = 2;
        self.stale < MOST_REFUSED
    }

    /// Whether another address may be tried within the same attempt. After a time-out another candidate comes
    /// first (`has_next`), and the only one gets few addresses, because each takes the time to connect.
    pub const fn may_try_address(&self, has_timed_out: bool, has_next: bool) -> bool {
        const MOST_AFTER_TIMEOUTS: usize = 2;
        let is_worth_it = !has_timed_out || !has_next && self.unreached < MOST_AFTER_TIMEOUTS;
        is_worth_it && self.may_be_stale() && self.may_go_on()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_that_reach_no_provider_are_bounded_by_themselves() {
        const RESERVED: usize = candidate::MOST;
        const MOST: usize = Tally::MOST;
        let most_taken_back = MOST - RESERVED;
        // Attempts that were started, stale and unreached, and what they allow: one more attempt, a connection
        // that may be stale, a refusal, another address, and one after a time-out without another candidate.
        #[rustfmt::skip]
        let table = [
            ((0, 0, 0), [true, true, true, true, true]),
            ((2, 2, 0), [true, true, false, true, true]),
            ((2, 0, 2), [true, true, true, true, false]),
            ((most_taken_back, most_taken_back, 0), [true, false, false, false, false]),
            ((most_taken_back, 2, most_taken_back - 2), [true, false, false, false, false]),
            ((MOST, 0, 0), [false, true, true, false, false]),
        ];
        for ((started, stale, unreached), expected) in table {
            let tally = Tally {
                started,
                stale,
                unreached,
                repeats: 0,
            };
            let allowed = [
                tally.may_go_on(),
                tally.may_be_stale(),
                tally.may_be_refused(),
                tally.may_try_address(false, true),
                tally.may_try_address(true, false),
            ];
            assert_eq!(allowed, expected, "{tally:?}");
            assert!(!tally.may_try_address(true, true), "{tally:?}");
            assert_eq!(tally.made(), started - stale - unreached);
        }
    }
}
