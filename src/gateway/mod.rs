//! The gateway on Pingora. Each hook of [`ProxyHttp`] is a phase of a request, in order, and calls the module that
//! does its work; all of them share the [`exchange`].
//!
//! 1. `request_filter`: [`admission`] checks path, key, body, filters and model. A request that the gateway answers
//!    itself ends here. [`stage`] has what is known of the request.
//! 2. `upstream_peer` to `request_body_filter`, for each attempt: [`attempt`] chooses a candidate and its peer,
//!    [`outgoing`] builds the request to it, [`timer`] limits the time.
//! 3. `response_filter` to `response_trailer_filter`: [`answer`] holds the answer until it can be committed,
//!    [`forward`] sends it through [`respond`], and [`settlement`] charges it before its last bytes.
//! 4. `fail_to_connect`, `error_while_proxy`: [`failure`] decides whether another attempt follows.
//! 5. `fail_to_proxy`: no attempt follows. [`forward`] sends the error, or ends the answer with it.
//! 6. `logging`: [`record`] writes metrics, one line of the access log and the [`trace`], once for each request.

mod admission;
mod affinity;
mod answer;
mod arrival;
mod attempt;
mod body;
mod budget;
mod count;
mod deadlines;
mod disconnect;
mod drain;
mod exchange;
mod failure;
mod forward;
mod guarded;
mod load;
mod memory_admission;
mod memory_permit;
mod outcome;
mod outgoing;
mod passthrough;
mod reader;
mod record;
mod remembered;
mod respond;
mod route_reason;
mod sent;
mod settlement;
mod stage;
mod stored;
mod streamed_body;
mod timer;
mod trace;
mod unflushed;
mod unpack;
mod upload_progress;
mod watch;

pub use drain::{Drain, Draining};
pub use guarded::Backlog;
pub use stored::holder;

use crate::snapshot::{Current, Snapshot};
use admission::Admission;
use async_trait::async_trait;
use attempt::Tally;
pub use budget::RetryBudgets;
use bytes::Bytes;
use drain::CallerWatch;
use exchange::Exchange;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora_core::protocols::Digest;
use pingora_core::protocols::http::ServerSession;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorType, Result};
use pingora_proxy::{FailToProxy, ProxyHttp, Session};
use std::sync::Arc;
use std::time::{Duration, Instant};
use timer::BacklogSource;
use tollgate_telemetry::access_log::AccessLog;
use tollgate_telemetry::clock;
use tollgate_traces::Traces;
use tollgate_types::RequestId;

/// The proxy that serves clients.
pub struct Gateway {
    current: Arc<Current>,
    retries: Arc<RetryBudgets>,
    access_log: AccessLog,
    traces: Traces,
    connection: ConnectionOf,
    leaves: Leaves,
}

/// The state that the gateway shares with a client's HTTP/1.1 connection.
pub struct CallerConnection {
    /// Whether the client has unread bytes.
    pub backlog: Backlog,
    /// Whether the connection reports that the client has disconnected.
    pub drain: Drain,
}

/// Finds the state that is shared with a client's connection. `None` if it does not speak HTTP/1.1.
pub type ConnectionOf = fn(&ServerSession) -> Option<CallerConnection>;

/// Whether this process is about to end, so that clients must not reuse their connections.
pub type Leaves = Box<dyn Fn() -> bool + Send + Sync>;

impl Gateway {
    /// The most attempts that Pingora allows; the exchange limits them further.
    pub const MOST_ATTEMPTS: usize = Tally::MOST;

    /// A gateway that serves each request with the configuration in `current` when the request begins.
    pub const fn new(
        current: Arc<Current>,
        retries: Arc<RetryBudgets>,
        access_log: AccessLog,
        traces: Traces,
        connection: ConnectionOf,
        leaves: Leaves,
    ) -> Self {
        Self {
            current,
            retries,
            access_log,
            traces,
            connection,
            leaves,
        }
    }

    /// Lets the head of an answer say `connection: close` if this process is about to end, even for requests
    /// that came earlier. Call it before the head is written.
    fn may_leave(&self, session: &mut Session) {
        // The cheaper check comes first, because this runs for each piece of a stream.
        if !is_committed(session) && (self.leaves)() {
            session.set_keepalive(None);
        }
    }
}

fn log_gone(exchange: &Exchange, outcome: Result<()>) {
    if let Err(gone) = outcome {
        log::debug!("{}: the client has disconnected: {gone}", exchange.id);
    }
}

