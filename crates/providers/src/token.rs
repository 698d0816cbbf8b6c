//! A token as requests use it, and when it is fetched anew.
//!
//! Requests read it without a lock. A new one is due some minutes before the end of the current one. After
//! a failure the next attempt waits, twice as long each time, and the current token stays until its end.
//! All times are milliseconds of one monotonic clock.

use crate::aws::Signer;
use crate::error::FetchError;
use crate::source::{Fetched, Grant, Source};
use arc_swap::ArcSwapOption;
use http::{HeaderName, HeaderValue, header};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The longest time before its end at which a token is fetched anew. Metadata servers return the same token
/// until about then.
const MOST_AHEAD_MS: u64 = 5 * 60 * 1000;
/// The wait after the first failure, and after many.
const FIRST_WAIT_MS: u64 = 1000;
const LONGEST_WAIT_MS: u64 = 60 * 1000;
/// How often a provider that refuses a token can cause a refresh.
const REFUSED_EVERY_MS: u64 = 60 * 1000;

/// The token of a credential.
pub struct Token {
    source: Arc<Source>,
    /// The header that carries it.
    header: HeaderName,
    /// The provider and the credential, for operators.
    names: [Arc<str>; 2],
    held: ArcSwapOption<Held>,
    schedule: Mutex<Schedule>,
}

/// Proves to a provider that a request is the gateway's.
#[derive(Clone, Debug)]
pub enum Proof {
    /// A header.
    Header(HeaderName, HeaderValue),
    /// A parameter of the query.
    Query(QuerySecret),
    /// A signature, made when the rest of the head is complete.
    Signature(Signer),
}

impl Proof {
    /// The text without the secret, which some providers repeat.
    pub fn without_secret(&self, text: &str) -> String {
        /// Shorter values, such as `none`, are no secrets, and stand within other words.
        const SHORTEST: usize = 6;
        let secrets = match self {
            // A scheme can stand before the secret, such as `Bearer`.
            Self::Header(_, value) => {
                let value = value.to_str().unwrap_or_default();
                let behind = value.split_once(' ').map(|(_, secret)| secret);
                [Some(Cow::from(value)), behind.map(Cow::from)]
            }
            Self::Query(secret) => [
                Some(secret.secret()),
                secret
                    .pair
                    .split_once('=')
                    .map(|(_, encoded)| encoded.into()),
            ],
            // Nothing secret is sent.
            Self::Signature(_) => [None, None],
        };
        let secrets = secrets.into_iter().flatten();
        let secrets = secrets.filter(|secret| secret.len() >= SHORTEST);
        secrets.fold(text.to_owned(), |text, secret| {
            text.replace(&*secret, "[…]")
        })
    }
}

/// A secret as a parameter of the query. `Debug` shows its name alone.
#[derive(Clone, PartialEq, Eq)]
pub struct QuerySecret {
    name: Arc<str>,
    pair: Arc<str>,
}

impl QuerySecret {
    /// The secret under this name, which has only letters, digits, `-`, `_` and `.`.
    pub fn new(name: &str, secret: &str) -> Self {
        let encoded = form_urlencoded::byte_serialize(secret.as_bytes());
        Self {
            name: name.into(),
            pair: format!("{name}={}", encoded.collect::<String>()).into(),
        }
    }

    /// The secret. The caller must not show it.
    pub fn secret(&self) -> Cow<'_, str> {
        let mut pairs = form_urlencoded::parse(self.pair.as_bytes());
        pairs.next().map(|(_, secret)| secret).unwrap_or_default()
    }

    /// Name and secret as they stand in a query. The caller must not show them.
    pub fn expose(&self) -> &str {
        &self.pair
    }
}

impl std::fmt::Debug for QuerySecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("QuerySecret").field(&self.name).finish()
    }
}

/// A token that was fetched.
struct Held {
    proof: Proof,
    since: u64,
    ends: u64,
}

/// When the token is fetched, and the last outcome.
#[derive(Default)]
struct Schedule {
    due: u64,
    is_under_way: bool,
    /// Failures in a row.
    failures: u32,
    failure: Option<FetchError>,
    /// From when on a refusal causes a refresh.
    heeds_refusals_from: u64,
    /// Whether a refusal has caused the refresh that is due.
    was_refused: bool,
}

/// Why there is no token to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The reason.
    pub missing: Missing,
    /// How long until the next attempt.
    pub retry_in: Duration,
}

/// The reason why a request cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The first token is being fetched.
    First,
    /// The token has ended, or there was none, and none can be fetched.
    Refresh,
}

/// The changes by an attempt to fetch.
pub(crate) struct Outcome {
    /// How long the token is valid: the new one, or the old one after a failure.
    pub(crate) valid_for: Option<Duration>,
    /// How long until the next attempt.
    pub(crate) next_in: Duration,
    /// Whether the token is the first, or the first after a failure.
    pub(crate) is_news: bool,
    /// Whether the provider had refused the token before.
    pub(crate) was_refused: bool,
}

impl Token {
    /// No token yet; the first one is due at once.
    pub fn new(source: Arc<Source>, header: HeaderName, names: [Arc<str>; 2]) -> Self {
        Self {
            source,
            header,
            names,
            held: ArcSwapOption::empty(),
            schedule: Mutex::default(),
        }
    }

    /// Where it comes from.
    pub const fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// The names of its provider and of its credential.
    pub fn names(&self) -> [&str; 2] {
        self.names.each_ref().map(|name| &**name)
    }

    /// The current token, as requests carry it. `None` until one was fetched.
    pub fn proof(&self) -> Option<Proof> {
        let held = self.held.load();
        held.as_ref().map(|it| it.proof.clone())
    }

