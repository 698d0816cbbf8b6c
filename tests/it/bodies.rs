//! Request bodies through the gateway: whatever their size and framing, and on whichever
//! attempt, the provider receives the caller's bytes but for what was spliced.

use crate::support::{
    self, Answer, CHAT, Config, Connection, Ending, Gateway, Http2, Provider, Request, closed_port,
};
use serde_json::{Value, json};

const KIB64: usize = 64 * 1024;
const MIB: usize = 1024 * 1024;
const SIZES: [usize; 5] = [KIB64 - 1, KIB64, KIB64 + 1, MIB, 32 * MIB];

/// How a body is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Length,
    Chunked,
    Http2,
    Http2WithoutLength,
}

const WAYS: [Way; 4] = [
    Way::Length,
    Way::Chunked,
    Way::Http2,
    Way::Http2WithoutLength,
];

/// The models by which a test chooses on which attempt the body arrives.
const FIRST: &str = "first-attempt";
const AFTER_REFUSAL: &str = "after-a-refusal";
const AFTER_503: &str = "after-a-503";
/// A model that always fails.
const FAILING: &str = "failing";

/// What a test stands on: a gateway, and the provider that answers in the end.
struct Scene {
    provider: Provider,
    gateway: Gateway,
    _closed: tokio::net::TcpSocket,
}

impl Scene {
    async fn new() -> Self {
        let provider = Provider::start().await;
        let (closed, port) = closed_port();
        let last = json!({"provider": "sim", "upstream_model": "upstream-model", "priority": 1});
        let config = Config::of(&provider)
            // Each body is to meet the failure.
            .with("routing.health", json!({"enabled": false}))
            .provider("closed", support::provider(closed))
            .model(FIRST, json!(["sim/upstream-model"]))
            .model(AFTER_REFUSAL, json!(["closed", last]))
            .model(AFTER_503, json!(["sim/sim-status-503", last]))
            .model(FAILING, json!(["sim/sim-status-503"]))
            .with("server.limits.body_bytes", json!("40MiB"));
        Self {
            provider,
            gateway: Gateway::start(config).await,
            _closed: port,
        }
    }

    async fn send(&self, way: Way, body: &[u8]) -> Answer {
        let request = Request::new("POST", CHAT)
            .header("content-type", "application/json")
            .key(&self.gateway.key)
            .body(body);
        match way {
            Way::Length => self.gateway.send(&request).await,
            Way::Chunked => self.gateway.send(&request.in_chunks_of(10_007)).await,
            Way::Http2 => self.http2(&request).await,
            Way::Http2WithoutLength => self.http2(&request.in_chunks_of(10_007)).await,
        }
    }

    async fn http2(&self, request: &Request) -> Answer {
        Http2::open(self.gateway.address).await.send(request).await
    }

    /// The provider received `sent` with its own name of the model, and nothing else.
    #[track_caller]
    fn assert_received(&self, sent: &[u8], model: &str, what: &str) {
        let received = self.provider.last();
        let expected = replace(sent, model, "upstream-model");
        assert!(received.body == expected, "{what}: the body has changed");
        let length = received.headers.get("content-length");
        let length = length.and_then(|it| it.to_str().ok()).expect("a length");
        assert_eq!(length, expected.len().to_string(), "{what}");
        assert!(
            !received.headers.contains_key("transfer-encoding"),
            "{what}"
        );
    }
}

/// A request for `model` of exactly `size` bytes, with blanks where serde puts none.
fn body(model: &str, size: usize) -> Vec<u8> {
    let start = "{ \"max_completion_tokens\" : 5,\n\"messages\":[{\"role\":\"user\",\"content\":\"";
    let end = format!("\"}}],  \"model\" :\"{model}\" }}\n");
    let filling = "abcdefgh ".bytes().cycle();
    let filling = filling.take(size - start.len() - end.len());
    start
        .bytes()
        .chain(filling)
        .chain(end.into_bytes())
        .collect()
}

fn replace(body: &[u8], from: &str, to: &str) -> Vec<u8> {
    let from = format!("\"{from}\"").into_bytes();
    // The model stands at the end.
    let at = body.len() - from.len() - 3;
    assert_eq!(&body[at..at + from.len()], from);
    [
        &body[..at],
        format!("\"{to}\"").as_bytes(),
        &body[at + from.len()..],
    ]
    .concat()
}

#[tokio::test]
async fn the_provider_receives_the_callers_bytes_at_the_first_attempt() {
    let scene = Scene::new().await;
    for size in SIZES {
        let body = body(FIRST, size);
        for way in WAYS {
            let what = format!("{size} bytes, {way:?}");
            let answer = scene.send(way, &body).await;
            assert_eq!(answer.status, 200, "{what}: {answer:?}");
            scene.assert_received(&body, FIRST, &what);
        }
    }
}

