//! A process that leaves, for another one or for good, announces it on every connection:
//! no caller sends a request over one that is closed behind the answer without a word.

use crate::support::{
    self, Act, Answer, CHAT, Config, Connection, Ending, Gateway, MESSAGES, Provider, Request,
    Upstream, eventually, prompt,
};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

fn question(key: &str, stream: bool, orders: &str) -> Request {
    let body = prompt(MESSAGES, "test-model", "Hello!", json!({"stream": stream}));
    Request::post(MESSAGES, &body).key(key).orders(orders)
}

/// How a process is made to leave.
#[derive(Clone, Copy, Debug)]
enum Way {
    Stop,
    Upgrade,
}

impl Way {
    const ALL: [Self; 2] = [Self::Stop, Self::Upgrade];

    /// The process leaves as soon as nothing is under way any more.
    async fn begin(self, gateway: &mut Gateway) {
        match self {
            Self::Stop => {
                gateway.signal("TERM").await;
                let not_ready = async || {
                    let status = gateway.operator("/readyz").await.status;
                    (status == 503).then_some(())
                };
                eventually("the stop", not_ready).await;
            }
            Self::Upgrade => {
                gateway.upgrade().await;
                gateway.log_line("this process has taken over").await;
            }
        }
    }
}

/// The answer announces the end of the connection, and it is closed.
async fn announces_its_end(connection: &mut Connection, answer: &Answer, what: &str) {
    assert_eq!(answer.ending, Ending::Complete, "{what}");
    assert_eq!(
        answer.header("connection"),
        Some("close"),
        "{what}: {answer:?}"
    );
    let (rest, _) = connection.rest().await;
    assert!(rest.is_empty(), "{what}: {rest:?}");
}

/// What providers answer, each behind a model of this name.
fn answers() -> [(&'static str, bool, String); 4] {
    let delta = json!({"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"});
    let chunk = json!({"id": "c", "object": "chat.completion.chunk", "choices": [delta]});
    let message = json!({"role": "assistant", "content": "Hi"});
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    let whole = json!({"id": "c", "object": "chat.completion", "choices": [choice]}).to_string();
    let error = json!({"error": {"message": "no", "type": "invalid_request_error"}}).to_string();
    let reported = |status: &str, kind: &str, body: &str| {
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    };
    let events = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    [
        (
            "whole",
            false,
            reported("200 OK", "application/json", &whole),
        ),
        (
            "stream",
            true,
            reported("200 OK", "text/event-stream", &events),
        ),
        (
            "error",
            false,
            reported("400 No", "application/json", &error),
        ),
        ("empty", true, reported("200 OK", "text/event-stream", "")),
    ]
}

#[tokio::test]
async fn an_answer_that_begins_after_the_process_began_to_leave_says_that_its_connection_closes() {
    for way in Way::ALL {
        let mut config = Config::new().with("failover", json!({"again": 0}));
        let mut upstreams = Vec::new();
        for (name, _, answer) in answers() {
            let reported = Arc::new(Notify::new());
            let script = [Act::Wait(Arc::clone(&reported)), Act::send(answer)];
            let upstream = Upstream::playing(script).await;
            config = config
                .provider(name, support::provider(upstream.address))
                .model(name, json!([name]));
            upstreams.push((upstream, reported));
        }
        let mut gateway = Gateway::start(config).await;
        let mut waiting = Vec::new();
        for (name, stream, _) in answers() {
            let body = prompt(CHAT, name, "Hello!", json!({"stream": stream}));
            let request = Request::post(CHAT, &body).key(&gateway.key);
            let mut connection = gateway.connect().await;
            connection.write(&request.bytes()).await;
            waiting.push((connection, request, name));
        }
        // One that is answered here, of whose body a part has come.
        let body = prompt(CHAT, "unheard-of", "Hello!", json!({}));
        let request = Request::post(CHAT, &body).key(&gateway.key);
        let mut uploading = gateway.connect().await;
        let bytes = request.bytes();
        let (now, later) = bytes.split_at(bytes.len() - 10);
        uploading.write(now).await;
        let asked = async || {
            let all = upstreams.iter().all(|(it, _)| it.requests() == 1);
            let under_way = gateway.sample("tollgate_requests_in_flight").await;
            (all && under_way == Some(5.0)).then_some(())
        };
        eventually("all requests", asked).await;

        way.begin(&mut gateway).await;
        uploading.write(later).await;
        let answer = uploading.answer(&request).await;
        assert_eq!(answer.status, 404, "{answer:?}");
        announces_its_end(&mut uploading, &answer, &format!("{way:?}, local")).await;
        upstreams
            .iter()
            .for_each(|(_, reported)| reported.notify_one());
        for (mut connection, request, name) in waiting {
            let answer = connection.answer(&request).await;
            announces_its_end(&mut connection, &answer, &format!("{way:?}, {name}")).await;
        }
        assert_eq!(gateway.ended().await.code(), Some(0), "{way:?}");
    }
}

#[tokio::test]
async fn a_connection_whose_answer_began_before_an_upgrade_is_kept_from_its_end_on() {
    let provider = Provider::start().await;
    let config = Config::of(&provider).with("server.upgrade.idle", json!("2s"));
    let mut gateway = Gateway::start(config).await;
    // Some four seconds, and so longer than an unused connection is kept.
    let stream = question(&gateway.key, true, "chunks-40, chunk-delay-100ms");
    let mut connections = Vec::new();
    for _ in 0..2 {
        let mut connection = gateway.connect().await;
        connection.write(&stream.bytes()).await;
        let answer = connection.head().await;
        assert_eq!(answer.header("connection"), Some("keep-alive"));
        connections.push((connection, answer));
    }
    gateway.upgrade().await;
    for (connection, answer) in &mut connections {
        connection.read_body(answer).await;
        assert_eq!(answer.ending, Ending::Complete);
    }
    let [(mut used, _), (mut unused, _)] = connections.try_into().ok().unwrap();
    // The caller takes its time.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let request = question(&gateway.key, false, "delay-10ms");
    let answer = used.send(&request).await;
    answer.assert_ok();
    announces_its_end(&mut used, &answer, "the next request").await;
    // The process does not wait for the other caller for ever.
    let (rest, _) = unused.rest().await;
    assert!(rest.is_empty(), "{rest:?}");
    assert_eq!(gateway.ended().await.code(), Some(0));
}
