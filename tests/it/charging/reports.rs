//! Reports that make no sense, come late or come in odd places.

use super::*;

#[tokio::test]
async fn a_usage_that_makes_no_sense_is_never_believed() {
    let (provider, gateway) = start().await;
    for path in FORMATS {
        let whole = direct(&provider, path, &ask(path, false, json!({}))).await;
        let right = whole.reported();
        for stream in [false, true] {
            for orders in ["no-usage", "usage-negative", "usage-twice"] {
                let request = Request::post(path, &ask(path, stream, json!({})))
                    .key(&gateway.key)
                    .orders(orders);
                let answer = gateway.send(&request).await;
                answer.assert_ok();
                let line = gateway.line_of(&answer).await;
                let counted = input() + counted(&text_of(path, &whole));
                let expected = match orders {
                    "usage-twice" => ("completed", right, "reported"),
                    _ => ("completed", counted, "estimated"),
                };
                assert_eq!(money(&line), expected, "{orders}: {line}");
                if orders == "usage-negative" {
                    let id = answer.header("x-request-id").unwrap();
                    gateway
                        .log_line(&format!(
                            "{id}: the reported usage was implausible and was corrected"
                        ))
                        .await;
                }
            }
        }
    }
    gateway.verify().await;
}

/// A stream of chat that says "Hello" and reports a usage, and what comes after.
fn stream_with(usage: &Value, behind: &str) -> Vec<u8> {
    let chunk = |choices: Value, usage: &Value| json!({"id": "c", "object": "chat.completion.chunk", "choices": choices, "usage": usage});
    let delta = json!([{"index": 0, "delta": {"content": "Hello"}, "finish_reason": null}]);
    let stop = json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]);
    let events = [
        chunk(delta, &Value::Null),
        chunk(stop, &Value::Null),
        chunk(json!([]), usage),
    ];
    let events: String = events.iter().map(|it| format!("data: {it}\n\n")).collect();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    format!("{head}{events}data: [DONE]\n\n{behind}").into_bytes()
}

#[tokio::test]
async fn an_absurd_usage_is_cut_down_to_what_was_agreed() {
    let limit = json!({"max_completion_tokens": 100});
    let body = ask(CHAT, true, limit);
    // A token a byte, and the frame.
    let bound = body.to_string().len() as u64 + 128;
    let unbelieved = input() + counted("Hello");
    for (usage, charged, count) in [
        (
            json!({"prompt_tokens": 7, "completion_tokens": 1u64 << 50}),
            7 + 100,
            "estimated",
        ),
        (
            json!({"prompt_tokens": 1u64 << 50, "completion_tokens": 3}),
            bound + 3,
            "estimated",
        ),
        (
            json!({"prompt_tokens": 0, "completion_tokens": 0}),
            unbelieved,
            "estimated",
        ),
        (
            json!({"prompt_tokens": 7, "completion_tokens": 1.5}),
            unbelieved,
            "estimated",
        ),
        (
            json!({"prompt_tokens": 7, "completion_tokens": "3"}),
            unbelieved,
            "estimated",
        ),
        (
            json!({"prompt_tokens": 7, "completion_tokens": u64::MAX}),
            unbelieved,
            "estimated",
        ),
        (
            json!({"prompt_tokens": -7, "completion_tokens": -3}),
            unbelieved,
            "estimated",
        ),
    ] {
        let gateway = before(stream_with(&usage, "")).await;
        let answer = gateway.post(CHAT, &body).await;
        answer.assert_ok();
        let line = gateway.line_of(&answer).await;
        assert_eq!(
            money(&line),
            ("completed", charged, count),
            "{usage}: {line}"
        );
        let id = answer.header("x-request-id").unwrap();
        let words = format!("{id}: the reported usage was implausible and was corrected");
        gateway.log_line(&words).await;
        gateway.has_spent(&gateway.key, charged).await;
        let record = last_record(&gateway).await;
        assert_eq!(
            (&record["source"], &record["clamped"]),
            (&json!(count), &json!(true))
        );
    }
}

/// A whole answer of chat that says this and reports this usage.
fn answer_with(text: &str, usage: &Value) -> Vec<u8> {
    let message = json!({"role": "assistant", "content": text});
    let choices = json!([{"index": 0, "finish_reason": "stop", "message": message}]);
    let body = json!({"id": "c", "choices": choices, "usage": usage}).to_string();
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
        .into_bytes()
}

