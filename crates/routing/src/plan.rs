//! Who is asked, in which order, and why: a pure function of what is known at one moment.
//!
//! The unit is a [`Seat`](crate::health::Seat): a credential at a deployment, for that is
//! what a conversation's prompt cache belongs to. Priorities come first, among one priority
//! those that speak the caller's format, and among those the balancing decides, or the
//! conversation (see `order`). What is benched or full stands aside; where nothing else is
//! left, those that are benched are asked all the same, first the one whose cooldown ends
//! first, because a request that fails upstream is no worse than one that is refused here. Two things are never overruled:
//! a limit, and a wait that a provider has asked for with a 429.

mod order;
#[cfg(test)]
mod tests;

use crate::health::{Full, Place, Seat, Standing, Whose};
use crate::settings::Balance;
use order::Entry;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;
use tollgate_types::Format;

/// How requests are spread over what can answer them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Balancing {
    /// Among equals.
    pub balance: Balance,
    /// How much more than its share a seat may have under way before conversations move on.
    pub load_factor: f64,
    /// Requests under way that a seat may always have.
    pub slack: u32,
}

/// What is known of a request.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The caller's format.
    pub format: Format,
    /// Tokens are to be counted, which a provider does in the caller's format or not at all.
    pub counts_tokens: bool,
    /// The provider and the credential that must be asked: what the request names is stored
    /// there.
    pub stored_at: Option<(&'a str, &'a str)>,
    /// The conversation that it belongs to, as a hash.
    pub conversation: Option<u64>,
    /// Tokens that it will have, about.
    pub tokens: u64,
    /// Milliseconds, of the clock that breakers are told.
    pub now: u64,
    /// Any number: the same gives the same order.
    pub random: u64,
}

/// Why a candidate stands where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is no other of its rank.
    Only,
    /// Drawn by weight.
    Weight,
    /// It has the least under way.
    Load,
    /// Its first tokens come soonest.
    Latency,
    /// The conversation is here.
    Conversation,
    /// The conversation's own place has more than its share under way.
    Overflow,
    /// It comes after another one of its rank.
    Next,
    /// It is benched, and nothing else is left.
    LastResort,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Only => "only one of its rank",
            Self::Weight => "by weight",
            Self::Load => "least in flight",
            Self::Latency => "soonest first token",
            Self::Conversation => "conversation",
            Self::Overflow => "conversation, overflow",
            Self::Next => "next",
            Self::LastResort => "last resort",
        })
    }
}

/// A candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its place among those of the model.
    pub place: usize,
    /// Its seat there.
    pub seat: usize,
    /// The format in which it is asked.
    pub format: Format,
    /// Why it stands there.
    pub why: Why,
}

/// Why a seat is no candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It has no counter of tokens for the format.
    CannotCount,
    /// What the request names is stored elsewhere.
    StoredElsewhere,
    /// A breaker is open until then; one that is half-open, while its one attempt lasts.
    Open {
        /// Whose.
        whose: Whose,
        /// In milliseconds.
        until: u64,
    },
    /// Its provider has asked to wait until then.
    Resting {
        /// In milliseconds.
        until: u64,
    },
    /// A limit of it is reached.
    Full(Full),
}

impl Obstacle {
    /// The word in route reasons.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CannotCount => "does not count tokens",
            Self::StoredElsewhere => "stored elsewhere",
            Self::Open { .. } => "benched",
            Self::Resting { .. } => "asked to wait",
            Self::Full(_) => "full",
        }
    }
}

/// A seat that is no candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its place among those of the model.
    pub place: usize,
    /// Its seat there.
    pub seat: usize,
    /// What keeps it out.
    pub obstacle: Obstacle,
}

/// Those who are left out; empty, and then without memory of its own, where nobody is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOuts(pub Vec<LeftOut>);

impl LeftOuts {
    /// How long until one of them can be asked that is full or was asked to wait. `None`:
    /// none of them is.
    pub fn wait(&self, now: u64) -> Option<Full> {
        let waits = self.0.iter().filter_map(|it| match it.obstacle {
            Obstacle::Full(full) => Some(full),
            Obstacle::Resting { until } => Some(Full {
                wait: Some(Duration::from_millis(until.saturating_sub(now))),
            }),
            _ => None,
        });
        // What a request under way keeps busy can be free at any moment.
        waits.min_by_key(|full| full.wait)
    }
}

