//! A provider that decides on the head of each request what it answers.

use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// It refuses some heads, and answers all others.
pub struct Doorman {
    pub address: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    refused: AtomicUsize,
    served: AtomicUsize,
}

impl Doorman {
    /// Answers `refusal` to every head (in lower case) that `refuses`, and a chat completion
    /// to all others.
    pub async fn start(
        refuses: impl Fn(&str) -> bool + Send + Sync + 'static,
        refusal: &'static str,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Seen>::default();
        let (refuses, reported) = (Arc::new(refuses), Arc::clone(&seen));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (refuses, reported) = (Arc::clone(&refuses), Arc::clone(&reported));
                tokio::spawn(async move {
                    serve(stream, &*refuses, refusal, &reported).await;
                });
            }
        });
        Self { address, seen }
    }

    /// How many were refused, and how many served.
    pub fn counts(&self) -> (usize, usize) {
        let load = |it: &AtomicUsize| it.load(Ordering::SeqCst);
        (load(&self.seen.refused), load(&self.seen.served))
    }
}

async fn serve(
    mut stream: TcpStream,
    refuses: &(dyn Fn(&str) -> bool + Send + Sync),
    refusal: &str,
    seen: &Seen,
) {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return,
            }
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|it| it.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |it| it.trim().parse().unwrap())];
        stream.read_exact(&mut body).await.unwrap();
        let (counter, answer) = match refuses(&head) {
            true => (&seen.refused, refusal.to_owned()),
            false => (&seen.served, completion()),
        };
        counter.fetch_add(1, Ordering::SeqCst);
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn completion() -> String {
    let body = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{
            "index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Hello", "refusal": null},
        }],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    })
    .to_string();
    json_answer("200 OK", "", &body)
}

/// An answer in HTTP/1.1 with more headers, each with its end of line.
pub fn json_answer(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}\
         content-length: {length}\r\n\r\n{body}"
    )
}
