//! Clients of Gemini at providers that speak another format.

use super::{MODELS, gateway};
use crate::support::{Config, Gateway, LONG, Provider, Request, provider};
use serde_json::{Value, json};

/// The versions of the API that Google's SDKs use by default.
const VERSIONS: [&str; 2] = ["v1beta", "v1"];

fn request(gateway: &Gateway, model: &str, method: &str, body: &Value) -> Request {
    let target = format!("/v1beta/models/{model}:{method}");
    Request::post(&target, body).header("x-goog-api-key", &gateway.key)
}

fn user(text: &str) -> Value {
    json!({"role": "user", "parts": [{"text": text}]})
}

fn said(text: &str) -> Value {
    json!({"contents": [user(text)]})
}

/// The texts of a response, without thoughts.
fn text(response: &Value) -> String {
    let parts = response["candidates"][0]["content"]["parts"].as_array();
    let parts = parts.unwrap_or_else(|| panic!("no parts: {response}"));
    let texts = parts.iter().filter(|part| part["thought"] != true);
    texts.filter_map(|part| part["text"].as_str()).collect()
}

#[tokio::test]
async fn they_reach_every_model_whole_and_as_a_stream() {
    let (simulated, gateway) = gateway().await;
    for (model, at) in MODELS {
        for version in VERSIONS {
            let target = format!("/{version}/models/{model}:generateContent");
            let asked = Request::post(&target, &said("Say something nice."));
            let asked = asked.header("x-goog-api-key", &gateway.key);
            let whole = gateway.send(&asked).await;
            whole.assert_ok();
            assert_eq!(simulated.last().uri.path(), at);
            let whole = whole.json();
            assert_eq!(text(&whole), "You said: Say something nice.", "{whole}");
            assert_eq!(whole["modelVersion"], model, "{whole}");
            assert_eq!(whole["candidates"][0]["finishReason"], "STOP", "{whole}");

            let target = format!("/{version}/models/{model}:streamGenerateContent?alt=sse");
            let asked = Request::post(&target, &said("Say something nice."));
            let asked = asked.header("x-goog-api-key", &gateway.key);
            let answer = gateway.send(&asked.orders("chunks-7")).await;
            answer.assert_ok();
            let events = answer.events();
            assert!(events.len() > 3, "{events:?}");
            let texts: String = events.iter().map(text).collect();
            assert_eq!(texts, text(&whole));
            let last = events.last().unwrap();
            assert_eq!(last["candidates"][0]["finishReason"], "STOP", "{last}");
            assert_eq!(last["usageMetadata"], whole["usageMetadata"], "{last}");
            let line = gateway.line_of(&answer).await;
            assert_eq!(
                (
                    &line["format"],
                    &line["model"],
                    &line["outcome"],
                    &line["count"]
                ),
                (
                    &json!("gemini"),
                    &json!(model),
                    &json!("completed"),
                    &json!("reported")
                ),
                "{line}"
            );
            let total = &last["usageMetadata"]["totalTokenCount"];
            assert_eq!(&line["charged"], total, "{line}");
        }
    }
}

#[tokio::test]
async fn a_tool_is_called_and_its_result_answered() {
    let (_simulated, gateway) = gateway().await;
    for (model, _) in MODELS {
        let mut asked = json!({
            "contents": [user("Use the get_weather tool.")],
            "tools": [{"functionDeclarations": [{
                "name": "get_weather", "description": "The weather.",
                "parameters": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]},
            }]}],
        });
        for method in ["generateContent", "streamGenerateContent?alt=sse"] {
            let answer = gateway
                .send(&request(&gateway, model, method, &asked))
                .await;
            answer.assert_ok();
            let responses = match method {
                "generateContent" => vec![answer.json()],
                _ => answer.events(),
            };
            let parts = responses.iter().flat_map(|response| {
                response["candidates"][0]["content"]["parts"]
                    .as_array()
                    .unwrap()
            });
            let parts: Vec<_> = parts.cloned().collect();
            let call = parts.iter().find_map(|part| part.get("functionCall"));
            let call = call.unwrap_or_else(|| panic!("no call: {parts:?}"));
            assert_eq!(call["name"], "get_weather", "{call}");
            assert!(call["args"]["city"].is_string(), "{call}");

            // Some clients know no ids.
            let mut anonymous = parts.clone();
            for part in &mut anonymous {
                if let Some(Value::Object(call)) = part.get_mut("functionCall") {
                    call.remove("id");
                }
            }
            for (parts, id) in [(parts.clone(), &call["id"]), (anonymous, &Value::Null)] {
                let mut next = asked.clone();
                let result = json!({"functionResponse": {
                    "id": id, "name": "get_weather", "response": {"result": "21 degrees"},
                }});
                next["contents"] = json!([
                    asked["contents"][0],
                    {"role": "model", "parts": parts},
                    {"role": "user", "parts": [result]},
                ]);
                let answer = gateway
                    .send(&request(&gateway, model, "generateContent", &next))
                    .await;
                answer.assert_ok();
                assert!(text(&answer.json()).contains("21 degrees"), "{answer:?}");
            }
        }
        // A tool that the provider would run is taken out.
        asked["tools"]
            .as_array_mut()
            .unwrap()
            .push(json!({"googleSearch": {}}));
        let answer = gateway
            .send(&request(&gateway, model, "generateContent", &asked))
            .await;
        answer.assert_ok();
        assert_eq!(
            answer.header("x-dropped-fields"),
            Some("tools[].googleSearch")
        );
    }
}

