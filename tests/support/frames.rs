//! A client of HTTP/2 that sends given frames, wrong ones too (RFC 9113).

use super::{PATIENCE, bounded};
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// The reason of a `GOAWAY` that ends a flood.
pub const ENHANCE_YOUR_CALM: u32 = 11;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame that came.
#[derive(Clone, Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// The number that a `GOAWAY` or a `RST_STREAM` gives as its reason.
    pub fn reason(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

/// A connection with prior knowledge.
pub struct Frames {
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    stream: u32,
}

impl Frames {
    pub async fn open(address: SocketAddr) -> Self {
        Self::with_settings(address, &[]).await
    }

    /// With settings: identifiers and values.
    pub async fn with_settings(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let stream = bounded("a connection", TcpStream::connect(address)).await;
        Self::over(stream.unwrap(), settings).await
    }

    /// Over a connection that stands, with settings.
    pub async fn over(stream: TcpStream, settings: &[(u16, u32)]) -> Self {
        stream.set_nodelay(true).unwrap();
        let (reader, mut writer) = stream.into_split();
        let payload: Vec<u8> = settings
            .iter()
            .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        let bytes = [PREFACE, &frame(SETTINGS, 0, 0, &payload)].concat();
        writer.write_all(&bytes).await.unwrap();
        Self {
            reader,
            writer,
            stream: 1,
        }
    }

    /// The number of a stream that was not used.
    pub fn next_stream(&mut self) -> u32 {
        self.stream += 2;
        self.stream - 2
    }

    /// Sends bytes; `false` when the other side has closed.
    pub async fn send(&mut self, bytes: &[u8]) -> bool {
        let written = tokio::time::timeout(PATIENCE, self.writer.write_all(bytes)).await;
        written.expect("bytes to be taken").is_ok()
    }

    /// Sends a request without a body on a stream of its own, and waits for its status;
    /// `None` where the stream or the connection was ended instead.
    pub async fn ask(&mut self, headers: &[(&str, &str)]) -> Option<u16> {
        let stream = self.next_stream();
        let flags = END_HEADERS | END_STREAM;
        if !self
            .send(&frame(HEADERS, flags, stream, &block(headers)))
            .await
        {
            return None;
        }
        self.status(stream).await
    }

    /// Waits for the status on a stream.
    pub async fn status(&mut self, stream: u32) -> Option<u16> {
        loop {
            let frame = self.next().await?;
            match frame.kind {
                GOAWAY => return None,
                RST_STREAM if frame.stream == stream => return None,
                HEADERS if frame.stream == stream => return Some(status(&frame.payload)),
                _ => {}
            }
        }
    }

    /// The next frame; `None` at the end of the connection.
    pub async fn next(&mut self) -> Option<Frame> {
        bounded("a frame", read_frame(&mut self.reader)).await
    }

    /// Sends `bytes` again and again, `most` times and not beyond the end of the connection,
    /// while it reads. Returns the reason of the `GOAWAY` that came, and how often it sent.
    pub async fn flood(self, bytes: &[u8], most: usize) -> (Option<u32>, usize) {
        let Self {
            mut reader,
            mut writer,
            ..
        } = self;
        let reading = async {
            let mut reason = None;
            while let Some(frame) = read_frame(&mut reader).await {
                if frame.kind == GOAWAY {
                    reason = Some(frame.reason());
                }
            }
            reason
        };
        let writing = async {
            let mut sent = 0;
            while sent < most && writer.write_all(bytes).await.is_ok() {
                sent += 1;
            }
            sent
        };
        let both = async { tokio::join!(reading, writing) };
        bounded("the end of a flood", both).await
    }
}

/// Reads a frame; `None` at the end of the connection.
pub async fn read_frame(reader: &mut (impl AsyncRead + Unpin)) -> Option<Frame> {
    let mut head = [0; 9];
    reader.read_exact(&mut head).await.ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    reader.read_exact(&mut payload).await.ok()?;
    Some(Frame {
        kind: head[3],
        flags: head[4],
        stream: u32::from_be_bytes(head[5..9].try_into().unwrap()),
        payload,
    })
}

/// The bytes of a frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head[..], payload].concat()
}

/// Headers as literals that are kept in no table (RFC 7541, section 6.2.2).
pub fn block(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(0);
        text(&mut block, name);
        text(&mut block, value);
    }
    block
}

/// A string without Huffman's code; its length as an integer with a prefix of seven bits.
fn text(out: &mut Vec<u8>, text: &str) {
    let mut length = text.len();
    if length < 127 {
        out.push(u8::try_from(length).unwrap());
    } else {
        out.push(127);
        length -= 127;
        while length >= 128 {
            out.push(u8::try_from(length % 128).unwrap() | 128);
            length /= 128;
        }
        out.push(u8::try_from(length).unwrap());
    }
    out.extend_from_slice(text.as_bytes());
}

/// The status at the front of a block (RFC 7541, appendices A and B).
fn status(block: &[u8]) -> u16 {
    const INDEXED: [(u8, u16); 7] = [
        (0x88, 200),
        (0x89, 204),
        (0x8a, 206),
        (0x8b, 304),
        (0x8c, 400),
        (0x8d, 404),
        (0x8e, 500),
    ];
    // The size of a table may come first.
    let block = if block[0] & 0xe0 == 0x20 {
        &block[1..]
    } else {
        block
    };
    if let Some((_, status)) = INDEXED.iter().find(|(byte, _)| *byte == block[0]) {
        return *status;
    }
    let length = usize::from(block[1] & 0x7f);
    let value = &block[2..2 + length];
    if block[1] & 0x80 == 0 {
        return std::str::from_utf8(value).unwrap().parse().unwrap();
    }
    let bits: String = value.iter().map(|byte| format!("{byte:08b}")).collect();
    let mut rest = &bits[..];
    let mut status = 0;
    for _ in 0..3 {
        let short = u16::from_str_radix(&rest[..5], 2).unwrap();
        let (digit, size) = match short {
            0..=2 => (short, 5),
            _ => (u16::from_str_radix(&rest[..6], 2).unwrap() - 22, 6),
        };
        status = status * 10 + digit;
        rest = &rest[size..];
    }
    status
}
