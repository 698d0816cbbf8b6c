//! A provider that speaks Gemini alone, for clients of each format. The stand-in answers as the
//! reference of `generateContent` describes.

use super::support::{
    CHAT, COUNT_TOKENS, Config, FORMATS, Gateway, MESSAGES, Request, prompt, provider,
};
use super::{streamed_text, text};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const STREAM: &str = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hel\"}],\"role\":\"model\"},\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":10,\"totalTokenCount\":10},\"modelVersion\":\"gemini-3-flash\",\"responseId\":\"r1\"}\r\n\r\ndata: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"lo!\"}],\"role\":\"model\"},\"finishReason\":\"STOP\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":10,\"candidatesTokenCount\":3,\"thoughtsTokenCount\":5,\"totalTokenCount\":18},\"modelVersion\":\"gemini-3-flash\",\"responseId\":\"r1\"}\r\n\r\n";
const COUNT: &str =
    r#"{"totalTokens":31,"promptTokensDetails":[{"modality":"TEXT","tokenCount":31}]}"#;
/// A stream that breaks off: there is no finish reason.
const CUT: &str = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hel\"}],\"role\":\"model\"},\"index\":0}],\"responseId\":\"r1\"}\r\n\r\n";
const BLOCKED: &str =
    r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":10}}"#;
/// The answer to a wrong key: a 400, as if the request were at fault.
const WRONG_KEY: &str = r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}]"#;
const WHOLE: &str = r#"{"candidates":[{"content":{"parts":[{"text":"Hello!"}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":4,"candidatesTokenCount":3,"thoughtsTokenCount":5,"totalTokenCount":18},"modelVersion":"gemini-3-flash","responseId":"r1"}"#;

/// A request as it came: its head, in lower case but for the first line, and its body.
type Received = (String, Value);

/// What it answers with depends on the model in the path.
struct StandIn {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl StandIn {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::default();
        let kept = Arc::clone(&received);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&kept)));
            }
        });
        Self { address, received }
    }

    fn last(&self) -> Received {
        let received = self.received.lock();
        received.last().expect("a request").clone()
    }
}

async fn serve(mut stream: TcpStream, kept: Arc<Mutex<Vec<Received>>>) {
    let mut bytes = Vec::new();
    let (head, length) = loop {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let lower = head.to_lowercase();
            let length = lower.split("content-length: ").nth(1).unwrap();
            let length: usize = length.lines().next().unwrap().parse().unwrap();
            break (head.to_owned(), length);
        }
    };
    let start = head.len() + 4;
    while bytes.len() < start + length {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let body = serde_json::from_slice(&bytes[start..start + length]).unwrap();
    let line = head.lines().next().unwrap().to_owned();
    kept.lock().push((head, body));
    let (status, kind, answer) = match line {
        line if line.contains("cut") => ("200 OK", "text/event-stream", CUT),
        line if line.contains("blocked") => ("200 OK", "application/json", BLOCKED),
        line if line.contains("full") => (
            "429 Too Many Requests",
            "application/json",
            r#"{"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}}"#,
        ),
        line if line.contains("locked") => ("400 Bad Request", "application/json", WRONG_KEY),
        line if line.contains(":streamGenerateContent?alt=sse ") => {
            ("200 OK", "text/event-stream", STREAM)
        }
        line if line.contains(":generateContent ") => ("200 OK", "application/json", WHOLE),
        line if line.contains("fine:countTokens ") => ("200 OK", "application/json", COUNT),
        line => panic!("no such method: {line}"),
    };
    // The end of a stream is the end of the connection.
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all((head + answer).as_bytes()).await;
}

async fn gateway() -> (StandIn, Gateway) {
    let google = StandIn::start().await;
    let mut settings = provider(google.address);
    settings["formats"] = json!(["gemini"]);
    let models = ["fine", "cut", "blocked", "full", "locked"];
    let config = models.into_iter().fold(
        Config::new().provider("google", settings),
        |config, name| {
            let deployment =
                json!([{"provider": "google", "upstream_model": format!("gemini/{name}")}]);
            config.model(name, deployment)
        },
    );
    (google, Gateway::start(config).await)
}

