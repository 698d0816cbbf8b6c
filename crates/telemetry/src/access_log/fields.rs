//! The fields of one line, as a JSON object written straight into the buffer.
//!
//! A line is one or two dozen short fields of four kinds, and most requests end with one: a
//! general serializer costs more than twice as much. Names are the program's own and need no
//! escapes; texts can come from clients.

use std::io::Write as _;
use std::net::IpAddr;
use std::time::Duration;
use tollgate_wire::json::escape_into;

/// What a usual line comes to, so that the buffer grows at most once for it.
const USUAL_LENGTH: usize = 768;

/// A JSON object that is being written.
pub struct Fields<'a> {
    out: &'a mut Vec<u8>,
    /// Where the object begins: a field behind its brace needs no comma.
    begin: usize,
}

impl<'a> Fields<'a> {
    /// Begins an object at the end of `out`.
    pub(super) fn begin(out: &'a mut Vec<u8>) -> Self {
        out.reserve(USUAL_LENGTH);
        out.push(b'{');
        let begin = out.len();
        Self { out, begin }
    }

    /// Ends the object.
    pub(super) fn end(self) {
        self.out.push(b'}');
    }

    /// A word of the program's own, which needs no escapes.
    pub fn word(&mut self, name: &'static str, word: &str) {
        self.name(name);
        self.out.push(b'"');
        self.raw(word.as_bytes());
        self.out.push(b'"');
    }

    /// Such a word, or null.
    pub fn optional_word(&mut self, name: &'static str, word: Option<&str>) {
        match word {
            Some(word) => self.word(name, word),
            None => self.optional_text(name, None),
        }
    }

    /// A text.
    pub fn text(&mut self, name: &'static str, text: &str) {
        self.name(name);
        self.quoted(text);
    }

    /// A text, or null.
    pub fn optional_text(&mut self, name: &'static str, text: Option<&str>) {
        self.name(name);
        match text {
            Some(text) => self.quoted(text),
            None => self.raw(b"null"),
        }
    }

    /// A whole number.
    pub fn number(&mut self, name: &'static str, number: u64) {
        self.name(name);
        self.digits(number);
    }

    /// A whole number, or null.
    pub fn optional_number(&mut self, name: &'static str, number: Option<u64>) {
        self.name(name);
        match number {
            Some(number) => self.digits(number),
            None => self.raw(b"null"),
        }
    }

    /// An IP address, or null.
    pub fn optional_address(&mut self, name: &'static str, address: Option<IpAddr>) {
        self.name(name);
        let Some(address) = address else {
            return self.raw(b"null");
        };
        self.out.push(b'"');
        match address {
            // By `Display` these few digits would be a tenth of a line's instructions.
            IpAddr::V4(address) => {
                for (place, octet) in address.octets().into_iter().enumerate() {
                    if place > 0 {
                        self.out.push(b'.');
                    }
                    self.digits(octet.into());
                }
            }
            // Writing to memory cannot fail.
            IpAddr::V6(address) => drop(write!(self.out, "{address}")),
        }
        self.out.push(b'"');
    }

    /// True or false.
    pub fn flag(&mut self, name: &'static str, flag: bool) {
        self.name(name);
        self.raw(if flag { b"true" } else { b"false" });
    }

    /// Milliseconds with three places, or null: finer is noise.
    pub fn millis(&mut self, name: &'static str, span: Option<Duration>) {
        self.name(name);
        let Some(span) = span else {
            return self.raw(b"null");
        };
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.digits(micros / 1000);
        let digit = |value: u64| b'0'.saturating_add(u8::try_from(value % 10).unwrap_or(0));
        let rest = micros % 1000;
        self.raw(&[b'.', digit(rest / 100), digit(rest / 10), digit(rest)]);
    }

    /// An object of its own, or null.
    pub fn optional_object<T>(
        &mut self,
        name: &'static str,
        value: Option<T>,
        write: impl FnOnce(T, &mut Fields<'_>),
    ) {
        self.name(name);
        let Some(value) = value else {
            return self.raw(b"null");
        };
        self.out.push(b'{');
        let begin = self.out.len();
        let mut inner = Fields {
            out: &mut *self.out,
            begin,
        };
        write(value, &mut inner);
        inner.end();
    }

    fn name(&mut self, name: &'static str) {
        if self.out.len() != self.begin {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.raw(name.as_bytes());
        self.raw(b"\":");
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    fn digits(&mut self, number: u64) {
        let mut digits = itoa::Buffer::new();
        self.raw(digits.format(number).as_bytes());
    }

    fn quoted(&mut self, text: &str) {
        self.out.push(b'"');
        escape_into(text.as_bytes(), self.out);
        self.out.push(b'"');
    }
}

#[cfg(test)]
mod tests;
