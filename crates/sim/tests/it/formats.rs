//! What the three formats answer: the same whether streamed or not, the same every time.

use crate::client::{ALL, CHAT, MESSAGES, RESPONSES, Reply, Server, request};
use serde_json::{Value, json};

/// Text, call arguments and usage of an answer, however it came.
#[derive(Debug, Default, PartialEq)]
struct Said {
    text: String,
    calls: Vec<(String, String)>,
    stop: Value,
    usage: Value,
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]})
}

/// A tool named `Bash`, as each format offers one.
fn shell(path: &str) -> Value {
    match path {
        CHAT => json!([{"type": "function", "function": {"name": "Bash", "parameters": schema()}}]),
        RESPONSES => json!([{"type": "function", "name": "Bash", "parameters": schema()}]),
        _ => json!([{"name": "Bash", "input_schema": schema()}]),
    }
}

fn from_json(path: &str, body: &Value) -> Said {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    match path {
        CHAT => Said {
            text: text(&body["choices"][0]["message"]["content"]),
            calls: list(&body["choices"][0]["message"]["tool_calls"])
                .map(|call| (text(&call["id"]), text(&call["function"]["arguments"])))
                .collect(),
            stop: body["choices"][0]["finish_reason"].clone(),
            usage: body["usage"].clone(),
        },
        RESPONSES => Said {
            text: list(&body["output"])
                .map(|item| text(&item["content"][0]["text"]))
                .collect(),
            calls: list(&body["output"])
                .filter(|item| item["type"] == "function_call")
                .map(|item| (text(&item["call_id"]), text(&item["arguments"])))
                .collect(),
            stop: body["status"].clone(),
            usage: body["usage"].clone(),
        },
        _ => Said {
            text: list(&body["content"])
                .map(|block| text(&block["text"]))
                .collect(),
            calls: list(&body["content"])
                .filter(|block| block["type"] == "tool_use")
                .map(|block| (text(&block["id"]), block["input"].to_string()))
                .collect(),
            stop: body["stop_reason"].clone(),
            usage: body["usage"].clone(),
        },
    }
}

fn from_events(path: &str, events: &[Value]) -> Said {
    let mut said = Said::default();
    for event in events {
        match path {
            CHAT => said.chat(event),
            RESPONSES => said.responses(event),
            _ => said.messages(event),
        }
    }
    said
}

impl Said {
    fn chat(&mut self, chunk: &Value) {
        let delta = &chunk["choices"][0]["delta"];
        self.text += delta["content"].as_str().unwrap_or("");
        for call in list(&delta["tool_calls"]) {
            if let Some(id) = call["id"].as_str() {
                self.calls.push((id.to_owned(), String::new()));
            }
            let at = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
            self.calls[at].1 += call["function"]["arguments"].as_str().unwrap();
        }
        if !chunk["choices"][0]["finish_reason"].is_null() {
            self.stop = chunk["choices"][0]["finish_reason"].clone();
        }
        if chunk["usage"].is_object() {
            self.usage = chunk["usage"].clone();
        }
    }

    fn responses(&mut self, event: &Value) {
        match event["type"].as_str().unwrap() {
            "response.output_text.delta" => self.text += event["delta"].as_str().unwrap(),
            "response.output_item.added" if event["item"]["type"] == "function_call" => {
                let id = event["item"]["call_id"].as_str().unwrap();
                self.calls.push((id.to_owned(), String::new()));
            }
            "response.function_call_arguments.delta" => {
                self.calls.last_mut().unwrap().1 += event["delta"].as_str().unwrap();
            }
            "response.completed" | "response.incomplete" => {
                self.stop = event["response"]["status"].clone();
                self.usage = event["response"]["usage"].clone();
            }
            _ => {}
        }
    }