#[tokio::test]
async fn clients_of_each_format_reach_it_with_the_model_in_the_path() {
    let (google, gateway) = gateway().await;
    for path in FORMATS {
        let answer = gateway.ask(path, "fine", "", json!({})).await;
        answer.assert_ok();
        assert_eq!(text(path, &answer.json()), "Hello!", "{path}");
        let (head, body) = google.last();
        assert!(
            head.starts_with("POST /v1beta/models/gemini%2Ffine:generateContent HTTP/1.1"),
            "{head}"
        );
        assert!(head.to_lowercase().contains("x-goog-api-key: "), "{head}");
        assert!(!head.to_lowercase().contains("authorization"), "{head}");
        let last = body["contents"].as_array().unwrap().last().unwrap();
        assert_eq!(last["role"], "user", "{body}");
        assert_eq!(body.get("model"), None, "{body}");
        let line = gateway.access_line(|line| line["status"] == 200).await;
        assert_eq!(line["model"], "fine", "{line}");
    }
}

#[tokio::test]
async fn streams_end_with_their_finish_reason_and_with_the_usage() {
    let (google, gateway) = gateway().await;
    for path in FORMATS {
        let more = json!({"stream": true, "stream_options": {"include_usage": true}});
        let more = if path == CHAT {
            more
        } else {
            json!({"stream": true})
        };
        let answer = gateway.ask(path, "fine", "", more).await;
        answer.assert_ok();
        assert_eq!(streamed_text(path, &answer.events()), "Hello!", "{path}");
        let (head, _) = google.last();
        let target = "POST /v1beta/models/gemini%2Ffine:streamGenerateContent?alt=sse ";
        assert!(head.starts_with(target), "{head}");
        let whole = answer.text();
        // Thoughts count as output: 3 and 5.
        let counted = ["\"output_tokens\":8", "\"completion_tokens\":8"];
        assert!(counted.iter().any(|it| whole.contains(it)), "{whole}");
    }
}

#[tokio::test]
async fn what_it_refuses_and_what_breaks_off_is_an_error_in_the_clients_format() {
    let (_google, gateway) = gateway().await;
    for path in FORMATS {
        let answer = gateway.ask(path, "blocked", "", json!({})).await;
        answer.assert_error(400, "content_policy_violation");
        let answer = gateway.ask(path, "cut", "", json!({"stream": true})).await;
        assert!(answer.text().contains("error"), "{}", answer.text());
        assert!(!answer.text().contains("[DONE]"), "{}", answer.text());
    }
    let answer = gateway.ask(CHAT, "full", "", json!({})).await;
    answer.assert_error(429, "rate_limit_exceeded");
}

#[tokio::test]
async fn a_key_that_google_refuses_is_the_operators_trouble_and_not_the_clients() {
    let (_google, gateway) = gateway().await;
    for path in FORMATS {
        let answer = gateway.ask(path, "locked", "", json!({})).await;
        assert!(answer.status >= 500, "{path}: {answer:?}");
        assert!(!answer.text().contains("key"), "{}", answer.text());
    }
}

/// Like for every provider without a counter of messages.
#[tokio::test]
async fn the_gateway_counts_the_tokens_of_its_models_by_itself() {
    let (google, gateway) = gateway().await;
    let answer = gateway.ask(COUNT_TOKENS, "fine", "", json!({})).await;
    answer.assert_ok();
    assert!(answer.json()["input_tokens"].as_u64().unwrap() > 0);
    assert!(google.received.lock().is_empty());
}

