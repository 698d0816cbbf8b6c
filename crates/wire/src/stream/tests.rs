//! What holds for streams written here; `recorded` tests on those of real providers.

mod faults;
mod foreign;
mod measured;
pub(super) mod recorded;

use super::*;
use tollgate_types::{ErrorCode, Usage};

/// Everything that a caller of the scanner can see of a stream.
#[derive(Debug, PartialEq)]
struct Seen {
    out: String,
    /// Each phase that was entered, in order.
    phases: Vec<Phase>,
    end: StreamEnd,
    usage: ReportedUsage,
    facts: AnswerFacts,
    events: u64,
    text_bytes: u64,
    failure: String,
}

/// Feeds a stream in these chunks.
fn scan<'a>(
    format: Format,
    options: StreamOptions,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Seen {
    let mut scanner = StreamScanner::new(format, options);
    let (mut out, mut phases) = (Vec::new(), vec![Phase::Preamble]);
    for chunk in chunks {
        scanner.push(&Bytes::copy_from_slice(chunk), &mut out);
        note(&mut phases, scanner.phase());
    }
    let end = scanner.finish(&mut out);
    note(&mut phases, scanner.phase());
    Seen {
        out: String::from_utf8(out.concat()).unwrap(),
        phases,
        end,
        usage: scanner.usage(),
        facts: scanner.facts().clone(),
        events: scanner.events(),
        text_bytes: scanner.text_bytes(),
        failure: failure(&scanner),
    }
}

fn failure(scanner: &StreamScanner) -> String {
    let error = PublicError::new(ErrorCode::ServiceUnavailable, "gone");
    let bytes = scanner.failure_event(&error, &RequestId::from_parts(1, 2));
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A chunk may run through several phases; those between are entered all the same.
fn note(phases: &mut Vec<Phase>, phase: &Phase) {
    if phases.last() != Some(phase) {
        phases.push(phase.clone());
    }
}

fn whole(format: Format, stream: &str) -> Seen {
    scan(format, StreamOptions::default(), [stream.as_bytes()])
}

fn bytewise(format: Format, options: StreamOptions, stream: &str) -> Seen {
    scan(format, options, stream.as_bytes().chunks(1))
}

fn strip() -> StreamOptions {
    StreamOptions {
        strip_usage: true,
        ..StreamOptions::default()
    }
}

/// Asserts that a stream gives the same however it is cut in two, and byte by byte, and
/// returns what it gives. Phases are compared by the last one alone: a chunk may hold many.
#[track_caller]
fn however_cut(format: Format, options: StreamOptions, stream: &str) -> Seen {
    let mut expected = scan(format, options, [stream.as_bytes()]);
    let last = expected.phases.pop();
    for cut in 0..stream.len() {
        let (head, tail) = stream.as_bytes().split_at(cut);
        let mut seen = scan(format, options, [head, tail]);
        assert_eq!(seen.phases.pop(), last, "cut at {cut}");
        seen.phases.clone_from(&expected.phases);
        assert_eq!(seen, expected, "cut at {cut}");
    }
    let mut seen = bytewise(format, options, stream);
    assert_eq!(seen.phases.pop(), last, "byte by byte");
    seen.phases.clone_from(&expected.phases);
    assert_eq!(seen, expected, "byte by byte");
    expected.phases.extend(last);
    expected
}

const CHAT: &str = concat!(
    "data: {\"id\":\"c1\",\"created\":7,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},\"finish_reason\":null}],\"usage\":null}\n\n",
    "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"h\\u00e9llo\"},\"finish_reason\":null}],\"usage\":null}\n\n",
    "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":null}\n\n",
    "data: {\"id\":\"c1\",\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":5,\"total_tokens\":15,\"prompt_tokens_details\":{\"cached_tokens\":4},\"completion_tokens_details\":{\"reasoning_tokens\":2}}}\n\n",
    "data: [DONE]\n\n",
);

const MESSAGES: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"m\",\"role\":\"assistant\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":20,\"cache_read_input_tokens\":3,\"cache_creation_input_tokens\":2,\"output_tokens\":1}}}\n\n",
    "event: ping\ndata: {\"type\": \"ping\"}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"error!\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":9}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);

const RESPONSES: &str = concat!(
    "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_1\",\"created_at\":9,\"status\":\"in_progress\",\"error\":null,\"model\":\"m\",\"usage\":null}}\n\n",
    "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"sequence_number\":1,\"item\":{\"id\":\"item\",\"status\":\"in_progress\"}}\n\n",
    "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":2,\"delta\":\"hi\"}\n\n",
    "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":3,\"response\":{\"id\":\"resp_1\",\"status\":\"completed\",\"error\":null,\"incomplete_details\":null,\"output\":[{\"content\":[{\"text\":\"hi\"}]}],\"usage\":{\"input_tokens\":8,\"input_tokens_details\":{\"cached_tokens\":1},\"output_tokens\":6,\"output_tokens_details\":{\"reasoning_tokens\":4},\"total_tokens\":14}}}\n\n",
);

