//! A provider that costs next to nothing: canned answers, chosen by model name.
//!
//! It answers `canned-BYTES` with one chat completion whose body has that length,
//! `canned-messages-BYTES`, `canned-responses-BYTES` and `canned-gemini-BYTES` with one in that format, and
//! `canned-stream-EVENTSxMILLISECONDS` with an event stream that flushes each event by itself
//! and waits between them. It checks nothing about a request but its framing: what is compared
//! is proxies, and any work here would be work that they all hide behind.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::failure::{Failure, Result};
use crate::workload::{self, Format};

/// Longest request, head and body together.
const REQUEST_LIMIT: usize = 4 * 1024 * 1024;
/// A model name stands this early in a body, or the request is not one of ours.
const MODEL_WITHIN: usize = 1024;

/// Serves until the process is ended.
pub(crate) async fn serve(listen: &[SocketAddr]) -> Result<()> {
    let mut serving = JoinSet::new();
    for address in listen {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| Failure::io(format!("listen on {address}"), source))?;
        serving.spawn(serve_on(listener));
    }
    match serving.join_next().await {
        Some(Ok(ended)) => ended,
        _ => Ok(()),
    }
}

/// Serves on a socket that already listens.
pub(crate) async fn serve_on(listener: TcpListener) -> Result<()> {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(fault) if is_fatal(&fault) => {
                return Err(Failure::io("accept a connection", fault));
            }
            Err(_) => continue,
        };
        tokio::spawn(async move {
            // A connection that breaks is the proxy's affair: the load client will see it.
            let _ = serve_connection(stream).await;
        });
    }
}

/// Faults of one connection that was being accepted end only that one; see accept(2).
fn is_fatal(fault: &std::io::Error) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, TimedOut};
    !matches!(
        fault.kind(),
        ConnectionAborted | ConnectionReset | Interrupted | TimedOut
    )
}

async fn serve_connection(mut stream: TcpStream) -> Result<()> {
    let io = |source| Failure::io("serve a connection", source);
    stream.set_nodelay(true).map_err(io)?;
    let mut received = Vec::with_capacity(128 * 1024);
    let mut answer = Canned::Unknown;
    let mut model = String::new();
    loop {
        let Some(request) = read_request(&mut stream, &mut received).await? else {
            return Ok(());
        };
        if model != request.model {
            answer = Canned::for_model(request.model);
            request.model.clone_into(&mut model);
        }
        let consumed = request.length;
        received.drain(..consumed);
        match &answer {
            Canned::Unknown => stream.write_all(NOT_FOUND).await.map_err(io)?,
            Canned::Whole(bytes) => stream.write_all(bytes).await.map_err(io)?,
            Canned::Stream(plan) => plan.send(&mut stream).await.map_err(io)?,
        }
    }
}

const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\n\
    content-length: 57\r\n\r\n{\"error\":{\"message\":\"no such model\",\"type\":\"not_found\"}}\n";

struct Request<'a> {
    model: &'a str,
    length: usize,
}

/// The next whole request at the front of `received`; `None` when the peer has closed.
async fn read_request<'a>(
    stream: &mut TcpStream,
    received: &'a mut Vec<u8>,
) -> Result<Option<Request<'a>>> {
    let Some(length) = read_whole(stream, received).await? else {
        return Ok(None);
    };
    let model = received
        .get(..length)
        .and_then(model_name)
        .unwrap_or_default();
    Ok(Some(Request { model, length }))
}

/// Reads until the request at the front of `received` is whole. Returns its length; `None` when the peer has
/// closed.
pub(crate) async fn read_whole(
    stream: &mut TcpStream,
    received: &mut Vec<u8>,
) -> Result<Option<usize>> {
    loop {
        match request_length(received)? {
            Some(length) if length <= received.len() => return Ok(Some(length)),
            _ if received.len() > REQUEST_LIMIT => {
                return Err(Failure::Malformed("the request is too long"));
            }
            _ => {}
        }
        let read = stream
            .read_buf(received)
            .await
            .map_err(|source| Failure::io("read a request", source))?;
        if read == 0 {
            return Ok(None);
        }
    }
}

/// Length of head and body, once the head is complete.
fn request_length(received: &[u8]) -> Result<Option<usize>> {
    let Some(end) = memchr::memmem::find(received, b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = received
        .get(..end)
        .and_then(|head| std::str::from_utf8(head).ok())
        .ok_or(Failure::Malformed("the request head is not text"))?;
    let length = head
        .split("\r\n")
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse::<usize>().ok())
        .ok_or(Failure::Malformed("the request has no Content-Length"))?;
    Ok(Some(end.saturating_add(4).saturating_add(length)))
}

/// The model that a request names, in its path or in its body.
fn model_name(request: &[u8]) -> Option<&str> {
    if let Some(named) = request.strip_prefix(b"POST /v1beta/models/") {
        let end = memchr::memchr(b':', named)?;
        return std::str::from_utf8(named.get(..end)?).ok();
    }
    let body = request.get(memchr::memmem::find(request, b"\r\n\r\n")? + 4..)?;
    let early = body.get(..body.len().min(MODEL_WITHIN))?;
    let after_key = early.get(memchr::memmem::find(early, b"\"model\"")? + 7..)?;
    let name = after_key.get(memchr::memchr(b'"', after_key)? + 1..)?;
    std::str::from_utf8(name.get(..memchr::memchr(b'"', name)?)?).ok()
}

