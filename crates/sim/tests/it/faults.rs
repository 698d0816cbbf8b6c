//! Every order, and what the peer then sees.

use crate::client::{ALL, CHAT, MESSAGES, PATIENCE, RESPONSES, Reply, Server, read_reply, request};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::{
    io::{ErrorKind, Read, Write},
    path::Path,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};
use tollgate_sim::{Recordings, Sim, vendors::VENDORS};

fn streamed(path: &str) -> Value {
    request(path, "tell me something", json!({"stream": true}))
}

fn whole(path: &str) -> Value {
    request(path, "tell me something", json!({}))
}

async fn ordered(orders: &str, path: &str, body: &Value) -> Reply {
    Server::plain().await.ordered(path, orders, body).await
}

#[tokio::test]
async fn a_status_comes_with_the_error_of_the_vendor() {
    for (path, kind) in [
        (CHAT, "server_error"),
        (RESPONSES, "server_error"),
        (MESSAGES, "overloaded_error"),
    ] {
        let reply = ordered("status-503+retry-after-7", path, &streamed(path)).await;
        assert_eq!(reply.status(), 503);
        assert_eq!(reply.json()["error"]["type"], kind);
        assert_eq!(reply.header("retry-after").unwrap(), "7");
    }
}

#[tokio::test]
async fn every_vendor_error_comes_as_it_stands_in_the_list() {
    let server = Server::plain().await;
    for vendor in VENDORS {
        let orders = format!("vendor-{}", vendor.name);
        let reply = server.ordered(CHAT, &orders, &whole(CHAT)).await;
        assert_eq!(
            (reply.status(), reply.text().as_str()),
            (vendor.status, vendor.body),
            "{orders}"
        );
        for (name, value) in vendor.headers {
            assert_eq!(reply.header(name).as_deref(), Some(*value), "{orders}");
        }
    }
}

#[tokio::test]
async fn a_proxy_in_between_answers_with_a_page() {
    let reply = ordered("html-502", CHAT, &whole(CHAT)).await;
    assert_eq!(
        (reply.status(), reply.header("content-type").as_deref()),
        (502, Some("text/html"))
    );
    assert!(reply.text().starts_with("<html>"));
}

#[tokio::test]
async fn orders_may_stand_in_the_model_name() {
    let server = Server::plain().await;
    let body = request(CHAT, "x", json!({"model": "sim-status-418+retry-after-3"}));
    let reply = server.post(CHAT, &body).await;
    assert_eq!(
        (reply.status(), reply.header("retry-after").as_deref()),
        (418, Some("3"))
    );
    let unknown = server
        .post(CHAT, &request(CHAT, "x", json!({"model": "sim-dance"})))
        .await;
    assert_eq!(unknown.status(), 400);
    let reported = unknown.json()["error"]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        reported.contains("'dance'") && reported.contains("status-<code>"),
        "{reported}"
    );
}

#[tokio::test]
async fn a_fail_rate_fails_its_share() {
    let server = Server::plain().await;
    let mut statuses = Vec::new();
    for _ in 0..10 {
        statuses.push(
            server
                .ordered(CHAT, "fail-rate-20+status-429", &whole(CHAT))
                .await
                .status(),
        );
    }
    assert_eq!(statuses, [200, 200, 200, 200, 429, 200, 200, 200, 200, 429]);
}

