//! What a balance admits: never more than it holds, with concurrent requests, and a
//! clear error for each way of having too little.

use crate::support::{
    self, AT_ONCE, Act, Answer, CHAT, Config, Connection, FORMATS, Gateway, LONG, MESSAGES,
    Provider, RESPONSES, Request, Upstream, eventually, limit_field, prompt,
};
use futures::future::join_all;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tollgate_ledger::{KeySelector, Ledger, LedgerSettings, RequestInfo, Reserve, UpperBound};
use tollgate_types::{Format, RequestId, Weights};

async fn start() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    (provider, gateway)
}

/// What is held of the input of a body while the balance is ample: a token a byte, and the frame.
fn uncounted_input(body: &Value) -> u64 {
    body.to_string().len() as u64 + 128
}

/// What is held of the input "user" and `SAID` once it is counted, where less is left: eight tokens of text, as
/// a model that is not known has one per two bytes at most, five around them, and fifty.
const CAUTIOUS_INPUT: u64 = 63;
const SAID: &str = "sixteen letters!";

fn ask(path: &str, key: &str, more: Value) -> Request {
    Request::post(path, &prompt(path, "test-model", SAID, more)).key(key)
}

/// The body of the request that the provider got last.
fn sent(provider: &Provider) -> Value {
    serde_json::from_slice(&provider.last().body).unwrap()
}