#[tokio::test]
async fn a_usage_below_what_was_delivered_is_raised_and_marked() {
    let of = |input: u64, output: u64| json!({"prompt_tokens": input, "completion_tokens": output});
    let (words, essay) = ("lorem ipsum ".repeat(20), "lorem ipsum ".repeat(2000));
    let spaces = " ".repeat(1024);
    let search = json!({"tools": [{"type": "web_search"}]});
    let nothing = json!({});
    // What is said, what is reported, what more is asked for, and what is charged.
    for (text, usage, more, charged, is_raised) in [
        (&words, of(8, 0), &nothing, 8 + counted(&words), true),
        (&words, of(0, 50), &nothing, input() + 50, true),
        (
            &essay,
            of(8, 1),
            &nothing,
            8 + essay.len() as u64 / 128,
            true,
        ),
        // As few as there can be of such a text.
        (&spaces, of(8, 8), &nothing, 16, false),
        (&words, of(8, 40), &nothing, 48, false),
        // It can be what a search has found.
        (&essay, of(8, 1), &search, 9, false),
    ] {
        let gateway = before(answer_with(text, &usage)).await;
        let answer = gateway.post(CHAT, &ask(CHAT, false, more.clone())).await;
        answer.assert_ok();
        let line = gateway.line_of(&answer).await;
        let count = match is_raised {
            true => "estimated",
            false => "reported",
        };
        let expected = ("completed", charged, count);
        assert_eq!(money(&line), expected, "{usage}: {line}");
        gateway.has_spent(&gateway.key, charged).await;
        let record = last_record(&gateway).await;
        assert_eq!(record["clamped"], is_raised, "{usage}: {record}");
    }
}

/// What the history says of the request that came last.
async fn last_record(gateway: &Gateway) -> Value {
    let history = gateway.get("/v1/usage/history?limit=1").await;
    history.assert_ok();
    history.json()["data"][0].clone()
}

#[tokio::test]
async fn of_two_usages_that_contradict_each_other_the_greater_is_charged_and_marked() {
    let first = json!({"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12});
    for (second, charged, clamped) in [
        (
            json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}),
            12,
            true,
        ),
        (
            json!({"prompt_tokens": 1, "completion_tokens": 1}),
            12,
            true,
        ),
        (
            json!({"prompt_tokens": 6, "completion_tokens": 30}),
            36,
            true,
        ),
        (
            json!({"prompt_tokens": 7, "completion_tokens": 9, "total_tokens": 16}),
            16,
            false,
        ),
        (first.clone(), 12, false),
    ] {
        let chunk =
            json!({"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": second});
        let stream = String::from_utf8(stream_with(&first, "")).unwrap();
        let twice = stream.replacen("data: [DONE]", &format!("data: {chunk}\n\ndata: [DONE]"), 1);
        let gateway = before(twice.into_bytes()).await;
        let answer = gateway.post(CHAT, &ask(CHAT, true, json!({}))).await;
        answer.assert_ok();
        let line = gateway.line_of(&answer).await;
        assert_eq!(
            money(&line),
            ("completed", charged, "reported"),
            "{second}: {line}"
        );
        gateway.has_spent(&gateway.key, charged).await;
        let record = last_record(&gateway).await;
        assert_eq!(record["clamped"], clamped, "{second}: {record}");
        let id = answer.header("x-request-id").unwrap();
        let words = format!("{id}: the reported usage was implausible and was corrected");
        if clamped {
            gateway.log_line(&words).await;
        } else {
            assert!(!gateway.output().contains(&words), "{second}");
        }
    }
}

#[tokio::test]
async fn bytes_after_a_providers_end_change_nothing() {
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 3});
    let more = json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 90}});
    let error = json!({"error": {"message": "late", "code": "server_error"}});
    for behind in [&more, &error] {
        let behind = format!("data: {behind}\n\n").repeat(3);
        let gateway = before(stream_with(&usage, &behind)).await;
        let answer = gateway.post(CHAT, &ask(CHAT, true, json!({}))).await;
        answer.assert_ok();
        assert!(answer.text().ends_with("data: [DONE]\n\n"), "{answer:?}");
        let line = gateway.line_of(&answer).await;
        assert_eq!(money(&line), ("completed", 10, "reported"), "{line}");
        gateway.has_spent(&gateway.key, 10).await;
    }
}

#[tokio::test]
async fn an_answer_that_ends_in_trailers_costs_what_it_reports() {
    let body = json!({
        "id": "c", "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    })
    .to_string();
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let bytes = format!(
        "{head}{:x}\r\n{body}\r\n0\r\nx-trailer: 1\r\n\r\n",
        body.len()
    );
    let gateway = before(bytes.into_bytes()).await;
    let answer = gateway.post(CHAT, &ask(CHAT, false, json!({}))).await;
    answer.assert_ok();
    let line = gateway.line_of(&answer).await;
    assert_eq!(money(&line), ("completed", 10, "reported"), "{line}");
    gateway.has_spent(&gateway.key, 10).await;
}

#[tokio::test]
async fn an_implausible_report_uses_up_no_limit() {
    let left = |answer: &Answer| {
        let left = answer.header("x-ratelimit-remaining-tokens");
        left.expect("a limit").parse::<i64>().unwrap()
    };
    let absurd = json!({"prompt_tokens": 7, "completion_tokens": 1u64 << 50});
    let gateway = before(stream_with(&absurd, "")).await;
    let key = gateway.create_key(&["--output-tokens", "100000"]).await;
    let ask = async || {
        let body = ask(CHAT, true, json!({"max_completion_tokens": 100}));
        let answer = gateway.send(&Request::post(CHAT, &body).key(&key)).await;
        answer.assert_ok();
        gateway.line_of(&answer).await;
        left(&answer)
    };
    // Each says what was left with all that it could use taken away.
    let (before, after) = (ask().await, ask().await);
    assert!((0..=100).contains(&(before - after)), "{before} {after}");
}
