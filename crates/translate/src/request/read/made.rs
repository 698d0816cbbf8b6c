//! Values that a reader cannot borrow from the request, because the request says them in another
//! way: they are made before the reading begins, each for a value of the request.

use crate::{
    Refusal,
    document::{Document, Value},
};
use std::collections::HashMap;

/// Values as JSON, and the values of the request that they stand for.
#[derive(Debug, Default)]
pub(crate) struct Supplement {
    /// Elements of a list, with commas between.
    json: String,
    places: Vec<u32>,
}

impl Supplement {
    /// Adds what stands for `of`: one JSON value.
    pub(crate) fn add(&mut self, of: Value<'_>, json: &str) {
        let before = if self.places.is_empty() { "[" } else { "," };
        self.json.push_str(before);
        self.json.push_str(json);
        self.places.push(of.place());
    }

    /// The JSON list of all values; `None` if there are none.
    pub(crate) fn into_list(self) -> (Option<String>, Vec<u32>) {
        let list = (!self.places.is_empty()).then(|| self.json + "]");
        (list, self.places)
    }
}

/// The same values, to be read.
#[derive(Debug, Default)]
pub(crate) struct Made<'d> {
    values: HashMap<u32, Value<'d>>,
}

impl<'d> Made<'d> {
    /// The values of a list, for the values of the request at these places.
    pub(crate) fn of_list(list: &'d Document<'d>, places: &[u32]) -> Self {
        let values = places.iter().copied().zip(list.root().elements());
        Self {
            values: values.collect(),
        }
    }

    /// The value that replaces a value of the request.
    pub(crate) fn get(&self, value: Value<'_>) -> Option<Value<'d>> {
        self.values.get(&value.place()).copied()
    }
}

/// Reads a list that [`Supplement`] has written.
///
/// # Errors
/// It is nested deeper than a document may be.
pub(crate) fn document(list: Option<&str>) -> Result<Option<Document<'_>>, Refusal> {
    let parsed = list.map(|list| Document::parse(list.as_bytes()));
    let parsed = parsed.transpose();
    parsed.map_err(|fault| Refusal::new("", fault.to_string()))
}
