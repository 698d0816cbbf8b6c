//! Text is measured wherever a format can have it, and each text once.

use super::*;

const SAID: &str = "forty bytes of text, wherever they stand";

/// What the events of a stream measure, `TEXT` in them being [`SAID`].
#[track_caller]
fn measured(format: Format, events: &[&str]) -> u64 {
    let stream: String = events
        .iter()
        .map(|event| format!("data: {}\n\n", event.replace("TEXT", SAID)))
        .collect();
    let seen = however_cut(format, StreamOptions::default(), &stream);
    assert_eq!(seen.out, stream);
    seen.text_bytes
}

#[test]
fn every_string_of_a_content_event_is_measured() {
    let chat = |delta: &str| format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#);
    let once = [
        (Format::Chat, chat(r#"{"role":"assistant","content":"TEXT"}"#)),
        (Format::Chat, chat(r#"{"content":[{"type":"text","text":"TEXT"}]}"#)),
        (Format::Chat, chat(r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"TEXT"}]}]}"#)),
        (Format::Chat, chat(r#"{"reasoning_details":[{"type":"reasoning.text","text":"TEXT","format":"f","index":0}]}"#)),
        (Format::Chat, chat(r#"{"reasoning":"TEXT","reasoning_content":"TEXT","reasoning_details":[{"type":"reasoning.text","text":"TEXT"}]}"#)),
        (Format::Chat, chat(r#"{"tool_calls":[{"index":0,"id":"t","type":"custom","custom":{"name":"","input":"TEXT"}}]}"#)),
        (Format::Chat, chat(r#"{"tool_calls":[{"function":{"arguments":{"type":"TEXT"}}}]}"#)),
        (Format::Chat, chat(r#"{"function_call":{"name":"","arguments":"TEXT"}}"#)),
        (Format::Chat, chat(r#"{"audio":{"id":"a","data":"AAAA","transcript":"TEXT"}}"#)),
        (Format::Chat, chat(r#"{"a_field_to_come":{"deep":["TEXT"]}}"#)),
        (Format::Chat, r#"{"choices":[{"index":0,"text":"TEXT","logprobs":{"content":[{"token":"x"}]}}],"provider":"P"}"#.to_owned()),
        (Format::Messages, r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"TEXT"}}"#.to_owned()),
        (Format::Messages, r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"","input":{"id":"TEXT"}}}"#.to_owned()),
        (Format::Messages, r#"{"type":"content_block_start","index":0,"content_block":{"type":"new","content":[{"stdout":"TEXT"}]}}"#.to_owned()),
        (Format::Messages, r#"{"type":"content_block_delta","index":0,"delta":{"type":"new_delta","new":"TEXT"}}"#.to_owned()),
        (Format::Responses, r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"i","type":"message","content":[{"type":"output_text","text":"TEXT"}]}}"#.to_owned()),
        (Format::Responses, r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"i","type":"custom_tool_call","call_id":"c","name":"","input":"TEXT"}}"#.to_owned()),
        (Format::Responses, r#"{"type":"response.output_item.done","item":{"type":"reasoning","summary":[{"type":"summary_text","text":"TEXT"}],"encrypted_content":"AAAA"}}"#.to_owned()),
        (Format::Responses, r#"{"type":"response.content_part.added","item_id":"i","part":{"type":"output_text","text":"TEXT","annotations":[{"url":"u"}]}}"#.to_owned()),
        (Format::Responses, r#"{"type":"response.code_interpreter_call_code.done","item_id":"i","code":"TEXT"}"#.to_owned()),
        (Format::Responses, r#"{"type":"response.function_call_arguments.delta","item_id":"i","delta":"TEXT","obfuscation":"xxx"}"#.to_owned()),
        (Format::Responses, r#"{"type":"response.completed","response":{"id":"r","instructions":"be kind","output":[{"type":"message","content":[{"type":"output_text","text":"TEXT"}]}]}}"#.to_owned()),
    ];
    for (format, event) in &once {
        let bytes = measured(*format, &[event]);
        let most = SAID.len() as u64 + 4;
        assert!(
            (SAID.len() as u64..=most).contains(&bytes),
            "{bytes}: {event}"
        );
    }
}

/// The output is not measured, so that it is charged by its time.
#[test]
fn sound_is_no_text_in_any_format() {
    let sound = "A".repeat(2000);
    for (format, event) in [
        (
            Format::Responses,
            r#"{"type":"response.audio.delta","sequence_number":3,"delta":"SOUND"}"#,
        ),
        (
            Format::Responses,
            r#"{"delta":"SOUND","type":"response.audio.delta"}"#,
        ),
        (
            Format::Chat,
            r#"{"choices":[{"index":0,"delta":{"audio":{"id":"a","data":"SOUND"}}}]}"#,
        ),
    ] {
        let stream = format!("data: {}\n\n", event.replace("SOUND", &sound)).repeat(3);
        let seen = however_cut(format, StreamOptions::default(), &stream);
        assert_eq!(seen.text_bytes, 0, "{event}");
        assert!(seen.facts.has_unmeasured_output, "{event}");
    }
}

#[test]
fn keys_and_numbers_of_arguments_are_measured() {
    for (format, event) in [
        (
            Format::Gemini,
            r#"{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"","args":{"numbers":[1234,5678]}}}]}}]}"#,
        ),
        (
            Format::Chat,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":{"numbers":[1234,5678]}}}]}}]}"#,
        ),
        (
            Format::Messages,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"","input":{"numbers":[1234,5678]}}}"#,
        ),
    ] {
        assert_eq!(measured(format, &[event]), 7 + 4 + 4, "{event}");
    }
    let code = r#"{"candidates":[{"content":{"parts":[{"executableCode":{"language":"PYTHON","code":"TEXT"}}]}}]}"#;
    assert!(measured(Format::Gemini, &[code]) >= SAID.len() as u64);
}

#[test]
fn names_and_seals_are_no_text() {
    for (format, event) in [
        (
            Format::Chat,
            r#"{"id":"TEXT","object":"chat.completion.chunk","model":"TEXT","system_fingerprint":"TEXT","provider":"TEXT","choices":[{"index":0,"delta":{"role":"TEXT","reasoning_details":[{"type":"reasoning.encrypted","data":"TEXT"}],"annotations":[{"url":"TEXT"}],"audio":{"data":"TEXT"}},"finish_reason":"TEXT","native_finish_reason":"TEXT"}]}"#,
        ),
        (
            Format::Chat,
            r#"{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"images":[{"type":"image_url","image_url":{"url":"TEXT"}}],"executed_tools":[{"output":"TEXT"}],"tool_calls":[{"index":0,"extra_content":{"google":{"thought_signature":"TEXT"}}}]}}]}"#,
        ),
        (
            Format::Messages,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"TEXT"}}"#,
        ),
        (
            Format::Messages,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"TEXT"}}"#,
        ),
        (
            Format::Messages,
            r#"{"type":"message_delta","delta":{"stop_reason":"TEXT","stop_sequence":"TEXT"}}"#,
        ),
        (
            Format::Responses,
            r#"{"type":"response.image_generation_call.partial_image","item_id":"TEXT","partial_image_b64":"TEXT"}"#,
        ),
        (
            Format::Responses,
            r#"{"type":"response.output_item.done","item":{"id":"TEXT","type":"reasoning","status":"TEXT","encrypted_content":"TEXT","summary":[]}}"#,
        ),
        (
            Format::Responses,
            r#"{"type":"response.created","response":{"id":"TEXT","instructions":"TEXT","tools":[{"description":"TEXT"}],"output":[]}}"#,
        ),
    ] {
        assert_eq!(measured(format, &[event]), 0, "{event}");
    }
}

#[test]
fn repetitions_in_a_stream_are_measured_once() {
    let item = r#"{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"TEXTTEXT"}]}}"#;
    let whole = r#"{"type":"response.completed","response":{"output":[{"content":[{"text":"TEXTTEXT"}]},{"arguments":"TEXT"}]}}"#;
    let responses = [
        (
            r#"{"type":"response.output_item.added","item":{"type":"message","content":[]}}"#,
            0,
        ),
        (r#"{"type":"response.output_text.delta","delta":"TEXT"}"#, 1),
        (r#"{"type":"response.output_text.delta","delta":"TEXT"}"#, 2),
        (
            r#"{"type":"response.output_text.done","text":"TEXTTEXT"}"#,
            2,
        ),
        (
            r#"{"type":"response.content_part.done","part":{"text":"TEXTTEXT"}}"#,
            2,
        ),
        (item, 2),
        (
            r#"{"type":"response.function_call_arguments.delta","delta":"TEXT"}"#,
            3,
        ),
        (
            r#"{"type":"response.function_call_arguments.done","arguments":"TEXT"}"#,
            3,
        ),
        (
            r#"{"type":"response.output_item.done","item":{"arguments":"TEXT"}}"#,
            3,
        ),
        (whole, 3),
    ];
    for last in 1..=responses.len() {
        let events: Vec<_> = responses[..last].iter().map(|(event, _)| *event).collect();
        let expected = responses[last - 1].1 * SAID.len() as u64;
        assert_eq!(measured(Format::Responses, &events), expected, "{last}");
    }
    let shell = [
        r#"{"type":"response.shell_call_output_content.delta","command_index":0,"delta":{"stdout":"TEXT"}}"#,
        r#"{"type":"response.shell_call_output_content.done","output":[{"stdout":"TEXT","stderr":"","outcome":{"type":"exit","exit_code":0}}]}"#,
        r#"{"type":"response.output_item.done","item":{"type":"shell_call_output","output":[{"stdout":"TEXT"}]}}"#,
    ];
    for last in 1..=shell.len() {
        let bytes = measured(Format::Responses, &shell[..last]);
        assert_eq!(bytes, SAID.len() as u64, "{last}");
    }
    // MiniMax ends a stream of chat with the whole message.
    let delta = r#"{"choices":[{"index":0,"delta":{"content":"TEXT"}}]}"#;
    for last in [
        r#"{"object":"chat.completion","choices":[{"index":0,"message":{"content":"TEXTTEXT"}}]}"#,
        r#"{"choices":[{"index":0,"message":{"content":"TEXTTEXT"}}],"object":"chat.completion"}"#,
    ] {
        let bytes = measured(Format::Chat, &[delta, delta, last]);
        assert_eq!(bytes, 2 * SAID.len() as u64, "{last}");
    }
}

#[test]
fn an_answer_that_begins_with_spaces_is_sampled_behind_them() {
    for piece in [7, 6000] {
        let text = " ".repeat(1024) + &"words and more words ".repeat(600);
        let mut scanner = StreamScanner::new(Format::Chat, StreamOptions::default());
        for piece in text.as_bytes().chunks(piece) {
            let piece = std::str::from_utf8(piece).unwrap();
            let event =
                format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{piece}\"}}}}]}}\n\n");
            scanner.push(&Bytes::from(event), &mut Vec::new());
        }
        let sample = scanner.text_sample();
        let spaces = sample.bytes().filter(|byte| *byte == b' ').count();
        assert!(sample.len() > 300, "{sample}");
        assert!(spaces * 2 < sample.len(), "{spaces} of {}", sample.len());
    }
}
