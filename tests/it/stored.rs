//! What a provider stores for a caller: found again by the key that made it, where it is, and by
//! no other key.

use crate::support::{
    Act, Answer, Config, Gateway, Provider, RESPONSES, Request, Upstream, eventually, prompt,
    provider,
};
use serde_json::{Value, json};

/// Two providers behind one model, asked in turn, each with two credentials.
async fn two_providers() -> (Provider, Provider, Gateway) {
    let (one, two) = (Provider::start().await, Provider::start().await);
    let settings = |at: &Provider| {
        let mut settings = provider(at.address);
        settings["credentials"] = json!([
            {"name": "first", "secret": "env:TEST_PROVIDER_KEY"},
            {"name": "second", "secret": "env:TEST_OTHER_KEY"},
        ]);
        settings
    };
    let config = Config::new()
        .provider("one", settings(&one))
        .provider("two", settings(&two))
        .model("test-model", json!(["one", "two"]))
        .model("only-one", json!(["one"]))
        .model("only-two", json!(["two"]));
    (one, two, Gateway::start(config).await)
}

async fn one_provider() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let config = Config::of(&provider);
    (provider, Gateway::start(config).await)
}

fn id(answer: &Answer) -> String {
    answer.assert_ok();
    answer.json()["id"].as_str().expect("an id").to_owned()
}

/// Makes a response and returns its identifier.
async fn make(gateway: &Gateway, model: &str, more: Value) -> String {
    id(&gateway.ask(RESPONSES, model, "", more).await)
}

async fn send(gateway: &Gateway, method: &str, target: &str, key: &str) -> Answer {
    gateway.send(&Request::new(method, target).key(key)).await
}

#[tokio::test]
async fn its_maker_gets_it_lists_what_it_answered_and_deletes_it() {
    let (provider, gateway) = one_provider().await;
    let id = make(&gateway, "test-model", json!({})).await;
    let target = format!("{RESPONSES}/{id}");

    let got = gateway.get(&target).await;
    got.assert_ok();
    assert_eq!(got.json()["id"], json!(id));
    assert_eq!(provider.last().uri.path(), target);

    let listed = gateway
        .get(&format!("{target}/input_items?limit=1&user=me&order=asc"))
        .await;
    listed.assert_ok();
    assert_eq!(listed.json()["object"], "list");
    assert_eq!(provider.last().uri.query(), Some("limit=1&order=asc"));

    let deleted = send(&gateway, "DELETE", &target, &gateway.key).await;
    deleted.assert_ok();
    assert_eq!(deleted.json()["deleted"], json!(true));
    gateway.get(&target).await.assert_error(404, "not_found");
}

#[tokio::test]
async fn a_provider_over_http2_is_asked_for_it_with_and_without_a_body() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("providers.sim.http2", json!("always"));
    let gateway = Gateway::start(config).await;
    let id = make(&gateway, "test-model", json!({})).await;
    let target = format!("{RESPONSES}/{id}");
    gateway.get(&target).await.assert_ok();
    let get = Request::new("GET", &target).key(&gateway.key);
    gateway.send(&get.body("{}")).await.assert_ok();
    let deleted = send(&gateway, "DELETE", &target, &gateway.key).await;
    deleted.assert_ok();
    assert_eq!(deleted.header("x-attempts"), None, "{deleted:?}");
}

#[tokio::test]
async fn each_look_up_is_one_of_the_keys_requests_and_of_no_tokens() {
    let (_provider, gateway) = one_provider().await;
    let key = gateway
        .create_key(&["--requests", "3", "--input-tokens", "1000"])
        .await;
    let body = prompt(RESPONSES, "test-model", "hello", json!({}));
    let made = gateway
        .send(&Request::post(RESPONSES, &body).key(&key))
        .await;
    let target = format!("{RESPONSES}/{}", id(&made));
    let left = |answer: &Answer, what: &str| {
        let name = format!("x-ratelimit-remaining-{what}");
        let left = answer.header(&name).expect("a limit");
        left.parse::<u64>().expect("a number")
    };
    let tokens = left(&send(&gateway, "GET", &target, &key).await, "tokens");
    let last = send(&gateway, "GET", &target, &key).await;
    last.assert_ok();
    assert_eq!(left(&last, "requests"), 0);
    assert!(left(&last, "tokens") >= tokens, "{last:?}");
    let refused = send(&gateway, "GET", &target, &key).await;
    refused.assert_error(429, "rate_limit_exceeded");
}