#[tokio::test]
async fn settings_and_tools_go_in_its_words() {
    let (google, gateway) = gateway().await;
    let more = json!({
        "max_completion_tokens": 99, "seed": 7, "stop": ["END"], "temperature": 0.5,
        "reasoning_effort": "low",
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
    });
    let body = prompt(CHAT, "fine", "Hello!", more);
    let answer = gateway.post(CHAT, &body).await;
    answer.assert_ok();
    assert_eq!(answer.header("x-dropped-fields"), None);
    let (_, sent) = google.last();
    let expected = json!({
        "maxOutputTokens": 99, "temperature": 0.5, "seed": 7, "stopSequences": ["END"],
        "responseMimeType": "application/json", "responseJsonSchema": {"type": "object"},
        "thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": true},
    });
    assert_eq!(sent["generationConfig"], expected, "{sent}");
    let declared = &sent["tools"][0]["functionDeclarations"][0];
    assert_eq!(declared["parametersJsonSchema"]["type"], "object", "{sent}");
    let expected = json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}});
    assert_eq!(sent["toolConfig"], expected, "{sent}");
    // Messages has no seed, and a refusal of it would name it.
    let answer = gateway.ask(MESSAGES, "fine", "", json!({"top_k": 5})).await;
    answer.assert_ok();
    assert_eq!(google.last().1["generationConfig"]["topK"], 5);
}

/// An image is reserved as one, whatever its link names.
#[tokio::test]
async fn an_image_goes_as_an_image() {
    let (google, gateway) = gateway().await;
    for (link, media_type) in [
        ("https://example.com/a.pdf", "image/jpeg"),
        ("https://example.com/a.png?b.pdf", "image/png"),
    ] {
        let part = json!({"type": "image_url", "image_url": {"url": link}});
        let said = json!({"messages": [{"role": "user", "content": [part]}]});
        let answer = gateway.ask(CHAT, "fine", "", said).await;
        answer.assert_ok();
        let (_, sent) = google.last();
        let part = &sent["contents"][0]["parts"][0];
        assert_eq!(part["fileData"]["mimeType"], media_type, "{link}: {sent}");
    }
}

/// A request of a client of Gemini, with its key in the header of the format.
fn of_client(gateway: &Gateway, target: &str, body: &Value) -> Request {
    Request::post(target, body).header("x-goog-api-key", &gateway.key)
}

fn said() -> Value {
    json!({"contents": [{"role": "user", "parts": [{"text": "Hello!"}]}], "safetySettings": []})
}

#[tokio::test]
async fn a_client_of_gemini_is_passed_on_as_it_is_and_charged() {
    let (google, gateway) = gateway().await;
    let target = "/v1beta/models/fine:generateContent";
    let answer = gateway.send(&of_client(&gateway, target, &said())).await;
    answer.assert_ok();
    assert_eq!(answer.text(), WHOLE);
    let (head, body) = google.last();
    assert!(
        head.starts_with("POST /v1beta/models/gemini%2Ffine:generateContent HTTP/1.1"),
        "{head}"
    );
    assert_eq!(body, said());
    let line = gateway.access_line(|line| line["status"] == 200).await;
    assert_eq!(
        (&line["model"], &line["format"]),
        (&json!("fine"), &json!("gemini"))
    );
    // Thoughts count as output: 3 and 5. Of the 10 tokens of the input 4 were cached.
    let usage = json!({"input": 6, "cache_read": 4, "cache_write": 0, "output": 8, "reasoning": 5});
    assert_eq!(
        (&line["usage"], &line["charged"]),
        (&usage, &json!(18)),
        "{line}"
    );

    let key = &gateway.key;
    let target = format!("/v1beta/models/f%69ne:streamGenerateContent?alt=sse&key={key}");
    let answer = gateway.send(&Request::post(&target, &said())).await;
    answer.assert_ok();
    assert_eq!(answer.text(), STREAM);
    let (head, _) = google.last();
    let line = "POST /v1beta/models/gemini%2Ffine:streamGenerateContent?alt=sse HTTP/1.1";
    assert!(head.starts_with(line), "{head}");
    assert!(!head.contains(key.as_str()), "{head}");
    let line = gateway.access_line(|line| line["stream"] == true).await;
    assert_eq!(line["charged"], 18, "{line}");
    assert!(!line.to_string().contains(key.as_str()), "{line}");
}

