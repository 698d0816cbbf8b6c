//! A request that needs no translation, but brings reasoning along that a translation sealed.
//!
//! It decides what is left out of such a body: the sealed blocks, what no provider can verify
//! without them, and a message that has nothing else. A seal belongs to a provider of another
//! format than its caller's, so that none can be opened here. Everything else stays as the
//! caller wrote it. Whether a body holds seals at all has been seen while it was read.

use crate::{
    document::{Document, Kind, Value},
    formats::source,
    output::Output,
    seal::is_sealed,
};
use bytes::Bytes;
use tollgate_types::Format;

/// A body without the reasoning that was sealed in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsealed {
    /// The body to send.
    pub body: Bytes,
    /// What was left out, by its paths in the table, each once.
    pub dropped: Vec<&'static str>,
}

/// Leaves sealed reasoning out of a checked request that goes to a provider of its own format.
/// `None`: the body is not what was read before, or there is nothing to leave out.
/// `checks_signatures`: the model refuses calls without a signature (Gemini).
pub fn without_seals(format: Format, body: &[u8], checks_signatures: bool) -> Option<Unsealed> {
    let document = Document::of_valid(body).ok()?;
    let mut writer = Unsealer {
        out: Output::with_capacity(body.len()),
        dropped: Vec::new(),
        is_changed: false,
        checks_signatures,
    };
    (source(format)?.unseal)(&mut writer, document.root());
    (writer.is_changed || !writer.dropped.is_empty()).then(|| Unsealed {
        body: writer.out.into_bytes().into(),
        dropped: writer.dropped,
    })
}

/// Writes a body anew, without what is sealed in it.
#[derive(Debug)]
pub(crate) struct Unsealer {
    pub(crate) out: Output,
    dropped: Vec<&'static str>,
    /// Something was said in another way, so that nothing was left out.
    pub(crate) is_changed: bool,
    pub(crate) checks_signatures: bool,
}

impl Unsealer {
    pub(crate) fn leave_out(&mut self, path: &'static str) {
        if !self.dropped.contains(&path) {
            self.dropped.push(path);
        }
    }

    /// Writes an object, the values of its members by `write`.
    pub(crate) fn object(&mut self, value: Value<'_>, write: impl Fn(&mut Self, &str, Value<'_>)) {
        if value.kind() != Kind::Object {
            self.out.raw(value.raw());
            return;
        }
        self.out.begin_object();
        for (key, value) in value.members() {
            self.out.escaped_key(key.json());
            write(self, &key.decode(), value);
        }
        self.out.end_object();
    }

    /// Writes a list, its elements by `write`, which may leave one out.
    pub(crate) fn list(&mut self, value: Value<'_>, write: impl Fn(&mut Self, Value<'_>)) {
        if value.kind() != Kind::Array {
            self.out.raw(value.raw());
            return;
        }
        self.out.begin_array();
        for element in value.elements() {
            write(self, element);
        }
        self.out.end_array();
    }
}

pub(crate) fn is_seal(value: Value<'_>, field: &str) -> bool {
    let field = value.get(field).and_then(Value::text);
    field.is_some_and(|text| is_sealed(&text.decode()))
}

#[cfg(test)]
mod tests;