    fn messages(&mut self, event: &Value) {
        self.text += event["delta"]["text"].as_str().unwrap_or("");
        if let Some(id) = event["content_block"]["id"].as_str() {
            self.calls.push((id.to_owned(), String::new()));
        }
        if let Some(part) = event["delta"]["partial_json"].as_str() {
            self.calls.last_mut().unwrap().1 += part;
        }
        if event["type"] == "message_delta" {
            self.stop = event["delta"]["stop_reason"].clone();
            self.usage = event["usage"].clone();
        }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

async fn streamed(server: &Server, path: &str, body: &Value) -> Reply {
    let mut body = body.clone();
    body["stream"] = json!(true);
    if path == CHAT {
        body["stream_options"] = json!({"include_usage": true});
    }
    let reply = server.post(path, &body).await;
    assert_eq!(reply.status(), 200, "{}", reply.text());
    assert!(reply.whole());
    reply
}

/// Requests for all that an answer can hold, in the format of `path`.
fn requests(path: &str) -> Vec<Value> {
    let limit = match path {
        CHAT => json!({"max_completion_tokens": 2}),
        RESPONSES => json!({"max_output_tokens": 16}),
        _ => json!({"max_tokens": 2}),
    };
    let long = "a b c d e f g h i j k l m n o p q r s t u v w";
    let shape = match path {
        CHAT => {
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema()}}})
        }
        RESPONSES => {
            json!({"text": {"format": {"type": "json_schema", "name": "n", "schema": schema()}}})
        }
        _ => json!({"output_config": {"format": {"type": "json_schema", "schema": schema()}}}),
    };
    let thinking = match path {
        CHAT => json!({"reasoning_effort": "low"}),
        RESPONSES => json!({"reasoning": {"effort": "low", "summary": "auto"}}),
        _ => json!({"thinking": {"type": "adaptive"}}),
    };
    vec![
        request(path, "héllo wörld → 漢字", json!({})),
        request(path, long, limit),
        request(path, "Rome", shape),
        request(path, "think", thinking),
        request(path, "run: echo hello", json!({"tools": shell(path)})),
        request(
            path,
            "in parallel\nrun: echo a\nrun: echo b",
            json!({"tools": shell(path)}),
        ),
    ]
}

#[tokio::test]
async fn a_stream_says_what_the_body_says() {
    let server = Server::plain().await;
    for path in ALL {
        for body in requests(path) {
            let whole = from_json(path, &server.post(path, &body).await.json());
            let stream = from_events(path, &streamed(&server, path, &body).await.events());
            assert_eq!(whole, stream, "{path} {body}");
            assert!(
                !whole.text.is_empty() || !whole.calls.is_empty(),
                "{path} {body}"
            );
        }
    }
}

#[tokio::test]
async fn the_same_request_gets_the_same_bytes_again() {
    let server = Server::plain().await;
    let other = Server::plain().await;
    for path in ALL {
        for body in requests(path) {
            assert_eq!(
                server.post(path, &body).await.text(),
                other.post(path, &body).await.text()
            );
            let streams = (
                streamed(&server, path, &body).await,
                streamed(&other, path, &body).await,
            );
            assert_eq!(streams.0.text(), streams.1.text());
        }
    }
}

#[tokio::test]
async fn a_limit_ends_the_answer_and_is_used_up_exactly() {
    let server = Server::plain().await;
    for (path, pointer, reason, used) in [
        (CHAT, "/usage/completion_tokens", "length", 2),
        (RESPONSES, "/usage/output_tokens", "incomplete", 16),
        (MESSAGES, "/usage/output_tokens", "max_tokens", 2),
    ] {
        let reply = server.post(path, &requests(path)[1]).await.json();
        assert_eq!(from_json(path, &reply).stop, reason);
        assert_eq!(reply.pointer(pointer), Some(&json!(used)), "{path}");
    }
}

#[tokio::test]
async fn an_agents_loop_runs_the_command_and_repeats_its_output() {
    let server = Server::plain().await;
    let ask = request(
        MESSAGES,
        "run: echo hello",
        json!({"tools": shell(MESSAGES)}),
    );
    let first = server.post(MESSAGES, &ask).await.json();
    assert_eq!(first["stop_reason"], "tool_use");
    assert_eq!(
        first["content"][0]["input"],
        json!({"command": "echo hello"})
    );
    let mut next = ask.clone();
    let messages = next["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": first["content"]}));
    messages.push(json!({"role": "user", "content": [{
        "type": "tool_result", "tool_use_id": first["content"][0]["id"], "content": "hello-from-shell",
    }]}));
    let second = server.post(MESSAGES, &next).await.json();
    assert_eq!(second["stop_reason"], "end_turn");
    assert_eq!(
        second["content"][0]["text"],
        "The tool answered: hello-from-shell"
    );
}