#[tokio::test]
async fn a_whole_request_is_counted_like_the_same_request_alone() {
    let (_google, gateway) = gateway().await;
    let target = "/v1beta/models/fine:countTokens";
    let count = async |body: &Value| {
        let answer = gateway.send(&of_client(&gateway, target, body)).await;
        answer.assert_ok();
        answer.json()["totalTokens"].as_u64().unwrap()
    };
    let plain = json!({"contents": said()["contents"]});
    let whole = json!({
        "contents": said()["contents"],
        "systemInstruction": {"parts": [{"text": "Answer in one short sentence, please."}]},
        "tools": [{"functionDeclarations": [{"name": "look", "description": "Looks around."}]}],
        "generationConfig": {"maxOutputTokens": 5},
    });
    let within = |model: Value| {
        let mut request = whole.clone();
        request["model"] = model;
        request
    };
    let named = within(json!("models/fine"));
    let alone = count(&whole).await;
    assert!(alone > count(&plain).await);
    assert_eq!(
        count(&json!({"generateContentRequest": named})).await,
        alone
    );
    assert_eq!(
        count(&json!({"generate_content_request": whole})).await,
        alone
    );
    let both = json!({"contents": said()["contents"], "generateContentRequest": named});
    let stored = json!({"cachedContent": "cachedContents/1", "contents": said()["contents"]});
    for (body, status) in [
        (
            json!({"generateContentRequest": within(json!("models/other"))}),
            400,
        ),
        (json!({"generateContentRequest": within(json!(7))}), 400),
        (both, 400),
        (json!({"generateContentRequest": {}}), 400),
        (json!({"generateContentRequest": 7}), 400),
        (json!({"generateContentRequest": stored}), 404),
    ] {
        let answer = gateway.send(&of_client(&gateway, target, &body)).await;
        assert_eq!(answer.status, status, "{body} {answer:?}");
    }
    // Only a count has a request within it.
    let target = "/v1beta/models/fine:generateContent";
    let body = json!({"generateContentRequest": whole});
    let answer = gateway.send(&of_client(&gateway, target, &body)).await;
    assert_eq!(answer.status, 400, "{answer:?}");
}

#[tokio::test]
async fn a_provider_with_a_counter_counts_for_clients_of_its_format() {
    let google = StandIn::start().await;
    let mut settings = provider(google.address);
    let counter = "/v1beta/models/{model}:countTokens";
    settings["formats"] = json!([{"name": "gemini", "count_tokens": counter}]);
    let config = Config::new()
        .provider("google", settings)
        .model("alias", json!(["google/fine"]))
        .with("models.alias.reasoning", json!("extended"));
    let gateway = Gateway::start(config).await;
    let target = "/v1beta/models/alias:countTokens";
    let body = json!({"contents": said()["contents"]});
    let answer = gateway.send(&of_client(&gateway, target, &body)).await;
    answer.assert_ok();
    assert_eq!(answer.text(), COUNT);
    assert_eq!(answer.header("x-token-count-source"), Some("upstream"));
    let (head, sent) = google.last();
    assert!(head.starts_with("POST /v1beta/models/fine:countTokens "));
    assert_eq!(sent, body);
    // The name of a model stands in this body, and clients of messages ask in another format.
    let mut within = said();
    within["model"] = json!("models/alias");
    let within = json!({"generateContentRequest": within});
    let of_messages = prompt(COUNT_TOKENS, "alias", "Hello!", json!({}));
    let answers = [
        gateway.send(&of_client(&gateway, target, &within)).await,
        gateway.post(COUNT_TOKENS, &of_messages).await,
    ];
    for answer in answers {
        answer.assert_ok();
        assert_eq!(answer.header("x-token-count-source"), Some("local"));
    }
    assert_eq!(google.received.lock().len(), 1);
    // A provider that is a gateway prefers the model of the body.
    let mut named = said();
    named["model"] = json!("models/alias");
    let target = "/v1beta/models/alias:generateContent";
    let answer = gateway.send(&of_client(&gateway, target, &named)).await;
    answer.assert_ok();
    assert_eq!(google.last().1["model"], "fine");
}

