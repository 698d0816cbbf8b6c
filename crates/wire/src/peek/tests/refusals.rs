//! What a peek refuses, and the messages for the caller.

use super::*;
use tollgate_types::{ErrorCode, ErrorType};

#[test]
fn a_missing_or_malformed_model_is_an_invalid_model() {
    for (body, part) in [
        (r#"{"messages":[{"role":"user","content":""}]}"#, "required"),
        (
            r#"{"messages":[{"role":"user","content":""}],"model":""}"#,
            "empty",
        ),
        (
            r#"{"messages":[{"role":"user","content":""}],"model":null}"#,
            "string",
        ),
        (
            r#"{"messages":[{"role":"user","content":""}],"model":["m"]}"#,
            "string",
        ),
        (
            r#"{"messages":[{"role":"user","content":""}],"model":7}"#,
            "string",
        ),
        (
            &format!(
                r#"{{"messages":[{{"role":"user","content":""}}],"model":"{}"}}"#,
                "m".repeat(257)
            ),
            "256 bytes",
        ),
    ] {
        let error = refusal(peek(Format::Chat, body));
        assert_eq!(
            (error.code, error.status),
            (ErrorCode::InvalidModel, 400),
            "{error}"
        );
        assert_eq!(error.error_type(), ErrorType::InvalidRequestError);
        assert!(
            error.message.contains("'model'") && error.message.contains(part),
            "{error}"
        );
    }
    let limits = PeekLimits {
        model_required: false,
        ..PeekLimits::default()
    };
    let peeked = peek_chunks(
        Peeker::new(Format::Chat, &limits),
        [&br#"{"messages":[{"role":"user","content":""}]}"#[..]],
    );
    assert_eq!(peeked.unwrap().facts.model, None);
}

#[test]
fn a_limit_must_be_a_plain_positive_integer() {
    let huge = "9".repeat(400);
    for bad in [
        "-1",
        "0",
        "1.5",
        "\"5\"",
        "1e309",
        "9223372036854775808",
        "1e3",
        "5.0",
        "true",
        "[]",
        "{}",
        &huge,
    ] {
        for field in ["max_tokens", "max_completion_tokens", "n"] {
            let error = refusal(chat(&format!("\"{field}\":{bad}")));
            assert_eq!((error.code, error.status), (ErrorCode::InvalidRequest, 400));
            assert!(error.message.contains(&format!("'{field}'")), "{error}");
        }
        let error = refusal(responses(&format!("\"max_output_tokens\":{bad}")));
        assert!(error.message.contains("'max_output_tokens'"), "{error}");
        let error = refusal(messages(&format!(
            r#""thinking":{{"budget_tokens":{bad}}}"#
        )));
        assert!(
            error.message.contains("'thinking.budget_tokens'"),
            "{error}"
        );
        let body = format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":""}}],"max_tokens":{bad}}}"#
        );
        let error = refusal(peek(Format::Messages, &body));
        assert!(error.message.contains("'max_tokens'"), "{error}");
    }
    for too_large in ["2147483648", "1000000000000"] {
        let error = refusal(chat(&format!("\"max_tokens\":{too_large}")));
        let reported = "'max_tokens' must be at most 2147483647";
        assert!(error.message.contains(reported), "{error}");
    }
    assert!(refusal(chat("\"n\":129")).message.contains("1 to 128"));
    assert_eq!(chat("\"n\":128").unwrap().facts.choices, 128);
    assert_eq!(
        chat("\"max_tokens\":2147483647")
            .unwrap()
            .facts
            .output_limit,
        Some(2147483647)
    );
}

#[test]
fn fields_of_the_wrong_type_are_named() {
    for (result, field) in [
        (chat(r#""stream":"true""#), "'stream'"),
        (chat(r#""stream":1"#), "'stream'"),
        (chat(r#""stream_options":[]"#), "'stream_options'"),
        (
            chat(r#""stream_options":{"include_usage":1}"#),
            "'stream_options.include_usage'",
        ),
        (chat(r#""reasoning_effort":3"#), "'reasoning_effort'"),
        (chat(r#""response_format":"json""#), "'response_format'"),
        (
            responses(r#""reasoning":{"effort":[]}"#),
            "'reasoning.effort'",
        ),
        (responses(r#""reasoning":7"#), "'reasoning'"),
        (responses(r#""background":"yes""#), "'background'"),
        (responses(r#""text":"x""#), "'text'"),
        (responses(r#""text":{"format":"x"}"#), "'text.format'"),
        (messages(r#""output_format":"x""#), "'output_format'"),
        (
            messages(r#""output_config":{"format":"x"}"#),
            "'output_config.format'",
        ),
        (messages(r#""thinking":true"#), "'thinking'"),
        (messages(r#""thinking":{"type":1}"#), "'thinking.type'"),
        (
            messages(r#""output_config":{"effort":1}"#),
            "'output_config.effort'",
        ),
        (
            peek(Format::Chat, r#"{"messages":"hi","model":"m"}"#),
            "'messages'",
        ),
        (
            peek(Format::Messages, r#"{"messages":{},"model":"m"}"#),
            "'messages'",
        ),
        (
            peek(Format::Responses, r#"{"input":{},"model":"m"}"#),
            "'input'",
        ),
    ] {
        let error = refusal(result);
        assert_eq!((error.code, error.status), (ErrorCode::InvalidRequest, 400));
        assert!(error.message.contains(field), "{error}");
    }
}

#[test]
fn a_missing_field_is_named() {
    let absent = |format, body| refusal(peek(format, body)).message.into_owned();
    assert!(absent(Format::Chat, r#"{"model":"m"}"#).contains("'messages' is required"));
    assert!(absent(Format::Responses, r#"{"model":"m"}"#).contains("'input' is required"));
    let body = r#"{"model":"m","messages":[{"role":"user","content":""}]}"#;
    assert!(absent(Format::Messages, body).contains("'max_tokens' is required"));
    let count = Peeker::new(Format::Messages, &PeekLimits::default()).for_count();
    assert!(peek_chunks(count, [body.as_bytes()]).is_ok());
    for stored in [r#""prompt":{"id":"p"}"#, r#""previous_response_id":"r""#] {
        let body = format!(r#"{{"model":"m",{stored}}}"#);
        assert!(peek(Format::Responses, &body).is_ok(), "{body}");
    }
}

#[test]
fn a_key_given_twice_is_refused_wherever_it_is_read() {
    for result in [
        chat(r#""mod\u0065l":"other""#),
        chat(r#""unknown":1,"unknown":2"#),
        chat(r#""stream_options":{"include_usage":true,"include\u005fusage":false}"#),
        chat(r#""response_format":{"type":"text","type":"json_schema"}"#),
        chat(r#""reasoning":{"effort":"low","effort":"high"}"#),
        responses(r#""text":{"format":{"type":"text","type":"json_schema"}}"#),
        responses(r#""conversation":{"id":"a","id":"b"}"#),
        messages(r#""thinking":{"type":"disabled","type":"enabled"}"#),
        messages(r#""output_config":{"effort":"low","effort":"max"}"#),
        messages(r#""system":[{"type":"text","type":"image"}]"#),
    ] {
        let error = refusal(result);
        assert_eq!((error.code, error.status), (ErrorCode::InvalidRequest, 400));
        assert!(error.message.contains("is given twice"), "{error}");
    }
    // In JSON that is passed on unread, it is the provider's to judge.
    assert!(chat(r#""tools":[{"parameters":{"a":1,"a":2}}],"metadata":{"a":1,"a":2}"#).is_ok());
    let sibling = r#""prediction":[{"type":"a"},{"type":"b"}]"#;
    assert!(chat(sibling).is_ok());
}

#[test]
fn a_known_key_of_gemini_in_both_spellings_is_given_twice() {
    let gemini = |more: &str| {
        let body = format!(r#"{{"contents":[{{"parts":[{{"text":"a"}}]}}],{more}}}"#);
        refusal(peek(Format::Gemini, &body)).message
    };
    for more in [
        r#""generationConfig":{"maxOutputTokens":9,"max_output_tokens":99}"#,
        r#""generationConfig":{"max_output_tokens":9,"maxOutputTokens":99}"#,
        r#""generationConfig":{"maxOutputTokens":9},"generation_config":{"maxOutputTokens":99}"#,
        r#""system_instruction":{"parts":[]},"systemInstruction":{"parts":[]}"#,
        r#""systemInstruction":{"parts":[{"inlineData":{"mimeType":"text/plain","data":"a","mime_type":"image/png"}}]}"#,
    ] {
        assert!(gemini(more).contains("is given twice"), "{}", gemini(more));
    }
    for more in [
        r#""generation_config":{"max_output_tokens":9,"top_k":1,"topK":1}"#,
        r#""tools":[{"functionDeclarations":[{"name":"f","parameters":{"file_id":{},"fileId":{}}}]}]"#,
    ] {
        assert!(
            gemini(more).contains("'model' is required"),
            "{}",
            gemini(more)
        );
    }
    // Other formats have one spelling.
    assert!(chat(r#""prediction":{"file_id":"a","fileId":"b"}"#).is_ok());
}

#[test]
fn a_key_that_differs_from_a_known_one_in_case_only_is_refused() {
    // Keys with capitals that mean nothing to the gateway.
    const PART: &str = r#"{"thoughtSignature":"x","thought":true,"text":"a","functionCall":{"name":"f","args":{"Type":1}}}"#;
    let gemini = |more: &str| {
        peek(
            Format::Gemini,
            &format!(r#"{{"contents":[{{"parts":[{PART}]}}],{more}}}"#),
        )
    };
    for (result, known) in [
        (chat(r#""Model":"expensive""#), "model"),
        (chat(r#""MAX_TOKENS":20000"#), "max_tokens"),
        (chat(r#""max_to\u212aens":20000"#), "max_tokens"),
        (chat(r#""\u017ftream":true"#), "stream"),
        (chat(r#""MaxTokens":20000"#), "maxTokens"),
        (chat(r#""Num_Predict":20000"#), "num_predict"),
        (
            chat(r#""stream_options":{"Include_usage":false}"#),
            "include_usage",
        ),
        (
            chat(r#""tools":[{"type":"function","Type":"web_search","function":{"name":"f"}}]"#),
            "type",
        ),
        (chat(r#""prediction":{"File_ID":"file_1"}"#), "file_id"),
        (
            responses(r#""Previous_Response_Id":"resp_1""#),
            "previous_response_id",
        ),
        (
            messages(r#""thinking":{"type":"disabled","TYPE":"enabled"}"#),
            "type",
        ),
        (
            gemini(r#""generationConfig":{"MaxOutputTokens":9}"#),
            "maxOutputTokens",
        ),
    ] {
        let error = refusal(result);
        assert_eq!((error.code, error.status), (ErrorCode::InvalidRequest, 400));
        let told = format!("write '{known}'");
        assert!(error.message.contains(&told), "{error}");
    }
    for more in [
        r#""maxTokens":9,"serviceTier":"flex","providerOptions":{}"#,
        r#""UNKNOWN":1,"größe":2,"X-Header":3"#,
        r#""metadata":{"Model":"m"},"tools":[{"parameters":{"Type":1}}]"#,
    ] {
        assert!(chat(more).is_ok(), "{more}: {:?}", chat(more));
    }
    let known = refusal(gemini(
        r#""generationConfig":{"maxOutputTokens":9,"topK":4}"#,
    ));
    assert!(known.message.contains("'model' is required"), "{known}");
}

#[test]
fn a_message_echoes_at_most_a_short_escaped_piece() {
    let key = "\\u0000<é>".to_owned() + &"k".repeat(100);
    let error = refusal(chat(&format!(r#""{key}":1,"{key}":2"#)));
    assert!(error.message.contains(r#""\u{0}<\u{e9}>kkk"#), "{error}");
    assert!(error.message.len() < 160, "{error}");
    assert!(
        error.message.is_ascii() || error.message.contains('…'),
        "{error}"
    );
}

#[test]
fn malformed_json_is_refused_with_place_and_reason() {
    let error = refusal(peek(Format::Chat, r#"{"model":"m",}"#));
    let expected = "The request body is not valid JSON: expected a key in double quotes, \
                    found '}' at byte 13.";
    assert_eq!(
        (error.code, error.message.as_ref()),
        (ErrorCode::InvalidRequest, expected)
    );
    for body in ["[]", "7 ", "\"x\"", "null"] {
        let error = refusal(peek(Format::Chat, body));
        assert_eq!(
            error.message, "The request body must be a JSON object.",
            "{body}"
        );
    }
    let error = refusal(peek(Format::Chat, ""));
    assert!(
        error.message.contains("ends before it is complete"),
        "{error}"
    );
    let deep = format!(r#"{{"x":{}"#, "[".repeat(200));
    let error = refusal(peek(Format::Chat, &deep));
    assert_eq!(
        error.message,
        "The request body is nested deeper than 128 levels at byte 132."
    );
    let deep = format!(r#"{{"prediction":{}"#, "[".repeat(100_000));
    assert!(
        refusal(peek(Format::Chat, &deep))
            .message
            .contains("deeper")
    );
}

#[test]
fn bounds_hold() {
    let keys: Vec<String> = (0..127).map(|n| format!("\"k{n}\":0")).collect();
    assert!(
        refusal(chat(&keys.join(",")))
            .message
            .contains("more than 128 keys")
    );
    assert!(chat(&keys[1..].join(",")).is_ok());
    let long = format!("\"{}\":0", "k".repeat(257));
    assert!(
        refusal(chat(&long))
            .message
            .contains("longer than 256 bytes")
    );
    let id = format!(r#""previous_response_id":"{}""#, "r".repeat(257));
    assert!(
        refusal(responses(&id))
            .message
            .contains("longer than 256 bytes")
    );
    let ids: Vec<String> = (0..257).map(|n| format!("{{\"id\":\"{n}\"}}")).collect();
    let body = format!(r#"{{"model":"m","input":[{}]}}"#, ids.join(","));
    assert!(
        refusal(peek(Format::Responses, &body))
            .message
            .contains("more than 256 stored")
    );
}
