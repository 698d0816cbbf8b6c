//! What a run reports at its end.

use super::callers::Call;
use super::faults::Fault;
use std::collections::BTreeMap;
use std::time::Duration;

/// The figures of a run.
#[derive(Debug, Default)]
pub struct Report {
    pub answered: usize,
    pub refused: usize,
    pub unanswered: usize,
    pub lost: u64,
    /// Of keys that are done with.
    pub overdraft: u64,
    pub bound: u64,
    pub fenced: usize,
    pub faults: BTreeMap<Fault, usize>,
    /// For how long no gateway served a key that had a balance, and the fault of that round.
    pub refused_for: (Duration, Option<Fault>),
    /// How long it took until each gateway served each key, once the faults were over.
    pub back_after: (Duration, Option<Fault>),
}

impl Report {
    /// Counts how calls ended.
    pub fn note(&mut self, calls: &[Call]) {
        for call in calls {
            match call.status {
                Some(200) if call.reported.is_some() => self.answered += 1,
                Some(429 | 402 | 503) => self.refused += 1,
                // A gateway that cannot reach the provider says so.
                Some(200 | 502 | 504) | None => self.unanswered += 1,
                Some(_) => panic!("{call:?}"),
            }
        }
    }
}

/// The longest time in which a key with a balance was refused by all gateways that it asked. The first keys have one.
pub fn longest_refusal(calls: &[Call], keys: usize) -> Duration {
    let mut longest = Duration::ZERO;
    for key in 0..keys {
        let mut calls: Vec<&Call> = calls.iter().filter(|call| call.key == key).collect();
        calls.sort_by_key(|call| call.ended);
        let mut refused_since = None;
        for call in calls {
            match call.status {
                Some(200) => refused_since = None,
                Some(_) => {
                    let since = *refused_since.get_or_insert(call.ended);
                    longest = longest.max(call.ended - since);
                }
                None => {}
            }
        }
    }
    longest
}
