//! A caller that disconnects before the usage was reported pays for what its provider can have
//! produced, seen or not; where the answer is about to end, its usage is waited for.

mod drains;

use super::*;
use crate::support::slow::narrow;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

/// More than any test takes to produce what is reserved.
const AT_ONCE: u64 = 4_000_000_000;
const LIMIT: u64 = 20_000;

/// The head of an answer, of a body of this length or else of one that the connection's end ends.
fn head(kind: &str, length: Option<usize>) -> String {
    let length = length.map_or_else(String::new, |it| format!("content-length: {it}\r\n"));
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{length}connection: close\r\n\r\n")
}

fn chunk(choices: &Value, usage: &Value) -> String {
    let chunk =
        json!({"id": "c", "object": "chat.completion.chunk", "choices": choices, "usage": usage});
    format!("data: {chunk}\n\n")
}

fn delta(text: &str, finish: &Value) -> String {
    let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": finish});
    chunk(&json!([choice]), &Value::Null)
}

/// The usage that a provider reports at the end of a stream.
fn usage(input: u64, output: u64) -> String {
    let usage = json!({"prompt_tokens": input, "completion_tokens": output});
    chunk(&json!([]), &usage) + "data: [DONE]\n\n"
}

/// A whole answer that reports this usage.
fn whole(input: u64, output: u64, text: &str) -> String {
    let message = json!({"role": "assistant", "content": text});
    let choices = json!([{"index": 0, "message": message, "finish_reason": "stop"}]);
    let usage = json!({"prompt_tokens": input, "completion_tokens": output});
    json!({"id": "c", "choices": choices, "usage": usage}).to_string()
}

/// A gateway before a provider that plays this, and how much its model produces in a second.
async fn playing(
    script: impl Into<Vec<Act>>,
    rate: Option<u64>,
    more: &[(&str, Value)],
) -> Gateway {
    let upstream = Upstream::playing(script).await;
    let mut config = Config::new()
        .provider("raw", support::provider(upstream.address))
        .model("test-model", json!(["raw"]));
    if let Some(rate) = rate {
        config = config.with("models.test-model.output_rate", json!(rate));
    }
    for (path, value) in more {
        config = config.with(path, value.clone());
    }
    Gateway::start(config).await
}

fn asked(stream: bool, more: Value) -> Value {
    let mut body = ask(CHAT, stream, more);
    body["max_completion_tokens"] = json!(LIMIT);
    body
}

#[tokio::test]
async fn hidden_reasoning_is_charged_by_time_and_rate() {
    const RATE: u64 = 10_000;
    const THOUGHT: Duration = Duration::from_millis(700);
    let stream = head("text/event-stream", None);
    let script = [
        Act::send(stream),
        Act::Pause(THOUGHT),
        Act::send(delta("Hello", &Value::Null)),
        Act::Hang,
    ];
    let gateway = playing(script, Some(RATE), &[]).await;
    let started = std::time::Instant::now();
    let line = leave_after(&gateway, CHAT, &asked(true, json!({})), "Hello").await;
    let longest = started.elapsed();
    let (outcome, charged, count) = money(&line);
    assert_eq!((outcome, count), ("client_closed", "estimated"), "{line}");
    let of = |time: Duration| {
        let millis = u64::try_from(time.as_millis()).unwrap();
        input() + millis * RATE / 1000
    };
    let expected = of(THOUGHT)..=of(longest) + 10;
    assert!(expected.contains(&charged), "{expected:?}: {line}");
    gateway.has_spent(&gateway.key, charged).await;
    gateway.verify().await;
}

#[tokio::test]
async fn no_more_is_charged_for_time_than_was_reserved() {
    let beginning =
        |text: &str| Act::send(head("text/event-stream", None) + &delta(text, &Value::Null));
    let gateway = playing([beginning("Hello"), Act::Hang], Some(AT_ONCE), &[]).await;
    let line = leave_after(&gateway, CHAT, &asked(true, json!({})), "Hello").await;
    let expected = ("client_closed", input() + LIMIT, "estimated");
    assert_eq!(money(&line), expected, "{line}");
    // What the balance was not enough for was not reserved.
    let key = gateway.key_with(5_000, LONG);
    let request = Request::post(CHAT, &asked(true, json!({}))).key(&key);
    let (connection, answer) = begin(&gateway, &request, "Hello").await;
    let limit: u64 = answer.header("x-output-limit").unwrap().parse().unwrap();
    drop(connection);
    let line = gateway.line_of(&answer).await;
    let (outcome, charged, count) = money(&line);
    assert_eq!((outcome, count), ("client_closed", "estimated"), "{line}");
    // The input was counted, for so little was left.
    let expected = limit + 1..=limit + input();
    assert!(expected.contains(&charged), "{expected:?}: {line}");
    gateway.verify().await;
}

