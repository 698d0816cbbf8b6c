//! Binary event streams of Amazon (`application/vnd.amazon.eventstream`): makes server-sent events of their
//! frames, so that all readers read one kind of stream.
//!
//! - A frame of InvokeModelWithResponseStream holds an event of the model's own format, in base64.
//! - A frame of ConverseStream is an event. Its name becomes the `type` of its data.
//! - An exception ends the stream. Each frame has two checksums; its length is bounded before it is held.
//!
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html> describes frames,
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModelWithResponseStream.html>
//! the events.

use crate::fault::{UpstreamFault, classify_exception};
use aws_smithy_eventstream::frame::read_message_from;
use aws_smithy_types::event_stream::{HeaderValue, Message};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::{Buf, BytesMut};
use serde::Deserialize;
use std::borrow::Cow;

/// The longest frame, in bytes. Events of a model have some hundred; the definition allows 24 MiB.
const LONGEST_FRAME: usize = 1024 * 1024;
/// The lengths and checksums of a frame.
const SHORTEST_FRAME: usize = 16;

/// Makes server-sent events of the frames of one stream.
#[derive(Debug, Default)]
pub struct AmazonFrames {
    /// The beginning of a frame whose rest has not come.
    held: BytesMut,
}

/// The payload of a `chunk`. It also has padding, which hides the length of the event.
#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    bytes: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    name: Option<Cow<'a, str>>,
}

impl AmazonFrames {
    /// The media type of these streams.
    pub const MEDIA_TYPE: &str = "application/vnd.amazon.eventstream";

    /// Takes a piece of the stream, and appends the events of its complete frames to `out`.
    ///
    /// # Errors
    ///
    /// The provider reports a failure, or a frame is broken. `out` has the events before that.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), UpstreamFault> {
        self.held.extend_from_slice(piece);
        while let Some(length) = self.frame_length()? {
            if self.held.len() < length {
                break;
            }
            let frame = self.held.split_to(length).freeze();
            let message = read_message_from(frame).map_err(|_| UpstreamFault::broken_answer())?;
            write_event(&message, out)?;
        }
        Ok(())
    }

    /// The length of the next frame. `None` if it has not come.
    fn frame_length(&self) -> Result<Option<usize>, UpstreamFault> {
        let Some(mut prelude) = self.held.get(..size_of::<u32>()) else {
            return Ok(None);
        };
        let length = usize::try_from(prelude.get_u32()).unwrap_or(usize::MAX);
        match (SHORTEST_FRAME..=LONGEST_FRAME).contains(&length) {
            true => Ok(Some(length)),
            false => Err(UpstreamFault::broken_answer()),
        }
    }
}

fn write_event(message: &Message, out: &mut Vec<u8>) -> Result<(), UpstreamFault> {
    let name_header = match header(message, ":message-type") {
        Some("event") => ":event-type",
        Some("exception") => ":exception-type",
        Some("error") => ":error-code",
        _ => return Err(UpstreamFault::broken_answer()),
    };
    let name = header(message, name_header).unwrap_or_default();
    if name_header != ":event-type" {
        return Err(classify_exception(name, message.payload()));
    }
    if name != "chunk" {
        return write_typed(name, message.payload(), out);
    }
    let broken = |_| UpstreamFault::broken_answer();
    let chunk: Chunk<'_> = serde_json::from_slice(message.payload()).map_err(broken)?;
    let data = BASE64_STANDARD.decode(&*chunk.bytes);
    let data = data.map_err(|_| UpstreamFault::broken_answer())?;
    let event: Event<'_> = serde_json::from_slice(&data).map_err(broken)?;
    if let Some(name) = event.name {
        write_name(&name, out)?;
    }
    out.extend_from_slice(b"data: ");
    write_data(&data, out);
    Ok(())
}

/// Writes an event of ConverseStream, whose name stands in a header: it becomes the `type` of the data.
fn write_typed(name: &str, payload: &[u8], out: &mut Vec<u8>) -> Result<(), UpstreamFault> {
    let members = payload.trim_ascii_start().strip_prefix(b"{");
    let members = members.ok_or_else(UpstreamFault::broken_answer)?;
    write_name(name, out)?;
    let comma = if members.trim_ascii() == b"}" {
        ""
    } else {
        ","
    };
    out.extend_from_slice(format!("data: {{\"type\":\"{name}\"{comma}").as_bytes());
    write_data(members, out);
    Ok(())
}

fn write_name(name: &str, out: &mut Vec<u8>) -> Result<(), UpstreamFault> {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"_.".contains(&it);
    if name.is_empty() || !name.bytes().all(is_plain) {
        return Err(UpstreamFault::broken_answer());
    }
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.push(b'\n');
    Ok(())
}

/// A line break can stand between the parts of a JSON value, and would end the line.
fn write_data(data: &[u8], out: &mut Vec<u8>) {
    let is_break = |it: u8| matches!(it, b'\n' | b'\r');
    out.extend(data.iter().map(|it| if is_break(*it) { b' ' } else { *it }));
    out.extend_from_slice(b"\n\n");
}

fn header<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    let mut headers = message.headers().iter();
    match headers.find(|it| it.name().as_str() == name)?.value() {
        HeaderValue::String(text) => Some(text.as_str()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
