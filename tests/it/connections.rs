//! Connections on both sides: what stays open, what is closed in good order, and the
//! protocols that are spoken.

use crate::support::{
    self, Act, Authority, CHAT, Config, Connection, Ending, FORMATS, Gateway, Http2, Identity,
    MESSAGES, Output, Ports, Provider, Request, Upstream, bounded, closed_port, in_front_of,
    prompt, provider_at, tollgate,
};
use serde_json::json;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

async fn gateway() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    (provider, gateway)
}

fn ask(gateway: &Gateway, path: &str) -> Request {
    let body = prompt(path, "test-model", "Hello!", json!({}));
    Request::post(path, &body).key(&gateway.key)
}

#[tokio::test]
async fn a_connection_stays_in_use_whatever_was_answered() {
    let (_provider, gateway) = gateway().await;
    let plain = ask(&gateway, CHAT);
    let nothing = prompt(CHAT, "nothing", "Hello!", json!({}));
    let stream = prompt(MESSAGES, "test-model", "Hello!", json!({"stream": true}));
    let cases = [
        (Request::get("/v1").key(&gateway.key), 200),
        (ask(&gateway, CHAT).without("authorization"), 401),
        (
            ask(&gateway, CHAT).without("authorization").key("sk-wrong"),
            401,
        ),
        (ask(&gateway, CHAT).without("content-type"), 415),
        (plain.clone().body("nonsense"), 400),
        (Request::post(CHAT, &nothing).key(&gateway.key), 404),
        (Request::post("/nowhere", &json!({})), 404),
        (Request::get(CHAT).key(&gateway.key), 405),
        (plain.clone().orders("status-500"), 502),
        (plain.clone().orders("vendor-openai-context"), 400),
        (plain.clone().orders("html-502"), 502),
        (plain, 200),
        (Request::post(MESSAGES, &stream).key(&gateway.key), 200),
        (Request::get("/v1/models").key(&gateway.key), 200),
    ];
    let mut connection = gateway.connect().await;
    for (request, status) in &cases {
        let answer = connection.send(request).await;
        assert_eq!(answer.status, *status, "{request:?}: {answer:?}");
        assert_eq!(answer.ending, Ending::Complete);
        assert_ne!(answer.header("connection"), Some("close"), "{request:?}");
    }
}

#[tokio::test]
async fn a_connection_that_is_given_up_says_so_and_ends_in_good_order() {
    let provider = Provider::start().await;
    let (closed, _port) = closed_port();
    let config = Config::of(&provider)
        .provider("closed", support::provider(closed))
        .model("away", json!(["closed"]));
    let gateway = Gateway::start(config).await;
    let away = prompt(CHAT, "away", "Hello!", json!({}));
    for request in [
        ask(&gateway, CHAT).orders("reset"),
        Request::post(CHAT, &away).key(&gateway.key),
        ask(&gateway, CHAT)
            .without("authorization")
            .in_chunks_of(10),
    ] {
        let mut connection = gateway.connect().await;
        let answer = connection.send(&request).await;
        assert_eq!(answer.ending, Ending::Complete, "{answer:?}");
        if answer.header("connection") == Some("close") {
            let (rest, ending) = connection.rest().await;
            assert_eq!((rest.len(), ending), (0, Ending::Cut));
        } else {
            connection.send(&ask(&gateway, CHAT)).await.assert_ok();
        }
    }
}

#[tokio::test]
async fn a_refusal_can_be_read_by_a_caller_that_still_sends() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.limits.body_bytes", json!("1MiB"));
    let gateway = Gateway::start(config).await;
    // More than the sockets hold, and little enough to be read within the two seconds of grace.
    let large = ask(&gateway, CHAT).body(vec![b' '; 12 << 20]);
    let unknown = large.clone().without("authorization").key("sk-wrong");
    for (request, status) in [(large, 413), (unknown, 401)] {
        let mut connection = gateway.connect().await;
        // Everything is sent before anything is read, as simple clients do.
        connection.write(&request.bytes()).await;
        let answer = connection.answer(&request).await;
        assert_eq!((answer.status, answer.ending), (status, Ending::Complete));
        let (rest, ending) = connection.rest().await;
        assert_eq!((rest.len(), ending), (0, Ending::Cut));
    }
    assert_eq!(provider.handle.counters().requests, 0);
}