#[tokio::test]
async fn the_provider_receives_the_callers_bytes_after_a_refused_connection() {
    let scene = Scene::new().await;
    for size in SIZES {
        let body = body(AFTER_REFUSAL, size);
        for way in WAYS {
            let what = format!("{size} bytes, {way:?}");
            let answer = scene.send(way, &body).await;
            assert_eq!(answer.status, 200, "{what}: {answer:?}");
            assert_eq!(answer.header("x-attempts"), Some("2"), "{what}");
            scene.assert_received(&body, AFTER_REFUSAL, &what);
        }
    }
}

#[tokio::test]
async fn the_provider_receives_the_callers_bytes_after_an_answer_that_failed() {
    let scene = Scene::new().await;
    for size in SIZES {
        let body = body(AFTER_503, size);
        for way in WAYS {
            let what = format!("{size} bytes, {way:?}");
            let answer = scene.send(way, &body).await;
            assert_eq!(answer.status, 200, "{what}: {answer:?}");
            assert_eq!(answer.header("x-attempts"), Some("2"), "{what}");
            scene.assert_received(&body, AFTER_503, &what);
        }
    }
}

#[tokio::test]
async fn an_empty_body_is_refused_and_the_connection_stays() {
    let scene = Scene::new().await;
    for way in WAYS {
        let answer = scene.send(way, b"").await;
        answer.assert_error(400, "invalid_request");
    }
    let mut connection = scene.gateway.connect().await;
    let empty = Request::new("POST", CHAT)
        .header("content-type", "application/json")
        .key(&scene.gateway.key)
        .body("");
    for request in [&empty, &empty.clone().in_chunks_of(1), &empty] {
        let answer = connection.send(request).await;
        answer.assert_error(400, "invalid_request");
    }
    assert_eq!(scene.provider.handle.counters().requests, 0);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_however_its_size_is_declared() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.limits.body_bytes", json!("100kB"));
    let scene = Scene {
        gateway: Gateway::start(config).await,
        provider,
        _closed: closed_port().1,
    };
    for way in WAYS {
        let answer = scene.send(way, &body("test-model", 100_001)).await;
        answer.assert_error(413, "request_too_large");
        assert!(answer.message().contains("100000"), "{answer:?}");
        let answer = scene.send(way, &body("test-model", 100_000)).await;
        assert_eq!(answer.status, 200, "{way:?}: {answer:?}");
    }
}

#[tokio::test]
async fn expect_100_continue_is_answered() {
    let scene = Scene::new().await;
    let body = body(FIRST, 1000);
    let request = Request::new("POST", CHAT)
        .header("content-type", "application/json")
        .header("expect", "100-continue")
        .key(&scene.gateway.key)
        .body(body.clone());

    let mut connection = scene.gateway.connect().await;
    connection.write(&request.head()).await;
    assert_eq!(connection.head().await.status, 100);
    connection.write(&request.body).await;
    connection.answer(&request).await.assert_ok();
    scene.assert_received(&body, FIRST, "after 100 Continue");
    assert!(!scene.provider.last().headers.contains_key("expect"));

    let wrong_key = request.clone().without("authorization").key("sk-wrong");
    let wrong_type = request.clone().without("content-type");
    let mut too_large = request.clone();
    too_large.body = vec![b' '; 41 * MIB];
    for (request, status) in [(wrong_key, 401), (wrong_type, 415), (too_large, 413)] {
        let mut connection = scene.gateway.connect().await;
        connection.write(&request.head()).await;
        let answer = connection.answer(&request).await;
        assert_eq!(
            answer.status, status,
            "no 100 before the refusal: {answer:?}"
        );
        assert_eq!(answer.ending, Ending::Complete);
    }
}

#[tokio::test]
async fn a_body_that_trickles_in_is_read_whatever_its_borders() {
    let scene = Scene::new().await;
    let small = body(FIRST, 200);
    // Every cut falls somewhere in a name, an escape, or between two tokens.
    for size in [1, 2, 3, 7] {
        let request = Request::new("POST", CHAT)
            .header("content-type", "application/json")
            .key(&scene.gateway.key)
            .body(small.clone())
            .in_chunks_of(size);
        scene.gateway.send(&request).await.assert_ok();
        scene.assert_received(&small, FIRST, &format!("chunks of {size}"));

        let request = request.body(small.clone());
        let mut connection = scene.gateway.connect().await;
        for piece in request.bytes().chunks(size) {
            connection.write(piece).await;
            tokio::task::yield_now().await;
        }
        connection.answer(&request).await.assert_ok();
        scene.assert_received(&small, FIRST, &format!("segments of {size}"));
    }
}

