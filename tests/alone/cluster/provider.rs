//! A provider of chat completions that counts for itself what it has answered to each question.

use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// The input tokens of every question: more than the gateway estimates.
pub const INPUT: u64 = 40;
/// The most output tokens of an answer.
pub const MOST_OUTPUT: u64 = 40;
const PIECES: u64 = 8;

/// What was counted for each question, once for each time that it was asked.
#[derive(Clone, Default)]
pub struct Counted(Arc<Mutex<HashMap<String, Vec<u64>>>>);

impl Counted {
    /// The tokens of each answer to a question.
    pub fn of(&self, question: &str) -> Vec<u64> {
        let counts = self.0.lock();
        counts.get(question).cloned().unwrap_or_default()
    }

    fn add(&self, question: &str, tokens: u64) {
        let mut counts = self.0.lock();
        counts.entry(question.to_owned()).or_default().push(tokens);
    }
}

/// Serves for ever.
pub async fn serve(address: SocketAddr, counted: Counted) {
    let listener = TcpListener::bind(address).await.unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let counted = counted.clone();
        tokio::spawn(async move {
            // A gateway that was killed is no fault here.
            let _ = connection(stream, &counted).await;
        });
    }
}

async fn connection(stream: TcpStream, counted: &Counted) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|it| it.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |it| it.trim().parse().unwrap())];
        stream.read_exact(&mut body).await?;
        let body: Value = serde_json::from_slice(&body).unwrap();
        let question = body["messages"][0]["content"].as_str().unwrap();
        let output = 5 + fastrand::u64(..MOST_OUTPUT - 5);
        let usage = json!({
            "prompt_tokens": INPUT, "completion_tokens": output, "total_tokens": INPUT + output,
        });
        counted.add(question, INPUT + output);
        if body["stream"] == true {
            streamed(&mut stream, output, &usage).await?;
        } else {
            pause(30).await;
            whole(&mut stream, output, &usage).await?;
        }
    }
}

async fn pause(most_ms: u64) {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(..most_ms))).await;
}

fn words(count: u64) -> String {
    " word".repeat(usize::try_from(count).unwrap())
}

async fn whole(
    stream: &mut BufReader<TcpStream>,
    output: u64,
    usage: &Value,
) -> std::io::Result<()> {
    let body = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{
            "index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": words(output), "refusal": null},
        }],
        "usage": usage,
    });
    let answer = crate::support::json_answer("200 OK", "", &body.to_string());
    stream.write_all(answer.as_bytes()).await
}

async fn streamed(
    stream: &mut BufReader<TcpStream>,
    output: u64,
    usage: &Value,
) -> std::io::Result<()> {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    let mut left = output;
    while left > 0 {
        let count = left.min(output.div_ceil(PIECES));
        left -= count;
        let choice = json!({"index": 0, "delta": {"content": words(count)}, "finish_reason": null});
        event(stream, &chunk(&json!([choice]), &Value::Null)).await?;
        pause(40).await;
    }
    let end = json!({"index": 0, "delta": {}, "finish_reason": "stop"});
    event(stream, &chunk(&json!([end]), &Value::Null)).await?;
    event(stream, &chunk(&json!([]), usage)).await?;
    event(stream, "[DONE]").await?;
    stream.write_all(b"0\r\n\r\n").await
}

fn chunk(choices: &Value, usage: &Value) -> String {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": choices, "usage": usage,
    })
    .to_string()
}

async fn event(stream: &mut BufReader<TcpStream>, data: &str) -> std::io::Result<()> {
    let event = format!("data: {data}\n\n");
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    stream.write_all(chunk.as_bytes()).await
}
