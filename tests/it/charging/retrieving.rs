//! A response whose caller left before its end is paid for in full when it is retrieved, once.

use super::*;
use crate::support::Service;
use futures::future::join_all;
use std::time::Duration;
use tollgate_ledger::{GrantTerms, KeySelector};
use tollgate_types::Money;

/// What is asked, of which the provider stores the whole answer, and what that costs.
async fn question(provider: &Provider) -> (Value, u64) {
    let body = ask(RESPONSES, true, json!({}));
    let mut whole = body.clone();
    whole["stream"] = json!(false);
    let cost = direct(provider, RESPONSES, &whole).await.reported();
    (body, cost)
}

/// The id of the response that a stream has begun with.
fn id_in(read: &[u8]) -> String {
    first_id(read, "resp_")
}

/// The first id of this kind.
fn first_id(read: &[u8], kind: &str) -> String {
    let read = String::from_utf8_lossy(read);
    let begin = read.find(&format!("\"{kind}")).expect("an id") + 1;
    let rest = &read[begin..];
    rest[..rest.find('"').unwrap()].to_owned()
}

/// Asks, leaves within the answer, and gives the response's id and what was charged.
async fn leave(gateway: &Gateway, body: &Value, key: &str, orders: &str) -> (String, u64) {
    let (read, charged) = read_and_leave(gateway, body, key, orders).await;
    (id_in(&read), charged)
}

/// The same, with what was read.
async fn read_and_leave(
    gateway: &Gateway,
    body: &Value,
    key: &str,
    orders: &str,
) -> (Vec<u8>, u64) {
    let (read, line) = line_after_leaving(gateway, body, key, orders).await;
    (read, money(&line).1)
}

/// The same, with the line in the access log.
async fn line_after_leaving(
    gateway: &Gateway,
    body: &Value,
    key: &str,
    orders: &str,
) -> (Vec<u8>, Value) {
    let request = Request::post(RESPONSES, body).key(key).orders(orders);
    let mut connection = gateway.connect().await;
    connection.write(&request.bytes()).await;
    let answer = connection.head().await;
    let mut read = connection.read_until(b"output_text.delta").await;
    if orders != STALL {
        // The provider breaks off.
        read.extend(connection.read_until(b"response.failed").await);
    }
    drop(connection);
    (read, gateway.line_of(&answer).await)
}

async fn send(gateway: &Gateway, method: &str, target: &str, key: &str) -> Answer {
    gateway.send(&Request::new(method, target).key(key)).await
}

/// Retrieves a response. While the charge of its request is not committed, the gateway answers 503.
async fn retrieve(gateway: &Gateway, target: &str, key: &str) -> Answer {
    let look = async || {
        let answer = send(gateway, "GET", target, key).await;
        (answer.status != 503).then_some(answer)
    };
    support::eventually("the charge of its request is committed", look).await
}

/// Ends a stream's flow after its first words.
const STALL: &str = "stall-after-6";

/// Breaks a stream after its first words.
async fn cut(provider: &Provider) -> String {
    let stream = direct(provider, RESPONSES, &ask(RESPONSES, true, json!({}))).await;
    let text = stream.text();
    let delta = text.find("event: response.output_text.delta").unwrap();
    format!("cut-{}", delta + 600)
}

