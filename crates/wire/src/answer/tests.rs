use super::*;
use crate::fault::FaultClass;
use crate::stream::{StreamOptions, StreamScanner};
use bytes::Bytes;
use serde_json::Value;
use std::path::PathBuf;
use tollgate_types::Usage;

/// What a caller of the scanner sees.
#[derive(Debug, PartialEq)]
struct Seen {
    kind: AnswerKind,
    facts: AnswerFacts,
    usage: ReportedUsage,
    text_bytes: u64,
}

fn scan(format: Format, body: &[u8], chunk: usize) -> Seen {
    let mut scanner = AnswerScanner::new(format);
    for chunk in body.chunks(chunk) {
        scanner.push(chunk);
    }
    Seen {
        kind: scanner.finish(),
        facts: scanner.facts().clone(),
        usage: scanner.usage(),
        text_bytes: scanner.text_bytes(),
    }
}

/// The same in one piece, byte by byte, and between.
#[track_caller]
fn however_cut(format: Format, body: &str) -> Seen {
    let expected = scan(format, body.as_bytes(), body.len().max(1));
    for chunk in [1, 3, 100] {
        assert_eq!(scan(format, body.as_bytes(), chunk), expected, "{body}");
    }
    expected
}

const CHAT: &str = r#"{"id":"c","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello","tool_calls":[{"id":"t","type":"function","function":{"name":"ab","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
const MESSAGES: &str = r#"{"id":"msg","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"hello, error"}],"stop_reason":"max_tokens","usage":{"input_tokens":3,"output_tokens":2}}"#;
const RESPONSES: &str = r#"{"id":"resp","object":"response","created_at":7,"status":"incomplete","error":null,"incomplete_details":{"reason":"max_output_tokens"},"model":"m","output":[{"id":"x","type":"message","status":"completed","content":[{"type":"output_text","text":"hello"}]},{"type":"function_call","arguments":"{}"}],"usage":{"input_tokens":3,"output_tokens":2}}"#;

#[test]
fn each_format_names_the_model_and_the_end() {
    let examples = [
        (Format::Chat, CHAT, StopReason::ToolCalls, 9),
        (Format::Messages, MESSAGES, StopReason::MaxTokens, 14),
        (Format::Responses, RESPONSES, StopReason::MaxTokens, 7),
    ];
    for (format, body, stop, text_bytes) in examples {
        let seen = however_cut(format, body);
        assert_eq!(seen.kind, AnswerKind::Answer);
        assert_eq!(seen.facts.stop, Some(stop));
        assert_eq!(seen.facts.model.as_deref(), Some("m"));
        assert_eq!(seen.text_bytes, text_bytes);
        assert_eq!(seen.usage.plausible().map(|usage| usage.total()), Some(5));
    }
}

