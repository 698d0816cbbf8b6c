//! The order of the candidates that are available.
//!
//! Every deployment draws a number `u` from its hash and a seed, and waits `-ln(u) / weight`. Each comes first
//! with the probability of its weight (an exponential race). So do the credentials within a deployment. With a
//! random seed this is drawing by weight without replacement. With the conversation as the seed it is
//! rendezvous hashing: a conversation keeps its candidate, and a candidate that leaves or returns moves only
//! its own conversations, or those of its deployment.
//!
//! The load of conversations is bounded (Mirrokni, Thorup, Zadimoghaddam: Consistent hashing with bounded
//! loads, 2018): a conversation goes to the first entry of its order that has at most its share in flight,
//! times a factor.

use super::{Balancing, PlanRequest, Why};
use crate::health::{CredentialHandle, DeploymentHandle};
use crate::settings::Balance;
use std::cmp::Ordering;

/// An available candidate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) deployment: usize,
    pub(super) credential: usize,
    of: (&'a DeploymentHandle, &'a CredentialHandle),
    /// The priority, and whether the request must be translated. Smaller ones come first.
    rank: (u16, bool),
    /// The time of its deployment in the race, and its own among the credentials there.
    waited: (f64, f64),
}

impl<'a> Entry<'a> {
    pub(super) fn new(
        number: usize,
        handle: &'a DeploymentHandle,
        credential_number: usize,
        credential: &'a CredentialHandle,
        asked: &PlanRequest<'_>,
    ) -> Self {
        let deployment = &handle.deployment;
        let seed = asked.conversation.unwrap_or(asked.random);
        Self {
            deployment: number,
            credential: credential_number,
            of: (handle, credential),
            rank: (
                deployment.priority,
                !deployment.formats.contains(asked.format),
            ),
            waited: (
                waited(handle.hash, f64::from(deployment.weight), seed),
                waited(credential.hash, credential.weight, seed),
            ),
        }
    }

    fn in_flight(&self) -> u32 {
        let (_, credential) = self.of;
        credential.health.in_flight()
    }

    fn weight(&self) -> f64 {
        let (_, credential) = self.of;
        credential.weight
    }

    /// Requests in flight per weight, with one more request.
    fn pressure(&self) -> f64 {
        (f64::from(self.in_flight()) + 1.0) / self.weight()
    }

    fn cost(&self) -> f64 {
        let (handle, _) = self.of;
        handle.deployment.cost.unwrap_or(0.0)
    }

    /// The expected wait: the time to the first token, times the requests in flight. Without a measurement,
    /// one request at a time comes first and measures.
    fn expected(&self, now: u64) -> f64 {
        let (handle, _) = self.of;
        let in_flight = handle.health.load.in_flight();
        match handle.health.latency.get(now) {
            Some(latency) => latency.as_secs_f64() * (f64::from(in_flight) + 1.0),
            None if in_flight == 0 => 0.0,
            None => f64::MAX,
        }
    }
}

/// Sorts the entries and hands them to `take`, each with the reason for its position.
pub(super) fn order<'a>(
    entries: &mut [Entry<'a>],
    balancing: &Balancing,
    asked: &PlanRequest<'_>,
    mut take: impl FnMut(&Entry<'a>, Why),
) {
    entries.sort_unstable_by(|a, b| {
        let by_race = || a.waited.partial_cmp(&b.waited).unwrap_or(Ordering::Equal);
        a.rank
            .cmp(&b.rank)
            .then_with(by_race)
            .then_with(|| (a.deployment, a.credential).cmp(&(b.deployment, b.credential)))
    });
    for group in entries.chunk_by_mut(|a, b| a.rank == b.rank) {
        let first = match group.len() {
            1 => Why::Only,
            _ if asked.conversation.is_some() => bound(group, balancing),
            _ => choose(group, balancing.balance, asked.now),
        };
        for (position, entry) in group.iter().enumerate() {
            take(entry, if position == 0 { first } else { Why::Next });
        }
    }
}

/// Moves the first entry with room for a conversation to the front.
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
        Some(position) => {
            to_front(group, position);
            Why::Overflow
        }
    }
}

fn to_front(group: &mut [Entry<'_>], position: usize) {
    if let Some(upto) = group.get_mut(..=position) {
        upto.rotate_right(1);
    }
}

/// Moves the entry that the balancing chooses to the front.
fn choose(group: &mut [Entry<'_>], balance: Balance, now: u64) -> Why {
    match balance {
        Balance::Weighted => Why::Weight,
        Balance::LeastInFlight => {
            // The sort is stable: the order of the race stays among equals.
            group.sort_by(|a, b| {
                let key = |it: &Entry<'_>| (it.pressure(), it.cost());
                key(a).partial_cmp(&key(b)).unwrap_or(Ordering::Equal)
            });
            Why::Load
        }
        Balance::Latency => {
            // The better of two drawn by weight: a single best entry would get all requests at once.
            let mut rest = group.iter().enumerate();
            if let Some((_, first)) = rest.next()
                && let Some((at, other)) = rest.find(|(_, it)| it.deployment != first.deployment)
                && other.expected(now) < first.expected(now)
            {
                to_front(group, at);
            }
            Why::Latency
        }
    }
}

/// A time in the race.
fn waited(hash: u64, weight: f64, seed: u64) -> f64 {
    -unit(hash, seed).ln() / weight
}

/// A number between 0 and 1 that depends only on the arguments.
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