#[tokio::test]
async fn a_response_that_was_left_is_paid_for_when_it_is_retrieved_and_once() {
    for is_left in [true, false] {
        let (provider, mut gateway) = start().await;
        let (body, cost) = question(&provider).await;
        let orders = match is_left {
            true => STALL.to_owned(),
            false => cut(&provider).await,
        };
        let (id, charged) = leave(&gateway, &body, &gateway.key, &orders).await;
        assert!(charged < cost, "{charged} of {cost}");
        let target = format!("{RESPONSES}/{id}");
        let got = retrieve(&gateway, &target, &gateway.key).await;
        got.assert_ok();
        assert_eq!(got.json()["id"], json!(id));
        assert!(got.text().contains("eighteen nine"), "{got:?}");
        let line = gateway.line_of(&got).await;
        let expected = ("completed", cost - charged, "reported");
        assert_eq!(money(&line), expected, "{orders}: {line}");
        assert_eq!(line["model"], "test-model", "{line}");
        let output = |model: &str| {
            let labels =
                format!(r#"format="responses",kind="output",model="{model}",provider="sim""#);
            format!("tollgate_tokens_total{{{labels}}}")
        };
        assert!(gateway.sample(&output("test-model")).await > Some(0.0));
        assert!(gateway.sample(&output("")).await.unwrap_or_default() == 0.0);
        gateway.has_spent(&gateway.key, cost).await;
        for _ in 0..2 {
            let again = gateway.get(&target).await;
            again.assert_ok();
            let line = gateway.line_of(&again).await;
            assert_eq!(line["charged"], Value::Null, "{line}");
        }
        let history = gateway.get("/v1/usage/history").await.json();
        let records = history["data"].as_array().unwrap();
        assert_eq!(records.len(), 2, "{history}");
        let outputs = records.iter().map(|it| it["usage"]["output"].as_u64());
        let output: u64 = outputs.map(Option::unwrap).sum();
        assert_eq!(got.json()["usage"]["output_tokens"], output, "{history}");
        assert_eq!(records[0]["model_served"], "test-model", "{history}");

        // Another process knows it too.
        let (key, config) = (gateway.key.clone(), gateway.config());
        gateway.signal("TERM").await;
        assert!(gateway.ended().await.success());
        let other = Gateway::start_in(gateway.folder, config).await;
        send(&other, "GET", &target, &key).await.assert_ok();
        other.has_spent(&key, cost).await;
        other.verify().await;
    }
}

#[tokio::test]
async fn the_rest_of_a_response_has_the_price_of_the_deployment_that_made_it() {
    let provider = Provider::start().await;
    let price = json!({"input": 1000, "output": 1000});
    // The input of the rest is shorter than the prompt.
    let mut long = price.clone();
    long["long_prompt"] = json!({"above": 1, "input": 2, "output": 2});
    for (price, times, of_model) in [
        (&price, 1, Value::Null),
        (&price, 1, json!({"input": 1, "output": 1})),
        (&long, 2, Value::Null),
    ] {
        let dear = json!({"input": 9000, "output": 9000});
        let deployments = json!([
            {"provider": "sim", "upstream_model": "upstream-model", "price": price},
            {"provider": "sim", "upstream_model": "dear", "priority": 1, "price": dear},
        ]);
        // With reasoning, a disconnect is charged by time, which can be more than the whole answer costs.
        let mut config = Config::of(&provider)
            .model("test-model", deployments.clone())
            .with("models.test-model.reasoning", json!("none"));
        if !of_model.is_null() {
            config = config.with("models.test-model.price", of_model);
        }
        let gateway = Gateway::start(config).await;
        let key = gateway.key_of(GrantTerms {
            money: Money::from_nanos(1 << 50),
            validity: LONG,
            ..GrantTerms::default()
        });
        let (body, _) = question(&provider).await;
        let (read, first) = line_after_leaving(&gateway, &body, &key, STALL).await;
        let target = format!("{RESPONSES}/{}", id_in(&read));
        let got = retrieve(&gateway, &target, &key).await;
        got.assert_ok();
        let second = gateway.line_of(&got).await;
        let cost = |line: &Value| -> Money { line["cost"].as_str().unwrap().parse().unwrap() };
        let tokens = |kind: &str| second["usage"][kind].as_u64().unwrap();
        let all = (tokens("input") + tokens("output")) * 1_000_000;
        let (first, rest) = (cost(&first).nanos(), cost(&second).nanos());
        assert!(first > 0 && rest > 0, "{first} {second}");
        assert_eq!(first + rest, times * all, "{second}");
        gateway.verify().await;
    }
}

#[tokio::test]
async fn the_rest_of_a_response_keeps_its_price_and_weights_when_the_model_changes() {
    let provider = Provider::start().await;
    let model = |name: &str, price: u64, weight: u64| {
        let price = json!({"input": price, "output": price});
        let deployments =
            json!([{"provider": "sim", "upstream_model": "upstream-model", "price": price}]);
        let weights = json!({"output": weight});
        Config::of(&provider)
            .model(name, deployments)
            .with(&format!("models.{name}.reasoning"), json!("none"))
            .with(&format!("models.{name}.weights"), weights)
    };
    let made_by = "a-model-whose-name-is-as-long-as-the-configuration-admits".to_owned();
    let made_by = format!("{made_by:x<96}");
    // The model costs more, or is gone.
    for changed in [model(&made_by, 9000, 7), model("another-model", 9000, 7)] {
        let mut gateway = Gateway::start(model(&made_by, 1000, 3)).await;
        let key = gateway.key_of(GrantTerms {
            tokens: 1_000_000,
            money: Money::from_nanos(1 << 50),
            validity: LONG,
            ..GrantTerms::default()
        });
        let (mut body, _) = question(&provider).await;
        body["model"] = json!(made_by);
        let (read, first) = line_after_leaving(&gateway, &body, &key, STALL).await;
        gateway.signal("TERM").await;
        assert!(gateway.ended().await.success());

        let gateway = Gateway::start_in(gateway.folder, changed).await;
        let target = format!("{RESPONSES}/{}", id_in(&read));
        let got = send(&gateway, "GET", &target, &key).await;
        got.assert_ok();
        let second = gateway.line_of(&got).await;
        let tokens = |kind: &str| second["usage"][kind].as_u64().unwrap();
        let both = |of: &dyn Fn(&Value) -> u64| of(&first) + of(&second);
        let cost = |line: &Value| {
            let cost: Money = line["cost"].as_str().unwrap().parse().unwrap();
            cost.nanos()
        };
        let charged = |line: &Value| money(line).1;
        let (input, output) = (tokens("input"), tokens("output"));
        assert_eq!(both(&cost), (input + output) * 1_000_000, "{second}");
        assert_eq!(both(&charged), input + 3 * output, "{second}");
        // The record has an id of its own, which the access log names.
        let record = support::eventually("the record of the rest", async || {
            let history = send(&gateway, "GET", "/v1/usage/history?limit=1", &key).await;
            let record = history.json()["data"][0].clone();
            (record["id"] == second["record"]).then_some(record)
        })
        .await;
        assert_eq!(record["model_served"], json!(made_by), "{record}");
        gateway.verify().await;
    }
}

#[tokio::test]
async fn the_rest_of_a_response_has_its_tier_and_its_calls_of_tools() {
    let response = |status: &str, output: Value, usage: Value| {
        json!({"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "m",
            "service_tier": "priority", "output": output, "usage": usage})
    };
    let search = json!({"id": "ws_1", "type": "web_search_call", "status": "completed",
        "action": {"type": "search", "query": "q"}});
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    let message = |content: Value| {
        json!({"id": "msg_1", "type": "message", "status": "completed",
        "role": "assistant", "content": content})
    };
    let events = [
        json!({"type": "response.created", "response": response("in_progress", json!([]), Value::Null)}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": search}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": message(json!([]))}),
        json!({"type": "response.content_part.added", "item_id": "msg_1", "output_index": 1,
            "content_index": 0, "part": part("")}),
        json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 1,
            "content_index": 0, "delta": "so much"}),
    ];
    let stream: String = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    let stream = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{stream}");
    let usage = json!({"input_tokens": 200_000, "output_tokens": 20, "total_tokens": 200_020});
    let output = json!([search, search, message(json!([part("so much more")]))]);
    let whole = response("completed", output, usage).to_string();
    let whole = support::json_answer("200 OK", "", &whole);
    let service = Service::answering(move |seen| match &*seen.method {
        "GET" => vec![Act::send(whole.clone())],
        _ => vec![Act::send(stream.clone()), Act::Hang],
    })
    .await;
    let price = json!({"input": 1, "output": 1, "tool_calls": {"web_search": 0.01}, "tiers": {"priority": 2}});
    let mut provider = support::provider(service.address);
    provider["formats"] = json!(["responses"]);
    let config = Config::new()
        .provider("raw", provider)
        .model("test-model", json!(["raw"]))
        .with("models.test-model.price", price);
    let gateway = Gateway::start(config).await;
    let grant = |money| GrantTerms {
        tokens: 10_000_000,
        money: Money::from_nanos(money),
        validity: LONG,
        ..GrantTerms::default()
    };
    // Ten calls are reserved, and what is left for hidden input.
    let key = gateway.key_of(grant(200_000_000));
    let more = json!({"tools": [{"type": "web_search"}], "service_tier": "priority", "max_output_tokens": 64});
    let request = Request::post(RESPONSES, &ask(RESPONSES, true, more)).key(&key);
    let (connection, answer) = begin(&gateway, &request, "so much").await;
    drop(connection);
    let cost = |line: &Value| {
        line["cost"]
            .as_str()
            .unwrap()
            .parse::<Money>()
            .unwrap()
            .nanos()
    };
    let first = gateway.line_of(&answer).await;
    let expected = first["charged"].as_u64().unwrap() * 2000 + 10_000_000;
    assert_eq!(cost(&first), expected, "{first}");

    let selector = KeySelector::parse(&key).unwrap();
    gateway
        .store()
        .top_up(&selector, &grant(1_000_000_000))
        .unwrap();
    let got = retrieve(&gateway, &format!("{RESPONSES}/resp_1"), &key).await;
    got.assert_ok();
    let second = gateway.line_of(&got).await;
    assert_eq!(
        cost(&first) + cost(&second),
        200_020 * 2000 + 20_000_000,
        "{first} {second}"
    );
    gateway.verify().await;
}

