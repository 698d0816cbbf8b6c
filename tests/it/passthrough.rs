//! Open paths of providers: off unless the configuration opens them, and then passed to their provider as
//! they are, within the limits and the balance of the key.

use crate::support::{
    AT_ONCE, Act, Answer, CHAT, Config, Connection, Ending, Gateway, LONG, Request, Seen, Service,
    eventually, provider,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Notify;

const MIB: usize = 1024 * 1024;
const IMAGES: &str = "/passthrough/sim/v1/images/generations";
const FILES: &str = "/passthrough/sim/v1/files";
/// What no client may see.
const SECRET: &str = "text-of-the-provider";

fn ok(media_type: &str, more: &str, body: &[u8]) -> Vec<Act> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\n{more}content-length: {length}\r\n\r\n"
    );
    vec![Act::send([head.as_bytes(), body].concat())]
}

fn refusal(status: u16) -> Vec<Act> {
    let body = format!(r#"{{"error":{{"message":"{SECRET}","type":"{SECRET}","code":"x"}}}}"#);
    let length = body.len();
    vec![Act::send(format!(
        "HTTP/1.1 {status} {SECRET}\r\ncontent-type: application/json\r\nx-note: {SECRET}\r\n\
         location: https://{SECRET}.example/\r\ncontent-length: {length}\r\n\r\n{body}"
    ))]
}

/// Answers everything with a small object.
fn plain(_: &Seen) -> Vec<Act> {
    ok("application/json", "", br#"{"data":[]}"#)
}

fn config(service: &Service) -> Config {
    Config::new()
        .with("failover", json!({"again": 0}))
        .provider("sim", provider(service.address))
        .with("providers.sim.pass_headers", json!([]))
        .with(
            "providers.sim.passthrough",
            json!([
                {"path": "/v1/images/generations", "methods": ["POST"], "charge": 4000, "price": "0.04"},
                {"path": "/v1/files/*", "methods": ["GET", "POST", "DELETE"], "charge": 0, "body": "30MiB",
                 "pass_headers": ["openai-beta", "range"], "answer_headers": ["x-note", "content-range"]},
                {"path": "/v1/batches", "methods": ["GET"], "charge": 1, "plans": ["plenty"]},
            ]),
        )
        .with("plans.other", json!({"tokens": "1M", "validity": "30d"}))
        .model("test-model", json!(["sim"]))
}

async fn gateway(service: &Service) -> Gateway {
    Gateway::start(config(service)).await
}

fn draw() -> Request {
    Request::post(IMAGES, &json!({"prompt": "a cat"}))
}

async fn send(gateway: &Gateway, method: &str, target: &str) -> Answer {
    let request = Request::new(method, target).key(&gateway.key);
    gateway.send(&request).await
}

#[tokio::test]
async fn nothing_is_open_unless_the_configuration_opens_it() {
    let service = Service::answering(plain).await;
    let closed = Config::new()
        .provider("sim", provider(service.address))
        .model("test-model", json!(["sim"]));
    let closed = Gateway::start(closed).await;
    for target in [
        IMAGES,
        FILES,
        "/passthrough/sim/v1/models",
        "/passthrough",
        "/passthrough/",
    ] {
        send(&closed, "GET", target)
            .await
            .assert_error(404, "not_found");
    }
    let listed = closed.get("/v1").await.text();
    assert!(!listed.contains("/passthrough"), "{listed}");
    assert!(service.seen().is_empty());
}

#[tokio::test]
async fn only_the_listed_paths_and_methods_reach_the_provider_in_whatever_spelling() {
    let service = Service::answering(plain).await;
    let gateway = gateway(&service).await;
    for path in [
        "sim/v1/chat/completions",
        "sim/v1/images",
        "sim/v1/images/generations/x",
        "sim/v1/filesx",
        "sim/v1/files/",
        "sim/v1/files//x",
        "sim//v1/files",
        "other/v1/files",
        "sim/v1/files/../batches",
        "sim/v1/files/..",
        "sim/v1/files/./x",
        "sim/v1/files/%2e%2e/batches",
        "sim/v1/files/%2E%2e",
        "sim/v1/files/..%2fbatches",
        "sim/v1/files/a%5cb",
        "sim/v1/files/..;/batches",
        "sim/v1/files/%00",
        "sim/v1/files/%252e%252e",
        "sim/../sim/v1/files",
        "%73im/v1/files",
        "sim/v1/file%73",
        "SIM/v1/files",
        "sim",
        "sim/",
        "/v1/files",
    ] {
        let answer = send(&gateway, "GET", &format!("/passthrough/{path}")).await;
        answer.assert_error(404, "not_found");
    }
    assert!(service.seen().is_empty(), "{:?}", service.seen());
    for (method, target, allowed) in [
        ("GET", IMAGES, "POST"),
        ("PUT", FILES, "GET, POST, DELETE"),
        ("HEAD", FILES, "GET, POST, DELETE"),
    ] {
        let answer = send(&gateway, method, target).await;
        assert_eq!(answer.status, 405, "{answer:?}");
        assert_eq!(answer.header("allow"), Some(allowed));
    }
    gateway
        .send(&draw())
        .await
        .assert_error(401, "missing_api_key");
    gateway
        .send(&draw().key("sk-wrong"))
        .await
        .assert_error(401, "invalid_api_key");
    assert!(service.seen().is_empty());
    for target in [
        FILES.to_owned(),
        format!("{FILES}/file-1/content"),
        format!("{FILES}/a%20b"),
    ] {
        send(&gateway, "GET", &target).await.assert_ok();
        assert_eq!(
            service.last().target,
            target.replace("/passthrough/sim", "")
        );
    }
}

#[tokio::test]
async fn a_path_is_for_the_keys_whose_plan_and_endpoints_have_it() {
    let service = Service::answering(plain).await;
    let gateway = gateway(&service).await;
    let other = gateway.create_key(&["--plan", "other"]).await;
    let chat_alone = gateway.create_key(&["--endpoint", CHAT]).await;
    let open = gateway
        .create_key(&[
            "--endpoint",
            "/passthrough/{provider}/{path}",
            "--endpoint",
            "/v1",
        ])
        .await;
    let batches = Request::get("/passthrough/sim/v1/batches");
    for (key, status) in [
        (&gateway.key, 200),
        (&other, 403),
        (&chat_alone, 403),
        (&open, 200),
    ] {
        let answer = gateway.send(&batches.clone().key(key)).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
    let rows = async |key: &str| {
        let listed = gateway.send(&Request::get("/v1").key(key)).await.json();
        let rows = listed["endpoints"].as_array().unwrap().iter();
        let rows = rows.map(|row| format!("{} {}", row["method"], row["path"]).replace('"', ""));
        let open = rows.filter(|row| row.contains("passthrough"));
        open.collect::<Vec<_>>()
    };
    let mut expected = vec![
        "POST /passthrough/sim/v1/images/generations",
        "GET /passthrough/sim/v1/files/*",
        "POST /passthrough/sim/v1/files/*",
        "DELETE /passthrough/sim/v1/files/*",
        "GET /passthrough/sim/v1/batches",
    ];
    assert_eq!(rows(&open).await, expected);
    expected.pop();
    assert_eq!(rows(&other).await, expected);
}

#[tokio::test]
async fn heads_pass_by_allow_list_and_the_credential_is_the_providers() {
    let service = Service::answering(|_| {
        let more = format!(
            "content-disposition: attachment; filename=\"a.wav\"\r\nx-note: two\r\nx-note: three\r\n\
             set-cookie: {SECRET}\r\nserver: {SECRET}\r\nopenai-organization: {SECRET}\r\n"
        );
        ok("multipart/mixed; boundary=x", &more, b"--x--")
    })
    .await;
    let gateway = gateway(&service).await;
    let request = Request::get(&format!("{FILES}/f?limit=2&key=sk-1&after=a%26b&Api_Key=2"))
        .key(&gateway.key)
        .header("content-type", "text/plain; charset=latin1")
        .header("accept", "audio/wav")
        .header("openai-beta", "assistants=v2")
        .header("range", "bytes=0-3")
        .header("x-api-key", &gateway.key)
        .header("cookie", "a=b")
        .header("openai-organization", "org-of-the-client")
        .header("x-note", "of the client")
        .header("x-forwarded-for", "10.0.0.1");
    let answer = gateway.send(&request).await;
    answer.assert_ok();

    let seen = service.last();
    assert_eq!(seen.target, "/v1/files/f?limit=2&after=a%26b");
    let authority = service.address.to_string();
    for (name, value) in [
        ("authorization", Some("Bearer credential-of-the-provider")),
        ("content-type", Some("text/plain; charset=latin1")),
        ("accept", Some("audio/wav")),
        ("openai-beta", Some("assistants=v2")),
        ("range", Some("bytes=0-3")),
        ("host", Some(&authority)),
        ("x-api-key", None),
        ("cookie", None),
        ("openai-organization", None),
        ("x-note", None),
        ("x-forwarded-for", None),
    ] {
        assert_eq!(seen.header(name), value, "{name}");
    }
    let of_gateway = format!("{:?}", seen.headers);
    assert!(!of_gateway.contains(&gateway.key), "{of_gateway}");

    assert_eq!(
        answer.header("content-type"),
        Some("multipart/mixed; boundary=x")
    );
    let disposition = answer.header("content-disposition");
    assert_eq!(disposition, Some("attachment; filename=\"a.wav\""));
    assert_eq!(answer.header("content-length"), Some("5"));
    let notes = answer.headers.iter().filter(|(name, _)| name == "x-note");
    assert_eq!(
        notes.map(|(_, value)| value.as_str()).collect::<Vec<_>>(),
        ["two", "three"]
    );
    assert!(answer.header("x-request-id").is_some());
    assert!(!format!("{answer:?}").contains(SECRET), "{answer:?}");

    // Without them, neither JSON nor a type of the gateway's is made up.
    send(&gateway, "GET", FILES).await.assert_ok();
    let seen = service.last();
    assert_eq!(
        (seen.header("content-type"), seen.header("accept")),
        (None, Some("*/*"))
    );
}

/// A form with a file of so many bytes, and its media type.
fn form(bytes: usize) -> (String, Vec<u8>) {
    let file: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    let head = b"--edge\r\ncontent-disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n";
    let body = [&head[..], &file, b"\r\n--edge--\r\n"].concat();
    ("multipart/form-data; boundary=edge".to_owned(), body)
}

#[tokio::test]
async fn an_upload_of_20_mib_passes_while_it_comes_and_counts_no_memory() {
    let service = Service::answering(plain).await;
    let gateway = gateway(&service).await;
    let (media_type, body) = form(20 * MIB);
    let upload = Request::new("POST", FILES)
        .key(&gateway.key)
        .header("content-type", &media_type)
        .body(body.clone());
    let mut connection = gateway.connect().await;
    connection.write(&upload.head()).await;
    let (first, rest) = body.split_at(MIB);
    connection.write(first).await;
    // A part has arrived before the rest is sent.
    service.has_bytes(MIB / 2).await;
    assert_eq!(
        gateway.sample("tollgate_request_body_bytes").await,
        Some(0.0)
    );
    connection.write(rest).await;
    let answer = connection.answer(&upload).await;
    answer.assert_ok();
    let seen = service.last();
    assert!(
        seen.body == body,
        "{} of {} bytes",
        seen.body.len(),
        body.len()
    );
    assert_eq!(seen.header("content-type"), Some(&*media_type));
    assert_eq!(
        seen.header("content-length"),
        Some(&*body.len().to_string())
    );
    let line = gateway.line_of(&answer).await;
    assert_eq!(line["request_bytes"], json!(body.len()), "{line}");

    // The connection goes on, and so does a body of unknown length.
    let chunked = upload.clone().in_chunks_of(MIB);
    connection.send(&chunked).await.assert_ok();
    let seen = service.last();
    assert!(
        seen.body == body,
        "{} of {} bytes",
        seen.body.len(),
        body.len()
    );
    assert_eq!(seen.header("transfer-encoding"), Some("chunked"));
    let (media_type, small) = form(1000);
    let small = upload
        .without("content-type")
        .header("content-type", &media_type)
        .body(small);
    connection.send(&small).await.assert_ok();
    assert_eq!(service.last().body, small.body);
}

#[tokio::test]
async fn a_body_beyond_the_bound_is_refused() {
    let service = Service::answering(plain).await;
    let gateway = Gateway::start(config(&service).with(
        "providers.sim.passthrough",
        json!([
            {"path": "/v1/files", "methods": ["POST"], "charge": 10, "body": "2MiB"},
            {"path": "/v1/small", "methods": ["POST"], "charge": 10, "body": 10},
        ]),
    ))
    .await;
    let key = gateway.key_with(1000, LONG);
    let post = |path: &str, size: usize| {
        Request::new("POST", &format!("/passthrough/sim{path}"))
            .key(&key)
            .body(vec![b'x'; size])
    };
    gateway.send(&post("/v1/small", 10)).await.assert_ok();
    gateway.send(&post("/v1/files", 2 * MIB)).await.assert_ok();
    for request in [
        post("/v1/small", 11),
        post("/v1/files", 2 * MIB + 1),
        post("/v1/small", 11).in_chunks_of(4),
        post("/v1/files", 3 * MIB).in_chunks_of(MIB),
    ] {
        gateway
            .send(&request)
            .await
            .assert_error(413, "request_too_large");
    }
    gateway.has_spent(&key, 20).await;
}

#[tokio::test]
async fn an_answer_of_20_mib_passes_while_it_comes() {
    let go = Arc::new(Notify::new());
    let sound: Vec<u8> = (0..20 * MIB).map(|at| (at % 253) as u8).collect();
    let (waits, sent) = (Arc::clone(&go), sound.clone());
    let service = Service::answering(move |_| {
        let (first, rest) = sent.split_at(MIB);
        let length = sent.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: audio/wav\r\ncontent-length: {length}\r\n\r\n"
        );
        vec![
            Act::send([head.as_bytes(), first].concat()),
            Act::Wait(Arc::clone(&waits)),
            Act::send(rest),
        ]
    })
    .await;
    let gateway = gateway(&service).await;
    let request = Request::get(FILES).key(&gateway.key);
    let mut connection = gateway.connect().await;
    connection.write(&request.bytes()).await;
    let mut answer = connection.head().await;
    assert_eq!(answer.header("content-type"), Some("audio/wav"));
    assert_eq!(
        answer.header("content-length"),
        Some(&*sound.len().to_string())
    );
    let begun = connection.read_until(&sound[MIB - 300..MIB]).await;
    assert!(begun.len() >= MIB / 2);
    go.notify_one();
    connection.read_body_behind(begun, &mut answer).await;
    assert_eq!(answer.ending, Ending::Complete);
    assert!(answer.body() == sound, "{} bytes", answer.body().len());
}

#[tokio::test]
async fn events_pass_as_they_come() {
    let go = Arc::new(Notify::new());
    let waits = Arc::clone(&go);
    let service = Service::answering(move |_| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        vec![
            Act::send(format!("{head}9\r\ndata: 1\n\n\r\n")),
            Act::Wait(Arc::clone(&waits)),
            Act::send("9\r\ndata: 2\n\n\r\n0\r\n\r\n"),
        ]
    })
    .await;
    let gateway = gateway(&service).await;
    let request = draw().key(&gateway.key);
    let mut connection = gateway.connect().await;
    connection.write(&request.bytes()).await;
    let mut answer = connection.head().await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let begun = connection.read_until(b"data: 1\n\n").await;
    go.notify_one();
    connection.read_body_behind(begun, &mut answer).await;
    assert_eq!(answer.ending, Ending::Complete);
    assert_eq!(answer.events(), [json!(1), json!(2)]);
}

async fn history(gateway: &Gateway, key: &str) -> Vec<Value> {
    let page = gateway
        .send(&Request::get("/v1/usage/history").key(key))
        .await;
    page.assert_ok();
    page.json()["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_success_is_charged_and_shown_wherever_requests_are() {
    let service = Service::answering(plain).await;
    let gateway = gateway(&service).await;
    let key = gateway.key_with(10_000, LONG);
    let answer = gateway.send(&draw().key(&key)).await;
    answer.assert_ok();
    assert_eq!(answer.json(), json!({"data": []}));
    gateway.has_spent(&key, 4000).await;
    let free = gateway.send(&Request::get(FILES).key(&key)).await;
    free.assert_ok();

    let line = gateway.line_of(&answer).await;
    for (field, value) in [
        ("path", json!(IMAGES)),
        ("model", json!("sim/v1/images/generations")),
        ("provider", json!("sim")),
        ("charged", json!(4000)),
        ("cost", json!("0.04")),
        ("outcome", json!("completed")),
    ] {
        assert_eq!(line[field], value, "{line}");
    }
    let shown = eventually("two records", async || {
        let shown = history(&gateway, &key).await;
        (shown.len() == 2).then_some(shown)
    })
    .await;
    let charged: Vec<_> = shown
        .iter()
        .map(|it| {
            (
                it["model"].clone(),
                it["format"].clone(),
                it["charged"].clone(),
            )
        })
        .collect();
    let of = |model: &str, tokens: u64| (json!(model), json!("passthrough"), json!(tokens));
    assert_eq!(
        charged,
        [
            of("sim/v1/files/*", 0),
            of("sim/v1/images/generations", 4000)
        ],
        "{shown:?}"
    );
    let sample = "tollgate_requests_total{code=\"\",format=\"passthrough\",\
                  model=\"sim/v1/images/generations\",provider=\"sim\",status=\"200\"}";
    gateway.sample_is(sample, 1.0).await;
}

#[tokio::test]
async fn a_refusal_is_free_and_has_no_word_of_the_provider() {
    let service = Service::answering(|seen| {
        let status = seen.target.rsplit('/').next().unwrap().parse().unwrap();
        refusal(status)
    })
    .await;
    let config = config(&service).with("providers.sim.passthrough", json!([
        {"path": "/v1/*", "methods": ["GET", "DELETE"], "charge": 100, "answer_headers": ["location"]},
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
        let target = format!("/passthrough/sim/v1/{status}");
        let answer = gateway
            .send(&Request::new("DELETE", &target).key(&key))
            .await;
        answer.assert_error(shown, code);
        assert!(!format!("{answer:?}").contains(SECRET), "{answer:?}");
    }
    assert_eq!(gateway.spent(&key).await, 0);
}

#[tokio::test]
async fn an_answer_without_a_body_passes() {
    let service = Service::answering(|seen| {
        vec![Act::send(match &*seen.method {
            "DELETE" => "HTTP/1.1 204 No Content\r\n\r\n",
            _ => "HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n",
        })]
    })
    .await;
    let gateway = gateway(&service).await;
    let mut connection = gateway.connect().await;
    for (method, status, length) in [("DELETE", 204, None), ("POST", 201, Some("0"))] {
        let request = Request::new(method, FILES).key(&gateway.key);
        let answer = connection.send(&request).await;
        assert_eq!(
            (answer.status, answer.header("content-length")),
            (status, length)
        );
        assert_eq!(answer.header("transfer-encoding"), None);
    }
}

#[tokio::test]
async fn a_key_without_enough_for_the_charge_does_not_reach_the_provider() {
    let service = Service::answering(plain).await;
    let gateway = gateway(&service).await;
    let key = gateway.key_with(7999, LONG);
    gateway.send(&draw().key(&key)).await.assert_ok();
    gateway.has_spent(&key, 4000).await;
    gateway
        .send(&draw().key(&key))
        .await
        .assert_error(402, "quota_exhausted");
    assert_eq!(service.seen().len(), 1);
}

#[tokio::test]
async fn the_limits_of_the_key_hold() {
    let hold = Arc::new(Notify::new());
    let waits = Arc::clone(&hold);
    let service = Service::answering(move |seen| match &*seen.target {
        "/v1/batches" => {
            let mut acts = vec![Act::Wait(Arc::clone(&waits))];
            acts.extend(plain(seen));
            acts
        }
        _ => plain(seen),
    })
    .await;
    let gateway = gateway(&service).await;
    let once = gateway.create_key(&["--requests", "1"]).await;
    let tokens = gateway.create_key(&["--output-tokens", "7999"]).await;
    let large = gateway.create_key(&["--output-tokens", "3999"]).await;
    let alone = gateway.create_key(&["--concurrent", "1"]).await;
    for key in [&once, &tokens] {
        gateway.send(&draw().key(key)).await.assert_ok();
        let refused = gateway.send(&draw().key(key)).await;
        refused.assert_error(429, "rate_limit_exceeded");
    }
    let never = gateway.send(&draw().key(&large)).await;
    never.assert_error(429, "rate_limit_exceeded");
    assert_eq!(never.header("retry-after"), None);

    let waiting = Request::get("/passthrough/sim/v1/batches").key(&alone);
    let mut connection = gateway.connect().await;
    connection.write(&waiting.bytes()).await;
    let come = async || (service.last().target == "/v1/batches").then_some(());
    eventually("the first request", come).await;
    gateway
        .send(&draw().key(&alone))
        .await
        .assert_error(429, "rate_limit_exceeded");
    hold.notify_one();
    connection.answer(&waiting).await.assert_ok();
    gateway.send(&draw().key(&alone)).await.assert_ok();
}

#[tokio::test]
async fn a_client_that_leaves_pays_if_the_provider_has_the_whole_request() {
    let service = Service::answering(|_| vec![Act::Hang]).await;
    let config = config(&service).with(
        "providers.sim.passthrough",
        json!([
            {"path": "/v1/files", "methods": ["POST"], "charge": 100, "body": "30MiB"},
        ]),
    );
    let gateway = Gateway::start(config).await;
    let (whole, partial) = (gateway.key_with(1000, LONG), gateway.key_with(1000, LONG));
    let request = |key: &str, size| Request::new("POST", FILES).key(key).body(vec![b'x'; size]);
    for size in [1000, 3 * MIB] {
        let mut connection = gateway.connect().await;
        connection.write(&request(&whole, size).bytes()).await;
        service.has_bytes(size).await;
        drop(connection);
    }
    gateway.has_spent(&whole, 200).await;

    let upload = request(&partial, 3 * MIB);
    let mut connection = gateway.connect().await;
    connection.write(&upload.head()).await;
    connection.write(&upload.body[..2 * MIB]).await;
    service.has_bytes(MIB).await;
    drop(connection);
    let key_of = async |key: &str| {
        gateway
            .send(&Request::get("/v1/usage").key(key))
            .await
            .json()
    };
    let closed = gateway.access_line(|line| {
        line["request_bytes"]
            .as_u64()
            .is_some_and(|it| it >= MIB as u64 && it < 3 * MIB as u64)
    });
    let closed = closed.await;
    assert_eq!(
        (&closed["status"], &closed["charged"]),
        (&json!(499), &json!(0)),
        "{closed}"
    );
    assert_eq!(
        gateway.spent(&partial).await,
        0,
        "{}",
        key_of(&partial).await
    );
}

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

#[tokio::test]
async fn an_explanation_names_the_charge_and_the_credentials() {
    const TOKEN: &str = "0123456789abcdef-admin";
    let service = Service::answering(plain).await;
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("admin.token"), TOKEN).unwrap();
    let config = config(&service).with("admin.token", json!("file:admin.token"));
    let gateway = Gateway::start_in(folder, config).await;
    let order = json!({"key": gateway.key, "path": IMAGES, "request": null});
    let order = Request::post("/api/v1/explain", &order).key(TOKEN);
    let mut operator = Connection::open(gateway.admin).await;
    let answer = operator.send(&order).await;
    answer.assert_ok();
    let shown = answer.json();
    assert_eq!(
        shown["outcome"],
        json!({"kind": "sent", "provider": "sim"}),
        "{shown}"
    );
    assert_eq!(shown["bound"]["output"], 4000, "{shown}");
    assert_eq!(
        shown["candidates"][0]["credential"], "TEST_PROVIDER_KEY",
        "{shown}"
    );
    assert!(service.seen().is_empty());
}
