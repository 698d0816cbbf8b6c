//! Traces: what a collector gets over gRPC and HTTP, which requests are sampled, and what a collector that
//! does not answer costs.

use crate::support::collector::{Collector, attributes, hex};
use crate::support::{
    AT_ONCE, Act, CHAT, COUNT_TOKENS, Config, FORMATS, Gateway, LONG, Output, PATIENCE, Provider,
    Request, Upstream, closed_port, eventually, prompt, store_in, tollgate,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tollgate_ledger::{GrantTerms, NewKey};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Exports of all requests.
fn to(collector: &Collector) -> Value {
    json!({"endpoint": format!("http://{}", collector.address), "sample": {"share": 1}})
}

fn ask(gateway: &Gateway, path: &str, model: &str, more: Value) -> Request {
    Request::post(path, &prompt(path, model, "A secret question.", more)).key(&gateway.key)
}

fn texts(spans: &[Span]) -> String {
    format!("{spans:?}")
}

#[tokio::test]
async fn a_request_is_a_span_and_its_attempt_another_with_what_the_provider_reported() {
    let provider = Provider::start().await;
    let collector = Collector::start().await;
    let config = Config::of(&provider)
        .with("traces", to(&collector))
        .with("models.test-model.price", json!({"input": 3, "output": 15}));
    let gateway = Gateway::start(config).await;
    for path in FORMATS {
        for stream in [false, true] {
            let request = ask(&gateway, path, "test-model", json!({"stream": stream}));
            let answer = gateway.send(&request).await;
            answer.assert_ok();
            let line = gateway.line_of(&answer).await;
            let trace = collector.trace_of(line["id"].as_str().unwrap()).await;
            let [request, attempt] = &trace[..] else {
                panic!("{trace:#?}");
            };
            assert_eq!(hex(&request.trace_id), line["trace_id"]);
            assert_eq!(request.kind, SpanKind::Server as i32);
            assert_eq!(request.name, format!("POST {path}"));
            assert!(request.parent_span_id.is_empty());
            let of_request = attributes(request);
            let expected = json!({
                "http.request.method": "POST", "http.route": path,
                "http.response.status_code": 200, "tollgate.request.id": line["id"],
                "tollgate.outcome": "completed", "tollgate.key": line["key"],
                "tollgate.model": "test-model", "tollgate.charged": line["charged"],
                "tollgate.cost": line["cost"],
            });
            assert_eq!(of_request, expected);

            assert_eq!(attempt.kind, SpanKind::Client as i32);
            assert_eq!(attempt.name, "chat upstream-model");
            assert_eq!(attempt.trace_id, request.trace_id);
            assert!(request.start_time_unix_nano <= attempt.start_time_unix_nano);
            assert!(attempt.end_time_unix_nano <= request.end_time_unix_nano);
            let mut of_attempt = attributes(attempt);
            let first = of_attempt["gen_ai.response.time_to_first_chunk"].take();
            assert!((0.0..30.0).contains(&first.as_f64().unwrap()), "{first}");
            for known in ["gen_ai.response.id", "gen_ai.response.model"] {
                assert!(of_attempt[known].take().is_string(), "{trace:#?}");
            }
            let usage = |kind: &str| line["usage"][kind].as_u64().unwrap();
            let input = usage("input") + usage("cache_read") + usage("cache_write");
            let max_tokens = (path == "/v1/messages").then_some(1000);
            let finish = match path {
                "/v1/messages" => "end_turn",
                "/v1/responses" => "completed",
                _ => "stop",
            };
            let mut expected = json!({
                "gen_ai.operation.name": "chat", "gen_ai.provider.name": "sim",
                "tollgate.provider": "sim",
                "server.address": "127.0.0.1", "server.port": provider.address.port(),
                "gen_ai.request.model": "upstream-model", "gen_ai.request.stream": stream,
                "gen_ai.response.finish_reasons": [finish],
                "gen_ai.response.id": null, "gen_ai.response.model": null,
                "gen_ai.response.time_to_first_chunk": null,
                "gen_ai.usage.input_tokens": input,
                "gen_ai.usage.cache_read.input_tokens": usage("cache_read"),
                "gen_ai.usage.cache_creation.input_tokens": usage("cache_write"),
                "gen_ai.usage.output_tokens": usage("output"),
                "gen_ai.usage.reasoning.output_tokens": usage("reasoning"),
            });
            if let Some(limit) = max_tokens {
                expected["gen_ai.request.max_tokens"] = json!(limit);
            }
            assert_eq!(of_attempt, expected);
            assert_eq!(attempt.events[0].name, "gen_ai.first_chunk");
            let first = attempt.events[0].time_unix_nano;
            assert!((attempt.start_time_unix_nano..=attempt.end_time_unix_nano).contains(&first));
        }
    }
    let spans = texts(&collector.spans());
    let answer = provider.last();
    assert!(!spans.contains("secret question"), "{spans}");
    assert!(!spans.contains(&gateway.key), "{spans}");
    let export = &collector.exports()[0];
    assert_eq!(export.resource["service.name"], "tollgate");
    // The provider continues the trace of the attempt.
    let passed = answer.headers["traceparent"].to_str().unwrap();
    let attempts: Vec<_> = collector.spans();
    let attempts = attempts.iter().map(|span| hex(&span.span_id));
    let attempts: Vec<_> = attempts.collect();
    assert!(
        attempts.iter().any(|id| passed.contains(id.as_str())),
        "{passed} {attempts:?}"
    );
    assert!(!answer.headers.contains_key("tracestate"));
}

#[tokio::test]
async fn a_request_continues_the_trace_of_its_client() {
    let provider = Provider::start().await;
    let collector = Collector::start().await;
    let traces = json!({
        "endpoint": format!("http://{}/v1/traces", collector.address), "protocol": "http",
        "headers": {"authorization": "env:TEST_OTHER_KEY"},
        "sample": {"share": 0, "errors": false},
    });
    let gateway = Gateway::start(Config::of(&provider).with("traces", traces)).await;
    let request = |parent: &str| {
        ask(&gateway, CHAT, "test-model", Value::Null)
            .header("traceparent", parent)
            .header("tracestate", "vendor=value")
    };
    for (parent, continues, samples) in [
        (format!("00-{TRACE}-{PARENT}-01"), true, true),
        (format!("00-{TRACE}-{PARENT}-00"), true, false),
        (format!("00-{TRACE}-0000000000000000-01"), false, false),
        (format!("ff-{TRACE}-{PARENT}-01"), false, false),
        (format!("00-{TRACE}-{PARENT}-01-more"), false, false),
        (
            format!("00-{}-{PARENT}-01", TRACE.to_uppercase()),
            false,
            false,
        ),
        (format!("00-{TRACE}{TRACE}-{PARENT}-01"), false, false),
        (
            format!("00-{TRACE}-{PARENT}-01").replace('-', "--"),
            false,
            false,
        ),
        ("0".repeat(8000), false, false),
        ("nonsense".to_owned(), false, false),
    ] {
        let answer = gateway.send(&request(&parent)).await;
        answer.assert_ok();
        let line = gateway.line_of(&answer).await;
        assert_eq!(line["trace_id"] == TRACE, continues, "{parent}");
        let passed = provider.last().headers;
        let traceparent = passed["traceparent"].to_str().unwrap();
        let trace_id = line["trace_id"].as_str().unwrap();
        assert!(
            traceparent.starts_with(&format!("00-{trace_id}-")),
            "{traceparent}"
        );
        assert!(!traceparent.contains(PARENT), "{traceparent}");
        assert_eq!(traceparent.ends_with("-01"), samples, "{traceparent}");
        assert_eq!(passed.contains_key("tracestate"), continues, "{parent}");
        if samples {
            let trace = collector
                .trace_of(answer.header("x-request-id").unwrap())
                .await;
            assert_eq!(hex(&trace[0].parent_span_id), PARENT);
            assert_eq!(trace[0].trace_state, "vendor=value");
        }
    }
    let exports = collector.exports();
    assert_eq!(collector.spans().len(), 2, "{exports:#?}");
    let authorization = &exports[0].headers["authorization"];
    assert_eq!(authorization, "another-credential-of-the-provider");
}

/// By this trace id alone, none would be exported.
#[tokio::test]
async fn clients_do_not_choose_by_their_trace_id_what_is_exported() {
    let provider = Provider::start().await;
    let collector = Collector::start().await;
    let mut traces = to(&collector);
    traces["sample"] = json!({"share": 0.5, "parent": false});
    let gateway = Gateway::start(Config::of(&provider).with("traces", traces)).await;
    let mut sampled = 0;
    for _ in 0..40 {
        let request = ask(&gateway, CHAT, "test-model", Value::Null)
            .header("traceparent", &format!("00-{}-{PARENT}-01", "f".repeat(32)));
        gateway.send(&request).await.assert_ok();
        let passed = provider.last().headers;
        sampled += i32::from(passed["traceparent"].to_str().unwrap().ends_with("-01"));
    }
    assert!((1..40).contains(&sampled), "{sampled} of 40");
}

#[tokio::test]
async fn failures_are_exported_with_their_class_and_other_requests_are_not() {
    const FAILS: &str = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\n{}";
    let failing = Upstream::playing([Act::send(FAILS), Act::Again]).await;
    let provider = Provider::start().await;
    let collector = Collector::start().await;
    let mut traces = to(&collector);
    traces["sample"] = json!({"share": 0});
    let config = Config::first_and_second(failing.address, provider.address)
        .model("fails", json!(["a"]))
        .model("works", json!(["b"]))
        .with("failover.again", json!(0))
        .with("traces", traces);
    let gateway = Gateway::start(config).await;
    let send = async |model: &str| {
        let answer = gateway.send(&ask(&gateway, CHAT, model, Value::Null)).await;
        (
            answer.status,
            answer.header("x-request-id").unwrap().to_owned(),
        )
    };
    let (status, works) = send("works").await;
    assert_eq!(status, 200);
    let (status, refused) = send("unknown").await;
    assert_eq!(status, 404);
    let (status, elsewhere) = send("m").await;
    assert_eq!(status, 200);
    let trace = collector.trace_of(&elsewhere).await;
    let [request, first, second] = &trace[..] else {
        panic!("{trace:#?}");
    };
    assert!(
        request
            .status
            .as_ref()
            .is_none_or(|it| it.code != StatusCode::Error as i32)
    );
    assert_eq!(
        first.status.as_ref().unwrap().code,
        StatusCode::Error as i32
    );
    assert_eq!(attributes(first)["error.type"], "server_error");
    assert_eq!(attributes(first)["http.response.status_code"], 500);
    assert_eq!(attributes(first).get("gen_ai.usage.input_tokens"), None);
    assert_eq!(attributes(second)["gen_ai.provider.name"], "b");
    assert!(first.end_time_unix_nano <= second.start_time_unix_nano);

    let (status, fails) = send("fails").await;
    assert!(status >= 500, "{status}");
    let trace = collector.trace_of(&fails).await;
    assert_eq!(
        trace[0].status.as_ref().unwrap().code,
        StatusCode::Error as i32
    );
    let line = gateway.access_line(|line| line["id"] == *fails).await;
    assert_eq!(attributes(&trace[0])["error.type"], line["code"]);
    for span in collector.spans() {
        let id = &attributes(&span)["tollgate.request.id"];
        assert!(*id != *works && *id != *refused, "{span:?}");
    }
}

#[tokio::test]
async fn the_kind_of_output_and_the_seed_are_those_of_the_request() {
    let provider = Provider::start().await;
    let collector = Collector::start().await;
    let gateway = Gateway::start(Config::of(&provider).with("traces", to(&collector))).await;
    let schema = json!({"name": "answer", "schema": {"type": "object"}});
    let typed = json!({"format": {"type": "json_object"}});
    let gemini = "/v1beta/models/test-model:generateContent";
    let config = json!({"responseMimeType": "application/json", "seed": -7});
    for (path, more, output, seed) in [
        (
            CHAT,
            json!({"response_format": {"type": "json_object"}, "seed": 7}),
            json!("json"),
            json!(7),
        ),
        (
            CHAT,
            json!({"response_format": {"type": "json_schema", "json_schema": schema}}),
            json!("json"),
            Value::Null,
        ),
        (
            CHAT,
            json!({"response_format": {"type": "text"}}),
            json!("text"),
            Value::Null,
        ),
        (
            "/v1/responses",
            json!({"text": typed}),
            json!("json"),
            Value::Null,
        ),
        (
            gemini,
            json!({"generationConfig": config}),
            json!("json"),
            json!(-7),
        ),
    ] {
        let mut body = json!({"contents": [{"role": "user", "parts": [{"text": "A question."}]}]});
        let request = match path == gemini {
            true => {
                body["generationConfig"] = more["generationConfig"].clone();
                Request::post(path, &body).key(&gateway.key)
            }
            false => ask(&gateway, path, "test-model", more),
        };
        let answer = gateway.send(&request).await;
        answer.assert_ok();
        let id = answer.header("x-request-id").unwrap();
        let trace = collector.trace_of(id).await;
        let of_attempt = attributes(&trace[1]);
        let has = |name: &str| of_attempt.get(name).cloned().unwrap_or_default();
        let seen = (has("gen_ai.output.type"), has("gen_ai.request.seed"));
        assert_eq!(seen, (output, seed), "{trace:#?}");
    }
}

#[tokio::test]
async fn an_attempt_has_its_conversation_and_why_each_choice_stopped() {
    let text = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    let stored = json!({
        "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m",
        "conversation": {"id": "conv_1"},
        "output": [{"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
                    "content": [text("Hi.")]}],
        "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
    });
    let choice = |index: u64, reason: &str| {
        json!({"index": index, "message": {"role": "assistant", "content": "Hi."},
               "finish_reason": reason})
    };
    let chosen = json!({
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [choice(0, "stop"), choice(1, "length")],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    });
    let playing = |answer: Value| {
        let answer = answer.to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
        let answer = format!("{head}{}\r\n\r\n{answer}", answer.len());
        Upstream::playing([Act::send(answer), Act::Again])
    };
    let (stores, chooses) = (playing(stored).await, playing(chosen).await);
    let collector = Collector::start().await;
    let at = |upstream: &Upstream| crate::support::provider(upstream.address);
    let config = Config::new()
        .provider("stores", at(&stores))
        .provider("chooses", at(&chooses))
        .model("stored", json!(["stores"]))
        .model("chosen", json!(["chooses"]))
        .with("traces", to(&collector));
    let gateway = Gateway::start(config).await;
    let attempt = async |path: &str, model: &str, more: Value| {
        let answer = gateway.send(&ask(&gateway, path, model, more)).await;
        answer.assert_ok();
        let trace = collector.trace_of(answer.header("x-request-id").unwrap());
        attributes(&trace.await[1])
    };
    let first = attempt("/v1/responses", "stored", Value::Null).await;
    assert_eq!(first.get("gen_ai.conversation.id"), None, "{first}");
    for conversation in [json!("conv_1"), json!({"id": "conv_1"})] {
        let more = json!({"conversation": conversation});
        let next = attempt("/v1/responses", "stored", more).await;
        assert_eq!(next["gen_ai.conversation.id"], "conv_1", "{next}");
    }
    let chosen = attempt(CHAT, "chosen", json!({"n": 2})).await;
    assert_eq!(
        chosen["gen_ai.response.finish_reasons"],
        json!(["stop", "length"])
    );
}

#[tokio::test]
async fn a_stream_that_breaks_off_after_200_is_exported_as_an_error() {
    const BEGINS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
        transfer-encoding: chunked\r\n\r\n";
    let event = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\
        \"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"},\"finish_reason\":null}]}\n\n";
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    let breaking = Upstream::playing([Act::send(BEGINS), Act::send(chunk), Act::Reset]).await;
    let collector = Collector::start().await;
    let mut traces = to(&collector);
    traces["sample"] = json!({"share": 0});
    let config = Config::new()
        .provider("a", crate::support::provider(breaking.address))
        .model("m", json!(["a"]))
        .with("traces", traces);
    let gateway = Gateway::start(config).await;
    let request = ask(&gateway, CHAT, "m", json!({"stream": true}));
    let mut connection = gateway.connect().await;
    connection.write(&request.bytes()).await;
    let line = gateway.access_line(|line| line["model"] == "m").await;
    assert_eq!(line["status"], 200, "{line}");
    let trace = collector.trace_of(line["id"].as_str().unwrap()).await;
    for span in &trace {
        let status = span.status.as_ref().unwrap();
        assert_eq!(status.code, StatusCode::Error as i32, "{trace:#?}");
    }
    assert_eq!(attributes(&trace[0])["error.type"], line["code"]);
    assert_eq!(attributes(&trace[0])["http.response.status_code"], 200);
}

