//! Callers who note everything that they receive.

use super::provider::MOST_OUTPUT;
use crate::support::CHAT;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

pub const CALLERS: usize = 8;
/// A gateway keeps a request for two seconds if it lacks tokens. Packets may be lost besides.
const PATIENCE: Duration = Duration::from_secs(20);

/// A request and what became of it.
#[derive(Clone, Debug)]
pub struct Call {
    /// What the provider was asked.
    pub question: String,
    pub key: usize,
    pub node: usize,
    pub ended: Instant,
    /// `None`: no answer has begun.
    pub status: Option<u16>,
    /// The request id.
    pub id: Option<String>,
    /// What the answer said it cost, if all of it has come.
    pub reported: Option<u64>,
    /// Tokens of the pieces that have come.
    pub delivered: u64,
    pub text: String,
}

/// What callers ask for.
#[derive(Clone)]
pub struct Target {
    pub keys: Arc<Vec<String>>,
    pub nodes: Arc<Vec<SocketAddr>>,
}

/// Callers at work.
pub struct Load {
    stop: Arc<AtomicBool>,
    callers: JoinSet<Vec<Call>>,
}

impl Load {
    pub fn begin(space: &Handle, target: &Target) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut callers = JoinSet::new();
        for number in 0..CALLERS {
            let (stop, target) = (Arc::clone(&stop), target.clone());
            callers.spawn_on(work(number, target, stop), space);
        }
        Self { stop, callers }
    }

    /// Lets the callers finish: everything that they did.
    pub async fn end(self) -> Vec<Call> {
        self.stop.store(true, Ordering::Relaxed);
        self.callers.join_all().await.concat()
    }
}

async fn work(number: usize, target: Target, stop: Arc<AtomicBool>) -> Vec<Call> {
    let mut calls = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let node = fastrand::usize(..target.nodes.len());
        // Each key at every gateway.
        let key = (number + calls.len()) % target.keys.len();
        calls.push(call(&target, node, key).await);
        tokio::time::sleep(Duration::from_millis(fastrand::u64(5..25))).await;
    }
    calls
}

/// One request over a connection of its own.
pub async fn call(target: &Target, node: usize, key: usize) -> Call {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut call = Call {
        question: format!("question {number}"),
        key,
        node,
        ended: Instant::now(),
        status: None,
        id: None,
        reported: None,
        delivered: 0,
        text: String::new(),
    };
    let asking = ask(target, &mut call);
    // What has come until then is noted.
    let _ = tokio::time::timeout(PATIENCE, asking).await;
    call.ended = Instant::now();
    call
}

type Fault = Box<dyn std::error::Error + Send + Sync>;

async fn ask(target: &Target, call: &mut Call) -> Result<(), Fault> {
    let stream = TcpStream::connect(target.nodes[call.node]).await?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let streamed = fastrand::bool();
    let mut body = json!({
        "model": "test-model", "max_completion_tokens": MOST_OUTPUT, "stream": streamed,
        "messages": [{"role": "user", "content": call.question}],
    });
    if streamed {
        body["stream_options"] = json!({"include_usage": true});
    }
    let request = hyper::Request::post(CHAT)
        .header("host", "gateway")
        .header("authorization", format!("Bearer {}", target.keys[call.key]))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))?;
    let (head, mut body) = sender.send_request(request).await?.into_parts();
    call.status = Some(head.status.as_u16());
    let id = head.headers.get("x-request-id");
    call.id = id.map(|id| id.to_str().unwrap().to_owned());
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            call.text.push_str(&String::from_utf8_lossy(data));
            call.delivered = call.text.matches(" word").count() as u64;
        }
    }
    if head.status == 200 {
        call.reported = reported(&call.text, streamed);
        // Thousands of answers are kept.
        call.text.clear();
    }
    Ok(())
}

fn reported(text: &str, streamed: bool) -> Option<u64> {
    let total = |json: &str| {
        let json: Value = serde_json::from_str(json).ok()?;
        json["usage"]["total_tokens"].as_u64()
    };
    match streamed {
        true if !text.contains("data: [DONE]") => None,
        true => text
            .lines()
            .filter_map(|it| total(it.strip_prefix("data: ")?))
            .next_back(),
        false => total(text),
    }
}

/// Gets a page.
pub async fn page(address: SocketAddr, path: String, key: Option<String>) -> Result<String, Fault> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut request = hyper::Request::get(path).header("host", address.to_string());
    if let Some(key) = key {
        request = request.header("authorization", format!("Bearer {key}"));
    }
    let request = request.body(Full::new(Bytes::new()))?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    let text = String::from_utf8(body.to_vec())?;
    match status.as_u16() {
        200 => Ok(text),
        status => Err(format!("{status}: {text}").into()),
    }
}
