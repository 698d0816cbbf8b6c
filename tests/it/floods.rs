//! Floods of HTTP/2: a caller that sends many frames without progress gets `GOAWAY`, a provider that
//! does so is given up, and no other request suffers.

mod provider;

use crate::support::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, PING,
    PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE, block, frame,
};
use crate::support::{
    self, CHAT, Config, Frames, Gateway, Http2, Provider, Request, eventually, prompt,
};
use serde_json::{Value, json};

const FLOODS: &str = "tollgate_http2_floods_total";
const MEMORY: &str = "tollgate_resident_memory_bytes";
/// What a flood may make the gateway keep: less than a tenth of what it sends.
const MOST_KEPT: f64 = (32 << 20) as f64;

async fn gateway() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    (provider, gateway)
}

/// The head of a request that a model answers, as a block.
fn head(key: &str, length: &str) -> Vec<u8> {
    let bearer = format!("Bearer {key}");
    block(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", CHAT),
        (":authority", "gateway"),
        ("authorization", &bearer),
        ("content-type", "application/json"),
        ("content-length", length),
    ])
}

async fn memory(gateway: &Gateway) -> f64 {
    gateway.sample(MEMORY).await.expect("memory is measured")
}

/// All others are served, and nothing is left of the flood.
async fn assert_unharmed(gateway: &Gateway, what: &str) {
    let answer = gateway.ask(CHAT, "test-model", "", json!({})).await;
    assert_eq!(answer.status, 200, "after {what}: {answer:?}");
    gateway.sample_is("tollgate_requests_in_flight", 0.0).await;
    gateway.sample_is("tollgate_connections", 0.0).await;
}

#[tokio::test]
async fn streams_that_are_reset_on_opening_end_the_connection() {
    let (provider, gateway) = gateway().await;
    let body = prompt(CHAT, "test-model", "Hi", Value::Null).to_string();
    let head = head(&gateway.key, &body.len().to_string());
    let before = memory(&gateway).await;
    // As large a share of streams as is allowed, each reset in the same breath.
    let cancel = 8_u32.to_be_bytes();
    let streams = (0..20_000_u32).map(|number| {
        let stream = number * 2 + 1;
        [
            frame(HEADERS, END_HEADERS, stream, &head),
            frame(DATA, END_STREAM, stream, body.as_bytes()),
            frame(RST_STREAM, 0, stream, &cancel),
        ]
        .concat()
    });
    let bytes = streams.collect::<Vec<_>>().concat();
    let attack = Frames::open(gateway.address).await;
    let (reason, _) = attack.flood(&bytes, 1).await;
    assert_eq!(reason, Some(ENHANCE_YOUR_CALM));
    let asked = provider.handle.counters().requests;
    assert!(asked < 2_000, "{asked} of 20000 reached the provider");
    assert_unharmed(&gateway, "a rapid reset").await;
    let grown = memory(&gateway).await - before;
    println!("rapid reset: {asked} of 20000 reached the provider, {grown} bytes kept");
    assert!(grown < MOST_KEPT, "{grown} bytes more");
}