/// A gateway before a provider that answers with `made` and shows `shown` when the response is retrieved.
async fn storing(made: impl Into<Vec<Act>>, shown: &Value) -> Gateway {
    let made = made.into();
    let shown = support::json_answer("200 OK", "", &shown.to_string());
    let service = Service::answering(move |seen| match &*seen.method {
        "GET" => vec![Act::send(shown.clone())],
        _ => made.clone(),
    })
    .await;
    let mut provider = support::provider(service.address);
    provider["formats"] = json!(["responses"]);
    let config = Config::new()
        .provider("raw", provider)
        .model("test-model", json!(["raw"]));
    Gateway::start(config).await
}

/// A response with this text.
fn response(status: &str, text: &str, usage: &Value) -> Value {
    let part = json!({"type": "output_text", "text": text, "annotations": []});
    let message = json!({"id": "msg_1", "type": "message", "status": "completed",
        "role": "assistant", "content": [part]});
    let output = match text {
        "" => json!([]),
        _ => json!([message]),
    };
    json!({"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "m",
        "output": output, "usage": usage})
}

#[tokio::test]
async fn a_response_without_usage_is_paid_for_when_it_is_retrieved_with_usage() {
    let usage = json!({"input_tokens": 5000, "output_tokens": 1000, "total_tokens": 6000});
    for (status, text, shown) in [
        ("queued", "", &usage),
        ("in_progress", "", &usage),
        ("incomplete", "so", &usage),
        ("completed", "so much", &usage),
        // The provider never reports usage.
        ("completed", "so much", &Value::Null),
    ] {
        let made = response(status, text, &Value::Null).to_string();
        let made = support::json_answer("200 OK", "", &made);
        let gateway = storing([Act::send(made)], &response("completed", "so much", shown)).await;
        let answer = gateway
            .post(RESPONSES, &ask(RESPONSES, false, json!({})))
            .await;
        answer.assert_ok();
        let line = gateway.line_of(&answer).await;
        let (_, first, count) = money(&line);
        assert_eq!(count, "estimated", "{line}");
        let whole = if shown.is_null() { first } else { 6000 };
        for rest in [whole - first, 0] {
            let target = format!("{RESPONSES}/resp_1");
            let got = retrieve(&gateway, &target, &gateway.key).await;
            got.assert_ok();
            let line = gateway.line_of(&got).await;
            assert_eq!(line["charged"].as_u64().unwrap_or(0), rest, "{line}");
        }
        gateway.has_spent(&gateway.key, whole).await;
        gateway.verify().await;
    }
}

