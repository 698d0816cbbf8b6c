use super::*;
use serde_json::{Value, json};
use tollgate_types::ErrorCode;

fn request() -> RequestId {
    RequestId::from_parts(1_790_000_000_000, 7)
}

fn headers(error: &PublicError) -> Vec<(String, String)> {
    error_headers(error)
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect()
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Splits a stream of LF-ended events into names and data.
fn events(bytes: &[u8]) -> Vec<(Option<String>, Value)> {
    let text = std::str::from_utf8(bytes).unwrap();
    assert!(text.ends_with("\n\n"), "{text:?}");
    text.trim_matches('\n')
        .split("\n\n")
        .map(|event| {
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
            let data = serde_json::from_str(field("data: ").unwrap()).unwrap();
            (field("event: ").map(str::to_owned), data)
        })
        .collect()
}

#[test]
fn every_code_has_the_one_shape_in_every_format() {
    for code in ErrorCode::ALL {
        let error = PublicError::new(*code, "a \"quoted\"\nmessage");
        for format in [None, Some(Format::Chat), Some(Format::Responses)] {
            let body: Value =
                serde_json::from_slice(&error_body(format, &error, &request())).unwrap();
            let expected = json!({"error": {
                "message": "a \"quoted\"\nmessage",
                "type": error.error_type().as_str(),
                "code": code.as_str(),
            }});
            assert_eq!(body, expected, "{format:?}");
        }
    }
}

#[test]
fn the_field_at_fault_is_named_where_the_format_has_a_place_for_it() {
    let error = PublicError::invalid_request("no").with_param("messages[3].role");
    let param = |format| {
        let body = error_body(format, &error, &request());
        serde_json::from_slice::<Value>(&body).unwrap()["error"]["param"].clone()
    };
    assert_eq!(param(Some(Format::Chat)), "messages[3].role");
    assert_eq!(param(Some(Format::Responses)), "messages[3].role");
    assert_eq!(param(Some(Format::Messages)), Value::Null);
}

#[test]
fn a_messages_error_also_carries_type_and_request_id() {
    let error = PublicError::new(ErrorCode::MissingApiKey, "no key");
    let body = error_body(Some(Format::Messages), &error, &request());
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["type"], "error");
    assert_eq!(body["request_id"], request().as_str());
    assert_eq!(body["error"]["type"], "authentication_error");
    assert_eq!(body["error"]["code"], "missing_api_key");
}

#[test]
fn waits_are_rounded_up() {
    let error = PublicError::new(ErrorCode::RateLimitExceeded, "x")
        .with_retry_after(Duration::from_micros(1_000_001));
    let expected = [pair("retry-after", "2"), pair("retry-after-ms", "1001")];
    assert_eq!(headers(&error), expected);
}

#[test]
fn a_permanent_error_advises_against_a_retry_and_names_no_wait() {
    let error = PublicError::new(ErrorCode::PermissionDenied, "x");
    assert_eq!(headers(&error), [pair("x-should-retry", "false")]);
    let error = PublicError::new(ErrorCode::InternalError, "x");
    assert_eq!(headers(&error), []);
}

#[test]
fn a_chat_stream_ends_in_an_error_chunk_without_done() {
    let error = PublicError::new(ErrorCode::ServiceUnavailable, "gone");
    let bytes = failure_event(Format::Chat, &StreamTail::default(), &error, &request());
    let [(None, data)] = &events(&bytes)[..] else {
        panic!("{bytes:?}");
    };
    assert_eq!(data["error"]["code"], "service_unavailable");
    assert!(data.get("choices").is_none(), "{data}");
}

#[test]
fn a_messages_stream_ends_in_a_named_error_event() {
    let error = PublicError::new(ErrorCode::UpstreamError, "gone");
    let bytes = failure_event(Format::Messages, &StreamTail::default(), &error, &request());
    let [(Some(name), data)] = &events(&bytes)[..] else {
        panic!("{bytes:?}");
    };
    assert_eq!((name.as_str(), &data["type"]), ("error", &json!("error")));
    assert_eq!(data["error"]["type"], "api_error");
}

#[test]
fn a_responses_stream_ends_in_error_and_response_failed_with_the_streams_own_identity() {
    let error = PublicError::new(ErrorCode::RateLimitExceeded, "slow down");
    let tail = StreamTail {
        event_is_open: false,
        response_id: Some("resp_1"),
        model: Some("m"),
        created_at: Some(1_790_000_000),
        next_sequence: 9,
    };
    let bytes = failure_event(Format::Responses, &tail, &error, &request());
    let events = events(&bytes);
    let names: Vec<_> = events.iter().map(|(name, _)| name.as_deref()).collect();
    assert_eq!(names, [Some("error"), Some("response.failed")]);
    for (number, (name, data)) in (9..).zip(&events) {
        assert_eq!(data["sequence_number"], number);
        assert_eq!(data["type"].as_str(), name.as_deref());
    }
    assert_eq!(events[0].1["error"]["message"], "slow down");
    let response = &events[1].1["response"];
    assert_eq!(response["id"], "resp_1");
    assert_eq!(response["model"], "m");
    assert_eq!(response["created_at"], 1_790_000_000);
    assert_eq!(response["status"], "failed");
    assert_eq!(response["error"]["code"], "rate_limit_exceeded");
}

#[test]
fn a_cut_event_is_closed_before_the_error() {
    let error = PublicError::new(ErrorCode::ServiceUnavailable, "gone");
    let tail = StreamTail {
        event_is_open: true,
        ..StreamTail::default()
    };
    let mut stream = b"data: {\"choices\":[{\"del".to_vec();
    stream.extend_from_slice(&failure_event(Format::Chat, &tail, &error, &request()));
    let text = String::from_utf8(stream).unwrap();
    let (cut, rest) = text.split_once("\n\n").unwrap();
    assert_eq!(cut, "data: {\"choices\":[{\"del");
    assert!(rest.starts_with("data: {\"error\":"), "{rest}");
}
