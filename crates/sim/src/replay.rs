//! Recordings of real answers, sent again as they were.
//!
//! A file of recordings holds one JSON object a line; of it `status`, `stream`,
//! `response_headers` and `response` matter: the text of the events where `stream` is
//! true, else the body.

use crate::faults::Prepared;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeMap, io, path::Path};

/// Headers that describe how the recorded answer travelled, not what it is.
const TRAVEL: &[&str] = &[
    "connection",
    "content-length",
    "content-encoding",
    "transfer-encoding",
    "alt-svc",
];

/// One recorded answer.
#[derive(Clone, Debug, Deserialize)]
pub struct Recording {
    /// The HTTP status.
    pub status: u16,
    /// Whether the answer was an event stream.
    pub stream: bool,
    /// The headers of the answer.
    #[serde(default)]
    pub response_headers: BTreeMap<String, String>,
    /// The answer: a string of events where `stream` is true, else a string or a JSON value.
    pub response: Value,
}

/// The recordings of one file.
#[derive(Clone, Debug, Default)]
pub struct Recordings(Vec<Recording>);

impl Recordings {
    /// Reads a file of recordings.
    ///
    /// # Errors
    /// If the file cannot be read, or a line of it is no recording: the message says which.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|fault| {
            io::Error::new(fault.kind(), format!("{}: {fault}", path.display()))
        })?;
        let lines = text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty());
        let parsed = lines.map(|(index, line)| {
            serde_json::from_str(line).map_err(|fault| {
                let place = format!("{}, line {}: {fault}", path.display(), index + 1);
                io::Error::new(io::ErrorKind::InvalidData, place)
            })
        });
        parsed.collect::<io::Result<_>>().map(Self)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The recording of this number, from 0.
    pub fn get(&self, number: usize) -> Option<&Recording> {
        self.0.get(number)
    }
}

impl Recording {
    /// The body as it was.
    pub fn body(&self) -> String {
        match &self.response {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    pub(crate) fn prepared(&self) -> Prepared {
        let body = self.body();
        let pieces = if self.stream {
            body.split_inclusive("\n\n")
                .map(|event| Bytes::from(event.to_owned()))
                .collect()
        } else {
            vec![Bytes::from(body)]
        };
        let (mut head, ()) = Response::new(()).into_parts();
        head.status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::OK);
        head.headers = self.headers();
        Prepared {
            head,
            pieces,
            stream: self.stream,
        }
    }

    fn headers(&self) -> HeaderMap {
        let recorded = self.response_headers.iter();
        let mut headers: HeaderMap = recorded
            .filter(|(name, _)| !TRAVEL.contains(&name.as_str()))
            .filter_map(|(name, value)| {
                let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
                Some((name, HeaderValue::from_str(value).ok()?))
            })
            .collect();
        let kind = if self.stream {
            "text/event-stream; charset=utf-8"
        } else {
            "application/json"
        };
        headers
            .entry(header::CONTENT_TYPE)
            .or_insert(HeaderValue::from_static(kind));
        headers
    }
}