/// Whether the client has the head of an answer. Pingora counts `100 Continue` as one.
fn is_committed(session: &Session) -> bool {
    let written = session.response_written();
    written.is_some_and(|head| !head.status.is_informational())
}

#[async_trait]
impl ProxyHttp for Gateway {
    // Boxed: Pingora keeps the context inside the future of the whole exchange and moves that.
    type CTX = Box<Exchange>;

    fn new_ctx(&self) -> Self::CTX {
        let id = RequestId::from_parts(clock::unix_ms(), fastrand::u128(..));
        Box::new(Exchange::new(
            id,
            self.current.load_full(),
            Arc::clone(&self.retries),
            self.access_log.clone(),
        ))
    }

    fn init_downstream_modules(&self, _: &mut pingora_core::modules::http::HttpModules) {
        // None: they would buffer streams, and cost an allocation per request.
    }

    async fn request_filter(
        &self,
        session: &mut Session,
        exchange: &mut Self::CTX,
    ) -> Result<bool> {
        exchange.arrival.read(session, &exchange.snapshot);
        let headers = &session.req_header().headers;
        exchange.trace = self.traces.begin(headers, exchange.arrival.at);
        prepare_connection(session, &exchange.snapshot);
        match admission::admit(session, exchange).await {
            Admission::Forward => Ok(false),
            Admission::Answer(answer) => {
                self.may_leave(session);
                respond::write(session, exchange, answer)
                    .await
                    .map_err(|e| e.into_down())?;
                Ok(true)
            }
            Admission::Gone(error) => Err(error),
        }
    }

    async fn upstream_peer(
        &self,
        session: &mut Session,
        exchange: &mut Self::CTX,
    ) -> Result<Box<HttpPeer>> {
        // The answer of an earlier attempt is discarded.
        exchange.answer = answer::Answer::default();
        exchange.caller.forbid_drain();
        exchange.timer.stop();
        if let Some(pause) = exchange.attempts.begin_pause() {
            let pause = tokio::time::sleep(pause);
            disconnect::while_connected(session, pause).await?;
            exchange.attempts.end_pause();
        }
        match attempt::next_peer(exchange).and_then(|peer| count::limit_timeouts(exchange, peer)) {
            Some(peer) => Ok(peer),
            None => Err(failure::end_attempts(exchange)),
        }
    }

    fn fail_to_connect(
        &self,
        _: &mut Session,
        peer: &HttpPeer,
        exchange: &mut Self::CTX,
        cause: Box<Error>,
    ) -> Box<Error> {
        failure::connecting(exchange, peer, &cause)
    }

    async fn connected_to_upstream(
        &self,
        _: &mut Session,
        is_reused: bool,
        _: &HttpPeer,
        connection: std::os::fd::RawFd,
        _: Option<&Digest>,
        exchange: &mut Self::CTX,
    ) -> Result<()> {
        // After too many stale connections, the remaining attempts are for other candidates.
        let may_be_stale = is_reused && exchange.attempts.tally.may_be_stale();
        exchange.timer.connected(connection, may_be_stale);
        Ok(())
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        upstream: &mut RequestHeader,
        exchange: &mut Self::CTX,
    ) -> Result<()> {
        let Some(mut head) = outgoing::begin(exchange, session) else {
            log::error!(
                "{}: the request head for the provider cannot be built",
                exchange.id
            );
            failure::retract(exchange);
            return Err(failure::end_attempt(false));
        };
        // The connection determines the version of HTTP: Pingora panics on a head of HTTP/1.1 for a
        // connection of HTTP/2.
        let is_http2 = upstream.version == http::Version::HTTP_2;
        if is_http2 {
            head.set_version(upstream.version);
        }
        *upstream = head;
        if is_http2 && exchange.timer.gives_up_kept() {
            // The runtime must notice the end of the connection before another one is chosen.
            tokio::time::sleep(Duration::from_millis(1)).await;
            return Err(failure::ask_again_unsent(exchange));
        }
        let connection = (self.connection)(session.as_downstream());
        let (backlog, drain) = connection.map(|it| (it.backlog, it.drain)).unzip();
        exchange.caller = CallerWatch::over(drain);
        let source = backlog.map_or(BacklogSource::Stream, BacklogSource::Connection);
        if !exchange.timer.watch(source, is_http2) {
            return Err(failure::ask_again_unsent(exchange));
        }
        // From here on, the caller gets neither the provider's 1xx heads nor a final head before it is
        // committed.
        session.as_downstream_mut().set_ignore_info_resp(true);
        Ok(())
    }

