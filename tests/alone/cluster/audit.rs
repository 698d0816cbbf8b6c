//! What must be true after each round, of the callers' notes, the provider's counts and the ledger.
//!
//! | | |
//! |---|---|
//! | an answer that has come whole | is on record once, and is charged what it reported; the provider counted as much for its question |
//! | any other record | belongs to a request without a whole answer; all of them together are charged at most what the provider counted for these |
//! | an answer that was cut | is charged at least what was delivered, but for the last half second |
//! | a key | has paid no more than it was given; overdraft is zero unless a gateway was taken for crashed, and then at most what that gateway had leased of the key |
//! | 402 | is answered only if the rest of the balance is too small |

use super::callers::{CALLERS, Call};
use super::provider::{Counted, INPUT, MOST_OUTPUT};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// The most that a request can cost.
pub const MOST: u64 = INPUT + MOST_OUTPUT;
/// Tokens that the pieces of half a second can have, in each of them.
const UNKNOWN: u64 = MOST_OUTPUT;

/// A key of a generation.
#[derive(Clone, Debug)]
pub struct Account {
    pub granted: u64,
    /// The key's id in the database.
    pub id: String,
    /// What gateways had leased that were taken for crashed: the most that may be overdraft.
    pub bound: u64,
}

/// A record of the history.
#[derive(Debug)]
pub struct Record {
    pub id: String,
    pub charged: u64,
    pub overdraft: u64,
}

impl Record {
    pub fn read(record: &Value) -> Self {
        let number = |name: &str| record[name].as_u64().unwrap();
        Self {
            id: record["id"].as_str().unwrap().to_owned(),
            charged: number("charged"),
            overdraft: number("overdraft"),
        }
    }
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Tokens that answers reported and that the ledger has not charged.
    pub lost: u64,
    pub overdraft: u64,
    /// The most that this may be.
    pub bound: u64,
    pub charged: u64,
    pub faults: Vec<String>,
}

/// Compares all calls with a key with its records.
pub fn compare(account: &Account, calls: &[&Call], records: &[Record], counted: &Counted) -> Found {
    let mut found = Found::default();
    let mut fault = |text: String| found.faults.push(text);
    let mut by_id: HashMap<&str, &Record> = HashMap::new();
    for record in records {
        if by_id.insert(&record.id, record).is_some() {
            fault(format!("{} is on record twice", record.id));
        }
    }
    let mut whole = HashSet::new();
    let (mut others, mut counted_for_others) = (0, 0);
    for call in calls {
        let counts = counted.of(&call.question);
        let Some(reported) = call.reported else {
            others += counts.len().max(1);
            counted_for_others += MOST * counts.len() as u64;
            let record = call.id.as_deref().and_then(|id| by_id.get(id));
            let charged = record.map_or(0, |it| it.charged);
            if charged > MOST || charged + UNKNOWN < call.delivered {
                fault(format!("a cut answer is charged {charged}: {call:?}"));
            }
            continue;
        };
        let id = call.id.as_deref().expect("an id");
        if !whole.insert(id) {
            fault(format!("{id} was given twice"));
        }
        if !counts.contains(&reported) {
            fault(format!("{id} reported {reported}, the provider {counts:?}"));
        }
        let charged = by_id.get(id).map_or(0, |record| record.charged);
        if charged != reported {
            fault(format!("{id} reported {reported}, is charged {charged}"));
            found.lost += reported.saturating_sub(charged);
        }
    }
    let mut fault = |text: String| found.faults.push(text);
    let beyond = records.iter().filter(|it| !whole.contains(it.id.as_str()));
    let beyond: Vec<u64> = beyond.map(|record| record.charged).collect();
    if beyond.len() > others || beyond.iter().sum::<u64>() > counted_for_others {
        fault(format!(
            "{beyond:?} is charged without an answer, {others} were possible for {counted_for_others}"
        ));
    }
    found.charged = records.iter().map(|it| it.charged).sum();
    found.overdraft = records.iter().map(|it| it.overdraft).sum();
    found.bound = account.bound;
    let paid = found.charged.saturating_sub(found.overdraft);
    let mut fault = |text: String| found.faults.push(text);
    if paid > account.granted {
        fault(format!("{paid} are paid of {}", account.granted));
    }
    if found.overdraft > found.bound {
        fault(format!(
            "an overdraft of {}, {} were leased",
            found.overdraft, found.bound
        ));
    }
    let refused = calls
        .iter()
        .find(|call| matches!(call.status, Some(401 | 402)));
    let rest = account.granted.saturating_sub(found.charged);
    // Others may have had the rest reserved.
    if let Some(call) = refused.filter(|_| rest > MOST * (CALLERS as u64 + 1)) {
        fault(format!("{rest} tokens are left, and yet: {call:?}"));
    }
    found
}
