//! A response whose caller left before its end is paid for in full when it is retrieved, once.

use super::*;

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
    let read = String::from_utf8_lossy(read);
    let begin = read.find("\"resp_").expect("an id") + 1;
    let rest = &read[begin..];
    rest[..rest.find('"').unwrap()].to_owned()
}

/// Asks, leaves within the answer, and gives the response's id and what was charged.
async fn leave(gateway: &Gateway, body: &Value, key: &str, orders: &str) -> (String, u64) {
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
    let line = gateway.line_of(&answer).await;
    (id_in(&read), money(&line).1)
}

async fn send(gateway: &Gateway, method: &str, target: &str, key: &str) -> Answer {
    gateway.send(&Request::new(method, target).key(key)).await
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
        let got = gateway.get(&target).await;
        got.assert_ok();
        assert_eq!(got.json()["id"], json!(id));
        assert!(got.text().contains("eighteen nine"), "{got:?}");
        let line = gateway.line_of(&got).await;
        let expected = ("completed", cost - charged, "reported");
        assert_eq!(money(&line), expected, "{orders}: {line}");
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
async fn where_the_provider_refuses_to_show_it_nothing_is_charged() {
    let (provider, gateway) = start().await;
    let (body, cost) = question(&provider).await;
    let (id, charged) = leave(&gateway, &body, &gateway.key, STALL).await;
    let target = format!("{RESPONSES}/{id}");
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
    gateway.get(&target).await.assert_ok();
    gateway.has_spent(&gateway.key, cost).await;
    gateway.verify().await;
}

#[tokio::test]
async fn two_that_retrieve_it_at_once_pay_for_it_once() {
    let (provider, gateway) = start().await;
    let (body, cost) = question(&provider).await;
    let (id, _) = leave(&gateway, &body, &gateway.key, STALL).await;
    let target = format!("{RESPONSES}/{id}");
    let all: Vec<_> = (0..8)
        .map(|_| {
            let request = Request::new("GET", &target).key(&gateway.key);
            let address = gateway.address;
            tokio::spawn(async move { Connection::open(address).await.send(&request).await })
        })
        .collect();
    for one in all {
        let answer = one.await.unwrap();
        // The others get 503 while the first pays.
        assert!([200, 503].contains(&answer.status), "{answer:?}");
    }
    gateway.get(&target).await.assert_ok();
    gateway.has_spent(&gateway.key, cost).await;
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
