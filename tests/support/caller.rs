//! A caller as good HTTP libraries are: it uses a connection again as long as it may, and
//! opens another when the server closes it.

use super::{Answer, Authority, Ending, Request, bounded};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;

/// How a caller comes in.
#[derive(Clone)]
pub struct Way {
    pub address: SocketAddr,
    pub http2: bool,
    /// The authority of the certificate of `gateway.test`; `None`: in cleartext.
    pub tls: Option<Arc<Authority>>,
}

/// Whatever carries bytes both ways.
type Wire = Box<dyn super::http1::Wire>;

impl Way {
    /// A connection, and its TLS session where there is one.
    pub async fn open(&self) -> Wire {
        let Some(authority) = &self.tls else {
            let stream = bounded("a connection", TcpStream::connect(self.address)).await;
            let stream = stream.unwrap_or_else(|fault| panic!("{}: {fault}", self.address));
            stream.set_nodelay(true).unwrap();
            return Box::new(stream);
        };
        let protocol = if self.http2 { "h2" } else { "http/1.1" };
        Box::new(
            authority
                .connect(self.address, "gateway.test", &[protocol])
                .await,
        )
    }
}

type Body = Full<Bytes>;

/// What requests are handed to, for one connection.
enum Sender {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

/// A caller that sends one request after another.
pub struct Caller {
    way: Way,
    kept: Option<Sender>,
    /// How many connections it has opened.
    pub connections: usize,
}

impl Caller {
    pub const fn new(way: Way) -> Self {
        Self {
            way,
            kept: None,
            connections: 0,
        }
    }

    /// Sends a request and reads its answer to the end. What a kept connection does not take
    /// any more is sent over another one, and so is what has crossed with the word that it takes
    /// no more; nothing that was taken is sent twice.
    pub async fn send(&mut self, request: &Request) -> Answer {
        let mut built = self.build(request);
        loop {
            let (mut sender, is_fresh) = match self.kept.take() {
                Some(sender) => (sender, false),
                None => (self.open().await, true),
            };
            match bounded("an answer", sender.send(built)).await {
                Ok(answer) => {
                    let answer = read(answer).await;
                    self.kept = Some(sender);
                    return answer;
                }
                Err(mut fault) => match fault.take_message() {
                    Some(unsent) if !is_fresh => built = unsent,
                    _ => {
                        let fault = fault.into_error();
                        assert!(
                            !is_fresh && was_not_taken(&fault),
                            "{fault:?}, HTTP/2 {}, TLS {}, first {is_fresh}",
                            self.way.http2,
                            self.way.tls.is_some(),
                        );
                        built = self.build(request);
                    }
                },
            }
        }
    }

    fn build(&self, request: &Request) -> hyper::Request<Body> {
        let scheme = if self.way.tls.is_some() {
            "https"
        } else {
            "http"
        };
        // Over HTTP/1.1 the target is a path, and the host a header.
        let uri = match self.way.http2 {
            true => format!("{scheme}://gateway.test{}", request.target),
            false => request.target.clone(),
        };
        let mut built = hyper::Request::builder().method(&*request.method).uri(uri);
        if !self.way.http2 {
            built = built.header("host", "gateway.test");
        }
        for (name, value) in &request.headers {
            built = built.header(name, value);
        }
        built.body(Full::from(request.body.clone())).unwrap()
    }

    async fn open(&mut self) -> Sender {
        self.connections += 1;
        let wire = TokioIo::new(self.way.open().await);
        if self.way.http2 {
            let shaking = http2::handshake(TokioExecutor::new(), wire);
            let (sender, connection) = bounded("HTTP/2", shaking).await.unwrap();
            tokio::spawn(connection);
            Sender::Http2(sender)
        } else {
            let (sender, connection) = http1::handshake(wire).await.unwrap();
            tokio::spawn(connection);
            Sender::Http1(sender)
        }
    }
}

/// Whether the server has said of a request over HTTP/2 that it has not begun with it: its stream
/// is beyond the last one that GOAWAY names (RFC 9113, 6.8: it may be sent again).
fn was_not_taken(fault: &hyper::Error) -> bool {
    let cause = std::error::Error::source(fault);
    cause
        .and_then(|cause| cause.downcast_ref::<h2::Error>())
        .is_some_and(|it| it.is_go_away() && it.reason() == Some(h2::Reason::NO_ERROR))
}

type Sent = Result<hyper::Response<Incoming>, TrySendError<hyper::Request<Body>>>;

impl Sender {
    async fn send(&mut self, request: hyper::Request<Body>) -> Sent {
        // A connection that is closed by now says so here, and the request comes back.
        match self {
            Self::Http1(sender) => {
                let _ = sender.ready().await;
                sender.try_send_request(request).await
            }
            Self::Http2(sender) => {
                let _ = sender.ready().await;
                sender.try_send_request(request).await
            }
        }
    }
}

async fn read(answer: hyper::Response<Incoming>) -> Answer {
    let (head, body) = answer.into_parts();
    let body = bounded("a body", body.collect()).await;
    let body = body.unwrap_or_else(|fault| panic!("{fault:?}")).to_bytes();
    let headers = head.headers.iter();
    Answer {
        status: head.status.as_u16(),
        headers: headers
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect(),
        chunks: vec![body.to_vec()],
        ending: Ending::Complete,
    }
}
