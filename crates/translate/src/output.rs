//! Writing JSON into one growing buffer, without a tree.
//!
//! It decides where commas stand and how text is escaped. It trusts its caller to open and
//! close containers in pairs and to write a key before each value of an object.

use tollgate_wire::json::escape_into;

/// A JSON document on its way out.
///
/// ```
/// use tollgate_translate::output::Output;
///
/// let mut out = Output::with_capacity(64);
/// out.begin_object();
/// out.key("role").string("user");
/// out.key("n").number(3);
/// out.key("stop").begin_array();
/// out.item().string("\n");
/// out.item().raw(b"null");
/// out.end_array();
/// out.end_object();
/// assert_eq!(out.into_bytes(), br#"{"role":"user","n":3,"stop":["\n",null]}"#);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
}

impl Output {
    /// An empty document with room for so many bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(capacity),
        }
    }

    /// The document.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The bytes so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Empties the document and keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Writes `{`.
    pub fn begin_object(&mut self) {
        self.bytes.push(b'{');
    }

    /// Writes `}`.
    pub fn end_object(&mut self) {
        self.bytes.push(b'}');
    }

    /// Writes `[`.
    pub fn begin_array(&mut self) {
        self.bytes.push(b'[');
    }

    /// Writes `]`.
    pub fn end_array(&mut self) {
        self.bytes.push(b']');
    }

    /// Begins the next member of an object. The key is written as it is: a plain word.
    pub fn key(&mut self, key: &str) -> &mut Self {
        self.separate(b'{');
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(key.as_bytes());
        self.bytes.extend_from_slice(b"\":");
        self
    }

    /// Begins the next member of an object, by a key that is escaped already.
    pub fn escaped_key(&mut self, json: &[u8]) -> &mut Self {
        self.separate(b'{');
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(json);
        self.bytes.extend_from_slice(b"\":");
        self
    }

    /// Begins the next element of an array, or of a list of elements without brackets.
    pub fn item(&mut self) -> &mut Self {
        self.separate(b'[');
        self
    }

    /// A comma, unless the container or a list without brackets has just begun: no value ends in an opening bracket.
    fn separate(&mut self, opening: u8) {
        if self.bytes.last().is_some_and(|last| *last != opening) {
            self.bytes.push(b',');
        }
    }

    /// Writes a value that is JSON already.
    pub fn raw(&mut self, json: &[u8]) {
        self.bytes.extend_from_slice(json);
    }

    /// Writes `true` or `false`.
    pub fn bool(&mut self, value: bool) {
        self.raw(if value { b"true" } else { b"false" });
    }

    /// Writes an integer.
    pub fn number(&mut self, value: u64) {
        let mut digits = itoa::Buffer::new();
        self.raw(digits.format(value).as_bytes());
    }

    /// Writes a string.
    pub fn string(&mut self, text: &str) {
        self.bytes.push(b'"');
        self.text(text);
        self.bytes.push(b'"');
    }

    /// Opens a string that is written in pieces by [`text`](Self::text) and
    /// [`escaped`](Self::escaped) and closed by [`end_string`](Self::end_string).
    pub fn begin_string(&mut self) -> &mut Self {
        self.bytes.push(b'"');
        self
    }

    /// Closes a string that was written in pieces.
    pub fn end_string(&mut self) {
        self.bytes.push(b'"');
    }

    /// Writes a piece of a string that is escaped already.
    pub fn escaped(&mut self, json: &[u8]) {
        self.bytes.extend_from_slice(json);
    }

    /// Writes a piece of a string, escaping it.
    pub fn text(&mut self, text: &str) {
        escape_into(text.as_bytes(), &mut self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::Output;

    #[test]
    fn text_is_escaped_as_another_json_writer_would() {
        let text: String = (0..0x250u32).filter_map(char::from_u32).collect();
        let mut out = Output::default();
        out.string(&text);
        let read: String = serde_json::from_slice(out.as_bytes()).unwrap();
        assert_eq!(read, text);
    }

    #[test]
    fn characters_to_escape_are_found_wherever_they_stand() {
        for escaped in ["\"", "\\", "\n", "\u{1f}", "\0"] {
            for beside in ["a", " ", "!", "~", "é", "\u{80}", "😀"] {
                for before in 0..18 {
                    let text = [&beside.repeat(before), escaped, &beside.repeat(9)].concat();
                    let mut out = Output::default();
                    out.string(&text);
                    let read: Result<String, _> = serde_json::from_slice(out.as_bytes());
                    assert_eq!(read.ok(), Some(text));
                }
            }
        }
    }

    #[test]
    fn integers_are_written_in_full() {
        for value in [0, 7, 10, 4096, u64::MAX] {
            let mut out = Output::default();
            out.number(value);
            assert_eq!(out.into_bytes(), value.to_string().as_bytes());
        }
    }
}
