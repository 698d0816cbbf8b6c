//! Embeddings of Google, through the Gemini API and Vertex AI, for clients of the API of OpenAI.

use crate::support::{Act, Config, Gateway, Seen, Service, json_answer, provider};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

const EMBEDDINGS: &str = "/v1/embeddings";

fn answer(status: &str, body: &Value) -> Vec<Act> {
    vec![Act::send(json_answer(status, "", &body.to_string()))]
}

/// An error as `google.rpc.Status` has it.
fn refusal(code: u16, status: &str, reason: &str, message: &str) -> Vec<Act> {
    let info = json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason});
    let error = json!({"code": code, "message": message, "status": status, "details": [info]});
    answer(&format!("{code} Refused"), &json!({ "error": error }))
}

/// The services of Google, as their references describe them.
fn google(asked: &Seen) -> Vec<Act> {
    let usage = json!({"promptTokenCount": 5});
    match &*asked.target {
        "/v1beta/models/gemini-embedding-2:batchEmbedContents" => {
            let vectors = json!([{"values": [0.5, -0.125]}, {"values": [0.25, 1]}]);
            answer(
                "200 OK",
                &json!({"embeddings": vectors, "usageMetadata": usage}),
            )
        }
        "/v1beta/models/gemini-embedding-001:batchEmbedContents" => {
            let body: Value = serde_json::from_slice(&asked.body).unwrap();
            let texts = body["requests"].as_array().unwrap();
            let vectors: Vec<_> = texts.iter().map(|_| json!({"values": [0.5]})).collect();
            answer("200 OK", &json!({ "embeddings": vectors }))
        }
        "/models/gemini-embedding-001:predict" => {
            let one = |values: Value, tokens: u64| {
                let statistics = json!({"token_count": tokens, "truncated": false});
                json!({"embeddings": {"values": values, "statistics": statistics}})
            };
            let vectors = json!([one(json!([0.5, -0.125]), 2), one(json!([0.25, 1]), 3)]);
            answer(
                "200 OK",
                &json!({"predictions": vectors, "metadata": {"billableCharacterCount": 19}}),
            )
        }
        "/models/gemini-embedding-2:embedContent" => {
            let embedding = json!({"values": [0.5, -0.125]});
            answer(
                "200 OK",
                &json!({"embedding": embedding, "usageMetadata": usage, "truncated": false}),
            )
        }
        "/v1beta/models/keyless:batchEmbedContents" => {
            let message = "API key not valid. Please pass a valid API key.";
            refusal(400, "INVALID_ARGUMENT", "API_KEY_INVALID", message)
        }
        "/v1beta/models/unknown:batchEmbedContents" => {
            let message = "models/unknown is not found for API version v1beta, or is not supported for embedContent.";
            refusal(404, "NOT_FOUND", "", message)
        }
        "/v1beta/models/full:batchEmbedContents" => refusal(
            429,
            "RESOURCE_EXHAUSTED",
            "",
            "Resource has been exhausted (e.g. check quota).",
        ),
        "/v1beta/models/broken:batchEmbedContents" => answer("200 OK", &json!({"embeddings": []})),
        other => panic!("nothing is at {other}"),
    }
}

async fn start() -> (Service, Gateway) {
    start_with(Config::new()).await
}

async fn start_with(mut config: Config) -> (Service, Gateway) {
    let google = Service::answering(google).await;
    for api in ["gemini", "vertex_predict", "vertex_embed_content"] {
        let mut settings = provider(google.address);
        settings["formats"] = json!([{"name": "embeddings", "api": api}]);
        config = config.provider(api, settings);
    }
    let price = json!({"input": 1000, "output": 0});
    for (model, deployment) in [
        ("two", "gemini/gemini-embedding-2"),
        ("one", "gemini/gemini-embedding-001"),
        ("predict", "vertex_predict/gemini-embedding-001"),
        ("single", "vertex_embed_content/gemini-embedding-2"),
        ("keyless", "gemini/keyless"),
        ("unknown", "gemini/unknown"),
        ("full", "gemini/full"),
        ("broken", "gemini/broken"),
    ] {
        config = config
            .model(model, json!([deployment]))
            .with(&format!("models.{model}.price"), price.clone());
    }
    (google, Gateway::start(config).await)
}