#[tokio::test]
async fn a_client_of_gemini_gets_counts_models_and_errors_in_its_format() {
    let (google, gateway) = gateway().await;
    let target = "/v1beta/models/fine:countTokens";
    let answer = gateway.send(&of_client(&gateway, target, &said())).await;
    answer.assert_ok();
    assert!(answer.json()["totalTokens"].as_u64().unwrap() > 0);

    let get = |target: &str| Request::get(target).header("x-goog-api-key", &gateway.key);
    let list = gateway.send(&get("/v1beta/models?pageSize=2")).await.json();
    assert_eq!(list["models"].as_array().unwrap().len(), 2, "{list}");
    let rest = gateway
        .send(&get("/v1beta/models?pageToken=2"))
        .await
        .json();
    assert_eq!(list["nextPageToken"], "2");
    assert_eq!(rest["models"].as_array().unwrap().len(), 3, "{rest}");
    let one = gateway.send(&get("/v1beta/models/fine")).await.json();
    assert_eq!(one["name"], "models/fine", "{one}");
    let methods = json!(["generateContent", "streamGenerateContent", "countTokens"]);
    assert_eq!(one["supportedGenerationMethods"], methods, "{one}");

    let whole = "/v1beta/models/fine:generateContent";
    let with_both = format!("{whole}?key=other");
    let stored = json!({"contents": said()["contents"], "cachedContent": "cachedContents/1"});
    let mut other = said();
    other["model"] = json!("models/cut");
    let file = json!({"contents": [{"parts": [{"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/1"}}]}]});
    for (request, status, name) in [
        (Request::post(whole, &said()), 401, "UNAUTHENTICATED"),
        (
            of_client(&gateway, &with_both, &said()),
            401,
            "UNAUTHENTICATED",
        ),
        (get("/v1beta/models/none"), 404, "NOT_FOUND"),
        (get(whole), 405, "UNIMPLEMENTED"),
        (
            of_client(&gateway, "/v1beta/models/fine:predict", &said()),
            404,
            "NOT_FOUND",
        ),
        (
            of_client(
                &gateway,
                "/v1beta/models/fine:streamGenerateContent",
                &said(),
            ),
            400,
            "INVALID_ARGUMENT",
        ),
        (
            of_client(&gateway, "/v1beta/models/%ff:generateContent", &said()),
            400,
            "INVALID_ARGUMENT",
        ),
        (
            of_client(&gateway, whole, &json!({})),
            400,
            "INVALID_ARGUMENT",
        ),
        (of_client(&gateway, whole, &other), 400, "INVALID_ARGUMENT"),
        (of_client(&gateway, whole, &stored), 404, "NOT_FOUND"),
        (of_client(&gateway, whole, &file), 404, "NOT_FOUND"),
    ] {
        let answer = gateway.send(&request).await;
        let error = &answer.json()["error"];
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(
            (&error["code"], &error["status"]),
            (&json!(status), &json!(name))
        );
        assert!(error["details"][0]["reason"].is_string(), "{error}");
    }
    assert!(google.received.lock().is_empty());
    let cut = "/v1beta/models/cut:streamGenerateContent?alt=sse";
    let answer = gateway.send(&of_client(&gateway, cut, &said())).await;
    let last = answer
        .text()
        .trim_end()
        .rsplit("data: ")
        .next()
        .unwrap()
        .to_owned();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert!(last["error"]["code"].as_u64().unwrap() >= 500, "{last}");
}