#[tokio::test]
async fn delays_are_kept() {
    let server = Server::plain().await;
    let start = Instant::now();
    server.ordered(CHAT, "delay-200ms", &whole(CHAT)).await;
    assert!(
        start.elapsed() >= Duration::from_millis(200),
        "{:?}",
        start.elapsed()
    );
    let start = Instant::now();
    let reply = server
        .ordered(CHAT, "chunk-delay-20ms", &streamed(CHAT))
        .await;
    let events = u32::try_from(reply.events().len()).unwrap();
    assert!(
        start.elapsed() >= Duration::from_millis(20) * (events - 1),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn chunks_fall_at_the_ordered_places() {
    for path in ALL {
        let plain = ordered("", path, &streamed(path)).await;
        let cut = ordered("chunks-7", path, &streamed(path)).await;
        assert_eq!(plain.body(), cut.body());
        let (chunks, ended) = cut.chunks();
        assert!(ended && chunks.len() > 100);
        let (last, others) = chunks.split_last().unwrap();
        assert!(last.len() <= 7 && others.iter().all(|chunk| chunk.len() == 7));
    }
}

#[tokio::test]
async fn every_event_is_a_chunk_of_its_own() {
    let reply = ordered("", MESSAGES, &streamed(MESSAGES)).await;
    let (chunks, _) = reply.chunks();
    assert_eq!(chunks.len(), reply.events().len());
    assert!(chunks.iter().all(|chunk| chunk.ends_with(b"\n\n")));
}

#[tokio::test]
async fn a_cut_keeps_exactly_so_many_bytes() {
    for path in ALL {
        for body in [streamed(path), whole(path)] {
            let plain = ordered("", path, &body).await.body();
            for at in [0, 1, 300] {
                let reply = ordered(&format!("cut-{at}"), path, &body).await;
                assert_eq!(reply.body(), plain[..at], "{path} {at}");
                assert!(!reply.whole());
            }
        }
    }
}

#[tokio::test]
async fn a_cut_can_be_a_reset() {
    let reply = ordered("cut-300+reset", CHAT, &streamed(CHAT)).await;
    assert_eq!(reply.broken, Some(ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn an_error_can_be_the_first_event() {
    for (path, wanted) in [
        (CHAT, json!("server_error")),
        (RESPONSES, json!("server_error")),
        (MESSAGES, json!("overloaded_error")),
    ] {
        let reply = ordered("error-first", path, &streamed(path)).await;
        assert_eq!(reply.status(), 200);
        assert_eq!(reply.events()[0]["error"]["type"], wanted);
        assert!(ordered("error-first", path, &whole(path)).await.json()["error"].is_object());
    }
}

#[tokio::test]
async fn a_stream_that_fails_ends_as_a_failed_one() {
    let chat = ordered("error-after-3", CHAT, &streamed(CHAT)).await;
    assert_eq!(chat.events().len(), 4);
    assert!(chat.events()[3]["error"].is_object() && chat.whole());
    let responses = ordered("error-after-3", RESPONSES, &streamed(RESPONSES))
        .await
        .events();
    let kinds: Vec<_> = responses
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds[3..], ["error", "response.failed"]);
    assert_eq!(responses[4]["sequence_number"], 4);
    let messages = ordered("error-after-3", MESSAGES, &streamed(MESSAGES)).await;
    assert_eq!(messages.events()[3]["type"], "error");
    assert!(messages.text().contains("event: error\n"));
}

#[tokio::test]
async fn a_stalled_stream_waits_until_the_peer_leaves() {
    let server = Server::plain().await;
    let mut stream = send_open(&server, "stall-after-2", &streamed(CHAT)).await;
    let mut seen = Vec::new();
    while memchr::memmem::find_iter(&seen, b"data: ").count() < 2 {
        let read = timeout(PATIENCE, stream.read_buf(&mut seen))
            .await
            .unwrap()
            .unwrap();
        assert!(read > 0);
    }
    assert_eq!(server.handle.counters().open_answers, 1);
    drop(stream);
    left_early(&server).await;
}

#[tokio::test]
async fn a_hanging_answer_waits_until_the_peer_leaves() {
    let server = Server::plain().await;
    let stream = send_open(&server, "hang", &whole(CHAT)).await;
    let waiting = server.handle.when(|counters| counters.open_answers == 1);
    timeout(PATIENCE, waiting).await.unwrap();
    drop(stream);
    left_early(&server).await;
}

async fn left_early(server: &Server) {
    let left = server
        .handle
        .when(|counters| counters.left_early == 1 && counters.open_answers == 0);
    timeout(PATIENCE, left)
        .await
        .expect("the connection did not report that the peer left");
}

async fn send_open(server: &Server, orders: &str, body: &Value) -> tokio::net::TcpStream {
    let body = body.to_string();
    let length = body.len();
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: sim\r\nauthorization: Bearer k\r\nx-sim: {orders}\r\ncontent-length: {length}\r\n\r\n"
    );
    let mut stream = server.connect().await;
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .await
        .unwrap();
    stream
}

#[tokio::test]
async fn a_reset_and_garbage_are_no_answers() {
    let reset = ordered("reset", CHAT, &whole(CHAT)).await;
    assert_eq!(
        (reset.broken, reset.raw.len()),
        (Some(ErrorKind::ConnectionReset), 0)
    );
    let garbage = ordered("garbage", CHAT, &whole(CHAT)).await;
    assert!(garbage.raw.starts_with(b"\x00\xff"), "{:?}", garbage.raw);
}

#[tokio::test]
async fn a_content_type_of_json_can_be_wrong() {
    for path in ALL {
        let reply = ordered("not-json", path, &whole(path)).await;
        assert_eq!(
            reply.header("content-type").as_deref(),
            Some("application/json")
        );
        assert!(serde_json::from_slice::<Value>(&reply.body()).is_err());
        assert!(ordered("not-json", path, &streamed(path)).await.events()[1].is_string());
        let empty = ordered("empty", path, &whole(path)).await;
        assert_eq!((empty.status(), empty.body().len()), (200, 0));
    }
}

#[tokio::test]
async fn a_body_is_compressed_on_order_alone() {
    for body in [whole(CHAT), streamed(CHAT)] {
        let plain = ordered("", CHAT, &body).await;
        assert_eq!(plain.header("content-encoding"), None);
        let packed = ordered("gzip", CHAT, &body).await;
        assert_eq!(packed.header("content-encoding").as_deref(), Some("gzip"));
        let mut text = String::new();
        GzDecoder::new(packed.body().as_slice())
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, plain.text());
    }
}

#[tokio::test]
async fn an_early_answer_waits_for_no_body() {
    let server = Server::plain().await;
    let mut stream = server.connect().await;
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: sim\r\nx-sim: early-answer+status-413\r\ncontent-length: 1000000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut seen = [0; 12];
    timeout(PATIENCE, stream.read_exact(&mut seen))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&seen, b"HTTP/1.1 413");
}

#[tokio::test]
async fn a_slow_reader_still_answers() {
    let start = Instant::now();
    let reply = ordered("slow-body", CHAT, &whole(CHAT)).await;
    assert_eq!(reply.status(), 200);
    assert!(start.elapsed() >= Duration::from_millis(20));
}

#[tokio::test]
async fn usage_goes_missing_doubles_and_turns_negative() {
    for path in ALL {
        let plain = ordered("", path, &whole(path)).await.json();
        assert!(plain["usage"].is_object());
        let without = ordered("no-usage", path, &whole(path)).await.json();
        assert!(without.get("usage").is_none());
        let negative = ordered("usage-negative", path, &whole(path)).await.json();
        let output = if path == CHAT {
            "completion_tokens"
        } else {
            "output_tokens"
        };
        assert!(negative["usage"][output].as_i64().unwrap() < 0);
    }
    let mut body = streamed(CHAT);
    body["stream_options"] = json!({"include_usage": true});
    let count = |reply: Reply| {
        reply
            .events()
            .iter()
            .filter(|event| event["usage"].is_object())
            .count()
    };
    assert_eq!(count(ordered("usage-twice", CHAT, &body).await), 2);
    assert_eq!(count(ordered("no-usage", CHAT, &body).await), 0);
}

#[tokio::test]
async fn an_answer_is_as_long_as_ordered() {
    let mut body = whole(MESSAGES);
    let reply = ordered("tokens-500", MESSAGES, &body).await.json();
    assert_eq!(
        (&reply["usage"]["output_tokens"], &reply["stop_reason"]),
        (&json!(500), &json!("end_turn"))
    );
    body["max_tokens"] = json!(100);
    let cut = ordered("tokens-500", MESSAGES, &body).await.json();
    assert_eq!(
        (&cut["usage"]["output_tokens"], &cut["stop_reason"]),
        (&json!(100), &json!("max_tokens"))
    );
    let huge = ordered("huge-1mb", CHAT, &streamed(CHAT)).await;
    assert!(huge.whole() && huge.body().len() > 1 << 20);
    let huge = ordered("huge-1mb", CHAT, &whole(CHAT)).await.json();
    assert_eq!(
        huge["choices"][0]["message"]["content"]
            .as_str()
            .unwrap()
            .len(),
        1 << 20
    );
}

#[tokio::test]
async fn a_model_can_decline() {
    let chat = ordered("refusal", CHAT, &whole(CHAT)).await.json();
    assert_eq!(chat["choices"][0]["finish_reason"], "content_filter");
    assert!(chat["choices"][0]["message"]["refusal"].is_string());
    let responses = ordered("refusal", RESPONSES, &whole(RESPONSES))
        .await
        .json();
    assert_eq!(responses["output"][0]["content"][0]["type"], "refusal");
    let messages = ordered("refusal", MESSAGES, &whole(MESSAGES)).await.json();
    assert_eq!(messages["stop_reason"], "refusal");
}

#[tokio::test]
async fn reasoning_is_shown_in_chat_on_order_alone() {
    let body = request(CHAT, "x", json!({"reasoning_effort": "low"}));
    let hidden = ordered("", CHAT, &body).await.json();
    assert!(
        hidden["choices"][0]["message"]
            .get("reasoning_content")
            .is_none()
    );
    assert!(
        hidden["usage"]["completion_tokens_details"]["reasoning_tokens"]
            .as_u64()
            .unwrap()
            > 0
    );
    let shown = ordered("open-reasoning", CHAT, &body).await.json();
    assert!(shown["choices"][0]["message"]["reasoning_content"].is_string());
}

#[tokio::test]
async fn a_recording_is_replayed_byte_for_byte() {
    let events = "event: x\ndata: {\"a\":1}\n\nevent: y\ndata: {\"b\":2}\n\n";
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(
        file,
        "{}",
        json!({"status": 404, "stream": false, "response": {"error": {"message": "no"}}})
    )
    .unwrap();
    writeln!(file, "{}", json!({"status": 200, "stream": true, "response": events, "response_headers": {"openai-version": "1", "transfer-encoding": "chunked"}})).unwrap();
    let recordings = Recordings::read(file.path()).unwrap();
    assert_eq!(recordings.len(), 2);
    let server = Server::start(Sim::builder().recordings(recordings)).await;
    let first = server.ordered(CHAT, "replay-0", &whole(CHAT)).await;
    assert_eq!(
        (first.status(), first.json()),
        (404, json!({"error": {"message": "no"}}))
    );
    let second = server
        .ordered(CHAT, "replay-1+chunks-3", &whole(CHAT))
        .await;
    assert_eq!(
        (
            second.text().as_str(),
            second.header("openai-version").as_deref()
        ),
        (events, Some("1"))
    );
    assert_eq!(
        server
            .ordered(CHAT, "replay-2", &whole(CHAT))
            .await
            .status(),
        400
    );
    writeln!(file, "nonsense").unwrap();
    let fault = Recordings::read(file.path()).unwrap_err().to_string();
    assert!(fault.contains("line 3"), "{fault}");
}

#[tokio::test]
async fn recorded_traffic_is_replayed_as_it_was() {
    let folder = std::env::var("TOLLGATE_FIXTURES").unwrap_or_else(|_| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures").into()
    });
    for (file, path) in [
        ("chat", CHAT),
        ("responses", RESPONSES),
        ("messages", MESSAGES),
    ] {
        let Ok(recordings) = Recordings::read(&Path::new(&folder).join(format!("{file}.jsonl")))
        else {
            eprintln!("skipped: no recordings in {folder}");
            return;
        };
        let server = Server::start(Sim::builder().recordings(recordings.clone())).await;
        for number in 0..recordings.len() {
            let recorded = recordings.get(number).unwrap();
            let reply = server
                .ordered(path, &format!("replay-{number}"), &whole(path))
                .await;
            assert_eq!(
                (reply.status(), reply.text()),
                (recorded.status, recorded.body())
            );
        }
    }
}