#[tokio::test]
async fn an_answer_that_comes_before_the_body_was_taken_passes() {
    let (_provider, gateway) = gateway().await;
    let said = "word ".repeat(1 << 20);
    let body = prompt(CHAT, "test-model", &said, json!({}));
    let request = Request::post(CHAT, &body)
        .key(&gateway.key)
        .orders("early-answer");
    let answer = gateway.send(&request).await;
    answer.assert_ok();
    assert!(answer.text().contains("an early answer"), "{answer:?}");
}

/// Takes connections for a provider, and ends each of the first so many of HTTP/2 in good order
/// when its first request comes; the later ones are passed on.
async fn restarting(provider: &Provider, most: usize) -> std::net::SocketAddr {
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    /// No stream was processed, and there was no error.
    const GOAWAY: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    const HEADERS: u8 = 1;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, behind) = (listener.local_addr().unwrap(), provider.address);
    tokio::spawn(async move {
        for taken in 0.. {
            let (mut caller, _) = listener.accept().await.unwrap();
            if taken >= most {
                let mut upstream = TcpStream::connect(behind).await.unwrap();
                tokio::spawn(async move {
                    tokio::io::copy_bidirectional(&mut caller, &mut upstream).await
                });
                continue;
            }
            let mut preface = [0; 24];
            caller.read_exact(&mut preface).await.unwrap();
            caller.write_all(SETTINGS).await.unwrap();
            loop {
                let mut head = [0; 9];
                caller.read_exact(&mut head).await.unwrap();
                let [a, b, c, kind, ..] = head;
                let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
                caller.read_exact(&mut payload).await.unwrap();
                if kind == HEADERS {
                    break;
                }
            }
            caller.write_all(GOAWAY).await.unwrap();
            // Until the other side has ended it as well.
            let _ = caller.read_to_end(&mut Vec::new()).await;
        }
    });
    address
}

#[tokio::test]
async fn a_provider_that_ends_its_connections_in_good_order_has_not_failed() {
    let provider = Provider::start().await;
    for (times, is_reported) in [(1, false), (2, false), (3, true)] {
        let address = restarting(&provider, times).await;
        let config = Config::new()
            .provider("sim", support::provider(address))
            .with("providers.sim.http2", json!("always"))
            .model("test-model", json!(["sim"]));
        let gateway = Gateway::start(config).await;
        let answer = gateway.send(&ask(&gateway, CHAT)).await;
        answer.assert_ok();
        // Over and over it is a fault like others, after which one more attempt is made.
        let attempts = is_reported.then_some("2");
        assert_eq!(answer.header("x-attempts"), attempts, "{times} times");
    }
}

#[tokio::test]
async fn a_head_is_answered_with_a_head() {
    let (_provider, gateway) = gateway().await;
    let mut connection = gateway.connect().await;
    for _ in 0..2 {
        let request = Request::new("HEAD", "/v1").key(&gateway.key);
        let answer = connection.send(&request).await;
        assert_eq!(answer.status, 200);
        assert_ne!(answer.header("content-length"), Some("0"), "{answer:?}");
    }
    connection.send(&ask(&gateway, CHAT)).await.assert_ok();
}

#[tokio::test]
async fn http_1_0_gets_its_answer_and_the_end_of_the_connection() {
    let (_provider, gateway) = gateway().await;
    for more in [json!({}), json!({"stream": true})] {
        let body = prompt(CHAT, "test-model", "Hello!", more);
        let request = Request::post(CHAT, &body).key(&gateway.key);
        let bytes = String::from_utf8(request.bytes()).unwrap();
        let mut connection = gateway.connect().await;
        let old = bytes.replacen("HTTP/1.1", "HTTP/1.0", 1);
        connection.write(old.as_bytes()).await;
        let answer = connection.answer(&request).await;
        answer.assert_ok();
        assert_eq!(answer.header("transfer-encoding"), None, "{answer:?}");
        assert!(answer.text().contains("ello"), "{answer:?}");
        assert_eq!(connection.rest().await.1, Ending::Cut);
    }
}

