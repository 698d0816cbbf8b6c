//! A connection to PostgreSQL, without TLS, over which each statement takes a time that the test sets.

use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub struct SlowLink {
    pub address: SocketAddr,
    pause: watch::Sender<Duration>,
}

impl SlowLink {
    /// A link without a delay.
    pub async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (pause, current) = watch::channel(Duration::ZERO);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if let Ok(server) = TcpStream::connect(server).await {
                    tokio::spawn(carry(client, server, current.clone()));
                }
            }
        });
        Self { address, pause }
    }

    pub fn delay(&self, pause: Duration) {
        self.pause.send_replace(pause);
    }
}

async fn carry(client: TcpStream, server: TcpStream, pause: watch::Receiver<Duration>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let statements = async {
        let mut room = vec![0; 1 << 20];
        loop {
            let length = from_client.read(&mut room).await.unwrap_or(0);
            let bytes = &room[..length];
            // A client sends a statement at once, and waits for the answer. The first byte is 0 before a session
            // begins, and `p` while the client authenticates.
            match bytes.first() {
                None => return,
                Some(0 | b'p') => {}
                Some(_) => {
                    let pause = *pause.borrow();
                    tokio::time::sleep(pause).await;
                }
            }
            if to_server.write_all(bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = statements => {}
        _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
    }
}