#[tokio::test]
async fn where_all_output_is_seen_no_time_is_charged() {
    let none = [("models.test-model.reasoning", json!("none"))];
    let beginning = Act::send(head("text/event-stream", None) + &delta("Hello", &Value::Null));
    let gateway = playing([beginning, Act::Hang], Some(AT_ONCE), &none).await;
    for (more, is_hidden) in [
        (json!({}), false),
        (json!({"reasoning_effort": "high"}), true),
        (json!({"tools": [{"type": "web_search"}]}), true),
        (
            json!({"prediction": {"type": "content", "content": "Hello"}}),
            true,
        ),
        (
            json!({"chat_template_kwargs": {"enable_thinking": true}}),
            true,
        ),
    ] {
        let line = leave_after(&gateway, CHAT, &asked(true, more.clone()), "Hello").await;
        let (outcome, charged, count) = money(&line);
        assert_eq!((outcome, count), ("client_closed", "estimated"), "{line}");
        assert_eq!(charged >= LIMIT, is_hidden, "{more}: {line}");
    }
    gateway.verify().await;
}

#[tokio::test]
async fn a_rate_of_zero_charges_no_time() {
    let beginning = Act::send(head("text/event-stream", None) + &delta("Hello", &Value::Null));
    let gateway = playing([beginning, Act::Hang], Some(0), &[]).await;
    let line = leave_after(&gateway, CHAT, &asked(true, json!({})), "Hello").await;
    let expected = ("client_closed", input() + counted("Hello"), "estimated");
    assert_eq!(money(&line), expected, "{line}");
}

