//! What was learnt of one source: a fit to real counts, and one to lengths alone.
//!
//! Learning costs some microseconds, and counting a body to learn from it milliseconds, so that
//! only some requests teach: all of the first, then one a second at most.

use once_cell::sync::Lazy;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;
use tollgate_count::{Count, Fit};
use tollgate_types::InputRates;

/// The fits of one source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fits {
    /// To counts by vocabulary and rules.
    pub text: Fit,
    /// To lengths.
    pub length: Fit,
}

/// What was learnt of one source, and when it learns next.
#[derive(Default)]
pub struct Learnt {
    fits: Mutex<Fits>,
    /// Milliseconds since the program began.
    next: AtomicU64,
    taught: AtomicU64,
    has_news: AtomicBool,
    rates: Rates,
}

/// [`InputRates`] for all to read.
struct Rates {
    per_kib: AtomicU32,
    constant: AtomicU32,
    tools: AtomicU32,
}

impl Default for Rates {
    fn default() -> Self {
        let InputRates {
            per_kib,
            constant,
            tools,
        } = InputRates::default();
        Self {
            per_kib: per_kib.into(),
            constant: constant.into(),
            tools: tools.into(),
        }
    }
}

/// Requests that teach one after the other, before they teach now and then.
const AT_FIRST: u64 = 64;
/// How often one teaches then, in milliseconds.
const EVERY_MS: u64 = 1_000;

static BEGAN: Lazy<Instant> = Lazy::new(Instant::now);

impl Learnt {
    /// With what was learnt before.
    pub fn with(fits: Fits) -> Self {
        let taught = fits.length.reports();
        let learnt = Self {
            fits: Mutex::new(fits),
            taught: taught.into(),
            ..Self::default()
        };
        learnt.publish(&learnt.fits.lock());
        learnt
    }

    /// Whether the request at hand is one to learn from. Says so to one of those that ask at
    /// the same time.
    pub fn wants_one(&self) -> bool {
        if self.taught.load(Ordering::Relaxed) < AT_FIRST {
            return true;
        }
        let now = u64::try_from(BEGAN.elapsed().as_millis()).unwrap_or(u64::MAX);
        let next = self.next.load(Ordering::Relaxed);
        let after = now.saturating_add(EVERY_MS);
        now >= next
            && self
                .next
                .compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Learns what a provider has reported for a request of this length, and of this count
    /// where it was counted.
    pub fn learn(&self, by_length: &Count, by_text: Option<&Count>, reported: u64) {
        let mut fits = self.fits.lock();
        let mut has_learnt = fits.length.learn(by_length, reported);
        if let Some(by_text) = by_text {
            has_learnt |= fits.text.learn(by_text, reported);
        }
        if has_learnt {
            self.taught.fetch_add(1, Ordering::Relaxed);
            self.has_news.store(true, Ordering::Relaxed);
            self.publish(&fits);
        }
    }

    fn publish(&self, fits: &Fits) {
        const PER_KIB: f64 = 256.0;
        let fit = &fits.length;
        // Before a fit can say how wrong it is, a caller's first requests could bend it.
        if !fit.is_used() || fit.error_p95().is_none() {
            return;
        }
        let rates = &self.rates;
        rates
            .per_kib
            .store(whole(PER_KIB * fit.factor()), Ordering::Relaxed);
        rates
            .constant
            .store(whole(fit.constant()), Ordering::Relaxed);
        rates
            .tools
            .store(whole(fit.tools_constant()), Ordering::Relaxed);
    }

    /// What the provider makes of the length of requests.
    pub fn rates(&self) -> InputRates {
        InputRates {
            per_kib: self.rates.per_kib.load(Ordering::Relaxed),
            constant: self.rates.constant.load(Ordering::Relaxed),
            tools: self.rates.tools.load(Ordering::Relaxed),
        }
    }

    /// The fits as they are.
    pub fn fits(&self) -> Fits {
        self.fits.lock().clone()
    }

    /// Refines a count by what was reported for others.
    pub fn refine(&self, count: Count) -> Count {
        count.refined(&self.fits.lock().text)
    }

    /// Whether anything was learnt since the last time that this was asked.
    pub fn take_news(&self) -> bool {
        self.has_news.swap(false, Ordering::Relaxed)
    }
}

/// Whole tokens; less than none is none.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts from floats saturate"
)]
fn whole(tokens: f64) -> u32 {
    tokens.ceil() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_length(text_bytes: u64) -> Count {
        Count::by_bytes(text_bytes, 0, false)
    }

    #[test]
    fn rates_follow_what_is_reported() {
        let learnt = Learnt::default();
        assert_eq!(learnt.rates(), InputRates::default());
        for bytes in (1_000..60_000).step_by(500) {
            learnt.learn(&by_length(bytes), None, bytes / 2 + 40);
        }
        let rates = learnt.rates();
        assert!(rates.per_kib.abs_diff(512) < 16, "{rates:?}");
        assert!(learnt.take_news());
        assert!(!learnt.take_news());
    }

    #[test]
    fn after_the_first_requests_one_a_second_teaches() {
        let learnt = Learnt::default();
        for _ in 0..AT_FIRST {
            assert!(learnt.wants_one());
            learnt.learn(&by_length(4_000), None, 1_000);
        }
        let taught = (0..1_000).filter(|_| learnt.wants_one()).count();
        // A slow machine may let a second or two pass meanwhile.
        assert!((1..5).contains(&taught), "{taught}");
    }

    #[test]
    fn what_was_learnt_before_is_in_use_at_once() {
        let learnt = Learnt::default();
        for bytes in (1_000..60_000).step_by(500) {
            learnt.learn(&by_length(bytes), None, bytes / 3);
        }
        let again = Learnt::with(learnt.fits());
        assert_eq!(again.rates(), learnt.rates());
    }
}
