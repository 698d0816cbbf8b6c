//! A provider that misbehaves in ways that no proper server would: raw bytes on a socket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;

/// What is done once a request was read, in order.
#[derive(Clone, Debug)]
pub enum Act {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Waits until the peer leaves.
    Hang,
    /// Waits for the test.
    Wait(Arc<Notify>),
    /// Lets time pass.
    Pause(Duration),
    /// Resets the connection.
    Reset,
    /// Reads the first byte of another request.
    ReadByte,
    /// Reads another request.
    ReadRequest,
    /// Reads another request, and does everything again.
    Again,
}

impl Act {
    pub fn send(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Send(bytes.into())
    }
}

/// A listener that plays the same script on every connection, then closes it.
pub struct Upstream {
    pub address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Upstream {
    pub async fn playing(script: impl Into<Vec<Act>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = Self {
            address: listener.local_addr().unwrap(),
            requests: Arc::default(),
        };
        let requests = Arc::clone(&upstream.requests);
        let script = script.into();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(play(stream, script.clone(), Arc::clone(&requests)));
            }
        });
        upstream
    }

    /// How many requests have come.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

async fn play(mut stream: TcpStream, script: Vec<Act>, requests: Arc<AtomicUsize>) {
    if !read_request(&mut stream).await {
        return;
    }
    requests.fetch_add(1, Ordering::SeqCst);
    let mut acts = script.iter();
    while let Some(act) = acts.next() {
        match act {
            Act::Send(bytes) => {
                if stream.write_all(bytes).await.is_err() {
                    return;
                }
            }
            Act::Hang => while stream.read_u8().await.is_ok() {},
            Act::ReadByte => drop(stream.read_u8().await),
            Act::Pause(time) => tokio::time::sleep(*time).await,
            Act::Wait(reported) => reported.notified().await,
            Act::Reset => stream.set_zero_linger().unwrap(),
            Act::ReadRequest | Act::Again => {
                if !read_request(&mut stream).await {
                    return;
                }
                requests.fetch_add(1, Ordering::SeqCst);
                if matches!(act, Act::Again) {
                    acts = script.iter();
                }
            }
        }
    }
}

/// Reads a head and the body whose length it declares.
async fn read_request(stream: &mut TcpStream) -> bool {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return false,
        }
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |it| it.trim().parse().unwrap())];
    stream.read_exact(&mut body).await.is_ok()
}

/// A port without a listener, which no other process gets while this lives.
pub fn closed_port() -> (SocketAddr, TcpSocket) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    (socket.local_addr().unwrap(), socket)
}