    async fn request_body_filter(
        &self,
        _: &mut Session,
        body: &mut Option<Bytes>,
        end: bool,
        exchange: &mut Self::CTX,
    ) -> Result<()> {
        if let Some(upload) = exchange.upload_mut() {
            if end {
                upload.wait_until_taken().await;
            }
            let (piece, now) = (body.take().unwrap_or_default(), Instant::now());
            let passed = upload.pass(piece, end, now).map_err(|()| {
                Error::explain(ErrorType::InvalidHTTPHeader, "the body is refused").into_down()
            })?;
            *body = Some(passed);
            exchange.timer.restart(now, end);
            return Ok(());
        }
        let whole = exchange.attempts.outgoing.body.take();
        *body = whole.map(|whole| attempt::send(exchange, whole));
        Ok(())
    }

    async fn response_filter(
        &self,
        _: &mut Session,
        head: &mut ResponseHeader,
        exchange: &mut Self::CTX,
    ) -> Result<()> {
        forward::take_head(exchange, head)
            .map_err(|fault| failure::fail_attempt(exchange, fault, None))
    }

    fn response_body_filter(
        &self,
        session: &mut Session,
        body: &mut Option<Bytes>,
        end: bool,
        exchange: &mut Self::CTX,
    ) -> Result<Option<Duration>> {
        self.may_leave(session);
        forward::pass_piece(session, exchange, body, end)?;
        Ok(None)
    }

    fn upstream_response_trailer_filter(
        &self,
        session: &mut Session,
        _: &mut http::HeaderMap,
        exchange: &mut Self::CTX,
    ) -> Result<()> {
        // Trailers end the body. Pingora ignores an error of the next hook, so this one decides.
        let mut last = None;
        self.response_body_filter(session, &mut last, true, exchange)?;
        exchange.answer.keep_last(last);
        Ok(())
    }

    async fn response_trailer_filter(
        &self,
        _: &mut Session,
        _: &mut http::HeaderMap,
        exchange: &mut Self::CTX,
    ) -> Result<Option<Bytes>> {
        // The last piece of the body takes the place of the trailers, which do not pass.
        Ok(Some(exchange.answer.take_last().unwrap_or_default()))
    }

    fn error_while_proxy(
        &self,
        _: &HttpPeer,
        session: &mut Session,
        error: Box<Error>,
        exchange: &mut Self::CTX,
        reused: bool,
    ) -> Box<Error> {
        failure::broken(session, exchange, error, reused)
    }

    async fn fail_to_proxy(
        &self,
        session: &mut Session,
        error: &Error,
        exchange: &mut Self::CTX,
    ) -> FailToProxy {
        let outcome = forward::finish_failed(session, exchange, error).await;
        log_gone(exchange, outcome);
        // Zero: Pingora has nothing to write or count.
        FailToProxy {
            error_code: 0,
            can_reuse_downstream: false,
        }
    }

    async fn logging(
        &self,
        session: &mut Session,
        error: Option<&Error>,
        exchange: &mut Self::CTX,
    ) {
        exchange.timer.stop();
        if !exchange.sent.has_head() && error.is_none() {
            // The answer had no body.
            self.may_leave(session);
            let outcome = forward::finish_held(session, exchange).await;
            log_gone(exchange, outcome);
        }
        settlement::settle(exchange, error);
        exchange.sent.bytes = session.body_bytes_sent();
        record::record(exchange, error);
    }

    fn suppress_error_log(&self, _: &Session, _: &Self::CTX, _: &Error) -> bool {
        // Logged already, with the request's identifier and without anything private.
        true
    }

    fn suppress_proxy_warn_log(
        &self,
        _: &Session,
        _: &Self::CTX,
        _: &Error,
        _: pingora_proxy::ProxyWarnLogContext,
    ) -> bool {
        true
    }
}

fn prepare_connection(session: &mut Session, snapshot: &Snapshot) {
    /// How long reading an unread body can take before the connection is used again.
    const DRAIN: Duration = Duration::from_secs(5);
    let limits = &snapshot.limits;
    if session.get_keepalive().is_some() {
        session.set_keepalive(Some(limits.keepalive.as_secs()));
    }
    let downstream = session.as_downstream_mut();
    downstream.set_write_timeout(Some(limits.write));
    downstream.set_read_timeout(Some(limits.body.time));
    downstream.set_total_drain_timeout(Some(DRAIN));
    downstream.set_pipelining_enabled(true);
}