#[tokio::test]
async fn http2_without_tls_is_spoken_with_prior_knowledge() {
    let (_provider, gateway) = gateway().await;
    let mut http2 = Http2::open(gateway.address).await;
    for path in FORMATS {
        let answer = http2.send(&ask(&gateway, path)).await;
        answer.assert_ok();
        let body = prompt(path, "test-model", "Hello!", json!({"stream": true}));
        let stream = Request::post(path, &body).key(&gateway.key);
        let over_http1 = gateway.send(&stream).await;
        assert_eq!(http2.send(&stream).await.text(), over_http1.text());
        let answer = http2.send(&ask(&gateway, path).orders("status-503")).await;
        answer.assert_error(503, "service_unavailable");
        let answer = http2.send(&ask(&gateway, path).orders("reset")).await;
        answer.assert_error(503, "service_unavailable");
    }
    let answer = http2.send(&Request::get("/v1/models")).await;
    answer.assert_error(401, "missing_api_key");
}

#[tokio::test]
async fn tls_is_served_and_alpn_chooses_the_protocol() {
    let provider = Provider::start().await;
    let authority = Authority::new();
    let folder = TempDir::new().unwrap();
    authority.issue("gateway.test").write(folder.path(), "tls");
    let tls = json!([{"tls": {"certificate": "tls.crt", "key": "tls.key"}}]);
    let config = Config::of(&provider).with("server.listen", tls);
    let gateway = Gateway::start_in(folder, config).await;
    let open = async |alpn: &[&str]| {
        let session = authority.connect(gateway.address, "gateway.test", alpn);
        let session = session.await;
        let protocol = session.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        (session, protocol)
    };

    let (session, protocol) = open(&["h2", "http/1.1"]).await;
    assert_eq!(protocol.as_deref(), Some(&b"h2"[..]));
    let answer = Http2::over(session)
        .await
        .send(&ask(&gateway, MESSAGES))
        .await;
    answer.assert_ok();

    for alpn in [&["http/1.1"][..], &[]] {
        let (session, protocol) = open(alpn).await;
        assert_ne!(protocol.as_deref(), Some(&b"h2"[..]));
        let mut connection = Connection::over(session);
        connection.send(&ask(&gateway, MESSAGES)).await.assert_ok();
        connection.send(&ask(&gateway, CHAT)).await.assert_ok();
    }

    // A client without TLS is refused here, not left waiting.
    let mut connection = gateway.connect().await;
    connection.write(&Request::get("/v1").bytes()).await;
    connection.rest().await;
}

/// A provider that is `provider.test` by the authority in `own.pem`, the address at which it is that, and a
/// folder with this and another authority.
async fn provider_under_its_own_authority() -> (Provider, SocketAddr, TempDir) {
    let provider = Provider::start().await;
    let (own, other) = (Authority::new(), Authority::new());
    let address = in_front_of(provider.address, &own.issue("provider.test")).await;
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("own.pem"), own.pem()).unwrap();
    std::fs::write(folder.path().join("other.pem"), other.pem()).unwrap();
    (provider, address, folder)
}

#[tokio::test]
async fn a_provider_behind_its_own_authority_is_trusted_and_no_other() {
    let (provider, address, folder) = provider_under_its_own_authority().await;
    let mut config = Config::new();
    for (name, tls) in [
        (
            "trusted",
            json!({"ca": "own.pem", "server_name": "provider.test"}),
        ),
        (
            "unknown-authority",
            json!({"ca": "other.pem", "server_name": "provider.test"}),
        ),
        (
            "system-authorities",
            json!({"server_name": "provider.test"}),
        ),
        (
            "another-name",
            json!({"ca": "own.pem", "server_name": "another.test"}),
        ),
    ] {
        let mut settings = provider_at(&format!("https://{address}"));
        settings["tls"] = tls;
        config = config.provider(name, settings).model(name, json!([name]));
    }
    let gateway = Gateway::start_in(folder, config).await;
    for path in FORMATS {
        gateway
            .ask(path, "trusted", "", json!({}))
            .await
            .assert_ok();
        for model in ["unknown-authority", "system-authorities", "another-name"] {
            let answer = gateway.ask(path, model, "", json!({})).await;
            answer.assert_error(503, "service_unavailable");
        }
    }
    assert_eq!(provider.handle.counters().requests, 3);
}

#[tokio::test]
async fn http2_is_spoken_to_a_provider_that_prefers_it() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("providers.sim.http2", json!("always"));
    let gateway = Gateway::start(config).await;
    for path in FORMATS {
        gateway
            .ask(path, "test-model", "", json!({}))
            .await
            .assert_ok();
        let stream = gateway
            .ask(path, "test-model", "", json!({"stream": true}))
            .await;
        stream.assert_ok();
        let answer = gateway
            .ask(path, "test-model", "status-500", json!({}))
            .await;
        answer.assert_error(502, "upstream_error");
    }
    // A request that comes before the last stream was put back opens one more.
    let connections = provider.handle.counters().connections;
    assert!(connections < 4, "{connections} connections for 9 requests");
}