#[tokio::test]
async fn texts_get_their_vectors_and_cost_what_google_counted() {
    let (google, gateway) = start().await;
    let texts = ["red apples", "green ones"];
    let (first, second) = (json!([0.5, -0.125]), json!([0.25, 1]));
    let packed = |numbers: [f32; 2]| {
        let bytes = numbers.map(f32::to_le_bytes).concat();
        json!(BASE64_STANDARD.encode(bytes))
    };
    let content = |text: &str| json!({"parts": [{"text": text}]});
    let request = |text| {
        json!({"model": "models/gemini-embedding-2", "content": content(text),
            "outputDimensionality": 2, "taskType": "RETRIEVAL_QUERY"})
    };
    let instance = |text| json!({"content": text, "task_type": "RETRIEVAL_QUERY"});
    let both = json!(texts);
    for (model, input, encoding, sent, vectors) in [
        (
            "two",
            &both,
            "base64",
            json!({"requests": texts.map(request)}),
            vec![packed([0.5, -0.125]), packed([0.25, 1.0])],
        ),
        (
            "predict",
            &both,
            "float",
            json!({"instances": texts.map(instance), "parameters": {"outputDimensionality": 2}}),
            vec![first.clone(), second],
        ),
        (
            "single",
            &json!("red apples"),
            "float",
            json!({"content": content("red apples"), "outputDimensionality": 2,
                "taskType": "RETRIEVAL_QUERY"}),
            vec![first],
        ),
    ] {
        let body = json!({"model": model, "input": input, "dimensions": 2, "user": "someone",
            "encoding_format": encoding, "task_type": "RETRIEVAL_QUERY"});
        let answer = gateway.post(EMBEDDINGS, &body).await;
        answer.assert_ok();
        let received: Value = serde_json::from_slice(&google.last().body).unwrap();
        assert_eq!(received, sent);
        let vectors = (0..).zip(vectors).map(|(index, vector): (u64, Value)| {
            json!({"object": "embedding", "index": index, "embedding": vector})
        });
        let expected = json!({
            "object": "list", "model": model, "data": vectors.collect::<Vec<_>>(),
            "usage": {"prompt_tokens": 5, "total_tokens": 5},
        });
        assert_eq!(answer.json(), expected);
        assert_eq!(answer.header("x-dropped-fields"), Some("user"));
        let line = gateway.line_of(&answer).await;
        assert_eq!(
            (&line["charged"], &line["count"], &line["cost"]),
            (&json!(5), &json!("reported"), &json!("0.005")),
            "{line}"
        );
    }
}

#[tokio::test]
async fn an_answer_without_usage_costs_what_the_gateway_counts() {
    let (_google, gateway) = start().await;
    for (input, least) in [(json!("red apples"), 1), (json!(vec!["a"; 40]), 40)] {
        let body = json!({"model": "one", "input": input});
        let answer = gateway.post(EMBEDDINGS, &body).await;
        answer.assert_ok();
        let line = gateway.line_of(&answer).await;
        assert_ne!(line["count"], "reported", "{line}");
        assert!(line["charged"].as_u64() >= Some(least), "{line}");
        let usage = json!({"prompt_tokens": line["charged"], "total_tokens": line["charged"]});
        assert_eq!(answer.json()["usage"], usage);
    }
}

#[tokio::test]
async fn clients_of_gemini_are_directed_to_the_embeddings_of_openai() {
    let (google, gateway) = start().await;
    let body = json!({"requests": [{"content": {"parts": [{"text": "red apples"}]}}]});
    let target = "/v1beta/models/one:batchEmbedContents";
    let answer = gateway.post(target, &body).await;
    let error = &answer.json()["error"];
    assert_eq!(answer.status, 404, "{answer:?}");
    assert_eq!(error["status"], "NOT_FOUND");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("POST /v1/embeddings"), "{message}");
    assert_eq!(answer.header("allow"), None);
    let model = gateway.get("/v1beta/models/one").await.json();
    assert_eq!(model["supportedGenerationMethods"], json!([]), "{model}");
    assert!(google.seen().is_empty());
}

#[tokio::test]
async fn inputs_that_google_does_not_take_are_refused_before_it_is_asked() {
    let (google, gateway) = start().await;
    for (model, input) in [
        ("single", json!(["a", "b"])),
        ("two", json!([1, 2])),
        ("predict", json!([[1], [2]])),
        ("two", json!(vec!["a"; 2049])),
    ] {
        let body = json!({"model": model, "input": input});
        let answer = gateway.post(EMBEDDINGS, &body).await;
        answer.assert_error(400, "invalid_request");
        assert!(answer.message().contains("input"), "{answer:?}");
    }
    assert!(google.seen().is_empty());
}

#[tokio::test]
async fn a_small_request_that_becomes_a_large_one_counts_with_its_size_at_the_provider() {
    let limit = json!("250kB");
    let config = Config::new()
        .with("server.limits.body_bytes", json!("100kB"))
        .with("server.limits.bodies_in_memory", limit);
    let (google, gateway) = start_with(config).await;
    let texts = |count| json!({"model": "two", "input": vec![""; count], "dimensions": 2});
    gateway.post(EMBEDDINGS, &texts(2)).await.assert_ok();
    let answer = gateway.post(EMBEDDINGS, &texts(2048)).await;
    answer.assert_error(503, "service_unavailable");
    assert_eq!(google.seen().len(), 1, "only the small one was sent");
    gateway.sample_is("tollgate_request_body_bytes", 0.0).await;
}

#[tokio::test]
async fn errors_of_google_are_classified_and_free() {
    let (_google, gateway) = start().await;
    for (model, status, code) in [
        ("keyless", 502, "upstream_error"),
        ("unknown", 404, "invalid_model"),
        ("full", 429, "rate_limit_exceeded"),
        ("broken", 502, "upstream_error"),
        // It answers one text with two vectors.
        ("two", 502, "upstream_error"),
    ] {
        let body = json!({"model": model, "input": "a"});
        let answer = gateway.post(EMBEDDINGS, &body).await;
        answer.assert_error(status, code);
        assert_eq!(gateway.line_of(&answer).await["charged"], 0, "{model}");
    }
    let line = gateway.log_line("provider gemini: credential").await;
    assert!(line.contains("API_KEY_INVALID"), "{line}");
}