const STREAMS: [(Format, &str); 3] = [
    (Format::Chat, CHAT),
    (Format::Messages, MESSAGES),
    (Format::Responses, RESPONSES),
];

#[test]
fn a_whole_stream_passes_unchanged_however_it_is_cut() {
    for (format, stream) in STREAMS {
        let seen = however_cut(format, StreamOptions::default(), stream);
        assert_eq!(seen.out, stream);
        assert_eq!(seen.end, StreamEnd::Finished);
        assert_eq!(seen.phases.last(), Some(&Phase::Terminal));
        assert_eq!(seen.facts.model.as_deref(), Some("m"));
        assert_eq!(seen.facts.stop, Some(crate::answer::StopReason::Done));
    }
}

#[test]
fn usage_comes_out_in_the_one_canonical_form() {
    let usages = STREAMS.map(|(format, stream)| whole(format, stream).usage.plausible());
    let expected = [(6, 4, 0, 5, 2), (20, 3, 2, 9, 0), (7, 1, 0, 6, 4)].map(
        |(input, cache_read, cache_write, output, reasoning)| {
            Some(Usage {
                input,
                cache_read,
                cache_write,
                output,
                reasoning,
            })
        },
    );
    assert_eq!(usages, expected);
}

#[test]
fn text_is_measured_without_what_is_repeated() {
    let texts = STREAMS.map(|(format, stream)| whole(format, stream).text_bytes);
    assert_eq!(
        texts,
        ["h\u{e9}llo", "error!", "hi"].map(|text| text.len() as u64)
    );
}

#[test]
fn a_chunk_of_whole_events_leaves_as_the_very_same_bytes() {
    for (format, stream) in STREAMS {
        let mut scanner = StreamScanner::new(format, StreamOptions::default());
        for event in stream.split_inclusive("\n\n") {
            let (chunk, mut out) = (Bytes::copy_from_slice(event.as_bytes()), Vec::new());
            scanner.push(&chunk, &mut out);
            let [passed] = &out[..] else {
                panic!("{out:?}");
            };
            assert_eq!(
                (passed.as_ptr(), passed.len()),
                (chunk.as_ptr(), chunk.len())
            );
        }
    }
}

#[test]
fn the_preamble_ends_with_the_first_content_event() {
    let first_content = [1, 2, 1];
    for ((format, stream), first) in STREAMS.into_iter().zip(first_content) {
        let mut scanner = StreamScanner::new(format, StreamOptions::default());
        for (number, event) in stream.split_inclusive("\n\n").enumerate() {
            let is_before = *scanner.phase() == Phase::Preamble;
            assert_eq!(is_before, number <= first, "{format} before event {number}");
            scanner.push(&Bytes::copy_from_slice(event.as_bytes()), &mut Vec::new());
        }
    }
}

#[test]
fn the_output_that_a_message_begins_with_is_no_report() {
    let without_end = MESSAGES.replace(",\"usage\":{\"output_tokens\":9}", "");
    let mut scanner = StreamScanner::new(Format::Messages, StreamOptions::default());
    scanner.push(&Bytes::from(without_end), &mut Vec::new());
    assert_eq!(*scanner.phase(), Phase::Terminal);
    let seen = scanner.usage();
    assert_eq!((seen.has_input, seen.has_output), (true, false), "{seen:?}");
    assert_eq!(seen.plausible(), None);
}

#[test]
fn usage_alone_is_taken_out_and_nothing_else() {
    let without: String = CHAT
        .split_inclusive("\n\n")
        .filter(|event| !event.contains("\"choices\":[],"))
        .collect();
    let seen = however_cut(Format::Chat, strip(), CHAT);
    assert_eq!(seen.out, without);
    assert_eq!(seen.usage.usage.output, 5);
    for line_end in ["\r\n", "\r"] {
        let other = CHAT.replace('\n', line_end);
        let seen = however_cut(Format::Chat, strip(), &other);
        assert_eq!(seen.out, without.replace('\n', line_end));
        assert_eq!(seen.end, StreamEnd::Finished);
    }
}

#[test]
fn usage_on_the_finish_chunk_is_read_and_stays() {
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"index\":0,\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n";
    let seen = however_cut(Format::Chat, strip(), stream);
    assert_eq!(seen.out, stream);
    assert_eq!(seen.usage.usage.total(), 5);
    assert_eq!(seen.facts.stop, Some(crate::answer::StopReason::MaxTokens));
    let inside = stream
        .replace("\"usage\":{", "\"x_groq\":{\"id\":\"r\",\"usage\":{")
        .replace("}}\n", "}}}\n");
    assert_eq!(whole(Format::Chat, &inside).usage, seen.usage);
}

