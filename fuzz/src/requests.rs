//! Request bodies: reading, editing, translating.

use crate::input::Input;
use bytes::Bytes;
use serde::de::IgnoredAny;
use tollgate_translate::{
    Target, ThinkingObstacles, most_memory, request, without_members, without_seals,
};
use tollgate_types::{Format, ReasoningMode};
use tollgate_wire::{
    body::BodyEdits,
    json::{JsonErrorKind, Lexer},
    peek::{PeekError, PeekLimits, Peeked, Peeker},
};

/// The formats whose bodies clients send.
const OF_BODIES: [Format; 6] = [
    Format::Chat,
    Format::Responses,
    Format::Messages,
    Format::Gemini,
    Format::Embeddings,
    Format::Rerank,
];

/// The model's name at the provider.
pub const MODEL: &str = "upstream-1";

/// What the gateway finds in a body that comes in these chunks.
///
/// # Errors
/// It is refused.
pub fn peek<'a>(
    format: Format,
    limits: &PeekLimits,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Peeked, PeekError> {
    let mut peeker = Peeker::new(format, limits).with_texts();
    for chunk in chunks {
        peeker.push(chunk)?;
    }
    peeker.finish()
}

/// Whether the path names the model and says whether the answer is a stream.
pub const fn is_addressed(format: Format) -> bool {
    matches!(format, Format::Gemini | Format::Converse)
}

/// Whether `serde_json` reads it.
pub fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

/// A body that a caller sends: what the gateway finds in it, and its edits.
///
/// - The result is the same in any chunks.
/// - A refusal has a message and a status of the caller's fault.
/// - An accepted body is JSON for `serde_json` as well.
/// - An edited body is JSON, and has the model and the limit that were set.
pub fn body(input: &[u8]) {
    let Some(input) = Input::of(input) else {
        return;
    };
    let format = input.format(&OF_BODIES);
    let limits = PeekLimits {
        model_required: input.chooses(0),
        ..PeekLimits::default()
    };
    let whole = peek(format, &limits, [input.data]);
    assert_eq!(peek(format, &limits, input.chunks()), whole, "in chunks");
    let peeked = match whole {
        Ok(peeked) => peeked,
        Err(error) => {
            let public = error.public();
            assert!(!public.message.is_empty(), "{error:?}");
            assert!((400..500).contains(&public.status), "{public:?}");
            return;
        }
    };
    assert!(is_json(input.data), "accepted, and no JSON");
    let chunks: Vec<_> = input.chunks().map(Bytes::copy_from_slice).collect();
    let none = BodyEdits::new(format, &peeked).into_splice();
    let none = none.apply(&chunks).expect("no edits fit");
    assert_eq!(none.chunks.concat(), input.data, "without edits");
    edits(format, &peeked, &chunks);
}

fn edits(format: Format, peeked: &Peeked, chunks: &[Bytes]) {
    const LIMIT: u64 = 1000;
    let mut edits = BodyEdits::new(format, peeked);
    edits.set_model(MODEL);
    // Embeddings and rerank have no output: there, the field is one of the client's own.
    if Format::OF_CONVERSATIONS.contains(&format) {
        edits.set_output_limit(LIMIT);
    }
    edits.ask_for_usage();
    edits.leave_out_effort();
    let spliced = edits.into_splice().apply(chunks).expect("the edits fit");
    let body = spliced.chunks.concat();
    // The members that are put in may be too many, or their keys may stand in the body.
    let again = peek(
        format,
        &PeekLimits {
            keys: 1024,
            model_required: !is_addressed(format),
            ..PeekLimits::default()
        },
        [&*body],
    );
    let again = again.unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&body));
    });
    if !is_addressed(format) {
        assert_eq!(again.facts.model.as_deref(), Some(MODEL));
    }
    if Format::OF_CONVERSATIONS.contains(&format) {
        assert_eq!(again.facts.output_limit, Some(LIMIT));
    }
}

