//! A collector of traces and a viewer of the dashboard, for a gateway that is measured.

use std::net::SocketAddr;
use std::time::Duration;

use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::failure::{Failure, Result};
use crate::machine;
use crate::provider;

const RECEIVED: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
/// Between two attempts to connect to a gateway that does not listen yet.
const PAUSE: Duration = Duration::from_millis(100);
/// Bound on the wait for the first event. The gateway sends one every two seconds.
const VIEW_LIMIT: Duration = Duration::from_secs(10);

/// The tasks of both. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct Watchers {
    view: watch::Receiver<View>,
    _tasks: JoinSet<()>,
}

/// The state of the viewer.
#[derive(Debug, Clone)]
enum View {
    Connecting,
    Receiving,
    Failed(String),
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
            "GET /api/v1/dashboard/stream HTTP/1.1\r\nhost: {admin}\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        let (state, view) = watch::channel(View::Connecting);
        tasks.spawn(async move {
            let reason = look(admin, request.as_bytes(), &state).await;
            state.send_replace(View::Failed(reason));
        });
        let watchers = Self {
            view,
            _tasks: tasks,
        };
        Ok((watchers, address))
    }

    /// Waits until the viewer has received an event.
    ///
    /// # Errors
    ///
    /// The gateway refuses the viewer, or sends no event within the limit.
    pub(crate) async fn until_receiving(&self) -> Result<()> {
        let mut view = self.view.clone();
        let settled = view.wait_for(|it| !matches!(it, View::Connecting));
        let waited = timeout(VIEW_LIMIT, settled).await;
        if waited.is_err() {
            return Err(Failure::TooSlow {
                what: "the first event of the dashboard".to_owned(),
                limit: VIEW_LIMIT,
            });
        }
        self.check()
    }

    /// Fails unless the viewer receives events.
    pub(crate) fn check(&self) -> Result<()> {
        match &*self.view.borrow() {
            View::Receiving => Ok(()),
            View::Connecting => Err(Failure::WrongAnswer("no dashboard is open".to_owned())),
            View::Failed(reason) => Err(Failure::WrongAnswer(reason.clone())),
        }
    }
}

/// Views the dashboard and returns why that ended.
async fn look(admin: SocketAddr, request: &[u8], state: &watch::Sender<View>) -> String {
    let stream = loop {
        match TcpStream::connect(admin).await {
            Ok(stream) => break stream,
            // The gateway does not listen yet.
            Err(_) => sleep(PAUSE).await,
        }
    };
    match view(stream, request, state).await {
        Ok(reason) => reason,
        Err(fault) => format!("the connection of the dashboard failed: {fault}"),
    }
}

async fn view(
    mut stream: TcpStream,
    request: &[u8],
    state: &watch::Sender<View>,
) -> std::io::Result<String> {
    stream.write_all(request).await?;
    let mut begun = Vec::new();
    let mut received = vec![0; 64 * 1024];
    loop {
        let count = stream.read(&mut received).await?;
        let received = received.get(..count).unwrap_or_default();
        if received.is_empty() {
            return Ok("the gateway closed the stream of the dashboard".to_owned());
        }
        if matches!(*state.borrow(), View::Receiving) {
            continue;
        }
        begun.extend_from_slice(received);
        let Some(end) = memmem::find(&begun, b"\r\n\r\n") else {
            continue;
        };
        if !begun.starts_with(b"HTTP/1.1 200 ") {
            let answer = String::from_utf8_lossy(&begun);
            let status = answer.lines().next().unwrap_or_default();
            return Ok(format!("the dashboard answers {status}"));
        }
        let body = begun.get(end..).unwrap_or_default();
        if memmem::find(body, b"\ndata: ").is_some() {
            state.send_replace(View::Receiving);
        }
    }
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
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::contender::{self, Contender};
    use crate::gateway::Setup;
    use crate::machine::{self, Machine};
    use crate::workload::SMALL;

    /// The gateway that the same `cargo test --workspace` has built.
    fn built_gateway() -> PathBuf {
        let own = contender::own_binary().unwrap();
        let folder = Path::new(&own).parent().and_then(Path::parent).unwrap();
        folder.join("tollgate")
    }

    #[tokio::test]
    async fn the_dashboard_of_a_gateway_is_viewed() {
        let provider = machine::free_address().unwrap();
        let serving = tokio::spawn(async move { provider::serve(&[provider]).await });
        let watched = Contender::gateway("watched", &built_gateway(), Setup::Watched);
        let watched = watched.expect("cargo test --workspace builds the gateway");
        let machine = Machine::prepare(true, machine::OPEN_FILES).unwrap();
        let mut running = watched.start(&machine, provider).await.unwrap();
        let target = &running.target;
        let answered = running.process.until_first_answer(target, &SMALL).await;
        answered.unwrap();
        running.until_watched().await.unwrap();
        drop(running.process);
        let ended = timeout(VIEW_LIMIT, async {
            let watchers = running.watchers.unwrap();
            while watchers.check().is_ok() {
                sleep(PAUSE).await;
            }
        });
        ended.await.expect("a viewer without a gateway is an error");
        serving.abort();
    }

    #[tokio::test]
    async fn a_dashboard_that_is_not_there_is_an_error() {
        let admin = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = admin.local_addr().unwrap();
        let (watchers, _) = Watchers::start(address, "secret").await.unwrap();
        assert!(watchers.check().is_err());
        let (mut viewer, _) = admin.accept().await.unwrap();
        let mut asked = vec![0; 1024];
        let read = viewer.read(&mut asked).await.unwrap();
        let asked = String::from_utf8_lossy(&asked[..read]).into_owned();
        assert!(asked.contains("Bearer secret\r\n"), "{asked}");
        let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
        viewer.write_all(answer).await.unwrap();
        let fault = watchers.until_receiving().await.unwrap_err().to_string();
        assert!(fault.contains("HTTP/1.1 404 Not Found"), "{fault}");
    }

    #[tokio::test]
    async fn traces_are_received() {
        let admin = machine::free_address().unwrap();
        let (_watchers, collector) = Watchers::start(admin, "secret").await.unwrap();
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
