//! Just enough of HTTP/1.1 to separate one request from the next.

use bytes::{Buf, BytesMut};
use httparse::Status;
use std::io;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The largest head of a request, in bytes, and the most headers in it.
const LARGEST_HEAD: usize = 64 * 1024;
const MOST_HEADERS: usize = 100;

/// The requests of one connection.
pub(super) struct Requests {
    stream: TcpStream,
    buffer: BytesMut,
}

/// One request whose body has been read and thrown away.
pub(super) struct Request {
    pub(super) path: String,
    /// Whether the connection ends with it.
    pub(super) last: bool,
}

struct Head {
    request: Request,
    length: usize,
    body: BodyKind,
    expects: bool,
}

#[derive(Clone, Copy)]
enum BodyKind {
    Sized(u64),
    Chunked,
}

impl Requests {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            buffer: BytesMut::with_capacity(16 * 1024),
        }
    }

    pub(super) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// The next request; none when the peer has left between two.
    pub(super) async fn next(&mut self) -> io::Result<Option<Request>> {
        let head = loop {
            if let Some(head) = parse(&self.buffer)? {
                break head;
            }
            if self.buffer.len() > LARGEST_HEAD {
                return Err(invalid("the head is too large"));
            }
            if !self.fill().await? {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(truncated())
                };
            }
        };
        self.buffer.advance(head.length);
        if head.expects {
            self.stream
                .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
                .await?;
        }
        match head.body {
            BodyKind::Sized(length) => self.skip(length).await?,
            BodyKind::Chunked => self.skip_chunks().await?,
        }
        Ok(Some(head.request))
    }

    async fn skip(&mut self, length: u64) -> io::Result<()> {
        let mut left = length;
        loop {
            let here =
                usize::try_from(left).map_or(self.buffer.len(), |left| left.min(self.buffer.len()));
            self.buffer.advance(here);
            left -= here as u64;
            if left == 0 {
                return Ok(());
            }
            if !self.fill().await? {
                return Err(truncated());
            }
        }
    }

    async fn skip_chunks(&mut self) -> io::Result<()> {
        loop {
            let (line, size) = loop {
                match httparse::parse_chunk_size(&self.buffer) {
                    Ok(Status::Complete(found)) => break found,
                    Ok(Status::Partial) if self.buffer.len() <= LARGEST_HEAD => {
                        if !self.fill().await? {
                            return Err(truncated());
                        }
                    }
                    Ok(Status::Partial) | Err(_) => return Err(invalid("no size of a chunk")),
                }
            };
            self.buffer.advance(line);
            if size == 0 {
                return self.skip_trailers().await;
            }
            self.skip(size.saturating_add(2)).await?;
        }
    }

    /// Up to and with the empty line.
    async fn skip_trailers(&mut self) -> io::Result<()> {
        loop {
            while let Some(end) = memchr::memchr(b'\n', &self.buffer) {
                self.buffer.advance(end + 1);
                if end <= 1 {
                    return Ok(());
                }
            }
            if self.buffer.len() > LARGEST_HEAD || !self.fill().await? {
                return Err(truncated());
            }
        }
    }

    /// Reads what there is; false at the end.
    async fn fill(&mut self) -> io::Result<bool> {
        self.buffer.reserve(16 * 1024);
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }
}

fn parse(bytes: &[u8]) -> io::Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request
        .parse(bytes)
        .map_err(|fault| invalid(&fault.to_string()))?
    {
        Status::Complete(length) => length,
        Status::Partial => return Ok(None),
    };
    let mut head = Head {
        request: Request {
            path: request
                .path
                .unwrap_or("/")
                .split('?')
                .next()
                .unwrap_or("/")
                .to_owned(),
            last: request.version == Some(0),
        },
        length,
        body: BodyKind::Sized(0),
        expects: false,
    };
    for header in request.headers.iter() {
        head.note(header.name, header.value)?;
    }
    Ok(Some(head))
}

impl Head {
    fn note(&mut self, name: &str, value: &[u8]) -> io::Result<()> {
        let value = value.trim_ascii();
        if name.eq_ignore_ascii_case("content-length") {
            let length = std::str::from_utf8(value)
                .ok()
                .and_then(|text| text.parse().ok());
            self.body = BodyKind::Sized(length.ok_or_else(|| invalid("content-length"))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            self.body = BodyKind::Chunked;
        } else if name.eq_ignore_ascii_case("connection") {
            self.request.last |= value.eq_ignore_ascii_case(b"close");
        } else if name.eq_ignore_ascii_case("expect") {
            self.expects = true;
        }
        Ok(())
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn truncated() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}