#[tokio::test]
async fn connections_to_a_provider_are_kept() {
    let (provider, gateway) = gateway().await;
    for path in FORMATS {
        for more in [json!({}), json!({"stream": true})] {
            gateway.ask(path, "test-model", "", more).await.assert_ok();
        }
        gateway
            .ask(path, "test-model", "status-400", json!({}))
            .await;
    }
    assert_eq!(provider.handle.counters().connections, 1);
}

/// An answer that leaves its connection open.
fn whole_answer() -> String {
    let body = json!({"id": "c", "object": "chat.completion", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
    ]})
    .to_string();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn a_kept_connection_that_the_provider_has_closed_is_no_failure() {
    let answer = whole_answer();
    // It reads the second request, and leaves.
    let upstream = Upstream::playing([Act::send(answer), Act::ReadRequest]).await;
    let config = Config::new()
        .provider("raw", support::provider(upstream.address))
        // Those that were not sent take nothing of it.
        .model(
            "test-model",
            json!([{"provider": "raw", "limits": {"requests_per_minute": 3}}]),
        );
    let gateway = Gateway::start(config).await;
    for asked in 1..4 {
        let answer = gateway.ask(CHAT, "test-model", "", json!({})).await;
        answer.assert_ok();
        assert_eq!(answer.header("x-attempts"), None, "request {asked}");
    }
    assert_eq!(upstream.requests(), 5, "each but the first was sent twice");
}

#[tokio::test]
async fn a_kept_connection_that_breaks_within_a_large_body_is_no_failure() {
    let script = [Act::send(whole_answer()), Act::ReadByte, Act::Reset];
    let upstream = Upstream::playing(script).await;
    let config = Config::new()
        .with("failover", json!({"again": 0}))
        .provider("raw", support::provider(upstream.address))
        .model("test-model", json!(["raw"]));
    let gateway = Gateway::start(config).await;
    for (asked, said) in ["word ", &"word ".repeat(1_200_000)].iter().enumerate() {
        let body = prompt(CHAT, "test-model", said, json!({}));
        let answer = gateway.post(CHAT, &body).await;
        answer.assert_ok();
        assert_eq!(answer.header("x-attempts"), None, "request {asked}");
    }
    assert_eq!(upstream.requests(), 2, "each was read once");
}

/// It may have been worked on, and paid for.
#[tokio::test]
async fn a_kept_connection_that_breaks_over_a_request_is_a_failure_and_the_next_is_asked() {
    for works in [
        Act::Pause(Duration::from_millis(2500)),
        Act::send("HTTP/1.1 100 Continue\r\n\r\n"),
        Act::send("HTTP/1.1 200 OK\r\ncontent-type: appl"),
    ] {
        let script = [Act::send(whole_answer()), Act::ReadRequest, works.clone()];
        let upstream = Upstream::playing(script).await;
        let provider = Provider::start().await;
        let config = Config::new()
            .provider("raw", support::provider(upstream.address))
            .provider("sim", support::provider(provider.address))
            .model(
                "test-model",
                json!([{"provider": "raw"}, {"provider": "sim", "priority": 1}]),
            );
        let gateway = Gateway::start(config).await;
        let ask = async || gateway.ask(CHAT, "test-model", "", json!({})).await;
        ask().await.assert_ok();
        let answer = ask().await;
        answer.assert_ok();
        let attempts = answer.header("x-attempts");
        assert_eq!(attempts, Some("2"), "{works:?}: {answer:?}");
        assert_eq!(upstream.requests(), 2, "{works:?}: it was not sent again");
        assert_eq!(provider.handle.counters().requests, 1);
    }
}

