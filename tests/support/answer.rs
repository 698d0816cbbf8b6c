//! An answer as it came over the wire.

use serde_json::Value;

/// A head, the pieces of a body, and how it ended.
#[derive(Clone)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case, in the order in which they came.
    pub headers: Vec<(String, String)>,
    /// The body, in the chunks of HTTP/1.1 or the frames of HTTP/2.
    pub chunks: Vec<Vec<u8>>,
    pub ending: Ending,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As its framing says it should.
    Complete,
    /// The connection was closed before that.
    Cut,
    /// The connection or the stream was reset before that.
    Reset,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (headers, text) = (&self.headers, self.text());
        write!(f, "{} {headers:?} {text} {:?}", self.status, self.ending)
    }
}

impl Answer {
    pub fn body(&self) -> Vec<u8> {
        self.chunks.concat()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body()).into_owned()
    }

    pub fn json(&self) -> Value {
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|fault| panic!("{fault}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The data of each event of a stream; what is no JSON as a string.
    pub fn events(&self) -> Vec<Value> {
        let text = self.text();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| data.into()))
            .collect()
    }

    /// The usage that stands last in it, in tokens.
    pub fn reported(&self) -> u64 {
        const FIELDS: [&str; 6] = [
            "prompt_tokens",
            "completion_tokens",
            "input_tokens",
            "output_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
        ];
        let parts = match self.header("content-type") {
            Some("application/json") => vec![self.json()],
            _ => self.events(),
        };
        let usages = parts.iter().flat_map(|part| {
            let places = ["/usage", "/response/usage"].map(|place| part.pointer(place));
            places.into_iter().flatten().filter(|it| it.is_object())
        });
        let usage = usages
            .last()
            .unwrap_or_else(|| panic!("no usage: {self:?}"));
        FIELDS
            .iter()
            .filter_map(|field| usage[field].as_u64())
            .sum()
    }

    /// Status and code of an error in the one shape.
    pub fn error(&self) -> (u16, String) {
        let body = self.json();
        let code = body["error"]["code"].as_str();
        (
            self.status,
            code.unwrap_or_else(|| panic!("no error: {body}"))
                .to_owned(),
        )
    }

    /// The message of an error in the one shape.
    pub fn message(&self) -> String {
        let body = self.json();
        let message = body["error"]["message"].as_str();
        message
            .unwrap_or_else(|| panic!("no error: {body}"))
            .to_owned()
    }

    #[track_caller]
    pub fn assert_error(&self, status: u16, code: &str) {
        assert_eq!(self.error(), (status, code.to_owned()), "{self:?}");
        assert_eq!(self.ending, Ending::Complete, "{self:?}");
    }

    #[track_caller]
    pub fn assert_ok(&self) {
        assert_eq!(self.status, 200, "{self:?}");
        assert_eq!(self.ending, Ending::Complete, "{self:?}");
    }
}
