//! Time-outs: each phase of an answer has its own, a provider that is too slow is replaced
//! if nothing was committed, and otherwise the caller gets an error in its own format.

mod stalled;

use crate::support::{
    self, Act, Answer, Authority, CHAT, Config, Connection, Ending, FORMATS, Gateway, Http2,
    MESSAGES, Provider, Request, Upstream, prompt,
};
use futures::future::join_all;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

/// A bound that is due.
const SOON: &str = "300ms";
const SOON_MS: Duration = Duration::from_millis(300);
/// A bound that no test waits for.
const LATE: &str = "60s";
/// What a busy machine may add.
const SLACK: Duration = Duration::from_secs(5);

/// All bounds late, but for one.
fn all_but(name: &str) -> Value {
    let mut timeouts = json!({"read": LATE, "connect": LATE});
    timeouts[name] = json!(SOON);
    timeouts
}

/// Providers that speak HTTP/1.1 and HTTP/2.
const HTTP: [&str; 2] = ["never", "always"];

/// A model `alone` at a provider with these orders, and a model `two` with another behind it.
fn config(provider: &Provider, http2: &str, timeouts: Value, orders: &str) -> Config {
    let slow = json!({"provider": "slow", "upstream_model": format!("sim-{orders}")});
    let healthy = json!({"provider": "healthy", "priority": 1});
    Config::new()
        .provider("slow", support::provider(provider.address))
        .provider("healthy", support::provider(provider.address))
        .with("providers.slow.timeouts", timeouts)
        // It is asked however often it was too slow.
        .with(
            "providers.slow.health",
            json!({"consecutive_failures": null, "error_rate": null}),
        )
        .with("providers.slow.http2", json!(http2))
        .with("failover", json!({"pause": "10ms"}))
        // Each request is to meet the slow one.
        .with("routing.health", json!({"enabled": false}))
        .model("alone", json!([slow]))
        .model("two", json!([slow, healthy]))
}

async fn ask(gateway: &Gateway, path: &str, model: &str, stream: bool) -> Answer {
    let said = "one two three four five six seven eight";
    let body = prompt(path, model, said, json!({"stream": stream}));
    gateway.post(path, &body).await
}

/// Nothing was committed: alone it is 504, and with another candidate the client does not notice.
async fn is_replaced(gateway: &Gateway, what: &str, streams: &[bool]) {
    let cases = FORMATS
        .into_iter()
        .flat_map(|path| streams.iter().map(move |it| (path, *it)));
    let asked = cases.map(async |(path, stream)| {
        let begun = Instant::now();
        let answer = ask(gateway, path, "alone", stream).await;
        let took = begun.elapsed();
        assert_eq!(
            answer.error(),
            (504, "upstream_error".to_owned()),
            "{what} {path} {stream}: {answer:?}"
        );
        assert!(
            (SOON_MS..SOON_MS + SLACK).contains(&took),
            "{what}: {took:?}"
        );
        let answer = ask(gateway, path, "two", stream).await;
        answer.assert_ok();
        assert_eq!(answer.header("x-attempts"), Some("2"), "{what} {path}");
        assert!(!answer.text().contains("\"error\":{"), "{}", answer.text());
    });
    join_all(asked).await;
}

/// Something was committed: the stream ends in the error event of its format, when this bound is due.
async fn ends_in_an_error_event(gateway: &Gateway, what: &str, model: &str, bound: Duration) {
    let asked = FORMATS.map(async |path| {
        let begun = Instant::now();
        let answer = ask(gateway, path, model, true).await;
        let took = begun.elapsed();
        assert_eq!(answer.status, 200, "{what} {path}: {answer:?}");
        assert_eq!(answer.ending, Ending::Complete, "{what} {path}");
        let events = answer.events();
        let last = events.last().expect("an event");
        let code = last.pointer("/error/code");
        let code = code.or_else(|| last.pointer("/response/error/code"));
        assert_eq!(
            code,
            Some(&json!("upstream_error")),
            "{what} {path}: {last}"
        );
        assert!((bound..bound + SLACK).contains(&took), "{what}: {took:?}");
    });
    join_all(asked).await;
}