#[tokio::test]
async fn an_estimate_that_was_too_high_for_the_output_pays_for_input_too() {
    let usage = json!({"input_tokens": 1000, "output_tokens": 300, "total_tokens": 1300});
    let text = "so much ".repeat(200);
    let made = response("completed", &text, &Value::Null).to_string();
    let made = support::json_answer("200 OK", "", &made);
    let gateway = storing([Act::send(made)], &response("completed", &text, &usage)).await;
    let answer = gateway
        .post(RESPONSES, &ask(RESPONSES, false, json!({})))
        .await;
    answer.assert_ok();
    let line = gateway.line_of(&answer).await;
    assert!(line["charged"].as_u64() > Some(300), "{line}");
    let target = format!("{RESPONSES}/resp_1");
    let got = retrieve(&gateway, &target, &gateway.key).await;
    got.assert_ok();
    gateway.has_spent(&gateway.key, 1300).await;
    gateway.verify().await;
}

#[tokio::test]
async fn a_response_that_the_client_has_got_can_be_retrieved_without_a_balance() {
    let usage = json!({"input_tokens": 5000, "output_tokens": 1000, "total_tokens": 6000});
    let of_body = json!({"id": "resp_1", "object": "response", "output": response("", "so", &usage)["output"]});
    for shown in [response("completed", "so", &usage), of_body] {
        let made = response("completed", "so", &Value::Null).to_string();
        let made = support::json_answer("200 OK", "", &made);
        let gateway = storing([Act::send(made)], &shown).await;
        let key = gateway.key_of(GrantTerms {
            tokens: 1000,
            validity: LONG,
            ..GrantTerms::default()
        });
        let body = ask(RESPONSES, false, json!({"max_output_tokens": 64}));
        let answer = gateway
            .send(&Request::post(RESPONSES, &body).key(&key))
            .await;
        answer.assert_ok();
        gateway.line_of(&answer).await;
        let target = format!("{RESPONSES}/resp_1");
        let got = retrieve(&gateway, &target, &key).await;
        got.assert_ok();
        assert_eq!(got.json(), shown);
    }
}