#[tokio::test]
async fn heads_of_1xx_keep_no_request_waiting_beyond_its_time() {
    let processing = || {
        let said = Act::send("HTTP/1.1 102 Processing\r\n\r\n");
        [said, Act::Pause(Duration::from_millis(400))]
    };
    let script: Vec<_> = (0..20).flat_map(|_| processing()).collect();
    let upstream = Upstream::playing(script).await;
    let config = Config::new()
        .provider("raw", support::provider(upstream.address))
        .with(
            "providers.raw.timeouts",
            json!({"first_byte": "1s", "between_events": "1s"}),
        )
        .with("failover.attempts", json!(1))
        .model("test-model", json!(["raw"]));
    let gateway = Gateway::start(config).await;
    let asked = tokio::time::Instant::now();
    let answer = gateway.ask(CHAT, "test-model", "", json!({})).await;
    answer.assert_error(504, "upstream_error");
    assert!(asked.elapsed() < Duration::from_secs(5), "{asked:?}");
}

#[tokio::test]
async fn an_unused_connection_of_a_caller_is_closed_in_time() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.limits.keepalive_timeout", json!("1s"));
    let gateway = Gateway::start(config).await;
    let mut connection = gateway.connect().await;
    let idle = tokio::time::Instant::now();
    connection.send(&ask(&gateway, CHAT)).await.assert_ok();
    assert_eq!(connection.rest().await.1, Ending::Cut);
    assert!(idle.elapsed() > Duration::from_millis(500), "{idle:?}");
}

#[tokio::test]
async fn bytes_that_are_no_request_are_refused_and_the_gateway_goes_on() {
    let (provider, gateway) = gateway().await;
    let key = &gateway.key;
    let body = "{\"model\":\"test-model\"}";
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n"
    );
    for bytes in [
        "\x16\x03\x01\x02\x00 this is TLS, or could be\r\n\r\n".to_owned(),
        "GET /a/path HTTP/9.9\r\n\r\n".to_owned(),
        "nonsense, and a lot of it\r\n\r\n".to_owned(),
        format!("{head}content-length: 22\r\ncontent-length: 23\r\n\r\n{body}"),
        format!("{head}content-length: -1\r\n\r\n{body}"),
        format!("{head}content-length: 3, 3\r\n\r\n{body}"),
        format!("{head}transfer-encoding: chunked\r\n\r\nzz\r\n{body}"),
        format!("{head}content-length: 22\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    ] {
        let mut connection = gateway.connect().await;
        connection.write(bytes.as_bytes()).await;
        let refused = bounded("a refusal", async {
            let (rest, _) = connection.rest().await;
            rest.is_empty() || rest.starts_with(b"HTTP/1.1 4")
        });
        assert!(refused.await, "{bytes}");
    }
    assert_eq!(provider.handle.counters().requests, 0);
    gateway.get("/v1").await.assert_ok();
}

#[tokio::test]
async fn handshakes_that_fail_are_counted_and_do_not_fill_the_log() {
    const FAILURES: u32 = 60;
    let provider = Provider::start().await;
    let folder = TempDir::new().unwrap();
    Authority::new()
        .issue("gateway.test")
        .write(folder.path(), "tls");
    let tls = json!({"certificate": "tls.crt", "key": "tls.key"});
    let config = Config::of(&provider).with("server.listen", json!([{"tls": tls}]));
    let gateway = Gateway::start_in(folder, config).await;
    for _ in 0..FAILURES {
        let mut caller = gateway.connect().await;
        caller.write(b"GET / HTTP/1.1\r\n\r\n").await;
        caller.rest().await;
    }
    let counted = "tollgate_tls_handshakes_failed_total";
    gateway.sample_is(counted, f64::from(FAILURES)).await;
    let reported = gateway.output().matches("Downstream handshake").count();
    // Ten in ten seconds, and a machine may take longer than that.
    assert!((1..=30).contains(&reported), "{reported} lines");
}

#[tokio::test]
async fn connections_under_an_authority_that_a_reload_took_out_are_not_used_again() {
    let (provider, address, folder) = provider_under_its_own_authority().await;
    let mut settings = provider_at(&format!("https://{address}"));
    settings["tls"] = json!({"ca": "own.pem", "server_name": "provider.test"});
    let config = Config::new()
        .provider("sim", settings)
        .with("failover", json!({"again": 0}))
        .with("routing.health", json!({"enabled": false}))
        .model("test-model", json!(["sim"]));
    let gateway = Gateway::start_in(folder, config.clone()).await;
    let ask = async || gateway.ask(CHAT, "test-model", "", json!({})).await;
    for _ in 0..3 {
        ask().await.assert_ok();
    }
    let used = provider.handle.counters().connections;
    assert_eq!(used, 1, "a connection is kept");
    let next = config.with("providers.sim.tls.ca", json!("other.pem"));
    gateway.rewrite(next);
    gateway.signal("HUP").await;
    let refused = async || (ask().await.status == 503).then_some(());
    support::eventually("the other authority", refused).await;
    let asked = provider.handle.counters().requests;
    for _ in 0..3 {
        ask().await.assert_error(503, "service_unavailable");
    }
    assert_eq!(provider.handle.counters().requests, asked);
}