/// A body that goes to a provider of another format.
///
/// - A translated body is JSON, and the gateway's own reader accepts it with the target's model if it has accepted the
///   client's.
/// - A refusal has a message.
/// - A body that was found to be JSON before is translated to the same.
/// - The result is not larger than the memory that is reserved for it.
pub fn translated(input: &[u8]) {
    let Some(input) = Input::of(input) else {
        return;
    };
    let (from, to) = input.formats();
    let mut target = Target::new(MODEL, "backend");
    if input.chooses(0) {
        target.cache_breakpoints = false;
        target.max_output_tokens = Some(64_000);
    }
    if input.chooses(1) {
        target.reasoning = ReasoningMode::Extended;
        target.chat.reasoning_content = true;
        target.chat.developer_role = false;
        target.chat.system_in_the_middle = false;
        target.chat.custom_tools = false;
        target.chat.openai = false;
        target.messages.adaptive_thinking = false;
        target.messages.structured_output = false;
        target.messages.system_in_the_middle = false;
    }
    if input.chooses(2) {
        target.reasoning = ReasoningMode::Adaptive;
        target.responses.web_search = true;
        target.messages.web_search = true;
    }
    let translated = request(from, to, input.data, &target);
    if Lexer::check(input.data).is_err() {
        // For a body that is not JSON the result is arbitrary, but nothing may panic.
        return;
    }
    let translated = match translated {
        Ok(translated) => translated,
        Err(refusal) => {
            assert!(!refusal.message.is_empty());
            return;
        }
    };
    let limits = PeekLimits {
        keys: 1024,
        model_required: false,
        ..PeekLimits::default()
    };
    let text = || String::from_utf8_lossy(&translated.body).into_owned();
    assert!(is_json(&translated.body), "{}", text());
    // The gateway translates no body that its reader has refused.
    let Ok(own) = peek(from, &limits, [input.data]) else {
        return;
    };
    let peeked = match peek(to, &limits, [&*translated.body]) {
        Ok(peeked) => peeked,
        // In a value that the reader of the client's format skips, such as a schema.
        Err(
            PeekError::DuplicateKey { .. }
            | PeekError::KeyCase { .. }
            | PeekError::KeyTooLong { .. }
            | PeekError::TooManyKeys { .. },
        ) => return,
        // Some formats have levels that others have not.
        Err(PeekError::Json(error)) if matches!(error.kind, JsonErrorKind::TooDeep(_)) => return,
        Err(error) => panic!("{error}: {}", text()),
    };
    if !is_addressed(to) {
        assert_eq!(peeked.facts.model.as_deref(), Some(MODEL));
    }
    assert_eq!(
        peeked.facts.output_limit,
        translated.output_limit,
        "{}",
        text()
    );
    let most = most_memory(input.data.len() as u64, own.values);
    assert!(translated.body.len() as u64 <= most, "{}", text());
    if !is_addressed(to) {
        assert_eq!(peeked.facts.stream, own.facts.stream, "{}", text());
    }
}

/// A body that stays in its format, without sealed reasoning and without what is in the way of
/// thinking: what is left is JSON.
pub fn unsealed(input: &[u8]) {
    let Some(input) = Input::of(input) else {
        return;
    };
    let format = input.format(&Format::OF_CLIENTS);
    let unsealed = without_seals(format, input.data, true);
    let obstacles = ThinkingObstacles::of(input.data);
    let rest = without_members(input.data, &obstacles.sampling);
    if !is_json(input.data) {
        // For a body that is not JSON the result is arbitrary, but nothing may panic.
        return;
    }
    if let Some(unsealed) = unsealed {
        assert!(is_json(&unsealed.body));
        if let Some(again) = without_seals(format, &unsealed.body, true) {
            // With a key twice in an object, which the gateway refuses, the second seal can be left.
            let limits = PeekLimits {
                model_required: false,
                ..PeekLimits::default()
            };
            let is_accepted = peek(format, &limits, [input.data]).is_ok();
            assert!(!is_accepted, "a seal is left: {again:?}");
        }
    }
    if let Some(body) = rest {
        assert!(is_json(&body));
        assert!(ThinkingObstacles::of(&body).sampling.is_empty());
    }
}
