//! Callers that take their time: heads and bodies that trickle in, answers that are hardly
//! read. Each of them keeps at it for as long as it is let.

use super::{CHAT, Gateway, Request, bounded, prompt};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;

/// How long one pauses after each byte.
const TRICKLE: Duration = Duration::from_millis(200);

/// What one takes its time with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slowness {
    /// The head of a request.
    Head,
    /// The body of a request that is in good order so far, with a key.
    Body,
    /// Reading an answer of 8 MB, which is more than the sockets between here and there hold.
    Read,
}

impl Slowness {
    pub const ALL: [Self; 3] = [Self::Head, Self::Body, Self::Read];

    fn beginning(self, key: &str) -> Vec<u8> {
        match self {
            Self::Head => b"GET /v1 HTTP/1.1\r\nhost: gateway\r\nx: ".to_vec(),
            Self::Body => {
                let body = prompt(CHAT, "test-model", "Hi", Value::Null).to_string();
                let request = Request::post(CHAT, &Value::Null).key(key);
                // White space takes the place of what is missing.
                let (begun, _) = body.split_at(body.len() - 1);
                let mut bytes = request.body(body.clone() + &" ".repeat(8192)).head();
                bytes.extend_from_slice(begun.as_bytes());
                bytes
            }
            Self::Read => {
                let body = prompt(CHAT, "test-model", "Hi", json!({"stream": true}));
                let request = Request::post(CHAT, &body)
                    .key(key)
                    .orders("canned-stream-1000x8000");
                request.bytes()
            }
        }
    }
}

/// Slow callers of every kind, until they are dropped.
pub struct Crowd(Vec<(Slowness, JoinHandle<String>)>);

impl Crowd {
    /// So many of each kind, from two hundred addresses. They have begun when this returns.
    pub async fn gather(gateway: &Gateway, each: usize) -> Self {
        let mut tasks = Vec::new();
        for number in 0..each * Slowness::ALL.len() {
            let address = [127, 0, 1, u8::try_from(number % 200 + 1).unwrap()];
            let mut connection = narrow(address, gateway.address).await;
            let how = Slowness::ALL[number % Slowness::ALL.len()];
            let beginning = how.beginning(&gateway.key);
            connection.write_all(&beginning).await.unwrap();
            tasks.push((how, tokio::spawn(keep_at(how, connection))));
        }
        Self(tasks)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Waits until all of a kind have been cut: the last answer to each.
    pub async fn cut(&mut self, how: Slowness) -> Vec<String> {
        let mut reported = Vec::new();
        for (_, task) in self.0.iter_mut().filter(|(kind, _)| *kind == how) {
            reported.push(bounded("the end of a slow caller", task).await.unwrap());
        }
        reported
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for (_, task) in &self.0 {
            task.abort();
        }
    }
}

/// Goes on until the connection is closed; what has come over it by then, but for a reader.
async fn keep_at(how: Slowness, mut connection: TcpStream) -> String {
    if how == Slowness::Read {
        while connection.read_u8().await.is_ok() {
            tokio::time::sleep(TRICKLE).await;
        }
        return String::new();
    }
    let (mut reading, mut writing) = connection.split();
    let mut reported = Vec::new();
    let trickling = async {
        loop {
            tokio::time::sleep(TRICKLE).await;
            // Refused callers go on all the same, as attackers do.
            let _ = writing.write_all(b" ").await;
        }
    };
    tokio::select! {
        () = trickling => {}
        _ = reading.read_to_end(&mut reported) => {}
    }
    String::from_utf8_lossy(&reported).into_owned()
}

/// A connection from a certain loopback address that takes little before it is full.
pub async fn narrow(address: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    connect(socket, address, to).await
}

/// A connection from a certain loopback address.
pub async fn from(address: [u8; 4], to: SocketAddr) -> TcpStream {
    connect(TcpSocket::new_v4().unwrap(), address, to).await
}

async fn connect(socket: TcpSocket, address: [u8; 4], to: SocketAddr) -> TcpStream {
    socket.bind((address, 0).into()).unwrap();
    bounded("a connection", socket.connect(to)).await.unwrap()
}
