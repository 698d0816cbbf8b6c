//! Embeddings and rerank: checked, passed on, and charged for their input alone.

use crate::support::{
    self, Act, CHAT, Config, Gateway, LONG, Provider, Request, Upstream, eventually, json_answer,
};
use serde_json::{Value, json};
use tollgate_ledger::GrantTerms;
use tollgate_types::Money;

const EMBEDDINGS: &str = "/v1/embeddings";
const RERANK: &str = "/v1/rerank";

async fn start() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let formats = json!(["chat", "embeddings", "rerank"]);
    let config = Config::of(&provider)
        .with("providers.sim.formats", formats)
        .with(
            "models.test-model.price",
            json!({"input": 1000, "output": 1000000}),
        )
        .with("models.test-model.context_window", json!(100));
    let small = json!({"tokens": 600, "validity": "1d"});
    let gateway = Gateway::start(config.with("plans.small", small)).await;
    (provider, gateway)
}

#[tokio::test]
async fn vectors_arrive_as_the_provider_makes_them_and_cost_their_input() {
    let (provider, gateway) = start().await;
    for (path, body, tokens) in [
        (EMBEDDINGS, json!({"input": "red apples"}), 2),
        (
            EMBEDDINGS,
            json!({"input": ["red apples", "cars"], "encoding_format": "base64"}),
            3,
        ),
        (
            EMBEDDINGS,
            json!({"input": [[1, 2], [3]], "dimensions": 5}),
            3,
        ),
        (EMBEDDINGS, json!({"input": [7, 8, 9], "user": "u"}), 3),
        (
            RERANK,
            json!({"query": "red", "documents": ["a red one", {"text": "b"}], "top_n": 1}),
            6,
        ),
        // Cohere's clients use this path.
        (
            "/v2/rerank",
            json!({"query": "red", "documents": ["a red one", "b"], "top_n": 1}),
            6,
        ),
    ] {
        let mut body = body;
        body["model"] = json!("test-model");
        let answer = gateway.post(path, &body).await;
        answer.assert_ok();
        body["model"] = json!("upstream-model");
        let received = provider.last();
        let sent: Value = serde_json::from_slice(&received.body).unwrap();
        let (upstream, list) = match path {
            EMBEDDINGS => (path, "data"),
            _ => (RERANK, "results"),
        };
        assert_eq!((received.uri.path(), &sent), (upstream, &body));
        assert!(answer.json()[list][0].is_object(), "{answer:?}");
        let line = gateway.line_of(&answer).await;
        assert_eq!(line["usage"]["input"], tokens, "{line}");
        assert_eq!(line["usage"]["output"], 0, "{line}");
        assert_eq!(
            (&line["charged"], &line["count"]),
            (&json!(tokens), &json!("reported")),
            "{line}"
        );
        assert_eq!(line["cost"], json!(format!("0.00{tokens}")), "{line}");
    }
}

/// The answer of Cohere, which reports searches and no tokens.
#[tokio::test]
async fn a_rerank_costs_the_searches_that_its_provider_reports_or_those_that_it_needs() {
    let answer = |searches: Value| {
        let body = json!({
            "id": "r", "results": [{"index": 0, "relevance_score": 0.5}],
            "meta": {"api_version": {"version": "2"}, "billed_units": searches},
        });
        Act::send(json_answer("200 OK", "", &body.to_string()))
    };
    let documents = vec!["some words"; 201];
    let body = json!({"model": "test-model", "query": "words", "documents": documents});
    for (searches, cost) in [
        (json!({"search_units": 7}), "0.014"),
        // 201 documents are three searches.
        (json!({}), "0.006"),
    ] {
        let upstream = Upstream::playing([answer(searches)]).await;
        let mut provider = support::provider(upstream.address);
        provider["formats"] = json!(["rerank"]);
        let price = json!({"input": 0, "output": 0, "tool_calls": {"rerank": 0.002}});
        let config = Config::new()
            .provider("raw", provider)
            .model("test-model", json!(["raw"]))
            .with("models.test-model.price", price);
        let gateway = Gateway::start(config).await;
        let key = |nanos: u64| {
            gateway.key_of(GrantTerms {
                money: Money::from_nanos(nanos),
                validity: LONG,
                ..GrantTerms::default()
            })
        };
        // The three searches are reserved.
        let request = Request::post(RERANK, &body);
        gateway
            .send(&request.clone().key(&key(5_999_999)))
            .await
            .assert_error(402, "quota_exhausted");
        assert_eq!(upstream.requests(), 0);
        let answer = gateway.send(&request.key(&key(6_000_000))).await;
        answer.assert_ok();
        assert_eq!(answer.header("x-cost"), Some(cost));
        assert_eq!(gateway.line_of(&answer).await["cost"], cost);
    }
}

