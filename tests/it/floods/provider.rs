//! A provider floods a connection of HTTP/2 and does not read what the gateway has to answer.

use super::*;
use std::time::{Duration, Instant};
use support::flooder::{Before, Flooder};

/// How long a provider may be silent.
const SOON: &str = "2s";
/// The time-out, the second of grace for unread bytes, and what a busy machine may add.
const SLACK: Duration = Duration::from_secs(10);

/// Frames that each have to be answered.
fn floods() -> [(&'static str, Vec<u8>); 2] {
    let settings = [0, 4, 0, 1, 0, 0];
    [
        ("pings", frame(PING, 0, 0, &[7; 8])),
        ("settings", frame(SETTINGS, 0, 0, &settings)),
    ]
}

async fn gateway_at(flooder: &Flooder) -> Gateway {
    let mut provider = support::provider(flooder.address);
    provider["http2"] = json!("always");
    provider["timeouts"] = json!({"read": SOON, "write": "2s"});
    let config = Config::new()
        .provider("flooder", provider)
        .with("routing.health", json!({"enabled": false}))
        .with("failover.attempts", json!(1))
        .model("test-model", json!(["flooder"]));
    Gateway::start(config).await
}

async fn ask(gateway: &Gateway) -> (support::Answer, Duration) {
    let begun = Instant::now();
    let answer = gateway
        .ask(CHAT, "test-model", "", json!({"stream": true}))
        .await;
    (answer, begun.elapsed())
}

/// How many sockets the gateway has open to the flooder. One that it has closed belongs to the
/// system, and has no inode, for as long as the flooder keeps its own open.
fn sockets(flooder: &Flooder) -> usize {
    let port = format!(":{:04X}", flooder.address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let sockets = table.lines().filter(|line| {
        let columns: Vec<_> = line.split_whitespace().collect();
        columns[2].ends_with(&port) && columns[9] != "0"
    });
    sockets.count()
}

async fn closed(flooder: &Flooder) {
    let look = async || (flooder.closed() == 1).then_some(());
    eventually("the end of the flooded connection", look).await;
}

#[tokio::test]
async fn a_provider_that_floods_before_its_answer_is_given_up_in_time() {
    let cases = [Before::Nothing, Before::NothingButReads];
    let cases = cases
        .into_iter()
        .flat_map(|before| floods().map(|it| (before, it)));
    for (before, (what, flood)) in cases {
        let what = &format!("{what}, {before:?}");
        let flooder = Flooder::start(flood, before, 1).await;
        let gateway = gateway_at(&flooder).await;
        let before = memory(&gateway).await;
        let (answer, took) = ask(&gateway).await;
        answer.assert_error(504, "upstream_error");
        assert!(took < SLACK, "{what}: {took:?}");
        closed(&flooder).await;
        let look = async || (sockets(&flooder) == 0).then_some(());
        eventually("the gateway closes the flooded connection", look).await;
        let (answer, _) = ask(&gateway).await;
        assert_eq!(answer.status, 200, "{what}: {answer:?}");
        assert_eq!(flooder.connections(), 2, "{what}");
        let grown = memory(&gateway).await - before;
        let sent = flooder.bytes();
        println!("{what}: 504 after {took:?}, {sent} bytes sent, {grown} bytes kept");
        assert!(grown < MOST_KEPT, "{what}: {grown} bytes more");
    }
}

#[tokio::test]
async fn a_provider_that_floods_within_its_answer_is_given_up_in_time() {
    for (what, flood) in floods() {
        let flooder = Flooder::start(flood, Before::Part, 1).await;
        let gateway = gateway_at(&flooder).await;
        let (answer, took) = ask(&gateway).await;
        assert_eq!(answer.status, 200, "{what}: {answer:?}");
        assert!(
            answer.text().contains("upstream_error"),
            "{what}: {answer:?}"
        );
        assert!(took < SLACK, "{what}: {took:?}");
        closed(&flooder).await;
        let (answer, _) = ask(&gateway).await;
        assert!(answer.text().ends_with("[DONE]\n\n"), "{what}: {answer:?}");
        assert_eq!(flooder.connections(), 2, "{what}");
    }
}

#[tokio::test]
async fn a_connection_that_is_flooded_after_its_answer_carries_no_other_request() {
    for (what, flood) in floods() {
        let flooder = Flooder::start(flood, Before::Everything, 1).await;
        let gateway = gateway_at(&flooder).await;
        let (answer, _) = ask(&gateway).await;
        assert!(answer.text().ends_with("[DONE]\n\n"), "{what}: {answer:?}");
        let look = async || (flooder.stuck() == 1).then_some(());
        eventually("the gateway reads no more", look).await;
        let (answer, took) = ask(&gateway).await;
        assert!(answer.text().ends_with("[DONE]\n\n"), "{what}: {answer:?}");
        // The flooded connection was no attempt.
        assert_eq!(answer.header("x-attempts"), None, "{what}: {answer:?}");
        println!("{what}: the next request took {took:?}");
        closed(&flooder).await;
        assert_eq!(flooder.connections(), 2, "{what}");
    }
}

#[tokio::test]
async fn a_flooded_connection_that_is_not_used_again_is_closed() {
    for (what, flood) in floods() {
        let flooder = Flooder::start(flood, Before::Everything, 1).await;
        let gateway = gateway_at(&flooder).await;
        let (answer, _) = ask(&gateway).await;
        assert!(answer.text().ends_with("[DONE]\n\n"), "{what}: {answer:?}");
        closed(&flooder).await;
        assert!(flooder.bytes() > 0, "{what}");
    }
}

#[tokio::test]
async fn checks_of_a_provider_that_floods_leave_no_connection_open() {
    const CHECKS: usize = 4;
    let (_, flood) = floods().into_iter().next().unwrap();
    let flooder = Flooder::start(flood, Before::Nothing, usize::MAX).await;
    let mut provider = support::provider(flooder.address);
    provider["http2"] = json!("always");
    provider["timeouts"] = json!({"write": "500ms"});
    provider["check"] = json!({"path": "/healthz", "every": "1s", "timeout": "500ms"});
    let config = Config::new()
        .provider("flooder", provider)
        .model("test-model", json!(["flooder"]));
    let _gateway = Gateway::start(config).await;
    let look = async || (flooder.closed() >= CHECKS).then_some(());
    eventually("the end of the checks' connections", look).await;
}
