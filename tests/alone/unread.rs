//! The memory of callers that do not read their answers: so much for each, and nothing once
//! they have left. Reads `/proc`, so it takes Linux.

use crate::support::slow::narrow;
use crate::support::{CHAT, Config, Gateway, Http2, Provider, Request, bounded, prompt};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A gateway that lets callers be slow.
async fn gateway() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let patient = json!({
        "connections_per_address": null,
        "downstream_write_timeout": "5m",
    });
    let config = Config::of(&provider)
        .with("server.limits", patient)
        .with("server.threads", json!(2));
    (provider, Gateway::start(config).await)
}

/// A request whose answer is a stream of 8 MB.
fn request(key: &str) -> Request {
    let body = prompt(CHAT, "test-model", "Hi", json!({"stream": true}));
    Request::post(CHAT, &body)
        .key(key)
        .orders("canned-stream-1000x8000")
}

/// The resident memory of the gateway, in bytes.
fn resident(gateway: &Gateway) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.id())).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|it| it.split_whitespace().next()).unwrap();
    kilobytes.parse::<u64>().unwrap() * KIB
}

/// The resident memory once it has not risen for a second.
async fn settled(gateway: &Gateway) -> u64 {
    const LOOK: Duration = Duration::from_millis(100);
    let begun = Instant::now();
    let (mut most, mut since) = (0, begun);
    while since.elapsed() < Duration::from_secs(1) && begun.elapsed() < Duration::from_secs(20) {
        let now = resident(gateway);
        if now > most + MIB / 4 {
            (most, since) = (now, Instant::now());
        }
        tokio::time::sleep(LOOK).await;
    }
    most
}

/// The resident memory once all callers have left, at its lowest within some seconds.
async fn left(gateway: &Gateway) -> u64 {
    gateway.sample_is("tollgate_connections", 0.0).await;
    gateway.sample_is("tollgate_requests_in_flight", 0.0).await;
    let begun = Instant::now();
    let mut least = u64::MAX;
    while begun.elapsed() < Duration::from_secs(3) {
        least = least.min(resident(gateway));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    least
}

/// Opens callers over HTTP/1.1, which read the beginning of their answers.
async fn callers(gateway: &Gateway, count: usize) -> Vec<tokio::net::TcpStream> {
    let bytes = request(&gateway.key).bytes();
    let mut callers = Vec::new();
    for number in 0..count {
        let address = [127, 0, 1, u8::try_from(number % 200 + 1).unwrap()];
        let mut caller = narrow(address, gateway.address).await;
        caller.write_all(&bytes).await.unwrap();
        let mut begun = [0; 16];
        bounded("an answer", caller.read_exact(&mut begun))
            .await
            .unwrap();
        assert!(begun.starts_with(b"HTTP/1.1 200"), "{begun:?}");
        callers.push(caller);
    }
    callers
}

/// Opens streams of HTTP/2, whose answers are not read.
async fn streams(gateway: &Gateway, connections: usize, each: usize) -> Vec<impl Sized> {
    let request = request(&gateway.key);
    let mut open = Vec::new();
    for _ in 0..connections {
        let mut connection = Http2::open(gateway.address).await;
        let mut answers = Vec::new();
        for _ in 0..each {
            let answer = bounded("an answer", connection.begin(&request))
                .await
                .unwrap();
            assert_eq!(answer.status(), 200);
            answers.push(answer);
        }
        open.push((connection, answers));
    }
    open
}

/// Rounds of a crowd that comes, does not read, and leaves: what each of its members takes, and
/// what is left of it.
async fn rounds<C>(gateway: &Gateway, each: u64, most_each: u64, crowd: impl AsyncFn() -> C) {
    const ROUNDS: u32 = 6;
    /// What may stay resident once all callers have left, of some fifty MiB.
    const MOST_LEFT: u64 = 16 * MIB;
    let before = left(gateway).await;
    for round in 0..ROUNDS {
        let open = crowd().await;
        let most = settled(gateway).await;
        drop(open);
        let rest = left(gateway).await.saturating_sub(before);
        let one = most.saturating_sub(before) / each;
        println!(
            "round {round}: {} KiB each, {} MiB left over {} MiB",
            one / KIB,
            rest / MIB,
            before / MIB
        );
        assert!(one <= most_each, "round {round}: {one} bytes each");
        assert!(rest <= MOST_LEFT, "round {round}: {rest} bytes are left");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_do_not_read_leave_no_memory_behind() {
    let _alone = crate::alone().await;
    const CALLERS: usize = 200;
    let (_provider, gateway) = gateway().await;
    drop(callers(&gateway, 10).await);
    let crowd = async || callers(&gateway, CALLERS).await;
    rounds(&gateway, CALLERS as u64, 290 * KIB, crowd).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_of_http2_that_are_not_read_leave_no_memory_behind() {
    let _alone = crate::alone().await;
    const STREAMS: usize = 300;
    let (_provider, gateway) = gateway().await;
    drop(streams(&gateway, 1, 10).await);
    let crowd = async || streams(&gateway, 3, STREAMS / 3).await;
    rounds(&gateway, STREAMS as u64, 210 * KIB, crowd).await;
}