#[tokio::test]
async fn usage_comes_in_a_chat_stream_only_when_asked_for() {
    let server = Server::plain().await;
    let reply = server
        .post(CHAT, &request(CHAT, "hi", json!({"stream": true})))
        .await;
    let events = reply.events();
    assert!(events.iter().all(|event| event.get("usage").is_none()));
    assert_eq!(events.last(), Some(&json!("[DONE]")));
    let asked = streamed(&server, CHAT, &request(CHAT, "hi", json!({})))
        .await
        .events();
    let with_usage: Vec<_> = asked
        .iter()
        .filter(|event| event["usage"].is_object())
        .collect();
    assert_eq!(with_usage.len(), 1);
    assert_eq!(with_usage[0]["choices"], json!([]));
}

#[tokio::test]
async fn events_come_in_the_order_of_the_real_ones() {
    let server = Server::plain().await;
    let thinking = json!({"thinking": {"type": "adaptive"}});
    let messages = streamed(&server, MESSAGES, &request(MESSAGES, "hi", thinking))
        .await
        .events();
    let mut kinds: Vec<_> = messages
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "message_start",
            "content_block_start",
            "ping",
            "content_block_delta",
            "content_block_stop",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    let reasoning = json!({"reasoning": {"effort": "low", "summary": "auto"}});
    let events = streamed(&server, RESPONSES, &request(RESPONSES, "hi", reasoning))
        .await
        .events();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], json!(number));
    }
    let mut kinds: Vec<_> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
}

#[tokio::test]
async fn choices_stop_sequences_and_display_are_honoured() {
    let server = Server::plain().await;
    let three = server
        .post(CHAT, &request(CHAT, "hi", json!({"n": 3})))
        .await
        .json();
    assert_eq!(three["choices"].as_array().unwrap().len(), 3);
    assert_ne!(
        three["choices"][0]["message"]["content"],
        three["choices"][2]["message"]["content"]
    );
    let stop = json!({"stop_sequences": ["big"]});
    let stopped = server
        .post(MESSAGES, &request(MESSAGES, "a big deal", stop))
        .await
        .json();
    assert_eq!(stopped["stop_sequence"], "big");
    assert_eq!(stopped["content"][0]["text"], "You said: a ");
    let omitted = json!({"thinking": {"type": "adaptive", "display": "omitted"}});
    let silent = server
        .post(MESSAGES, &request(MESSAGES, "hi", omitted))
        .await
        .json();
    assert_eq!(silent["content"][0]["thinking"], "");
    assert!(silent["content"][0]["signature"].as_str().unwrap().len() > 40);
}

#[tokio::test]
async fn a_marked_prompt_is_written_to_the_cache_and_then_read_from_it() {
    let server = Server::plain().await;
    let system =
        json!([{"type": "text", "text": "x".repeat(8000), "cache_control": {"type": "ephemeral"}}]);
    let mut body = request(MESSAGES, "hi", json!({"system": system}));
    let first = server.post(MESSAGES, &body).await.json();
    assert_eq!(first["usage"]["cache_creation_input_tokens"], 2000);
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": "hello"}));
    messages.push(json!({"role": "user", "content": "more"}));
    let second = server.post(MESSAGES, &body).await.json();
    assert!(second["usage"]["cache_read_input_tokens"].as_u64().unwrap() >= 2000);
    assert_eq!(second["usage"]["cache_creation_input_tokens"], 0);
}