#[tokio::test]
async fn streams_that_are_reset_once_they_are_served_end_the_connection_too() {
    const AT_ONCE: u32 = 50;
    let (provider, gateway) = gateway().await;
    let body = prompt(CHAT, "test-model", "Hi", Value::Null).to_string();
    let mut head = head(&gateway.key, &body.len().to_string());
    head.extend(block(&[("x-sim", "hang")]));
    let before = memory(&gateway).await;
    let mut attack = Frames::open(gateway.address).await;
    let mut streams = 0;
    let reason = 'attack: loop {
        assert!(streams < 20_000, "the connection stays open");
        let numbers = (streams..streams + AT_ONCE).map(|number| number * 2 + 1);
        let opened: Vec<u8> = numbers
            .clone()
            .flat_map(|stream| {
                let head = frame(HEADERS, END_HEADERS, stream, &head);
                [head, frame(DATA, END_STREAM, stream, body.as_bytes())].concat()
            })
            .collect();
        attack.send(&opened).await;
        // Once it is answered, the streams are being served.
        attack.send(&frame(PING, 0, 0, &[0; 8])).await;
        loop {
            match attack.next().await {
                Some(frame) if frame.kind == PING => break,
                Some(frame) if frame.kind == GOAWAY => break 'attack Some(frame.reason()),
                Some(_) => {}
                None => break 'attack None,
            }
        }
        let cancel = 8_u32.to_be_bytes();
        let reset: Vec<u8> = numbers
            .flat_map(|stream| frame(RST_STREAM, 0, stream, &cancel))
            .collect();
        attack.send(&reset).await;
        streams += AT_ONCE;
    };
    assert_eq!(reason, Some(ENHANCE_YOUR_CALM));
    let asked = provider.handle.counters().requests;
    drop(attack);
    assert_unharmed(&gateway, "resets of what is served").await;
    assert_eq!(gateway.sample(FLOODS).await, Some(1.0));
    let grown = memory(&gateway).await - before;
    println!("{streams} streams were reset, {asked} reached the provider, {grown} bytes kept");
    assert!(grown < MOST_KEPT, "{grown} bytes more");
}

#[tokio::test]
async fn frames_that_move_nothing_end_the_connection_that_they_flood() {
    let (_provider, gateway) = gateway().await;
    let open = frame(HEADERS, END_HEADERS, 1, &head(&gateway.key, "1000000"));
    let endless = frame(HEADERS, END_STREAM, 1, &head(&gateway.key, "0"));
    let before = memory(&gateway).await;
    let mut floods = 0.0;
    for (what, first, frame) in [
        ("pings", Vec::new(), frame(PING, 0, 0, &[0; 8])),
        (
            "settings",
            Vec::new(),
            frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]),
        ),
        (
            "priorities",
            Vec::new(),
            frame(PRIORITY, 0, 3, &[0, 0, 0, 0, 16]),
        ),
        ("unknown frames", Vec::new(), frame(0x42, 0, 0, b"anything")),
        ("empty data", open.clone(), frame(DATA, 0, 1, &[])),
        ("continuations", endless, frame(CONTINUATION, 0, 1, &[])),
        (
            "window updates",
            open,
            frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()),
        ),
    ] {
        let mut attack = Frames::open(gateway.address).await;
        assert!(attack.send(&first).await);
        let (reason, sent) = attack.flood(&frame.repeat(100), 20_000).await;
        println!("{what}: {} frames, {reason:?}", sent * 100);
        assert_eq!(reason, Some(ENHANCE_YOUR_CALM), "{what}");
        assert!(sent < 20_000, "{what}");
        floods = gateway.sample(FLOODS).await.unwrap_or(0.0).max(floods);
        assert_unharmed(&gateway, what).await;
    }
    // Two of them the library ends by itself.
    assert!(floods >= 5.0, "{floods}");
    let grown = memory(&gateway).await - before;
    assert!(grown < MOST_KEPT, "{grown} bytes more");
}

