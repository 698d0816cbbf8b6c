//! The order among those that can be asked.
//!
//! Every entry draws a number from its hash and a seed, and waits `-ln(u) / weight`: the first
//! is each one with the probability of its weight (an exponential race). Seeded by chance,
//! that is drawing by weight without drawing twice. Seeded by the conversation it is rendezvous
//! hashing: the same conversation finds the same place, and what goes away or comes back moves
//! its own conversations alone.
//!
//! A conversation stays within a bounded load (Mirrokni, Thorup, Zadimoghaddam: Consistent
//! hashing with bounded loads, 2018): it goes to the first of its order that has not more
//! than its share under way, times a factor.

use super::{Asked, Balancing, Why};
use crate::health::{Place, Seat};
use crate::settings::Balance;
use std::cmp::Ordering;

/// One seat that can be asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) place: usize,
    pub(super) seat: usize,
    of: (&'a Place, &'a Seat),
    /// Priority, and whether the request must be translated: smaller first.
    rank: (u16, bool),
    /// What it has waited in the race.
    waited: f64,
}

impl<'a> Entry<'a> {
    pub(super) fn new(
        number: usize,
        place: &'a Place,
        seat_number: usize,
        seat: &'a Seat,
        asked: &Asked<'_>,
    ) -> Self {
        let deployment = &place.deployment;
        let seed = asked.conversation.unwrap_or(asked.random);
        Self {
            place: number,
            seat: seat_number,
            of: (place, seat),
            rank: (
                deployment.priority,
                !deployment.formats.contains(asked.format),
            ),
            waited: -unit(seat.hash, seed).ln() / seat.weight,
        }
    }

    fn in_flight(&self) -> u32 {
        let (_, seat) = self.of;
        seat.health.in_flight()
    }

    fn weight(&self) -> f64 {
        let (_, seat) = self.of;
        seat.weight
    }

    /// Requests under way for its weight, with one more.
    fn pressure(&self) -> f64 {
        (f64::from(self.in_flight()) + 1.0) / self.weight()
    }

    fn cost(&self) -> f64 {
        let (place, _) = self.of;
        place.deployment.cost.unwrap_or(0.0)
    }

    /// What a request has to expect here: the time to the first token, for everyone under way.
    /// Before anything was measured, one request may go and measure; the others keep away.
    fn expected(&self, now: u64) -> f64 {
        let (place, _) = self.of;
        let in_flight = place.health.load.in_flight();
        match place.health.latency.get(now) {
            Some(latency) => latency.as_secs_f64() * (f64::from(in_flight) + 1.0),
            None if in_flight == 0 => 0.0,
            None => f64::MAX,
        }
    }
}

/// Sorts, and tells each with the reason of its place.
pub(super) fn order<'a>(
    entries: &mut [Entry<'a>],
    balancing: &Balancing,
    asked: &Asked<'_>,
    mut tell: impl FnMut(&Entry<'a>, Why),
) {
    entries.sort_unstable_by(|a, b| {
        let by_race = || a.waited.partial_cmp(&b.waited).unwrap_or(Ordering::Equal);
        a.rank
            .cmp(&b.rank)
            .then_with(by_race)
            .then_with(|| (a.place, a.seat).cmp(&(b.place, b.seat)))
    });
    for group in entries.chunk_by_mut(|a, b| a.rank == b.rank) {
        let first = match group.len() {
            1 => Why::Only,
            _ if asked.conversation.is_some() => bound(group, balancing),
            _ => choose(group, balancing.balance, asked.now),
        };
        for (place, entry) in group.iter().enumerate() {
            tell(entry, if place == 0 { first } else { Why::Next });
        }
    }
}

/// Puts the first one to the front that has room for a conversation.
fn bound(group: &mut [Entry<'_>], balancing: &Balancing) -> Why {
    let under_way: f64 = group.iter().map(|it| f64::from(it.in_flight())).sum();
    let weights: f64 = group.iter().map(Entry::weight).sum();
    let has_room = |entry: &Entry<'_>| {
        let share = (under_way + 1.0) * entry.weight() / weights;
        let most = (balancing.load_factor * share).ceil();
        f64::from(entry.in_flight()) < most.max(f64::from(balancing.slack))
    };
    match group.iter().position(has_room) {
        None | Some(0) => Why::Conversation,
        Some(place) => {
            if let Some(upto) = group.get_mut(..=place) {
                upto.rotate_right(1);
            }
            Why::Overflow
        }
    }
}

/// Puts the one to the front that the balancing chooses.
fn choose(group: &mut [Entry<'_>], balance: Balance, now: u64) -> Why {
    match balance {
        Balance::Weighted => Why::Weight,
        Balance::LeastInFlight => {
            // Stable: among equals the race has decided.
            group.sort_by(|a, b| {
                let key = |it: &Entry<'_>| (it.pressure(), it.cost());
                key(a).partial_cmp(&key(b)).unwrap_or(Ordering::Equal)
            });
            Why::Load
        }
        Balance::Latency => {
            // The better of two drawn by weight: whoever looks best to all is not run down.
            if let [first, second, ..] = group
                && second.expected(now) < first.expected(now)
            {
                std::mem::swap(first, second);
            }
            Why::Latency
        }
    }
}

/// A number between 0 and 1, the same for the same two.
fn unit(hash: u64, seed: u64) -> f64 {
    let mixed = split_mix(split_mix(seed) ^ hash);
    #[expect(clippy::cast_precision_loss, reason = "it has 52 bits")]
    let upper = (mixed >> 12) as f64;
    (upper + 0.5) / 4_503_599_627_370_496.0
}

/// One step of `SplitMix64`, whose output passes the usual statistical tests even when
/// the seeds are neighbours (Steele, Lea, Flood: Fast splittable pseudorandom number
/// generators, 2014).
const fn split_mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
