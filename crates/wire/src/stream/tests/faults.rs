//! Streams that break or fail: nothing of the provider's words leaves, and none of them
//! looks finished.

use super::*;
use crate::fault::FaultClass;

/// Stands in every text of a provider's error.
const MARK: &str = "zebra";

/// Error events in all the shapes that providers send, with the class they mean.
fn errors(format: Format) -> Vec<(String, FaultClass)> {
    use FaultClass as C;
    let of = |shapes: &[(&str, FaultClass)]| {
        shapes
            .iter()
            .map(|(event, class)| (event.replace("TEXT", MARK), *class))
            .collect()
    };
    match format {
        Format::Embeddings | Format::Rerank => Vec::new(),
        Format::Gemini => of(&[
            (
                "data: {\"error\":{\"code\":503,\"message\":\"TEXT\",\"status\":\"UNAVAILABLE\"}}\n\n",
                C::Busy,
            ),
            (
                "data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"}}\n\n",
                C::ContentPolicy,
            ),
            (
                "data: {\"candidates\":[{\"finishReason\":\"MALFORMED_FUNCTION_CALL\",\"finishMessage\":\"TEXT\"}]}\n\n",
                C::UnfitAnswer,
            ),
        ]),
        Format::Converse => of(&[
            (
                "event: messageStop\ndata: {\"type\":\"messageStop\",\"stopReason\":\"malformed_tool_use\",\"p\":\"TEXT\"}\n\n",
                C::UnfitAnswer,
            ),
            (
                "event: error\ndata: {\"__type\":\"ThrottlingException\",\"message\":\"TEXT\"}\n\n",
                C::RateLimit,
            ),
        ]),
        Format::Messages => of(&[
            (
                "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"TEXT\"},\"request_id\":\"TEXT\"}\n\n",
                C::Busy,
            ),
            (
                "data: {\"error\":{\"message\":\"TEXT\"},\"type\":\"error\"}\n\n",
                C::ServerError,
            ),
            ("event: error\ndata: TEXT, no JSON\n\n", C::ServerError),
        ]),
        Format::Chat => of(&[
            (
                "data: {\"error\":{\"message\":\"TEXT\",\"type\":\"server_error\",\"code\":\"rate_limit_exceeded\"}}\n\n",
                C::RateLimit,
            ),
            (
                "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"TEXT\"},\"finish_reason\":\"error\"}],\"error\":{\"code\":502,\"message\":\"TEXT\"}}\n\n",
                C::ServerError,
            ),
            (
                "data: {\"choices\":[{\"index\":0,\"error\":{\"code\":429,\"message\":\"TEXT\"},\"delta\":{}}]}\n\n",
                C::RateLimit,
            ),
            (
                "event: error\ndata: {\"error\":{\"message\":\"TEXT\",\"type\":\"invalid_request_error\",\"code\":\"tool_use_failed\"}}\n\n",
                C::InvalidRequest,
            ),
            ("data: {\"error\":\"TEXT\"}\n\n", C::ServerError),
            (
                "data: {\"\\u0065rror\":{\"message\":\"TEXT\"}}\n\n",
                C::ServerError,
            ),
            ("data: TEXT, no JSON\n\n", C::BrokenAnswer),
            ("data: {\"choices\":[\"TEXT\"\n\n", C::BrokenAnswer),
        ]),
        Format::Responses => of(&[
            (
                "event: error\ndata: {\"type\":\"error\",\"sequence_number\":9,\"error\":{\"type\":\"x\",\"code\":\"server_is_overloaded\",\"message\":\"TEXT\"}}\n\n",
                C::Busy,
            ),
            (
                "event: error\ndata: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":\"TEXT\",\"param\":null,\"sequence_number\":9}\n\n",
                C::RateLimit,
            ),
            (
                "data: {\"sequence_number\":9,\"code\":\"TEXT\",\"message\":\"TEXT\",\"type\":\"error\"}\n\n",
                C::ServerError,
            ),
            (
                "event: response.failed\ndata: {\"type\":\"response.failed\",\"sequence_number\":9,\"response\":{\"id\":\"resp_1\",\"status\":\"failed\",\"instructions\":\"TEXT\",\"error\":{\"code\":\"insufficient_quota\",\"message\":\"TEXT\"}}}\n\n",
                C::Quota,
            ),
        ]),
    }
}

