//! The operator's listener: metrics, health and the admin API, on a runtime of its own.

use super::api::{self, Api};
use super::connections::{self, PATIENCE};
use super::ledger_metrics;
use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tollgate_ledger::{Ledger, Limiter, Memory};
use tollgate_telemetry::events::families::{Labels, gauges};
use tollgate_telemetry::events::{self, PageFormat};

/// Whether the gateway accepts new clients, and if not, why.
#[derive(Clone, Default)]
pub struct Readiness(Arc<AtomicU8>);

impl Readiness {
    const SERVES: u8 = 1;
    const ENDS: u8 = 2;

    /// The process, which has started, accepts new clients.
    pub fn serve(&self) {
        self.0.store(Self::SERVES, Ordering::Release);
    }

    /// The process ends.
    pub fn end(&self) {
        self.0.store(Self::ENDS, Ordering::Release);
    }

    /// The answer of `/readyz`.
    fn answer(&self, is_fenced: bool) -> (StatusCode, &'static str) {
        let reason = match self.0.load(Ordering::Acquire) {
            _ if is_fenced => "not ready: this process is fenced in the ledger, and ends\n",
            Self::SERVES => return (StatusCode::OK, "ready\n"),
            Self::ENDS => "not ready: this process ends\n",
            _ => "not ready: this process starts\n",
        };
        (StatusCode::SERVICE_UNAVAILABLE, reason)
    }
}

/// Binds the address, so that one in use is reported before anything serves.
///
/// # Errors
///
/// The address cannot be bound.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    /// Clients that wait to be accepted. A client beyond them tries again a second later, which is
    /// too late for a health check.
    const BACKLOG: i32 = 1024;
    let listener = TcpListener::bind(address)?;
    rustix::net::listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves the operator until `shutdown` is done.
///
/// # Errors
///
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    readiness: Readiness,
    api: &Arc<Api>,
    ledger: Ledger,
    memory: Arc<Memory>,
    limiter: Limiter,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let fenced = ledger.clone();
    let metrics = Arc::new(Metrics {
        readiness: readiness.clone(),
        ledger,
        memory,
        limiter,
        writing: Semaphore::new(1),
    });
    let open = Router::new()
        .route(
            "/metrics",
            get(move |headers: HeaderMap| metrics.answer(headers)),
        )
        // Alive: it answers. Ready: it takes requests, and is not on its way out.
        .route("/healthz", get(|| async { "ok\n" }))
        .route(
            "/readyz",
            get(move || async move { readiness.answer(fenced.is_fenced()) }),
        );
    let listener = tokio::net::TcpListener::from_std(listener)?;
    // A stream of the dashboard has no end of its own.
    let stop = async {
        shutdown.await;
        api.dashboard().close();
    };
    connections::serve(listener, api::with_guard(api, open), PATIENCE, stop).await;
    Ok(())
}

/// The page of metrics.
struct Metrics {
    readiness: Readiness,
    ledger: Ledger,
    memory: Arc<Memory>,
    limiter: Limiter,
    /// One permit: one page is written at a time.
    writing: Semaphore,
}

impl Metrics {
    /// Writes the page on another thread, because health checks must not wait for it.
    async fn answer(self: Arc<Self>, headers: HeaderMap) -> Response {
        let Ok(_writing) = self.writing.acquire().await else {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        };
        let accept = headers.get(header::ACCEPT);
        let format = PageFormat::accepted(accept.and_then(|accept| accept.to_str().ok()));
        let metrics = Arc::clone(&self);
        match spawn_blocking(move || metrics.page(format)).await {
            Ok(page) => ([(header::CONTENT_TYPE, format.media_type())], page).into_response(),
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }

    fn page(&self, format: PageFormat) -> String {
        let (status, _) = self.readiness.answer(self.ledger.is_fenced());
        let mut families = ledger_metrics::families(&self.ledger.stats());
        families.push(gauges(
            "tollgate_ready",
            "1 if /readyz accepts: the process takes requests. Else 0.",
            [(&[] as Labels<'_>, f64::from(u8::from(status.is_success())))],
        ));
        families.extend(ledger_metrics::remembered(&self.memory.stats()));
        let shared = self.limiter.shared_stats();
        families.extend(shared.iter().flat_map(ledger_metrics::shared_limits));
        events::exposition(format, families)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_not_ready_has_a_reason() {
        let readiness = Readiness::default();
        let answer = |is_fenced| {
            let (status, line) = readiness.answer(is_fenced);
            (status.as_u16(), line)
        };
        assert_eq!(answer(false), (503, "not ready: this process starts\n"));
        readiness.serve();
        assert_eq!(answer(false), (200, "ready\n"));
        let (status, line) = answer(true);
        assert!(status == 503 && line.contains("fenced"), "{line}");
        readiness.end();
        assert_eq!(answer(false), (503, "not ready: this process ends\n"));
    }
}
