//! Searches of the web that a provider makes by itself, for a caller of another format.

use super::{CHAT, MESSAGES, RESPONSES, streamed_text};
use crate::support::{Answer, Config, Gateway, Provider, prompt, provider};
use serde_json::{Value, json};

const SAID: &str = "Perform a web search for the query: tollgates";
const FOUND: &str = "Page 1 of example.com says: Perform a web search for the query: tollgates";

/// A caller, the model of the other format, the one of its own, and what stands between two
/// turns of its history.
const WAYS: [(&str, &str, &str, &str); 2] = [
    (MESSAGES, "by-responses", "by-messages", "messages"),
    (RESPONSES, "by-messages", "by-responses", "input"),
];

/// A provider that is asked in one format for each model; `searches`: it has the tool.
async fn gateway(searches: bool) -> (Provider, Gateway) {
    let simulated = Provider::start().await;
    let config =
        ["chat", "responses", "messages"]
            .into_iter()
            .fold(Config::new(), |config, format| {
                let mut settings = provider(simulated.address);
                settings["formats"] = json!([format]);
                if searches && format != "chat" {
                    settings["capabilities"] = json!({format: {"web_search": true}});
                }
                config
                    .provider(&format!("p-{format}"), settings)
                    .model(&format!("by-{format}"), json!([format!("p-{format}")]))
            });
    (simulated, Gateway::start(config).await)
}

/// The search as a caller of each format offers and demands it.
fn offer(path: &str) -> Value {
    match path {
        // Claude Code's search is a request of its own, of this shape.
        MESSAGES => json!({
            "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 8}],
            "tool_choice": {"type": "tool", "name": "web_search"},
        }),
        _ => json!({
            "tools": [{"type": "web_search"}],
            "tool_choice": {"type": "web_search"},
            "include": ["web_search_call.action.sources", "reasoning.encrypted_content"],
            "store": false,
        }),
    }
}

/// The search beside a tool of the caller's, so that something is left without it.
fn offer_beside(path: &str) -> Value {
    let mut more = offer(path);
    let own = match path {
        MESSAGES => json!({"name": "look", "input_schema": {"type": "object"}}),
        _ => json!({"type": "function", "name": "look", "parameters": {"type": "object"}}),
    };
    more["tools"].as_array_mut().unwrap().push(own);
    more["tool_choice"] = Value::Null;
    more
}

/// Blocks or items, of a whole answer.
fn parts(path: &str, answer: &Value) -> Vec<Value> {
    let list = if path == MESSAGES {
        "content"
    } else {
        "output"
    };
    answer[list].as_array().expect("a list").clone()
}

fn of_type<'a>(parts: &'a [Value], kind: &str) -> &'a Value {
    let mut found = parts.iter().filter(|part| part["type"] == kind);
    let first = found.next();
    assert!(found.next().is_none(), "several {kind} in {parts:?}");
    first.unwrap_or_else(|| panic!("no {kind} in {parts:?}"))
}

async fn ask(gateway: &Gateway, path: &str, model: &str, said: &str, more: Value) -> Answer {
    gateway.post(path, &prompt(path, model, said, more)).await
}

fn sent(simulated: &Provider) -> Value {
    serde_json::from_slice(&simulated.last().body).unwrap()
}