/// Every stream with every error in the place of each event, and what came before it.
fn broken_streams() -> impl Iterator<Item = (Format, String, String, FaultClass)> {
    STREAMS.into_iter().flat_map(|(format, stream)| {
        let ends: Vec<_> = stream.match_indices("\n\n").map(|(at, _)| at + 2).collect();
        let starts = [0].into_iter().chain(ends).collect::<Vec<_>>();
        errors(format).into_iter().flat_map(move |(error, class)| {
            let starts = starts[..starts.len() - 1].to_vec();
            starts.into_iter().map(move |at| {
                let (before, after) = stream.split_at(at);
                let broken = format!("{before}{error}{after}");
                (format, before.to_owned(), broken, class)
            })
        })
    })
}

#[test]
fn an_error_event_never_leaves_nor_does_anything_after_it() {
    for (format, before, stream, class) in broken_streams() {
        for seen in [
            whole(format, &stream),
            bytewise(format, StreamOptions::default(), &stream),
        ] {
            assert_eq!(seen.out, before);
            assert_eq!(seen.end, StreamEnd::Failed);
            assert!(!seen.failure.contains(MARK), "{}", seen.failure);
            let Some(Phase::Failed(fault)) = seen.phases.last() else {
                panic!("{:?} after {stream}", seen.phases);
            };
            assert_eq!((fault.class, fault.status), (class, None), "{stream}");
        }
    }
}

#[test]
fn no_half_of_an_error_event_leaves_however_it_is_cut() {
    for (format, stream) in STREAMS {
        let at = stream.find("\n\n").unwrap() + 2;
        for (error, _) in errors(format) {
            let broken = format!("{}{error}", &stream[..at]);
            let seen = however_cut(format, StreamOptions::default(), &broken);
            assert_eq!(seen.out, stream[..at]);
        }
    }
}

#[test]
fn an_upstream_that_stops_early_is_cut_and_its_half_event_stays_inside() {
    for (format, stream) in STREAMS {
        let last = stream.trim_end().rfind("\n\n").unwrap() + 2;
        for cut in 0..last {
            let seen = whole(format, &stream[..cut]);
            let finished_chat = seen.out.contains("finish_reason\":\"stop");
            let expected = match finished_chat {
                true => StreamEnd::Finished,
                false => StreamEnd::Cut,
            };
            assert_eq!(seen.end, expected, "{format} cut at {cut}");
            assert!(
                seen.out.is_empty() || seen.out.ends_with("\n\n"),
                "{:?}",
                seen.out
            );
            assert!(seen.failure.starts_with(['d', 'e']), "{}", seen.failure);
        }
    }
}

#[test]
fn chat_is_finished_without_its_marker_once_every_choice_has_ended() {
    let chunk = |index: u8, reason: &str| {
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":\"x\"}},\"finish_reason\":{reason},\"index\":{index}}}]}}\n\n"
        )
    };
    let mut stream = chunk(0, "null") + &chunk(1, "null") + &chunk(0, "\"stop\"");
    assert_eq!(whole(Format::Chat, &stream).end, StreamEnd::Cut);
    stream += &chunk(1, "\"length\"");
    assert_eq!(whole(Format::Chat, &stream).end, StreamEnd::Finished);
    let stream = chunk(1, "\"length\"") + &chunk(2, "\"other\"") + &chunk(0, "\"stop\"");
    let seen = whole(Format::Chat, &stream);
    let words: Vec<_> = seen.facts.stop_words().collect();
    assert_eq!(words, ["stop", "length", "other"]);
}

