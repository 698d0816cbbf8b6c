//! Callers that leave before the end pay for the produced tokens.

use super::*;

/// No provider is asked before the end has come, so that a caller that holds it back gets no answer.
#[tokio::test]
async fn a_caller_that_holds_back_the_last_chunk_gets_nothing_and_pays_nothing() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.limits.body_timeout", json!("500ms"));
    let gateway = Gateway::start(config).await;
    let said = "word ".repeat(20_000);
    let request = Request::post(CHAT, &prompt(CHAT, "test-model", &said, json!({})))
        .key(&gateway.key)
        .in_chunks_of(10_000);
    let whole = request.bytes();
    let mut connection = gateway.connect().await;
    connection.write(&whole[..whole.len() - 5]).await;
    connection.write(b"1\r\n \r\n").await;
    let answer = connection.answer(&request).await;
    answer.assert_error(408, "invalid_request");
    let line = gateway.line_of(&answer).await;
    assert_eq!(line["outcome"], "rejected", "{line}");
    assert_eq!(line["status"], 408, "{line}");
    assert_eq!(line["charged"], Value::Null, "{line}");
    assert_eq!(provider.handle.counters().requests, 0);
}

#[tokio::test]
async fn a_caller_that_hangs_up_just_before_the_usage_pays_for_the_whole_text() {
    let (provider, gateway) = start().await;
    let mut spent = 0;
    for path in FORMATS {
        let cost = cost_unreported(&provider, path).await;
        let (orders, last) = all_but_the_usage(&provider, path).await;
        let mut options = vec![json!({})];
        if path == CHAT {
            // A caller that asks for no usage does not see it; nothing else differs.
            options.push(json!({"stream_options": {"include_usage": false}}));
        }
        for more in options {
            let request = Request::post(path, &ask(path, true, more))
                .key(&gateway.key)
                .orders(&orders);
            let (connection, answer) = begin(&gateway, &request, last).await;
            drop(connection);
            let line = gateway.line_of(&answer).await;
            assert_eq!(money(&line), ("client_closed", cost, "estimated"), "{line}");
            spent += cost;
        }
    }
    gateway.has_spent(&gateway.key, spent).await;
    gateway.verify().await;
}

#[tokio::test]
async fn a_caller_that_hangs_up_within_a_whole_answer_pays_for_the_received_part() {
    let provider = Provider::start().await;
    for path in FORMATS {
        let long = "seven letters a word ".repeat(2000);
        let limit = json!({limit_field(path): 80_000});
        let body = prompt(path, "test-model", &long, limit);
        let request = Request::post(path, &body).key("any").orders("tokens-40000");
        let whole = Connection::open(provider.address)
            .await
            .send(&request)
            .await;
        let usage = whole.text().rfind("\"usage\"").unwrap();
        // The usage does not come.
        let length = whole.body().len();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        let part = whole.text()[..usage].to_owned();
        let upstream = Upstream::playing([Act::send(head + &part), Act::Hang]).await;
        let config = Config::new()
            .provider("raw", support::provider(upstream.address))
            .model("test-model", json!(["raw"]))
            .with("models.test-model.output_rate", json!(0))
            .with("settlement.drain.time", json!("100ms"));
        let gateway = Gateway::start(config).await;
        let request = Request::post(path, &body).key(&gateway.key);
        let mut connection = gateway.connect().await;
        connection.write(&request.bytes()).await;
        holds(&gateway, usage).await;
        drop(connection);
        let line = gateway.access_line(|line| line["status"] == 499).await;
        let (outcome, charged, count) = money(&line);
        assert_eq!((outcome, count), ("client_closed", "estimated"), "{line}");
        let input = counted(&format!("user{long}"));
        let most = input + counted(&text_of(path, &whole));
        // The text is sampled.
        let least = input + counted(&text_of(path, &whole)) * 9 / 10;
        assert!(
            (least..=most + most / 10).contains(&charged),
            "{least} to {most}: {line}"
        );
        gateway.verify().await;
    }
}

#[tokio::test]
async fn a_caller_that_hangs_up_after_the_usage_pays_the_reported_usage() {
    let (provider, gateway) = start().await;
    let mut spent = 0;
    for (path, last) in [(CHAT, "\"choices\":[]"), (MESSAGES, "message_delta")] {
        let body = ask(path, true, json!({}));
        let expected = direct(&provider, path, &body).await;
        let events = expected.events().len();
        let orders = format!("stall-after-{}", events - 1);
        let request = Request::post(path, &body).key(&gateway.key).orders(&orders);
        let (connection, answer) = begin(&gateway, &request, last).await;
        drop(connection);
        let line = gateway.line_of(&answer).await;
        let cost = expected.reported();
        assert_eq!(money(&line), ("client_closed", cost, "reported"), "{line}");
        spent += cost;
    }
    gateway.has_spent(&gateway.key, spent).await;
}

/// Reads an answer up to some text, and leaves.
pub(super) async fn read_until(answer: hyper::Response<hyper::body::Incoming>, text: &str) {
    let mut body = answer.into_body();
    let mut read = String::new();
    while !read.contains(text) {
        let frame = bounded(text, body.frame()).await.expect(text).unwrap();
        read.push_str(&String::from_utf8_lossy(
            &frame.into_data().unwrap_or_default(),
        ));
    }
}

#[tokio::test]
async fn a_caller_that_cancels_over_http2_pays_for_the_produced_tokens() {
    let (provider, gateway) = start().await;
    for path in FORMATS {
        let whole = direct(&provider, path, &ask(path, false, json!({}))).await;
        let (orders, last) = all_but_the_usage(&provider, path).await;
        let request = Request::post(path, &ask(path, true, json!({})))
            .key(&gateway.key)
            .orders(&orders);
        let mut http2 = Http2::open(gateway.address).await;
        let answer = bounded("a head", http2.begin(&request)).await.unwrap();
        let id = answer.headers()["x-request-id"]
            .to_str()
            .unwrap()
            .to_owned();
        read_until(answer, last).await;
        let line = gateway.access_line(|line| line["id"] == *id).await;
        let cost = estimated(path, &whole, &text_of(path, &whole));
        assert_eq!(money(&line), ("client_closed", cost, "estimated"), "{line}");
    }
}

#[tokio::test]
async fn a_caller_that_leaves_before_any_content_pays_for_the_input() {
    let (provider, gateway) = start().await;
    let mut left = 0;
    for (path, orders) in [
        (CHAT, "hang"),
        (RESPONSES, "hang"),
        (MESSAGES, "hang"),
        // The first event says nothing yet, and is held back.
        (CHAT, "stall-after-1"),
        (RESPONSES, "stall-after-2"),
    ] {
        let request = Request::post(path, &ask(path, true, json!({})))
            .key(&gateway.key)
            .orders(orders);
        let mut connection = gateway.connect().await;
        connection.write(&request.bytes()).await;
        left += 1;
        provider
            .when("the provider is asked", |it| it.requests == left)
            .await;
        drop(connection);
        gateway.has_spent(&gateway.key, left * input()).await;
    }
    let line = gateway.access_line(|line| line["status"] == 499).await;
    assert_eq!(
        money(&line),
        ("client_closed", input(), "estimated"),
        "{line}"
    );
}
