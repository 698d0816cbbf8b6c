//! Metrics and health.

use super::*;

#[tokio::test]
async fn metrics_have_labels_of_the_configuration_alone() {
    let (_provider, gateway) = gateway().await;
    for _ in 0..3 {
        gateway
            .ask(CHAT, "test-model", "", json!({}))
            .await
            .assert_ok();
    }
    gateway
        .ask(MESSAGES, "test-model", "status-429", json!({}))
        .await;
    for number in 0..20 {
        let name = format!("made-up-{number}");
        gateway
            .ask(CHAT, &name, "", json!({}))
            .await
            .assert_error(404, "invalid_model");
        gateway
            .get(&format!("/made-up-{number}"))
            .await
            .assert_error(404, "not_found");
    }
    for (sample, value) in [
        (
            r#"tollgate_requests_total{code="",format="chat",model="test-model",provider="sim",status="200"}"#,
            3.0,
        ),
        (
            r#"tollgate_requests_total{code="rate_limit_exceeded",format="messages",model="test-model",provider="sim",status="429"}"#,
            1.0,
        ),
        (
            r#"tollgate_requests_total{code="invalid_model",format="chat",model="",provider="",status="404"}"#,
            20.0,
        ),
        (
            r#"tollgate_upstream_faults_total{class="rate_limit",provider="sim"}"#,
            1.0,
        ),
        (
            r#"tollgate_request_duration_seconds_count{format="chat",model="test-model",provider="sim"}"#,
            3.0,
        ),
        (
            r#"tollgate_time_to_first_byte_seconds_count{format="chat",model="test-model",provider="sim"}"#,
            3.0,
        ),
        ("tollgate_requests_in_flight", 0.0),
        ("tollgate_streams_open", 0.0),
        ("tollgate_request_body_bytes", 0.0),
    ] {
        gateway.sample_is(sample, value).await;
    }
    let page = gateway.operator("/metrics").await;
    assert_eq!(
        page.header("content-type"),
        Some("text/plain; version=0.0.4")
    );
    assert!(!page.text().contains("made-up"), "{}", page.text());
    assert!(!page.text().contains(&gateway.key));
}

#[tokio::test]
async fn counters_are_there_before_the_first_request() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with(
        "auto",
        json!({"family": "test", "candidates": ["test-model"]}),
    );
    let gateway = Gateway::start(config).await;
    for sample in [
        r#"tollgate_requests_total{code="",format="none",model="",provider="sim",status="200"}"#,
        r#"tollgate_requests_total{code="upstream_error",format="none",model="",provider="sim",status="502"}"#,
        r#"tollgate_requests_total{code="upstream_error",format="none",model="",provider="sim",status="200"}"#,
        r#"tollgate_requests_total{code="invalid_model",format="chat",model="",provider="",status="404"}"#,
        r#"tollgate_tokens_total{format="none",kind="cache_write",model="",provider="sim"}"#,
        r#"tollgate_reasoning_tokens_total{format="none",model="",provider="sim"}"#,
        r#"tollgate_upstream_faults_total{class="rate_limit",provider="sim"}"#,
        r#"tollgate_upstream_faults_total{class="context_length",provider="sim"}"#,
        r#"tollgate_breaker_opened_total{credential="",deployment="",provider="sim",scope="provider"}"#,
        r#"tollgate_auto_choices_total{model="test-model",profile="auto",why="default"}"#,
        r#"tollgate_configuration_reloads_total{outcome="failed"}"#,
        r#"tollgate_token_counts_total{source="local"}"#,
        r#"tollgate_requests_shed_total{reason="memory"}"#,
        r#"tollgate_connections_refused_total{reason="proxy_header"}"#,
        r#"tollgate_heads_refused_total{reason="framing"}"#,
    ] {
        assert_eq!(gateway.sample(sample).await, Some(0.0), "{sample}");
    }
    let version = env!("CARGO_PKG_VERSION");
    let build = format!(
        "tollgate_build_info{{arch=\"{}\",os=\"{}\",version=\"{version}\"}}",
        std::env::consts::ARCH,
        std::env::consts::OS,
    );
    assert_eq!(gateway.sample(&build).await, Some(1.0), "{build}");
    for sample in [
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_start_time_seconds",
    ] {
        assert!(gateway.sample(sample).await > Some(0.0), "{sample}");
    }
}