#[tokio::test]
async fn a_response_that_the_gateway_has_cut_is_paid_for_when_it_is_retrieved() {
    let usage = json!({"input_tokens": 5000, "output_tokens": 1000, "total_tokens": 6000});
    let began = response("in_progress", "", &Value::Null);
    let item = json!({"id": "mcpl_1", "type": "mcp_list_tools", "server_label": "s", "tools": []});
    let events = [
        json!({"type": "response.created", "response": began}),
        json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0,
            "content_index": 0, "delta": "so"}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": item}),
    ];
    let deep = "[".repeat(200) + &"]".repeat(200);
    let [created, delta, done] = events.map(|event| format!("data: {event}\n\n"));
    let done = done.replace("\"tools\":[]", &format!("\"tools\":{deep}"));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let made = [
        Act::send(format!("{head}{created}{delta}")),
        Act::Pause(Duration::from_millis(200)),
        Act::send(done),
    ];
    let gateway = storing(made, &response("completed", "so much", &usage)).await;
    let limit = json!({"max_output_tokens": 64});
    let request = Request::post(RESPONSES, &ask(RESPONSES, true, limit)).key(&gateway.key);
    let (_connection, answer) = begin(&gateway, &request, "response.failed").await;
    let line = gateway.line_of(&answer).await;
    let (outcome, first, count) = money(&line);
    assert_eq!((outcome, count), ("incomplete", "estimated"), "{line}");
    assert!(first < 6000, "{line}");
    let target = format!("{RESPONSES}/resp_1");
    let got = retrieve(&gateway, &target, &gateway.key).await;
    got.assert_ok();
    let line = gateway.line_of(&got).await;
    let expected = ("completed", 6000 - first, "reported");
    assert_eq!(money(&line), expected, "{line}");
    gateway.has_spent(&gateway.key, 6000).await;
    gateway.verify().await;
}

#[tokio::test]
async fn the_rest_of_a_response_is_at_most_what_the_model_can_process() {
    let usage = json!({"input_tokens": 1_u64 << 50, "output_tokens": 1_u64 << 50});
    let made = response("completed", "so much", &Value::Null).to_string();
    let made = support::json_answer("200 OK", "", &made);
    let gateway = storing([Act::send(made)], &response("completed", "so much", &usage)).await;
    let body = ask(RESPONSES, false, json!({}));
    let answer = gateway.post(RESPONSES, &body).await;
    answer.assert_ok();
    let first = money(&gateway.line_of(&answer).await).1;
    let target = format!("{RESPONSES}/resp_1");
    let got = retrieve(&gateway, &target, &gateway.key).await;
    got.assert_ok();
    let line = gateway.line_of(&got).await;
    // The output that is reserved for a model without limits.
    assert_eq!(money(&line), ("completed", 128_000, "estimated"), "{line}");
    gateway.has_spent(&gateway.key, first + 128_000).await;
    gateway.verify().await;
}