/// The time of the request ends while the client reads nothing of more than the sockets hold.
#[tokio::test]
async fn a_client_that_does_not_read_until_the_timeout_pays_like_one_that_disconnects() {
    const HIDDEN: u64 = 200_000;
    let pad = "x".repeat(8000);
    let choices = json!([{"index": 0, "delta": {"content": "Hello"}, "finish_reason": null}]);
    let event =
        json!({"id": "c", "object": "chat.completion.chunk", "choices": choices, "pad": pad});
    let events = format!("data: {event}\n\n").repeat(2000);
    let script = [
        Act::send(head("text/event-stream", None) + &events),
        Act::Hang,
    ];
    let total = ("failover.total", json!("2s"));
    let gateway = playing(script, None, &[total]).await;
    let body = asked(true, json!({"tools": [{"type": "web_search"}]}));
    let request = Request::post(CHAT, &body).key(&gateway.key);
    let mut caller = narrow([127, 0, 0, 1], gateway.address).await;
    caller.write_all(&request.bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let reading = tokio::spawn(async move {
        let _ = tokio::io::copy(&mut caller, &mut tokio::io::sink()).await;
    });
    let line = gateway.access_line(|line| line["path"] == CHAT).await;
    reading.abort();
    let (outcome, charged, count) = money(&line);
    assert_eq!((outcome, count), ("client_closed", "estimated"), "{line}");
    assert!(charged > HIDDEN, "{line}");
    gateway.verify().await;
}

#[tokio::test]
async fn the_time_of_generation_is_measured_beside_its_output() {
    const THOUGHT: Duration = Duration::from_millis(200);
    let stream = head("text/event-stream", None) + &delta("Hello", &json!("stop"));
    let script = [
        Act::send(stream),
        Act::Pause(THOUGHT),
        Act::send(usage(300, 20_008)),
    ];
    let gateway = playing(script, None, &[]).await;
    let answer = gateway.post(CHAT, &asked(true, json!({}))).await;
    answer.assert_ok();
    gateway.line_of(&answer).await;
    let of_route = r#"format="chat",model="test-model",provider="raw""#;
    let name = format!("tollgate_generation_seconds_total{{{of_route}}}");
    let seconds = gateway.sample(&name).await.expect("a sample");
    assert!(
        (THOUGHT.as_secs_f64()..30.0).contains(&seconds),
        "{seconds}"
    );
}

#[tokio::test]
async fn an_answer_in_one_piece_hides_its_output_until_it_comes() {
    let none = [("models.test-model.reasoning", json!("none"))];
    let upstream = Upstream::playing([Act::Hang]).await;
    let mut config = Config::new()
        .provider("raw", support::provider(upstream.address))
        .model("test-model", json!(["raw"]))
        .with("models.test-model.output_rate", json!(AT_ONCE));
    for (path, value) in &none {
        config = config.with(path, value.clone());
    }
    let gateway = Gateway::start(config).await;
    let request = Request::post(CHAT, &asked(false, json!({}))).key(&gateway.key);
    let mut connection = gateway.connect().await;
    connection.write(&request.bytes()).await;
    let is_asked = async || (upstream.requests() == 1).then_some(());
    support::eventually("the provider is asked", is_asked).await;
    drop(connection);
    let line = gateway.access_line(|line| line["status"] == 499).await;
    let expected = ("client_closed", input() + LIMIT, "estimated");
    assert_eq!(money(&line), expected, "{line}");
    gateway.verify().await;
}

/// The provider pauses for long enough that the gateway notices the disconnect.
const LATER: Act = Act::Pause(Duration::from_millis(1500));

/// A drain that lasts longer than [`LATER`] on a busy machine, too.
fn long_drain() -> (&'static str, Value) {
    ("settlement.drain.time", json!("30s"))
}

#[tokio::test]
async fn a_disconnect_from_several_choices_costs_what_was_delivered_of_all_and_at_most_the_reservation()
 {
    const CHOICES: u64 = 4;
    let text = "seven letters a word ".repeat(50);
    let deltas = |index: u64| {
        let choice = json!({"index": index, "delta": {"content": text}, "finish_reason": null});
        chunk(&json!([choice]), &Value::Null)
    };
    let mut beginning = head("text/event-stream", None);
    beginning.extend((0..CHOICES).map(deltas));
    beginning += &delta("END", &Value::Null);
    let delivered = counted(&(text.repeat(4) + "END"));
    for (rate, reasoning, expected) in [
        (
            AT_ONCE,
            "provider_default",
            CHOICES * LIMIT..=CHOICES * LIMIT,
        ),
        (0, "provider_default", delivered..=delivered),
        (AT_ONCE, "none", delivered..=delivered),
    ] {
        let script = [Act::send(beginning.clone()), Act::Hang];
        let reasoning = [("models.test-model.reasoning", json!(reasoning))];
        let gateway = playing(script, Some(rate), &reasoning).await;
        let body = asked(true, json!({"n": CHOICES}));
        let line = leave_after(&gateway, CHAT, &body, "END").await;
        let (outcome, charged, count) = money(&line);
        assert_eq!((outcome, count), ("client_closed", "estimated"), "{line}");
        let output = charged - input();
        assert!(expected.contains(&output), "{rate}: {expected:?}: {line}");
        gateway.verify().await;
    }
}

#[tokio::test]
async fn a_caller_of_http2_pays_by_time_for_what_it_does_not_wait_for() {
    let beginning = head("text/event-stream", None)
        + &delta("Hello", &Value::Null)
        + &delta("", &json!("stop"));
    let script = [Act::send(beginning), LATER, Act::send(usage(300, 19_008))];
    let gateway = playing(script, Some(AT_ONCE), &[]).await;
    let request = Request::post(CHAT, &asked(true, json!({}))).key(&gateway.key);
    let mut http2 = Http2::open(gateway.address).await;
    let answer = bounded("a head", http2.begin(&request)).await.unwrap();
    let id = answer.headers()["x-request-id"]
        .to_str()
        .unwrap()
        .to_owned();
    leaving::read_until(answer, "\"stop\"").await;
    let line = gateway.access_line(|line| line["id"] == *id).await;
    let expected = ("client_closed", input() + LIMIT, "estimated");
    assert_eq!(money(&line), expected, "{line}");
}

#[tokio::test]
async fn a_stored_answer_is_charged_if_its_usage_is_not_waited_for() {
    const STORED: u64 = 500_000;
    let (_provider, gateway) = start().await;
    let limit = json!({"max_output_tokens": 1000});
    let first = Request::post(RESPONSES, &ask(RESPONSES, false, limit.clone()))
        .key(&gateway.key)
        .orders(&format!("input-{STORED}"));
    let first = gateway.send(&first).await;
    first.assert_ok();
    let (id, size) = (first.json()["id"].clone(), first.reported());
    let mut more = limit;
    more["previous_response_id"] = id;
    let request = Request::post(RESPONSES, &ask(RESPONSES, true, more))
        .key(&gateway.key)
        .orders("stall-after-6");
    let (connection, answer) = begin(&gateway, &request, "output_text.delta").await;
    drop(connection);
    let line = gateway.line_of(&answer).await;
    let (outcome, charged, count) = money(&line);
    assert_eq!((outcome, count), ("client_closed", "estimated"), "{line}");
    // What was delivered is less than the first answer.
    let expected = size + input()..size + input() + 100;
    assert!(expected.contains(&charged), "{expected:?}: {line}");
    gateway.verify().await;
}

/// Events of a streamed response, up to a part of its text.
fn begun_response() -> String {
    let response = json!({"id": "resp_2", "object": "response", "created_at": 1, "model": "m",
        "status": "in_progress", "output": []});
    let message = json!({"id": "msg_2", "type": "message", "role": "assistant",
        "status": "in_progress", "content": []});
    let part = json!({"type": "output_text", "text": "", "annotations": []});
    let events = [
        json!({"type": "response.created", "response": response}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": message}),
        json!({"type": "response.content_part.added", "item_id": "msg_2", "output_index": 0,
            "content_index": 0, "part": part}),
        json!({"type": "response.output_text.delta", "item_id": "msg_2", "output_index": 0,
            "content_index": 0, "delta": "Hello"}),
    ];
    let event = |(number, mut event): (usize, Value)| {
        event["sequence_number"] = json!(number);
        let name = event["type"].as_str().unwrap();
        format!("event: {name}\ndata: {event}\n\n")
    };
    events.into_iter().enumerate().map(event).collect()
}

#[tokio::test]
async fn a_container_is_no_stored_input() {
    let call = json!({"type": "code_interpreter_call", "id": "ci_1", "container_id": "cntr_1",
        "code": "1", "outputs": [], "status": "completed"});
    let first = json!({"id": "resp_1", "object": "response", "created_at": 1, "model": "m",
        "status": "completed", "output": [call],
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}})
    .to_string();
    let first = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{first}",
        first.len()
    );
    let second = head("text/event-stream", None) + &begun_response();
    let script = [
        Act::send(first),
        Act::ReadRequest,
        Act::send(second),
        Act::Hang,
    ];
    let none = [("models.test-model.reasoning", json!("none"))];
    let gateway = playing(script, None, &none).await;
    let user = json!({"role": "user", "content": SAID});
    let body = |input: Value, stream: bool| json!({"model": "test-model", "stream": stream, "max_output_tokens": LIMIT, "input": input});
    gateway
        .post(RESPONSES, &body(json!([user]), false))
        .await
        .assert_ok();
    let body = body(json!([user, call]), true);
    let request = Request::post(RESPONSES, &body).key(&gateway.key);
    let (connection, answer) = begin(&gateway, &request, "output_text.delta").await;
    drop(connection);
    let line = gateway.line_of(&answer).await;
    let (outcome, charged, count) = money(&line);
    assert_eq!((outcome, count), ("client_closed", "estimated"), "{line}");
    // What a stored item of unknown size costs is more by orders of magnitude.
    let shown = body.to_string().len() as u64;
    assert!((1..=shown).contains(&charged), "{shown}: {line}");
    gateway.verify().await;
}