#[tokio::test]
async fn every_token_is_counted_in_one_kind() {
    let (_provider, gateway) = gateway().await;
    let said = "word ".repeat(4000);
    let body = json!({
        "model": "test-model",
        "reasoning_effort": "high",
        "messages": [
            {"role": "user", "content": said},
            {"role": "assistant", "content": "Yes."},
            {"role": "user", "content": "Go on."},
        ],
    });
    let answer = gateway.post(CHAT, &body).await;
    answer.assert_ok();
    let usage = &answer.json()["usage"];
    let count = |pointer| {
        let count = usage.pointer(pointer).and_then(Value::as_f64);
        count
            .filter(|it| *it > 0.0)
            .unwrap_or_else(|| panic!("no {pointer}: {usage}"))
    };
    let cached = count("/prompt_tokens_details/cached_tokens");
    let kinds = [
        ("input", count("/prompt_tokens") - cached),
        ("cache_read", cached),
        ("cache_write", 0.0),
        ("output", count("/completion_tokens")),
    ];
    for (kind, tokens) in kinds {
        let sample = format!(
            r#"tollgate_tokens_total{{format="chat",kind="{kind}",model="test-model",provider="sim"}}"#
        );
        gateway.sample_is(&sample, tokens).await;
    }
    let sum = gateway.total("tollgate_tokens_total").await;
    assert_eq!(sum, count("/total_tokens"), "{usage}");
    gateway
        .sample_is(
            r#"tollgate_reasoning_tokens_total{format="chat",model="test-model",provider="sim"}"#,
            count("/completion_tokens_details/reasoning_tokens"),
        )
        .await;
}

#[tokio::test]
async fn open_streams_are_counted_while_they_are_open() {
    let (_provider, gateway) = gateway().await;
    let body = prompt(
        CHAT,
        "test-model",
        "one two three four five",
        json!({"stream": true}),
    );
    let request = Request::post(CHAT, &body)
        .key(&gateway.key)
        .orders("stall-after-4");
    let mut connection = gateway.connect().await;
    connection.write(&request.bytes()).await;
    connection.read_until(b"data: ").await;
    gateway.sample_is("tollgate_streams_open", 1.0).await;
    gateway.sample_is("tollgate_requests_in_flight", 1.0).await;
    drop(connection);
    gateway.sample_is("tollgate_streams_open", 0.0).await;
    gateway.sample_is("tollgate_requests_in_flight", 0.0).await;
}

#[tokio::test]
async fn health_is_for_operators_alone() {
    let (_provider, gateway) = gateway().await;
    for page in ["/healthz", "/readyz"] {
        assert_eq!(gateway.operator(page).await.status, 200);
        gateway.get(page).await.assert_error(404, "not_found");
    }
    assert_eq!(gateway.operator("/v1").await.status, 404);
}

#[tokio::test]
async fn silent_connections_of_operators_block_no_others() {
    const FAR_TOO_MANY: usize = 400;
    let (_provider, gateway) = gateway().await;
    let mut idle = Vec::new();
    for _ in 0..FAR_TOO_MANY {
        idle.push(bounded("a connection", TcpStream::connect(gateway.admin)).await);
    }
    gateway
        .ask(CHAT, "test-model", "", json!({}))
        .await
        .assert_ok();
    // The first one was closed, and the last one is served.
    let mut last = idle.pop().unwrap().unwrap();
    let mut first = idle.swap_remove(0).unwrap();
    let read = bounded("the end of a connection", first.read(&mut [0])).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    let request = Request::get("/healthz");
    last.write_all(&request.bytes()).await.unwrap();
    let answer = support::Connection::over(last).answer(&request).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}
