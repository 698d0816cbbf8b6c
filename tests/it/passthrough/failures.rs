//! Failures of the provider: what the client sees, and whether another attempt is made.

use super::{FILES, MIB, SECRET, config, draw, gateway, ok, plain, refusal, send};
use crate::support::{
    AT_ONCE, Act, CHAT, Ending, Gateway, Http2, LONG, PATIENCE, Request, Seen, Service, provider,
};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Two credentials, of which the provider knows both.
async fn two_credentials(service: &Service) -> Gateway {
    let config = config(service)
        .with(
            "providers.sim.credentials",
            json!([
                {"name": "first", "secret": "env:TEST_PROVIDER_KEY"},
                {"name": "second", "secret": "env:TEST_OTHER_KEY"},
            ]),
        )
        .with("providers.sim.health", json!({"enabled": false}));
    Gateway::start(config).await
}

fn is_first(seen: &Seen) -> bool {
    seen.header("authorization") == Some("Bearer credential-of-the-provider")
}

#[tokio::test]
async fn a_refusal_is_free_and_has_no_word_of_the_provider() {
    let service = Service::answering(|seen| {
        let status = seen.target.rsplit('/').next().unwrap().parse().unwrap();
        refusal(status)
    })
    .await;
    let config = config(&service).with("providers.sim.passthrough", json!([
        {"path": "/v1/failing/*", "methods": ["GET", "DELETE"], "charge": 100, "answer_headers": ["location"]},
    ]));
    let gateway =
        Gateway::start(config.with("providers.sim.health", json!({"enabled": false}))).await;
    let key = gateway.key_with(1000, LONG);
    for (status, shown, code) in [
        (302, 502, "upstream_error"),
        (304, 502, "upstream_error"),
        (400, 400, "upstream_error"),
        (404, 404, "not_found"),
        (409, 409, "upstream_error"),
        (401, 502, "upstream_error"),
        (429, 429, "rate_limit_exceeded"),
        (500, 502, "upstream_error"),
    ] {
        let target = format!("/passthrough/sim/v1/failing/{status}");
        let answer = gateway
            .send(&Request::new("DELETE", &target).key(&key))
            .await;
        answer.assert_error(shown, code);
        assert!(!format!("{answer:?}").contains(SECRET), "{answer:?}");
        let is_of_condition = answer.text().contains("without conditional headers");
        assert_eq!(is_of_condition, status == 304, "{answer:?}");
    }
    assert_eq!(gateway.spent(&key).await, 0);
}

#[tokio::test]
async fn a_429_at_one_path_closes_no_other() {
    let service = Service::answering(|seen| match seen.target.starts_with("/v1/images") {
        true => {
            let head = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 60\r\n\
                        content-length: 0\r\n\r\n";
            vec![Act::send(head)]
        }
        false => plain(seen),
    })
    .await;
    let gateway = gateway(&service).await;
    for _ in 0..2 {
        let answer = gateway.send(&draw().key(&gateway.key)).await;
        answer.assert_error(429, "rate_limit_exceeded");
    }
    send(&gateway, "GET", FILES).await.assert_ok();
    assert_eq!(service.seen().len(), 2, "the wait is obeyed at that path");
}

#[tokio::test]
async fn another_credential_is_asked_if_the_first_attempt_cannot_have_had_an_effect() {
    for (status, method, again) in [
        (401, "POST", true),
        (429, "POST", true),
        (500, "POST", false),
        (503, "DELETE", false),
        (500, "GET", true),
    ] {
        let service = Service::answering(move |seen| match is_first(seen) {
            true => refusal(status),
            false => plain(seen),
        })
        .await;
        let gateway = two_credentials(&service).await;
        let (mut served, mut failed) = (0, 0);
        // Either credential may be drawn first.
        for _ in 0..16 {
            let before = service.seen().len();
            let answer = send(&gateway, method, FILES).await;
            let attempts = service.seen().split_off(before);
            match answer.status {
                200 => served += 1,
                _ => failed += 1,
            }
            let met = is_first(&attempts[0]);
            assert_eq!(
                attempts.len(),
                1 + usize::from(met && again),
                "{status} {method}"
            );
            assert_eq!(answer.status == 200, !met || again, "{answer:?}");
        }
        assert!(
            served > 0 && (failed > 0) != again,
            "{status} {method}: {served}, {failed}"
        );
    }
}

#[tokio::test]
async fn a_broken_answer_is_charged_once_its_head_has_passed_and_is_not_made_again() {
    let service = Service::answering(|_| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 1000\r\n\r\nhalf";
        vec![Act::send(head), Act::Reset]
    })
    .await;
    let gateway = gateway(&service).await;
    let key = gateway.key_with(10_000, LONG);
    let answer = gateway.send(&draw().key(&key)).await;
    assert_eq!(answer.status, 200);
    assert_ne!(answer.ending, Ending::Complete);
    gateway.has_spent(&key, 4000).await;
    assert_eq!(service.seen().len(), 1);
}

