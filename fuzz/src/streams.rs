//! Event streams: passing, translating.

use crate::{
    input::{Input, has_surrogates, is_left_of},
    strict,
    support::{context, notes, translate},
};
use bytes::Bytes;
use std::sync::Arc;
use tollgate_translate::{AskedSearch, StreamTranslator};
use tollgate_types::{ErrorCode, Format, PublicError};
use tollgate_wire::{
    answer::{AnswerFacts, AnswerReport},
    stream::{Phase, StreamEnd, StreamOptions, StreamScanner},
    usage::ReportedUsage,
};

/// What the scanner holds of a stream beyond the events that are not complete.
const MOST_HELD: usize = 1 << 20;

/// Everything that the gateway sees of a stream that passes.
#[derive(Debug, PartialEq)]
struct Seen {
    out: Vec<u8>,
    end: StreamEnd,
    phase: Phase,
    usage: ReportedUsage,
    facts: AnswerFacts,
    events: u64,
    text_bytes: u64,
    failure: Bytes,
}

fn scan<'a>(
    format: Format,
    options: StreamOptions,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Seen {
    let mut scanner = StreamScanner::new(format, options);
    let mut out = Vec::new();
    for chunk in chunks {
        scanner.push(&Bytes::copy_from_slice(chunk), &mut out);
        assert!(scanner.held_bytes() <= MOST_HELD);
    }
    let end = scanner.finish(&mut out);
    let error = PublicError::new(ErrorCode::ServiceUnavailable, "gone");
    Seen {
        out: out.concat(),
        end,
        phase: scanner.phase().clone(),
        usage: scanner.usage(),
        facts: scanner.facts().clone(),
        events: scanner.events(),
        text_bytes: scanner.text_bytes(),
        failure: scanner.failure_event(&error, &context().request),
    }
}

/// What passed, without the blocks and lines that the gateway may have written.
fn without_own(out: &[u8]) -> Vec<u8> {
    const OWN: [&[u8]; 3] = [b":\n\n", b":\n", b"data: [DONE]\n\n"];
    let mut rest = out;
    let mut kept = Vec::new();
    while let Some((first, after)) = rest.split_first() {
        let own = OWN.iter().find_map(|own| rest.strip_prefix(*own));
        if own.is_none() {
            kept.push(*first);
        }
        rest = own.unwrap_or(after);
    }
    kept
}

/// A stream that passes in its own format.
///
/// - The result is the same in any chunks.
/// - What passes is what came, with whole events left out, and the gateway's own comments and
///   end marker in place of the provider's.
/// - What passed passes again and ends in the same way.
/// - A stream that has failed, or was cut, has failed for its reader.
pub fn passed(input: &[u8]) {
    let Some(input) = Input::of(input) else {
        return;
    };
    let format = input.format(&Format::OF_CLIENTS);
    let options = StreamOptions {
        strip_usage: input.chooses(0),
        ..StreamOptions::default()
    };
    let whole = scan(format, options, [input.data]);
    assert_eq!(scan(format, options, input.chunks()), whole, "in chunks");
    // The blank line of the last event may be the gateway's.
    let came = [input.data, b"\n\n"].concat();
    assert!(is_left_of(&without_own(&whole.out), &came), "{whole:?}");
    if whole.end == StreamEnd::Finished {
        let again = scan(format, options, [&*whole.out]);
        assert_eq!(again.end, StreamEnd::Finished);
        assert_eq!(again.out, whole.out);
        // What an event reports counts although its end is missing.
        if !options.strip_usage && input.data.ends_with(b"\n\n") {
            assert_eq!(again.usage.usage, whole.usage.usage);
        }
    } else {
        let ended = [&*whole.out, &*whole.failure].concat();
        let again = scan(format, StreamOptions::default(), [&*ended]);
        assert_eq!(again.end, StreamEnd::Failed, "{}", ended.escape_ascii());
    }
}

/// A stream that is translated.
///
/// - The result is the same in any chunks.
/// - The strictest reader of the caller's format takes a finished stream, and no other.
/// - What is held is bounded.
pub fn translated(input: &[u8]) {
    let Some(input) = Input::of(input) else {
        return;
    };
    let (caller, provider) = input.formats();
    let mut notes = notes(caller, provider);
    notes.reasoning.text = !input.chooses(0);
    notes.search = input.chooses(1).then_some(AskedSearch { sources: true });
    let whole = translate(&notes, [input.data]);
    assert_eq!(translate(&notes, input.chunks()), whole, "in chunks");
    let ended = match whole.end {
        StreamEnd::Finished => whole.out.clone(),
        _ => format!("{}{}", whole.out, whole.failure),
    };
    let is_finished = whole.end == StreamEnd::Finished;
    if !has_surrogates(input.data) {
        let read = strict::stream(caller, &ended);
        assert_eq!(read.is_ok(), is_finished, "{read:?}\n{ended}");
    }
    let own = scan(caller, StreamOptions::default(), [ended.as_bytes()]);
    let end = if is_finished {
        StreamEnd::Finished
    } else {
        StreamEnd::Failed
    };
    assert_eq!(own.end, end, "{ended}");

    let mut translator = StreamTranslator::new(Arc::new(notes), context());
    for chunk in input.chunks() {
        translator.push(chunk, &mut Vec::new());
        // What is held is what came, in other words.
        assert!(translator.held_bytes() <= 16 * input.data.len() + 4096);
    }
}
