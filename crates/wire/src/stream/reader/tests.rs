use super::*;
use crate::answer::{AnswerFacts, AnswerReport};
use crate::stream::tests::recorded::{random_chunks, recorded};
use crate::usage::ReportedUsage;
use bytes::Bytes;

/// Everything that a caller of the reader can see of a stream.
#[derive(Debug, PartialEq)]
struct Seen {
    events: Vec<String>,
    comments: usize,
    phase: Phase,
    end: StreamEnd,
    usage: ReportedUsage,
    facts: AnswerFacts,
    counted: (u64, u64),
}

fn read<'a>(format: Format, limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Seen {
    let mut reader = EventReader::new(format, limit);
    let (mut events, mut comments) = (Vec::new(), 0);
    let mut take = |item: StreamItem<'_>| match item {
        StreamItem::Event { data, .. } => events.push(String::from_utf8(data.to_vec()).unwrap()),
        StreamItem::LargeEnd => events.push("large end".into()),
        StreamItem::Comment => comments += 1,
    };
    for mut rest in chunks {
        while let Some(item) = reader.next(&mut rest) {
            take(item);
        }
        assert!(reader.held_bytes() <= limit.max(MAX_ERROR_IN_SUCCESS_BYTES));
    }
    let mut rest = reader.missing_end();
    while let Some(item) = reader.next(&mut rest) {
        take(item);
    }
    Seen {
        events,
        comments,
        phase: reader.phase().clone(),
        end: reader.end(),
        usage: reader.scanner().usage(),
        facts: reader.scanner().facts().clone(),
        counted: (reader.scanner().events(), reader.scanner().text_bytes()),
    }
}

#[test]
fn a_recorded_stream_comes_event_by_event_as_the_scanner_judges_it_in_any_chunks() {
    for (format, stream) in recorded().into_iter().flatten() {
        let bytes = stream.as_bytes();
        let seen = read(format, 1 << 20, [bytes]);
        let mut scanner = StreamScanner::new(format, StreamOptions::default());
        let mut out = Vec::new();
        scanner.push(&Bytes::copy_from_slice(bytes), &mut out);
        assert_eq!(seen.end, scanner.finish(&mut out));
        assert_eq!(seen.phase, *scanner.phase());
        assert_eq!(seen.usage, scanner.usage());
        assert_eq!(seen.facts, *scanner.facts());
        assert_eq!(seen.counted, (scanner.events(), scanner.text_bytes()));
        let passed = String::from_utf8(out.concat()).unwrap();
        let data: Vec<_> = passed
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .filter(|data| *data != "[DONE]")
            .collect();
        assert_eq!(seen.events, data);
        assert_eq!(read(format, 1 << 20, bytes.chunks(1)), seen);
        for seed in 0..4 {
            assert_eq!(read(format, 1 << 20, random_chunks(bytes, seed)), seen);
        }
    }
}

#[test]
fn lines_of_data_are_joined_and_line_ends_of_every_kind_are_known() {
    let stream = "data: {\"type\":\"ping\",\"a\":\rdata:1}\r\n\r\n:c\n\nevent: ping\n\ndata\n\ndata: {\"b\":\n\n";
    for size in 1..=stream.len() {
        let seen = read(Format::Messages, 100, stream.as_bytes().chunks(size));
        assert_eq!(seen.events, ["{\"type\":\"ping\",\"a\":\n1}"], "{size}");
        // A name without data, and data without text, are no more than a sign of life.
        assert_eq!(seen.comments, 3);
        assert_eq!(seen.phase, Phase::Failed(UpstreamFault::broken_answer()));
    }
}

#[test]
fn an_event_that_is_too_large_fails_unless_it_ends_the_answer() {
    let filler = "x".repeat(3 * MAX_ERROR_IN_SUCCESS_BYTES);
    let delta = format!(
        "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"delta\":{{\"text\":\"{filler}\"}}}}\n\n"
    );
    let seen = read(Format::Messages, 1000, delta.as_bytes().chunks(8192));
    assert_eq!(seen.phase, Phase::Failed(UpstreamFault::broken_answer()));
    assert!(seen.events.is_empty());
    let end = format!(
        "data: {{\"type\":\"response.completed\",\"response\":{{\"status\":\"completed\",\"output\":\"{filler}\",\"usage\":{{\"input_tokens\":1,\"output_tokens\":2}}}}}}\n\n"
    );
    for size in [8192, end.len()] {
        let seen = read(Format::Responses, 1000, end.as_bytes().chunks(size));
        assert_eq!(seen.events, ["large end"]);
        assert_eq!(seen.end, StreamEnd::Finished);
        assert_eq!(seen.usage.usage.total(), 3);
    }
}

#[test]
fn an_error_is_classified_however_it_is_cut() {
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"error\":{\"code\":\"rate_limit_exceeded\"}}\n\ndata: {}\n\n";
    for size in 1..=stream.len() {
        let seen = read(Format::Chat, 1000, stream.as_bytes().chunks(size));
        assert_eq!(seen.events.len(), 1);
        let Phase::Failed(fault) = seen.phase else {
            panic!("{:?}", seen.phase);
        };
        assert_eq!(fault.class, crate::fault::FaultClass::RateLimit);
    }
}

#[test]
fn nothing_behind_the_end_of_an_answer_is_counted() {
    let stream =
        "data: {\"type\":\"response.completed\"}\n\ndata: {\"usage\":{\"input_tokens\":2}}\n\n";
    for size in 1..=stream.len() {
        let seen = read(Format::Responses, 1000, stream.as_bytes().chunks(size));
        assert_eq!(seen.events.len(), 1, "{size}");
        assert_eq!(seen.end, StreamEnd::Finished, "{size}");
        assert_eq!(seen.usage, ReportedUsage::default(), "{size}");
    }
}
