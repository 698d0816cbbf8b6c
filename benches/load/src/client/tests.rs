use tokio::net::TcpListener;

use super::*;
use crate::provider;
use crate::workload::{self, Format, SMALL, STREAMS};

async fn provider() -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(provider::serve_on(listener));
    Target {
        address,
        credential: None,
    }
}

/// A server that answers everything with the same bytes.
async fn parrot(answer: &'static [u8]) -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 8192];
                while stream.read(&mut request).await.unwrap_or(0) > 0 {
                    if stream.write_all(answer).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    Target {
        address,
        credential: None,
    }
}

async fn until(condition: impl Fn() -> bool) {
    timeout(PATIENCE, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("the condition never came true");
}

#[tokio::test]
async fn one_answer_is_the_canned_completion() {
    let body = ask_once(&provider().await, &SMALL).await.unwrap();
    assert_eq!(
        String::from_utf8(body).unwrap(),
        workload::completion(Format::Chat, 1024)
    );
}

#[tokio::test]
async fn a_load_counts_answers_and_keeps_latencies_after_the_signal() {
    let load = Load::start(&provider().await, &SMALL, 4);
    until(|| load.totals().answers > 100).await;
    load.record_latencies();
    let before = load.totals().answers;
    until(|| load.totals().answers > before + 100).await;
    let latencies = load.finish().await.unwrap();
    assert!(latencies.len() >= 100, "{}", latencies.len());
    assert!(latencies.is_sorted() && latencies.first().unwrap() > &0.0);
}

#[tokio::test]
async fn a_stream_load_counts_events_while_streams_run() {
    let load = Load::start(&provider().await, &STREAMS, 3);
    until(|| load.totals().events > 60).await;
    let totals = load.totals();
    assert_eq!(
        totals.events, totals.http_chunks,
        "the provider flushes each event by itself"
    );
    load.finish().await.unwrap();
}

#[tokio::test]
async fn a_quick_error_ends_the_load_as_a_failure() {
    let answer = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 13\r\n\r\nno room: wait";
    let load = Load::start(&parrot(answer).await, &SMALL, 2);
    let fault = load.finish_when_broken().await;
    assert!(
        fault.to_string().contains("status 503 no room: wait"),
        "{fault}"
    );
}

#[tokio::test]
async fn a_short_answer_is_not_an_answer() {
    let target = parrot(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
    let fault = ask_once(&target, &SMALL).await.unwrap_err();
    assert!(
        fault.to_string().contains("2 bytes instead of 1024"),
        "{fault}"
    );
}

#[tokio::test]
async fn a_stream_without_its_events_is_not_an_answer() {
    let target = parrot(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n",
    )
    .await;
    let fault = ask_once(&target, &STREAMS).await.unwrap_err();
    assert!(
        fault.to_string().contains("1 events instead of 400"),
        "{fault}"
    );
}

impl Load {
    /// The failure that ends the load by itself.
    async fn finish_when_broken(mut self) -> Failure {
        let ended = timeout(PATIENCE, self.connections.join_next())
            .await
            .unwrap()
            .unwrap();
        flatten(ended).unwrap_err()
    }
}
