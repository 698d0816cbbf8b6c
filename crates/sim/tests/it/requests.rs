//! What the simulated provider refuses, and in whose words; what it remembers.

use crate::client::{ALL, CHAT, MESSAGES, RESPONSES, Server, request};
use serde_json::{Value, json};
use tollgate_sim::Sim;

#[tokio::test]
async fn a_faulty_request_is_refused_in_the_vendors_words() {
    let server = Server::plain().await;
    let user = json!([{"role": "user", "content": "x"}]);
    let cases: Vec<(&str, Value, &str)> = vec![
        (
            CHAT,
            json!({"messages": user}),
            "you must provide a model parameter",
        ),
        (
            CHAT,
            json!({"model": "m"}),
            "Missing required parameter: 'messages'.",
        ),
        (CHAT, json!({"model": "m", "messages": []}), "empty array"),
        (
            CHAT,
            request(CHAT, "x", json!({"stream": "yes"})),
            "Invalid type for 'stream': expected a boolean, but got a string instead.",
        ),
        (
            CHAT,
            request(CHAT, "x", json!({"max_tokens": 0})),
            "Invalid 'max_tokens': integer below minimum value. Expected a value >= 1, but got 0 instead.",
        ),
        (
            CHAT,
            request(CHAT, "x", json!({"max_tokens": 1.5})),
            "expected an integer, but got a decimal number",
        ),
        (
            CHAT,
            request(CHAT, "x", json!({"tool_choice": "auto"})),
            "'tool_choice' is only allowed when 'tools' are specified.",
        ),
        (
            CHAT,
            request(CHAT, "x", json!({"invented": 1})),
            "Unknown parameter: 'invented'.",
        ),
        (
            RESPONSES,
            json!({"model": "m"}),
            "Missing required parameter: 'input'.",
        ),
        (
            RESPONSES,
            request(RESPONSES, "x", json!({"max_output_tokens": 15})),
            "Expected a value >= 16",
        ),
        (
            RESPONSES,
            json!({"model": "m", "input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}),
            "No tool call found for function call output with call_id c.",
        ),
        (
            RESPONSES,
            json!({"model": "m", "input": [{"type": "reasoning", "summary": [], "encrypted_content": "foreign"}]}),
            "could not be verified",
        ),
        (
            MESSAGES,
            json!({"model": "m", "messages": user}),
            "max_tokens: Field required",
        ),
        (
            MESSAGES,
            request(MESSAGES, "x", json!({"max_tokens": -1})),
            "max_tokens: Input should be greater than or equal to 1",
        ),
        (
            MESSAGES,
            request(MESSAGES, "x", json!({"temperature": 1.5})),
            "temperature: Input should be less than or equal to 1",
        ),
        (
            MESSAGES,
            request(MESSAGES, "x", json!({"n": 1})),
            "n: Extra inputs are not permitted",
        ),
        (
            MESSAGES,
            request(
                MESSAGES,
                "",
                json!({"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]}),
            ),
            "text content blocks must be non-empty",
        ),
        (
            MESSAGES,
            request(
                MESSAGES,
                "x",
                json!({"thinking": {"type": "enabled", "budget_tokens": 5000}}),
            ),
            "must be greater than `thinking.budget_tokens`",
        ),
        (
            MESSAGES,
            request(
                MESSAGES,
                "x",
                json!({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "foreign"}]}, {"role": "user", "content": "y"}]}),
            ),
            "messages.1.content.0: Invalid `signature` in `thinking` block",
        ),
    ];
    for (path, body, wanted) in cases {
        let reply = server.post(path, &body).await;
        let reported = reply.json();
        assert_eq!(reply.status(), 400, "{body}: {reported}");
        let message = reported["error"]["message"].as_str().unwrap();
        assert!(
            message.contains(wanted),
            "{path}: wanted '{wanted}', got '{message}'"
        );
        assert_eq!(reported["error"]["type"], "invalid_request_error");
        assert_eq!(reported["type"] == "error", path == MESSAGES);
    }
}