/// The candidates of a request, told in the order in which to ask them.
pub fn plan(
    places: &[Arc<Place>],
    balancing: &Balancing,
    asked: &Asked<'_>,
    mut take: impl FnMut(Choice),
) -> LeftOuts {
    let mut left_out = LeftOuts::default();
    if let [place] = places
        && let [seat] = &*place.seats
    {
        // Most models are served in one place: nothing is to be weighed.
        let stands = stand(place, seat, asked);
        let why = match stands {
            Ok(()) => Why::Only,
            Err(Obstacle::Open { .. }) => Why::LastResort,
            Err(obstacle) => {
                left_out.push(0, 0, obstacle);
                return left_out;
            }
        };
        take(choice(place, 0, 0, asked, why));
        return left_out;
    }
    let mut ready = Vec::with_capacity(places.len());
    let mut last_resorts: Vec<(u64, usize, usize)> = Vec::new();
    for (number, place) in places.iter().enumerate() {
        for (seat_number, seat) in place.seats.iter().enumerate() {
            match stand(place, seat, asked) {
                Ok(()) => ready.push(Entry::new(number, place, seat_number, seat, asked)),
                Err(obstacle) => {
                    left_out.push(number, seat_number, obstacle);
                    if let Obstacle::Open { until, .. } = obstacle {
                        last_resorts.push((until, number, seat_number));
                    }
                }
            }
        }
    }
    order::order(&mut ready, balancing, asked, |entry, why| {
        if let Some(place) = places.get(entry.place) {
            take(choice(place, entry.place, entry.seat, asked, why));
        }
    });
    last_resorts.sort_unstable();
    for (_, number, seat) in last_resorts {
        if let Some(place) = places.get(number) {
            take(choice(place, number, seat, asked, Why::LastResort));
        }
    }
    left_out
}

/// Whether somebody can be asked who is neither benched nor full.
pub fn is_available(places: &[Arc<Place>], asked: &Asked<'_>) -> bool {
    let mut seats = places
        .iter()
        .flat_map(|place| place.seats.iter().map(move |seat| (place, seat)));
    seats.any(|(place, seat)| stand(place, seat, asked).is_ok())
}

impl LeftOuts {
    fn push(&mut self, place: usize, seat: usize, obstacle: Obstacle) {
        self.0.push(LeftOut {
            place,
            seat,
            obstacle,
        });
    }
}

fn choice(place: &Place, number: usize, seat: usize, asked: &Asked<'_>, why: Why) -> Choice {
    let format = match asked.counts_tokens {
        true => None,
        false => place.deployment.format_for(asked.format),
    };
    Choice {
        place: number,
        seat,
        format: format.unwrap_or(asked.format),
        why,
    }
}

/// Whether a seat can be asked.
fn stand(place: &Place, seat: &Seat, asked: &Asked<'_>) -> Result<(), Obstacle> {
    if asked.counts_tokens {
        let endpoint = place.deployment.provider.endpoint(asked.format);
        if endpoint.is_none_or(|it| it.count_tokens.is_none()) {
            return Err(Obstacle::CannotCount);
        }
    }
    if let Some((provider, credential)) = asked.stored_at
        && (*place.deployment.provider.name != *provider || seat.name() != credential)
    {
        return Err(Obstacle::StoredElsewhere);
    }
    if let Some(until) = seat.health.breaker.rests_until(asked.now) {
        return Err(Obstacle::Resting { until });
    }
    place
        .room(seat, asked.tokens, asked.now)
        .map_err(Obstacle::Full)?;
    let opens = Whose::ALL.into_iter().filter_map(|whose| {
        match place.breaker(whose, seat).standing(asked.now) {
            Standing::Open { until } => Some((until, whose)),
            _ => None,
        }
    });
    match opens.max_by_key(|(until, _)| *until) {
        Some((until, whose)) => Err(Obstacle::Open { whose, until }),
        None => Ok(()),
    }
}

/// A hash that is the same in every process of this version, so that all nodes of a gateway
/// send a conversation to the same place. What stands in one part cannot pass for another.
pub fn hash_of(parts: &[&[u8]]) -> u64 {
    let mut hasher = foldhash::quality::FixedState::with_seed(0x746f_6c6c).build_hasher();
    for part in parts {
        hasher.write(part);
        hasher.write_usize(part.len());
    }
    hasher.finish()
}
