//! Embeddings of Amazon Titan and Cohere, through InvokeModel, for clients of the API of OpenAI. The stand-in verifies each
//! signature as the real service does.

use crate::support::aws::{Answered, Asked, Aws, ID, SECRET};
use crate::support::{Act, Config, Gateway, Output, Service, json_answer, provider, tollgate};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

const EMBEDDINGS: &str = "/v1/embeddings";

fn answer_of_model(asked: &Asked) -> Answered {
    let answered = |status, body: Value| Answered {
        status,
        headers: vec![("content-type", "application/json")],
        body: body.to_string().into_bytes(),
        rest: Vec::new(),
    };
    match &*asked.target {
        "/model/amazon.titan-embed-text-v2%3A0/invoke" => {
            let vector = json!([0.5, -0.125, 0.25]);
            answered(
                200,
                json!({"embedding": vector, "embeddingsByType": {"float": vector}, "inputTextTokenCount": 4}),
            )
        }
        "/model/us.cohere.embed-v4%3A0/invoke" => {
            let vectors = json!({"float": [[0.5, -0.125], [0.25, 1]]});
            let body =
                json!({"id": "1", "response_type": "embeddings_by_type", "embeddings": vectors});
            let mut answer = answered(200, body);
            let count = ("x-amzn-bedrock-input-token-count", "6");
            answer.headers.push(count);
            answer
        }
        "/model/titan-broken/invoke" => answered(200, json!({"message": "no vector"})),
        "/model/titan-long/invoke" => {
            let text = "Malformed input request: expected maxLength: 50000, actual: 50001, please reformat your input and try again.";
            let mut refused = answered(400, json!({"message": text}));
            refused
                .headers
                .push(("x-amzn-errortype", "ValidationException"));
            refused
        }
        other => panic!("nothing is at {other}"),
    }
}

async fn start() -> (Aws, Gateway) {
    let aws = Aws::with_answers(answer_of_model).await;
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("id"), ID).unwrap();
    std::fs::write(folder.path().join("secret"), SECRET).unwrap();
    let keys = json!({"region": "us-east-1", "access_key": "file:id", "secret_key": "file:secret"});
    let mut settings = provider(aws.address);
    settings["formats"] = json!([{"name": "embeddings", "api": "bedrock"}]);
    settings["credentials"] = json!([{ "aws": keys }]);
    let price = json!({"input": 1000, "output": 0});
    let config = Config::new()
        .provider("bedrock", settings)
        .model("vectors", json!(["bedrock/amazon.titan-embed-text-v2:0"]))
        .with("models.vectors.price", price.clone())
        .model("many", json!(["bedrock/us.cohere.embed-v4:0"]))
        .with("models.many.price", price)
        .model("broken", json!(["bedrock/titan-broken"]))
        .model("long", json!(["bedrock/titan-long"]));
    let gateway = Gateway::start_in(folder, config).await;
    (aws, gateway)
}

#[tokio::test]
async fn a_text_gets_its_vector_and_costs_what_titan_counted() {
    let (aws, gateway) = start().await;
    let bytes = [0.5_f32, -0.125, 0.25].map(f32::to_le_bytes).concat();
    let numbers = json!([0.5, -0.125, 0.25]);
    for (more, embedding) in [
        (json!({"input": "red apples"}), numbers.clone()),
        (
            json!({"input": ["red apples"], "encoding_format": "float"}),
            numbers,
        ),
        // What the SDKs of OpenAI ask for.
        (
            json!({"input": "red apples", "encoding_format": "base64"}),
            json!(BASE64_STANDARD.encode(bytes)),
        ),
    ] {
        let mut body = more;
        body["model"] = json!("vectors");
        body["dimensions"] = json!(256);
        body["normalize"] = json!(true);
        body["user"] = json!("someone");
        let answer = gateway.post(EMBEDDINGS, &body).await;
        answer.assert_ok();
        let sent = aws.last().body;
        let expected = json!({"inputText": "red apples", "dimensions": 256, "normalize": true});
        assert_eq!(sent, expected);
        let expected = json!({
            "object": "list", "model": "vectors",
            "data": [{"object": "embedding", "index": 0, "embedding": embedding}],
            "usage": {"prompt_tokens": 4, "total_tokens": 4},
        });
        assert_eq!(answer.json(), expected);
        assert_eq!(answer.header("x-dropped-fields"), Some("user"));
        let line = gateway.line_of(&answer).await;
        assert_eq!(
            (&line["charged"], &line["count"]),
            (&json!(4), &json!("reported")),
            "{line}"
        );
        assert_eq!(line["cost"], "0.004", "{line}");
    }
}