#[tokio::test]
async fn a_provider_that_is_silent_before_its_head_is_replaced() {
    let provider = Provider::start().await;
    for http2 in HTTP {
        let config = config(&provider, http2, all_but("first_byte"), "hang");
        is_replaced(&Gateway::start(config).await, http2, &[false, true]).await;
    }
}

#[tokio::test]
async fn a_stream_without_content_in_time_is_replaced() {
    let provider = Provider::start().await;
    let orders = [
        "hang",
        "stall-after-0",
        "stall-after-0+pings-50ms",
        "chunks-1+chunk-delay-50ms",
    ];
    for http2 in HTTP {
        join_all(orders.map(async |orders| {
            let config = config(&provider, http2, all_but("first_token"), orders);
            let what = format!("{orders}, {http2}");
            is_replaced(&Gateway::start(config).await, &what, &[true]).await;
        }))
        .await;
    }
}

#[tokio::test]
async fn the_pings_of_messages_are_no_content() {
    let start = json!({"type": "message_start", "message": {"id": "m", "type": "message",
        "role": "assistant", "content": [], "model": "m", "stop_reason": null,
        "usage": {"input_tokens": 3, "output_tokens": 1}}});
    let ping = "event: ping\ndata: {\"type\": \"ping\"}\n\n";
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let mut script = vec![Act::send(format!(
        "{head}event: message_start\ndata: {start}\n\n"
    ))];
    // They go on for longer than a busy machine takes to end the attempt.
    for _ in 0..200 {
        script.push(Act::send(ping));
        script.push(Act::Pause(Duration::from_millis(50)));
    }
    script.push(Act::Hang);
    let upstream = Upstream::playing(script).await;
    let config = Config::new()
        .provider("raw", support::provider(upstream.address))
        .with("providers.raw.timeouts", all_but("first_token"))
        .model("alone", json!(["raw"]));
    let gateway = Gateway::start(config).await;
    let begun = Instant::now();
    let answer = ask(&gateway, MESSAGES, "alone", true).await;
    answer.assert_error(504, "upstream_error");
    assert!(begun.elapsed() < SOON_MS + SLACK);
}

#[tokio::test]
async fn a_stream_that_stops_between_two_events_ends_in_an_error_event() {
    let provider = Provider::start().await;
    for http2 in HTTP {
        for (what, orders) in [
            ("silent", "stall-after-6"),
            ("pings for ever", "stall-after-6+pings-50ms"),
        ] {
            let config = config(&provider, http2, all_but("between_events"), orders);
            let gateway = Gateway::start(config).await;
            let what = format!("{what}, {http2}");
            ends_in_an_error_event(&gateway, &what, "alone", SOON_MS).await;
        }
    }
}

#[tokio::test]
async fn a_stream_ends_soon_after_its_last_event_though_its_provider_does_not_end_it() {
    const LONGEST_END: Duration = Duration::from_secs(2);
    let provider = Provider::start().await;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
    let formats = FORMATS.into_iter().zip(["chat", "responses", "messages"]);
    join_all(formats.map(async |(at, format)| {
        let body = prompt(at, "m", "Hello!", json!({"stream": true}));
        let request = Request::post(at, &body).key("any");
        let mut direct = Connection::open(provider.address).await;
        let events = direct.send(&request).await.text();
        let chunk = format!("{:x}\r\n{events}\r\n", events.len());
        for body in [
            format!("transfer-encoding: chunked\r\n\r\n{chunk}"),
            format!("connection: close\r\n\r\n{events}"),
        ] {
            let upstream = Upstream::playing([Act::send(format!("{head}{body}")), Act::Hang]).await;
            let mut open = support::provider(upstream.address);
            open["formats"] = json!([format]);
            open["timeouts"] = json!({"read": LATE});
            let config = Config::new()
                .provider("open", open)
                .model("alone", json!(["open"]));
            let gateway = Gateway::start(config).await;
            join_all(FORMATS.map(async |path| {
                let begun = Instant::now();
                let answer = ask(&gateway, path, "alone", true).await;
                let took = begun.elapsed();
                answer.assert_ok();
                assert_eq!(answer.ending, Ending::Complete, "{path} at {format}");
                assert!(!answer.text().contains("upstream_error"), "{answer:?}");
                assert!(took < LONGEST_END + SLACK, "{path} at {format}: {took:?}");
                let line = gateway.line_of(&answer).await;
                assert_eq!(line["outcome"], "completed", "{line}");
            }))
            .await;
            no_provider_is_blamed(&gateway).await;
        }
    }))
    .await;
}

