//! What a request costs, by how it ended: what the provider reports, what was delivered
//! where nothing was reported, nothing where nothing was had. Each once.

mod closed_streams;
mod disconnects;
mod failing;
mod leaving;
mod reports;
mod retrieving;
mod unmeasured;
mod unseen;
mod unsent;

use crate::support::{
    self, Act, Answer, CHAT, COUNT_TOKENS, Config, Connection, Ending, FORMATS, Gateway, Http2,
    LONG, MESSAGES, Provider, RESPONSES, Request, Upstream, bounded, limit_field, prompt,
};
use http_body_util::BodyExt;
use serde_json::{Value, json};

const SAID: &str = "one two three four five six seven eight nine ten eleven twelve thirteen \
                    fourteen fifteen sixteen seventeen eighteen nineteen twenty";

async fn start() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    // All that it produces is seen, so that a stream costs what was delivered of it.
    let config = Config::of(&provider).with("models.test-model.reasoning", json!("none"));
    let gateway = Gateway::start(config).await;
    (provider, gateway)
}

/// What is asked, streamed or not; a chat stream with its usage.
fn ask(path: &str, stream: bool, more: Value) -> Value {
    let mut body = prompt(path, "test-model", SAID, more);
    if stream {
        body["stream"] = json!(true);
        if path == CHAT && body.get("stream_options").is_none() {
            body["stream_options"] = json!({"include_usage": true});
        }
    }
    body
}

/// What the provider answers when it is asked without a gateway.
async fn direct(provider: &Provider, path: &str, body: &Value) -> Answer {
    let mut body = body.clone();
    body["model"] = json!("upstream-model");
    let request = Request::post(path, &body).key("any");
    let mut connection = Connection::open(provider.address).await;
    let answer = connection.send(&request).await;
    answer.assert_ok();
    answer
}

/// Waits until the gateway holds so many bytes of a whole answer.
async fn holds(gateway: &Gateway, bytes: usize) {
    /// Fewer are not counted; each of the others counts twice, for what is made of it.
    const UNCOUNTED: usize = 64 * 1024;
    let counted = 2 * (bytes - UNCOUNTED);
    let is_held = async || {
        let held = gateway.sample("tollgate_request_body_bytes").await;
        held.filter(|held| *held >= counted as f64).map(drop)
    };
    support::eventually("a part of the answer", is_held).await;
}

/// Asks, reads the answer up to some text, disconnects, and gives the request's line of the log.
async fn leave_after(gateway: &Gateway, path: &str, body: &Value, text: &str) -> Value {
    let request = Request::post(path, body).key(&gateway.key);
    let (connection, answer) = begin(gateway, &request, text).await;
    drop(connection);
    gateway.line_of(&answer).await
}

/// What a request's line in the access log says of money; the count is "none" if nothing was used.
fn money(line: &Value) -> (&str, u64, &str) {
    let text = |field: &str| {
        line[field]
            .as_str()
            .unwrap_or_else(|| panic!("{field}: {line}"))
    };
    (
        text("outcome"),
        line["charged"].as_u64().unwrap_or_else(|| panic!("{line}")),
        line["count"].as_str().unwrap_or("none"),
    )
}

#[tokio::test]
async fn an_answer_costs_what_its_provider_reports() {
    let (provider, gateway) = start().await;
    let mut spent = 0;
    for path in FORMATS {
        for stream in [false, true] {
            let limit = match path {
                CHAT => json!({"max_completion_tokens": 16}),
                RESPONSES => json!({"max_output_tokens": 16}),
                _ => json!({"max_tokens": 16}),
            };
            for (more, outcome) in [(json!({}), "completed"), (limit, "incomplete")] {
                let body = ask(path, stream, more);
                let cost = direct(&provider, path, &body).await.reported();
                let answer = gateway.post(path, &body).await;
                answer.assert_ok();
                let line = gateway.line_of(&answer).await;
                assert_eq!(money(&line), (outcome, cost, "reported"), "{line}");
                spent += cost;
            }
        }
    }
    gateway.has_spent(&gateway.key, spent).await;
    gateway.verify().await;
}

/// The text of a whole answer.
fn text_of(path: &str, answer: &Answer) -> String {
    let place = match path {
        CHAT => "/choices/0/message/content",
        RESPONSES => "/output/0/content/0/text",
        _ => "/content/0/text",
    };
    let body = answer.json();
    let text = body.pointer(place).and_then(Value::as_str);
    text.unwrap_or_else(|| panic!("{body}")).to_owned()
}

/// What the gateway counts by itself: four bytes a token.
fn counted(text: &str) -> u64 {
    text.len().div_ceil(4) as u64
}