#[tokio::test]
async fn the_time_of_the_provider_begins_behind_the_body() {
    let service = Service::answering(plain).await;
    let config = config(&service).with("providers.sim.timeouts", json!({"first_byte": "2s"}));
    let gateway = Gateway::start(config).await;
    let upload = Request::new("POST", FILES)
        .key(&gateway.key)
        .body(vec![b'x'; 4 * MIB]);
    let mut connection = gateway.connect().await;
    connection.write(&upload.head()).await;
    for piece in upload.body.chunks(MIB / 2) {
        connection.write(piece).await;
        // All pauses before the last piece are longer than the time of the provider.
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    connection.answer(&upload).await.assert_ok();
}

#[tokio::test]
async fn a_body_over_http2_that_stops_ends_after_the_time_for_a_piece() {
    let service = Service::answering(plain).await;
    let config = config(&service).with("server.limits.body_timeout", json!("400ms"));
    let gateway = Gateway::start(config).await;
    let upload = Request::new("POST", FILES)
        .key(&gateway.key)
        .body(vec![b'x'; MIB]);
    let begun = Instant::now();
    let mut connection = Http2::open(gateway.address).await;
    let answer = connection.begin_endless(&upload).await.unwrap();
    let answer = Http2::rest(answer).await;
    answer.assert_error(408, "invalid_request");
    assert!(begun.elapsed() < AT_ONCE);
    assert_eq!(gateway.total("tollgate_upstream_faults_total").await, 0.0);
}

#[tokio::test]
async fn a_provider_that_answers_while_it_reads_gets_the_whole_body() {
    const UPLOADS: usize = 8;
    let length = 8 * MIB;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(echo(stream, length));
        }
    });
    let service = Service::answering(plain).await;
    let config = config(&service).with("providers.sim", json!({
        "address": format!("http://{address}"),
        "formats": ["chat"],
        "passthrough": [{"path": "/v1/files", "methods": ["POST"], "charge": 0, "body": "30MiB"}],
    }));
    let gateway = Gateway::start(config).await;
    let upload = Request::new("POST", FILES)
        .key(&gateway.key)
        .body(vec![b'x'; length]);
    for _ in 0..UPLOADS {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        let (mut from, mut to) = stream.split();
        let bytes = upload.bytes();
        let mut answer = Vec::new();
        let read = async {
            while !answer.ends_with(b"the end\r\n0\r\n\r\n") {
                let read = from.read_buf(&mut answer).await.unwrap();
                let shown = String::from_utf8_lossy(answer.get(..600).unwrap_or(&answer));
                assert_ne!(read, 0, "cut after {} bytes: {shown}", answer.len());
            }
        };
        let both = async { tokio::join!(async { to.write_all(&bytes).await.unwrap() }, read) };
        tokio::time::timeout(PATIENCE, both)
            .await
            .expect("nothing hangs");
        assert!(answer.starts_with(b"HTTP/1.1 200"));
    }
}

/// Answers each piece of a body as it comes, with much less: a provider that waits until its answer is read would wait
/// for the gateway, which writes.
async fn echo(mut stream: TcpStream, length: usize) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let begun = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\
                 transfer-encoding: chunked\r\n\r\n";
    stream.write_all(begun.as_bytes()).await.unwrap();
    let mut left = length;
    let mut piece = vec![0; MIB / 4];
    while left > 0 {
        let read = stream.read(&mut piece).await.unwrap();
        left -= read;
        let end = if left == 0 { "the end" } else { "" };
        let chunk = [&piece[..read.min(1000)], end.as_bytes()].concat();
        let chunk = [format!("{:x}\r\n", chunk.len()).as_bytes(), &chunk, b"\r\n"].concat();
        stream.write_all(&chunk).await.unwrap();
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    let _ = stream.read_u8().await;
}

#[tokio::test]
async fn a_path_that_the_credential_may_not_use_closes_no_model() {
    const ANSWER: &str = r#"{"id":"a","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#;
    let [first, second] = [0, 1].map(|_| {
        Service::answering(|seen| match seen.target.contains("/files") {
            true => refusal(401),
            false => ok("application/json", "", ANSWER.as_bytes()),
        })
    });
    let (first, second) = (first.await, second.await);
    let candidates = json!(["sim", {"provider": "other", "priority": 1}]);
    let config = config(&first)
        .provider("other", provider(second.address))
        .model("test-model", candidates);
    let gateway = Gateway::start(config).await;
    for _ in 0..3 {
        let answer = send(&gateway, "GET", &format!("{FILES}/a")).await;
        answer.assert_error(502, "upstream_error");
        let asked = gateway.ask(CHAT, "test-model", "", json!({})).await;
        asked.assert_ok();
    }
    assert_eq!(second.seen().len(), 0, "every request went to the first");
}

#[tokio::test]
async fn a_silent_provider_is_given_up_after_its_time() {
    let service = Service::answering(|_| vec![Act::Hang]).await;
    let config = config(&service).with("providers.sim.timeouts", json!({"first_byte": "300ms"}));
    let gateway = Gateway::start(config).await;
    let begun = Instant::now();
    let answer = gateway.send(&draw().key(&gateway.key)).await;
    answer.assert_error(504, "upstream_error");
    assert!(begun.elapsed() < AT_ONCE);
    assert_eq!(service.seen().len(), 1);
}
