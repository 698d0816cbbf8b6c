//! What operators see and do: metrics, health, the access log, signals, and files that are
//! wrong.

mod logs;
mod metrics;
mod starts;
mod stops;

use crate::support::{
    self, AT_ONCE, Authority, CHAT, Config, Ending, FORMATS, Gateway, MESSAGES, Output, Ports,
    Provider, Request, bounded, eventually, prompt, tollgate,
};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixDatagram};

async fn gateway() -> (Provider, Gateway) {
    let provider = Provider::start().await;
    let gateway = Gateway::start(Config::of(&provider)).await;
    (provider, gateway)
}

#[tokio::test]
async fn a_burst_of_callers_is_served_to_the_last() {
    const CALLERS: usize = 60;
    let (provider, gateway) = gateway().await;
    let body = prompt(CHAT, "test-model", "Hello!", json!({"stream": true}));
    let request = Request::post(CHAT, &body)
        .key(&gateway.key)
        .orders("delay-50ms");
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let (address, request) = (gateway.address, request.clone());
        callers.spawn(async move {
            support::Connection::open(address)
                .await
                .send(&request)
                .await
                .assert_ok();
        });
    }
    bounded("all callers", callers.join_all()).await;
    assert_eq!(provider.handle.counters().requests, CALLERS as u64);
    gateway.sample_is("tollgate_requests_in_flight", 0.0).await;
}