#[tokio::test]
async fn texts_get_the_vectors_of_cohere_and_cost_what_the_head_counts() {
    let (aws, gateway) = start().await;
    let body = json!({"model": "many", "input": ["red apples", "green ones"], "dimensions": 256});
    let answer = gateway.post(EMBEDDINGS, &body).await;
    answer.assert_ok();
    let expected = json!({"texts": ["red apples", "green ones"], "input_type": "search_document",
        "embedding_types": ["float"], "output_dimension": 256});
    assert_eq!(aws.last().body, expected);
    let vector = |index, embedding: Value| json!({"object": "embedding", "index": index, "embedding": embedding});
    let expected = json!({
        "object": "list", "model": "many",
        "data": [vector(0, json!([0.5, -0.125])), vector(1, json!([0.25, 1]))],
        "usage": {"prompt_tokens": 6, "total_tokens": 6},
    });
    assert_eq!(answer.json(), expected);
    let line = gateway.line_of(&answer).await;
    assert_eq!(
        (&line["charged"], &line["count"], &line["cost"]),
        (&json!(6), &json!("reported"), &json!("0.006")),
        "{line}"
    );
    let body = json!({"model": "many", "input": [1, 2]});
    gateway
        .post(EMBEDDINGS, &body)
        .await
        .assert_error(400, "invalid_request");
    assert_eq!(aws.verified(), 1);
}

#[tokio::test]
async fn several_texts_are_refused_before_titan_is_asked() {
    let (aws, gateway) = start().await;
    for input in [json!(["a", "b"]), json!([1, 2, 3]), json!([[1], [2]])] {
        let body = json!({"model": "vectors", "input": input});
        let answer = gateway.post(EMBEDDINGS, &body).await;
        answer.assert_error(400, "invalid_request");
        assert!(answer.message().contains("one text"), "{answer:?}");
    }
    assert_eq!(aws.verified(), 0);
}

#[tokio::test]
async fn errors_of_titan_are_classified_and_an_answer_without_a_vector_is_none() {
    let (_aws, gateway) = start().await;
    let ask = async |model: &str| {
        let body = json!({"model": model, "input": "a"});
        gateway.post(EMBEDDINGS, &body).await
    };
    let long = ask("long").await;
    assert_eq!(long.status, 400, "{long:?}");
    let broken = ask("broken").await;
    assert_eq!(broken.status, 502, "{broken:?}");
    assert_eq!(gateway.line_of(&broken).await["charged"], 0);
}

/// The ARN of an application inference profile says nothing of the vendor.
const PROFILE: &str = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc";

#[tokio::test]
async fn a_profile_of_cohere_gets_the_body_of_cohere_if_the_provider_says_so() {
    let upstream = Service::answering(|_| {
        let body =
            r#"{"embeddings":{"float":[[0.5],[0.25]]},"response_type":"embeddings_by_type"}"#;
        vec![Act::send(json_answer("200 OK", "", body))]
    })
    .await;
    let mut settings = provider(upstream.address);
    settings["formats"] = json!([{"name": "embeddings", "api": "bedrock_cohere"}]);
    let deployment = json!([{"provider": "bedrock", "upstream_model": PROFILE}]);
    let config = Config::new()
        .provider("bedrock", settings)
        .model("profile", deployment);
    let gateway = Gateway::start(config).await;
    let body = json!({"model": "profile", "input": ["a", "b"]});
    gateway.post(EMBEDDINGS, &body).await.assert_ok();
    let seen = upstream.last();
    assert!(seen.target.starts_with("/model/arn"), "{}", seen.target);
    let sent: Value = serde_json::from_slice(&seen.body).unwrap();
    assert_eq!(sent["texts"], json!(["a", "b"]), "{sent}");
}

#[tokio::test]
async fn a_model_of_bedrock_whose_name_says_no_vendor_is_refused_at_the_start() {
    let mut settings = provider("127.0.0.1:9".parse().unwrap());
    settings["formats"] = json!([{"name": "embeddings", "api": "bedrock"}]);
    let deployment = json!([{"provider": "bedrock", "upstream_model": PROFILE}]);
    let config = Config::new()
        .provider("bedrock", settings)
        .model("profile", deployment);
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("tollgate.yaml");
    std::fs::write(&file, config.0.to_string()).unwrap();
    let mut command = tollgate();
    let output = Output::of(command.args(["check", "--config"]).arg(&file)).await;
    assert!(!output.status.success(), "{output:?}");
    let message = format!("{output:?}");
    for part in ["models.profile.deployments[0]", PROFILE, "bedrock_cohere"] {
        assert!(message.contains(part), "{part}: {message}");
    }
}