#[tokio::test]
async fn an_error_that_does_not_end_is_the_error_of_its_head() {
    const HELD: Duration = Duration::from_secs(10);
    let body = r#"{"error":{"message":"slow down","type":"rate_limit_error"}}"#;
    let more = body.len() + 10;
    let answer = format!(
        "HTTP/1.1 429 Slow\r\ncontent-type: application/json\r\nretry-after: 7\r\n\
         content-length: {more}\r\n\r\n{body}"
    );
    let upstream = Upstream::playing([Act::send(answer), Act::Hang]).await;
    let healthy = Provider::start().await;
    // The second one ends before the longest hold.
    join_all(
        [json!({"read": LATE}), all_but("between_events")].map(async |timeouts| {
            let config = Config::new()
                .provider("open", support::provider(upstream.address))
                .provider("healthy", support::provider(healthy.address))
                .with("providers.open.timeouts", timeouts)
                .with("routing.health", json!({"enabled": false}))
                .model("alone", json!(["open"]))
                .model(
                    "two",
                    json!(["open", {"provider": "healthy", "priority": 1}]),
                );
            let gateway = Gateway::start(config).await;
            let begun = Instant::now();
            join_all([false, true].map(async |stream| {
                let alone = ask(&gateway, CHAT, "alone", stream);
                let two = ask(&gateway, CHAT, "two", stream);
                let (alone, two) = futures::future::join(alone, two).await;
                alone.assert_error(429, "rate_limit_exceeded");
                assert_eq!(alone.header("retry-after"), Some("7"), "{alone:?}");
                two.assert_ok();
                assert_eq!(two.header("x-attempts"), Some("2"), "{two:?}");
            }))
            .await;
            assert!(begun.elapsed() < HELD + SLACK, "{:?}", begun.elapsed());
        }),
    )
    .await;
}

#[tokio::test]
async fn a_request_has_an_end_however_much_comes() {
    let provider = Provider::start().await;
    for http2 in HTTP {
        let late = json!({"read": LATE});
        let drips = config(
            &provider,
            http2,
            late.clone(),
            "chunk-delay-20ms+tokens-1000",
        );
        let gateway = Gateway::start(drips.with("failover.total", json!("3s"))).await;
        ends_in_an_error_event(&gateway, http2, "two", Duration::from_secs(3)).await;
        let silent = config(&provider, http2, late, "hang");
        let gateway = Gateway::start(silent.with("failover.total", json!(SOON))).await;
        for stream in [false, true] {
            let answer = ask(&gateway, CHAT, "two", stream).await;
            answer.assert_error(504, "upstream_error");
            assert_eq!(
                answer.header("x-attempts"),
                None,
                "no time was left: {answer:?}"
            );
        }
    }
}

#[tokio::test]
async fn the_time_limit_of_a_request_covers_all_its_attempts() {
    let provider = Provider::start().await;
    let hang =
        |n: usize| json!({"provider": "sim", "upstream_model": format!("sim-hang+tokens-{n}")});
    let config = Config::of(&provider)
        .with("providers.sim.timeouts", json!({"first_byte": "2100ms"}))
        .with("failover", json!({"total": "6s"}))
        .model("hangs", json!([hang(1), hang(2), hang(3), hang(4)]));
    let gateway = Gateway::start(config).await;
    let begun = Instant::now();
    let answer = ask(&gateway, CHAT, "hangs", false).await;
    let took = begun.elapsed();
    answer.assert_error(504, "upstream_error");
    assert_eq!(
        answer.header("x-attempts"),
        Some("3"),
        "2100 + 2100 + 1800 ms: {answer:?}"
    );
    assert!(took >= Duration::from_millis(5950), "{took:?}");
}

