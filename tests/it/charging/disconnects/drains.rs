//! Answers that are read to their end after the client has left.

use super::*;
use std::sync::Arc;
use tokio::sync::Notify;

#[tokio::test]
async fn a_disconnect_between_the_stop_and_the_usage_costs_what_is_reported() {
    let beginning = head("text/event-stream", None)
        + &delta("Hello", &Value::Null)
        + &delta("", &json!("stop"));
    let script = [Act::send(beginning), LATER, Act::send(usage(300, 20_008))];
    let gateway = playing(script, None, &[long_drain()]).await;
    for more in [
        json!({}),
        json!({"stream_options": {"include_usage": false}}),
    ] {
        let line = leave_after(&gateway, CHAT, &asked(true, more), "\"stop\"").await;
        assert_eq!(
            money(&line),
            ("client_closed", 20_308, "reported"),
            "{line}"
        );
    }
    gateway.has_spent(&gateway.key, 2 * 20_308).await;
    gateway.verify().await;
}

#[tokio::test]
async fn a_disconnect_from_sound_or_pictures_costs_what_is_reported() {
    let link = format!("data:image/png;base64,{}", "A".repeat(2000));
    let image = json!({"type": "image_url", "image_url": {"url": link}});
    let choice = json!({"index": 0, "delta": {"images": [image]}, "finish_reason": null});
    let picture = chunk(&json!([choice]), &Value::Null);
    for (more, first) in [
        (json!({"modalities": ["text", "audio"]}), String::new()),
        (json!({"modalities": ["image"]}), String::new()),
        (json!({}), picture),
    ] {
        let beginning = head("text/event-stream", None) + &first + &delta("Hello", &Value::Null);
        let rest = delta("", &json!("stop")) + &usage(300, 20_008);
        let script = [Act::send(beginning), LATER, Act::send(rest)];
        let gateway = playing(script, None, &[long_drain()]).await;
        let line = leave_after(&gateway, CHAT, &asked(true, more), "Hello").await;
        assert_eq!(
            money(&line),
            ("client_closed", 20_308, "reported"),
            "{line}"
        );
        gateway.verify().await;
    }
}

#[tokio::test]
async fn a_disconnect_within_an_answer_in_one_piece_costs_what_is_reported() {
    let text = "word ".repeat(40_000);
    let body = whole(30, 20_000, &text);
    let (first, rest) = body.split_at(body.len() / 2);
    let beginning = head("application/json", Some(body.len())) + first;
    let left = Arc::new(Notify::new());
    let wait = Act::Wait(Arc::clone(&left));
    let script = [Act::send(beginning), wait, LATER, Act::send(rest)];
    let gateway = playing(script, None, &[long_drain()]).await;
    let request = Request::post(CHAT, &asked(false, json!({}))).key(&gateway.key);
    let mut connection = gateway.connect().await;
    connection.write(&request.bytes()).await;
    holds(&gateway, first.len()).await;
    drop(connection);
    left.notify_one();
    let line = gateway.access_line(|line| line["status"] == 200).await;
    assert_eq!(
        money(&line),
        ("client_closed", 20_030, "reported"),
        "{line}"
    );
    gateway.has_spent(&gateway.key, 20_030).await;
    gateway.verify().await;
}

#[tokio::test]
async fn a_drain_ends_where_its_time_or_its_bytes_end() {
    let stop = head("text/event-stream", None)
        + &delta("Hello", &Value::Null)
        + &delta("", &json!("stop"));
    let none = ("models.test-model.reasoning", json!("none"));
    let expected = ("client_closed", input() + counted("Hello"), "estimated");

    let time = ("settlement.drain.time", json!("200ms"));
    let script = [Act::send(stop.clone()), Act::Hang];
    let gateway = playing(script, None, &[none.clone(), time]).await;
    let line = leave_after(&gateway, CHAT, &asked(true, json!({})), "\"stop\"").await;
    assert_eq!(money(&line), expected, "{line}");
    assert!(line["duration_ms"].as_f64().unwrap() >= 200.0, "{line}");

    // Comments, so that nothing more is delivered.
    let noise = ": noise\n\n".repeat(1000);
    let bytes = ("settlement.drain.bytes", json!("4KiB"));
    let script = [Act::send(stop.clone()), LATER, Act::send(noise), Act::Hang];
    let gateway = playing(script, None, &[none.clone(), bytes, long_drain()]).await;
    let line = leave_after(&gateway, CHAT, &asked(true, json!({})), "\"stop\"").await;
    assert_eq!(money(&line), expected, "{line}");
    assert!(line["duration_ms"].as_f64().unwrap() < 20_000.0, "{line}");

    // None at all.
    let requests = ("settlement.drain.requests", json!(0));
    let script = [Act::send(stop), LATER, Act::send(usage(300, 20_008))];
    let gateway = playing(script, None, &[none, requests]).await;
    let line = leave_after(&gateway, CHAT, &asked(true, json!({})), "\"stop\"").await;
    assert_eq!(money(&line), expected, "{line}");
}

