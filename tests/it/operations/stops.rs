//! Stops and reloads.

use super::*;

#[tokio::test]
async fn a_stop_lets_a_stream_end_and_then_is_prompt() {
    let (provider, mut gateway) = gateway().await;
    let said = "one two three four five six seven eight nine ten";
    let body = prompt(CHAT, "test-model", said, json!({"stream": true}));
    let request = Request::post(CHAT, &body)
        .key(&gateway.key)
        .orders("chunk-delay-300ms");
    let mut connection = gateway.connect().await;
    connection.write(&request.bytes()).await;
    let mut answer = connection.head().await;
    gateway.signal("TERM").await;
    let draining = async || (gateway.operator("/readyz").await.status == 503).then_some(());
    eventually("it is not ready any more", draining).await;
    let reason = gateway.operator("/readyz").await.text();
    assert_eq!(reason, "not ready: this process ends\n");
    assert_eq!(gateway.operator("/healthz").await.status, 200);
    connection.read_body(&mut answer).await;
    assert_eq!(answer.ending, Ending::Complete);
    assert!(answer.text().ends_with("data: [DONE]\n\n"), "{answer:?}");
    let over = Instant::now();
    let status = gateway.ended().await;
    assert_eq!(status.code(), Some(0));
    assert!(over.elapsed() < AT_ONCE, "{:?}", over.elapsed());
    assert_eq!(provider.handle.counters().left_early, 0);
    let line = gateway.access_line(|line| line["path"] == CHAT).await;
    assert_eq!(line["outcome"], "completed", "{line}");
}

#[tokio::test]
async fn a_stop_without_requests_is_immediate() {
    for signal in ["TERM", "INT"] {
        let (_provider, mut gateway) = gateway().await;
        let mut idle = gateway.connect().await;
        idle.send(&Request::get("/v1").key(&gateway.key))
            .await
            .assert_ok();
        let begun = Instant::now();
        gateway.signal(signal).await;
        assert_eq!(gateway.ended().await.code(), Some(0), "{signal}");
        assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
        let again = tokio::net::TcpListener::bind(gateway.address).await;
        assert!(again.is_ok(), "the port is free again: {again:?}");
    }
}

#[tokio::test]
async fn a_stream_that_outlasts_the_grace_is_cut() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.shutdown.grace", json!("1s"));
    let mut gateway = Gateway::start(config).await;
    let body = prompt(
        CHAT,
        "test-model",
        "one two three four",
        json!({"stream": true}),
    );
    let request = Request::post(CHAT, &body)
        .key(&gateway.key)
        .orders("stall-after-4");
    let mut connection = gateway.connect().await;
    connection.write(&request.bytes()).await;
    connection.read_until(b"data: ").await;
    gateway.signal("TERM").await;
    assert_eq!(gateway.ended().await.code(), Some(0));
    gateway.log_line("1 requests were cut").await;
}

#[tokio::test]
async fn a_reload_takes_a_changed_catalog_and_a_bad_file_changes_nothing() {
    let (provider, gateway) = gateway().await;
    // A request that began before keeps what it began with.
    let body = prompt(
        CHAT,
        "test-model",
        "one two three four",
        json!({"stream": true}),
    );
    let request = Request::post(CHAT, &body)
        .key(&gateway.key)
        .orders("chunk-delay-50ms");
    let mut open = gateway.connect().await;
    open.write(&request.bytes()).await;
    let mut answer = open.head().await;

    let changed = Config::new()
        .provider("sim", support::provider(provider.address))
        .model("new-model", json!(["sim"]));
    gateway.rewrite(changed);
    gateway.signal("HUP").await;
    gateway.log_line("was reloaded").await;
    gateway
        .ask(CHAT, "new-model", "", json!({}))
        .await
        .assert_ok();
    let gone = gateway.ask(CHAT, "test-model", "", json!({})).await;
    gone.assert_error(404, "invalid_model");
    open.read_body(&mut answer).await;
    assert!(answer.text().ends_with("data: [DONE]\n\n"), "{answer:?}");

    for (bad, reported) in [
        ("providers: [", "configuration is unchanged"),
        ("surprise: true\n", "surprise"),
        // As it is while an editor writes it.
        ("keys: { pepper: env:TOLLGATE_PEPPER }\n", "serves no model"),
        ("models:\n  x: { family: nothing }\n", "models.x"),
    ] {
        gateway.rewrite_text(bad);
        gateway.signal("HUP").await;
        gateway.log_line(reported).await;
    }
    gateway
        .ask(CHAT, "new-model", "", json!({}))
        .await
        .assert_ok();
    assert_eq!(gateway.operator("/readyz").await.status, 200);
}
