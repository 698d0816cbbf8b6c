//! Values of a request that its reader takes in another form.
//!
//! A conversation borrows from the request. Gemini has values in a form that no other format takes: schemas in
//! Google's dialect, calls without ids, seals in base64, whole numbers with a fraction. These are rewritten
//! before the reading begins, into a second document that the conversation borrows from, too.

use crate::{
    Refusal,
    document::{Document, Value},
};
use std::collections::HashMap;

/// The rewritten values, and the values of the request that they replace.
#[derive(Debug, Default)]
pub(crate) struct Rewrites {
    /// A list of the rewritten values; empty if there are none.
    json: String,
    replaced: Vec<u32>,
}

impl Rewrites {
    /// Replaces a value of the request by one JSON value.
    pub(crate) fn replace(&mut self, value: Value<'_>, json: &str) {
        let before = match self.json.pop() {
            Some(_) => ',',
            None => '[',
        };
        self.json.push(before);
        self.json.push_str(json);
        self.json.push(']');
        self.replaced.push(value.place());
    }

    /// The list of the rewritten values, in the order of the replacements.
    ///
    /// # Errors
    /// It is nested deeper than a document may be.
    pub(crate) fn document(&self) -> Result<Option<Document<'_>>, Refusal> {
        let list = (!self.json.is_empty()).then(|| Document::parse(self.json.as_bytes()));
        list.transpose()
            .map_err(|fault| Refusal::new("", fault.to_string()))
    }

    /// The look-up for the reader, which borrows from the [`document`](Self::document).
    pub(crate) fn rewritten<'d>(&self, document: Option<&'d Document<'d>>) -> Rewritten<'d> {
        let list = document.into_iter().flat_map(|list| list.root().elements());
        Rewritten(self.replaced.iter().copied().zip(list).collect())
    }
}

/// The rewritten values by the values of the request that they replace.
#[derive(Debug, Default)]
pub(crate) struct Rewritten<'d>(HashMap<u32, Value<'d>>);

impl<'d> Rewritten<'d> {
    /// The value that replaces a value of the request.
    pub(crate) fn get(&self, value: Value<'_>) -> Option<Value<'d>> {
        self.0.get(&value.place()).copied()
    }
}