#[tokio::test]
async fn one_key_leaves_drains_for_other_keys() {
    let beginning = head("text/event-stream", None)
        + &delta("Hello", &Value::Null)
        + &delta("", &json!("stop"));
    let script = [
        Act::send(beginning),
        Act::Pause(Duration::from_secs(5)),
        Act::send(usage(300, 20_008)),
    ];
    let more = [
        ("settlement.drain.requests", json!(2)),
        // Longer than any test takes.
        ("settlement.drain.time", json!("60s")),
    ];
    let gateway = playing(script, None, &more).await;
    let another = gateway.create_key(&[]).await;
    let asked = asked(true, json!({}));
    let begun = async |key: &str| {
        let request = Request::post(CHAT, &asked).key(key);
        begin(&gateway, &request, "\"stop\"").await
    };
    let (first, second) = (begun(&gateway.key).await, begun(&gateway.key).await);
    let of_another = begun(&another).await;
    drop((first.0, second.0));
    // One of them is closed at once.
    let line = gateway.access_line(|line| line["status"] == 200).await;
    assert_eq!(money(&line).2, "estimated", "{line}");
    drop(of_another.0);
    let line = gateway.line_of(&of_another.1).await;
    let expected = ("client_closed", 20_308, "reported");
    assert_eq!(money(&line), expected, "{line}");
    let mut counts = Vec::new();
    for answer in [first.1, second.1] {
        counts.push(money(&gateway.line_of(&answer).await).2.to_owned());
    }
    counts.sort();
    assert_eq!(counts, ["estimated", "reported"]);
}

#[tokio::test]
async fn an_answer_over_http2_is_drained_like_one_over_http1() {
    let stream = json!({"stream_options": {"include_usage": true}});
    let (drain, time) = long_drain();
    let drained = async |http2: &str| {
        let provider = Provider::start().await;
        let config = Config::of(&provider)
            .with("providers.sim.http2", json!(http2))
            .with(drain, time.clone());
        let gateway = Gateway::start(config).await;
        let asking =
            |body: &Value, orders: &str| Request::post(CHAT, body).key(&gateway.key).orders(orders);

        let request = asking(&asked(true, stream.clone()), "tokens-1+chunk-delay-1000ms");
        let (connection, answer) = begin(&gateway, &request, "\"stop\"").await;
        drop(connection);
        let line = gateway.line_of(&answer).await;
        let (outcome, _, count) = money(&line);
        assert_eq!(
            (outcome, count),
            ("client_closed", "reported"),
            "{http2}: {line}"
        );

        let mut body = asked(false, json!({}));
        body["max_completion_tokens"] = json!(50_000);
        let request = asking(&body, "tokens-40000+chunks-150000+chunk-delay-1500ms");
        let mut connection = gateway.connect().await;
        connection.write(&request.bytes()).await;
        holds(&gateway, 100_000).await;
        drop(connection);
        let id = &line["id"];
        let line = gateway.access_line(|line| line["id"] != *id).await;
        let (outcome, charged, count) = money(&line);
        assert_eq!(
            (outcome, count),
            ("client_closed", "reported"),
            "{http2}: {line}"
        );
        assert!(charged > 40_000, "{http2}: {line}");
        gateway.verify().await;
    };
    futures::future::join(drained("never"), drained("always")).await;
}

#[tokio::test]
async fn a_disconnect_after_the_usage_is_not_drained() {
    let beginning = head("text/event-stream", None)
        + &delta("Hello", &Value::Null)
        + &delta("", &json!("stop"));
    let usage = usage(300, 8).replace("data: [DONE]\n\n", "");
    // By itself, so that the gateway sees first an answer that is about to end.
    let script = [Act::send(beginning), LATER, Act::send(usage), Act::Hang];
    // Longer than any test takes.
    let time = ("settlement.drain.time", json!("60s"));
    let gateway = playing(script, None, &[time]).await;
    let line = leave_after(
        &gateway,
        CHAT,
        &asked(true, json!({})),
        "\"completion_tokens\"",
    )
    .await;
    assert_eq!(money(&line), ("client_closed", 308, "reported"), "{line}");
    gateway.verify().await;
}

#[tokio::test]
async fn a_disconnect_before_the_stop_closes_the_providers_stream() {
    let beginning = head("text/event-stream", None) + &delta("Hello", &Value::Null);
    // Within the time of a drain.
    let more = delta(" again", &Value::Null) + &delta("", &json!("stop")) + &usage(300, 20_008);
    let none = [("models.test-model.reasoning", json!("none"))];
    let gateway = playing([Act::send(beginning), LATER, Act::send(more)], None, &none).await;
    let line = leave_after(&gateway, CHAT, &asked(true, json!({})), "Hello").await;
    let expected = ("client_closed", input() + counted("Hello"), "estimated");
    assert_eq!(money(&line), expected, "{line}");
}

#[tokio::test]
async fn a_connection_whose_caller_left_serves_no_other_request() {
    let beginning = head("text/event-stream", None)
        + &delta("Hello", &Value::Null)
        + &delta("", &json!("stop"));
    let script = [Act::send(beginning), LATER, Act::send(usage(300, 20_008))];
    let gateway = playing(script, None, &[long_drain()]).await;
    let request = Request::post(CHAT, &asked(true, json!({}))).key(&gateway.key);
    // The next request is there before the answer to the first is read.
    let mut connection = gateway.connect().await;
    connection
        .write(&[request.bytes(), request.bytes()].concat())
        .await;
    let answer = connection.head().await;
    connection.read_until(b"\"stop\"").await;
    drop(connection);
    let line = gateway.line_of(&answer).await;
    assert_eq!(
        money(&line),
        ("client_closed", 20_308, "reported"),
        "{line}"
    );
    gateway.has_spent(&gateway.key, 20_308).await;
    assert_eq!(
        gateway.sample("tollgate_requests_in_flight").await,
        Some(0.0)
    );
}
