//! What holds for every failure: waits, public errors, bounds, recorded errors.

mod echoes;
mod vendors;

use super::{FaultClass as C, *};
use http::HeaderMap;
use std::time::SystemTime;

fn upstream(status: u16, body: &str) -> UpstreamFault {
    with_headers(status, &[], body)
}

fn with_headers(status: u16, headers: &[(&'static str, &str)], body: &str) -> UpstreamFault {
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
        .collect();
    classify(&UpstreamAnswer {
        status,
        headers: &headers,
        body: body.as_bytes(),
        now: SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777),
    })
}

/// `{"error":{message,type,code}}`
fn openai(message: &str, kind: &str, code: &str) -> String {
    serde_json::json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
        .to_string()
}

/// `{"type":"error","error":{type,message}}`
fn anthropic(kind: &str, message: &str) -> String {
    serde_json::json!({"type": "error", "error": {"type": kind, "message": message}}).to_string()
}

fn context(input: Option<u64>, output: Option<u64>, limit: Option<u64>) -> C {
    C::ContextLength(ContextNumbers {
        input,
        output,
        limit,
    })
}

/// Checks the class of each (name, status, body).
#[track_caller]
fn all_are(class: C, examples: &[(&str, u16, String)]) {
    for (name, status, body) in examples {
        let fault = upstream(*status, body);
        assert_eq!(fault.class, class, "{name}: {body}");
        assert_eq!(fault.status, Some(*status));
    }
}

#[test]
fn events_and_bodies_of_a_success_are_classified_without_a_status() {
    let examples = [
        (
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            C::Busy,
        ),
        (
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"x"}}"#,
            C::InvalidRequest,
        ),
        (
            r#"{"type":"error","code":"server_error","message":"x","param":null,"sequence_number":3}"#,
            C::ServerError,
        ),
        (
            r#"{"type":"error","sequence_number":2,"error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"Your input exceeds the context window of this model.","param":"input"}}"#,
            context(None, None, None),
        ),
        (
            r#"{"type":"response.failed","response":{"id":"r","error":{"code":"rate_limit_exceeded","message":"Rate limit reached. Please try again in 1.5s."}}}"#,
            C::RateLimit,
        ),
        (
            r#"{"id":"g","choices":[{"delta":{"content":""},"finish_reason":"error"}],"error":{"code":502,"message":"Provider disconnected"}}"#,
            C::ServerError,
        ),
        (
            r#"{"choices":[{"error":{"code":429,"message":"x"}}]}"#,
            C::RateLimit,
        ),
        (
            r#"{"error":{"code":"tool_use_failed","message":"Failed to call a function.","type":"invalid_request_error"}}"#,
            C::InvalidRequest,
        ),
        (
            r#"{"error":"The request exceeds the available context size (4096)"}"#,
            context(None, None, Some(4096)),
        ),
        (r#"{"error":{}}"#, C::ServerError),
        ("{not json", C::ServerError),
        ("", C::ServerError),
    ];
    for (body, class) in examples {
        let fault = classify_body(body.as_bytes());
        assert_eq!(fault.class, class, "{body}");
        assert_eq!(fault.status, None);
    }
}