/// The input as the gateway counts it: a role and what was said.
fn input() -> u64 {
    counted(&format!("user{SAID}"))
}

/// What is charged where no usage was reported. Only the messages format reports the input
/// before its end.
fn estimated(path: &str, whole: &Answer, delivered: &str) -> u64 {
    let input = match path {
        MESSAGES => whole.json()["usage"]["input_tokens"].as_u64().unwrap(),
        _ => input(),
    };
    input + counted(delivered)
}

/// What a whole answer is charged where no usage was reported.
async fn cost_unreported(provider: &Provider, path: &str) -> u64 {
    let whole = direct(provider, path, &ask(path, false, json!({}))).await;
    estimated(path, &whole, &text_of(path, &whole))
}

/// Asks, and reads the answer up to some text: its head, and the connection to read on or to leave.
async fn begin(gateway: &Gateway, request: &Request, text: &str) -> (Connection, Answer) {
    let mut connection = gateway.connect().await;
    connection.write(&request.bytes()).await;
    let answer = connection.head().await;
    connection.read_until(text.as_bytes()).await;
    (connection, answer)
}

/// Orders that send a stream without the event that reports its usage and what comes
/// behind it, and what of that comes last.
async fn all_but_the_usage(provider: &Provider, path: &str) -> (String, &'static str) {
    let is_usage = |event: &Value| match path {
        CHAT => event["choices"] == json!([]),
        RESPONSES => event["type"] == "response.completed",
        _ => event["type"] == "message_delta",
    };
    let answer = direct(provider, path, &ask(path, true, json!({}))).await;
    let before = answer.events().iter().position(is_usage).unwrap();
    let last = match path {
        CHAT => "\"finish_reason\":\"stop\"",
        RESPONSES => "\"type\":\"response.output_item.done\"",
        _ => "\"type\":\"content_block_stop\"",
    };
    (format!("stall-after-{before}"), last)
}

#[tokio::test]
async fn counting_tokens_costs_nothing() {
    let (_provider, gateway) = start().await;
    let poor = gateway.key_with(1, LONG);
    let body = prompt(COUNT_TOKENS, "test-model", SAID, json!({}));
    for _ in 0..3 {
        let answer = gateway
            .send(&Request::post(COUNT_TOKENS, &body).key(&poor))
            .await;
        answer.assert_ok();
        let line = gateway.line_of(&answer).await;
        assert_eq!(line["charged"], Value::Null, "{line}");
    }
    gateway.has_spent(&poor, 0).await;
}

/// A gateway before a provider that sends these bytes in answer to every request.
async fn before(bytes: Vec<u8>) -> Gateway {
    let upstream = Upstream::playing([Act::Send(bytes)]).await;
    let config = Config::new()
        .provider("raw", support::provider(upstream.address))
        .model("test-model", json!(["raw"]));
    Gateway::start(config).await
}

#[tokio::test]
async fn a_translated_answer_costs_what_its_provider_reports_and_a_part_of_it_what_has_come() {
    let simulated = Provider::start().await;
    let providers = [
        ("chat", CHAT),
        ("responses", RESPONSES),
        ("messages", MESSAGES),
    ];
    let mut config = Config::new();
    for (format, _) in providers {
        let mut provider = support::provider(simulated.address);
        provider["formats"] = json!([format]);
        config = config
            .provider(&format!("p-{format}"), provider)
            .model(format, json!([format!("p-{format}")]));
    }
    let gateway = Gateway::start(config).await;
    for path in FORMATS {
        for (model, at) in providers.into_iter().filter(|(_, at)| *at != path) {
            for stream in [false, true] {
                let mut body = ask(path, stream, json!({}));
                body["model"] = json!(model);
                let answer = gateway.post(path, &body).await;
                answer.assert_ok();
                let line = gateway.line_of(&answer).await;
                let expected = ("completed", answer.reported(), "reported");
                assert_eq!(money(&line), expected, "{path} at {at}: {line}");
            }
            let whole = direct(&simulated, at, &ask(at, false, json!({}))).await;
            let text = text_of(at, &whole);
            let (orders, _) = all_but_the_usage(&simulated, at).await;
            let mut body = ask(path, true, json!({}));
            body["model"] = json!(model);
            let request = Request::post(path, &body).key(&gateway.key).orders(&orders);
            let (connection, answer) = begin(&gateway, &request, "nine…").await;
            drop(connection);
            let line = gateway.line_of(&answer).await;
            let (outcome, charged, count) = money(&line);
            assert_eq!((outcome, count), ("client_closed", "estimated"), "{line}");
            let least = counted(SAID) + counted(&text);
            assert!(charged >= least, "{path} at {at}: {least} of {line}");
        }
    }
    gateway.verify().await;
}