/// vLLM and Voyage read the query once for each document.
#[tokio::test]
async fn a_rerank_reserves_its_query_for_each_document() {
    const TOKENS: u64 = 2_001_000;
    let results = json!([{"index": 0, "relevance_score": 0.5}]);
    let body = json!({"id": "r", "results": results, "usage": {"total_tokens": TOKENS}});
    let answer = json_answer("200 OK", "", &body.to_string());
    let upstream = Upstream::playing([Act::send(answer)]).await;
    let mut provider = support::provider(upstream.address);
    provider["formats"] = json!(["rerank"]);
    let config = Config::new()
        .provider("raw", provider)
        .model("test-model", json!(["raw"]))
        .with("models.test-model.context_window", json!(8192));
    let gateway = Gateway::start(config).await;
    let (query, documents) = ("word ".repeat(2000), vec!["a"; 1000]);
    let body = json!({"model": "test-model", "query": query, "documents": documents});
    let request = Request::post(RERANK, &body);
    let small = gateway.key_with(13_000, LONG);
    gateway
        .send(&request.clone().key(&small))
        .await
        .assert_error(402, "quota_exhausted");
    assert_eq!(upstream.requests(), 0);
    let answer = gateway.send(&request.key(&gateway.key)).await;
    answer.assert_ok();
    let line = gateway.line_of(&answer).await;
    assert_eq!(
        (&line["charged"], &line["count"]),
        (&json!(TOKENS), &json!("reported")),
        "{line}"
    );
}

#[tokio::test]
async fn a_request_without_texts_is_refused_by_name() {
    let (provider, gateway) = start().await;
    for (path, body, named) in [
        (EMBEDDINGS, json!({}), "input"),
        (EMBEDDINGS, json!({"input": []}), "input"),
        (EMBEDDINGS, json!({"input": 7}), "input"),
        (RERANK, json!({"query": "q"}), "documents"),
        (RERANK, json!({"query": "q", "documents": "d"}), "documents"),
        (
            EMBEDDINGS,
            json!({"input": "a", "fallbacks": ["b"]}),
            "fallbacks",
        ),
    ] {
        let mut body = body;
        body["model"] = json!("test-model");
        let answer = gateway.post(path, &body).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        let message = answer.json()["error"]["message"].to_string();
        assert!(message.contains(named), "{message}");
    }
    assert!(provider.received().is_empty());
}

#[tokio::test]
async fn models_without_vectors_are_not_asked_for_them() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    let body = json!({"model": "test-model", "input": "a"});
    let answer = gateway.post(EMBEDDINGS, &body).await;
    assert_eq!(answer.status, 404, "{answer:?}");
    let message = answer.json()["error"]["message"].to_string();
    assert!(message.contains("embeddings"), "{message}");
    assert!(provider.received().is_empty());
}

/// A model of both: the deployment of chat is no candidate for vectors.
#[tokio::test]
async fn a_deployment_without_the_format_is_no_candidate() {
    let [a, b] = [Provider::start().await, Provider::start().await];
    let config = Config::first_and_second(a.address, b.address)
        .with("providers.a.formats", json!(["embeddings"]))
        .with("providers.b.formats", json!(["chat"]));
    let gateway = Gateway::start(config).await;
    let body = json!({"model": "m", "input": "a"});
    let request = Request::post(EMBEDDINGS, &body).key(&gateway.key);
    let limited = request.clone().orders("status-429+retry-after-30");
    for request in [limited, request] {
        let answer = gateway.send(&request).await;
        answer.assert_error(429, "rate_limit_exceeded");
    }
    assert_eq!((a.received().len(), b.received().len()), (1, 0));
    let chat = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
    gateway.post(CHAT, &chat).await.assert_ok();
}

#[tokio::test]
async fn a_model_of_vectors_alone_holds_no_conversation() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("providers.sim.formats", json!(["embeddings"]));
    let gateway = Gateway::start(config).await;
    let body = json!({"model": "test-model", "messages": [{"role": "user", "content": "Hi"}]});
    let answer = gateway.post(CHAT, &body).await;
    assert_eq!(answer.status, 404, "{answer:?}");
    assert!(provider.received().is_empty());
}

#[tokio::test]
async fn a_balance_pays_for_input_alone_and_failures_are_free() {
    let (_provider, gateway) = start().await;
    let key = gateway.create_key(&["--plan", "small"]).await;
    let body = json!({"model": "test-model", "input": "a b c"});
    let ask = || Request::post(EMBEDDINGS, &body).key(&key);
    let failed = gateway.send(&ask().orders("status-500")).await;
    assert_eq!(failed.status, 502, "{failed:?}");
    gateway.send(&ask()).await.assert_ok();
    let usage = Request::get("/v1/usage").key(&key);
    eventually("the charge", async || {
        let usage = gateway.send(&usage).await.json();
        (usage["tokens"]["remaining"] == 597).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_context_window_is_that_of_a_text_and_not_of_the_request() {
    let (_provider, gateway) = start().await;
    let texts = vec!["some words of a text"; 500];
    let body = json!({"model": "test-model", "input": texts});
    let answer = gateway.post(EMBEDDINGS, &body).await;
    answer.assert_ok();
    assert_eq!(gateway.line_of(&answer).await["charged"], 2500);
}
