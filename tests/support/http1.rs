//! A client of HTTP/1.1 that adds nothing and hides nothing.

use super::{Answer, Ending, Request, bounded};
use std::io::ErrorKind;
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// Whatever carries bytes both ways.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// A connection of a caller.
pub struct Connection {
    wire: Box<dyn Wire>,
    /// What has come and was not looked at.
    unread: Vec<u8>,
    ended: Option<Ending>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Self {
        let stream = bounded("a connection", TcpStream::connect(address)).await;
        let stream = stream.unwrap_or_else(|fault| panic!("{address}: {fault}"));
        stream.set_nodelay(true).unwrap();
        Self::over(stream)
    }

    pub fn over(wire: impl Wire + 'static) -> Self {
        Self {
            wire: Box::new(wire),
            unread: Vec::new(),
            ended: None,
        }
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.try_write(bytes).await.expect("the gateway reads");
    }

    /// Writes bytes that the other side may not read.
    pub async fn try_write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        bounded("bytes to be taken", async {
            self.wire.write_all(bytes).await?;
            self.wire.flush().await
        })
        .await
    }

    /// Sends a request and reads its answer.
    pub async fn send(&mut self, request: &Request) -> Answer {
        self.write(&request.bytes()).await;
        self.answer(request).await
    }

    /// Reads the answer to `request`.
    pub async fn answer(&mut self, request: &Request) -> Answer {
        let mut answer = self.head().await;
        if request.method == "HEAD" || matches!(answer.status, 100..=199 | 204 | 304) {
            return answer;
        }
        self.read_body(&mut answer).await;
        answer
    }

    /// Reads the body behind a head.
    pub async fn read_body(&mut self, answer: &mut Answer) {
        answer.ending = self.body(answer).await;
    }

    /// The same, if the beginning of the body was read by [`Self::read_until`].
    pub async fn read_body_behind(&mut self, begun: Vec<u8>, answer: &mut Answer) {
        self.unread.splice(0..0, begun);
        self.read_body(answer).await;
    }

    /// Reads a head, and no body.
    pub async fn head(&mut self) -> Answer {
        let Some(end) = self.find(b"\r\n\r\n").await else {
            panic!("no head in {:?}", String::from_utf8_lossy(&self.unread));
        };
        let head = String::from_utf8(self.take(end + 4)).expect("a head is text");
        let mut lines = head.trim_end().lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        Answer {
            status: status.and_then(|it| it.parse().ok()).expect(&head),
            headers: lines
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect(),
            chunks: Vec::new(),
            ending: Ending::Complete,
        }
    }

    async fn body(&mut self, answer: &mut Answer) -> Ending {
        if answer.header("transfer-encoding") == Some("chunked") {
            return self.chunks(&mut answer.chunks).await;
        }
        let length = answer.header("content-length");
        let length = length.map_or(usize::MAX, |it| it.parse().expect("a length"));
        while self.unread.len() < length && self.read_more().await {}
        let body = self.take(length.min(self.unread.len()));
        let is_whole = body.len() == length;
        answer.chunks.push(body);
        match self.ended {
            _ if is_whole => Ending::Complete,
            // Without framing the end of the connection is the end of the body.
            Some(Ending::Cut) if length == usize::MAX => Ending::Complete,
            ended => ended.unwrap_or(Ending::Cut),
        }
    }

    async fn chunks(&mut self, chunks: &mut Vec<Vec<u8>>) -> Ending {
        loop {
            let Some(line) = self.find(b"\r\n").await else {
                return self.ended.unwrap_or(Ending::Cut);
            };
            let size = String::from_utf8(self.take(line + 2)).expect("a size is text");
            let size = usize::from_str_radix(size.trim(), 16).expect(&size);
            while self.unread.len() < size + 2 && self.read_more().await {}
            if self.unread.len() < size + 2 {
                return self.ended.unwrap_or(Ending::Cut);
            }
            let chunk = self.take(size);
            assert_eq!(self.take(2), b"\r\n");
            if size == 0 {
                return Ending::Complete;
            }
            chunks.push(chunk);
        }
    }

    /// Reads until `pattern` has come; everything up to and with it.
    pub async fn read_until(&mut self, pattern: &[u8]) -> Vec<u8> {
        match self.find(pattern).await {
            Some(at) => self.take(at + pattern.len()),
            None => panic!(
                "{:?} did not come, but {:?}",
                String::from_utf8_lossy(pattern),
                String::from_utf8_lossy(&self.unread)
            ),
        }
    }

    /// Waits for the end of the connection, and returns what came before it.
    pub async fn rest(&mut self) -> (Vec<u8>, Ending) {
        while self.read_more().await {}
        let rest = std::mem::take(&mut self.unread);
        (rest, self.ended.unwrap_or(Ending::Cut))
    }

    async fn find(&mut self, pattern: &[u8]) -> Option<usize> {
        loop {
            let mut windows = self.unread.windows(pattern.len());
            if let Some(at) = windows.position(|window| window == pattern) {
                return Some(at);
            }
            if !self.read_more().await {
                return None;
            }
        }
    }

    fn take(&mut self, size: usize) -> Vec<u8> {
        let rest = self.unread.split_off(size);
        std::mem::replace(&mut self.unread, rest)
    }

    async fn read_more(&mut self) -> bool {
        if self.ended.is_some() {
            return false;
        }
        self.unread.reserve(16 * 1024);
        match bounded("more of an answer", self.wire.read_buf(&mut self.unread)).await {
            Ok(0) => self.ended = Some(Ending::Cut),
            Ok(_) => {}
            Err(fault) if fault.kind() == ErrorKind::ConnectionReset => {
                self.ended = Some(Ending::Reset);
            }
            // TLS without a farewell.
            Err(fault) if fault.kind() == ErrorKind::UnexpectedEof => {
                self.ended = Some(Ending::Cut);
            }
            Err(fault) => panic!("{fault}"),
        }
        self.ended.is_none()
    }
}
