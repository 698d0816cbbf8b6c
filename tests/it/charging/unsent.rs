//! Callers that leave before the provider has their request pay nothing.

use super::*;
use crate::support::{Authority, provider_at};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

#[tokio::test]
async fn a_caller_that_leaves_while_the_gateway_connects_pays_nothing() {
    let authority = Authority::new();
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("own.pem"), authority.pem()).unwrap();
    let acceptor = authority.issue("provider.test").acceptor();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut slow = provider_at(&format!("https://{}", listener.local_addr().unwrap()));
    slow["http2"] = json!("never");
    slow["tls"] = json!({"ca": "own.pem", "server_name": "provider.test"});
    slow["passthrough"] = json!([{"path": "/v1/images", "methods": ["POST"], "charge": 4000}]);
    let refusal = Act::send("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n");
    let busy = Upstream::playing([refusal, Act::Again]).await;
    let config = Config::new()
        .provider("slow", slow)
        .provider("busy", support::provider(busy.address))
        .model("test-model", json!(["slow"]))
        .model("both", json!(["busy", {"provider": "slow", "priority": 1}]));
    let gateway = Gateway::start_in(folder, config).await;

    let tools = json!({"tools": [{"type": "web_search"}]});
    let long = "word ".repeat(30_000);
    let mut second = ask(CHAT, false, json!({}));
    second["model"] = json!("both");
    for (what, attempts, request) in [
        (
            "a stream",
            0,
            Request::post(CHAT, &ask(CHAT, true, json!({}))),
        ),
        (
            "a hosted tool",
            0,
            Request::post(RESPONSES, &ask(RESPONSES, false, tools)),
        ),
        (
            "a long input",
            0,
            Request::post(CHAT, &prompt(CHAT, "test-model", &long, json!({}))),
        ),
        ("the second attempt", 1, Request::post(CHAT, &second)),
        (
            "an open path",
            0,
            Request::new("POST", "/passthrough/slow/v1/images").body("a cat"),
        ),
    ] {
        let size = request.body.len();
        let mut connection = gateway.connect().await;
        connection.write(&request.key(&gateway.key).bytes()).await;
        let (stream, _) = bounded("a connection", listener.accept()).await.unwrap();
        drop(connection);
        // On a loaded machine, the disconnect could arrive after the handshake.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let mut session = bounded("a handshake", acceptor.accept(stream))
            .await
            .unwrap();
        let mut received = Vec::new();
        // The gateway closes the connection without a farewell.
        let _ = bounded("the end", session.read_to_end(&mut received)).await;
        assert!(received.is_empty(), "{what}: {} bytes", received.len());
        let line = gateway
            .access_line(|line| line["request_bytes"] == size)
            .await;
        assert_eq!(line["status"], 499, "{what}: {line}");
        assert_eq!(line["outcome"], "client_closed", "{what}: {line}");
        assert_eq!(line["attempts"], attempts, "{what}: {line}");
        assert_eq!(line["charged"], 0, "{what}: {line}");
    }
    assert_eq!(gateway.spent(&gateway.key).await, 0);
    gateway.verify().await;
}
