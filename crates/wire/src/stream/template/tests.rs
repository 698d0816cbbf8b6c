use super::*;
use crate::answer::AnswerReport;
use crate::formats;
use crate::stream::{
    StreamEnd, StreamOptions, StreamScanner,
    tests::recorded::{random_chunks, recorded},
};
use bytes::Bytes;
use tollgate_types::Format;

const CHAT: &str = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":null}],\"usage\":null,\"obfuscation\":\"x\"}\n\n";
const MESSAGES: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n";
const RESPONSES: &str = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":4,\"item_id\":\"m\",\"delta\":\"a\",\"obfuscation\":\"x\"}\n\n";

fn template(format: Format, block: &str) -> Option<Template> {
    Template::of(
        &formats::rules(format).event,
        EventKind::Content,
        block.as_bytes(),
    )
}

/// The text of what fits, still escaped.
fn text<'a>(template: &Template, block: &'a str) -> Option<&'a str> {
    let fit = template.fit(block.as_bytes())?;
    assert_eq!(block.get(fit.len..), Some(""), "{block}");
    block.get(fit.text)
}

#[test]
fn an_event_fits_if_it_differs_in_its_text_and_in_unread_fields() {
    let chat = template(Format::Chat, CHAT).unwrap();
    for said in [
        "a",
        "",
        "two words",
        "\u{e9}\u{1f600}",
        "\\n\\u00e9\\\"",
        "}]}",
    ] {
        let other = CHAT
            .replace("\"a\"", &format!("\"{said}\""))
            .replace("\"x\"", "\"yz\"");
        assert_eq!(text(&chat, &other), Some(said));
    }
    let messages = template(Format::Messages, MESSAGES).unwrap();
    let other = MESSAGES.replace("\"a\"", "\"b\"");
    assert_eq!(text(&messages, &other), Some("b"));
    let responses = template(Format::Responses, RESPONSES).unwrap();
    let other = RESPONSES
        .replace(":4,", ":123,")
        .replace("\"a\"", "\"b\\n\"");
    assert_eq!(text(&responses, &other), Some("b\\n"));
    let fit = responses.fit(other.as_bytes()).unwrap();
    assert_eq!((fit.sequence, fit.text_bytes), (Some(123), 2));
}

#[test]
fn an_event_with_other_differences_does_not_fit() {
    let cases = [
        (Format::Chat, CHAT, "\"c\"", "\"d\""),
        (Format::Chat, CHAT, ":null}]", ":\"stop\"}]"),
        (Format::Chat, CHAT, "\"usage\":null", "\"usage\":{}"),
        (Format::Chat, CHAT, "\"content\"", "\"refusal\""),
        (Format::Chat, CHAT, "\"a\"", "null"),
        (Format::Chat, CHAT, "\"a\"", "\"a"),
        (Format::Chat, CHAT, "\"a\"", "\"\\x\""),
        (Format::Chat, CHAT, "\"a\"", "\"\\ud83d\""),
        (Format::Chat, CHAT, "\"a\"", "\"\t\""),
        (Format::Chat, CHAT, "\"a\"", "\"a\",\"error\":{}"),
        (Format::Chat, CHAT, "}\n\n", "}\n"),
        (Format::Chat, CHAT, "}\n\n", "}\ndata: 1\n\n"),
        (Format::Chat, CHAT, "\n", "\r\n"),
        (
            Format::Messages,
            MESSAGES,
            "event: content",
            "event: content_",
        ),
        (Format::Messages, MESSAGES, "text_delta", "input_json_delta"),
        (Format::Responses, RESPONSES, ":4,", ":04,"),
        (Format::Responses, RESPONSES, ":4,", ":-4,"),
        (Format::Responses, RESPONSES, ":4,", ":4.0,"),
        (Format::Responses, RESPONSES, ":4,", ":1234567890123456789,"),
    ];
    for (format, block, from, to) in cases {
        let template = template(format, block).unwrap();
        let other = block.replace(from, to);
        assert_ne!(other, block);
        assert_eq!(template.fit(other.as_bytes()), None, "{other}");
    }
    let mut invalid = CHAT.as_bytes().to_vec();
    let place = CHAT.find("\"a\"").unwrap() + 1;
    invalid[place] = 0xff;
    assert_eq!(template(Format::Chat, CHAT).unwrap().fit(&invalid), None);
}

#[test]
fn an_event_with_more_than_text_is_no_template() {
    let cases = [
        (Format::Chat, CHAT, ":null}]", ":\"stop\"}]"),
        (
            Format::Chat,
            CHAT,
            "null,\"obf",
            "{\"prompt_tokens\":1},\"obf",
        ),
        (Format::Chat, CHAT, "\"a\"", "null"),
        (Format::Chat, CHAT, "{\"id\"", "{\"error\":\"x\",\"id\""),
        (Format::Chat, CHAT, "\n\n", "\r\n\r\n"),
        (Format::Chat, CHAT, "data: {", "data: {\ndata: "),
        (
            Format::Messages,
            MESSAGES,
            "\"type\":\"text_delta\"",
            "\"stop_reason\":\"end_turn\"",
        ),
        (
            Format::Responses,
            RESPONSES,
            "\"item_id\":\"m\"",
            "\"item\":{\"id\":\"m\"}",
        ),
    ];
    for (format, block, from, to) in cases {
        let other = block.replace(from, to);
        assert_ne!(other, block);
        assert!(template(format, &other).is_none(), "{other}");
    }
    let long = CHAT.replace("\"a\"", &format!("\"{}\"", "a".repeat(MAX_BYTES)));
    assert!(template(Format::Chat, &long).is_none());
}

