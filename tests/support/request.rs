//! A request as the tests write it, and its bytes in HTTP/1.1.

use super::{CHAT, COUNT_TOKENS, MESSAGES, RESPONSES};
use serde_json::{Value, json};

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub framing: Framing,
}

/// How the end of a body is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// By its length.
    Length,
    /// By chunks of so many bytes, over HTTP/2 by frames without a length.
    Chunks(usize),
    /// There is none.
    NoBody,
}

impl Request {
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            framing: Framing::NoBody,
        }
    }

    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// A request with JSON in it.
    pub fn post(target: &str, body: &Value) -> Self {
        Self::new("POST", target)
            .header("content-type", "application/json")
            .body(body.to_string())
    }

    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.framing = Framing::Length;
        self
    }

    #[must_use]
    pub fn in_chunks_of(mut self, size: usize) -> Self {
        self.framing = Framing::Chunks(size);
        self
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(key, _)| key != name);
        self
    }

    #[must_use]
    pub fn key(self, key: &str) -> Self {
        self.header("authorization", &format!("Bearer {key}"))
    }

    /// Orders for the simulated provider.
    #[must_use]
    pub fn orders(self, orders: &str) -> Self {
        self.header("x-sim", orders)
    }

    /// The head in HTTP/1.1, up to and with the empty line.
    pub fn head(&self) -> Vec<u8> {
        let mut head = format!(
            "{} {} HTTP/1.1\r\nhost: localhost\r\n",
            self.method, self.target
        );
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        match self.framing {
            Framing::Length => head.push_str(&format!("content-length: {}\r\n", self.body.len())),
            Framing::Chunks(_) => head.push_str("transfer-encoding: chunked\r\n"),
            Framing::NoBody => {}
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// The whole request in HTTP/1.1.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head();
        match self.framing {
            Framing::Chunks(size) => {
                for chunk in self.body.chunks(size) {
                    bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    bytes.extend_from_slice(chunk);
                    bytes.extend_from_slice(b"\r\n");
                }
                bytes.extend_from_slice(b"0\r\n\r\n");
            }
            Framing::Length | Framing::NoBody => bytes.extend_from_slice(&self.body),
        }
        bytes
    }
}

/// A request body that says `said` to `model` in the format of `path`, with more fields.
pub fn prompt(path: &str, model: &str, said: &str, more: Value) -> Value {
    let said = json!([{"role": "user", "content": said}]);
    let mut body = match path {
        CHAT => json!({"model": model, "messages": said}),
        RESPONSES => json!({"model": model, "input": said}),
        MESSAGES => json!({"model": model, "max_tokens": 1000, "messages": said}),
        COUNT_TOKENS => json!({"model": model, "messages": said}),
        _ => panic!("{path} takes no prompt"),
    };
    match (&mut body, more) {
        (Value::Object(body), Value::Object(more)) => body.extend(more),
        (_, more) => assert!(more.is_null(), "{more} is no object"),
    }
    body
}
