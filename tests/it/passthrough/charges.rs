//! What requests are charged, in tokens and in money.

use super::{FILES, IMAGES, MIB, config, draw, gateway, plain, refusal};
use crate::money::{has_used, terms};
use crate::support::{Act, Config, Ending, Gateway, LONG, Request, Service, eventually, provider};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Notify;

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
                it["model_served"].clone(),
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
async fn a_price_is_reserved_and_charged_like_a_charge() {
    const PRICE: u64 = 40_000_001;
    let service = Service::answering(|seen| match &*seen.target {
        "/v1/whole" => plain(seen),
        "/v1/half" => {
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 9\r\n\r\nhalf";
            vec![Act::send(head), Act::Reset]
        }
        "/v1/refused" => refusal(400),
        _ => vec![Act::Hang],
    })
    .await;
    let entry = |path: &str| json!({"path": path, "methods": ["POST"], "charge": 0, "price": "0.040000001"});
    let mut entries: Vec<_> = ["/v1/whole", "/v1/half", "/v1/refused", "/v1/hangs"]
        .map(entry)
        .into();
    entries.push(json!({"path": "/v1/unpriced", "methods": ["POST"], "charge": 0}));
    let config = config(&service).with("providers.sim.passthrough", json!(entries));
    let gateway = Gateway::start(config).await;
    let post = |key: &str, path: &str, size: usize| {
        let request = Request::new("POST", &format!("/passthrough/sim/v1/{path}"));
        request.key(key).body(vec![b'x'; size])
    };

    let key = gateway.key_of(terms(0, 5 * PRICE - 1));
    gateway.send(&post(&key, "whole", 1)).await.assert_ok();
    assert_ne!(
        gateway.send(&post(&key, "half", 1)).await.ending,
        Ending::Complete
    );
    let mut connection = gateway.connect().await;
    connection.write(&post(&key, "hangs", 1000).bytes()).await;
    service.has_bytes(1000).await;
    drop(connection);
    has_used(&gateway, &key, 0, 3 * PRICE).await;

    gateway
        .send(&post(&key, "refused", 1))
        .await
        .assert_error(400, "upstream_error");
    gateway
        .send(&post(&key, "unpriced", 1))
        .await
        .assert_error(403, "permission_denied");
    let listed = gateway.send(&Request::get("/v1").key(&key)).await.text();
    let is_listed = |path: &str| listed.contains(&format!("/passthrough/sim/v1/{path}\""));
    assert!(is_listed("whole") && !is_listed("unpriced"), "{listed}");
    let upload = post(&key, "hangs", 3 * MIB);
    let mut connection = gateway.connect().await;
    connection.write(&upload.head()).await;
    connection.write(&upload.body[..2 * MIB]).await;
    service.has_bytes(MIB).await;
    drop(connection);
    let closed = |line: &Value| {
        line["request_bytes"]
            .as_u64()
            .is_some_and(|it| it >= MIB as u64)
    };
    assert_eq!(gateway.access_line(closed).await["cost"], "0");

    gateway.send(&post(&key, "whole", 1)).await.assert_ok();
    has_used(&gateway, &key, 0, 4 * PRICE).await;
    // One nano-unit is missing.
    gateway
        .send(&post(&key, "whole", 1))
        .await
        .assert_error(402, "quota_exhausted");
    let both = gateway.key_of(terms(1, PRICE));
    gateway.send(&post(&both, "whole", 1)).await.assert_ok();
    has_used(&gateway, &both, 0, PRICE).await;
    gateway.verify().await;
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
    let empty = gateway.key_with(4000, LONG);
    gateway.send(&draw().key(&empty)).await.assert_ok();
    let free = gateway.send(&Request::get(FILES).key(&empty)).await;
    free.assert_error(402, "quota_exhausted");
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
    let tokens = gateway.create_key(&["--output-tokens", "5000"]).await;
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
async fn an_answer_that_comes_before_the_end_of_the_upload_is_charged() {
    let go = Arc::new(Notify::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let breaks = Arc::clone(&go);
    let serve = async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let early = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                         transfer-encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n";
            stream.write_all(early.as_bytes()).await.unwrap();
            let mut upload = vec![0; MIB];
            while tokio::select! {
                read = stream.read(&mut upload) => read.is_ok_and(|it| it > 0),
                () = breaks.notified() => false,
            } {}
            stream.set_zero_linger().unwrap();
        }
    };
    let serve = tokio::spawn(serve);
    let config = Config::new()
        .provider("sim", provider(address))
        .with(
            "providers.sim.passthrough",
            json!([{"path": "/v1/files", "methods": ["POST"], "charge": 100, "body": "30MiB"}]),
        )
        .model("test-model", json!(["sim"]));
    let gateway = Gateway::start(config).await;
    for is_left in [false, true] {
        let key = gateway.key_with(1000, LONG);
        let upload = Request::new("POST", FILES)
            .key(&key)
            .body(vec![b'x'; 3 * MIB]);
        let mut connection = gateway.connect().await;
        connection.write(&upload.head()).await;
        connection.write(&upload.body[..2 * MIB]).await;
        connection.read_until(b"data: 1\n\n").await;
        if is_left {
            drop(connection);
            gateway.has_spent(&key, 100).await;
        } else {
            go.notify_one();
            connection.rest().await;
            gateway.has_spent(&key, 100).await;
        }
    }
    serve.abort();
    gateway.verify().await;
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