/// What is seen of a stream that comes in these chunks, and how many of its events fitted.
fn seen<'a>(format: Format, chunks: impl Iterator<Item = &'a [u8]>) -> (String, u32) {
    let mut scanner = StreamScanner::new(format, StreamOptions::default());
    let (mut out, mut fitted) = (Vec::new(), 0);
    for chunk in chunks {
        let mut templates = std::mem::take(&mut scanner.templates);
        let is_ready =
            scanner.phase == crate::stream::Phase::Content && scanner.framer.is_between_blocks();
        fitted += u32::from(is_ready && templates.fit(chunk).is_some());
        scanner.templates = templates;
        scanner.push(&Bytes::copy_from_slice(chunk), &mut out);
    }
    let end: StreamEnd = scanner.finish(&mut out);
    let reported = format!(
        "{end:?} {:?} {:?} {:?} {} {} {} {:?} {:?}",
        scanner.phase(),
        scanner.usage(),
        scanner.facts(),
        scanner.events(),
        scanner.text_bytes(),
        scanner.next_sequence,
        // Of a longer text another sample is drawn each time, and one of a failed stream has text
        // that did not leave.
        (end == StreamEnd::Finished && scanner.text_bytes() < 170).then(|| scanner.text_sample()),
        String::from_utf8_lossy(&out.concat()),
    );
    (reported, fitted)
}

/// The events of a stream, each a chunk: only so can they fit.
fn events(stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = stream;
    std::iter::from_fn(move || {
        let end = memchr::memmem::find(rest, b"\n\n").map_or(rest.len(), |at| at + 2);
        let (event, after) = rest.split_at(end);
        rest = after;
        (!event.is_empty()).then_some(event)
    })
}

#[test]
fn many_events_of_recorded_streams_fit_and_say_the_same() {
    let (mut all, mut fitted) = (0, 0);
    for (format, stream) in recorded().into_iter().flatten() {
        let (reported, fit) = seen(format, events(stream.as_bytes()));
        // Cut by chunks they never fit.
        let (read, none) = seen(format, stream.as_bytes().chunks(1));
        assert_eq!(reported, read);
        assert_eq!(none, 0);
        all += events(stream.as_bytes()).count();
        fitted += fit as usize;
    }
    println!("{fitted} of {all} events fitted");
    assert!(all == 0 || fitted * 3 > all, "{fitted} of {all}");
}

#[test]
fn a_stream_with_any_byte_changed_is_read_as_without_templates() {
    let deltas = |block: &str, end: &str| {
        let other = block.replace("\"a\"", "\"b \\n\u{e9}\"");
        let long = block.replace("\"a\"", &format!("\"{}\"", "w".repeat(1030)));
        [&long, block, &other, block, &other, end].concat()
    };
    let streams = [
        (Format::Chat, deltas(CHAT, "data: [DONE]\n\n")),
        (
            Format::Messages,
            deltas(MESSAGES, "data: {\"type\":\"message_stop\"}\n\n"),
        ),
        (
            Format::Responses,
            deltas(RESPONSES, "data: {\"type\":\"response.completed\"}\n\n"),
        ),
    ];
    let mut fitted = 0;
    for (format, stream) in streams {
        for at in 0..stream.len() {
            if stream.get(at..at + 2) == Some("ww") {
                continue;
            }
            for byte in [b'"', b'\\', b'\n', b'\r', b'}', b'0', 0xc3] {
                let mut changed = stream.clone().into_bytes();
                changed[at] = byte;
                let (reported, fit) = seen(format, events(&changed));
                let (read, _) = seen(format, changed.chunks(50));
                assert_eq!(reported, read, "byte {byte} at {at} of {format}");
                fitted += fit;
            }
        }
    }
    assert!(fitted > 10_000, "{fitted}");
}

#[test]
fn a_template_changes_with_what_comes_and_rests_where_nothing_repeats() {
    let tool = CHAT.replace(
        "\"content\":\"a\"",
        "\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"a\"}}]",
    );
    let stream = [CHAT, CHAT, CHAT, &tool, &tool, &tool, CHAT, CHAT, CHAT].concat();
    let (_, fitted) = seen(Format::Chat, events(stream.as_bytes()));
    assert!(fitted >= 4, "{fitted}");
    let mut templates = Templates::default();
    let made = (0..1000).filter(|n| {
        let block = CHAT.replace("\"c\"", &format!("\"c{n}\""));
        assert_eq!(templates.fit(block.as_bytes()), None);
        templates.template = None;
        templates.learn(
            &formats::rules(Format::Chat).event,
            EventKind::Content,
            block.as_bytes(),
        );
        templates.template.is_some()
    });
    let made = made.count();
    assert!(made < 25, "{made} of 1000");
}

#[test]
fn chunks_with_many_events_and_halves_of_them_are_read_the_same() {
    for (format, block) in [
        (Format::Chat, CHAT),
        (Format::Messages, MESSAGES),
        (Format::Responses, RESPONSES),
    ] {
        let stream = block.repeat(40);
        let (whole, _) = seen(format, std::iter::once(stream.as_bytes()));
        for seed in 0..200 {
            let (reported, _) = seen(format, random_chunks(stream.as_bytes(), seed).into_iter());
            assert_eq!(reported, whole, "seed {seed}");
        }
    }
}