#[tokio::test]
async fn a_model_that_thinks_for_long_can_have_bounds_of_its_own() {
    let provider = Provider::start().await;
    let config = Config::of(&provider)
        .with("providers.sim.timeouts", json!({"read": SOON}))
        .model("thinks", json!(["sim/sim-delay-700ms"]))
        .with(
            "models.thinks.timeouts",
            json!({"first_byte": LATE, "first_token": LATE}),
        )
        .model("quick", json!(["sim/sim-hang"]));
    let gateway = Gateway::start(config).await;
    for stream in [false, true] {
        ask(&gateway, CHAT, "thinks", stream).await.assert_ok();
        let answer = ask(&gateway, CHAT, "quick", stream).await;
        answer.assert_error(504, "upstream_error");
    }
}

#[tokio::test]
async fn a_connection_that_is_never_made_is_given_up_as_unreachable() {
    // It is accepted by the system, and the handshake never begins.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", silent.local_addr().unwrap());
    let provider = Provider::start().await;
    let config = Config::of(&provider)
        .provider("silent", support::provider_at(&address))
        .with("providers.silent.timeouts", all_but("connect"))
        .with("failover", json!({"pause": "10ms", "again": 0}))
        .model("alone", json!(["silent"]))
        .model("two", json!(["silent", {"provider": "sim", "priority": 1}]));
    let gateway = Gateway::start(config).await;
    let begun = Instant::now();
    let answer = ask(&gateway, CHAT, "alone", false).await;
    answer.assert_error(503, "service_unavailable");
    assert!(begun.elapsed() < SOON_MS + SLACK);
    ask(&gateway, CHAT, "two", true).await.assert_ok();
}

/// The longest pause of a provider while callers do not read: longer than a busy machine stops the test.
const PAUSE: &str = "1s";

/// A gateway whose provider's answers are larger than what all sockets hold together, and must not
/// pause for long. Callers have a time to take a piece.
async fn gateway_for_large_answers(provider: &Provider, http2: &str, write: &str) -> Gateway {
    let config = Config::of(provider)
        .with(
            "providers.sim.timeouts",
            json!({"read": LATE, "between_events": PAUSE}),
        )
        .with("providers.sim.http2", json!(http2))
        .with(
            "server.limits",
            json!({"downstream_write_timeout": write, "min_send_rate": null}),
        )
        .model("test-model", json!(["sim/sim-huge-16mb"]));
    Gateway::start(config).await
}

fn large(gateway: &Gateway) -> Request {
    let body = prompt(CHAT, "test-model", "Hi", json!({"stream": true}));
    Request::post(CHAT, &body).key(&gateway.key)
}

/// No failure of the provider was counted.
async fn no_provider_is_blamed(gateway: &Gateway) {
    let faults = gateway.total("tollgate_upstream_faults_total").await;
    assert_eq!(faults, 0.0, "{}", gateway.output());
}

#[tokio::test]
async fn a_caller_that_reads_slowly_is_not_the_providers_fault() {
    const UNREAD: Duration = Duration::from_secs(2);
    let provider = Provider::start().await;
    let all = HTTP.into_iter().flat_map(|to| [(to, false), (to, true)]);
    // One after the other: the provider shares its processor with the readers.
    for (to, from) in all {
        let gateway = gateway_for_large_answers(&provider, to, LATE).await;
        let request = large(&gateway);
        // All sockets and windows fill while the caller does not read.
        let answer = if from {
            let mut connection = Http2::open(gateway.address).await;
            let answer = connection.begin(&request).await.unwrap();
            tokio::time::sleep(UNREAD).await;
            Http2::rest(answer).await
        } else {
            let mut connection = gateway.connect().await;
            connection.write(&request.bytes()).await;
            let mut answer = connection.head().await;
            tokio::time::sleep(UNREAD).await;
            connection.read_body(&mut answer).await;
            answer
        };
        answer.assert_ok();
        let text = answer.text();
        let end = text.len().saturating_sub(300);
        assert!(
            text.ends_with("data: [DONE]\n\n"),
            "provider's HTTP/2 {to}, caller's {from}: {} bytes, {}",
            text.len(),
            &text[end..]
        );
        assert_eq!(gateway.line_of(&answer).await["outcome"], "completed");
        no_provider_is_blamed(&gateway).await;
    }
}