#[tokio::test]
async fn a_body_that_never_ends_is_answered_in_time() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.limits.body_timeout", json!("300ms"));
    let gateway = Gateway::start(config).await;
    let request = Request::new("POST", CHAT)
        .header("content-type", "application/json")
        .key(&gateway.key);
    let length = request.clone().body(body("test-model", 1000));
    let head = [length.head(), length.body[..500].to_vec()].concat();
    let chunked = request.body(body("test-model", 1000)).in_chunks_of(300);
    let chunks = &chunked.bytes()[..700];
    for start in [&head[..], chunks] {
        let mut connection = gateway.connect().await;
        connection.write(start).await;
        let answer = connection.answer(&length).await;
        answer.assert_error(408, "invalid_request");
        // What comes later could be taken for a request.
        let (rest, ending) = connection.rest().await;
        assert_eq!((rest.len(), ending), (0, Ending::Cut));
    }
    assert_eq!(provider.handle.counters().requests, 0);
}

/// A body above what Pingora would keep for another attempt, of no known length.
fn chunked(gateway: &Gateway) -> Request {
    Request::new("POST", CHAT)
        .header("content-type", "application/json")
        .key(&gateway.key)
        .body(body("test-model", 100_000))
        .in_chunks_of(10_000)
}

#[tokio::test]
async fn a_large_chunked_body_whose_last_chunk_never_comes_is_answered_in_time() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.limits.body_timeout", json!("300ms"));
    let gateway = Gateway::start(config).await;
    let request = chunked(&gateway);
    let whole = request.bytes();
    let mut connection = gateway.connect().await;
    connection.write(&whole[..whole.len() - 5]).await;
    let answer = connection.answer(&request).await;
    answer.assert_error(408, "invalid_request");
    let (rest, ending) = connection.rest().await;
    assert_eq!((rest.len(), ending), (0, Ending::Cut));
    assert_eq!(provider.handle.counters().requests, 0);
}

#[tokio::test]
async fn bytes_after_a_large_chunked_body_are_refused_like_those_after_any_other() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.limits.body_bytes", json!("200kB"));
    let gateway = Gateway::start(config).await;
    let request = chunked(&gateway);
    let whole = request.bytes();
    let chunk = |piece: &str| format!("{:x}\r\n{piece}\r\n", piece.len());
    let spaces = " ".repeat(50_000);
    for (behind, status, code) in [
        (vec![" \r\n", "\t"], 200, ""),
        (vec!["x"], 400, "invalid_request"),
        (vec![" ", "{}"], 400, "invalid_request"),
        (vec!["\u{0}"], 400, "invalid_request"),
        (vec![&spaces, &spaces, &spaces], 413, "request_too_large"),
    ] {
        let mut connection = gateway.connect().await;
        connection.write(&whole[..whole.len() - 5]).await;
        for piece in &behind {
            // It may be refused before the last of it.
            let _ = connection.try_write(chunk(piece).as_bytes()).await;
        }
        let _ = connection.try_write(b"0\r\n\r\n").await;
        let answer = connection.answer(&request).await;
        match status {
            200 => answer.assert_ok(),
            _ => answer.assert_error(status, code),
        }
    }
    let received = provider.received();
    let bodies = received.iter().filter(|it| !it.body.is_empty());
    assert_eq!(bodies.count(), 1, "one of them was sent");
    assert_eq!(gateway.total("tollgate_upstream_faults_total").await, 0.0);
}

#[tokio::test]
async fn after_100_continue_another_candidate_is_asked_and_an_error_reaches_its_caller() {
    let scene = Scene::new().await;
    for (model, status) in [(AFTER_503, 200), (AFTER_REFUSAL, 200), (FAILING, 503)] {
        let request = Request::new("POST", CHAT)
            .header("content-type", "application/json")
            .header("expect", "100-continue")
            .key(&scene.gateway.key)
            .body(body(model, 1000));
        let mut connection = scene.gateway.connect().await;
        connection.write(&request.head()).await;
        assert_eq!(connection.head().await.status, 100);
        connection.write(&request.body).await;
        let answer = connection.answer(&request).await;
        assert_eq!(answer.status, status, "{model}: {answer:?}");
        assert_eq!(answer.ending, Ending::Complete, "{model}");
    }
}