/// An answer that costs so much, streamed or not.
fn answer_of(stream: bool, cost: u64) -> Vec<u8> {
    const OUTPUT: u64 = 5;
    let usage = json!({"prompt_tokens": cost - OUTPUT, "completion_tokens": OUTPUT});
    let choice = |content: &str| json!([{"index": 0, content: {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]);
    let (kind, body) = match stream {
        false => {
            let body = json!({"id": "c", "choices": choice("message"), "usage": usage});
            ("application/json", body.to_string())
        }
        true => {
            let body = json!({"id": "c", "choices": choice("delta"), "usage": usage});
            (
                "text/event-stream",
                format!("data: {body}\n\ndata: [DONE]\n\n"),
            )
        }
    };
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

#[tokio::test]
async fn a_balance_for_ten_admits_ten_of_two_hundred() {
    const CALLERS: usize = 200;
    const ADMITTED: usize = 10;
    const REPETITIONS: usize = 100;
    const OUTPUT: u64 = 10;
    let modes = [("whole", false), ("streamed", true)].map(|(model, stream)| {
        let more = json!({"max_completion_tokens": OUTPUT, "stream": stream});
        let body = prompt(CHAT, model, SAID, more);
        // Exactly what is held for it.
        let cost = uncounted_input(&body) + OUTPUT;
        (model, stream, body, cost)
    });
    let mut upstreams = Vec::new();
    let mut config = Config::new().with("server.threads", json!(2));
    for (name, stream, _, cost) in &modes {
        let script = [Act::Send(answer_of(*stream, *cost)), Act::Again];
        let upstream = Upstream::playing(script).await;
        let provider = support::provider(upstream.address);
        config = config.provider(name, provider).model(name, json!([name]));
        upstreams.push(upstream);
    }
    let gateway = Gateway::start(config).await;
    let connecting = (0..CALLERS).map(|_| Connection::open(gateway.address));
    let mut callers = join_all(connecting).await;
    let mut keys = Vec::new();
    for repetition in 0..REPETITIONS {
        let (_, _, body, cost) = &modes[repetition % 2];
        let balance = cost * ADMITTED as u64;
        let key = gateway.key_with(balance, LONG);
        let request = Request::post(CHAT, body).key(&key);
        let answers = join_all(callers.iter_mut().map(|it| it.send(&request))).await;
        let with = |status| answers.iter().filter(|it| it.status == status).count();
        let refused = with(402) + with(429);
        assert_eq!((with(200), refused), (ADMITTED, CALLERS - ADMITTED));
        let again = gateway.send(&request).await;
        again.assert_error(402, "quota_exhausted");
        keys.push((key, balance));
    }
    for (key, balance) in &keys {
        gateway.has_spent(key, *balance).await;
    }
    let asked: usize = upstreams.iter().map(Upstream::requests).sum();
    assert_eq!(asked, keys.len() * ADMITTED);
    gateway.verify().await;
}

#[tokio::test]
async fn an_answer_is_limited_to_what_the_balance_is_enough_for() {
    let (provider, gateway) = start().await;
    for path in FORMATS {
        for (stream, asked) in [(false, json!({})), (true, json!(5000))] {
            let balance = CAUTIOUS_INPUT + 90;
            let key = gateway.key_with(balance, LONG);
            let mut more = json!({"stream": stream});
            if !asked.is_null() && asked != json!({}) {
                more[limit_field(path)] = asked;
            }
            let request = ask(path, &key, more).orders("tokens-10000");
            let answer = gateway.send(&request).await;
            answer.assert_ok();
            assert_eq!(answer.header("x-output-limit"), Some("90"), "{answer:?}");
            assert_eq!(sent(&provider)[limit_field(path)], 90, "{path}");
            let line = gateway.line_of(&answer).await;
            assert_eq!(line["outcome"], "incomplete", "{line}");
            let charged = line["charged"].as_u64().unwrap();
            assert!((90..=balance).contains(&charged), "{line}");
            gateway.has_spent(&key, charged).await;
        }
    }
    // A key with enough tokens gets no header, and the request stays as it was.
    let answer = gateway.send(&ask(CHAT, &gateway.key, json!({}))).await;
    assert_eq!(answer.header("x-output-limit"), None);
    assert_eq!(sent(&provider)["max_completion_tokens"], Value::Null);
}

#[tokio::test]
async fn the_limit_is_for_each_answer_and_holds_on_a_failover() {
    let provider = Provider::start().await;
    let deployments = json!([
        "sim/sim-status-503",
        {"provider": "sim", "upstream_model": "upstream-model", "priority": 1},
    ]);
    let gateway = Gateway::start(Config::of(&provider).model("test-model", deployments)).await;
    // Both names that the field has had.
    for (stream, field) in [(false, "max_tokens"), (true, "max_completion_tokens")] {
        let key = gateway.key_with(CAUTIOUS_INPUT + 302, LONG);
        let more = json!({"n": 3, field: 4000, "stream": stream});
        let request = ask(CHAT, &key, more).orders("tokens-10000");
        let answer = gateway.send(&request).await;
        answer.assert_ok();
        assert_eq!(answer.header("x-attempts"), Some("2"));
        assert_eq!(answer.header("x-output-limit"), Some("100"), "{answer:?}");
        for received in provider.received().iter().rev().take(2) {
            let body: Value = serde_json::from_slice(&received.body).unwrap();
            assert_eq!(body[field], 100, "{body}");
        }
        let charged = gateway.line_of(&answer).await["charged"].as_u64().unwrap();
        assert!((300..=CAUTIOUS_INPUT + 302).contains(&charged), "{charged}");
        gateway.has_spent(&key, charged).await;
    }
}

#[tokio::test]
async fn too_little_for_a_useful_answer_is_402() {
    let (provider, gateway) = start().await;
    for path in FORMATS {
        let key = gateway.key_with(CAUTIOUS_INPUT + 63, LONG);
        let answer = gateway.send(&ask(path, &key, json!({}))).await;
        answer.assert_error(402, "quota_exhausted");
        assert_eq!(answer.header("x-should-retry"), Some("false"), "{answer:?}");
        assert_eq!(gateway.line_of(&answer).await["outcome"], "rejected");
        // A lower limit needs less.
        let little = json!({limit_field(path): 20});
        gateway.send(&ask(path, &key, little)).await.assert_ok();
    }
    assert_eq!(provider.handle.counters().requests, 3);
    let thinking =
        json!({"max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 1024}});
    let key = gateway.key_with(1024, LONG);
    let answer = gateway.send(&ask(MESSAGES, &key, thinking)).await;
    answer.assert_error(402, "quota_exhausted");
}

#[tokio::test]
async fn asking_for_a_hundred_answers_holds_a_hundred_answers() {
    let (provider, gateway) = start().await;
    let key = gateway.key_with(CAUTIOUS_INPUT + 6_399, LONG);
    let hundred = ask(CHAT, &key, json!({"n": 100})).orders("tokens-10000");
    gateway
        .send(&hundred)
        .await
        .assert_error(402, "quota_exhausted");
    assert_eq!(provider.handle.counters().requests, 0);
    gateway.top_up(&key, 1);
    let admitted = async || {
        let answer = gateway.send(&hundred).await;
        (answer.status == 200).then_some(answer)
    };
    let answer = eventually("the top-up is seen", admitted).await;
    assert_eq!(answer.header("x-output-limit"), Some("64"));
    let charged = gateway.line_of(&answer).await["charged"].as_u64().unwrap();
    assert!(
        (6_400..=CAUTIOUS_INPUT + 6_400).contains(&charged),
        "{charged}"
    );
}

#[tokio::test]
async fn a_limit_that_is_no_limit_is_refused_and_costs_nothing() {
    let (provider, gateway) = start().await;
    for path in FORMATS {
        let field = limit_field(path);
        let body = prompt(path, "test-model", SAID, json!({field: 77})).to_string();
        for bad in [
            "-1",
            "0",
            "-0",
            "1.5",
            "1e99",
            "99999999999999999999999",
            "\"77\"",
            "[77]",
            "{}",
            "true",
            &format!("77,\"{field}\":1"),
            &format!("1,\"{}\":99999", field.replace('m', "\\u006d")),
        ] {
            let body = body.replace("77", bad);
            let request = ask(path, &gateway.key, json!({})).body(body.clone());
            let answer = gateway.send(&request).await;
            answer.assert_error(400, "invalid_request");
            assert_eq!(
                gateway.line_of(&answer).await["charged"],
                Value::Null,
                "{body}"
            );
        }
    }
    for bad in [
        "0",
        "-1",
        "1.5",
        "\"2\"",
        "18446744073709551616",
        "2,\"n\":1",
    ] {
        let body = prompt(CHAT, "test-model", SAID, json!({"n": 77})).to_string();
        let request = ask(CHAT, &gateway.key, json!({})).body(body.replace("77", bad));
        gateway
            .send(&request)
            .await
            .assert_error(400, "invalid_request");
    }
    assert_eq!(provider.handle.counters().requests, 0);
    gateway.has_spent(&gateway.key, 0).await;
}

#[tokio::test]
async fn tokens_reserved_by_others_come_back_in_time() {
    let (provider, gateway) = start().await;
    let key = gateway.key_with(1000, LONG);
    for path in FORMATS {
        let open = provider.handle.counters().open_answers;
        let mut holder = gateway.connect().await;
        let all = json!({limit_field(path): 5000});
        holder
            .write(&ask(path, &key, all).orders("hang").bytes())
            .await;
        provider
            .when("it is asked", |it| it.open_answers == open + 1)
            .await;
        let refused = gateway.send(&ask(path, &key, json!({}))).await;
        refused.assert_error(429, "rate_limit_exceeded");
        let seconds = refused.header("retry-after").expect("a time to wait");
        let millis = refused.header("retry-after-ms").expect("the same, finer");
        assert!(seconds.parse::<u64>().unwrap() * 1000 >= millis.parse().unwrap());
        assert_eq!(refused.header("x-should-retry"), None);
        drop(holder);
        let small = ask(path, &key, json!({limit_field(path): 20}));
        let admitted = async || (gateway.send(&small).await.status == 200).then_some(());
        eventually("the rest comes back", admitted).await;
    }
    gateway.verify().await;
}

#[tokio::test]
async fn a_stream_that_outlives_its_grant_is_paid_and_then_the_key_is_over() {
    const VALIDITY: Duration = Duration::from_secs(3);
    let (_provider, gateway) = start().await;
    let outlive = async |path: &str| {
        let key = gateway.key_with(5000, VALIDITY);
        // The first token begins the grant's time.
        let first = gateway.send(&ask(path, &key, json!({}))).await;
        let first = gateway.line_of(&first).await["charged"].as_u64().unwrap();
        let begun = Instant::now();
        let slow = ask(path, &key, json!({"stream": true})).orders("tokens-16,chunk-delay-250ms");
        let answer = gateway.send(&slow).await;
        answer.assert_ok();
        assert!(begun.elapsed() > VALIDITY, "{:?}", begun.elapsed());
        let line = gateway.line_of(&answer).await;
        assert_eq!(line["outcome"], "completed", "{line}");
        let charged = line["charged"].as_u64().unwrap();
        assert!(charged > 16, "{line}");
        gateway.has_spent(&key, first + charged).await;
        let over = gateway.send(&ask(path, &key, json!({}))).await;
        over.assert_error(401, "invalid_api_key");
        // It cannot be distinguished from an unknown key.
        let unknown = format!("sk-{}", "0".repeat(49));
        let stranger = gateway.send(&ask(path, &unknown, json!({}))).await;
        assert_eq!(over.message(), stranger.message());
    };
    join_all(FORMATS.map(outlive)).await;
}

#[tokio::test]
async fn a_top_up_is_spent_within_a_second() {
    let (_provider, gateway) = start().await;
    let key = gateway.key_with(1, LONG);
    let request = ask(CHAT, &key, json!({}));
    let mut connection = gateway.connect().await;
    connection
        .send(&request)
        .await
        .assert_error(402, "quota_exhausted");
    let output = gateway
        .keys(&["top-up", &key, "--tokens", "1000", "--days", "1"])
        .await;
    assert!(output.status.success(), "{output:?}");
    let since = Instant::now();
    let admitted = async || (connection.send(&request).await.status == 200).then_some(());
    eventually("the tokens can be spent", admitted).await;
    assert!(since.elapsed() < AT_ONCE, "{:?}", since.elapsed());
}

#[tokio::test]
async fn a_key_that_is_revoked_in_mid_stream_pays_and_is_refused_within_a_second() {
    let (_provider, gateway) = start().await;
    let key = gateway.key_with(1_000_000, LONG);
    let request = ask(CHAT, &key, json!({"stream": true}));
    let mut connection = gateway.connect().await;
    let slow = request.clone().orders("tokens-12,chunk-delay-80ms");
    connection.write(&slow.bytes()).await;
    let mut answer = connection.head().await;
    let output = gateway.keys(&["revoke", &key]).await;
    assert!(output.status.success(), "{output:?}");
    let since = Instant::now();
    connection.read_body(&mut answer).await;
    answer.assert_ok();
    let charged = gateway.line_of(&answer).await["charged"].as_u64().unwrap();
    assert!(charged > 12, "{charged}");
    let refused = async || {
        let answer = connection.send(&request).await;
        (answer.status != 200).then_some(answer)
    };
    let refused: Answer = eventually("it is refused", refused).await;
    refused.assert_error(401, "invalid_api_key");
    assert!(since.elapsed() < AT_ONCE, "{:?}", since.elapsed());
}

#[tokio::test]
async fn a_provider_that_reports_more_than_there_is_leaves_an_overdraft_and_no_debt() {
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 500});
    let body = json!({"id": "c", "usage": usage,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]})
    .to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
    let answer = format!("{head}{}\r\n\r\n{body}", body.len());
    let upstream = Upstream::playing([Act::send(answer)]).await;
    let config = Config::new()
        .provider("raw", support::provider(upstream.address))
        .model("test-model", json!(["raw"]));
    let gateway = Gateway::start(config).await;
    let key = gateway.key_with(200, LONG);
    let answer = gateway.send(&ask(CHAT, &key, json!({}))).await;
    answer.assert_ok();
    assert_eq!(gateway.line_of(&answer).await["charged"], 510);
    let id = answer.header("x-request-id").unwrap();
    gateway
        .log_line(&format!("{id}: 310 tokens beyond the balance"))
        .await;
    gateway.has_spent(&key, 200).await;
    let again = gateway.send(&ask(CHAT, &key, json!({}))).await;
    again.assert_error(402, "quota_exhausted");
    gateway.verify().await;
    // What is given later is whole.
    gateway.top_up(&key, 200);
    let admitted =
        async || (gateway.send(&ask(CHAT, &key, json!({}))).await.status == 200).then_some(());
    eventually("the top-up is seen", admitted).await;
}

#[tokio::test]
async fn no_translation_and_no_thinking_goes_beyond_what_the_balance_is_enough_for() {
    let simulated = Provider::start().await;
    let mut config = Config::new();
    for format in ["chat", "responses", "messages"] {
        let mut provider = support::provider(simulated.address);
        provider["formats"] = json!([format]);
        let name = format!("p-{format}");
        config = config.provider(&name, provider);
        for mode in ["provider_default", "adaptive", "extended"] {
            let model = format!("{format}-{mode}");
            config = config.model(&model, json!([name]));
            config.0["models"][&model]["reasoning"] = json!(mode);
        }
    }
    // One that thinks with a budget, which needs a limit of its own.
    let mut older = support::provider(simulated.address);
    older["formats"] = json!(["messages"]);
    older["capabilities"] = json!({"messages": {"adaptive_thinking": false}});
    config = config.provider("p-older", older);
    for mode in ["provider_default", "adaptive", "extended"] {
        let model = format!("older-{mode}");
        config = config.model(&model, json!(["p-older"]));
        config.0["models"][&model]["reasoning"] = json!(mode);
    }
    let gateway = Gateway::start(config).await;
    for path in FORMATS {
        for (format, at) in [
            ("chat", CHAT),
            ("responses", RESPONSES),
            ("messages", MESSAGES),
            ("older", MESSAGES),
        ] {
            for mode in ["provider_default", "adaptive", "extended"] {
                // Too little for a thinking budget, and enough for one.
                for (stream, room) in [(false, 500), (true, 1500)] {
                    let key = gateway.key_with(CAUTIOUS_INPUT + room, LONG);
                    let mut more = json!({limit_field(path): 30_000, "stream": stream});
                    match path {
                        CHAT => more["reasoning_effort"] = json!("high"),
                        RESPONSES => more["reasoning"] = json!({"effort": "high"}),
                        _ => {}
                    }
                    let model = format!("{format}-{mode}");
                    let body = prompt(path, &model, SAID, more);
                    let request = Request::post(path, &body).key(&key).orders("tokens-20000");
                    let answer = gateway.send(&request).await;
                    let what = format!("{path} at {model}, stream {stream}: {answer:?}");
                    assert_eq!(answer.status, 200, "{what}");
                    let reported = answer.header("x-output-limit").map(str::parse::<u64>);
                    let reported = reported.expect(&what).unwrap();
                    // What is held of the input follows what was reported for others.
                    let balance = CAUTIOUS_INPUT + room;
                    assert!((room..=balance).contains(&reported), "{what}");
                    let sent = sent(&simulated);
                    let limit = sent[limit_field(at)].as_u64().expect(&what);
                    assert!(limit <= reported, "{what}: {sent}");
                    let line = gateway.line_of(&answer).await;
                    let charged = line["charged"].as_u64().unwrap();
                    assert!(charged <= balance, "{what}: {line}");
                    assert_eq!(line["count"], "reported", "{what}: {line}");
                }
            }
        }
    }
    let output = gateway.output();
    assert!(!output.contains("beyond the balance"), "{output}");
}

#[tokio::test]
async fn of_two_gateways_on_one_ledger_neither_is_short_of_what_the_other_does_not_use() {
    let provider = Provider::start().await;
    let one = Gateway::start(Config::of(&provider)).await;
    let ledger = one.folder.path().join("tollgate.db");
    let config = Config::of(&provider)
        .with("store.path", json!(ledger))
        .with("server.upgrade.socket", json!("second.sock"));
    let two = Gateway::start(config).await;
    for path in FORMATS {
        let key = one.key_with(100_000, LONG);
        // The first process that is asked has all of it.
        let first = one.send(&ask(path, &key, json!({}))).await;
        first.assert_ok();
        let mut connection = two.connect().await;
        for _ in 0..5 {
            let answer = connection.send(&ask(path, &key, json!({}))).await;
            answer.assert_ok();
        }
        let again = one.send(&ask(path, &key, json!({}))).await;
        again.assert_ok();
    }
    one.verify().await;
}

/// Another process on the gateway's ledger, which has leased all of a key's tokens and leaves
/// what the key is given from now on to the gateway.
async fn another_process_with_all_of(gateway: &Gateway, key: &str) -> Ledger {
    let store = gateway.store();
    let ledger = Ledger::open(&store, LedgerSettings::default()).unwrap();
    let record = store.find_key(&KeySelector::parse(key).unwrap()).unwrap();
    let request = RequestInfo {
        id: RequestId::from_parts(0, 0),
        model: "test-model".into(),
        reason: None,
        format: Some(Format::Chat),
        streamed: false,
    };
    let one = UpperBound {
        input: 1,
        hidden_input: 0,
        plausible_input: u64::MAX,
        plausible_output: u64::MAX,
        output: 1,
        useful_output: 1,
    };
    let key = record.id();
    match ledger.reserve(key, request, one, Weights::default()) {
        Reserve::Wait(pending) => pending.wait().await.unwrap(),
        _ => panic!("it has been used before"),
    }
    assert!(ledger.holdings(key).unwrap().tokens.unwrap().free > 0);
    ledger.retire();
    assert!(ledger.caught_up(LONG).await);
    ledger
}

#[tokio::test]
async fn an_answer_is_not_limited_to_what_is_here_before_another_process_was_asked() {
    let (provider, gateway) = start().await;
    for path in FORMATS {
        for known in [false, true] {
            let key = gateway.key_with(5000, LONG);
            let other = another_process_with_all_of(&gateway, &key).await;
            // So much is here: enough for an answer, and not for all of it.
            gateway.top_up(&key, 500);
            let mut asking = vec![ask(path, &key, json!({limit_field(path): 1000}))];
            if known {
                let little = ask(path, &key, json!({limit_field(path): 20}));
                asking.insert(0, little);
            }
            for request in &asking {
                let answer = gateway.send(request).await;
                answer.assert_ok();
                assert_eq!(answer.header("x-output-limit"), None, "{path} {known}");
            }
            assert_eq!(sent(&provider)[limit_field(path)], 1000);
            assert!(other.close(LONG));
        }
    }
    gateway.verify().await;
}
