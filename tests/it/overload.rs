//! Overload: every resource has a bound, requests beyond it are refused at once,
//! and all others are served as before.

use crate::support::frames::{self, DATA, END_HEADERS, END_STREAM, Frames, HEADERS};
use crate::support::slow::{Slowness, from, narrow};
use crate::support::{
    self, AT_ONCE, Act, Authority, CHAT, Config, Connection, Crowd, Ending, Gateway, MESSAGES,
    Provider, Request, Upstream, bounded, eventually, json_answer, prompt,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn gateway(limits: Value) -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.limits", limits);
    let gateway = Gateway::start(config).await;
    (provider, gateway)
}

fn ask(key: &str) -> Request {
    let body = prompt(CHAT, "test-model", "Hi", Value::Null);
    Request::post(CHAT, &body).key(key)
}

/// Whether the other side has closed without a word.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let read = bounded("the end of a connection", stream.read_u8()).await;
    read.is_err()
}

async fn served(stream: TcpStream, key: &str) -> Connection {
    let mut connection = Connection::over(stream);
    let answer = connection.send(&Request::get("/v1").key(key)).await;
    answer.assert_ok();
    connection
}

#[tokio::test]
async fn connections_beyond_the_bound_are_closed_as_they_come() {
    let (_provider, gateway) = gateway(json!({"connections": 3})).await;
    let refused = "tollgate_connections_refused_total{reason=\"total\"}";
    let mut open = Vec::new();
    for _ in 0..3 {
        let stream = from([127, 0, 0, 1], gateway.address).await;
        open.push(served(stream, &gateway.key).await);
    }
    gateway.sample_is("tollgate_connections", 3.0).await;
    for _ in 0..2 {
        assert!(is_closed(&mut from([127, 0, 0, 1], gateway.address).await).await);
    }
    gateway.sample_is(refused, 2.0).await;
    for connection in &mut open {
        connection.send(&ask(&gateway.key)).await.assert_ok();
    }
    open.pop();
    gateway.sample_is("tollgate_connections", 2.0).await;
    served(from([127, 0, 0, 1], gateway.address).await, &gateway.key).await;
}

#[tokio::test]
async fn one_address_cannot_take_the_connections_of_others() {
    let (_provider, gateway) = gateway(json!({"connections_per_address": 2})).await;
    let refused = "tollgate_connections_refused_total{reason=\"address\"}";
    let mut held = Vec::new();
    for _ in 0..2 {
        // They say nothing, and count all the same.
        held.push(from([127, 0, 0, 1], gateway.address).await);
    }
    gateway.sample_is("tollgate_connections", 2.0).await;
    assert!(is_closed(&mut from([127, 0, 0, 1], gateway.address).await).await);
    gateway.sample_is(refused, 1.0).await;
    served(from([127, 0, 0, 2], gateway.address).await, &gateway.key).await;
    held.pop();
    gateway.sample_is("tollgate_connections", 1.0).await;
    served(from([127, 0, 0, 1], gateway.address).await, &gateway.key).await;
}

#[tokio::test]
async fn a_handshake_of_tls_that_does_not_end_has_its_place_too() {
    let provider = Provider::start().await;
    let authority = Authority::new();
    let folder = tempfile::TempDir::new().unwrap();
    authority.issue("gateway.test").write(folder.path(), "tls");
    let tls = json!([{"tls": {"certificate": "tls.crt", "key": "tls.key"}}]);
    let config = Config::of(&provider)
        .with("server.listen", tls)
        .with("server.limits", json!({"connections_per_address": 2}));
    let gateway = Gateway::start_in(folder, config).await;
    let silent = from([127, 0, 0, 1], gateway.address).await;
    let mut begun = from([127, 0, 0, 1], gateway.address).await;
    begun.write_all(b"\x16\x03\x01").await.unwrap();
    gateway.sample_is("tollgate_connections", 2.0).await;
    assert!(is_closed(&mut from([127, 0, 0, 1], gateway.address).await).await);
    drop(silent);
    gateway.sample_is("tollgate_connections", 1.0).await;
    let session = authority.connect(gateway.address, "gateway.test", &["http/1.1"]);
    let mut connection = Connection::over(session.await);
    connection.send(&ask(&gateway.key)).await.assert_ok();
    gateway.sample_is("tollgate_connections", 2.0).await;
    drop((connection, begun));
    gateway.sample_is("tollgate_connections", 0.0).await;
}