/// A provider that says so much at once, then a word now and then: never silent for a second.
async fn burst(bytes: usize) -> Upstream {
    const EVENT: usize = 16 * 1024;
    let event = |text: &str| {
        let delta = json!({"index": 0, "delta": {"content": text}, "finish_reason": null});
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "choices": [delta]});
        format!("data: {chunk}\n\n")
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let large = event(&"x".repeat(EVENT)).repeat(bytes / EVENT);
    let mut script = vec![Act::send(format!("{head}{large}"))];
    for _ in 0..8 {
        script.extend([Act::Pause(SOON_MS), Act::send(event("and"))]);
    }
    script.push(Act::send("data: [DONE]\n\n"));
    Upstream::playing(script).await
}

/// What was read of a provider over HTTP/1.1 and waits for the caller is not in the provider's
/// connection any more. How much fits into the caller's depends on the system, so it is tried.
#[tokio::test]
async fn a_caller_that_holds_up_what_was_read_is_not_the_providers_fault() {
    const STEP: usize = 128 * 1024;
    let sizes: Vec<usize> = (8..=48).map(|steps| steps * STEP).collect();
    let mut config = Config::new();
    for bytes in &sizes {
        let upstream = burst(*bytes).await;
        let name = format!("burst-{bytes}");
        let timeouts = json!({"read": LATE, "between_events": PAUSE});
        config = config
            .provider(&name, support::provider(upstream.address))
            .with(&format!("providers.{name}.timeouts"), timeouts)
            .model(&name, json!([name]));
    }
    let gateway = Gateway::start(config).await;
    let read = async |bytes: &usize| {
        let model = format!("burst-{bytes}");
        let body = prompt(CHAT, &model, "Hi", json!({"stream": true}));
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 * 1024).unwrap();
        let mut connection = Connection::over(socket.connect(gateway.address).await.unwrap());
        let request = Request::post(CHAT, &body).key(&gateway.key);
        connection.write(&request.bytes()).await;
        let mut answer = connection.head().await;
        tokio::time::sleep(7 * SOON_MS).await;
        connection.read_body(&mut answer).await;
        let whole = answer.text().ends_with("data: [DONE]\n\n");
        (!whole).then_some(model)
    };
    let cut = join_all(sizes.iter().map(read)).await;
    let cut: Vec<_> = cut.into_iter().flatten().collect();
    assert!(cut.is_empty(), "{cut:?}");
    no_provider_is_blamed(&gateway).await;
}

#[tokio::test]
async fn a_caller_that_reads_no_more_ends_its_stream_and_blames_no_provider() {
    let provider = Provider::start().await;
    let all = HTTP.into_iter().flat_map(|to| [(to, false), (to, true)]);
    // One after the other: the provider shares its processor with the readers.
    for (to, from) in all {
        // The longest pause would be over first.
        let gateway = gateway_for_large_answers(&provider, to, "2s").await;
        let request = large(&gateway);
        // Both are held, and not read.
        let mut streams = (None, None);
        if from {
            let mut connection = Http2::open(gateway.address).await;
            let answer = connection.begin(&request).await.unwrap();
            streams.0 = Some((connection, answer));
        } else {
            let mut connection = gateway.connect().await;
            connection.write(&request.bytes()).await;
            connection.head().await;
            streams.1 = Some(connection);
        }
        let line = gateway
            .access_line(|line| line["model_asked"] == "test-model")
            .await;
        assert_eq!(line["outcome"], "client_closed", "{to} {from}: {line}");
        no_provider_is_blamed(&gateway).await;
        drop(streams);
    }
}

/// A provider that says this on every connection, and takes no more than its system does by itself;
/// under TLS, no more than the handshake.
async fn deaf(says: String, authority: Option<&Authority>) -> SocketAddr {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(64).unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = authority.map(|it| it.issue(HOST).acceptor());
    tokio::spawn(async move {
        let mut open: Vec<Box<dyn AsyncWrite + Send + Unpin>> = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream: Box<dyn AsyncWrite + Send + Unpin> = match &acceptor {
                Some(acceptor) => Box::new(acceptor.accept(stream).await.unwrap()),
                None => Box::new(stream),
            };
            stream.write_all(says.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            open.push(stream);
        }
    });
    address
}