#[tokio::test]
async fn a_stored_response_can_be_fetched_continued_and_deleted() {
    let server = Server::plain().await;
    let made = server
        .post(RESPONSES, &request(RESPONSES, "remember", json!({})))
        .await
        .json();
    let id = made["id"].as_str().unwrap();
    let key = "authorization: Bearer k\r\n";
    let path = format!("{RESPONSES}/{id}");
    assert_eq!(server.send("GET", &path, key, "").await.json(), made);
    let items = server
        .send("GET", &format!("{path}/input_items"), key, "")
        .await
        .json();
    assert_eq!(items["data"][0]["content"], "remember");
    let next = json!({"previous_response_id": id});
    assert_eq!(
        server
            .post(RESPONSES, &request(RESPONSES, "more", next.clone()))
            .await
            .status(),
        200
    );
    assert_eq!(
        server
            .send("POST", &format!("{path}/cancel"), key, "{}")
            .await
            .status(),
        400
    );
    assert_eq!(
        server.send("DELETE", &path, key, "").await.json()["deleted"],
        true
    );
    assert_eq!(server.send("GET", &path, key, "").await.status(), 404);
    let orphan = server
        .post(RESPONSES, &request(RESPONSES, "more", next))
        .await
        .json();
    assert_eq!(orphan["error"]["code"], "previous_response_not_found");
    let kept = server
        .post(RESPONSES, &request(RESPONSES, "x", json!({"store": false})))
        .await
        .json();
    let path = format!("{RESPONSES}/{}", kept["id"].as_str().unwrap());
    assert_eq!(server.send("GET", &path, key, "").await.status(), 404);
}

/// The search of the web, as each format offers it.
fn search(path: &str) -> Value {
    match path {
        RESPONSES => json!({
            "tools": [{"type": "web_search", "filters": {"allowed_domains": ["example.net"]}}],
            "include": ["web_search_call.action.sources"],
        }),
        _ => json!({"tools": [
            {"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["example.net"]},
        ]}),
    }
}

#[tokio::test]
async fn the_web_is_searched_where_it_is_offered_and_asked_for() {
    let server = Server::plain().await;
    for path in [RESPONSES, MESSAGES] {
        let offered = request(path, "Search the web for tolls.", search(path));
        let body = server.post(path, &offered).await.json();
        let said = from_json(path, &body);
        assert_eq!(
            said.text,
            "Page 1 of example.net says: Search the web for tolls."
        );
        let text = body.to_string();
        for word in ["https://example.net/page-1", "https://example.net/page-2"] {
            assert!(text.contains(word), "{path}: {text}");
        }
        let mut streamed = offered.clone();
        streamed["stream"] = json!(true);
        let events = server.post(path, &streamed).await.events();
        let events: String = events.iter().map(Value::to_string).collect();
        assert!(events.contains("https://example.net/page-2"), "{events}");

        let unasked = request(path, "Say something.", search(path));
        let body = server.post(path, &unasked).await.json();
        assert!(!body.to_string().contains("page-1"), "{body}");
        let not_offered = request(path, "Search the web for tolls.", json!({}));
        let body = server.post(path, &not_offered).await.json();
        assert!(!body.to_string().contains("page-1"), "{body}");
    }
}

#[tokio::test]
async fn a_search_of_another_provider_is_refused_when_it_comes_back() {
    let server = Server::plain().await;
    let offered = request(MESSAGES, "Search the web for tolls.", search(MESSAGES));
    let answer = server.post(MESSAGES, &offered).await.json();
    let turns = |content: &Value| {
        json!([
            {"role": "user", "content": "Search the web for tolls."},
            {"role": "assistant", "content": content},
            {"role": "user", "content": "Count what you looked up."},
        ])
    };
    let mut next = offered.clone();
    next["messages"] = turns(&answer["content"]);
    let body = server.post(MESSAGES, &next).await.json();
    assert_eq!(
        from_json(MESSAGES, &body).text,
        "Searches that came back: 1."
    );
    for (pointer, forged) in [
        ("/1/content/0/encrypted_content", "tg1.AAAA"),
        ("/1/tool_use_id", "srvtoolu_other"),
        ("/2/citations/0/encrypted_index", "Eo8BCioIAAAA"),
    ] {
        let mut content = answer["content"].clone();
        *content.pointer_mut(pointer).expect(pointer) = json!(forged);
        next["messages"] = turns(&content);
        let reply = server.post(MESSAGES, &next).await;
        assert_eq!(reply.status(), 400, "{pointer}: {}", reply.text());
    }
}
