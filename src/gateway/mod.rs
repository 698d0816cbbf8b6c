//! The gateway on Pingora: the phases of a request, in order. Each calls the module that does its work.
//!
//! 1. [`admission`]: path, key, body, filters, model. A request that the gateway answers itself ends here.
//!    [`stage`] has what is known of the request.
//! 2. [`attempt`]: a candidate, its peer and its head, until one answers. [`timer`] limits the time,
//!    [`failure`] decides what follows a failure.
//! 3. [`answer`]: holds the answer until it can be committed; then [`forward`] sends it.
//! 4. [`respond`]: writes heads and bodies to the client.
//! 5. [`settlement`]: charges the request before its last bytes are sent.
//! 6. [`record`]: metrics, one line of the access log and the [`trace`], once for each request.

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
use answer::{Next, UpstreamHead};
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
use pingora_core::{Error, ErrorSource, ErrorType, Result, RetryType};
use pingora_proxy::{FailToProxy, ProxyHttp, Session};
use respond::Local;
use std::sync::Arc;
use std::time::{Duration, Instant};
use timer::BacklogSource;
use tollgate_telemetry::access_log::AccessLog;
use tollgate_telemetry::clock;
use tollgate_traces::Traces;
use tollgate_types::RequestId;
use tollgate_wire::fault::UpstreamFault;

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

