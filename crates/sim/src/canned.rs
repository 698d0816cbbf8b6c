//! Canned answers: built once, sent with as little work as can be, so that a benchmark
//! never measures this server.
//!
//! A server that is canned as a whole reads HTTP/1.1 in a loop of its own, [`serve`], which
//! finds the end of each request and looks at nothing else in it. Elsewhere the order
//! `canned` sends the same bodies through the HTTP library.

mod wire;

use crate::{
    ask::Ask,
    body::Answer,
    counters::Underway,
    format::{Answering, Format},
    orders::{CannedOrder, Orders},
    plan::Plan,
    sse::Event,
};
use bytes::Bytes;
use http::{HeaderValue, Response, header};
use serde_json::json;
use std::{io, time::Duration};
use tokio::{io::AsyncWriteExt, net::TcpStream, sync::mpsc, time};
use wire::Requests;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream; charset=utf-8";
const COUNT: &str = r#"{"input_tokens":42}"#;
/// What stands in for the text while an answer is built.
const PLACEHOLDER: &str = "CANNED";

/// The canned answers of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canned {
    /// Bytes of text in the JSON answer.
    pub bytes: usize,
    /// Answer with a stream of so many events instead, whatever the request says.
    pub chunks: Option<usize>,
    /// Bytes of text in each event.
    pub chunk_bytes: usize,
    /// How long to wait between two events.
    pub pause: Duration,
}

impl Default for Canned {
    fn default() -> Self {
        Self {
            bytes: 1024,
            chunks: None,
            chunk_bytes: 64,
            pause: Duration::ZERO,
        }
    }
}

impl Canned {
    /// What a server with these answers sends to every request.
    pub(crate) fn order(&self) -> CannedOrder {
        match self.chunks {
            None => CannedOrder::Body,
            Some(chunks) => CannedOrder::Stream {
                chunks,
                bytes: self.chunk_bytes,
            },
        }
    }
}

/// The answers of a server, built.
#[derive(Debug)]
pub(crate) struct Prebuilt {
    chat: Built,
    responses: Built,
    messages: Built,
    count: Bytes,
    options: Canned,
}

/// The answers in one format: whole messages of HTTP/1.1, head and all.
#[derive(Debug)]
struct Built {
    format: Format,
    body: Bytes,
    message: Bytes,
    stream: Events,
}

/// A stream: what comes first, one delta to repeat, and what comes last.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    first: Bytes,
    delta: Bytes,
    last: Bytes,
}

/// A canned answer to one request.
pub(crate) enum Chosen {
    Body(Bytes),
    Stream {
        events: Events,
        chunks: usize,
        pause: Duration,
    },
}

impl Prebuilt {
    pub(crate) fn new(options: &Canned) -> Self {
        let built = |format| Built::new(format, options);
        Self {
            chat: built(Format::Chat),
            responses: built(Format::Responses),
            messages: built(Format::Messages),
            count: message(COUNT.as_bytes()),
            options: options.clone(),
        }
    }

    /// The answer to a request on this path.
    pub(crate) fn choose(&self, path: &str, order: CannedOrder) -> Chosen {
        if path.ends_with("/count_tokens") {
            return Chosen::Body(Bytes::from_static(COUNT.as_bytes()));
        }
        let built = self.built(path);
        match order {
            CannedOrder::Body => Chosen::Body(built.body.clone()),
            CannedOrder::Stream { chunks, bytes } if bytes == self.options.chunk_bytes => {
                Chosen::Stream {
                    events: built.stream.clone(),
                    chunks,
                    pause: self.options.pause,
                }
            }
            CannedOrder::Stream { chunks, bytes } => {
                let events = Events::new(built.format, bytes);
                Chosen::Stream {
                    events,
                    chunks,
                    pause: self.options.pause,
                }
            }
        }
    }

    fn built(&self, path: &str) -> &Built {
        match path {
            path if path.starts_with("/v1/messages") => &self.messages,
            path if path.starts_with("/v1/responses") => &self.responses,
            _ => &self.chat,
        }
    }

    fn message(&self, path: &str) -> &Bytes {
        if path.ends_with("/count_tokens") {
            &self.count
        } else {
            &self.built(path).message
        }
    }
}

impl Built {
    fn new(format: Format, options: &Canned) -> Self {
        let text = rendered(|answering| format.json(answering).to_string());
        let body = Bytes::from(text.replace(PLACEHOLDER, &filler(options.bytes)));
        let message = message(&body);
        Self {
            format,
            body,
            message,
            stream: Events::new(format, options.chunk_bytes),
        }
    }
}