/// Requests whose input only the report tells: what the provider's tool finds, and a document by its address.
fn unknown_inputs() -> [Value; 2] {
    let file = json!([{"role": "user", "content": [
        {"type": "document_url", "document_url": "https://example.test/a.pdf"},
    ]}]);
    [
        json!({"tools": [{"type": "web_search"}]}),
        json!({"messages": file}),
    ]
}

#[tokio::test]
async fn input_of_unknown_size_is_charged_as_reported_if_the_report_comes_soon() {
    let beginning = head("text/event-stream", None) + &delta("Hello END", &Value::Null);
    let script = [
        Act::send(beginning),
        LATER,
        Act::send(delta("", &json!("stop")) + &usage(150_000, 700)),
    ];
    let gateway = playing(script, None, &[long_drain()]).await;
    for more in unknown_inputs() {
        let line = leave_after(&gateway, CHAT, &asked(true, more.clone()), "END").await;
        let expected = ("client_closed", 150_700, "reported");
        assert_eq!(money(&line), expected, "{more}: {line}");
    }
    gateway.verify().await;
}

#[tokio::test]
async fn input_of_unknown_size_is_charged_as_reserved_if_no_report_comes() {
    let beginning = head("text/event-stream", None) + &delta("Hello END", &Value::Null);
    let gateway = playing([Act::send(beginning), Act::Hang], Some(0), &[]).await;
    for (more, hidden) in unknown_inputs().into_iter().zip([200_000, 100_000]) {
        let line = leave_after(&gateway, CHAT, &asked(true, more.clone()), "END").await;
        let (outcome, charged, count) = money(&line);
        assert_eq!((outcome, count), ("client_closed", "estimated"), "{line}");
        assert!((hidden..hidden + 2000).contains(&charged), "{more}: {line}");
    }
    gateway.verify().await;
}