#[test]
fn an_empty_reason_ends_no_choice() {
    let chunk = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"\",\"index\":0}]}\n\n";
    let seen = whole(Format::Chat, &chunk.repeat(3));
    assert_eq!((seen.end, seen.facts.stop), (StreamEnd::Cut, None));
    let seen = whole(Format::Chat, &format!("{chunk}data: [DONE]\n\n"));
    assert_eq!(seen.end, StreamEnd::Finished);
}

#[test]
fn a_choice_with_an_error_fails_though_others_like_it_had_none() {
    let chunk = |error: &str| {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"error\":{error}}}]}}\n\n")
    };
    let content = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n";
    let before = format!("{content}{}{}", chunk("\"\""), chunk("\"\""));
    for error in ["\"zebra\"", "true", "500"] {
        let seen = however_cut(
            Format::Chat,
            StreamOptions::default(),
            &format!("{before}{}", chunk(error)),
        );
        assert_eq!(
            (&seen.out, seen.end),
            (&before, StreamEnd::Failed),
            "{error}"
        );
    }
}

#[test]
fn an_end_marker_does_not_make_a_broken_stream_look_finished() {
    let marker = "data: [DONE]\n\n";
    let seen = whole(Format::Chat, marker);
    assert_eq!((seen.out.as_str(), seen.end), ("", StreamEnd::Failed));
    for (format, stream) in [(Format::Messages, MESSAGES), (Format::Responses, RESPONSES)] {
        let last = stream.trim_end().rfind("\n\n").unwrap() + 2;
        let seen = whole(format, &format!("{}{marker}", &stream[..last]));
        assert_eq!(
            (seen.out.as_str(), seen.end),
            (&stream[..last], StreamEnd::Cut)
        );
    }
}

#[test]
fn the_failure_of_a_response_goes_on_with_its_numbers_and_identity() {
    let at = RESPONSES.find("event: response.completed").unwrap();
    for error in ["", &errors(Format::Responses)[0].0] {
        let failure = whole(Format::Responses, &format!("{}{error}", &RESPONSES[..at])).failure;
        let data: Vec<serde_json::Value> = failure
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect();
        assert_eq!(data[0]["sequence_number"], 3, "{failure}");
        assert_eq!(data[1]["sequence_number"], 4, "{failure}");
        assert_eq!(data[1]["response"]["id"], "resp_1");
        assert_eq!(data[1]["response"]["created_at"], 9);
    }
}

#[test]
fn an_event_over_the_bound_passes_and_is_closed_before_the_failure() {
    let options = StreamOptions {
        max_event_bytes: 100,
        ..StreamOptions::default()
    };
    let half = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}",
        "x".repeat(200)
    );
    let seen = scan(Format::Chat, options, half.as_bytes().chunks(30));
    assert_eq!(seen.out, half);
    assert_eq!(seen.text_bytes, 200, "what has left counts");
    assert_eq!(seen.end, StreamEnd::Cut);
    assert!(
        seen.failure.starts_with("\n\ndata: {\"error\":"),
        "{}",
        seen.failure
    );
}

#[test]
fn an_error_larger_than_the_bound_is_held_all_the_same() {
    let options = StreamOptions {
        max_event_bytes: 100,
        ..StreamOptions::default()
    };
    for (format, head) in [
        (
            Format::Chat,
            "data: {\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"",
        ),
        (
            Format::Messages,
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"",
        ),
        (
            Format::Responses,
            "data: {\"type\":\"response.failed\",\"response\":{\"x\":\"",
        ),
    ] {
        for size in [1000, 3_000_000] {
            let event = format!("{head}{}\"}}}}\n\n", MARK.repeat(size / MARK.len()));
            let mut scanner = StreamScanner::new(format, options);
            let mut out = Vec::new();
            for chunk in event.as_bytes().chunks(80) {
                scanner.push(&Bytes::copy_from_slice(chunk), &mut out);
                assert!(scanner.held_bytes() <= MAX_ERROR_IN_SUCCESS_BYTES);
            }
            assert_eq!(out.concat(), b"", "{format} {size}");
            assert!(matches!(scanner.phase(), Phase::Failed(_)));
        }
    }
}