/// A key in the ledger of a folder: its id and its text.
fn key_in(folder: &TempDir) -> (String, String) {
    let grant = Some(GrantTerms {
        tokens: 1_000_000_000,
        validity: LONG,
        ..GrantTerms::default()
    });
    let new = NewKey {
        grant,
        ..NewKey::named("test")
    };
    let created = store_in(folder.path()).create_key(&new).unwrap();
    let id = created.record.id().to_string();
    (id, created.key.expose().to_owned())
}

/// The texts of an attribute with messages.
fn said(messages: &Value) -> String {
    let messages: Value = serde_json::from_str(messages.as_str().unwrap()).unwrap();
    let parts = messages.as_array().unwrap().iter();
    let parts = parts.flat_map(|message| message["parts"].as_array().unwrap().clone());
    let texts = parts.filter(|part| part["type"] == "text");
    texts
        .map(|part| part["content"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn prompts_and_answers_of_the_named_keys_are_exported_without_what_is_redacted() {
    const QUESTION: &str = "Ask ada@example.org about Project Manhattan, please.";
    const REDACTED: &str = "Ask [redacted] about [redacted], please.";
    let provider = Provider::start().await;
    let collector = Collector::start().await;
    let folder = TempDir::new().unwrap();
    let (id, key) = key_in(&folder);
    let content = json!({"keys": [id], "redact": ["Project \\w+"]});
    let mut traces = to(&collector);
    traces["content"] = content;
    let config = Config::of(&provider)
        .with("traces", traces)
        // A translation keeps what its client got.
        .with("providers.sim.formats", json!(["chat"]))
        .provider("messages", crate::support::provider(provider.address))
        .with("providers.messages.formats", json!(["messages"]))
        .model("other-format", json!(["messages/upstream-model"]));
    let gateway = Gateway::start_in(folder, config).await;
    for path in FORMATS {
        for (model, stream) in [
            ("test-model", false),
            ("test-model", true),
            ("other-format", false),
            ("other-format", true),
        ] {
            let body = prompt(path, model, QUESTION, json!({"stream": stream}));
            let answer = gateway.send(&Request::post(path, &body).key(&key)).await;
            answer.assert_ok();
            let trace = collector
                .trace_of(answer.header("x-request-id").unwrap())
                .await;
            let [request, attempt] = &trace[..] else {
                panic!("{trace:#?}");
            };
            let content = |span: &Span| {
                let attributes = span.attributes.iter().map(|it| it.key.clone());
                attributes.filter(|it| it.contains("message")).count()
            };
            assert_eq!((content(request), content(attempt)), (0, 2), "{trace:#?}");
            let of_attempt = attributes(attempt);
            let asked = &of_attempt["gen_ai.input.messages"];
            assert_eq!(said(asked), REDACTED, "{path} {model} {stream}");
            let answered = &of_attempt["gen_ai.output.messages"];
            let words = said(answered);
            assert!(!words.is_empty(), "{path} {model} {stream}: {answered}");
            let raw = answer.text();
            for word in words.split_whitespace() {
                let is_there = word.contains("[redacted]") || raw.contains(word);
                assert!(is_there, "{path} {model} {stream}: {word}: {raw}");
            }
        }
    }
    // A failed request has a prompt and no answer.
    let body = prompt(CHAT, "test-model", QUESTION, json!({}));
    let request = Request::post(CHAT, &body).key(&key).orders("status-500");
    let failed = gateway.send(&request).await;
    assert!(failed.status >= 500, "{failed:?}");
    let trace = collector
        .trace_of(failed.header("x-request-id").unwrap())
        .await;
    let last = attributes(trace.last().unwrap());
    assert_eq!(said(&last["gen_ai.input.messages"]), REDACTED);
    assert_eq!(last.get("gen_ai.output.messages"), None);
    // The other key is not named.
    let body = prompt(CHAT, "test-model", "Another secret.", json!({}));
    let other = gateway.post(CHAT, &body).await;
    other.assert_ok();
    collector
        .trace_of(other.header("x-request-id").unwrap())
        .await;
    let spans = texts(&collector.spans());
    for hidden in [
        "Another secret",
        "ada@example",
        "Manhattan",
        &key,
        &gateway.key,
    ] {
        assert!(!spans.contains(hidden), "{hidden}: {spans}");
    }
    let cut = gateway.sample("tollgate_trace_content_cut_total").await;
    assert_eq!(cut, Some(0.0));
}

#[tokio::test]
async fn slow_requests_are_exported_and_counts_have_an_operation_of_their_own() {
    let provider = Provider::start().await;
    let collector = Collector::start().await;
    let mut traces = to(&collector);
    traces["sample"] = json!({"share": 0, "slower_than": "2s"});
    let gateway = Gateway::start(Config::of(&provider).with("traces", traces)).await;
    let quick = gateway
        .send(&ask(&gateway, COUNT_TOKENS, "test-model", Value::Null))
        .await;
    quick.assert_ok();
    let slow = ask(&gateway, COUNT_TOKENS, "test-model", Value::Null).orders("delay-3000ms");
    let slow = gateway.send(&slow).await;
    slow.assert_ok();
    let trace = collector
        .trace_of(slow.header("x-request-id").unwrap())
        .await;
    assert_eq!(trace[1].name, "count_tokens upstream-model");
    assert_eq!(collector.spans().len(), 2);
}

#[tokio::test]
async fn a_collector_that_does_not_answer_delays_no_request_and_its_losses_are_counted() {
    let provider = Provider::start().await;
    let stuck = Upstream::playing([Act::Hang]).await;
    let traces = json!({
        "endpoint": format!("http://{}/v1/traces", stuck.address), "protocol": "http",
        "sample": {"share": 1},
    });
    let mut gateway = Gateway::start(Config::of(&provider).with("traces", traces)).await;
    let mut connection = gateway.connect().await;
    let request = ask(&gateway, CHAT, "test-model", Value::Null);
    let dropped = "tollgate_trace_spans_total{result=\"dropped\"}";
    let has_dropped = async || {
        let count = gateway.sample(dropped).await;
        count.is_some_and(|count| count > 0.0)
    };
    let (begun, mut longest) = (Instant::now(), Duration::ZERO);
    // Exports that time out make room for new spans: the slower the requests, the more of them fill the queue.
    while !has_dropped().await {
        assert!(begun.elapsed() < 6 * PATIENCE, "no span was dropped");
        for _ in 0..500 {
            let sent = Instant::now();
            connection.send(&request).await.assert_ok();
            longest = longest.max(sent.elapsed());
        }
    }
    // Less than the time-out of an export.
    assert!(longest < AT_ONCE, "{longest:?}");
    gateway.signal("TERM").await;
    gateway.ended().await;
    assert!(
        gateway
            .log_line("the last spans are lost")
            .await
            .contains("traces")
    );
}

#[tokio::test]
async fn a_collector_that_comes_later_gets_the_spans_of_later_requests() {
    let provider = Provider::start().await;
    let (address, socket) = closed_port();
    let traces = json!({"endpoint": format!("http://{address}"), "sample": {"share": 1}});
    let gateway = Gateway::start(Config::of(&provider).with("traces", traces)).await;
    let sample = |result: &str| format!("tollgate_trace_spans_total{{result=\"{result}\"}}");
    for result in ["exported", "dropped", "failed"] {
        assert_eq!(gateway.sample(&sample(result)).await, Some(0.0));
    }
    let send = async || {
        let request = ask(&gateway, CHAT, "test-model", Value::Null);
        gateway.send(&request).await.assert_ok();
    };
    send().await;
    gateway.sample_is(&sample("failed"), 2.0).await;
    assert!(
        gateway
            .log_line("does not accept spans")
            .await
            .contains("traces")
    );
    let collector = Collector::on(socket.listen(16).unwrap());
    eventually("a span", async || {
        send().await;
        let exported = gateway.sample(&sample("exported")).await?;
        (exported > 0.0).then_some(())
    })
    .await;
    gateway.log_line("accepts spans again").await;
    assert!(!collector.spans().is_empty());
}

#[tokio::test]
async fn the_last_spans_are_exported_before_the_end() {
    let provider = Provider::start().await;
    let collector = Collector::start().await;
    let mut gateway = Gateway::start(Config::of(&provider).with("traces", to(&collector))).await;
    gateway
        .send(&ask(&gateway, CHAT, "test-model", Value::Null))
        .await
        .assert_ok();
    gateway.signal("TERM").await;
    assert!(gateway.ended().await.success());
    assert_eq!(collector.spans().len(), 2);
}

#[tokio::test]
async fn without_traces_nothing_of_a_clients_trace_leaves() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    let request = ask(&gateway, CHAT, "test-model", Value::Null)
        .header("traceparent", &format!("00-{TRACE}-{PARENT}-01"));
    let answer = gateway.send(&request).await;
    answer.assert_ok();
    assert!(!provider.last().headers.contains_key("traceparent"));
    assert_eq!(gateway.line_of(&answer).await.get("trace_id"), None);
}

#[tokio::test]
async fn check_names_what_is_wrong_with_the_settings() {
    let folder = tempfile::TempDir::new().unwrap();
    let text = r#"
traces:
  endpoint: http://user:hidden-word@collector.example:4317
  headers: { "bad name": "env:TEST_OTHER_KEY", authorization: "env:TEST_NO_SUCH_VARIABLE" }
  sample: { share: 0.5 }
"#;
    std::fs::write(folder.path().join("tollgate.yaml"), text).unwrap();
    let mut check = tollgate();
    check.arg("check").current_dir(&folder);
    let output = Output::within(PATIENCE, &mut check).await;
    assert!(!output.status.success(), "{output:?}");
    for expected in [
        "tollgate.yaml:3:13: traces.endpoint: expected the address of a collector, such as http://127.0.0.1:4317",
        "'bad name' is not the name of a header",
        "TEST_NO_SUCH_VARIABLE",
    ] {
        assert!(
            output.stderr.contains(expected),
            "{expected}\n{}",
            output.stderr
        );
    }
    assert!(!output.stderr.contains("hidden-word"), "{}", output.stderr);
}