/// Pingora does not write a head with this status: it stands for the final head until that is committed.
const NOT_YET: u16 = 103;

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
        // No request asks for an upgrade, and Pingora would forward a 101 unchanged.
        if head.status == http::StatusCode::SWITCHING_PROTOCOLS {
            let again = failure::note(exchange, UpstreamFault::broken_answer(), None);
            return Err(failure::end_attempt(again));
        }
        if head.status.is_informational() {
            // Each one restarts Pingora's read time-out.
            return match exchange.timer.is_over(Instant::now()) {
                true => {
                    let again = failure::note(exchange, UpstreamFault::response_timeout(), None);
                    Err(failure::end_attempt(again))
                }
                false => Ok(()),
            };
        }
        let held = std::mem::replace(head, ResponseHeader::build(NOT_YET, Some(0))?);
        let parts = http::response::Parts::from(held);
        let upstream = UpstreamHead {
            status: parts.status.as_u16(),
            headers: parts.headers,
        };
        let Some(expected) = outgoing::expectation(exchange) else {
            return Error::e_explain(
                ErrorType::InternalError,
                "an answer arrived without a request",
            );
        };
        let now = Instant::now();
        let begun = match exchange.timer.is_over(now) {
            true => Err(UpstreamFault::response_timeout()),
            false => exchange.answer.begin(upstream, expected, now),
        };
        match begun {
            Ok(()) => {
                exchange.timer.note(exchange.answer.progress(), now);
                drain::look(exchange);
                if exchange.answer.is_stream() {
                    exchange.timer.expect_events();
                }
                Ok(())
            }
            Err(fault) => {
                let again = failure::note(exchange, fault, None);
                Err(failure::end_attempt(again))
            }
        }
    }

    fn response_body_filter(
        &self,
        session: &mut Session,
        body: &mut Option<Bytes>,
        end: bool,
        exchange: &mut Self::CTX,
    ) -> Result<Option<Duration>> {
        self.may_leave(session);
        let written = session.body_bytes_sent();
        exchange.sent.bytes = written;
        let bytes = body.as_ref().map_or(0, Bytes::len);
        if !exchange.caller.note_bytes(bytes, &exchange.snapshot.drain) {
            let error = Error::explain(ErrorType::ConnectionClosed, "more than is drained");
            return Err(error.into_down());
        }
        let now = Instant::now();
        match forward::take_piece(exchange, body.take(), end, written, now) {
            Next::Hold => {}
            Next::Pass(piece) => {
                outcome::before_send(exchange, now);
                settlement::before_send(exchange, now);
                *body = Some(exchange.timer.hand_over(piece));
            }
            Next::Commit {
                head,
                body: first,
                length,
            } => {
                outcome::before_send(exchange, now);
                count::before_send(exchange, &first);
                respond::commit(session, exchange, &head, length, now)?;
                *body = Some(exchange.timer.hand_over(first));
            }
            Next::Finish { head } => {
                outcome::before_send(exchange, now);
                match head {
                    Some(head) => respond::commit(session, exchange, &head, None, now)?,
                    None => settlement::before_send(exchange, now),
                }
                // The rest of the answer follows in `fail_to_proxy`.
                return Err(failure::end_attempt(false));
            }
            Next::Fail(fault) => {
                let committed = is_committed(session);
                let again = failure::note(exchange, fault, None) && !committed;
                // Counting can take milliseconds, and this hook must not wait.
                if again || committed || !end || count::can_stand_in(exchange) {
                    return Err(failure::end_attempt(again));
                }
                forward::commit_error(session, exchange, body)?;
            }
        }
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
        mut error: Box<Error>,
        exchange: &mut Self::CTX,
        reused: bool,
    ) -> Box<Error> {
        let sends_body = exchange.timer.sends_body();
        exchange.timer.stop();
        if error.etype == failure::ATTEMPT_FAILED {
            return error;
        }
        if error.etype == ErrorType::H2Downgrade {
            outcome::requires_http1(exchange);
        }
        let committed = is_committed(session);
        if *error.esource() == ErrorSource::Downstream {
            if sends_body && session.upstream_body_bytes_sent() == Some(0) {
                // The client left before the provider had the request, mostly while the gateway connected.
                failure::retract(exchange);
                exchange.attempts.end_unsent();
            }
            error.retry = RetryType::Decided(false);
            return error;
        }
        let was_not_taken = failure::was_not_taken(exchange, &error, reused, sends_body);
        let was_stale = was_not_taken && !exchange.timer.has_fired();
        let can_be_sent = exchange.can_send_body();
        if was_stale && !committed && can_be_sent && exchange.attempts.tally.may_go_on() {
            // The provider closed a kept connection: this is not its fault and does not count as an attempt.
            // The same candidate is tried again.
            failure::retract(exchange);
            error.retry = RetryType::Decided(true);
            return error;
        }
        if committed && exchange.answer.is_complete() {
            // The answer is complete.
            error.retry = RetryType::Decided(false);
            return error;
        }
        if exchange.awaits_body() {
            // The provider is not at fault if the body does not end.
            outcome::over(exchange);
        }
        if failure::is_slow_client(exchange, &error) {
            // The provider was silent because the caller was.
            let mut error = Error::explain(ErrorType::ReadTimedout, "the body does not end");
            error.retry = RetryType::Decided(false);
            return error.into_down();
        }
        let fault = failure::of_connection(exchange, &error);
        let again = failure::note(exchange, fault, Some(&*error)) && !committed;
        error.retry = RetryType::Decided(again);
        error
    }

    async fn fail_to_proxy(
        &self,
        session: &mut Session,
        error: &Error,
        exchange: &mut Self::CTX,
    ) -> FailToProxy {
        // Zero: Pingora has nothing to write or count.
        let done = FailToProxy {
            error_code: 0,
            can_reuse_downstream: false,
        };
        if *error.esource() == ErrorSource::Downstream {
            let is_stalled = error.etype == ErrorType::ReadTimedout;
            let refusal = exchange
                .take_refusal()
                .or_else(|| is_stalled.then(body::took_too_long));
            if let Some(refusal) = refusal
                && !is_committed(session)
            {
                session.set_keepalive(None);
                let answer = Local::error(refusal);
                // A client that no longer sends can still read.
                let _ = respond::write(session, exchange, answer).await;
            }
            return done;
        }
        let outcome = if is_committed(session) {
            forward::finish_broken_stream(session, exchange).await
        } else {
            if exchange.failures.shown().is_none() {
                log::error!("{}: {error}", exchange.id);
            }
            session.set_keepalive(None);
            let answer = forward::last_answer(exchange).await;
            respond::write(session, exchange, answer).await
        };
        if let Err(gone) = outcome {
            log::debug!("{}: the client has disconnected: {gone}", exchange.id);
        }
        done
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
            if let Err(gone) = forward::finish_held(session, exchange).await {
                log::debug!("{}: the client has disconnected: {gone}", exchange.id);
            }
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
