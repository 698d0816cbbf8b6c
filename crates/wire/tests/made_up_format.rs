//! A made-up fourth format passes through the whole crate: `cargo test -p tollgate-wire --features
//! made-up-format --test made_up_format`.

use bytes::Bytes;
use tollgate_types::{ErrorCode, Format, PublicError, RequestId, Usage};
use tollgate_wire::{
    address::{self, Address},
    answer::{AnswerKind, AnswerScanner, StopReason},
    body::BodyEdits,
    peek::{PeekLimits, Peeked, Peeker},
    render::error_body,
    stream::{Phase, StreamEnd, StreamOptions, StreamScanner},
};

const FORMAT: Format = Format::MadeUp;
const STREAM: &str = "/v9/models/vendor%2Fsmall-1:stream?version=2026-01&alt=sse&key=k";

fn peek(body: &str) -> Result<Peeked, PublicError> {
    let address = address::read(FORMAT, STREAM).unwrap_or_default();
    let mut peeker = Peeker::new(FORMAT, &PeekLimits::default()).with_address(address);
    let pushed = peeker.push(body.as_bytes());
    let peeked = pushed.and_then(|_| peeker.finish());
    peeked.map_err(|error| error.public())
}

#[test]
fn an_address_names_the_model_the_stream_and_the_version() {
    let address = address::read(FORMAT, STREAM).unwrap();
    assert_eq!(address.model.as_deref(), Some("vendor/small-1"));
    assert_eq!(address.stream, Some(true));
    assert_eq!(address.version.as_deref(), Some("2026-01"));
    let whole = Address {
        stream: Some(false),
        ..address.clone()
    };
    for (address, expected) in [
        (
            &address,
            "/v9/models/vendor%2Fsmall-1:stream?alt=sse&version=2026-01",
        ),
        (&whole, "/v9/models/vendor%2Fsmall-1:answer?version=2026-01"),
    ] {
        let written = address::write(FORMAT, address).unwrap();
        assert_eq!(written, expected);
        assert_eq!(address::read(FORMAT, &written).as_ref(), Some(address));
    }
    for other in [
        "/v9/models/:answer?version=1",
        "/v9/models/a/b:answer?version=1",
        "/v9/models/a:answer",
        "/v9/models/a:stream?version=1",
        "/v9/models/a%2:answer?version=1",
        "/v9/models/a%+1:answer?version=1",
        "/v1/chat/completions",
    ] {
        assert_eq!(address::read(FORMAT, other), None, "{other}");
    }
    assert_eq!(address::read(Format::Chat, "/v1/chat/completions"), None);
}

#[test]
fn a_request_is_read_by_the_names_of_its_format() {
    let body = r#"{"contents":[{"role":"user","parts":[{"text":"Hello"},{"inlineData":{"data":"AAAA"}}]}],"settings":{"answers":2,"thinking":"high"},"mostTokens":99}"#;
    let peeked = peek(body).unwrap();
    let facts = &peeked.facts;
    assert_eq!(facts.model.as_deref(), Some("vendor/small-1"));
    assert!(facts.stream && facts.needs.images);
    assert_eq!((facts.choices, facts.output_limit), (2, Some(99)));
    assert_eq!(facts.media.bytes, 4);
    assert!(peeked.spans.effort.is_some());

    let error = peek(r#"{"contents":[{"role":"user"}]}"#).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("contents[0].parts"));
    let error = peek(r#"{"contents":[],"settings":{}}"#).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("contents"));
}

#[test]
fn edits_use_the_field_of_the_format_and_leave_the_address_alone() {
    let body = Bytes::from_static(br#"{"contents":[{"role":"user","parts":[]}]}"#);
    let peeked = peek(std::str::from_utf8(&body).unwrap()).unwrap();
    let mut edits = BodyEdits::new(FORMAT, &peeked);
    edits.set_model("upstream");
    edits.ask_for_usage();
    edits.set_output_limit(7);
    let spliced = edits.into_splice().apply(&[body]).unwrap();
    let expected = r#"{"mostTokens":7,"contents":[{"role":"user","parts":[]}]}"#;
    assert_eq!(spliced.chunks.concat(), expected.as_bytes());
}

const PARTS: [&str; 2] = [
    r#"{"answerId":"a1","modelVersion":"m-1","answers":[{"number":0,"parts":[{"text":"Hel"}]}]}"#,
    r#"{"answers":[{"number":0,"parts":[{"text":"lo","thoughtSeal":"x"}],"finish":"stop"}],"counts":{"promptCount":10,"answerCount":3,"details":{"thoughtCount":1}}}"#,
];

const USAGE: Usage = Usage {
    input: 10,
    cache_read: 0,
    cache_write: 0,
    output: 3,
    reasoning: 1,
};

#[test]
fn a_stream_ends_with_its_finish_reason() {
    let mut scanner = StreamScanner::new(FORMAT, StreamOptions::default());
    let mut out = Vec::new();
    for part in PARTS {
        scanner.push(&Bytes::from(format!("data: {part}\n\n")), &mut out);
    }
    assert_eq!(*scanner.phase(), Phase::Content);
    assert_eq!(scanner.finish(&mut out), StreamEnd::Finished);
    assert_eq!(
        out.concat(),
        PARTS
            .map(|it| format!("data: {it}\n\n"))
            .concat()
            .as_bytes()
    );
    assert_eq!(scanner.usage().plausible(), Some(USAGE));
    assert_eq!(scanner.text_bytes(), 5);
    let facts = scanner.facts();
    assert_eq!(facts.id.as_deref(), Some("a1"));
    assert_eq!(facts.model.as_deref(), Some("m-1"));
    assert_eq!(facts.stop, Some(StopReason::Done));
}

#[test]
fn a_stream_without_its_finish_reason_is_cut() {
    let mut scanner = StreamScanner::new(FORMAT, StreamOptions::default());
    let mut out = Vec::new();
    scanner.push(&Bytes::from(format!("data: {}\n\n", PARTS[0])), &mut out);
    assert_eq!(scanner.finish(&mut out), StreamEnd::Cut);
    scanner.push(
        &Bytes::from_static(b"data: {\"object\":\"other\"}\n\n"),
        &mut out,
    );
    assert!(
        matches!(scanner.phase(), Phase::Failed(_)),
        "an unknown event"
    );
}

#[test]
fn a_whole_answer_and_an_error_are_distinguished() {
    let read = |body: &str| {
        let mut scanner = AnswerScanner::new(FORMAT);
        scanner.push(body.as_bytes());
        (scanner.finish(), scanner.usage().plausible())
    };
    assert_eq!(read(PARTS[1]), (AnswerKind::Answer, Some(USAGE)));
    assert_eq!(read(r#"{"error":{"message":"no"}}"#).0, AnswerKind::Error);
    assert_eq!(read(r#"{"choices":[]}"#).0, AnswerKind::Broken);
}

#[test]
fn an_error_is_written_as_the_format_writes_it() {
    let error = PublicError::new(ErrorCode::UpstreamError, "no");
    let request = RequestId::from_parts(1_790_000_000_000, 7);
    let body = error_body(Some(FORMAT), &error, &request);
    assert!(
        body.starts_with(br#"{"type":"failure","error":{"#),
        "{body:?}"
    );
}