#[test]
fn every_framing_of_the_specification_is_read() {
    let framings = [
        CHAT.replace('\n', "\r\n"),
        CHAT.replace('\n', "\r"),
        CHAT.replace("data: ", "data:"),
        CHAT.replace("data: {", "data: {\ndata:\ndata: "),
        format!("\u{feff}{CHAT}"),
        format!(":\n\n\n{CHAT}"),
        CHAT.replace("data: ", ":\n\ndata: "),
    ];
    let expected = whole(Format::Chat, CHAT);
    for stream in framings {
        let seen = however_cut(Format::Chat, StreamOptions::default(), &stream);
        assert_eq!(seen.out, stream.trim_start_matches('\u{feff}'));
        assert_eq!(
            (seen.end, seen.usage),
            (expected.end, expected.usage),
            "{stream}"
        );
        assert_eq!(
            (seen.events, seen.facts),
            (expected.events, expected.facts.clone())
        );
    }
}

#[test]
fn a_comment_leaves_at_once() {
    let mut scanner = StreamScanner::new(Format::Chat, StreamOptions::default());
    let mut out = Vec::new();
    scanner.push(&Bytes::from_static(b": still "), &mut out);
    assert_eq!(out.concat(), b"");
    scanner.push(&Bytes::from_static(b"working\n"), &mut out);
    assert_eq!(out.concat(), b":\n");
    assert_eq!(*scanner.phase(), Phase::Preamble);
}

#[test]
fn responses_without_event_names_are_read_by_their_types() {
    let unnamed: String = RESPONSES
        .split_inclusive('\n')
        .filter(|line| !line.starts_with("event:"))
        .chain(["data: [DONE]\n\n"])
        .collect();
    let seen = however_cut(Format::Responses, StreamOptions::default(), &unnamed);
    assert_eq!(seen.out, unnamed);
    assert_eq!(seen.end, StreamEnd::Finished);
    assert_eq!(seen.usage, whole(Format::Responses, RESPONSES).usage);
}

#[test]
fn an_incomplete_response_says_why() {
    let stream = RESPONSES
        .replace("response.completed", "response.incomplete")
        .replace("\"status\":\"completed\"", "\"status\":\"incomplete\"")
        .replace(
            "\"incomplete_details\":null",
            "\"incomplete_details\":{\"reason\":\"content_filter\"}",
        );
    let seen = whole(Format::Responses, &stream);
    assert_eq!(seen.end, StreamEnd::Finished);
    assert_eq!(seen.facts.stop, Some(crate::answer::StopReason::Refused));
}

#[test]
fn a_large_terminal_event_is_read_and_not_held() {
    let filler = "x".repeat(3_000_000);
    let stream = RESPONSES.replace("\"text\":\"hi\"", &format!("\"text\":\"{filler}\""));
    let mut scanner = StreamScanner::new(Format::Responses, StreamOptions::default());
    let mut out = Vec::new();
    for chunk in stream.as_bytes().chunks(8192) {
        scanner.push(&Bytes::copy_from_slice(chunk), &mut out);
        assert!(scanner.held_bytes() <= 64 * 1024);
    }
    assert_eq!(scanner.finish(&mut out), StreamEnd::Finished);
    assert!(out.concat() == stream.as_bytes());
    assert_eq!(scanner.usage().usage.total(), 14);
}

#[test]
fn nothing_but_an_end_marker_follows_the_end() {
    for (format, stream) in STREAMS {
        let marker = "data: [DONE]\n\n";
        let events = stream.split_inclusive("\n\n").next().unwrap();
        let longer = format!("{stream}{events}{marker}: bye\n\n");
        let seen = however_cut(format, StreamOptions::default(), &longer);
        assert_eq!(seen.out, format!("{stream}{marker}\n"));
        assert_eq!(seen.end, StreamEnd::Finished);
    }
}

#[test]
fn nothing_that_follows_the_end_is_believed() {
    let options = StreamOptions {
        max_event_bytes: 100,
        ..StreamOptions::default()
    };
    for (format, stream) in STREAMS {
        let before = however_cut(format, options, stream);
        let usage = "\"usage\":{\"prompt_tokens\":999,\"input_tokens\":999,\"output_tokens\":-1}";
        let long = "x".repeat(300);
        for late in [
            format!("data: {{{usage}}}\n\n"),
            format!("event: message_delta\ndata: {{\"type\":\"message_delta\",{usage}}}\n\n"),
            format!("data: {{\"type\":\"response.completed\",\"response\":{{{usage}}}}}\n\n"),
            format!("event: error\ndata: {{\"error\":{{\"message\":\"{long}\"}}}}\n\n"),
            format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{long}\"}}}}]}}\n\n"),
            "data: neither JSON nor a marker\n\n".to_owned(),
        ] {
            let after = however_cut(format, options, &format!("{stream}{late}"));
            assert_eq!(after, before, "{format} {late}");
        }
    }
}

#[test]
fn a_last_event_without_its_blank_line_is_closed() {
    for (format, stream) in STREAMS {
        for missing in 1..=2 {
            let cut = &stream[..stream.len() - missing];
            let seen = however_cut(format, StreamOptions::default(), cut);
            assert_eq!(seen.end, StreamEnd::Finished, "{format}, {missing} missing");
            assert_eq!(seen.out, format!("{cut}\n\n"));
        }
    }
}
