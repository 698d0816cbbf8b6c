//! A provider of HTTP/2 that floods a connection with frames, and by default reads nothing from it.

use super::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, SETTINGS, block, frame, read_frame};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::WriteHalf;
use tokio::net::{TcpListener, TcpStream};

const PREFACE_BYTES: usize = 24;

/// How much of an answer comes before the flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing.
    Nothing,
    /// The head and the first event.
    Part,
    /// All of it.
    Everything,
    /// Nothing, and the replies to the flood are read.
    NothingButReads,
}

/// A listener that floods its first connections and serves the later ones.
pub struct Flooder {
    pub address: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    /// Floods that the gateway does not take in any more.
    stuck: AtomicUsize,
    /// Floods whose connection the gateway has closed.
    closed: AtomicUsize,
    bytes: AtomicUsize,
}

/// The events of an answer.
fn events() -> [String; 3] {
    let event = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\
             \"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    [
        event("{\"role\":\"assistant\",\"content\":\"Hi\"}", "null"),
        event("{}", "\"stop\""),
        "data: [DONE]\n\n".to_owned(),
    ]
}

impl Flooder {
    /// Floods `most` connections with `frames`, behind that much of an answer.
    pub async fn start(frames: Vec<u8>, before: Before, most: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let noted = Arc::clone(&seen);
        // Large pieces, so that the flood is as quick as it can be.
        let frames: Arc<[u8]> = frames.repeat(4096).into();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = noted.connections.fetch_add(1, Ordering::SeqCst);
                let flood = (number < most).then(|| Arc::clone(&frames));
                tokio::spawn(serve(stream, flood, before, Arc::clone(&noted)));
            }
        });
        Self { address, seen }
    }

    pub fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    pub fn stuck(&self) -> usize {
        self.seen.stuck.load(Ordering::SeqCst)
    }

    pub fn closed(&self) -> usize {
        self.seen.closed.load(Ordering::SeqCst)
    }

    /// Bytes that were sent in floods.
    pub fn bytes(&self) -> usize {
        self.seen.bytes.load(Ordering::SeqCst)
    }
}

async fn serve(
    mut stream: TcpStream,
    flood: Option<Arc<[u8]>>,
    before: Before,
    seen: Arc<Seen>,
) -> Option<()> {
    const ACK: u8 = 1;
    stream.read_exact(&mut [0; PREFACE_BYTES]).await.ok()?;
    let settings = [frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, ACK, 0, &[])].concat();
    stream.write_all(&settings).await.ok()?;
    loop {
        let came = read_frame(&mut stream).await?;
        if !matches!(came.kind, HEADERS | DATA) || came.flags & END_STREAM == 0 {
            continue;
        }
        let before = flood.as_ref().map_or(Before::Everything, |_| before);
        stream.write_all(&answer(came.stream, before)).await.ok()?;
        if let Some(frames) = flood {
            let (mut reader, mut writer) = stream.split();
            let pouring = pour(&mut writer, &frames, &seen);
            if before == Before::NothingButReads {
                // Writes alone do not show that the gateway has closed. If its receive buffer was full
                // then, its system takes no more bytes, and so resets nothing, for another minute.
                let mut sink = tokio::io::sink();
                tokio::select! {
                    () = pouring => {}
                    _ = tokio::io::copy(&mut reader, &mut sink) => {}
                }
            } else {
                pouring.await;
            }
            seen.closed.fetch_add(1, Ordering::SeqCst);
            return None;
        }
    }
}

fn answer(stream: u32, before: Before) -> Vec<u8> {
    let head = [(":status", "200"), ("content-type", "text/event-stream")];
    let head = frame(HEADERS, END_HEADERS, stream, &block(&head));
    let [first, ..] = events();
    match before {
        Before::Nothing | Before::NothingButReads => Vec::new(),
        Before::Part => [head, frame(DATA, 0, stream, first.as_bytes())].concat(),
        Before::Everything => {
            let body = events().concat();
            [head, frame(DATA, END_STREAM, stream, body.as_bytes())].concat()
        }
    }
}

/// Floods until a write fails.
async fn pour(stream: &mut WriteHalf<'_>, frames: &[u8], seen: &Seen) {
    /// The gateway reads nothing for that long only if it waits for this side to read.
    const STUCK: Duration = Duration::from_secs(1);
    let mut is_stuck = false;
    let mut rest = frames;
    loop {
        let written = tokio::time::timeout(STUCK, stream.write(rest)).await;
        match written {
            Ok(Ok(size)) => {
                seen.bytes.fetch_add(size, Ordering::SeqCst);
                rest = match &rest[size..] {
                    [] => frames,
                    rest => rest,
                };
            }
            Ok(Err(_)) => break,
            Err(_) if is_stuck => {}
            Err(_) => {
                is_stuck = true;
                seen.stuck.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}
