//! The HTTP server of the operator port: a bounded number of connections, and room for the
//! next one whatever the other clients do.
//!
//! A connection works while an operation of the admin API runs on it, and waits otherwise: for
//! a request head, for a body, or for the client to read. A waiting connection that completes
//! no request within [`PATIENCE`] is closed. It is closed earlier if a new connection needs
//! room, the longest-waiting one first, so that silent clients never keep a health check out.

use axum::Router;
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tollgate_engine::client::ClientNetwork;

/// Connections at one time. They fit the descriptors that `machine` keeps from callers.
const MOST: usize = 96;
/// Connections from one network at one time. More than operations run at one time, so that one
/// of them always waits.
const MOST_FROM_ONE: usize = 48;
/// How long a connection may wait. Longer than a body may take, so that a slow body is answered
/// with 408.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

/// Serves `app` until `stop` is done, then lets running requests finish.
pub(super) async fn serve(
    mut listener: TcpListener,
    app: Router,
    patience: Duration,
    stop: impl Future<Output = ()>,
) {
    let connections = GracefulShutdown::new();
    let mut room = Room::default();
    let mut stop = pin!(stop);
    loop {
        let (stream, client) = tokio::select! {
            accepted = Listener::accept(&mut listener) => accepted,
            () = &mut stop => break,
        };
        let network = ClientNetwork::from(client.ip());
        if !room.make(network) {
            continue;
        }
        let activity = Arc::new(Activity::default());
        let service = service(app.clone(), Arc::clone(&activity));
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        let serving = connections.watch(connection);
        let waiting = Arc::clone(&activity);
        let task = tokio::spawn(async move {
            tokio::select! {
                // A client that breaks the protocol or leaves is no concern of the log.
                _ = serving => {}
                () = waiting.runs_out(patience) => {}
            }
        });
        room.open.push(Open {
            network,
            activity,
            task: task.abort_handle(),
        });
        // What has come over this connection is read before a burst of others can take its place.
        tokio::task::yield_now().await;
    }
    drop(listener);
    connections.shutdown().await;
}

/// `app` for one connection: each request carries the connection's activity.
fn service(
    app: Router,
    activity: Arc<Activity>,
) -> impl Service<
    hyper::Request<Incoming>,
    Response = axum::response::Response,
    Error = std::convert::Infallible,
    Future: Send,
> {
    let app = TowerToHyperService::new(app);
    service_fn(move |mut request: hyper::Request<Incoming>| {
        activity.wait_anew();
        request.extensions_mut().insert(Arc::clone(&activity));
        app.call(request)
    })
}

/// The activity of a connection.
pub(super) struct Activity(Mutex<State>);

#[derive(Clone, Copy)]
enum State {
    WaitsSince(Instant),
    Works,
}

/// An operation runs on a connection for as long as this lives.
pub(super) struct Working(Arc<Activity>);

impl Default for Activity {
    fn default() -> Self {
        Self(Mutex::new(State::WaitsSince(Instant::now())))
    }
}

impl Activity {
    /// Marks the connection as working.
    pub(super) fn work(self: Arc<Self>) -> Working {
        *self.0.lock() = State::Works;
        Working(self)
    }

    /// The connection waits from now on.
    pub(super) fn wait_anew(&self) {
        *self.0.lock() = State::WaitsSince(Instant::now());
    }

    fn waits_since(&self) -> Option<Instant> {
        match *self.0.lock() {
            State::WaitsSince(since) => Some(since),
            State::Works => None,
        }
    }

    /// Returns when the connection has waited for `patience`.
    async fn runs_out(&self, patience: Duration) {
        loop {
            let waited = self.waits_since().map(|since| since.elapsed());
            let left = patience.saturating_sub(waited.unwrap_or_default());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.wait_anew();
    }
}

/// The open connections.
#[derive(Default)]
struct Room {
    open: Vec<Open>,
}

struct Open {
    network: ClientNetwork,
    activity: Arc<Activity>,
    task: AbortHandle,
}

impl Room {
    /// Makes room for a connection from `network`, by closing another one if necessary.
    /// `false` if all that could be closed work.
    fn make(&mut self, network: ClientNetwork) -> bool {
        self.open.retain(|it| !it.task.is_finished());
        let here = self.open.iter().filter(|it| it.network == network);
        let closed = if here.count() >= MOST_FROM_ONE {
            self.longest_waiting(|it| it.network == network)
        } else if self.open.len() >= MOST {
            let busiest = self.busiest_network();
            self.longest_waiting(|it| Some(it.network) == busiest)
        } else {
            return true;
        };
        if let Some(at) = closed {
            self.open.swap_remove(at).task.abort();
        }
        closed.is_some()
    }

    /// The network with the most connections that wait.
    fn busiest_network(&self) -> Option<ClientNetwork> {
        let mut counts: HashMap<ClientNetwork, usize> = HashMap::new();
        let waiting = self
            .open
            .iter()
            .filter(|it| it.activity.waits_since().is_some());
        for it in waiting {
            let count = counts.entry(it.network).or_default();
            *count = count.saturating_add(1);
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        most.map(|(network, _)| network)
    }

    fn longest_waiting(&self, may_be: impl Fn(&Open) -> bool) -> Option<usize> {
        let waiting = self.open.iter().enumerate().filter(|(_, it)| may_be(it));
        let waiting = waiting.filter_map(|(at, it)| Some((at, it.activity.waits_since()?)));
        let longest = waiting.min_by_key(|(_, since)| *since);
        longest.map(|(at, _)| at)
    }
}

#[cfg(test)]
mod tests;