#[tokio::test]
async fn to_another_key_it_does_not_exist_in_any_way_of_asking() {
    let (provider, gateway) = one_provider().await;
    let id = make(&gateway, "test-model", json!({})).await;
    let other = gateway.create_key(&[]).await;
    let asked = provider.received().len();
    for (method, target) in [
        ("GET", format!("{RESPONSES}/{id}")),
        ("DELETE", format!("{RESPONSES}/{id}")),
        ("POST", format!("{RESPONSES}/{id}/cancel")),
        ("GET", format!("{RESPONSES}/{id}/input_items")),
    ] {
        let theirs = send(&gateway, method, &target, &other).await;
        theirs.assert_error(404, "not_found");
        let nobodys = target.replace(&id, "resp_nobody");
        let nobodys = send(&gateway, method, &nobodys, &other).await;
        assert_eq!(theirs.message(), nobodys.message());
    }
    for field in [
        json!({"previous_response_id": id}),
        json!({"conversation": id}),
        json!({"input": [{"type": "item_reference", "id": id}]}),
        json!({"prompt": {"id": id}}),
    ] {
        let mut body = json!({"model": "test-model", "input": "Go on."});
        body.as_object_mut()
            .unwrap()
            .extend(field.as_object().unwrap().clone());
        let answer = gateway
            .send(&Request::post(RESPONSES, &body).key(&other))
            .await;
        answer.assert_error(404, "not_found");
        assert!(answer.message().contains(&id), "{}", answer.message());
    }
    assert_eq!(provider.received().len(), asked, "the provider was asked");
}

#[tokio::test]
async fn a_continuation_goes_where_the_response_is_with_the_same_credential() {
    let (one, two, gateway) = two_providers().await;
    for number in 0..6 {
        let before = one.received().len();
        // Both providers make the same answer of the same request.
        let more = json!({"instructions": number.to_string()});
        let id = make(&gateway, "test-model", more).await;
        let maker = if one.received().len() > before {
            &one
        } else {
            &two
        };
        let made_with = maker.last().headers["authorization"].clone();
        for _ in 0..3 {
            let more = json!({"previous_response_id": id});
            let next = gateway.ask(RESPONSES, "test-model", "", more).await;
            next.assert_ok();
            let body: Value = serde_json::from_slice(&maker.last().body).unwrap();
            assert_eq!(body["previous_response_id"], json!(id));
            assert_eq!(maker.last().headers["authorization"], made_with);
            gateway.get(&format!("{RESPONSES}/{id}")).await.assert_ok();
            assert_eq!(maker.last().headers["authorization"], made_with);
        }
    }
}

#[tokio::test]
async fn a_model_that_is_not_served_there_is_refused_with_the_reason() {
    let (_one, _two, gateway) = two_providers().await;
    let id = make(&gateway, "only-one", json!({})).await;
    let more = json!({"previous_response_id": id});
    let answer = gateway.ask(RESPONSES, "only-two", "", more).await;
    answer.assert_error(400, "invalid_request");
    assert!(
        answer.message().contains("only-two"),
        "{}",
        answer.message()
    );
}

#[tokio::test]
async fn a_streamed_one_is_known_and_one_that_is_not_stored_is_not() {
    let (_provider, gateway) = one_provider().await;
    let streamed = gateway
        .ask(RESPONSES, "test-model", "", json!({"stream": true}))
        .await;
    streamed.assert_ok();
    let events = streamed.events();
    let streamed = events[0]["response"]["id"].as_str().unwrap();
    gateway
        .get(&format!("{RESPONSES}/{streamed}"))
        .await
        .assert_ok();

    let unstored = make(&gateway, "test-model", json!({"store": false})).await;
    gateway
        .get(&format!("{RESPONSES}/{unstored}"))
        .await
        .assert_error(404, "not_found");
}

#[tokio::test]
async fn it_is_known_after_a_restart() {
    let (provider, mut gateway) = one_provider().await;
    let id = make(&gateway, "test-model", json!({})).await;
    let (key, config) = (gateway.key.clone(), gateway.config());
    gateway.signal("TERM").await;
    assert!(gateway.ended().await.success());
    let again = Gateway::start_in(gateway.folder, config).await;
    send(&again, "GET", &format!("{RESPONSES}/{id}"), &key)
        .await
        .assert_ok();
    drop(provider);
}

#[tokio::test]
async fn a_retrieved_response_is_not_charged_again() {
    let (_provider, gateway) = one_provider().await;
    let id = make(&gateway, "test-model", json!({})).await;
    gateway.get(&format!("{RESPONSES}/{id}")).await.assert_ok();
    let line = gateway
        .access_line(|line| line["path"] == json!(format!("{RESPONSES}/{id}")))
        .await;
    assert_eq!(line["charged"], Value::Null);
    assert_eq!(line["outcome"], "completed");
}

