//! Translated answers that later requests refer to: two turns and more over real sockets, at
//! providers that know nothing of references.

use crate::support::{
    Answer, CHAT, Config, Gateway, LONG, MESSAGES, Provider, RESPONSES, Request, eventually,
    provider,
};
use serde_json::{Value, json};

const WRITTEN: &str = "tollgate_remembered_answers_total{result=\"written\"}";

/// A provider that is asked in one format for each model.
fn config(simulated: &Provider) -> Config {
    let formats = ["chat", "responses", "messages"].into_iter();
    formats.fold(Config::new(), |config, format| {
        let mut settings = provider(simulated.address);
        settings["formats"] = json!([format]);
        config
            .provider(&format!("p-{format}"), settings)
            .model(&format!("by-{format}"), json!([format!("p-{format}")]))
    })
}

async fn start() -> (Provider, Gateway) {
    let simulated = Provider::start().await;
    let config = config(&simulated);
    (simulated, Gateway::start(config).await)
}

/// A request, its own fields last.
#[expect(clippy::needless_pass_by_value, reason = "callers make both in place")]
fn body(model: &str, input: Value, more: Value) -> Value {
    let mut body = json!({"model": model, "input": input});
    let fields = body.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    body
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

async fn ask(gateway: &Gateway, model: &str, input: Value, more: Value) -> Value {
    response(&gateway.post(RESPONSES, &body(model, input, more)).await)
}

/// The response, whole or streamed.
fn response(answer: &Answer) -> Value {
    answer.assert_ok();
    match answer.header("content-type") {
        Some("application/json") => answer.json(),
        _ => answer.events().last().expect("an event")["response"].clone(),
    }
}

fn id(response: &Value) -> String {
    response["id"].as_str().expect("an id").to_owned()
}

fn text(response: &Value) -> String {
    let items = response["output"].as_array().expect("items");
    let message = items.iter().find(|item| item["type"] == "message");
    let text = &message.expect("a message")["content"][0]["text"];
    text.as_str().expect("a text").to_owned()
}

/// References to all items of a response, as Vercel's AI SDK sends them.
fn references(response: &Value) -> Vec<Value> {
    let items = response["output"].as_array().expect("items").iter();
    let reference = |item: &Value| json!({"type": "item_reference", "id": item["id"]});
    items.map(reference).collect()
}

/// The messages of the last request to the provider, with their roles.
fn sent(simulated: &Provider) -> Vec<(String, String)> {
    let body: Value = serde_json::from_slice(&simulated.last().body).unwrap();
    let list = body.get("messages").or_else(|| body.get("input"));
    let list = list.and_then(Value::as_array).expect("a conversation");
    let words = |content: &Value| match content.as_array() {
        Some(parts) => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
        None => content.as_str().unwrap_or_default().to_owned(),
    };
    let said = list.iter().map(|turn| {
        let role = turn["role"].as_str().unwrap_or_default();
        (role.to_owned(), words(&turn["content"]))
    });
    said.collect()
}

fn said(role: &str, text: &str) -> (String, String) {
    (role.to_owned(), text.to_owned())
}

async fn send(gateway: &Gateway, method: &str, target: &str, key: &str) -> Answer {
    gateway.send(&Request::new(method, target).key(key)).await
}

#[tokio::test]
async fn references_to_the_items_of_an_answer_become_the_items() {
    let (simulated, gateway) = start().await;
    for (model, path) in [("by-chat", CHAT), ("by-messages", MESSAGES)] {
        for stream in [false, true] {
            let more = json!({"stream": stream});
            let first = ask(&gateway, model, json!([user("One.")]), more.clone()).await;
            assert_eq!(first["store"], json!(true));
            let mut input = vec![user("One.")];
            input.extend(references(&first));
            input.push(user("Two."));
            let second = ask(&gateway, model, json!(input), more).await;
            assert_eq!(simulated.last().uri.path(), path);
            let expected = [
                said("user", "One."),
                said("assistant", &text(&first)),
                said("user", "Two."),
            ];
            assert_eq!(sent(&simulated), expected, "{model}");
            assert!(text(&second).contains("Two."), "{second}");
        }
    }
}

#[tokio::test]
async fn a_conversation_goes_on_by_its_last_answer_at_any_provider() {
    let (simulated, gateway) = start().await;
    let mut expected = Vec::new();
    let mut last: Option<Value> = None;
    for (number, model) in ["by-chat", "by-messages", "by-chat", "by-responses"]
        .into_iter()
        .enumerate()
    {
        let words = format!("Number {number}.");
        let more = match &last {
            Some(response) => json!({"previous_response_id": id(response)}),
            None => json!({}),
        };
        let response = ask(&gateway, model, json!(words), more).await;
        expected.push(said("user", &words));
        assert_eq!(sent(&simulated), expected, "{model}");
        let body: Value = serde_json::from_slice(&simulated.last().body).unwrap();
        assert_eq!(body.get("previous_response_id"), None);
        if model != "by-responses" {
            let previous = last.as_ref().map(id);
            assert_eq!(response["previous_response_id"], json!(previous));
        }
        expected.push(said("assistant", &text(&response)));
        last = Some(response);
    }
    // The provider has stored the last answer itself, with all that was said before.
    let native = id(&last.unwrap());
    let more = json!({"previous_response_id": native});
    ask(&gateway, "by-responses", json!("And?"), more).await;
    let body: Value = serde_json::from_slice(&simulated.last().body).unwrap();
    assert_eq!(body["previous_response_id"], json!(native));
}

#[tokio::test]
async fn thoughts_and_calls_come_back_to_their_provider_unseen_by_the_caller() {
    let (_simulated, gateway) = start().await;
    let tool = json!({"type": "function", "name": "look", "strict": false,
        "parameters": {"type": "object", "properties": {}}});
    let more = |stream: bool| {
        json!({"tools": [tool], "reasoning": {"effort": "high"}, "stream": stream,
            "max_output_tokens": 8000})
    };
    let question = user("Use the look tool, then count your thoughts");
    for stream in [false, true] {
        let first = ask(&gateway, "by-messages", json!([question]), more(stream)).await;
        assert!(!first.to_string().contains("encrypted_content"), "{first}");
        let items = first["output"].as_array().unwrap();
        assert_eq!(items[0]["type"], "reasoning", "{first}");
        let call = items.iter().find(|it| it["type"] == "function_call");
        let result = json!({"type": "function_call_output", "output": "Seen.",
            "call_id": call.expect("a call")["call_id"]});

        let mut by_id = more(stream);
        by_id["previous_response_id"] = json!(id(&first));
        let by_id = ask(&gateway, "by-messages", json!([result]), by_id).await;
        let mut referring = vec![question.clone()];
        referring.extend(references(&first));
        referring.push(result.clone());
        let by_items = ask(&gateway, "by-messages", json!(referring), more(stream)).await;
        // A client that sends what it was given: a thought without its state.
        let mut whole = vec![question.clone()];
        whole.extend(items.iter().cloned());
        whole.push(result);
        let whole = ask(&gateway, "by-messages", json!(whole), more(stream)).await;
        for answer in [by_id, by_items, whole] {
            assert!(text(&answer).contains("came back: 1."), "{answer}");
        }
    }
}

#[tokio::test]
async fn the_conversation_is_charged_as_input() {
    let (_simulated, gateway) = start().await;
    let long = "word ".repeat(2000);
    let first = ask(
        &gateway,
        "by-chat",
        json!(long),
        json!({"max_output_tokens": 16}),
    )
    .await;
    let input = |response: &Value| response["usage"]["input_tokens"].as_u64().unwrap();
    let more = json!({"previous_response_id": id(&first), "max_output_tokens": 16});
    let second = ask(&gateway, "by-chat", json!("Go on."), more.clone()).await;
    assert!(input(&second) > input(&first), "{second}");
    let total = second["usage"]["total_tokens"].clone();
    let line = gateway.access_line(|line| line["charged"] == total).await;
    assert_eq!(line["outcome"], "completed");

    let counted = async |more: Value| {
        let request = body("by-chat", json!("Go on."), more);
        let count = gateway.post("/v1/responses/input_tokens", &request).await;
        count.assert_ok();
        count.json()["input_tokens"].as_u64().unwrap()
    };
    let more = json!({"previous_response_id": id(&first)});
    assert!(counted(more).await > counted(json!({})).await + 1000);

    // It is reserved, too: what a key cannot pay for is not sent.
    let poor = gateway.create_key(&["--input-tokens", "1000"]).await;
    let request = body("by-chat", json!("Hi."), json!({}));
    let small = Request::post(RESPONSES, &request).key(&poor);
    let mine = response(&gateway.send(&small).await);
    let more = json!({"previous_response_id": id(&mine)});
    let request = body("by-chat", json!(long), more);
    let refused = gateway
        .send(&Request::post(RESPONSES, &request).key(&poor))
        .await;
    refused.assert_error(429, "rate_limit_exceeded");
}

#[tokio::test]
async fn an_answer_is_its_keys_alone_and_the_field_is_named() {
    let (simulated, gateway) = start().await;
    let other = gateway.create_key(&[]).await;
    let made = ask(&gateway, "by-chat", json!("Hi."), json!({})).await;
    let unstored = ask(&gateway, "by-chat", json!("Hi."), json!({"store": false})).await;
    assert_eq!(unstored["store"], json!(false));
    let asked = simulated.received().len();
    let forged = id(&made).replace(|c: char| c.is_ascii_digit(), "7");
    for (key, response) in [
        (&other, &made),
        (&gateway.key, &unstored),
        (
            &gateway.key,
            &json!({"id": forged, "output": [{"id": "msg_1"}]}),
        ),
    ] {
        let id = id(response);
        let by_id = body(
            "by-chat",
            json!("Go on."),
            json!({"previous_response_id": id}),
        );
        let mut items = vec![user("Hi.")];
        items.extend(references(response));
        let by_item = body("by-chat", json!(items), json!({}));
        for (request, field) in [(by_id, "previous_response_id"), (by_item, "input[1].id")] {
            let refused = gateway
                .send(&Request::post(RESPONSES, &request).key(key))
                .await;
            refused.assert_error(404, "not_found");
            let message = refused.message();
            assert!(message.contains("send the whole history"), "{message}");
            let is_ours = id.len() == "resp_".len() + 26 && !message.contains("msg_1'");
            assert!(!is_ours || message.contains(field), "{message}");
        }
        let target = format!("{RESPONSES}/{id}");
        for method in ["GET", "DELETE"] {
            let refused = send(&gateway, method, &target, key).await;
            refused.assert_error(404, "not_found");
        }
    }
    assert_eq!(simulated.received().len(), asked, "the provider was asked");
}

#[tokio::test]
async fn an_answer_can_be_retrieved_and_deleted() {
    let (simulated, gateway) = start().await;
    let thinking = json!({"reasoning": {"effort": "high"}, "max_output_tokens": 8000});
    let made = ask(&gateway, "by-messages", json!("Hi."), thinking).await;
    let target = format!("{RESPONSES}/{}", id(&made));
    let asked = simulated.received().len();
    let got = gateway.get(&target).await;
    got.assert_ok();
    assert_eq!(got.json(), made);
    // Over one connection, which an answer with a body would put out of step.
    let mut connection = gateway.connect().await;
    let head = Request::new("HEAD", &target).key(&gateway.key);
    for _ in 0..2 {
        let head = connection.send(&head).await;
        head.assert_ok();
        assert_eq!(head.header("content-type"), Some("application/json"));
        assert_eq!(head.body().len(), 0, "{head:?}");
    }
    let include = format!("{target}?include[]=reasoning.encrypted_content");
    let whole = gateway.get(&include).await;
    whole.assert_ok();
    let state = &whole.json()["output"][0]["encrypted_content"];
    assert!(state.is_string(), "{whole:?}");
    let item = made["output"][0]["id"].as_str().unwrap();
    let by_item = send(
        &gateway,
        "DELETE",
        &format!("{RESPONSES}/{item}"),
        &gateway.key,
    )
    .await;
    by_item.assert_error(404, "not_found");
    let listed = gateway.get(&format!("{target}/input_items")).await;
    listed.assert_error(400, "invalid_request");

    let deleted = send(&gateway, "DELETE", &target, &gateway.key).await;
    deleted.assert_ok();
    let expected = json!({"id": id(&made), "object": "response", "deleted": true});
    assert_eq!(deleted.json(), expected);
    gateway.get(&target).await.assert_error(404, "not_found");
    let more = json!({"previous_response_id": id(&made)});
    let refused = body("by-chat", json!("Go on."), more);
    let refused = gateway.post(RESPONSES, &refused).await;
    refused.assert_error(404, "not_found");
    assert_eq!(simulated.received().len(), asked, "the provider was asked");
}

#[tokio::test]
async fn answers_are_known_after_a_restart() {
    let (simulated, mut gateway) = start().await;
    let made = ask(&gateway, "by-chat", json!("One."), json!({})).await;
    let (key, config) = (gateway.key.clone(), gateway.config());
    gateway.signal("TERM").await;
    assert!(gateway.ended().await.success());
    let again = Gateway::start_in(gateway.folder, config).await;
    let more = json!({"previous_response_id": id(&made)});
    let request = Request::post(RESPONSES, &body("by-messages", json!("Two."), more)).key(&key);
    again.send(&request).await.assert_ok();
    let expected = [
        said("user", "One."),
        said("assistant", &text(&made)),
        said("user", "Two."),
    ];
    assert_eq!(sent(&simulated), expected);
}

#[tokio::test]
async fn remembered_answers_are_counted() {
    let (_simulated, gateway) = start().await;
    ask(&gateway, "by-chat", json!("One."), json!({})).await;
    gateway.sample_is(WRITTEN, 1.0).await;
    let lost = "tollgate_remembered_answers_total{result=\"lost\"}";
    assert_eq!(gateway.sample(lost).await, Some(0.0));
    let bytes = gateway.sample("tollgate_remembered_answers_bytes").await;
    assert!(bytes.is_some_and(|bytes| bytes > 0.0), "{bytes:?}");
}

#[tokio::test]
async fn an_answer_of_the_old_process_is_known_to_the_one_that_takes_over() {
    let (simulated, mut gateway) = start().await;
    let made = ask(&gateway, "by-chat", json!("One."), json!({})).await;
    gateway.sample_is(WRITTEN, 1.0).await;
    gateway.upgrade().await;
    let more = json!({"previous_response_id": id(&made)});
    ask(&gateway, "by-chat", json!("Two."), more).await;
    assert_eq!(sent(&simulated).len(), 3);
}

#[tokio::test]
async fn where_nothing_is_remembered_the_refusal_asks_for_the_whole_history() {
    let simulated = Provider::start().await;
    let config = config(&simulated).with("translation.memory", json!("none"));
    let gateway = Gateway::start(config).await;
    let made = ask(&gateway, "by-chat", json!("Hi."), json!({})).await;
    assert_eq!(made["store"], json!(false));
    let mut items = vec![user("Hi.")];
    items.extend(references(&made));
    let more = json!({"previous_response_id": id(&made)});
    for (request, status) in [
        (body("by-chat", json!(items), json!({})), 404),
        (body("by-chat", json!("Go on."), more), 404),
        (body("by-chat", json!("Hi."), json!({"store": true})), 400),
    ] {
        let refused = gateway.post(RESPONSES, &request).await;
        assert_eq!(refused.status, status, "{refused:?}");
        let message = refused.message();
        assert!(message.contains("send the whole history"), "{message}");
    }
    let target = format!("{RESPONSES}/{}", id(&made));
    gateway.get(&target).await.assert_error(404, "not_found");
}

#[tokio::test]
async fn a_conversation_may_be_no_larger_than_a_request() {
    let simulated = Provider::start().await;
    let config = config(&simulated).with("server.limits.body_bytes", json!("10KiB"));
    let gateway = Gateway::start(config).await;
    let limited = |more: Value| {
        let mut fields = json!({"max_output_tokens": 16});
        let own = more.as_object().unwrap().clone();
        fields.as_object_mut().unwrap().extend(own);
        fields
    };
    let long = "x".repeat(6000);
    let first = ask(&gateway, "by-chat", json!(long), limited(json!({}))).await;
    let more = limited(json!({"previous_response_id": id(&first)}));
    ask(&gateway, "by-chat", json!("Go on."), more.clone()).await;
    let refused = gateway
        .post(RESPONSES, &body("by-chat", json!(long), more))
        .await;
    refused.assert_error(413, "request_too_large");
}

#[tokio::test]
async fn the_kept_part_of_a_large_request_counts_as_memory_until_its_answer_has_ended() {
    const BYTES: usize = 200_000;
    const HELD: &str = "tollgate_request_body_bytes";
    let (_simulated, gateway) = start().await;
    // Its balance does not cover the longest answer, so that a copy of the request gets a limit.
    let key = gateway.key_with(BYTES as u64 / 3 * 2, LONG);
    let long = "word ".repeat(BYTES / 5);
    let large = body("by-chat", json!(long), json!({"stream": true}));
    let large = Request::post(RESPONSES, &large).key(&key);
    let mut connection = gateway.connect().await;
    let stalls = large.orders("stall-after-6");
    connection.write(&stalls.bytes()).await;
    let answer = connection.head().await;
    assert!(answer.header("x-output-limit").is_some(), "{answer:?}");
    // The body itself has been sent and let go.
    ask(&gateway, "by-chat", json!("Hi."), json!({})).await;
    eventually("one copy of the request is counted", async || {
        let held = gateway.sample(HELD).await?;
        let one_copy = BYTES as f64..BYTES as f64 + 1000.0;
        one_copy.contains(&held).then_some(())
    })
    .await;
    ask(&gateway, "by-chat", json!("Hi."), json!({})).await;
    let held = gateway.sample(HELD).await;
    assert!(held >= Some(BYTES as f64), "{held:?}");
    drop(connection);
    gateway.sample_is(HELD, 0.0).await;
}