/// The simulated provider refuses a signature that is not its own, and counts what came back.
#[tokio::test]
async fn reasoning_returns_to_its_provider_in_the_next_turn_although_the_client_drops_thoughts() {
    let (simulated, gateway) = gateway().await;
    for model in ["by-responses", "by-messages"] {
        let thinking =
            json!({"thinkingConfig": {"includeThoughts": true, "thinkingLevel": "HIGH"}});
        let question = user("Use the look tool, then count your thoughts");
        let tools = json!([{"functionDeclarations": [{"name": "look"}]}]);
        let asked = json!({"contents": [question], "tools": tools, "generationConfig": thinking});
        for method in ["generateContent", "streamGenerateContent?alt=sse"] {
            let answer = gateway
                .send(&request(&gateway, model, method, &asked))
                .await;
            answer.assert_ok();
            let responses = match method {
                "generateContent" => vec![answer.json()],
                _ => answer.events(),
            };
            let parts = responses.iter().flat_map(|response| {
                response["candidates"][0]["content"]["parts"]
                    .as_array()
                    .unwrap()
            });
            let (thoughts, parts): (Vec<_>, Vec<_>) =
                parts.cloned().partition(|part| part["thought"] == true);
            assert!(!thoughts.is_empty(), "{answer:?}");
            let call = parts
                .iter()
                .find(|part| part["functionCall"].is_object())
                .unwrap();
            assert!(call["thoughtSignature"].is_string(), "{parts:?}");
            let result = json!({"functionResponse": {"id": call["functionCall"]["id"], "name": "look", "response": {"output": "seen"}}});
            let mut next = asked.clone();
            next["contents"] = json!([
                question,
                {"role": "model", "parts": parts},
                {"role": "user", "parts": [result]},
            ]);
            let answer = gateway
                .send(&request(&gateway, model, "generateContent", &next))
                .await;
            answer.assert_ok();
            assert_eq!(answer.header("x-dropped-fields"), None, "{answer:?}");
            let said = text(&answer.json());
            assert!(said.contains("Thoughts that came back: 1."), "{said}");
            // Another provider gets nothing of it.
            let answer = gateway
                .send(&request(&gateway, "by-chat", "generateContent", &next))
                .await;
            answer.assert_ok();
            let dropped = answer.header("x-dropped-fields").unwrap_or_default();
            assert!(dropped.contains("thoughtSignature"), "{answer:?}");
            let sent = String::from_utf8_lossy(&simulated.last().body).into_owned();
            assert!(!sent.contains("tg1.") && !sent.contains("dGcx"), "{sent}");
        }
    }
}

#[tokio::test]
async fn errors_are_in_googles_shape() {
    let (simulated, gateway) = gateway().await;
    let poor = gateway.key_with(100, LONG);
    let with = |key: &str, model: &str, body: &Value| {
        let target = format!("/v1beta/models/{model}:generateContent");
        Request::post(&target, body).header("x-goog-api-key", key)
    };
    let cached = json!({"contents": [user("Hi.")], "generationConfig": {"responseLogprobs": true}});
    let said = said("Hi.");
    let mut long = said.clone();
    long["generationConfig"] = json!({"maxOutputTokens": 1000});
    for (request, status, name) in [
        (with("sk-wrong", "by-chat", &said), 401, "UNAUTHENTICATED"),
        (with(&poor, "by-chat", &long), 402, "RESOURCE_EXHAUSTED"),
        (with(&gateway.key, "none", &said), 404, "NOT_FOUND"),
        (
            with(&gateway.key, "by-chat", &cached),
            400,
            "INVALID_ARGUMENT",
        ),
        (
            with(&gateway.key, "by-chat", &said).orders("status-429"),
            429,
            "RESOURCE_EXHAUSTED",
        ),
    ] {
        let answer = gateway.send(&request).await;
        let error = &answer.json()["error"];
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(
            (&error["code"], &error["status"]),
            (&json!(status), &json!(name)),
            "{answer:?}"
        );
        assert!(error["message"].is_string(), "{answer:?}");
        if status == 400 {
            let violation = &error["details"][1]["fieldViolations"][0];
            assert_eq!(
                violation["field"], "generationConfig.responseLogprobs",
                "{error}"
            );
        }
    }
    assert_eq!(simulated.handle.counters().requests, 1);
    // Behind the head an error is an event.
    let method = "streamGenerateContent?alt=sse";
    let broken = request(&gateway, "by-messages", method, &said).orders("tokens-200, cut-9000");
    let answer = gateway.send(&broken).await;
    answer.assert_ok();
    let events = answer.events();
    assert!(!text(&events[0]).is_empty(), "{events:?}");
    let error = &events.last().unwrap()["error"];
    assert!(error["code"].as_u64().unwrap() >= 500, "{error}");
    assert!(error["status"].is_string(), "{error}");
}