impl Events {
    fn new(format: Format, bytes: usize) -> Self {
        let events = rendered(|answering| format.events(answering));
        let texts: Vec<_> = events.iter().map(Event::to_bytes).collect();
        let holds_text =
            |text: &&Bytes| memchr::memmem::find(text, PLACEHOLDER.as_bytes()).is_some();
        let at = texts.iter().take_while(|text| !holds_text(text)).count();
        let (first, rest) = texts.split_at_checked(at).unwrap_or_default();
        let (delta, last) = rest
            .split_first()
            .map_or((Bytes::new(), rest), |(d, l)| (d.clone(), l));
        let delta = String::from_utf8_lossy(&delta).replace(PLACEHOLDER, &filler(bytes));
        Self {
            first: first.concat().into(),
            delta: Bytes::from(delta),
            last: last.concat().into(),
        }
    }

    fn pieces(&self, chunks: usize) -> impl Iterator<Item = &Bytes> {
        let deltas = std::iter::repeat_n(&self.delta, chunks);
        [&self.first].into_iter().chain(deltas).chain([&self.last])
    }

    /// The same in the chunks of HTTP/1.1.
    fn chunked(&self) -> Self {
        let chunk =
            |bytes: &Bytes| [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {EVENTS}\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        Self {
            first: [head.as_bytes(), &chunk(&self.first)].concat().into(),
            delta: chunk(&self.delta).into(),
            last: [&chunk(&self.last), b"0\r\n\r\n".as_slice()]
                .concat()
                .into(),
        }
    }
}

impl Chosen {
    /// The answer by way of the HTTP library.
    pub(crate) fn answer(self, underway: Underway) -> Response<Answer> {
        let (kind, body) = match self {
            Self::Body(bytes) => (JSON, Answer::whole(bytes, Some(underway))),
            Self::Stream {
                events,
                chunks,
                pause,
            } => {
                let (sender, receiver) = mpsc::channel(1);
                tokio::spawn(async move {
                    for (index, piece) in events.pieces(chunks).enumerate() {
                        wait(pause, index).await;
                        if sender.send(Ok(piece.clone())).await.is_err() {
                            return;
                        }
                    }
                });
                (EVENTS, Answer::played(receiver, None, Some(underway)))
            }
        };
        let mut response = Response::new(body);
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }
}

/// Answers every request on a connection; gives how many there were.
pub(crate) async fn serve(stream: TcpStream, prebuilt: &Prebuilt) -> u64 {
    let mut requests = Requests::new(stream);
    let mut answered = 0;
    loop {
        match requests.next().await {
            Ok(Some(request)) => {
                answered += 1;
                let sent = send(requests.stream(), &request.path, prebuilt).await;
                if sent.is_err() || request.last {
                    return answered;
                }
            }
            Ok(None) => return answered,
            Err(fault) => {
                log::debug!("a canned connection ended: {fault}");
                return answered;
            }
        }
    }
}

async fn send(stream: &mut TcpStream, path: &str, prebuilt: &Prebuilt) -> io::Result<()> {
    let Some(chunks) = prebuilt.options.chunks else {
        return stream.write_all(prebuilt.message(path)).await;
    };
    let events = prebuilt.built(path).stream.chunked();
    for (index, piece) in events.pieces(chunks).enumerate() {
        wait(prebuilt.options.pause, index).await;
        stream.write_all(piece).await?;
    }
    Ok(())
}

async fn wait(pause: Duration, index: usize) {
    if index > 0 && !pause.is_zero() {
        time::sleep(pause).await;
    }
}

fn message(body: &[u8]) -> Bytes {
    let length = body.len();
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {JSON}\r\ncontent-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat().into()
}

/// Something made of an answer whose text is [`PLACEHOLDER`].
fn rendered<T>(render: impl FnOnce(Answering<'_>) -> T) -> T {
    let request = json!({"model": "sim", "stream_options": {"include_usage": true}});
    let ask = Ask::plain("sim", PLACEHOLDER);
    let orders = Orders::default();
    let mut plan = Plan::new(&ask, &orders);
    for choice in &mut plan.choices {
        PLACEHOLDER.clone_into(&mut choice.text);
    }
    render(Answering {
        request: &request,
        ask: &ask,
        plan: &plan,
        orders: &orders,
    })
}

fn filler(bytes: usize) -> String {
    "canned ".chars().cycle().take(bytes).collect()
}
