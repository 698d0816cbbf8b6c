//! Cuts the requests that outlast the grace period.
//!
//! Their futures are dropped, and an exchange that is dropped settles and writes its access line.
//! Pingora would do so too, but only after a sleep of fixed length; a process that ends before that
//! would lose the settlements.

use super::connections::http2_options;
use super::stop::{Ending, Sessions, idle_is_over};
use crate::gateway::Gateway;
use crate::snapshot::Current;
use async_trait::async_trait;
use futures::FutureExt as _;
use pingora_core::apps::{HttpServerApp, HttpServerOptions, ReusedHttpStream};
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::v2::server::H2Options;
use pingora_core::server::ShutdownWatch;
use pingora_proxy::HttpProxy;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;
use tokio::sync::watch;

/// A proxy whose requests end at once at the end of the grace period.
pub(super) struct InterruptibleProxy {
    proxy: Arc<HttpProxy<Gateway>>,
    current: Arc<Current>,
    end: Ends,
}

/// The signals of the program's end.
#[derive(Clone)]
pub(super) struct Ends {
    /// True once the running requests are cut.
    pub(super) cut: watch::Receiver<bool>,
    /// How the program ends.
    pub(super) ending: watch::Receiver<Ending>,
    /// Counts the open sessions of clients.
    pub(super) sessions: Sessions,
}

impl InterruptibleProxy {
    /// A proxy that ends by the signals in `end`.
    pub(super) fn new(proxy: HttpProxy<Gateway>, current: Arc<Current>, end: Ends) -> Self {
        Self {
            proxy: Arc::new(proxy),
            current,
            end,
        }
    }
}

impl InterruptibleProxy {
    /// Serves one request; `None` if its connection cannot be reused.
    pub(super) fn serve<'a>(
        &'a self,
        session: ServerSession,
        shutdown: &'a ShutdownWatch,
    ) -> impl Future<Output = Option<ReusedHttpStream>> + Send + 'a {
        // Outside of the future, which would keep room for the session.
        let served = self.proxy.process_new_http(session, shutdown);
        self.until_cut(served)
    }

    async fn until_cut(
        &self,
        mut served: impl Future<Output = Option<ReusedHttpStream>> + Unpin,
    ) -> Option<ReusedHttpStream> {
        let _session = self.end.sessions.begin();
        let mut cut = self.end.cut.clone();
        let mut cut = pin!(cut.wait_for(|cut| *cut).fuse());
        let mut waiting: Option<Waker> = None;
        poll_fn(|context| {
            if let Poll::Ready(reusable) = Pin::new(&mut served).poll(context) {
                return Poll::Ready(reusable);
            }
            // The cut wakes the earlier waiter. A new waiter for every piece of a stream would
            // cost more than the filters of the piece.
            let waits = waiting.as_ref();
            if waits.is_some_and(|it| it.will_wake(context.waker())) && !self.may_be_cut() {
                return Poll::Pending;
            }
            waiting = Some(context.waker().clone());
            match cut.as_mut().poll(context) {
                Poll::Ready(Ok(_)) => Poll::Ready(None),
                // Without a sender, nothing is cut any more.
                Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// Whether the signal has changed.
    fn may_be_cut(&self) -> bool {
        self.end.cut.has_changed().unwrap_or(false)
    }
}

#[async_trait]
impl HttpServerApp for InterruptibleProxy {
    async fn process_new_http(
        self: &Arc<Self>,
        session: ServerSession,
        shutdown: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        self.serve(session, shutdown).await
    }

    fn h2_options(&self) -> Option<H2Options> {
        // Asked for with each connection.
        Some(http2_options(&self.current.load().limits))
    }

    fn server_options(&self) -> Option<&HttpServerOptions> {
        self.proxy.server_options()
    }

    async fn http_cleanup(&self) {
        // Until then the gateway answers further requests and asks their clients to reconnect.
        // Connections that were used later get that with their answers.
        idle_is_over(self.end.ending.clone(), Instant::now()).await;
        self.proxy.http_cleanup().await;
    }
}