#[tokio::test]
async fn a_listener_with_client_certificates_serves_only_clients_that_present_one() {
    let provider = Provider::start().await;
    let authority = Authority::new();
    let stranger = Authority::new();
    let folder = TempDir::new().unwrap();
    authority.issue("gateway.test").write(folder.path(), "tls");
    std::fs::write(folder.path().join("clients.pem"), authority.pem()).unwrap();
    let tls = json!({"certificate": "tls.crt", "key": "tls.key", "client_ca": "clients.pem"});
    let config = Config::of(&provider).with("server.listen", json!([{"tls": tls}]));
    let gateway = Gateway::start_in(folder, config).await;
    let send = async |client: Option<Identity>| {
        let stream = TcpStream::connect(gateway.address).await.unwrap();
        let session =
            authority.try_connect_as(client.as_ref(), stream, "gateway.test", &["http/1.1"]);
        let mut session = session.await?;
        // The server's verdict follows its own part of the handshake.
        session.write_all(&ask(&gateway, CHAT).bytes()).await?;
        let mut begin = [0; 12];
        session.read_exact(&mut begin).await?;
        std::io::Result::Ok(String::from_utf8_lossy(&begin).into_owned())
    };
    let served = send(Some(authority.issue("client.test"))).await.unwrap();
    assert_eq!(served, "HTTP/1.1 200");
    for client in [
        None,
        Some(stranger.issue("client.test")),
        Some(authority.issue_expired("client.test")),
    ] {
        assert!(send(client).await.is_err());
    }
    gateway
        .sample_is("tollgate_tls_handshakes_failed_total", 3.0)
        .await;
    assert_eq!(provider.handle.counters().requests, 1);

    let mut tls = tls;
    tls["client_ca"] = json!("none.pem");
    let text = gateway.config().with(
        "server.listen",
        json!([{"address": "127.0.0.1:0", "tls": tls}]),
    );
    std::fs::write(gateway.folder.path().join("none.pem"), "no certificate").unwrap();
    std::fs::write(gateway.folder.path().join("next.yaml"), text.0.to_string()).unwrap();
    let mut check = tollgate();
    check.args(["check", "--config", "next.yaml"]);
    let output = Output::of(check.current_dir(&gateway.folder)).await;
    assert!(
        output
            .stderr
            .contains("server.listen[0].tls.client_ca: none.pem cannot be used"),
        "{output:?}"
    );
}

#[tokio::test]
async fn sockets_of_systemd_hold_clients_until_the_gateway_serves() {
    let provider = Provider::start().await;
    let folder = TempDir::new().unwrap();
    let [socket, admin] = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [callers, operators] = [&socket, &admin].map(|it| it.local_addr().unwrap());
    let config = Config::of(&provider).on(Ports { callers, operators });
    let file = folder.path().join("tollgate.yaml");
    std::fs::write(&file, config.0.to_string()).unwrap();
    let mut early = Connection::open(callers).await;
    early.write(&Request::get("/v1/models").bytes()).await;
    let mut early_operator = Connection::open(operators).await;
    early_operator
        .write(&Request::get("/healthz").bytes())
        .await;
    let program = tollgate();
    let variables = program.as_std().get_envs();
    let variables = variables.filter_map(|(name, value)| Some((name, value?)));
    let mut activated = tokio::process::Command::new("sh");
    // Sockets begin at descriptor 3.
    let run = "exec 3<&0 4<&1 </dev/null >&2; LISTEN_FDS=2 LISTEN_PID=$$; export LISTEN_FDS LISTEN_PID; \
               exec \"$0\" serve --config \"$1\"";
    activated
        .args(["-c", run])
        .arg(program.as_std().get_program())
        .arg(&file)
        .envs(variables)
        .stdin(OwnedFd::from(socket))
        .stdout(OwnedFd::from(admin))
        .kill_on_drop(true);
    let process = activated.spawn().unwrap();
    let answer = early.head().await;
    assert_eq!(answer.status, 401, "{answer:?}");
    let answer = early_operator.head().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    drop(process);
}