#[tokio::test]
async fn a_connection_header_decides_nothing_about_the_request_to_the_provider() {
    let scene = Scene::new().await;
    let many = (0..12).map(|n| format!("x-{n}")).collect::<Vec<_>>();
    for named in ["X-Forwarded-For", "Host", "\"close\"", &many.join(", ")] {
        let request = Request::new("POST", CHAT)
            .header("content-type", "application/json")
            .header("connection", named)
            .key(&scene.gateway.key)
            .body(body(FIRST, 1000));
        let answer = scene.gateway.send(&request).await;
        assert_eq!(answer.status, 200, "{named}: {answer:?}");
        let headers = scene.provider.last().headers;
        assert!(!headers.contains_key("connection"), "{named}: {headers:?}");
    }
}

#[tokio::test]
async fn a_refusal_within_a_body_that_was_asked_for_reaches_its_caller() {
    let scene = Scene::new().await;
    let mut malformed = b"{]".to_vec();
    malformed.resize(8 * MIB, b' ');
    let request = Request::new("POST", CHAT)
        .header("content-type", "application/json")
        .header("expect", "100-continue")
        .key(&scene.gateway.key)
        .body(malformed);
    for _ in 0..10 {
        let mut connection = scene.gateway.connect().await;
        connection.write(&request.head()).await;
        assert_eq!(connection.head().await.status, 100);
        // Everything is sent before anything is read.
        connection.write(&request.body).await;
        let answer = connection.answer(&request).await;
        answer.assert_error(400, "invalid_request");
    }
}

#[tokio::test]
async fn a_caller_that_leaves_within_its_body_costs_no_provider_anything() {
    let scene = Scene::new().await;
    let request = Request::new("POST", CHAT)
        .header("content-type", "application/json")
        .key(&scene.gateway.key)
        .body(body(FIRST, 1000));
    let mut connection = scene.gateway.connect().await;
    connection.write(&request.head()).await;
    connection.write(&request.body[..500]).await;
    drop(connection);
    let line = scene
        .gateway
        .access_line(|line| line["outcome"] == "client_closed")
        .await;
    assert_eq!(line["status"], 499, "{line}");
    assert_eq!(scene.provider.handle.counters().requests, 0);
    scene
        .gateway
        .sample_is("tollgate_request_body_bytes", 0.0)
        .await;
}

#[tokio::test]
async fn requests_that_come_in_one_piece_are_answered_in_order() {
    let scene = Scene::new().await;
    let ask = |said: &str, size: usize| {
        let body = json!({"model": FIRST, "messages": [{"role": "user", "content": said}]});
        let request = Request::post(CHAT, &body).key(&scene.gateway.key);
        if size == 0 {
            request
        } else {
            request.in_chunks_of(size)
        }
    };
    let requests = [
        ask("one", 0),
        Request::get("/v1").key(&scene.gateway.key),
        ask("two", 10),
        ask("three", 0),
    ];
    let mut connection: Connection = scene.gateway.connect().await;
    let bytes: Vec<u8> = requests.iter().flat_map(Request::bytes).collect();
    connection.write(&bytes).await;
    let mut said = Vec::new();
    for request in &requests {
        let answer = connection.answer(request).await;
        answer.assert_ok();
        let body: Value = answer.json();
        said.push(body["choices"][0]["message"]["content"].clone());
    }
    assert_eq!(
        said,
        [
            json!("You said: one"),
            Value::Null,
            json!("You said: two"),
            json!("You said: three")
        ]
    );
}

#[tokio::test]
async fn the_memory_for_all_bodies_is_bounded() {
    let provider = Provider::start().await;
    let config = Config::of(&provider)
        .with("server.limits.body_bytes", json!("100kB"))
        .with("server.limits.bodies_in_memory", json!("250kB"));
    let gateway = Gateway::start(config).await;
    let of = |key: &str| {
        Request::new("POST", CHAT)
            .header("content-type", "application/json")
            .key(key)
            .body(body("test-model", 90_000))
    };
    let request = of(&gateway.key);
    let holding = request.clone().orders("hang");
    let mut first = gateway.connect().await;
    first.write(&holding.bytes()).await;
    provider
        .when("a body is held", |it| it.open_answers == 1)
        .await;

    let another = gateway.create_key(&[]).await;
    let answer = gateway.send(&of(&another)).await;
    answer.assert_error(503, "service_unavailable");
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    // The key whose body fills the memory has more than its share.
    let answer = gateway.send(&request).await;
    answer.assert_error(429, "rate_limit_exceeded");
    drop(first);
    gateway.sample_is("tollgate_request_body_bytes", 0.0).await;
    gateway.send(&request).await.assert_ok();
}
