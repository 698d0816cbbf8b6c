//! Answers that come whole, and errors.

use crate::{
    input::Input,
    strict,
    support::{context, notes, translate_body},
};
use http::{HeaderMap, HeaderValue};
use std::time::Duration;
use tollgate_types::Format;
use tollgate_wire::{
    answer::{AnswerFacts, AnswerKind, AnswerReport, AnswerScanner},
    fault::{UpstreamAnswer, UpstreamFault, classify, classify_body},
    usage::ReportedUsage,
};

fn scan<'a>(
    format: Format,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (AnswerKind, AnswerFacts, ReportedUsage, u64) {
    let mut scanner = AnswerScanner::new(format);
    for chunk in chunks {
        scanner.push(chunk);
    }
    let kind = scanner.finish();
    let text = scanner.text_bytes();
    (kind, scanner.facts().clone(), scanner.usage(), text)
}

/// An answer that comes whole.
///
/// - The result is the same in any chunks.
/// - The strictest reader of the caller's format takes its translation, if it can read the answer.
/// - The translation reports the same usage, or to Messages clients the counted input instead of zero.
pub fn answer(input: &[u8]) {
    let Some(input) = Input::of(input) else {
        return;
    };
    let (caller, provider) = input.formats();
    let whole = scan(provider, [input.data]);
    assert_eq!(scan(provider, input.chunks()), whole, "in chunks");
    let Ok(text) = std::str::from_utf8(input.data) else {
        return;
    };
    let notes = notes(caller, provider);
    let Ok(translated) = translate_body(&notes, text, text.len().max(1)) else {
        return;
    };
    // JSON has numbers and surrogates that clients with this reader refuse from any server.
    if serde_json::from_str::<serde_json::Value>(text).is_ok() {
        let read = strict::body(caller, &translated);
        assert!(read.is_ok(), "{read:?}\n{translated}");
    }
    let (kind, _, usage, _) = scan(caller, [translated.as_bytes()]);
    assert_eq!(kind, AnswerKind::Answer, "{translated}");
    let mut reported = whole.2.usage;
    if caller == Format::Gemini {
        // The format has no field for them.
        reported.input += std::mem::take(&mut reported.cache_write);
    }
    if caller == Format::Messages && reported.total_input() == 0 {
        reported.input = context().input_tokens;
    }
    if whole.2.has_input || whole.2.has_output {
        assert_eq!(usage.usage, reported, "{translated}");
    }
}

/// The headers of an error that the gateway reads.
const ERROR_HEADERS: [&str; 5] = [
    "retry-after",
    "retry-after-ms",
    "x-amzn-errortype",
    "x-ratelimit-remaining",
    "date",
];

/// The headers and the body. With the first option, the lines before the first empty line are headers; the first byte
/// of a line selects the name.
fn headed(input: Input<'_>) -> (HeaderMap, &[u8]) {
    let mut headers = HeaderMap::new();
    let mut body = input.data;
    while input.chooses(0)
        && let Some(end) = body.iter().position(|byte| *byte == b'\n')
    {
        let line = &body[..end];
        body = &body[end + 1..];
        let Some((header, value)) = line.split_first() else {
            break;
        };
        if let Ok(value) = HeaderValue::from_bytes(value) {
            let name = ERROR_HEADERS[usize::from(*header) % ERROR_HEADERS.len()];
            headers.append(name, value);
        }
    }
    (headers, body)
}

/// A provider's error, as an answer and within a stream: what leaves the classification is short and plain.
pub fn fault(input: &[u8]) {
    let Some(input) = Input::of(input) else {
        return;
    };
    let (headers, body) = headed(input);
    let answer = UpstreamAnswer {
        status: 400 + u16::from(input.sizes[0]) % 200,
        headers: &headers,
        body,
        now: std::time::UNIX_EPOCH,
    };
    assert_is_bounded(&classify(&answer));
    assert_is_bounded(&classify_body(body));
}

/// What leaves the gateway of a fault is short and plain.
pub fn assert_is_bounded(fault: &UpstreamFault) {
    /// The longest message that the gateway composes, in bytes.
    const MOST_MESSAGE: usize = 200;
    const DAY: Duration = Duration::from_secs(86_400);
    let public = fault.public();
    assert!((400..600).contains(&public.status), "{public:?}");
    assert!(public.message.len() <= MOST_MESSAGE, "{public:?}");
    assert!(public.message.is_ascii(), "{public:?}");
    assert!(
        fault.retry_after.is_none_or(|wait| wait <= DAY),
        "{fault:?}"
    );
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let code = fault.provider_code.as_deref().unwrap_or_default();
    assert!(code.len() <= 64 && code.bytes().all(is_plain), "{fault:?}");
}