#[tokio::test]
async fn canned_answers_come_in_each_format_and_size() {
    for path in ALL {
        let reply = ordered("canned", path, &json!({})).await;
        assert!(reply.json()["id"].is_string());
        let stream = ordered("canned-stream-5x40", path, &json!({})).await;
        let filled = stream
            .events()
            .iter()
            .filter(|event| event.to_string().contains(&"canned ".repeat(5)))
            .count();
        assert_eq!(filled, 5, "{path}");
        assert!(stream.whole());
    }
}

#[tokio::test]
async fn a_connection_lives_on_after_an_ordinary_answer() {
    let server = Server::plain().await;
    let mut stream = server.connect().await;
    let body = whole(CHAT).to_string();
    for last in [false, true] {
        let close = if last { "connection: close\r\n" } else { "" };
        let head = format!(
            "POST {CHAT} HTTP/1.1\r\nhost: sim\r\nauthorization: Bearer k\r\n{close}content-length: {}\r\n\r\n",
            body.len()
        );
        stream
            .write_all(format!("{head}{body}").as_bytes())
            .await
            .unwrap();
    }
    let both = read_reply(&mut stream).await;
    assert_eq!(
        memchr::memmem::find_iter(&both.raw, b"HTTP/1.1 200 OK").count(),
        2
    );
    assert_eq!(server.handle.counters().connections, 1);
}