#[test]
fn words_of_some_providers_for_a_cut_answer_are_known() {
    let chat = |reason: &str| {
        format!(r#"{{"choices":[{{"message":{{"content":"x"}},"finish_reason":"{reason}"}}]}}"#)
    };
    let details = r#""incomplete_details":{"reason":"a_new_one"}"#;
    for (format, body, stop) in [
        (Format::Chat, chat("model_length"), StopReason::MaxTokens),
        (Format::Chat, chat("sensitive"), StopReason::Refused),
        (
            Format::Responses,
            format!(r#"{{"status":"incomplete",{details},"output":[]}}"#),
            StopReason::MaxTokens,
        ),
        (
            Format::Responses,
            format!(r#"{{{details},"output":[],"status":"incomplete"}}"#),
            StopReason::MaxTokens,
        ),
    ] {
        let seen = however_cut(format, &body);
        assert_eq!(seen.kind, AnswerKind::Answer, "{body}");
        assert_eq!(seen.facts.stop, Some(stop), "{body}");
    }
}

#[test]
fn every_string_of_a_whole_answer_is_measured() {
    const SAID: &str = "forty bytes of text, wherever they stand";
    let chat = |message: &str| format!(r#"{{"choices":[{{"message":{message}}}],"provider":"P"}}"#);
    for (format, body) in [
        (Format::Chat, chat(r#"{"role":"assistant","content":[{"type":"text","text":"TEXT"}]}"#)),
        (Format::Chat, chat(r#"{"tool_calls":[{"id":"t","type":"custom","custom":{"name":"","input":"TEXT"}}]}"#)),
        (Format::Chat, chat(r#"{"function_call":{"name":"","arguments":"TEXT"}}"#)),
        (Format::Chat, chat(r#"{"audio":{"id":"a","data":"AAAA","transcript":"TEXT"}}"#)),
        (Format::Chat, chat(r#"{"reasoning":"TEXT","reasoning_details":[{"type":"reasoning.text","text":"TEXT"}]}"#)),
        (Format::Messages, r#"{"content":[{"type":"tool_use","id":"t","name":"","input":{"":"TEXT"}}]}"#.to_owned()),
        (Format::Messages, r#"{"content":[{"type":"thinking","thinking":"TEXT","signature":"AAAA"}]}"#.to_owned()),
        (Format::Responses, r#"{"instructions":"no","output":[{"type":"custom_tool_call","id":"i","call_id":"c","input":"TEXT"}]}"#.to_owned()),
        (Format::Responses, r#"{"output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"TEXT"}],"encrypted_content":"AAAA"}]}"#.to_owned()),
    ] {
        let seen = however_cut(format, &body.replace("TEXT", SAID));
        assert_eq!(seen.kind, AnswerKind::Answer);
        assert_eq!(seen.text_bytes, SAID.len() as u64, "{body}");
    }
}

#[test]
fn text_counts_before_its_string_has_ended() {
    let begin = r#"{"content":[{"type":"text","text":"#;
    let mut scanner = AnswerScanner::new(Format::Messages);
    scanner.push(begin.as_bytes());
    assert_eq!(scanner.text_bytes(), 0);
    scanner.push(b"\"hello");
    assert_eq!(scanner.text_bytes(), 5);
    scanner.push(b", world\"");
    assert_eq!(scanner.text_bytes(), 12);
    scanner.push(b"}],\"unread\":\"and so on");
    assert_eq!(scanner.text_bytes(), 12);
}

#[test]
fn a_success_that_holds_an_error_is_an_error() {
    let examples = [
        (Format::Chat, r#"{"error":{"message":"x","code":502}}"#),
        (Format::Chat, r#"{"error":"x"}"#),
        (
            Format::Chat,
            r#"{"id":"c","choices":[],"error":{"code":429}}"#,
        ),
        (
            Format::Chat,
            r#"{"choices":[{"error":{"code":502},"finish_reason":"error"}]}"#,
        ),
        // vLLM, DeepSeek, Z.ai.
        (
            Format::Chat,
            r#"{"choices":[{"message":{"content":"x"},"finish_reason":"abort"}]}"#,
        ),
        (
            Format::Chat,
            r#"{"choices":[{"message":{"content":"x"},"finish_reason":"insufficient_system_resource"}]}"#,
        ),
        (
            Format::Chat,
            r#"{"choices":[{"message":{"content":"x"},"finish_reason":"network_error"}]}"#,
        ),
        (
            Format::Chat,
            r#"{"choices":[{"index":0,"error":"x","message":{"content":""},"finish_reason":"stop"}]}"#,
        ),
        (Format::Chat, r#"{"choices":[{"error":true}]}"#),
        (Format::Chat, r#"{"choices":[],"error":500}"#),
        (
            Format::Responses,
            r#"{"object":"response","status":"failed","output":[],"incomplete_details":{"reason":"x"}}"#,
        ),
        (
            Format::Messages,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#,
        ),
        (
            Format::Responses,
            r#"{"id":"r","status":"failed","output":[],"error":{"code":"server_error","message":"x"}}"#,
        ),
    ];
    for (format, body) in examples {
        assert_eq!(however_cut(format, body).kind, AnswerKind::Error, "{body}");
    }
}

#[test]
fn a_body_that_is_no_answer_is_broken() {
    for body in [
        "",
        " ",
        "{}",
        "[]",
        "null",
        "\"text\"",
        "<html></html>",
        "method=POST",
        r#"{"detail":"no"}"#,
        r#"[{"choices":[]}]"#,
        r#"{"x":{"choices":[]}}"#,
        r#"{"choices":{}}"#,
        r#"{"choices":[],"base_resp":{"status_code":1004}}"#,
        &CHAT[..CHAT.len() - 1],
        &format!("{CHAT}x"),
    ] {
        assert_eq!(
            however_cut(Format::Chat, body).kind,
            AnswerKind::Broken,
            "{body}"
        );
    }
}

#[test]
fn an_empty_list_is_an_answer_if_it_says_how_that_ended() {
    use Format::{Chat, Embeddings, Gemini, Messages, Responses};
    for (format, body, kind) in [
        (Chat, r#"{"choices":[]}"#, AnswerKind::Broken),
        (
            Messages,
            r#"{"content":[],"stop_reason":"refusal"}"#,
            AnswerKind::Answer,
        ),
        (
            Messages,
            r#"{"content":[],"detail":"x"}"#,
            AnswerKind::Broken,
        ),
        (
            Responses,
            r#"{"status":"queued","output":[]}"#,
            AnswerKind::Answer,
        ),
        (
            Responses,
            r#"{"status":"incomplete","output":[]}"#,
            AnswerKind::Answer,
        ),
        (
            Responses,
            r#"{"output":[],"message":"x"}"#,
            AnswerKind::Broken,
        ),
        (
            Gemini,
            r#"{"candidates":[],"message":"x"}"#,
            AnswerKind::Broken,
        ),
        (
            Embeddings,
            r#"{"data":[],"detail":"x"}"#,
            AnswerKind::Broken,
        ),
    ] {
        assert_eq!(however_cut(format, body).kind, kind, "{format} {body}");
    }
}

#[test]
fn the_kind_is_known_before_the_end() {
    let mut scanner = AnswerScanner::new(Format::Chat);
    scanner.push(br#"{"id":"c","choices":["#);
    assert_eq!(scanner.kind_so_far(), None);
    scanner.push(b"{");
    assert_eq!(scanner.kind_so_far(), Some(AnswerKind::Answer));

    let mut scanner = AnswerScanner::new(Format::Chat);
    scanner.push(br#"{"error":{"#);
    assert_eq!(scanner.kind_so_far(), Some(AnswerKind::Error));

    let mut scanner = AnswerScanner::new(Format::Chat);
    scanner.push(b"<");
    assert_eq!(scanner.kind_so_far(), Some(AnswerKind::Broken));
}

#[test]
fn an_endless_name_is_kept_cut() {
    let body = format!("{{\"model\":\"{}\"}}", "m".repeat(10_000));
    let seen = however_cut(Format::Chat, &body);
    assert_eq!(seen.facts.model.map(|model| model.len()), Some(256));
}

/// Usage by an independent reading, where the provider's numbers need no mending.
fn usage_of(usage: &Value) -> Usage {
    let iterations = usage["iterations"].as_array().into_iter().flatten();
    iterations
        .filter(|it| !matches!(it["type"].as_str(), Some("message" | "fallback_message")))
        .map(totals_of)
        .fold(totals_of(usage), |sum, it| Usage {
            input: sum.input + it.input,
            cache_read: sum.cache_read + it.cache_read,
            cache_write: sum.cache_write + it.cache_write,
            output: sum.output + it.output,
            reasoning: sum.reasoning + it.reasoning,
        })
}

/// The totals alone, which leave out the iterations of other models.
fn totals_of(usage: &Value) -> Usage {
    let n = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let exclusive = n("/cache_read_input_tokens") + n("/cache_creation_input_tokens");
    let cache_read = n("/prompt_tokens_details/cached_tokens")
        .max(n("/input_tokens_details/cached_tokens"))
        .max(n("/num_cached_tokens"))
        .max(n("/cached_tokens"));
    let cache_write = n("/prompt_tokens_details/cache_write_tokens")
        + n("/input_tokens_details/cache_write_tokens");
    let input = n("/prompt_tokens") + n("/input_tokens");
    let output = n("/completion_tokens") + n("/output_tokens");
    Usage {
        input: (input - cache_read).saturating_sub(cache_write),
        cache_read: cache_read + n("/cache_read_input_tokens"),
        cache_write: cache_write.min(input - cache_read) + n("/cache_creation_input_tokens"),
        output: output.max(n("/total_tokens").saturating_sub(input + exclusive)),
        reasoning: n("/completion_tokens_details/reasoning_tokens")
            + n("/output_tokens_details/reasoning_tokens")
            + n("/output_tokens_details/thinking_tokens")
            + n("/total_tokens").saturating_sub(input + output),
    }
}

#[test]
fn every_recorded_answer_scans_to_the_usage_its_provider_reported() {
    let folder = std::env::var_os("TOLLGATE_FIXTURES").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures"),
        PathBuf::from,
    );
    if !folder.is_dir() {
        eprintln!("skipped: no recorded traffic in {}", folder.display());
        return;
    }
    let mut answers = 0;
    // There are no recordings of Gemini.
    for format in Format::OF_CLIENTS
        .into_iter()
        .filter(|it| *it != Format::Gemini)
    {
        let text = std::fs::read_to_string(folder.join(format!("{format}.jsonl"))).unwrap();
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            let body = match &record["response"] {
                Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            if record["stream"] == true || record["status"] != 200 {
                continue;
            }
            let seen = however_cut(format, &body);
            let body: Value = serde_json::from_str(&body).unwrap_or_default();
            if seen.kind != AnswerKind::Answer {
                assert!(body.get("choices").is_none(), "{body}");
                continue;
            }
            answers += 1;
            let model = body["model"].as_str().filter(|name| !name.is_empty());
            assert_eq!(seen.facts.model.as_deref(), model);
            if body["usage"].is_object() {
                assert_eq!(
                    seen.usage.usage,
                    usage_of(&body["usage"]),
                    "{}",
                    body["usage"]
                );
                assert!(seen.usage.plausible().is_some(), "{}", body["usage"]);
            }
        }
    }
    assert!(answers > 400, "only {answers}");
}

#[test]
fn things_stored_with_a_response_are_found_by_their_ids_and_other_formats_have_none() {
    let body = br#"{"id":"resp_1","object":"response","conversation":{"id":"conv_1"},"output":[
        {"type":"reasoning","id":"rs_1","summary":[{"id":"no"}]},
        {"type":"message","id":"msg_1","content":[{"id":"no","text":"x"}]},
        {"type":"function_call","id":"rs_1","call_id":"no"}]}"#;
    let reported = |format, size: usize| {
        let mut scanner = AnswerScanner::new(format);
        body.chunks(size).for_each(|chunk| scanner.push(chunk));
        scanner.finish();
        scanner.facts().stored_ids.clone()
    };
    for size in [1, 7, body.len()] {
        let ids = reported(Format::Responses, size);
        assert_eq!(ids, ["conv_1", "rs_1", "msg_1"].map(Box::from), "{size}");
    }
    assert!(reported(Format::Chat, 9).is_empty());
}

#[test]
fn containers_of_tools_are_found_wherever_they_stand() {
    let of = |format, body: &str| {
        let mut scanner = AnswerScanner::new(format);
        body.as_bytes().chunks(7).for_each(|it| scanner.push(it));
        scanner.finish();
        scanner.facts().containers.join(" ")
    };
    let output = r#"{"output":[{"type":"code_interpreter_call","id":"ci_1","container_id":"cntr_1"},
        {"type":"message","container_id":"cntr_1","content":[{"container_id":"no"}]}]}"#;
    assert_eq!(of(Format::Responses, output), "cntr_1");
    assert_eq!(of(Format::Messages, output), "");
    let whole = r#"{"type":"message","container":{"id":"cont_1","expires_at":"x"},"content":[]}"#;
    assert_eq!(of(Format::Messages, whole), "cont_1");
    assert_eq!(of(Format::Responses, whole), "");
    let streamed = |format, event: &'static [u8]| {
        let mut scanner = StreamScanner::new(format, StreamOptions::default());
        scanner.push(&Bytes::from_static(event), &mut Vec::new());
        scanner.facts().containers.join(" ")
    };
    let delta = b"data: {\"type\":\"message_delta\",\"delta\":{\"container\":{\"id\":\"c\"}}}\n\n";
    assert_eq!(streamed(Format::Messages, delta), "c");
    let item =
        b"data: {\"type\":\"response.output_item.done\",\"item\":{\"container_id\":\"c\"}}\n\n";
    assert_eq!(streamed(Format::Responses, item), "c");
}

#[test]
fn no_more_is_kept_of_what_is_stored_than_is_remembered() {
    let items: Vec<_> = (0..1000)
        .map(|n| format!(r#"{{"id":"msg_{n}"}}"#))
        .collect();
    let body = format!(r#"{{"output":[{}]}}"#, items.join(","));
    let mut scanner = AnswerScanner::new(Format::Responses);
    scanner.push(body.as_bytes());
    scanner.finish();
    let ids = &scanner.facts().stored_ids;
    assert_eq!(ids.len(), AnswerFacts::MOST_STORED);
    assert_eq!(&*ids[31], "msg_31");
}

#[test]
fn the_sample_of_a_short_text_is_the_text_however_it_is_cut() {
    let parts = [
        "a\\n\u{e9}".repeat(30),
        "\\u00e9\\\\ ".repeat(40),
        "\u{1f600}".repeat(40),
    ];
    let choices: Vec<_> = parts
        .iter()
        .map(|part| format!("{{\"message\":{{\"content\":\"{part}\"}}}}"))
        .collect();
    let body = format!("{{\"choices\":[{}]}}", choices.join(","));
    let text = [
        "a\n\u{e9}".repeat(30),
        "\u{e9}\\ ".repeat(40),
        "\u{1f600}".repeat(40),
    ]
    .concat();
    for size in [1, 3, 10, 64, 1000, body.len()] {
        let mut scanner = AnswerScanner::new(Format::Chat);
        for chunk in body.as_bytes().chunks(size) {
            scanner.push(chunk);
        }
        assert_eq!(scanner.text_sample(), text, "in chunks of {size}");
    }
}

/// The class of the failure that a body is, however it is cut.
#[track_caller]
fn fault(format: Format, body: &str) -> FaultClass {
    let classes = [body.len(), 1000, 7].map(|size| {
        let mut scanner = AnswerScanner::new(format);
        let chunks = body.as_bytes().chunks(size);
        chunks.for_each(|chunk| scanner.push(chunk));
        assert_ne!(scanner.finish(), AnswerKind::Answer, "{body}");
        scanner.fault(body.as_bytes()).class
    });
    assert_eq!(classes, [classes[0]; 3], "{body}");
    classes[0]
}

#[test]
fn an_answer_nested_too_deep_is_an_unfit_one() {
    let deep = "[".repeat(200) + &"]".repeat(200);
    for (format, body) in [
        (
            Format::Messages,
            r#"{"type":"message","content":[{"type":"tool_use","name":"f","input":{"a":DEEP}}],"stop_reason":"tool_use"}"#,
        ),
        (
            Format::Converse,
            r#"{"output":{"message":{"content":[{"toolUse":{"name":"f","input":DEEP}}]}},"stopReason":"tool_use"}"#,
        ),
        (
            Format::Gemini,
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":DEEP}}}]},"finishReason":"STOP"}]}"#,
        ),
    ] {
        let body = body.replace("DEEP", &deep);
        assert_eq!(fault(format, &body), FaultClass::UnfitAnswer, "{format}");
        let cut = body
            .split_at(body.find("]]").unwrap())
            .0
            .replace(&"[".repeat(100), "");
        assert_eq!(fault(format, &cut), FaultClass::BrokenAnswer, "{format}");
    }
    assert_eq!(fault(Format::Messages, &deep), FaultClass::BrokenAnswer);
}

#[test]
fn a_malformed_answer_is_known_in_any_candidate_and_of_any_size() {
    let long = "word ".repeat(30_000);
    for (format, body) in [
        (
            Format::Gemini,
            r#"{"candidates":[{"content":{"parts":[{"thought":true,"text":"LONG"}]},"finishReason":"MALFORMED_FUNCTION_CALL"}]}"#,
        ),
        (
            Format::Gemini,
            r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"},{"index":1,"finishReason":"MALFORMED_FUNCTION_CALL"}]}"#,
        ),
        (
            Format::Converse,
            r#"{"output":{"message":{"content":[{"text":"LONG"}]}},"stopReason":"malformed_tool_use"}"#,
        ),
    ] {
        let body = body.replace("LONG", &long);
        assert_eq!(fault(format, &body), FaultClass::UnfitAnswer, "{format}");
    }
}

#[test]
fn an_error_that_repeats_a_long_request_keeps_its_class() {
    let body = r#"{"object":"response","status":"failed","instructions":"LONG","error":{"code":"context_length_exceeded","message":"m"},"output":[]}"#;
    let body = body.replace("LONG", &"word ".repeat(30_000));
    let class = fault(Format::Responses, &body);
    assert!(matches!(class, FaultClass::ContextLength(_)), "{class:?}");
}