#[tokio::test]
async fn a_head_that_trickles_in_is_given_up_in_time() {
    let (_provider, gateway) = gateway(json!({"head_timeout": "500ms"})).await;
    let begun = Instant::now();
    let mut connection = gateway.connect().await;
    let trickle = async {
        // Each byte comes well within any time-out of a read.
        for byte in b"GET /v1/models HTTP/1.1\r\nhost: gateway\r\nx: "
            .iter()
            .chain(&[b'x'; 1000])
        {
            if connection.try_write(&[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            if begun.elapsed() > Duration::from_secs(1) {
                break;
            }
        }
    };
    trickle.await;
    let answer = connection.answer(&Request::get("/")).await;
    answer.assert_error(408, "invalid_request");
    let (rest, _) = connection.rest().await;
    assert_eq!(rest.len(), 0);
    assert!(begun.elapsed() > Duration::from_millis(500));
    gateway
        .sample_is("tollgate_heads_refused_total{reason=\"timeout\"}", 1.0)
        .await;

    // A connection over which nothing comes is closed without a word.
    assert!(is_closed(&mut from([127, 0, 0, 1], gateway.address).await).await);
    gateway.sample_is("tollgate_connections", 0.0).await;
}

#[tokio::test]
async fn requests_beyond_the_bound_are_refused_at_once_and_priority_keys_last() {
    let provider = Provider::start().await;
    let plan = json!({"tokens": "1G", "validity": "365d", "support": "priority"});
    let config = Config::of(&provider).with("plans.first-class", plan).with(
        "server.limits",
        json!({"requests_in_flight": 4, "reserved_for_priority": 50}),
    );
    let gateway = Gateway::start(config).await;
    // A key each: one key may not hold so many.
    let priority = gateway.create_key(&["--plan", "first-class"]).await;
    let another_priority = gateway.create_key(&["--plan", "first-class"]).await;
    let another = gateway.create_key(&[]).await;
    let mut held = Vec::new();
    let hold = async |key: &str| {
        let mut connection = gateway.connect().await;
        connection.write(&ask(key).orders("hang").bytes()).await;
        connection
    };
    for (number, key) in [(1, &gateway.key), (2, &another)] {
        held.push(hold(key).await);
        provider
            .when("it is held", |it| it.open_answers == number)
            .await;
    }
    for path in [CHAT, MESSAGES] {
        let asked = Instant::now();
        let body = prompt(path, "test-model", "Hi", Value::Null);
        let answer = gateway.post(path, &body).await;
        answer.assert_error(503, "service_unavailable");
        assert_eq!(answer.header("retry-after"), Some("1"), "{answer:?}");
        assert!(asked.elapsed() < AT_ONCE, "{asked:?}");
    }
    gateway.send(&ask(&priority)).await.assert_ok();
    for (number, key) in [(3, &priority), (4, &another_priority)] {
        held.push(hold(key).await);
        provider
            .when("it is held", |it| it.open_answers == number)
            .await;
    }
    gateway
        .send(&ask(&priority))
        .await
        .assert_error(503, "service_unavailable");
    gateway
        .sample_is("tollgate_requests_shed_total{reason=\"requests\"}", 3.0)
        .await;
    drop(held);
    gateway.sample_is("tollgate_requests_in_flight", 0.0).await;
    gateway.send(&ask(&gateway.key)).await.assert_ok();
}

/// A caller that is refused and does not send the body that it has announced is waited for, and
/// counts against no limit.
#[tokio::test]
async fn a_refused_silent_caller_does_not_count_as_a_request() {
    let (_provider, gateway) = gateway(json!({"requests_in_flight": 4})).await;
    let mut silent = Vec::new();
    for length in ["10", "1000000"] {
        let was_in_time = async |silent: &mut Vec<Connection>| {
            for _ in 0..10 {
                let mut connection = gateway.connect().await;
                let head =
                    format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
                connection.write(head.as_bytes()).await;
                silent.push(connection);
            }
            let asked = Instant::now();
            // They are refused by then, and waited for.
            tokio::time::sleep(Duration::from_millis(200)).await;
            for _ in 0..5 {
                gateway.send(&ask(&gateway.key)).await.assert_ok();
            }
            asked.elapsed() < Duration::from_millis(1900)
        };
        // After two seconds they are not waited for any more, and what was served shows nothing.
        let mut tries = 0;
        while !was_in_time(&mut silent).await {
            tries += 1;
            assert!(tries < 10, "the machine is too slow for this test");
        }
    }
    drop(silent);
    gateway.sample_is("tollgate_requests_in_flight", 0.0).await;
}

#[tokio::test]
async fn beyond_its_memory_the_gateway_takes_nothing_new_and_comes_back_by_itself() {
    let (_provider, gateway) = gateway(json!({"memory": "1MiB"})).await;
    eventually("the memory is known", async || {
        let known = gateway.sample("tollgate_resident_memory_bytes").await;
        known.filter(|bytes| *bytes > 1e6)
    })
    .await;
    let answer = gateway.send(&ask(&gateway.key)).await;
    answer.assert_error(503, "service_unavailable");
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    gateway
        .sample_is("tollgate_requests_shed_total{reason=\"memory\"}", 1.0)
        .await;
    gateway.rewrite(
        gateway
            .config()
            .with("server.limits", json!({"memory": "100GiB"})),
    );
    gateway.signal("HUP").await;
    gateway.log_line("the configuration was reloaded").await;
    gateway.send(&ask(&gateway.key)).await.assert_ok();
}

#[tokio::test]
async fn a_reader_is_cut_for_its_own_slowness_and_never_for_a_providers() {
    let limits = json!({"downstream_write_timeout": "1s", "min_send_rate": "1MiB"});
    let (provider, gateway) = gateway(limits).await;
    let stream = prompt(
        CHAT,
        "test-model",
        "one two three four",
        json!({"stream": true}),
    );
    let slow_provider = Request::post(CHAT, &stream)
        .key(&gateway.key)
        .orders("chunks-60,chunk-delay-300ms");
    let huge = Request::post(CHAT, &stream)
        .key(&gateway.key)
        .orders("huge-20mb");
    let mut reader = gateway.connect().await;
    reader.write(&huge.bytes()).await;
    // It reads nothing at all, while another takes long for little.
    let begun = Instant::now();
    let answer = gateway.send(&slow_provider).await;
    answer.assert_ok();
    assert!(begun.elapsed() > Duration::from_millis(1500), "{begun:?}");
    gateway.sample_is("tollgate_slow_readers_total", 1.0).await;
    gateway
        .access_line(|line| line["outcome"] == "client_closed")
        .await;
    provider
        .when("it is let go", |it| it.open_answers == 0)
        .await;
    drop(reader);
    gateway.sample_is("tollgate_connections", 0.0).await;
}

/// With a rate and by the time-out alone.
fn write_limits() -> [Value; 2] {
    let limits = |rate: Value| json!({"downstream_write_timeout": "1s", "min_send_rate": rate, "http2_streams": 1000});
    [limits(json!("1MiB")), limits(Value::Null)]
}

/// Waits until nothing is left of a caller that has been cut.
async fn nothing_is_left(gateway: &Gateway) {
    for sample in ["tollgate_connections", "tollgate_requests_in_flight"] {
        gateway.sample_is(sample, 0.0).await;
    }
}

#[tokio::test]
async fn a_caller_that_takes_no_heads_is_cut() {
    for limits in write_limits() {
        let (_provider, gateway) = gateway(limits).await;
        let request = Request::get("/v1").key(&gateway.key).bytes();
        let request = String::from_utf8(request).unwrap();
        let heads = request.replacen("GET", "HEAD", 1).repeat(100);
        let mut caller = narrow([127, 0, 0, 1], gateway.address).await;
        let asking = async { while caller.write_all(heads.as_bytes()).await.is_ok() {} };
        bounded("the end of a caller that reads nothing", asking).await;
        nothing_is_left(&gateway).await;
        gateway.sample_is("tollgate_slow_readers_total", 1.0).await;
    }
}

/// A provider whose heads are as large as those of few, and all passed on.
async fn gateway_with_large_heads(limits: Value) -> (Upstream, Gateway) {
    let large = format!("x-large: {}\r\n", "+".repeat(30_000));
    let body = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}});
    let answer = json_answer("200 OK", &large, &body.to_string());
    let provider = Upstream::playing([Act::send(answer), Act::Again]).await;
    let config = Config::new()
        .provider("large", support::provider(provider.address))
        .model("test-model", json!(["large"]))
        .with("server.limits", limits)
        .with(
            "filters",
            json!([
                {"name": "headers", "pass_to_caller": ["x-large"]},
                "key", "stored", "model", "context", "limits", "quota", "errors",
            ]),
        );
    (provider, Gateway::start(config).await)
}