#[tokio::test]
async fn a_body_that_comes_with_it_stays_here() {
    let (provider, gateway) = one_provider().await;
    let id = make(&gateway, "test-model", json!({})).await;
    let mut connection = gateway.connect().await;
    for (method, end) in [("POST", "/cancel"), ("GET", ""), ("DELETE", "")] {
        let request = Request::new(method, &format!("{RESPONSES}/{id}{end}"))
            .key(&gateway.key)
            .header("content-type", "application/json")
            .body(r#"{"reason":"none"}"#);
        connection.send(&request).await;
        let received = provider.last();
        assert_eq!(received.method, method);
        assert!(received.body.is_empty(), "{received:?}");
        assert_eq!(received.headers["content-length"], "0", "{received:?}");
        let encoding = received.headers.get("transfer-encoding");
        assert_eq!(encoding, None, "{received:?}");
    }
    let large = Request::get(&format!("{RESPONSES}/{id}"))
        .key(&gateway.key)
        .body(vec![b' '; 70_000]);
    let asked = provider.received().len();
    gateway
        .send(&large)
        .await
        .assert_error(413, "request_too_large");
    assert_eq!(provider.received().len(), asked, "the provider was asked");
    eventually("no request open", async || {
        (gateway.sample("tollgate_requests_in_flight").await == Some(0.0)).then_some(())
    })
    .await;
}

/// The identifiers of what a response answered with.
fn items(response: &Value) -> Vec<String> {
    let output = response["output"].as_array().expect("items");
    let ids = output.iter().map(|item| item["id"].as_str());
    ids.map(|id| id.expect("an id").to_owned()).collect()
}

#[tokio::test]
async fn items_of_a_response_are_owned_by_its_maker_alone() {
    let (one, two, gateway) = two_providers().await;
    let other = gateway.create_key(&[]).await;
    for (number, stream) in [false, true].into_iter().enumerate() {
        let before = one.received().len();
        let thinking = json!({"effort": "high", "summary": "auto"});
        let more =
            json!({"instructions": number.to_string(), "stream": stream, "reasoning": thinking});
        let answer = gateway.ask(RESPONSES, "test-model", "", more).await;
        answer.assert_ok();
        let made = match stream {
            true => items(&answer.events().last().expect("an event")["response"]),
            false => items(&answer.json()),
        };
        assert_eq!(made.len(), 2, "{made:?}");
        let is_first = one.received().len() > before;
        let maker = if is_first { &one } else { &two };
        let made_with = maker.last().headers["authorization"].clone();
        for id in made {
            let reference = json!({"type": "item_reference", "id": id});
            let again = json!({"role": "user", "content": "Go on."});
            let body = json!({"model": "test-model", "input": [reference, again]});
            for _ in 0..2 {
                gateway.post(RESPONSES, &body).await.assert_ok();
                assert_eq!(maker.last().headers["authorization"], made_with);
                let sent: Value = serde_json::from_slice(&maker.last().body).unwrap();
                assert_eq!(sent["input"][0]["id"], json!(id));
            }
            let theirs = Request::post(RESPONSES, &body).key(&other);
            gateway.send(&theirs).await.assert_error(404, "not_found");
        }
    }
}

/// Every kind of item that an answer can hold, with contents where it `holds` them.
fn typed_items(id: &str, holds: bool) -> Vec<Value> {
    let contents = [
        (
            "reasoning",
            json!({"summary": [], "encrypted_content": "gAAA"}),
        ),
        ("compaction", json!({"encrypted_content": "gAAA"})),
        (
            "web_search_call",
            json!({"action": {"type": "search", "query": "tolls"}}),
        ),
        (
            "file_search_call",
            json!({"queries": ["tolls"], "results": []}),
        ),
        (
            "message",
            json!({"role": "assistant", "content": [{"type": "output_text", "text": "Hi.", "annotations": []}]}),
        ),
        (
            "function_call",
            json!({"call_id": "c", "name": "f", "arguments": "{}"}),
        ),
    ];
    let item = |(kind, more): (&str, Value)| {
        let mut item = json!({"type": kind, "id": id, "status": "completed"});
        if let (true, Value::Object(more)) = (holds, more) {
            item.as_object_mut().unwrap().extend(more);
        }
        item
    };
    contents.into_iter().map(item).collect()
}

#[tokio::test]
async fn an_item_of_another_keys_does_not_exist_in_whatever_item_it_is_named() {
    let (provider, gateway) = one_provider().await;
    let other = gateway.create_key(&[]).await;
    let thinking = json!({"reasoning": {"effort": "high", "summary": "auto"}});
    let answer = gateway.ask(RESPONSES, "test-model", "", thinking).await;
    answer.assert_ok();
    let id = items(&answer.json()).remove(0);
    let body = |item: &Value| {
        let user = json!({"role": "user", "content": "Go on."});
        json!({"model": "test-model", "input": [user, item]})
    };
    let before = provider.received().len();
    for holds in [true, false] {
        for item in typed_items(&id, holds) {
            let theirs = Request::post(RESPONSES, &body(&item)).key(&other);
            let refused = gateway.send(&theirs).await;
            assert_eq!(refused.error(), (404, "not_found".to_owned()), "{item}");
        }
    }
    for item in typed_items("rs_unheard_of", false) {
        let refused = gateway.post(RESPONSES, &body(&item)).await;
        assert_eq!(refused.error(), (404, "not_found".to_owned()), "{item}");
    }
    assert_eq!(provider.received().len(), before);
    // The maker's own, and items without a known maker that have their contents.
    let [own, whole] = [typed_items(&id, true), typed_items("rs_unheard_of", true)];
    for item in own.iter().chain(&whole).chain(&typed_items(&id, false)) {
        let passed = gateway.post(RESPONSES, &body(item)).await;
        assert_ne!(passed.header("x-model"), None, "{item}: {passed:?}");
    }
    assert!(provider.received().len() > before);
}

#[tokio::test]
async fn items_of_a_response_that_is_not_stored_have_no_owner() {
    let (_provider, gateway) = one_provider().await;
    let answer = gateway
        .ask(RESPONSES, "test-model", "", json!({"store": false}))
        .await;
    answer.assert_ok();
    for id in items(&answer.json()) {
        let reference = json!({"type": "item_reference", "id": id});
        let body = json!({"model": "test-model", "input": [reference]});
        let answer = gateway.post(RESPONSES, &body).await;
        answer.assert_error(404, "not_found");
    }
}

#[tokio::test]
async fn a_container_in_which_a_tool_ran_is_its_makers_whether_the_response_is_stored_or_not() {
    let call = json!({"type": "code_interpreter_call", "id": "ci_1", "container_id": "cntr_1",
        "code": "1", "outputs": [], "status": "completed"});
    let answer = json!({"id": "resp_1", "object": "response", "created_at": 1, "model": "m",
        "status": "completed", "output": [call],
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}})
    .to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        answer.len()
    );
    let upstream = Upstream::playing([Act::send(head + &answer)]).await;
    let config = Config::new()
        .provider("raw", provider(upstream.address))
        .model("test-model", json!(["raw"]));
    let gateway = Gateway::start(config).await;
    let other = gateway.create_key(&[]).await;
    let body = |input: Value| json!({"model": "test-model", "store": false, "input": input});
    let user = json!({"role": "user", "content": "Go on."});
    let on = body(json!([user, call]));
    gateway
        .post(RESPONSES, &on)
        .await
        .assert_error(404, "not_found");
    gateway
        .post(RESPONSES, &body(json!([user])))
        .await
        .assert_ok();
    gateway.post(RESPONSES, &on).await.assert_ok();
    let theirs = Request::post(RESPONSES, &on).key(&other);
    gateway.send(&theirs).await.assert_error(404, "not_found");
}

