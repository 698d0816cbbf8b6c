//! How likely each token was: chat and responses have it in almost the same form.
//!
//! Decides how an entry is written so that the types of both take it. Messages has no word
//! for it, and a caller of messages cannot ask.

use crate::{
    answer::{
        json::{self, Raw},
        parts::Failure::{self, Broken},
        text::RawText,
        write::escaped,
    },
    output::Output,
};
use serde::Deserialize;

/// The log probability of one token.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Entry<'a> {
    token: RawText<'a>,
    logprob: Raw<'a>,
    bytes: Option<Raw<'a>>,
    top_logprobs: Option<Vec<Entry<'a>>>,
}

/// The entries of a list, with commas between; empty where there is none.
pub(crate) fn entries(list: Option<Raw<'_>>) -> Result<String, Failure> {
    let Some(list) = list.filter(|list| list.get() != "[]") else {
        return Ok(String::new());
    };
    let list: Vec<Entry<'_>> = json::read(list.get()).map_err(|_| Broken)?;
    let mut out = Output::default();
    out.begin_array();
    for entry in &list {
        out.item().begin_object();
        entry.members(&mut out);
        out.key("top_logprobs").begin_array();
        for other in entry.top_logprobs.iter().flatten() {
            out.item().begin_object();
            other.members(&mut out);
            out.end_object();
        }
        out.end_array();
        out.end_object();
    }
    let text = String::from_utf8(out.into_bytes()).unwrap_or_default();
    // A provider's white space must not end the line of an event.
    let line = text.replace(['\n', '\r'], " ");
    Ok(line.strip_prefix('[').unwrap_or_default().to_owned())
}

/// The entries of a text that was cut off behind so many bytes.
pub(crate) fn within(entries: &str, bytes: usize) -> String {
    /// What `entries` writes always.
    #[derive(Deserialize)]
    #[serde(bound(deserialize = "'de: 'a"))]
    struct Bytes<'a> {
        bytes: Vec<Raw<'a>>,
    }
    let list = format!("[{entries}]");
    let list: Vec<Raw<'_>> = json::read(&list).unwrap_or_default();
    let mut end = 0_usize;
    let kept = list.iter().map(|entry| entry.get()).take_while(|entry| {
        let token: Result<Bytes<'_>, _> = json::read(entry);
        end = end.saturating_add(token.map_or(0, |token| token.bytes.len()));
        end <= bytes
    });
    kept.collect::<Vec<_>>().join(",")
}

impl Entry<'_> {
    fn members(&self, out: &mut Output) {
        escaped(out.key("token"), self.token.as_str());
        out.key("logprob").raw(self.logprob.get().as_bytes());
        match self.bytes {
            Some(bytes) => out.key("bytes").raw(bytes.get().as_bytes()),
            // One format leaves out what the other demands.
            None => {
                out.key("bytes").begin_array();
                for byte in self.token.unescape().bytes() {
                    out.item().number(byte.into());
                }
                out.end_array();
            }
        }
    }
}