#[tokio::test]
async fn where_the_provider_refuses_to_show_it_nothing_is_charged() {
    let (provider, gateway) = start().await;
    let (body, cost) = question(&provider).await;
    let (id, charged) = leave(&gateway, &body, &gateway.key, STALL).await;
    let target = format!("{RESPONSES}/{id}");
    gateway.has_spent(&gateway.key, charged).await;
    for _ in 0..2 {
        let refused = send(&gateway, "POST", &format!("{target}/cancel"), &gateway.key).await;
        refused.assert_error(400, "upstream_error");
        gateway.has_spent(&gateway.key, charged).await;
    }
    gateway.get(&target).await.assert_ok();
    gateway.has_spent(&gateway.key, cost).await;
    gateway.verify().await;
}

#[tokio::test]
async fn a_response_that_is_still_being_answered_with_is_not_shown() {
    let (provider, gateway) = start().await;
    let (body, cost) = question(&provider).await;
    let request = Request::post(RESPONSES, &body)
        .key(&gateway.key)
        .orders(STALL);
    let mut connection = gateway.connect().await;
    connection.write(&request.bytes()).await;
    let answer = connection.head().await;
    let read = connection.read_until(b"output_text.delta").await;
    let target = format!("{RESPONSES}/{}", id_in(&read));
    let early = gateway.get(&target).await;
    early.assert_error(503, "service_unavailable");
    assert_eq!(early.header("retry-after"), Some("1"));
    drop(connection);
    gateway.line_of(&answer).await;
    let got = retrieve(&gateway, &target, &gateway.key).await;
    got.assert_ok();
    gateway.has_spent(&gateway.key, cost).await;
    gateway.verify().await;
}

#[tokio::test]
async fn two_that_retrieve_it_at_once_pay_for_it_once() {
    let (provider, gateway) = start().await;
    let left = async |number: usize| {
        // The simulated provider gives equal requests equal ids.
        let instructions = format!("Answer {number}.");
        let more = json!({"instructions": instructions, "max_output_tokens": 1000});
        let whole = ask(RESPONSES, false, more.clone());
        let cost = direct(&provider, RESPONSES, &whole).await.reported();
        let body = ask(RESPONSES, true, more);
        let (id, first) = leave(&gateway, &body, &gateway.key, STALL).await;
        (id, first, cost)
    };
    let left = join_all((0..16).map(left)).await;
    let first: u64 = left.iter().map(|(_, first, _)| first).sum();
    // The gateway answers 503 until the charges are committed.
    gateway.has_spent(&gateway.key, first).await;
    let mut spent = 0;
    // A second payment needs a look at the amount due that ends after the first payment.
    for (id, mut charged, cost) in left {
        let request = Request::get(&format!("{RESPONSES}/{id}")).key(&gateway.key);
        let mut answers = join_all((0..8).map(|_| gateway.send(&request))).await;
        let last = gateway.send(&request).await;
        last.assert_ok();
        answers.push(last);
        for answer in &answers {
            // The others get 503 while the first pays.
            assert!([200, 503].contains(&answer.status), "{answer:?}");
            let line = gateway.line_of(answer).await;
            charged += line["charged"].as_u64().unwrap_or_default();
        }
        assert_eq!(charged, cost, "{answers:?}");
        spent += cost;
    }
    gateway.has_spent(&gateway.key, spent).await;
    // The account in memory has paid as much.
    let usage = gateway.get("/v1/usage").await.json();
    let remaining = usage["tokens"]["remaining"].as_f64().unwrap();
    gateway
        .sample_is("tollgate_ledger_tokens{state=\"free\"}", remaining)
        .await;
    gateway.verify().await;
}

#[tokio::test]
async fn a_key_that_has_nothing_left_does_not_get_what_it_cannot_pay_for() {
    let provider = Provider::start().await;
    let greedy = Upstream::playing([Act::Send(unseen::answer_with(500_000))]).await;
    let config = Config::of(&provider)
        .with("models.test-model.reasoning", json!("none"))
        .provider("greedy", support::provider(greedy.address))
        .model("greedy", json!(["greedy"]));
    let gateway = Gateway::start(config).await;
    let key = gateway.key_with(200_000, LONG);
    let (body, _) = question(&provider).await;
    let (id, _) = leave(&gateway, &body, &key, STALL).await;
    let search = json!({"max_completion_tokens": 100, "tools": [{"type": "web_search"}]});
    let body = prompt(CHAT, "greedy", SAID, search);
    let all = gateway.send(&Request::post(CHAT, &body).key(&key)).await;
    all.assert_ok();
    gateway.has_spent(&key, 200_000).await;

    let target = format!("{RESPONSES}/{id}");
    let refused = send(&gateway, "GET", &target, &key).await;
    refused.assert_error(402, "quota_exhausted");
    for (method, target) in [
        ("GET", format!("{target}/input_items")),
        ("DELETE", target.clone()),
    ] {
        send(&gateway, method, &target, &key).await.assert_ok();
    }
    gateway.has_spent(&key, 200_000).await;
    gateway.verify().await;
}

