//! Binary event streams of Amazon.

use crate::{answers::assert_is_bounded, input::Input};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;
use tollgate_wire::{fault::UpstreamFault, stream::AmazonFrames};

/// The longest data, in bytes: the lengths in a frame have room for it.
const LONGEST: usize = 8192;

/// A binary event stream of Amazon.
///
/// - The result is the same in any chunks.
/// - What comes out are whole server-sent events, each with one line of data.
/// - What is shown of a failure is short and plain.
///
/// With the first option, the data is the stream. Otherwise each line of it becomes a frame with valid checksums.
pub fn amazon(input: &[u8]) {
    let Some(input) = Input::of(input).filter(|it| it.data.len() <= LONGEST) else {
        return;
    };
    let framed: Vec<u8> = match input.chooses(0) {
        true => input.data.to_vec(),
        false => input
            .data
            .split(|it| *it == b'\n')
            .flat_map(frame)
            .collect(),
    };
    let (out, fault) = unframed([&*framed]);
    let (in_chunks, other) = unframed(input.with(&framed).chunks());
    assert_eq!(in_chunks, out, "in chunks");
    assert_eq!(format!("{other:?}"), format!("{fault:?}"), "in chunks");
    if let Err(fault) = fault {
        assert_is_bounded(&fault);
    }
    let text = String::from_utf8_lossy(&out);
    assert!(!text.contains('\r'), "{text}");
    let events = text.strip_suffix("\n\n").map(|text| text.split("\n\n"));
    assert!(events.is_some() || text.is_empty(), "{text}");
    for event in events.into_iter().flatten() {
        let data = match event.split_once('\n') {
            Some((name, data)) if name.starts_with("event: ") => data,
            _ => event,
        };
        assert!(data.starts_with("data: ") && !data.contains('\n'), "{text}");
    }
}

fn unframed<'a>(
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<u8>, Result<(), UpstreamFault>) {
    let mut frames = AmazonFrames::default();
    let mut out = Vec::new();
    let mut chunks = chunks.into_iter();
    let read = chunks.try_for_each(|chunk| frames.push(chunk, &mut out));
    (out, read)
}

/// A frame: the first byte of a line says what it is, a name and a payload follow.
fn frame(line: &[u8]) -> Vec<u8> {
    let (kind, rest) = line.split_first().unwrap_or((&0, &[]));
    let space = rest.iter().position(|it| *it == b' ');
    let (name, payload) = rest.split_at(space.unwrap_or(rest.len()));
    let payload = payload.strip_prefix(b" ").unwrap_or(payload);
    let (kind, header) = match kind % 4 {
        0 | 1 => ("event", ":event-type"),
        2 => ("exception", ":exception-type"),
        _ => ("error", ":error-code"),
    };
    let payload = match (name, line.first()) {
        // An event of the model's own format.
        (b"chunk", Some(first)) if first % 4 == 1 => {
            json!({ "bytes": BASE64_STANDARD.encode(payload), "p": "abc" })
                .to_string()
                .into_bytes()
        }
        _ => payload.to_vec(),
    };
    let mut headers = Vec::new();
    for (name, value) in [(":message-type", kind.as_bytes()), (header, name)] {
        headers.push(length_field(name.len()));
        headers.extend_from_slice(name.as_bytes());
        headers.push(7);
        headers.extend_from_slice(&length_field::<u16>(value.len()).to_be_bytes());
        headers.extend_from_slice(value);
    }
    let length: u32 = length_field(16 + headers.len() + payload.len());
    let mut frame = [
        length.to_be_bytes(),
        length_field::<u32>(headers.len()).to_be_bytes(),
    ]
    .concat();
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame.extend_from_slice(&headers);
    frame.extend_from_slice(&payload);
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame
}

/// A length as the integer type that a frame has for it.
fn length_field<T: TryFrom<usize>>(length: usize) -> T {
    T::try_from(length).ok().expect("at most the longest data")
}