#[tokio::test]
async fn a_search_is_asked_of_the_provider_as_its_format_has_it() {
    let (simulated, gateway) = gateway(true).await;
    let answer = ask(&gateway, MESSAGES, "by-responses", SAID, offer(MESSAGES)).await;
    answer.assert_ok();
    assert_eq!(answer.header("x-dropped-fields"), None);
    let body = sent(&simulated);
    assert_eq!(body["tools"], json!([{"type": "web_search"}]));
    assert_eq!(body["tool_choice"], json!({"type": "web_search"}));
    assert_eq!(body["max_tool_calls"], 8);

    let mut more = offer(RESPONSES);
    more["tools"][0]["filters"] = json!({"allowed_domains": ["docs.example.net"]});
    let answer = ask(&gateway, RESPONSES, "by-messages", SAID, more).await;
    answer.assert_ok();
    assert_eq!(answer.header("x-dropped-fields"), None);
    let body = sent(&simulated);
    let tool = json!({"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["docs.example.net"]});
    assert_eq!(body["tools"], json!([tool]));
    assert_eq!(
        body["tool_choice"],
        json!({"type": "tool", "name": "web_search"})
    );
    let call = parts(RESPONSES, &answer.json());
    let call = of_type(&call, "web_search_call");
    assert_eq!(
        call["action"]["sources"][0]["url"],
        "https://docs.example.net/page-1"
    );
}

#[tokio::test]
async fn search_results_are_in_the_callers_format() {
    let (_simulated, gateway) = gateway(true).await;
    let url = "https://example.com/page-1";
    for (path, model, ..) in WAYS {
        let answer = ask(&gateway, path, model, SAID, offer(path)).await;
        answer.assert_ok();
        let answer = answer.json();
        let parts = parts(path, &answer);
        if path == MESSAGES {
            let call = of_type(&parts, "server_tool_use");
            assert_eq!(call["input"]["query"], SAID);
            let result = of_type(&parts, "web_search_tool_result");
            assert_eq!(result["tool_use_id"], call["id"]);
            assert_eq!(result["content"][0]["url"], url);
            let text = of_type(&parts, "text");
            assert_eq!(
                (&text["text"], &text["citations"][0]["url"]),
                (&json!(FOUND), &json!(url))
            );
            assert_eq!(answer["usage"]["server_tool_use"]["web_search_requests"], 1);
            assert_eq!(answer["stop_reason"], "end_turn");
        } else {
            let call = of_type(&parts, "web_search_call");
            assert_eq!(
                (&call["status"], &call["action"]["query"]),
                (&json!("completed"), &json!(SAID))
            );
            assert_eq!(call["action"]["sources"][0]["url"], url);
            let text = &of_type(&parts, "message")["content"][0];
            let annotation = &text["annotations"][0];
            assert_eq!(text["text"], FOUND);
            assert_eq!(
                (&annotation["type"], &annotation["url"]),
                (&json!("url_citation"), &json!(url))
            );
            assert_eq!(answer["tool_usage"]["web_search"]["num_requests"], 1);
        }
    }
}

#[tokio::test]
async fn a_streamed_search_is_in_the_order_of_the_callers_format() {
    let (_simulated, gateway) = gateway(true).await;
    for (path, model, ..) in WAYS {
        let mut body = prompt(path, model, SAID, offer(path));
        body["stream"] = json!(true);
        let answer = gateway.post(path, &body).await;
        answer.assert_ok();
        let events = answer.events();
        assert_eq!(streamed_text(path, &events), FOUND);
        let names: Vec<_> = events
            .iter()
            .map(|event| event["type"].as_str().unwrap())
            .filter(|name| !name.ends_with("delta") && *name != "ping")
            .collect();
        let expected: &[&str] = match path {
            MESSAGES => &[
                "message_start",
                "content_block_start",
                "content_block_stop",
                "content_block_start",
                "content_block_stop",
                "content_block_start",
                "content_block_stop",
                "message_stop",
            ],
            _ => &[
                "response.created",
                "response.in_progress",
                "response.output_item.added",
                "response.web_search_call.in_progress",
                "response.web_search_call.searching",
                "response.web_search_call.completed",
                "response.output_item.done",
                // The seal of what was found, and of what is cited.
                "response.output_item.added",
                "response.output_item.done",
                "response.output_item.added",
                "response.content_part.added",
                "response.output_text.annotation.added",
                "response.output_text.done",
                "response.content_part.done",
                "response.output_item.done",
                "response.output_item.added",
                "response.output_item.done",
                "response.completed",
            ],
        };
        assert_eq!(names, expected, "{path}");
    }
}

/// The provider refuses what it has not made, and says how many searches came back.
#[tokio::test]
async fn a_search_returns_to_its_provider_alone() {
    let (simulated, gateway) = gateway(true).await;
    for (path, away, home, list) in WAYS {
        let answer = ask(&gateway, path, away, SAID, offer(path)).await;
        answer.assert_ok();
        let own = parts(path, &answer.json());
        let mut turns = vec![json!({"role": "user", "content": SAID})];
        match path {
            MESSAGES => turns.push(json!({"role": "assistant", "content": own})),
            _ => turns.extend(own),
        }
        turns.push(json!({"role": "user", "content": "Count what you looked up."}));
        let mut body = prompt(path, away, "", offer_beside(path));
        body[list] = json!(turns);
        for (model, count) in [(away, 1), (home, 0), ("by-chat", 0)] {
            body["model"] = json!(model);
            let answer = gateway.post(path, &body).await;
            answer.assert_ok();
            let said = format!("Searches that came back: {count}.");
            assert!(
                answer.text().contains(&said),
                "{path} {model}: {}",
                answer.text()
            );
            let dropped = answer.header("x-dropped-fields").unwrap_or_default();
            let field = match path {
                MESSAGES => "messages[].content[].web_search_tool_result",
                _ => "input[].web_search_call",
            };
            assert_eq!(
                dropped.contains(field),
                count == 0,
                "{path} {model}: {dropped}"
            );
            let sent = sent(&simulated).to_string();
            assert!(sent.contains(FOUND) && !sent.contains("tg1."), "{sent}");
            assert_eq!(sent.contains("page-2\""), count == 1, "{model}: {sent}");
        }
    }
}

#[tokio::test]
async fn a_provider_that_does_not_search_is_not_asked_to() {
    let (simulated, gateway) = gateway(false).await;
    for (path, away, ..) in WAYS {
        for model in [away, "by-chat"] {
            let answer = ask(&gateway, path, model, SAID, offer(path)).await;
            answer.assert_error(400, "invalid_request");
            let answer = ask(&gateway, path, model, SAID, offer_beside(path)).await;
            answer.assert_ok();
            let dropped = answer.header("x-dropped-fields").unwrap_or_default();
            assert!(
                dropped.contains("tools[].web_search"),
                "{path} {model}: {dropped}"
            );
            let sent = sent(&simulated);
            assert_eq!(sent["tools"].as_array().unwrap().len(), 1, "{sent}");
            assert!(!sent.to_string().contains("web_search"), "{sent}");
        }
    }
    // Chat has no such tool whatever its provider can.
    let more = json!({"web_search_options": {}});
    let answer = ask(&gateway, CHAT, "by-messages", SAID, more).await;
    answer.assert_error(400, "invalid_request");
}