/// Has a response made whose request has this beside a question, and gives its id.
async fn go_on(gateway: &Gateway, more: Value) -> String {
    let answer = gateway.post(RESPONSES, &ask(RESPONSES, false, more)).await;
    answer.assert_ok();
    answer.json()["id"].as_str().unwrap().to_owned()
}

/// A provider lists what a request named as the input of its response.
#[tokio::test]
async fn an_input_that_shows_a_response_is_shown_when_that_response_is_paid_for() {
    let (provider, mut gateway) = start().await;
    let (body, cost) = question(&provider).await;
    let (read, _) = read_and_leave(&gateway, &body, &gateway.key, STALL).await;
    let (left, item) = (id_in(&read), first_id(&read, "msg_"));
    let input = |id: &str| format!("{RESPONSES}/{id}/input_items");
    let next = go_on(&gateway, json!({"previous_response_id": left})).await;
    let after_next = go_on(&gateway, json!({"previous_response_id": next})).await;
    let user = json!({"role": "user", "content": "Go on."});
    let reference = json!([{"type": "item_reference", "id": item}, user]);
    let by_item = go_on(&gateway, json!({"input": reference})).await;
    // The simulated provider gives equal requests equal ids.
    let whole = go_on(&gateway, json!({"instructions": "Be brief."})).await;
    let after_whole = go_on(&gateway, json!({"previous_response_id": whole})).await;

    let (key, config) = (gateway.key.clone(), gateway.config());
    let refuses = async |gateway: &Gateway| {
        for (id, shown) in [(&next, &left), (&after_next, &left), (&by_item, &item)] {
            let refused = send(gateway, "GET", &input(id), &key).await;
            refused.assert_error(400, "invalid_request");
            assert!(refused.message().contains(shown), "{refused:?}");
        }
        for id in [&whole, &after_whole] {
            send(gateway, "GET", &input(id), &key).await.assert_ok();
        }
    };
    // Until the charges are committed, the gateway answers 503.
    gateway
        .sample_is("tollgate_ledger_open_requests", 0.0)
        .await;
    refuses(&gateway).await;
    // Another process knows it too.
    gateway.signal("TERM").await;
    assert!(gateway.ended().await.success());
    let gateway = Gateway::start_in(gateway.folder, config).await;
    refuses(&gateway).await;
    // The process that ended has committed every charge.
    let spent = gateway.spent(&key).await;

    let retrieved = send(&gateway, "GET", &format!("{RESPONSES}/{left}"), &key).await;
    retrieved.assert_ok();
    let rest = money(&gateway.line_of(&retrieved).await).1;
    assert!((1..cost).contains(&rest), "{rest} of {cost}");
    for id in [&next, &after_next, &by_item, &whole] {
        send(&gateway, "GET", &input(id), &key).await.assert_ok();
    }
    gateway.has_spent(&key, spent + rest).await;
    gateway.verify().await;
}

#[tokio::test]
async fn a_response_that_was_left_is_at_most_as_much_input_as_was_reserved_for_it() {
    const LIMIT: u64 = 1000;
    let (_provider, gateway) = start().await;
    let limit = json!({"max_output_tokens": LIMIT});
    let mut body = ask(RESPONSES, true, limit);
    let (id, first) = leave(&gateway, &body, &gateway.key, STALL).await;
    body["previous_response_id"] = json!(id);
    let (_, second) = leave(&gateway, &body, &gateway.key, STALL).await;
    // Both were cut after a few words. The reservation for input is a token for each byte of the
    // body, and a constant.
    let most = first + LIMIT + body.to_string().len() as u64 + 200;
    let least = first + LIMIT;
    assert!((least..=most).contains(&second), "{second} after {first}");
    gateway.verify().await;
}