#[test]
fn an_error_within_a_success_gives_the_status_that_it_stands_for() {
    let examples = [
        (r#"{"error":{"code":403,"message":"x"}}"#, Some(403)),
        (
            r#"{"type":"error","error":{"type":"permission_error","message":"x"}}"#,
            Some(403),
        ),
        (r#"{"error":{"code":401,"message":"x"}}"#, Some(401)),
        (r#"{"error":{"code":"unheard_of","message":"x"}}"#, None),
    ];
    for (body, reported) in examples {
        let fault = classify_body(body.as_bytes());
        assert_eq!(
            (fault.status, fault.reported_status),
            (None, reported),
            "{body}"
        );
        // An answer has its own.
        assert_eq!(upstream(400, body).reported_status, None);
    }
}

#[test]
fn the_providers_wait_is_read_from_headers_then_from_its_text() {
    let date = |value: &'static str| vec![("retry-after", value)];
    let examples = [
        (
            vec![("retry-after-ms", "1500"), ("retry-after", "9")],
            "",
            Some(1500),
        ),
        (vec![("retry-after-ms", "20.5")], "", Some(20)),
        (vec![("retry-after", "26")], "", Some(26_000)),
        (vec![("retry-after", "0.5")], "", Some(500)),
        (date("Sun, 06 Nov 1994 08:49:47 GMT"), "", Some(10_000)),
        (date("Sun, 06 Nov 1994 08:49:27 GMT"), "", Some(0)),
        (date("Sunday, 06-Nov-94 08:49:47 GMT"), "", Some(10_000)),
        (date("Sun Nov  6 08:49:47 1994"), "", Some(10_000)),
        (
            vec![("retry-after", "soon")],
            "Please retry after 26 seconds.",
            Some(26_000),
        ),
        (vec![("retry-after", "-5")], "", None),
        (
            vec![("retry-after", "99999999999999999999")],
            "",
            Some(86_400_000),
        ),
        (vec![], "Please try again in 1m30.5s.", Some(90_500)),
        (vec![], "Please try again in 120ms.", Some(120)),
        (vec![], "Please try again in 6h0m0s", Some(21_600_000)),
        (vec![], "Please try again in a while", None),
        (vec![], "Please try again in 5 fortnights", None),
    ];
    for (headers, text, expected) in examples {
        let fault = with_headers(
            429,
            &headers,
            &openai(text, "tokens", "rate_limit_exceeded"),
        );
        let millis = fault.retry_after.map(|wait| wait.as_millis());
        assert_eq!(millis, expected, "{headers:?} {text}");
    }
}

#[test]
fn failures_of_the_connection_have_their_own_statuses() {
    let examples = [
        (
            UpstreamFault::unreachable(),
            503,
            ErrorCode::ServiceUnavailable,
        ),
        (
            UpstreamFault::connection_broken(),
            503,
            ErrorCode::ServiceUnavailable,
        ),
        (
            UpstreamFault::response_timeout(),
            504,
            ErrorCode::UpstreamError,
        ),
        (
            UpstreamFault::broken_answer(),
            502,
            ErrorCode::UpstreamError,
        ),
    ];
    for (fault, status, code) in examples {
        let public = fault.public();
        assert_eq!((public.status, public.code), (status, code), "{fault:?}");
        assert!(fault.try_elsewhere(), "{fault:?}");
        assert_eq!(public.retry_after.is_some(), status == 503, "{fault:?}");
    }
}

#[test]
fn the_callers_own_status_survives_and_says_not_to_try_again() {
    for status in [400, 413, 415, 422] {
        let public = upstream(status, "{}").public();
        assert_eq!(
            (public.status, public.code),
            (status, ErrorCode::UpstreamError)
        );
        assert_eq!(public.error_type().as_str(), "invalid_request_error");
        assert_eq!(public.should_retry, Some(false));
    }
    assert_eq!(upstream(409, "{}").public().should_retry, None);
}

#[test]
fn no_text_of_a_provider_reaches_the_caller() {
    const MARK: &str = "zebra-sk-secret";
    let phrases = [
        "maximum context length is 10",
        "your credit balance is too low",
        "safety system",
        "the model does not exist",
        "incorrect api key",
        "request too large for",
        "",
    ];
    for status in 400..600 {
        for phrase in phrases {
            for code in [MARK, "rate_limit_exceeded", "context_length_exceeded"] {
                let body = openai(&format!("{MARK} {phrase} {MARK}"), MARK, code);
                let public = upstream(status, &body).public();
                assert!(
                    !public.message.contains("zebra"),
                    "{status} {phrase}: {public}"
                );
            }
        }
    }
}

#[test]
fn only_a_plain_code_is_kept_for_the_log() {
    let code = |body: &str| upstream(400, body).provider_code;
    let plain = code(&openai("x", "invalid_request_error", "invalid_value"));
    assert_eq!(plain.as_deref(), Some("invalid_value"));
    let sentence = code(r#"{"code":"Incorrect key sk-secret","error":"x"}"#);
    assert_eq!(sentence, None);
}

#[test]
fn of_two_failures_the_more_helpful_one_is_kept_in_whichever_order_they_come() {
    // From the most helpful to the least.
    let classes = [
        C::ContextLength(ContextNumbers::default()),
        C::RateLimit,
        C::Busy,
        C::ServerError,
        C::RequestOverRateLimit,
        C::Quota,
        C::Credential,
        C::InvalidModel,
    ];
    let fault = |class| UpstreamFault::without_answer(class);
    for (place, better) in classes.into_iter().enumerate() {
        for worse in classes.into_iter().skip(place + 1) {
            for (a, b) in [(better, worse), (worse, better)] {
                assert_eq!(fault(a).or_better(fault(b)).class, better, "{a:?} {b:?}");
            }
        }
    }
}

#[test]
fn of_two_failures_that_pass_the_one_that_passes_sooner_is_kept() {
    let wait = |seconds| UpstreamFault {
        retry_after: Some(Duration::from_secs(seconds)),
        ..UpstreamFault::without_answer(C::RateLimit)
    };
    assert_eq!(wait(30).or_better(wait(7)), wait(7));
    assert_eq!(wait(7).or_better(wait(30)), wait(7));
}

#[test]
fn a_hostile_body_is_read_within_bounds() {
    let deep = "[".repeat(100_000);
    let long = format!(r#"{{"error":{{"message":"{}"}}}}"#, "x".repeat(200_000));
    for body in [deep, long] {
        assert_eq!(upstream(400, &body).class, C::InvalidRequest);
    }
}

#[test]
fn every_recorded_error_has_the_class_that_its_provider_meant() {
    let Some(folder) = fixtures() else { return };
    let mut seen = 0;
    for name in ["chat", "responses", "messages", "count_tokens"] {
        let text = std::fs::read_to_string(folder.join(format!("{name}.jsonl"))).unwrap();
        for line in text.lines() {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            let status = u16::try_from(record["status"].as_u64().unwrap()).unwrap();
            if status == 200 {
                continue;
            }
            seen += 1;
            let response = &record["response"];
            let body = response
                .as_str()
                .map_or(response.to_string(), str::to_owned);
            let expected = if body.contains("model_not_found") || body.contains("not_found_error") {
                C::InvalidModel
            } else {
                C::InvalidRequest
            };
            assert_eq!(upstream(status, &body).class, expected, "{body}");
        }
    }
    assert!(seen >= 10, "only {seen} errors in {}", folder.display());
}

/// The folder of recorded traffic, or `None` with a note that the test is skipped.
fn fixtures() -> Option<std::path::PathBuf> {
    let folder = std::env::var_os("TOLLGATE_FIXTURES").map_or_else(
        || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures"),
        std::path::PathBuf::from,
    );
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: no recorded traffic in {}", folder.display());
    None
}