#[tokio::test]
async fn a_caller_that_opens_no_window_is_given_up_and_its_provider_let_go() {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let provider = Provider::start().await;
    let config =
        Config::of(&provider).with("server.limits.downstream_write_timeout", json!("500ms"));
    let gateway = Gateway::start(config).await;
    let body = prompt(CHAT, "sim-huge-1mb", "Hi", json!({"stream": true})).to_string();
    let body = body.replace("sim-huge-1mb", "test-model");
    let mut caller = Frames::with_settings(gateway.address, &[(INITIAL_WINDOW_SIZE, 0)]).await;
    let mut headers = head(&gateway.key, &body.len().to_string());
    headers.extend(block(&[("x-sim", "huge-1mb")]));
    let request = [
        frame(HEADERS, END_HEADERS, 1, &headers),
        frame(DATA, END_STREAM, 1, body.as_bytes()),
    ]
    .concat();
    assert!(caller.send(&request).await);
    assert_eq!(caller.status(1).await, Some(200));
    // Its stream ends, and the connection serves the next.
    let ended = eventually("the end of the stream", async || {
        let idle = gateway.sample("tollgate_requests_in_flight").await == Some(0.0);
        let free = provider.handle.counters().open_answers == 0;
        (idle && free).then_some(())
    });
    ended.await;
    let bearer = format!("Bearer {}", gateway.key);
    assert_eq!(caller.next_stream(), 1, "which was used by hand");
    let again = [
        (":method", "HEAD"),
        (":scheme", "http"),
        (":path", "/v1"),
        (":authority", "gateway"),
        ("authorization", bearer.as_str()),
    ];
    assert_eq!(caller.ask(&again).await, Some(200));
}

#[tokio::test]
async fn no_more_streams_are_open_than_may_be() {
    const REFUSED_STREAM: u32 = 7;
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.limits.http2_streams", json!(3));
    let gateway = Gateway::start(config).await;
    let body = prompt(CHAT, "test-model", "Hi", Value::Null).to_string();
    let mut headers = head(&gateway.key, &body.len().to_string());
    headers.extend(block(&[("x-sim", "hang")]));
    let mut caller = Frames::open(gateway.address).await;
    for stream in [1, 3, 5, 7] {
        let request = [
            frame(HEADERS, END_HEADERS, stream, &headers),
            frame(DATA, END_STREAM, stream, body.as_bytes()),
        ];
        assert!(caller.send(&request.concat()).await);
    }
    let refused = loop {
        let frame = caller.next().await.expect("the connection lives");
        assert_ne!(frame.kind, GOAWAY);
        if frame.kind == RST_STREAM {
            break frame;
        }
    };
    assert_eq!((refused.stream, refused.reason()), (7, REFUSED_STREAM));
    provider
        .when("the others are asked for", |it| it.requests == 3)
        .await;
    drop(caller);
    assert_unharmed(&gateway, "too many streams").await;
}

#[tokio::test]
async fn bodies_that_trickle_over_http2_are_given_up_in_time() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.limits.body_timeout", json!("300ms"));
    let gateway = Gateway::start(config).await;
    let mut caller = Frames::open(gateway.address).await;
    for stream in [1, 3, 5] {
        let bytes = [
            frame(HEADERS, END_HEADERS, stream, &head(&gateway.key, "100")),
            frame(DATA, 0, stream, b"{"),
        ];
        assert!(caller.send(&bytes.concat()).await);
    }
    let mut reported = Vec::new();
    while reported.len() < 3 {
        let frame = caller.next().await.expect("the connection lives");
        if frame.kind == HEADERS {
            reported.push(frame.stream);
        }
    }
    reported.sort_unstable();
    assert_eq!(reported, [1, 3, 5]);
    assert_eq!(provider.handle.counters().requests, 0);
    gateway
        .access_line(|line| line["status"] == 408 && line["code"] == "invalid_request")
        .await;
}

#[tokio::test]
async fn a_preface_that_does_not_come_is_waited_for_no_longer_than_a_head() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.limits.head_timeout", json!("2s"));
    let gateway = Gateway::start(config).await;
    for start in ["P", "PRI * HTTP/2.0\r\n\r\nSM"] {
        let mut connection = gateway.connect().await;
        connection.write(start.as_bytes()).await;
        let answer = connection.answer(&Request::get("/")).await;
        answer.assert_error(408, "invalid_request");
    }
    // One that is spoken is HTTP/2 as ever.
    let mut http2 = Http2::open(gateway.address).await;
    let body = prompt(CHAT, "test-model", "Hi", Value::Null);
    let request = Request::post(CHAT, &body).key(&gateway.key);
    http2.send(&request).await.assert_ok();
}