#[test]
fn an_upstream_that_drips_is_held_within_bounds() {
    let mut scanner = StreamScanner::new(Format::Chat, StreamOptions::default());
    let mut out = Vec::new();
    scanner.push(
        &Bytes::from_static(b"data: {\"choices\":[],\"x\":\""),
        &mut out,
    );
    for _ in 0..100_000 {
        scanner.push(&Bytes::from_static(b"x"), &mut out);
        assert!(scanner.held_bytes() <= 64 * 1024);
    }
    assert!(out.concat().len() > 90_000);
}

/// The class of the failure of a stream, read by the scanner and by the reader of events.
#[track_caller]
fn class_of(format: Format, stream: &str) -> FaultClass {
    let scanned = scan(
        format,
        StreamOptions::default(),
        stream.as_bytes().chunks(1000),
    );
    let mut reader = EventReader::new(format, 64 * 1024);
    let mut rest = stream.as_bytes();
    while reader.next(&mut rest).is_some() {}
    match (scanned.phases.last(), reader.phase()) {
        (Some(Phase::Failed(a)), Phase::Failed(b)) => {
            assert_eq!(a.class, b.class);
            a.class
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_error_event_of_gemini_and_converse_has_its_class() {
    for format in [Format::Gemini, Format::Converse] {
        for (error, class) in errors(format) {
            assert_eq!(class_of(format, &error), class, "{error}");
        }
    }
}

#[test]
fn a_call_nested_too_deep_makes_an_unfit_answer() {
    let deep = "[".repeat(200) + &"]".repeat(200);
    let call = format!(
        "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"functionCall\":{{\"args\":{{\"a\":{deep}}}}}}}]}}}}]}}\n\n"
    );
    assert_eq!(class_of(Format::Gemini, &call), FaultClass::UnfitAnswer);
    let garbage = format!("data: {deep}\n\n");
    assert_eq!(class_of(Format::Gemini, &garbage), FaultClass::BrokenAnswer);
}

#[test]
fn the_usage_of_a_malformed_answer_is_final() {
    for (reason, is_final) in [("MALFORMED_FUNCTION_CALL", true), ("error", false)] {
        let stream = format!(
            "data: {{\"candidates\":[{{\"index\":0,\"finishReason\":\"{reason}\"}}],\"usageMetadata\":{{\"promptTokenCount\":10,\"thoughtsTokenCount\":5000}}}}\n\n"
        );
        let seen = whole(Format::Gemini, &stream);
        assert_eq!(seen.facts.has_final_usage, is_final, "{reason}");
        assert_eq!(seen.usage.usage.total(), 5010, "{reason}");
    }
}

#[test]
fn a_failure_behind_much_text_keeps_its_class() {
    let long = "word ".repeat(30_000);
    let malformed = format!(
        "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{long}\"}}]}},\"finishReason\":\"MALFORMED_FUNCTION_CALL\"}}]}}\n\n"
    );
    assert_eq!(
        class_of(Format::Gemini, &malformed),
        FaultClass::UnfitAnswer
    );
    let failed = format!(
        "data: {{\"type\":\"response.failed\",\"response\":{{\"status\":\"failed\",\"instructions\":\"{long}\",\"error\":{{\"code\":\"context_length_exceeded\",\"message\":\"m\"}}}}}}\n\n"
    );
    let class = class_of(Format::Responses, &failed);
    assert!(matches!(class, FaultClass::ContextLength(_)), "{class:?}");
}