#[tokio::test]
async fn broken_json_is_refused_on_every_endpoint() {
    let server = Server::plain().await;
    for path in ALL {
        for body in ["", "{", "[]", "\"x\"", "{\"model\":1}"] {
            let reply = server
                .send("POST", path, "authorization: Bearer k\r\n", body)
                .await;
            assert_eq!(reply.status(), 400, "{path} {body}");
            assert!(reply.json()["error"]["message"].is_string());
        }
    }
}

#[tokio::test]
async fn without_a_credential_of_the_vendors_form_there_is_no_answer() {
    let server = Server::plain().await;
    for path in ALL {
        let body = request(path, "hi", json!({})).to_string();
        for headers in [
            "",
            "authorization: Bearer \r\n",
            "authorization: Basic eA==\r\n",
        ] {
            assert_eq!(
                server.send("POST", path, headers, &body).await.status(),
                401,
                "{path} {headers}"
            );
        }
        let by_key = server
            .send("POST", path, "x-api-key: k\r\n", &body)
            .await
            .status();
        assert_eq!(by_key, if path == MESSAGES { 200 } else { 401 });
    }
}

#[tokio::test]
async fn unknown_paths_and_wrong_methods_are_refused() {
    let server = Server::plain().await;
    let key = "authorization: Bearer k\r\n";
    for path in ["/", "/v1", "/v1/nothing", "/api/hello", "/v1/responses/x/y"] {
        assert_eq!(
            server.send("GET", path, key, "").await.status(),
            404,
            "{path}"
        );
    }
    assert_eq!(server.send("GET", CHAT, key, "").await.status(), 405);
    assert_eq!(
        server.send("POST", "/v1/models", key, "{}").await.status(),
        405
    );
}

#[tokio::test]
async fn models_and_counts_come_in_the_shape_of_the_vendor() {
    let server = Server::plain().await;
    let key = "authorization: Bearer k\r\n";
    let open = server.send("GET", "/v1/models", key, "").await.json();
    assert_eq!(
        (&open["object"], &open["data"][0]["object"]),
        (&json!("list"), &json!("model"))
    );
    let headers = format!("{key}anthropic-version: 2023-06-01\r\n");
    let other = server.send("GET", "/v1/models", &headers, "").await.json();
    assert_eq!(
        (&other["has_more"], &other["data"][0]["type"]),
        (&json!(false), &json!("model"))
    );
    let mut body = request(MESSAGES, "how many?", json!({}));
    let refused = server.post("/v1/messages/count_tokens", &body).await;
    assert_eq!(refused.status(), 400);
    let answered = server.post(MESSAGES, &body).await.json();
    body.as_object_mut().unwrap().shift_remove("max_tokens");
    let counted = server.post("/v1/messages/count_tokens", &body).await.json();
    assert_eq!(counted["input_tokens"], answered["usage"]["input_tokens"]);
}

#[tokio::test]
async fn headers_are_those_of_the_vendor_and_ids_differ_per_request() {
    let server = Server::plain().await;
    let body = request(CHAT, "hi", json!({}));
    let first = server.post(CHAT, &body).await;
    let second = server.post(CHAT, &body).await;
    assert_ne!(
        first.header("x-request-id").unwrap(),
        second.header("x-request-id").unwrap()
    );
    assert!(first.header("openai-processing-ms").is_some());
    let message = server
        .post(MESSAGES, &request(MESSAGES, "hi", json!({})))
        .await;
    assert!(message.header("request-id").unwrap().starts_with("req_"));
    assert!(
        message
            .header("anthropic-ratelimit-requests-remaining")
            .is_some()
    );
}

#[tokio::test]
async fn the_last_requests_are_remembered_as_they_arrived() {
    let server = Server::start(Sim::builder().remember(2)).await;
    for said in ["one", "two", "three"] {
        server.post(CHAT, &request(CHAT, said, json!({}))).await;
    }
    let received = server.handle.received();
    let said: Vec<_> = received
        .iter()
        .map(|one| {
            serde_json::from_slice::<Value>(&one.body).unwrap()["messages"][0]["content"].clone()
        })
        .collect();
    assert_eq!(said, ["two", "three"]);
    assert_eq!(received[0].headers["authorization"], "Bearer test");
    assert_eq!(received[0].uri, CHAT);
    let counters = server.handle.counters();
    assert_eq!((counters.requests, counters.left_early), (3, 0));
}