/// What the certificate of a provider under TLS is for.
const HOST: &str = "provider.test";

/// A gateway whose provider `a` is at this address and has this time for a write, with the healthy one behind it.
async fn gateway_to(
    address: SocketAddr,
    healthy: &Provider,
    authority: Option<&Authority>,
    write: &str,
) -> Gateway {
    let folder = TempDir::new().unwrap();
    let mut config = Config::first_and_second(address, healthy.address)
        .with(
            "providers.a.timeouts",
            json!({"read": LATE, "connect": LATE, "write": write}),
        )
        .with("providers.a.health", json!({"enabled": false}))
        .with("failover", json!({"again": 0}))
        .model("alone", json!(["a"]));
    if let Some(authority) = authority {
        std::fs::write(folder.path().join("own.pem"), authority.pem()).unwrap();
        let at = format!("https://{address}");
        config = config.with("providers.a.address", json!(at)).with(
            "providers.a.tls",
            json!({"ca": "own.pem", "server_name": HOST}),
        );
    }
    Gateway::start_in(folder, config).await
}

/// More than any system buffers for a caller that does not read.
fn too_much() -> String {
    "word ".repeat(12 << 20 >> 2)
}

async fn nothing_is_taken(authority: Option<&Authority>) {
    let healthy = Provider::start().await;
    let deaf = deaf(String::new(), authority).await;
    let gateway = gateway_to(deaf, &healthy, authority, SOON).await;
    let said = too_much();
    for stream in [false, true] {
        let begun = Instant::now();
        let body = prompt(CHAT, "alone", &said, json!({"stream": stream}));
        let answer = gateway.post(CHAT, &body).await;
        let took = begun.elapsed();
        let reported = (503, "service_unavailable".to_owned());
        assert_eq!(answer.error(), reported, "{stream}: {answer:?}");
        assert!((SOON_MS..SOON_MS + 4 * SLACK).contains(&took), "{took:?}");

        let begun = Instant::now();
        let body = prompt(CHAT, "m", &said, json!({"stream": stream, "max_tokens": 5}));
        let answer = gateway.post(CHAT, &body).await;
        answer.assert_ok();
        assert_eq!(answer.header("x-attempts"), Some("2"), "{answer:?}");
        let took = begun.elapsed();
        assert!((SOON_MS..SOON_MS + 4 * SLACK).contains(&took), "{took:?}");
    }
}

#[tokio::test]
async fn a_provider_that_takes_nothing_of_a_body_is_left_by_the_time_of_a_write() {
    nothing_is_taken(None).await;
}

/// Its tickets come before the answer, and wait to be read while the body is written.
#[tokio::test]
async fn a_provider_that_takes_nothing_is_left_by_the_time_of_a_write_under_tls_too() {
    nothing_is_taken(Some(&Authority::new())).await;
}

async fn each_failure_is_reported(authority: Option<&Authority>) {
    const REFUSAL: &str = r#"{"error":{"message":"no","type":"invalid_request_error"}}"#;
    let length = REFUSAL.len();
    let says = format!(
        "HTTP/1.1 422 No\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{REFUSAL}"
    );
    let healthy = Provider::start().await;
    let address = deaf(says, authority).await;
    // The answer comes before this time.
    let gateway = gateway_to(address, &healthy, authority, "3s").await;
    let said = too_much();
    join_all([false, true].map(async |stream| {
        let body = prompt(CHAT, "alone", &said, json!({"stream": stream}));
        let answer = gateway.post(CHAT, &body).await;
        let reported = (422, "upstream_error".to_owned());
        assert_eq!(answer.error(), reported, "{stream}: {answer:?}");
    }))
    .await;
}

#[tokio::test]
async fn an_answer_is_passed_on_although_the_provider_reads_nothing_of_the_body() {
    let authority = Authority::new();
    join_all([None, Some(&authority)].map(each_failure_is_reported)).await;
}
