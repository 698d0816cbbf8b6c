//! The server: takes connections and ends them in order. [`crate::routes`] answers the
//! requests.

use crate::{
    canned::{self, Canned},
    connection::{Connection, Switch},
    counters::{Counters, Observer, Received},
    replay::Recordings,
    routes,
    store::Store,
};
use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use std::{
    convert::Infallible, future::Future, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time,
};

/// How long a shutdown waits for answers that are still flowing.
const GRACE: Duration = Duration::from_secs(5);
/// What HTTP/2 begins with.
const HTTP2: &[u8] = b"PRI ";

/// How a simulated provider is started.
#[derive(Clone, Debug, Default)]
pub struct SimOptions {
    /// Answer everything with a prebuilt body, as fast as can be.
    pub canned: bool,
    /// The prebuilt bodies of `canned`.
    pub canned_answers: Canned,
    /// How many received requests to remember for [`Handle::received`]; 0 is none.
    pub remember: usize,
    /// What `replay-<n>` sends.
    pub recordings: Recordings,
}

/// A simulated provider that listens.
#[derive(Debug)]
pub struct Sim {
    listener: TcpListener,
    shared: Arc<Shared>,
}

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: SimOptions,
    pub(crate) canned: canned::Prebuilt,
    pub(crate) observer: Arc<Observer>,
    pub(crate) store: Store,
}

/// A look into a running server.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
}

impl SimOptions {
    /// Only prebuilt answers, for benchmarks.
    #[must_use]
    pub fn canned(mut self, canned: bool) -> Self {
        self.canned = canned;
        self
    }

    /// The prebuilt answers to send.
    #[must_use]
    pub fn canned_answers(mut self, answers: Canned) -> Self {
        self.canned_answers = answers;
        self
    }

    /// Remember the last `count` requests.
    #[must_use]
    pub fn remember(mut self, count: usize) -> Self {
        self.remember = count;
        self
    }

    /// The recordings to replay.
    #[must_use]
    pub fn recordings(mut self, recordings: Recordings) -> Self {
        self.recordings = recordings;
        self
    }

    /// Listens with these options; port 0 takes a free one.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub async fn bind(self, address: SocketAddr) -> io::Result<Sim> {
        Sim::bind(address, self).await
    }
}

impl Sim {
    /// Options to begin with: nothing canned, nothing remembered, nothing to replay.
    pub fn builder() -> SimOptions {
        SimOptions::default()
    }

    /// Listens on `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub async fn bind(address: SocketAddr, options: SimOptions) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let canned = canned::Prebuilt::new(&options.canned_answers);
        let observer = Observer::new(options.remember);
        let shared = Arc::new(Shared {
            options,
            canned,
            observer,
            store: Store::default(),
        });
        Ok(Self { listener, shared })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// A look into this server, to keep while it serves.
    pub fn handle(&self) -> Handle {
        Handle {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Serves until `shutdown` is there; then takes no more connections and gives the
    /// answers that are flowing five seconds to end.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let graceful = GracefulShutdown::new();
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => self.take(stream, &graceful),
                    Err(fault) => rest_after(&fault).await,
                },
            }
        }
        drop(self.listener);
        // Connections that do not end in time end with the program.
        let _ = time::timeout(GRACE, graceful.shutdown()).await;
    }

    fn take(&self, stream: TcpStream, graceful: &GracefulShutdown) {
        let shared = Arc::clone(&self.shared);
        // Without it the pieces of a stream would wait for each other's receipts.
        let _ = stream.set_nodelay(true);
        let watcher = graceful.watcher();
        tokio::spawn(async move {
            shared.observer.count(|counters| {
                counters.connections += 1;
                counters.open_connections += 1;
            });
            if shared.options.canned && !speaks_http2(&stream).await {
                let answered = canned::serve(stream, &shared.canned).await;
                shared
                    .observer
                    .count(|counters| counters.requests += answered);
            } else {
                converse(stream, &shared, watcher).await;
            }
            shared
                .observer
                .count(|counters| counters.open_connections -= 1);
        });
    }
}

impl Handle {
    /// What the server has seen so far.
    pub fn counters(&self) -> Counters {
        self.shared.observer.counters()
    }

    /// Waits until the counters are as wanted, and gives them. Bounding the wait is for
    /// the caller.
    pub async fn when(&self, wanted: impl FnMut(&Counters) -> bool) -> Counters {
        self.shared.observer.when(wanted).await
    }

    /// The requests that were received, oldest first, as many as it is set to remember.
    pub fn received(&self) -> Vec<Received> {
        self.shared.observer.received()
    }
}

/// Answers one connection, HTTP/1.1 or HTTP/2, until either side ends it.
async fn converse(
    stream: TcpStream,
    shared: &Arc<Shared>,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let switch = Arc::new(Switch::default());
    let connection = TokioIo::new(Connection::new(stream, Arc::clone(&switch)));
    let service = service_fn(|request| {
        let answer = routes::answer(Arc::clone(shared), Arc::clone(&switch), request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).half_close(false);
    builder.http2().timer(TokioTimer::new());
    let conversation = watcher.watch(builder.serve_connection(connection, service).into_owned());
    tokio::select! {
        ended = conversation => {
            if let Err(fault) = ended {
                log::debug!("a connection ended: {fault}");
            }
        }
        () = switch.thrown() => {}
    }
}

async fn speaks_http2(stream: &TcpStream) -> bool {
    let mut start = [0; HTTP2.len()];
    stream
        .peek(&mut start)
        .await
        .is_ok_and(|read| HTTP2.get(..read) == start.get(..read) && read > 0)
}

/// Out of file descriptors, most likely: taking the next connection at once would fail
/// at once.
async fn rest_after(fault: &io::Error) {
    const REST: Duration = Duration::from_millis(50);
    log::warn!("cannot take a connection: {fault}");
    time::sleep(REST).await;
}
