//! A client of HTTP/2: one connection, one request after another.

use super::http1::Wire;
use super::{Answer, Ending, PATIENCE, Request, bounded};
use crate::support::request::Framing;
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::net::SocketAddr;
use tokio::net::TcpStream;

type Body = BoxBody<Bytes, Infallible>;

/// A connection of a caller that speaks HTTP/2.
pub struct Http2(SendRequest<Body>);

impl Http2 {
    /// With prior knowledge, in cleartext.
    pub async fn open(address: SocketAddr) -> Self {
        let stream = bounded("a connection", TcpStream::connect(address)).await;
        let stream = stream.expect("a connection");
        stream.set_nodelay(true).unwrap();
        Self::over(stream).await
    }

    pub async fn over(wire: impl Wire + 'static) -> Self {
        let shaking = handshake(TokioExecutor::new(), TokioIo::new(wire));
        let (sender, connection) = bounded("HTTP/2", shaking).await.expect("HTTP/2");
        tokio::spawn(connection);
        Self(sender)
    }

    pub async fn send(&mut self, request: &Request) -> Answer {
        let answer = bounded("an answer over HTTP/2", self.begin(request)).await;
        Self::rest(answer.expect("an answer")).await
    }

    /// Reads what is behind the head of an answer.
    pub async fn rest(answer: hyper::Response<Incoming>) -> Answer {
        let (head, body) = answer.into_parts();
        let headers = head.headers.iter();
        let mut answer = Answer {
            status: head.status.as_u16(),
            headers: headers
                .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
                .collect(),
            chunks: Vec::new(),
            ending: Ending::Complete,
        };
        bounded("the end of an answer", collect(body, &mut answer)).await;
        answer
    }

    /// Sends a request and waits for the head of its answer.
    pub async fn begin(&mut self, request: &Request) -> hyper::Result<hyper::Response<Incoming>> {
        let body = Bytes::from(request.body.clone());
        let body = match request.framing {
            Framing::Chunks(size) => in_frames(&body, size),
            Framing::Length | Framing::NoBody => Full::new(body).boxed(),
        };
        self.begin_with(request, body).await
    }

    /// Sends a request whose body never ends, and waits for the head of its answer.
    pub async fn begin_endless(
        &mut self,
        request: &Request,
    ) -> hyper::Result<hyper::Response<Incoming>> {
        let begun = Frame::data(Bytes::from(request.body.clone()));
        let begun = futures::stream::iter([Ok(begun)]);
        let body =
            StreamBody::new(futures::StreamExt::chain(begun, futures::stream::pending())).boxed();
        self.begin_with(request, body).await
    }

    async fn begin_with(
        &mut self,
        request: &Request,
        body: Body,
    ) -> hyper::Result<hyper::Response<Incoming>> {
        tokio::time::timeout(PATIENCE, self.0.ready())
            .await
            .expect("the connection can be used in time")?;
        let mut built = hyper::Request::builder()
            .method(request.method.as_str())
            .uri(format!("http://gateway{}", request.target));
        for (name, value) in &request.headers {
            built = built.header(name, value);
        }
        self.0.send_request(built.body(body).unwrap()).await
    }
}

/// A body without a declared length.
fn in_frames(body: &Bytes, size: usize) -> Body {
    let starts = (0..body.len()).step_by(size);
    let frames: Vec<_> = starts
        .map(|start| body.slice(start..body.len().min(start + size)))
        .map(|piece| Ok(Frame::data(piece)))
        .collect();
    StreamBody::new(futures::stream::iter(frames)).boxed()
}

async fn collect(mut body: Incoming, answer: &mut Answer) {
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => answer
                .chunks
                .extend(frame.into_data().map(|it| it.to_vec())),
            Err(_) => {
                answer.ending = Ending::Reset;
                return;
            }
        }
    }
}