    /// Why no request can be sent with it. `None`: one can.
    pub fn lack(&self, now: u64) -> Option<Lack> {
        const SOON: Duration = Duration::from_secs(1);
        if self.held.load().as_ref().is_some_and(|it| now < it.ends) {
            return None;
        }
        let schedule = self.schedule.lock();
        let next = Duration::from_millis(schedule.due.saturating_sub(now));
        Some(Lack {
            missing: match schedule.failure {
                None => Missing::First,
                Some(_) => Missing::Refresh,
            },
            retry_in: next.max(SOON),
        })
    }

    /// How long it is still valid. `None`: there is none.
    pub fn valid_for(&self, now: u64) -> Option<Duration> {
        let held = self.held.load();
        let left = held.as_ref()?.ends.saturating_sub(now);
        (left > 0).then(|| Duration::from_millis(left))
    }

    /// Why the last attempt to fetch one has failed. `None`: it has not.
    pub fn failure(&self) -> Option<FetchError> {
        self.schedule.lock().failure.clone()
    }

    /// A provider has refused the token of a request that was sent at `sent`: a new one is fetched early,
    /// unless that has happened within the last minute or the token has changed since.
    pub fn refused(&self, sent: u64, now: u64) {
        if self.held.load().as_ref().is_none_or(|it| it.since > sent) {
            return;
        }
        let mut schedule = self.schedule.lock();
        if now < schedule.heeds_refusals_from || schedule.is_under_way {
            return;
        }
        schedule.heeds_refusals_from = now.saturating_add(REFUSED_EVERY_MS);
        schedule.was_refused = true;
        schedule.due = now;
    }

    /// Begins to fetch it if that is due and not under way. [`Token::end`] ends it.
    pub(crate) fn begin(&self, now: u64) -> bool {
        let mut schedule = self.schedule.lock();
        let is_due = !schedule.is_under_way && now >= schedule.due;
        schedule.is_under_way |= is_due;
        is_due
    }

    /// Ends an attempt that has no waiter left.
    pub(crate) fn abandon(&self) {
        self.schedule.lock().is_under_way = false;
    }

    /// Takes in what an attempt that began at `began` has fetched. `random` is between 0 and 1.
    pub(crate) fn end(
        &self,
        fetched: Result<Fetched, FetchError>,
        began: u64,
        now: u64,
        random: f64,
    ) -> Result<Outcome, (FetchError, Outcome)> {
        let fetched = fetched.and_then(|it| Ok((self.proof_of(&it)?, millis(it.lifetime))));
        let mut schedule = self.schedule.lock();
        schedule.is_under_way = false;
        let was_refused = schedule.was_refused;
        // A failure leaves it to the attempt that brings the new token.
        schedule.was_refused = was_refused && fetched.is_err();
        match fetched {
            Ok((proof, lifetime)) => {
                let ends = began.saturating_add(lifetime);
                let since = now;
                let earlier = self.held.swap(Some(Arc::new(Held { proof, since, ends })));
                let is_news = earlier.is_none() || schedule.failures > 0;
                let ahead = part(lifetime.div_euclid(4).min(MOST_AHEAD_MS), 0.75, 1.0, random);
                // A token that ends within a second must not make a flood of requests to its service.
                let least = now.saturating_add(FIRST_WAIT_MS);
                schedule.due = ends.saturating_sub(ahead).max(least);
                schedule.failures = 0;
                schedule.failure = None;
                Ok(Outcome {
                    valid_for: Some(Duration::from_millis(lifetime)),
                    next_in: Duration::from_millis(schedule.due.saturating_sub(now)),
                    is_news,
                    was_refused,
                })
            }
            Err(error) => {
                const MOST_DOUBLINGS: u32 = 16;
                let doubled = 1_u64 << schedule.failures.min(MOST_DOUBLINGS);
                let wait = FIRST_WAIT_MS.saturating_mul(doubled).min(LONGEST_WAIT_MS);
                let wait = part(wait, 0.75, 1.25, random);
                schedule.due = now.saturating_add(wait);
                schedule.failures = schedule.failures.saturating_add(1);
                schedule.failure = Some(error.clone());
                drop(schedule);
                let outcome = Outcome {
                    valid_for: self.valid_for(now),
                    next_in: Duration::from_millis(wait),
                    is_news: true,
                    was_refused,
                };
                Err((error, outcome))
            }
        }
    }

    /// Tokens: `Bearer` before the token in `authorization`, the token alone in any other header.
    fn proof_of(&self, fetched: &Fetched) -> Result<Proof, FetchError> {
        let from = "the source of tokens";
        if fetched.lifetime.is_zero() {
            return Err(FetchError::answer(from, "a token that is still valid"));
        }
        let token = match &fetched.grant {
            Grant::Keys(signer) => return Ok(Proof::Signature(signer.clone())),
            Grant::Token(token) => token.expose(),
        };
        let is_plain = |byte: u8| byte.is_ascii_graphic();
        if token.is_empty() || !token.bytes().all(is_plain) {
            return Err(FetchError::answer(
                from,
                "a token that a header can carry: visible ASCII characters, no spaces",
            ));
        }
        let text = match self.header == header::AUTHORIZATION {
            true => format!("Bearer {token}"),
            false => token.to_owned(),
        };
        let mut value = HeaderValue::try_from(text)
            .map_err(|_| FetchError::answer(from, "a token that a header can carry"))?;
        value.set_sensitive(true);
        Ok(Proof::Header(self.header.clone(), value))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("names", &self.names)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A part of a span: `random` chooses between the least and the most.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "some minutes in milliseconds, and never below 0"
)]
fn part(span: u64, least: f64, most: f64, random: f64) -> u64 {
    (span as f64 * random.mul_add(most - least, least)) as u64
}

#[cfg(test)]
mod tests;
