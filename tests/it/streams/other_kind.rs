//! Providers that stream an answer although the request does not ask for it, or the other way round.

use super::*;

/// A gateway whose provider `first` answers every request with `body`. The model `both` has a healthy provider, too.
async fn before(format: &str, kind: &str, body: &str, healthy: &Provider) -> Gateway {
    let answer =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n{body}");
    let upstream = Upstream::playing([Act::send(answer)]).await;
    let of_format = |address| {
        let mut settings = provider(address);
        settings["formats"] = json!([format]);
        settings
    };
    let config = Config::new()
        .with("routing.health", json!({"enabled": false}))
        .provider("first", of_format(upstream.address))
        .provider("healthy", of_format(healthy.address))
        .model("alone", json!(["first"]))
        .model(
            "both",
            json!(["first", {"provider": "healthy", "priority": 1}]),
        );
    Gateway::start(config).await
}

const PROVIDERS: [(&str, &str); 3] = [
    ("chat", CHAT),
    ("responses", RESPONSES),
    ("messages", MESSAGES),
];

/// A client of the provider's format, and one of another.
fn clients(at: &'static str) -> [&'static str; 2] {
    [at, if at == CHAT { MESSAGES } else { CHAT }]
}

#[tokio::test]
async fn an_answer_of_the_wrong_kind_is_replaced_and_costs_nothing() {
    let healthy = Provider::start().await;
    for (format, at) in PROVIDERS {
        for (streams, kind) in [(false, "application/json"), (true, "text/event-stream")] {
            let body = prompt(at, "m", "Hello!", json!({"stream": streams}));
            let sent = direct(&healthy, at, &body, "").await;
            sent.assert_ok();
            let gateway = before(format, kind, &sent.text(), &healthy).await;
            for path in clients(at) {
                let asked = json!({"stream": !streams});
                let answer = gateway.ask(path, "alone", "", asked.clone()).await;
                answer.assert_error(502, "upstream_error");
                let line = gateway.line_of(&answer).await;
                assert_eq!(line["outcome"], "upstream_failed", "{line}");
                assert_eq!(line["charged"], 0, "{line}");
                let answer = gateway.ask(path, "both", "", asked).await;
                answer.assert_ok();
                let attempts = answer.header("x-attempts");
                assert_eq!(attempts, Some("2"), "{path} at {format}: {answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn an_error_in_one_piece_is_read_although_a_stream_was_asked_for() {
    let healthy = Provider::start().await;
    let error = json!({"error": {"message": "no", "code": "content_policy_violation"}}).to_string();
    for (format, at) in PROVIDERS {
        let gateway = before(format, "application/json", &error, &healthy).await;
        for path in clients(at) {
            let more = json!({"stream": true});
            let answer = gateway.ask(path, "both", "", more).await;
            answer.assert_error(400, "content_policy_violation");
        }
    }
}