#[tokio::test]
async fn a_client_that_disconnects_pays_for_what_it_was_sent() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("models.test-model.reasoning", json!("none"));
    let gateway = Gateway::start(config).await;
    let method = "streamGenerateContent?alt=sse";
    let asked = request(&gateway, "test-model", method, &said("Go on."));
    let asked = asked.orders("tokens-5000, chunk-delay-5ms");
    let mut connection = gateway.connect().await;
    connection.write(&asked.bytes()).await;
    let answer = connection.head().await;
    connection.read_until(b"\"text\"").await;
    drop(connection);
    let line = gateway.line_of(&answer).await;
    assert_eq!(line["outcome"], "client_closed", "{line}");
    let charged = line["charged"].as_u64().unwrap();
    assert!((1..4000).contains(&charged), "{line}");
    gateway.has_spent(&gateway.key, charged).await;
    gateway.verify().await;
}

#[tokio::test]
async fn tokens_are_counted_and_models_listed_as_google_does() {
    let (simulated, gateway) = gateway().await;
    let answer = gateway
        .send(&request(&gateway, "by-chat", "countTokens", &said("Hi.")))
        .await;
    answer.assert_ok();
    assert!(
        answer.json()["totalTokens"].as_u64().unwrap() > 0,
        "{answer:?}"
    );
    for version in VERSIONS {
        let get = |rest: &str| {
            let target = format!("/{version}/models{rest}");
            Request::get(&target).header("x-goog-api-key", &gateway.key)
        };
        let list = gateway.send(&get("?pageSize=100")).await.json();
        let models = list["models"]
            .as_array()
            .unwrap_or_else(|| panic!("{list}"));
        let has = |name: &str| models.iter().any(|model| model["name"] == name);
        assert!(has("models/by-chat") && has("models/by-messages"), "{list}");
        let one = gateway.send(&get("/by-chat")).await.json();
        assert_eq!(one["name"], "models/by-chat", "{one}");
    }
    assert_eq!(simulated.handle.counters().requests, 0);
}

#[tokio::test]
async fn a_limit_below_the_minimum_of_responses_is_reported_as_raised() {
    let (simulated, gateway) = gateway().await;
    let mut asked = said("Say something nice.");
    asked["generationConfig"] = json!({"maxOutputTokens": 5});
    let asked = request(&gateway, "by-responses", "generateContent", &asked);
    let answer = gateway.send(&asked).await;
    answer.assert_ok();
    let sent: Value = serde_json::from_slice(&simulated.last().body).unwrap();
    assert_eq!(sent["max_output_tokens"], 16, "{sent}");
    assert_eq!(answer.header("x-output-limit"), Some("16"));
}

/// The history of a conversation can come from a translated answer.
#[tokio::test]
async fn a_provider_of_gemini_gets_no_seal_of_another_provider() {
    let (simulated, gateway) = gateway().await;
    let mut settings = provider(simulated.address);
    settings["formats"] = json!(["gemini"]);
    let config = gateway.config().provider("google", settings);
    gateway.rewrite(config.model("by-gemini", json!(["google"])));
    gateway.signal("HUP").await;
    gateway.log_line("was reloaded").await;
    let thinking = json!({"thinkingConfig": {"thinkingLevel": "HIGH"}});
    // The second one does not think, and seals nothing.
    for (model, config) in [("by-messages", thinking), ("by-chat", json!({}))] {
        let asked = json!({
            "contents": [user("Use the look tool.")],
            "tools": [{"functionDeclarations": [{"name": "look"}]}],
            "generationConfig": config,
        });
        let answer = gateway
            .send(&request(&gateway, model, "generateContent", &asked))
            .await;
        answer.assert_ok();
        let content = answer.json()["candidates"][0]["content"].clone();
        assert!(
            content.to_string().contains("\"thoughtSignature\":\"dGcx"),
            "{content}"
        );
        let mut next = asked.clone();
        next["contents"] = json!([
            asked["contents"][0], content,
            {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {}}}]},
        ]);
        // The simulated provider has no such path, and keeps what it was sent.
        let answer = gateway
            .send(&request(&gateway, "by-gemini", "generateContent", &next))
            .await;
        assert_ne!(answer.status, 200);
        let sent: Value = serde_json::from_slice(&simulated.last().body).unwrap();
        let parts = sent["contents"][1]["parts"].as_array().unwrap();
        let call = parts
            .iter()
            .find(|part| part["functionCall"].is_object())
            .unwrap();
        assert_eq!(
            call["thoughtSignature"], "skip_thought_signature_validator",
            "{sent}"
        );
        assert!(!sent.to_string().contains("dGcx"), "{sent}");
    }
}
