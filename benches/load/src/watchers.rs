//! A collector of traces and a viewer of the dashboard, for a gateway that is measured.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::failure::{Failure, Result};
use crate::machine;
use crate::provider;

const RECEIVED: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
/// How soon a viewer connects again.
const PAUSE: Duration = Duration::from_millis(100);

/// The tasks of both. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct Watchers {
    _tasks: JoinSet<()>,
}

impl Watchers {
    /// Starts both for the gateway with this operator port and token. Returns them and the address of the
    /// collector, for OTLP over HTTP.
    pub(crate) async fn start(admin: SocketAddr, token: &str) -> Result<(Self, SocketAddr)> {
        let address = machine::free_address()?;
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| Failure::io(format!("listen on {address}"), source))?;
        let mut tasks = JoinSet::new();
        tasks.spawn(collect(listener));
        let request = format!(
            "GET /v1/dashboard/stream HTTP/1.1\r\nhost: {admin}\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        tasks.spawn(async move {
            loop {
                // It may not listen yet.
                let _ = view(admin, request.as_bytes()).await;
                sleep(PAUSE).await;
            }
        });
        Ok((Self { _tasks: tasks }, address))
    }
}

async fn view(admin: SocketAddr, request: &[u8]) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(admin).await?;
    stream.write_all(request).await?;
    let mut received = vec![0; 64 * 1024];
    while stream.read(&mut received).await? > 0 {}
    Ok(())
}

async fn collect(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut received = Vec::new();
        while let Ok(Some(length)) = provider::read_whole(&mut stream, &mut received).await {
            received.drain(..length);
            if stream.write_all(RECEIVED).await.is_err() {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_gateway_is_asked_for_its_dashboard_and_its_traces_are_received() {
        let admin = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (_watchers, collector) = Watchers::start(admin.local_addr().unwrap(), "secret")
            .await
            .unwrap();
        let (mut viewer, _) = admin.accept().await.unwrap();
        let mut asked = vec![0; 1024];
        let read = viewer.read(&mut asked).await.unwrap();
        let asked = String::from_utf8_lossy(&asked[..read]).into_owned();
        assert!(asked.contains("Bearer secret\r\n"), "{asked}");
        let mut exporter = TcpStream::connect(collector).await.unwrap();
        let export = b"POST /v1/traces HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc";
        let mut answer = vec![0; RECEIVED.len()];
        for _ in 0..2 {
            exporter.write_all(export).await.unwrap();
            exporter.read_exact(&mut answer).await.unwrap();
            assert_eq!(answer, RECEIVED);
        }
    }
}
