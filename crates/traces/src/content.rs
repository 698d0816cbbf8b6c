//! Prompts and answers in spans, for the keys that the operator names.
//!
//! A request keeps the bytes that it has anyway, within bounds. The exporting thread reads, redacts and
//! shortens them.

mod messages;
mod redact;

use crate::name;
use bytes::Bytes;
use opentelemetry::KeyValue;
use opentelemetry_sdk::trace::SpanData;
use redact::Redaction;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tollgate_config::ContentSettings;
use tollgate_telemetry::events;

/// Bytes that are kept of one body. A stream has up to fifteen times the bytes of its text.
const MOST_OF_BODY: usize = 4 << 20;
/// Bytes that all requests keep, until their spans are exported.
const MOST_OF_ALL: usize = 64 << 20;
/// The memory of a piece besides its bytes.
const OF_A_PIECE: usize = 64;
/// Longer pieces are copied: they can own the memory permit of their request.
const LONGEST_SHARED: usize = 64 << 10;

/// Which requests keep their content.
pub(crate) struct Keeping {
    keys: BTreeSet<String>,
    kept: Arc<AtomicUsize>,
}

impl Keeping {
    pub(crate) fn of(settings: &ContentSettings) -> Self {
        Self {
            keys: settings.keys.iter().cloned().collect(),
            kept: Arc::default(),
        }
    }

    /// An empty body, if the content of this key is exported.
    pub(crate) fn body(&self, key: &str) -> Option<KeptBody> {
        self.keys.contains(key).then(|| KeptBody {
            pieces: Vec::new(),
            bytes: 0,
            is_incomplete: false,
            of_all: Arc::clone(&self.kept),
        })
    }
}

/// A body that is kept for the export. Short pieces are shared.
pub struct KeptBody {
    pieces: Vec<Bytes>,
    bytes: usize,
    /// Pieces were left out.
    is_incomplete: bool,
    /// Bytes that all requests keep.
    of_all: Arc<AtomicUsize>,
}

impl KeptBody {
    /// Adds a piece. Beyond the bounds, this one and all further ones are left out.
    pub fn add(&mut self, piece: &Bytes) {
        if self.is_incomplete || piece.is_empty() {
            return;
        }
        let more = piece.len().saturating_add(OF_A_PIECE);
        let bytes = self.bytes.saturating_add(more);
        let all = self.of_all.fetch_add(more, Ordering::Relaxed);
        if bytes > MOST_OF_BODY || all.saturating_add(more) > MOST_OF_ALL {
            self.of_all.fetch_sub(more, Ordering::Relaxed);
            self.is_incomplete = true;
            events::content_cut();
            return;
        }
        self.bytes = bytes;
        self.pieces.push(match piece.len() > LONGEST_SHARED {
            true => Bytes::copy_from_slice(piece),
            false => piece.clone(),
        });
    }

    /// Empties it, for the answer of another attempt.
    pub fn clear(&mut self) {
        self.of_all.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = 0;
        self.is_incomplete = false;
        self.pieces.clear();
    }
}

impl Drop for KeptBody {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A request and its answer, in the format of the client.
pub(crate) struct Content {
    pub(crate) prompt: KeptBody,
    pub(crate) answer: Option<KeptBody>,
}

/// Puts content into spans.
pub(crate) struct Writer {
    redaction: Redaction,
    most: usize,
}

impl Writer {
    pub(crate) fn of(settings: &ContentSettings) -> Result<Self, regex::Error> {
        Ok(Self {
            redaction: Redaction::of(&settings.redact)?,
            most: usize::try_from(settings.max_bytes.get()).unwrap_or(usize::MAX),
        })
    }

    /// Adds the messages to a span. Returns how many bytes they have.
    pub(crate) fn write(&self, content: &Content, span: &mut SpanData) -> usize {
        let prompt = messages::prompt(&content.prompt.pieces.concat());
        let answer = content.answer.as_ref().map_or_else(Vec::new, |answer| {
            messages::answer(&answer.pieces.concat(), answer.is_incomplete)
        });
        let mut is_shortened = content.prompt.is_incomplete;
        is_shortened |= content.answer.as_ref().is_some_and(|it| it.is_incomplete);
        let mut bytes = 0_usize;
        for (name, messages) in [
            (name::GEN_AI_SYSTEM_INSTRUCTIONS, prompt.instructions),
            (name::GEN_AI_INPUT_MESSAGES, prompt.messages),
            (name::GEN_AI_OUTPUT_MESSAGES, answer),
        ] {
            if messages.is_empty() {
                continue;
            }
            let (text, lacks_some) = self.fit(messages);
            is_shortened |= lacks_some;
            bytes = bytes.saturating_add(text.len());
            span.attributes.push(KeyValue::new(name, text));
        }
        if is_shortened {
            span.attributes
                .push(KeyValue::new("tollgate.content.shortened", true));
        }
        bytes
    }

    /// The last messages that fit, redacted, and whether something is missing.
    fn fit(&self, messages: Vec<Value>) -> (String, bool) {
        let mut is_shortened = false;
        let mut left = self.most;
        let mut fitting = Vec::new();
        for mut message in messages.into_iter().rev() {
            self.redaction.apply(&mut message);
            let mut text = message.to_string();
            if text.len() > left && fitting.is_empty() {
                // Escapes and the names of members need room, too.
                let mut most = left;
                while text.len() > left && most > 0 {
                    most = most.saturating_mul(3) / 4;
                    shorten(&mut message, &mut { most });
                    text = message.to_string();
                }
                is_shortened = true;
            }
            if text.len() > left {
                is_shortened = true;
                break;
            }
            left = left.saturating_sub(text.len());
            fitting.push(text);
        }
        fitting.reverse();
        (format!("[{}]", fitting.join(",")), is_shortened)
    }
}

/// Cuts the texts of a message to `left` bytes together, except short words such as names.
fn shorten(value: &mut Value, left: &mut usize) {
    const LONGEST_WORD: usize = 64;
    match value {
        Value::String(text) if text.len() > LONGEST_WORD => {
            let mut ends = (0..=text.len().min(*left)).rev();
            let end = ends.find(|end| text.is_char_boundary(*end));
            text.truncate(end.unwrap_or(0));
            *left = left.saturating_sub(text.len());
        }
        Value::Array(values) => {
            let begun = *left > 0;
            values.iter_mut().for_each(|value| shorten(value, left));
            if begun && *left == 0 {
                values.retain(|value| !is_empty_part(value));
            }
        }
        Value::Object(members) => members.values_mut().for_each(|value| shorten(value, left)),
        _ => {}
    }
}

fn is_empty_part(part: &Value) -> bool {
    part.get("content").and_then(Value::as_str) == Some("")
}

#[cfg(test)]
mod tests;
