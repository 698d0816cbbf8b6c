//! What no format defines: errors in the shapes of real servers, comments, fields and names of
//! events. None of its text leaves, wherever in a stream it stands.

use super::*;

/// Stands in every text of a provider.
const MARK: &str = "zebra";

/// The errors that servers send within a success, each as the event that it is.
const SHAPES: [(&str, &str); 16] = [
    (
        "OpenAI",
        r#"{"error":{"message":"TEXT","type":"server_error","param":null,"code":null}}"#,
    ),
    ("xAI", r#"{"code":"TEXT","error":"TEXT"}"#),
    (
        "Anthropic",
        r#"{"type":"error","error":{"type":"overloaded_error","message":"TEXT"}}"#,
    ),
    (
        "OpenRouter",
        r#"{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"error":{"code":502,"message":"TEXT"}}"#,
    ),
    (
        "vLLM",
        r#"{"object":"error","message":"TEXT","type":"BadRequestError","param":null,"code":400}"#,
    ),
    ("FastAPI", r#"{"detail":"TEXT"}"#),
    (
        "FastAPI, of a field",
        r#"{"detail":[{"loc":["body"],"msg":"TEXT","type":"value_error"}]}"#,
    ),
    (
        "a list of errors",
        r#"{"errors":[{"code":7003,"message":"TEXT"}],"success":false}"#,
    ),
    (
        "AWS",
        r#"{"__type":"ThrottlingException","message":"TEXT"}"#,
    ),
    (
        "Google",
        r#"[{"error":{"code":429,"message":"TEXT","status":"RESOURCE_EXHAUSTED"}}]"#,
    ),
    (
        "MiniMax",
        r#"{"id":"c1","choices":null,"object":"","usage":null,"base_resp":{"status_code":1004,"status_msg":"TEXT"}}"#,
    ),
    (
        "Baidu",
        r#"{"error_code":336003,"error_msg":"TEXT","id":"c1"}"#,
    ),
    (
        "code and msg",
        r#"{"code":500,"msg":"TEXT","success":false}"#,
    ),
    ("error as a flag", r#"{"error":true,"message":"TEXT"}"#),
    ("exception", r#"{"exception":"TEXT","traceback":"TEXT"}"#),
    ("a string", r#""TEXT""#),
];

/// The lines that may stand before the data, by what a server calls its errors.
const NAMES: [&str; 3] = ["", "event: exception\n", "event: message\n"];

#[test]
fn no_error_of_any_server_leaves_wherever_it_stands() {
    for (format, stream) in STREAMS {
        let ends = stream.match_indices("\n\n").map(|(at, _)| at + 2);
        let starts: Vec<_> = [0].into_iter().chain(ends).collect();
        for (server, shape) in SHAPES {
            for (name, at) in NAMES.into_iter().flat_map(|name| {
                let before_the_end = &starts[..starts.len() - 1];
                before_the_end.iter().map(move |at| (name, *at))
            }) {
                let (before, after) = stream.split_at(at);
                let error = format!("{name}data: {}\n\n", shape.replace("TEXT", MARK));
                let broken = format!("{before}{error}{after}");
                for seen in [
                    whole(format, &broken),
                    bytewise(format, StreamOptions::default(), &broken),
                ] {
                    assert_eq!(seen.out, before, "{server} in {format}, {name:?}");
                    assert_eq!(seen.end, StreamEnd::Failed, "{server} in {format}");
                    assert!(!seen.failure.contains(MARK), "{}", seen.failure);
                }
            }
        }
    }
}

#[test]
fn an_event_with_a_defined_name_and_the_data_of_another_thing_does_not_leave() {
    for (format, name) in [
        (Format::Messages, "content_block_delta"),
        (Format::Responses, "response.output_text.delta"),
    ] {
        for data in [
            format!("{{\"message\":\"{MARK}\"}}"),
            format!("{{\"type\":\"{MARK}\"}}"),
            format!("{{\"type\":\"{name}.{MARK}\",\"delta\":\"a\"}}"),
        ] {
            let stream = format!("event: {name}\ndata: {data}\n\n");
            let seen = however_cut(format, StreamOptions::default(), &stream);
            assert_eq!((&*seen.out, seen.end), ("", StreamEnd::Failed), "{data}");
        }
    }
}

#[test]
fn a_defined_event_under_a_foreign_name_does_not_leave() {
    for (format, stream) in STREAMS {
        let data = stream.split("data: ").nth(2).unwrap();
        let data = data.split_inclusive("\n\n").next().unwrap();
        let stream = format!("event: {MARK}\ndata: {data}");
        let seen = however_cut(format, StreamOptions::default(), &stream);
        assert_eq!((&*seen.out, seen.end), ("", StreamEnd::Failed), "{format}");
    }
}

#[test]
fn an_event_with_two_names_does_not_leave() {
    for (format, stream) in STREAMS {
        let data = stream.split("data: ").nth(2).unwrap();
        let data = data.split_inclusive("\n\n").next().unwrap();
        let stream = format!("event: {MARK}\nevent: ping\ndata: {data}");
        let seen = however_cut(format, StreamOptions::default(), &stream);
        assert_eq!((&*seen.out, seen.end), ("", StreamEnd::Failed), "{format}");
    }
}

#[test]
fn a_comment_leaves_as_one_of_the_gateways_own() {
    for line_end in ["\n", "\r\n", "\r"] {
        for (format, stream) in STREAMS {
            let of = |comment: &str| {
                let stream = stream.replace('\n', line_end);
                let event = format!("{line_end}{line_end}");
                stream.replacen(&event, &format!("{event}{comment}{line_end}"), 1)
            };
            let seen = however_cut(
                format,
                StreamOptions::default(),
                &of(&format!(": {MARK}{line_end}")),
            );
            assert_eq!(seen.out, of(":\n"), "{format} {line_end:?}");
            assert_eq!(seen.end, StreamEnd::Finished);
        }
    }
}

#[test]
fn a_comment_without_end_is_neither_kept_nor_passed() {
    let mut scanner = StreamScanner::new(Format::Chat, StreamOptions::default());
    let mut out = Vec::new();
    scanner.push(&Bytes::from_static(b": "), &mut out);
    for _ in 0..10_000 {
        scanner.push(&Bytes::from_static(MARK.as_bytes()), &mut out);
        assert_eq!((scanner.held_bytes(), out.len()), (0, 0));
    }
    scanner.push(&Bytes::from_static(b"\ndata"), &mut out);
    assert_eq!(out.concat(), b":\n");
}

#[test]
fn lines_that_are_neither_data_nor_a_name_are_taken_out() {
    let lines = [
        "id: MARK",
        "retry: 5",
        "MARK",
        "MARK: MARK",
        ": MARK",
        "datum: MARK",
    ];
    for line_end in ["\n", "\r\n", "\r"] {
        for (format, stream) in STREAMS {
            for line in lines {
                let line = line.replace("MARK", MARK);
                // Behind the data of each event, and before those that have a name.
                let with = stream
                    .replace("}\n\n", &format!("}}\n{line}\n\n"))
                    .replace("\ndata: {", &format!("\n{line}\ndata: {{"));
                assert!(with.len() > stream.len());
                let (with, stream) = (with.replace('\n', line_end), stream.replace('\n', line_end));
                let seen = whole(format, &with);
                // A comment before the fields of an event is one by itself.
                let out = seen.out.replace(":\n", "");
                assert_eq!(out, stream.replace(":\n", ""), "{format} {line}");
                assert_eq!(seen.end, StreamEnd::Finished);
                assert_eq!(seen.usage, whole(format, &stream).usage);
                let seen_bytewise = bytewise(format, StreamOptions::default(), &with);
                assert_eq!(seen_bytewise.out, seen.out, "{format} {line}");
            }
        }
    }
}

#[test]
fn an_event_without_its_other_lines_still_ends_if_line_ends_differ() {
    for (format, stream) in STREAMS {
        for line_end in ["\n", "\r\n"] {
            let with = stream.replace("}\n\n", &format!("}}\r: {MARK}{line_end}{line_end}"));
            let seen = however_cut(format, StreamOptions::default(), &with);
            assert_eq!(seen.end, StreamEnd::Finished, "{format}");
            let again = whole(format, &seen.out);
            assert_eq!((again.end, again.out), (seen.end, seen.out), "{format}");
        }
    }
}

#[test]
fn a_byte_order_mark_hides_no_line() {
    for (format, stream) in STREAMS {
        let first = stream.replacen("\n\n", "\nid: 1\n\n", 1);
        let seen = however_cut(
            format,
            StreamOptions::default(),
            &format!("\u{feff}{first}"),
        );
        assert_eq!(seen.out, stream, "{format}");
        // Elsewhere it is a part of the name.
        let hidden = format!("data: {{}}\n\n\u{feff}data: {MARK}\n{stream}");
        let seen = however_cut(format, StreamOptions::default(), &hidden);
        assert_eq!(seen.out, format!(":\n\n{stream}"), "{format}");
    }
}

#[test]
fn a_large_event_leaves_without_its_other_lines_or_not_at_all() {
    let options = StreamOptions {
        max_event_bytes: 100,
        ..StreamOptions::default()
    };
    let data = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n",
        "a".repeat(300)
    );
    let first = format!("id: {MARK}\n{data}\n");
    let seen = scan(Format::Chat, options, first.as_bytes().chunks(7));
    assert_eq!(seen.out, format!("{data}\n"));
    let last = format!("{data}id: {MARK}\n\n");
    for size in [7, 200, last.len()] {
        let seen = scan(Format::Chat, options, last.as_bytes().chunks(size));
        assert!(!seen.out.contains(MARK), "{}", seen.out);
    }
}

#[test]
fn an_event_without_data_is_a_sign_of_life_and_no_more() {
    for beat in [
        format!("event: {MARK}\n\n"),
        format!("event: {MARK}\ndata: {{}}\n\n"),
        format!("event: {MARK}\ndata:\n\n"),
        format!("id: {MARK}\n\n"),
        "data: {}\n\n".to_owned(),
        "data: \ndata:\n\n".to_owned(),
    ] {
        for (format, stream) in STREAMS {
            let seen = however_cut(format, StreamOptions::default(), &format!("{beat}{stream}"));
            assert_eq!(seen.out, format!(":\n\n{stream}"), "{beat}");
            assert_eq!(seen.end, StreamEnd::Finished);
            assert_eq!(seen.events, whole(format, stream).events);
        }
    }
}

#[test]
fn an_end_marker_leaves_alone() {
    let stream = CHAT.replace(
        "data: [DONE]",
        &format!("event: {MARK}\nid: {MARK}\ndata: [DONE]"),
    );
    let seen = however_cut(Format::Chat, StreamOptions::default(), &stream);
    assert_eq!((&*seen.out, seen.end), (CHAT, StreamEnd::Finished));
    for text in [
        format!(" {MARK}"),
        format!("\ndata: {MARK}"),
        "\ndata:".to_owned(),
    ] {
        for (format, stream) in STREAMS {
            let marker = "data: [DONE]";
            let whole = stream.replace("data: [DONE]\n\n", "");
            let marked = format!("{whole}{marker}{text}\n\n");
            let seen = however_cut(format, StreamOptions::default(), &marked);
            assert_eq!(seen.out, format!("{whole}{marker}\n\n"), "{format} {text}");
            assert_eq!(seen.end, StreamEnd::Finished);
        }
    }
}

#[test]
fn every_event_of_the_responses_sdk_is_defined() {
    let fields = include_str!("../../../../translate/sdk/answers.json");
    let events = fields.split('"').filter_map(|it| it.strip_prefix("event:"));
    let events: Vec<_> = events.filter(|it| it.starts_with("response.")).collect();
    assert!(events.len() > 50, "{events:?}");
    for event in events {
        let stream = format!("event: {event}\ndata: {{\"type\":\"{event}\"}}\n\n");
        let seen = whole(Format::Responses, &stream);
        let expected = if event == "response.failed" {
            ""
        } else {
            &stream
        };
        assert_eq!(seen.out, expected);
    }
}

#[test]
fn an_event_that_is_not_known_to_be_defined_is_held_within_bounds() {
    for (format, head) in [
        (Format::Chat, "data: {\"message\":\""),
        (Format::Messages, "data: {\"message\":\""),
        (Format::Responses, "data: {\"detail\":\""),
    ] {
        let mut scanner = StreamScanner::new(format, StreamOptions::default());
        let mut out = Vec::new();
        scanner.push(&Bytes::from_static(head.as_bytes()), &mut out);
        for _ in 0..400 {
            scanner.push(&Bytes::from(vec![b'z'; 8192]), &mut out);
            assert!(scanner.held_bytes() <= MAX_ERROR_IN_SUCCESS_BYTES);
        }
        assert_eq!(out.concat(), b"", "{format}");
        assert!(matches!(scanner.phase(), Phase::Failed(_)));
    }
}

#[test]
fn a_large_event_whose_type_stands_last_leaves_by_its_name() {
    let filler = "x".repeat(3_000_000);
    let end = format!(
        "event: response.completed\ndata: {{\"response\":{{\"status\":\"completed\",\"output\":[{{\"content\":[{{\"text\":\"{filler}\"}}]}}]}},\"type\":\"response.completed\"}}\n\n"
    );
    let stream = RESPONSES.split("event: response.completed").next().unwrap();
    let stream = format!("{stream}{end}");
    let seen = scan(
        Format::Responses,
        StreamOptions::default(),
        stream.as_bytes().chunks(8192),
    );
    assert_eq!(seen.end, StreamEnd::Finished);
    assert!(seen.out == stream);
}

#[test]
fn an_operator_can_let_further_events_pass() {
    let streams = [
        (
            Format::Chat,
            "data: {\"object\":\"vendor.chunk\",\"text\":\"a\"}\n\n",
        ),
        (
            Format::Messages,
            "event: vendor.chunk\ndata: {\"type\":\"vendor.chunk\",\"text\":\"a\"}\n\n",
        ),
        (
            Format::Responses,
            "event: vendor.chunk\ndata: {\"type\":\"vendor.chunk\",\"text\":\"a\"}\n\n",
        ),
    ];
    for (format, event) in streams {
        let extended = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).into()).collect();
            StreamScanner::new(format, StreamOptions::default()).with_extensions(names)
        };
        for (names, passes) in [
            (&["vendor.chunk"][..], true),
            (&["vendor"], false),
            (&[], false),
        ] {
            let mut scanner = extended(names);
            let mut out = Vec::new();
            scanner.push(&Bytes::from_static(event.as_bytes()), &mut out);
            let expected = if passes { event } else { "" };
            assert_eq!(out.concat(), expected.as_bytes(), "{format} {names:?}");
            assert_eq!(matches!(scanner.phase(), Phase::Failed(_)), !passes);
        }
        // An error stays one.
        let mut scanner = extended(&["error"]);
        let error = Bytes::from_static(b"event: error\ndata: {\"type\":\"error\"}\n\n");
        scanner.push(&error, &mut Vec::new());
        assert!(matches!(scanner.phase(), Phase::Failed(_)));
    }
}

#[test]
fn additions_of_vendors_to_chunks_of_chat_pass() {
    let chunks = [
        // Azure: before the first choice, and of its filter.
        r#"{"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}]}"#,
        r#"{"id":"","object":"","created":0,"model":"","choices":[{"index":0,"finish_reason":null,"content_filter_results":{},"content_filter_offsets":{"check_offset":44}}],"usage":null}"#,
        // Groq, OpenAI, Perplexity, OpenRouter.
        r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant"}}],"x_groq":{"id":"req"}}"#,
        r#"{"id":"c","object":"chat.completion.chunk","service_tier":"default","choices":[{"index":0,"delta":{"content":"a"}}],"obfuscation":"x"}"#,
        r#"{"id":"c","model":"m","citations":["https://a.example"],"search_results":[{"title":"t"}],"object":"chat.completion","choices":[{"index":0,"delta":{"content":"a"}}]}"#,
        r#"{"id":"c","provider":"P","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a"},"native_finish_reason":null}]}"#,
        // Usage without choices.
        r#"{"id":"c","object":"chat.completion.chunk","choices":null,"usage":{"prompt_tokens":1,"completion_tokens":1}}"#,
    ];
    let stream: String = chunks.map(|chunk| format!("data: {chunk}\n\n")).concat();
    let seen = however_cut(Format::Chat, StreamOptions::default(), &stream);
    assert_eq!(seen.out, stream);
}
