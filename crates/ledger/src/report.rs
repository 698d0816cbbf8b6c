//! The usage of all keys, for operators: sums of the records of requests, and one record by its id.

use crate::{
    clock::Timestamp,
    history::UsageRecord,
    store::{Store, StoreError},
};
use serde::Serialize;
use tollgate_types::{KeyId, Money, RequestId};

/// The property by which records are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupBy {
    /// The key: its id and its name.
    Key,
    /// The plan of the key.
    Plan,
    /// The model that served.
    Model,
    /// The day in UTC.
    Day,
    /// The month in UTC.
    Month,
}

impl GroupBy {
    /// The columns that it makes.
    pub const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Key => &["key", "key_name"],
            Self::Plan => &["plan"],
            Self::Model => &["model"],
            Self::Day => &["day"],
            Self::Month => &["month"],
        }
    }
}

/// Which records to add up, and how.
#[derive(Clone, Debug)]
pub struct ReportQuery {
    /// Records of this time or later.
    pub from: Timestamp,
    /// Records of a time before this.
    pub to: Timestamp,
    /// The groups, in the order of their columns and of the rows.
    pub by: Vec<GroupBy>,
}

/// The sums of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportRow {
    /// A value for each of [`GroupBy::columns`]; `None` if a key has no plan.
    pub group: Vec<Option<String>>,
    /// A number for each of [`ReportRow::SUMS`].
    pub sums: [u64; Self::SUMS.len()],
    /// An amount for each of [`ReportRow::COSTS`].
    pub costs: [Money; Self::COSTS.len()],
}

impl ReportRow {
    /// The numbers of a group: how many requests, then tokens.
    pub const SUMS: [&'static str; 8] = [
        "requests",
        "input",
        "cache_read",
        "cache_write",
        "output",
        "reasoning",
        "charged",
        "overdraft",
    ];

    /// The amounts of a group: the cost of the requests whose prices were known, and what of it no grant of
    /// money covered.
    pub const COSTS: [&'static str; 2] = ["cost", "cost_overdraft"];

    /// How many nano-units of an amount the database adds up by themselves, so that no sum is too great.
    pub(crate) const NANOS: u64 = 1_000_000_000;

    /// Reads the numbers behind the columns of the group: the sums, and for each cost its whole units and the
    /// nano-units beside them.
    pub(crate) fn read<E>(
        group: Vec<Option<String>>,
        number: impl Fn(usize) -> Result<u64, E>,
    ) -> Result<Self, E> {
        let mut place = group.len();
        let mut next = || {
            let number = number(place);
            place = place.saturating_add(1);
            number
        };
        let mut sums = [0; Self::SUMS.len()];
        for sum in &mut sums {
            *sum = next()?;
        }
        let mut costs = [Money::ZERO; Self::COSTS.len()];
        for cost in &mut costs {
            let units = next()?.saturating_mul(Self::NANOS);
            *cost = Money::from_nanos(units.saturating_add(next()?));
        }
        Ok(Self { group, sums, costs })
    }
}

/// One request on record, as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RequestRecord {
    /// The key that sent it.
    pub key: KeyId,
    /// The name of the key.
    pub key_name: String,
    /// The plan of the key.
    pub plan: Option<String>,
    /// The record.
    #[serde(flatten)]
    pub record: UsageRecord,
}

impl Store {
    /// Adds up records and gives each group to `each`, in the order of the groups, until it returns
    /// `false`. Reads one snapshot in constant memory and blocks no writer.
    ///
    /// # Errors
    /// The database cannot be read, or a sum has no room in 63 bits.
    pub fn report(
        &self,
        query: &ReportQuery,
        each: &mut dyn FnMut(ReportRow) -> bool,
    ) -> Result<(), StoreError> {
        self.database().report(query, each)
    }

    /// The record of a request, if it has one.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn request(&self, id: &RequestId) -> Result<Option<RequestRecord>, StoreError> {
        self.database().request(id)
    }
}