#[tokio::test]
async fn a_caller_that_takes_no_heads_of_a_providers_is_cut() {
    for limits in write_limits() {
        let (_provider, gateway) = gateway_with_large_heads(limits).await;
        let whole = gateway.send(&ask(&gateway.key)).await;
        assert_eq!(whole.header("x-large").map(str::len), Some(30_000));
        let request = ask(&gateway.key).bytes();
        let mut caller = narrow([127, 0, 0, 1], gateway.address).await;
        let asking = async { while caller.write_all(&request).await.is_ok() {} };
        bounded("the end of a caller that reads nothing", asking).await;
        nothing_is_left(&gateway).await;
    }
}

#[tokio::test]
async fn a_caller_of_http2_that_takes_no_heads_is_cut() {
    /// More than the sockets between here and there hold.
    const REQUESTS: usize = 400;
    for limits in write_limits() {
        let (provider, gateway) = gateway_with_large_heads(limits).await;
        let body = prompt(CHAT, "test-model", "Hi", Value::Null).to_string();
        let (key, length) = (format!("Bearer {}", gateway.key), body.len().to_string());
        let head = frames::block(&[
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "gateway"),
            (":path", CHAT),
            ("content-type", "application/json"),
            ("content-length", &length),
            ("authorization", &key),
        ]);
        let caller = narrow([127, 0, 0, 1], gateway.address).await;
        // Of the answers only heads may come: the windows of the streams are closed.
        let mut caller = Frames::over(caller, &[(4, 0)]).await;
        for _ in 0..REQUESTS {
            let stream = caller.next_stream();
            let request = [
                frames::frame(HEADERS, END_HEADERS, stream, &head),
                frames::frame(DATA, END_STREAM, stream, body.as_bytes()),
            ];
            if !caller.send(&request.concat()).await {
                break;
            }
        }
        let asked = async || (provider.requests() > 0).then_some(());
        eventually("a request at the provider", asked).await;
        nothing_is_left(&gateway).await;
        gateway.sample_is("tollgate_slow_readers_total", 1.0).await;
        drop(caller);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_callers_in_hundreds_are_cut_and_everybody_else_is_served_meanwhile() {
    const EACH: usize = 40;
    const OTHERS: usize = 4;
    let (provider, gateway) = gateway(json!({
        "head_timeout": "2s",
        "body_timeout": "2s",
        "downstream_write_timeout": "1s",
        "min_send_rate": "1MiB",
    }))
    .await;
    let over = Arc::new(AtomicBool::new(false));
    let served = Arc::new(AtomicU64::new(0));
    let mut others = tokio::task::JoinSet::new();
    for _ in 0..OTHERS {
        let (over, served) = (Arc::clone(&over), Arc::clone(&served));
        let mut connection = Connection::over(from([127, 0, 0, 2], gateway.address).await);
        let request = ask(&gateway.key);
        others.spawn(async move {
            while !over.load(Ordering::Acquire) {
                connection.send(&request).await.assert_ok();
                served.fetch_add(1, Ordering::AcqRel);
            }
        });
    }
    let mut slow = Crowd::gather(&gateway, EACH).await;
    let before = served.load(Ordering::Acquire);
    for how in [Slowness::Head, Slowness::Body] {
        let reported = slow.cut(how).await;
        // A caller that writes on after the refusal may lose it to the reset that answers that.
        let (late, lost): (Vec<_>, Vec<_>) = reported.iter().partition(|it| !it.is_empty());
        for reported in &late {
            assert!(
                reported.starts_with("HTTP/1.1 408 "),
                "{how:?}: {reported:?}"
            );
        }
        assert!(
            late.len() > lost.len(),
            "{how:?}: {} got the refusal",
            late.len()
        );
    }
    // Readers are still there on their side, and no other connection is on the gateway's.
    let others_alone = u32::try_from(OTHERS).unwrap().into();
    gateway
        .sample_is("tollgate_connections", others_alone)
        .await;
    let cut = gateway.sample("tollgate_slow_readers_total").await;
    assert!(
        cut > Some(0.0),
        "{cut:?} readers were cut for their slowness"
    );
    let meanwhile = served.load(Ordering::Acquire) - before;
    assert!(meanwhile > 0, "no other caller was served");
    over.store(true, Ordering::Release);
    while let Some(ended) = others.join_next().await {
        ended.unwrap();
    }
    println!(
        "{meanwhile} requests of others were served beside {} slow callers",
        slow.len()
    );
    provider
        .when("all answers are let go", |it| it.open_answers == 0)
        .await;
}

#[tokio::test]
async fn a_request_that_was_refused_leaves_its_connection_in_good_order() {
    let (_provider, gateway) =
        gateway(json!({"requests_in_flight": 1, "reserved_for_priority": 0})).await;
    let mut held = gateway.connect().await;
    held.write(&ask(&gateway.key).orders("delay-3000ms").bytes())
        .await;
    gateway.sample_is("tollgate_requests_in_flight", 1.0).await;
    let mut connection = gateway.connect().await;
    let refused = connection.send(&ask(&gateway.key)).await;
    refused.assert_error(503, "service_unavailable");
    held.answer(&ask(&gateway.key)).await.assert_ok();
    let answer = connection.send(&ask(&gateway.key)).await;
    answer.assert_ok();
    assert_eq!(answer.ending, Ending::Complete);
}