/// What is sent for a model, ready to be written.
#[derive(Debug, PartialEq)]
enum Canned {
    Unknown,
    Whole(Vec<u8>),
    Stream(StreamPlan),
}

#[derive(Debug, PartialEq)]
struct StreamPlan {
    events: u32,
    gap: Duration,
    chunk: Vec<u8>,
}

impl Canned {
    fn for_model(model: &str) -> Self {
        Self::parse(model).unwrap_or(Self::Unknown)
    }

    fn parse(model: &str) -> Option<Self> {
        let order = model.strip_prefix("canned-")?;
        let Some(stream) = order.strip_prefix("stream-") else {
            let (format, bytes) = format_and_size(order);
            let body = workload::completion(format, bytes.parse().ok()?);
            let mut bytes = head(
                "application/json",
                &format!("content-length: {}", body.len()),
            );
            bytes.extend_from_slice(body.as_bytes());
            return Some(Self::Whole(bytes));
        };
        let (events, gap) = stream.split_once('x')?;
        Some(Self::Stream(StreamPlan {
            events: events.parse().ok()?,
            gap: Duration::from_millis(gap.parse().ok()?),
            chunk: chunked(&workload::stream_event()),
        }))
    }
}

/// `messages-1024` is 1024 bytes of messages; without a name, it is chat.
fn format_and_size(order: &str) -> (Format, &str) {
    Format::ALL
        .into_iter()
        .find_map(|format| {
            let size = order.strip_prefix(format.name())?.strip_prefix('-')?;
            Some((format, size))
        })
        .unwrap_or((Format::Chat, order))
}

impl StreamPlan {
    async fn send(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        stream
            .write_all(&head("text/event-stream", "transfer-encoding: chunked"))
            .await?;
        let mut unasked = [0];
        let mut due = Instant::now();
        for _ in 0..self.events {
            stream.write_all(&self.chunk).await?;
            due += self.gap;
            tokio::select! {
                () = sleep_until(due) => {}
                // Nothing more is asked during a stream, so this is the caller leaving. A silent
                // stream that outlived its caller would hold a socket that the next one needs.
                left = stream.read(&mut unasked) => {
                    return left.and(Err(ErrorKind::ConnectionAborted.into()));
                }
            }
        }
        let mut last = chunked(workload::STREAM_END);
        last.extend_from_slice(b"0\r\n\r\n");
        stream.write_all(&last).await
    }
}

fn head(content_type: &str, framing: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\n{framing}\r\n\r\n").into_bytes()
}

fn chunked(data: &str) -> Vec<u8> {
    let mut chunk = String::with_capacity(data.len() + 16);
    // Writing to a string cannot fail.
    let _ = write!(chunk, "{:x}\r\n{data}\r\n", data.len());
    chunk.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_as_long_as_its_head_and_content_length_say() {
        let request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
        assert_eq!(request_length(request).unwrap(), Some(request.len()));
        assert_eq!(
            request_length(b"POST / HTTP/1.1\r\nContent-Le").unwrap(),
            None
        );
        assert!(request_length(b"POST / HTTP/1.1\r\n\r\n").is_err());
    }

    #[test]
    fn the_model_is_found_with_and_without_spaces() {
        for body in [
            r#"{"model":"canned-64","x":1}"#,
            r#"{ "a": 1, "model" : "canned-64" }"#,
        ] {
            let request = format!("POST / HTTP/1.1\r\ncontent-length: 1\r\n\r\n{body}");
            assert_eq!(model_name(request.as_bytes()), Some("canned-64"));
        }
        let in_path = b"POST /v1beta/models/canned-gemini-64:generateContent HTTP/1.1\r\n\r\n{}";
        assert_eq!(model_name(in_path), Some("canned-gemini-64"));
        assert_eq!(model_name(b"POST / HTTP/1.1\r\n\r\n{}"), None);
    }

    #[test]
    fn only_well_formed_orders_are_known() {
        for known in [
            "canned-1024",
            "canned-messages-1024",
            "canned-responses-1024",
            "canned-gemini-1024",
        ] {
            assert!(matches!(Canned::for_model(known), Canned::Whole(_)));
        }
        assert!(matches!(
            Canned::for_model("canned-stream-7x5"),
            Canned::Stream(StreamPlan { events: 7, gap, .. }) if gap == Duration::from_millis(5)
        ));
        for unknown in [
            "gpt-9",
            "canned-",
            "canned-x",
            "canned-messages",
            "canned-messages1024",
            "canned-stream-7",
            "canned-stream-x5",
        ] {
            assert_eq!(Canned::for_model(unknown), Canned::Unknown, "{unknown}");
        }
    }

    #[tokio::test]
    async fn a_silent_stream_ends_with_its_caller() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut caller = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let connection = tokio::spawn(serve_connection(stream));
        caller
            .write_all(&workload::SILENT_STREAMS.request(None))
            .await
            .unwrap();
        assert!(caller.read(&mut [0; 1024]).await.unwrap() > 0);
        drop(caller);
        let ended = tokio::time::timeout(Duration::from_secs(5), connection).await;
        assert!(ended.is_ok(), "the connection is still held");
    }

    #[test]
    fn the_refusal_has_the_length_it_claims() {
        let text = std::str::from_utf8(NOT_FOUND).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            text.contains(&format!("content-length: {}\r\n", body.len())),
            "{}",
            body.len()
        );
    }
}