#[tokio::test]
async fn an_id_of_nothing_of_the_key_is_refused_with_the_name_of_its_field() {
    let (provider, gateway) = one_provider().await;
    let item = |item: Value| json!({"input": [item]});
    let file = json!({"role": "user", "content": [{"type": "input_file", "file_id": "file_1"}]});
    let interpreter = json!({"type": "code_interpreter", "container": "cntr_1"});
    let search = json!({"type": "file_search", "vector_store_ids": ["vs_1"]});
    for (field, more) in [
        (
            "previous_response_id",
            json!({"previous_response_id": "resp_1"}),
        ),
        ("conversation", json!({"conversation": {"id": "conv_1"}})),
        ("prompt", json!({"prompt": {"id": "pmpt_1"}})),
        ("id", item(json!({"type": "item_reference", "id": "msg_1"}))),
        ("file_id", item(file)),
        ("container", json!({"tools": [interpreter]})),
        ("vector_store_ids", json!({"tools": [search]})),
    ] {
        let answer = gateway.ask(RESPONSES, "test-model", "", more).await;
        answer.assert_error(404, "not_found");
        assert_eq!(answer.json()["error"]["param"], field, "{answer:?}");
        assert!(
            answer.message().contains(&format!("'{field}' names")),
            "{answer:?}"
        );
    }
    assert!(provider.received().is_empty());
}
