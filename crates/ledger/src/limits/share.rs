//! The share of limits that one process may use.

use std::num::NonZeroU32;
use tollgate_types::Limits;

/// A part of a limit, in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part(u32);

/// The limits that one process applies to a key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    /// The limits of the key.
    pub(super) whole: Limits,
    /// What this process may use of them.
    pub(super) limits: Limits,
    pub(super) scope: Scope,
}

/// Whose requests the buckets of a process count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Scope {
    /// Those of all processes: this one is alone, or the shared server counts.
    #[default]
    AllProcesses,
    /// Its own. It has these parts of requests, input and output tokens.
    ThisProcess([Part; 3]),
}

impl Part {
    pub(super) const ALL: Self = Self(1_000_000_000);
    pub(super) const NONE: Self = Self(0);

    /// One of so many equal parts, rounded up.
    pub(super) const fn one_of(number: NonZeroU32) -> Self {
        Self(Self::ALL.0.div_ceil(number.get()))
    }

    /// So many billionths, at most all.
    pub(crate) fn billionths(part: u64) -> Self {
        u32::try_from(part).map_or(Self::ALL, |part| Self(part).min(Self::ALL))
    }

    /// This part of an amount, rounded up.
    pub(super) fn of(self, units: u64) -> u64 {
        let part = u128::from(units).saturating_mul(self.0.into());
        u64::try_from(part.div_ceil(Self::ALL.0.into())).unwrap_or(u64::MAX)
    }

    /// This part of a limit, rounded down, and at least one.
    pub(super) fn of_limit(self, limit: NonZeroU32) -> NonZeroU32 {
        let part = u64::from(limit.get()).saturating_mul(self.0.into());
        let part = u32::try_from(part / u64::from(Self::ALL.0)).unwrap_or(u32::MAX);
        NonZeroU32::new(part).unwrap_or(NonZeroU32::MIN)
    }
}

impl Share {
    pub(super) const fn whole(limits: &Limits) -> Self {
        Self {
            whole: *limits,
            limits: *limits,
            scope: Scope::AllProcesses,
        }
    }

    /// A part of each limit, and so many concurrent requests, of the limits that there are.
    pub(super) fn of(limits: &Limits, parts: [Part; 3], concurrent: Option<NonZeroU32>) -> Self {
        let [requests, input, output] = parts;
        Self {
            whole: *limits,
            limits: Limits {
                requests: limits.requests.map(|it| requests.of_limit(it)),
                input_tokens: limits.input_tokens.map(|it| input.of_limit(it)),
                output_tokens: limits.output_tokens.map(|it| output.of_limit(it)),
                concurrent,
            },
            scope: Scope::ThisProcess(parts),
        }
    }

    /// That of one of so many processes.
    pub(super) fn equal(limits: &Limits, processes: NonZeroU32) -> Self {
        let part = Part::one_of(processes);
        let concurrent = limits.concurrent.map(|it| part.of_limit(it));
        Self::of(limits, [part; 3], concurrent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_limits_and_debts_are_rounded_to_the_safe_side() {
        let limit = |limit| NonZeroU32::new(limit).unwrap();
        let one_of = |number| Part::one_of(limit(number));
        assert_eq!(Part::ALL.of_limit(NonZeroU32::MAX), NonZeroU32::MAX);
        assert_eq!(Part::ALL.of(u64::MAX), u64::MAX);
        assert_eq!(Part::billionths(u64::MAX), Part::ALL);
        assert_eq!(one_of(1), Part::ALL);
        assert_eq!(one_of(3).of_limit(limit(9)), limit(3));
        assert_eq!(one_of(3).of_limit(limit(8)), limit(2));
        assert_eq!(one_of(3).of_limit(limit(2)), limit(1));
        assert_eq!(one_of(3).of(7), 3);
        assert_eq!(Part::billionths(0).of_limit(limit(9)), limit(1));
        assert_eq!(Part::billionths(0).of(9), 0);
    }
}
