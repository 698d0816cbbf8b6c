//! After a failed attempt: another attempt, or an error for the client.
//!
//! `tollgate_wire::fault` classifies failures; `attempt.rs` chooses the next candidate.

use super::attempt::Tally;
use super::exchange::Exchange;
use super::is_committed;
use super::stage::Stage;
use super::streamed_body::StreamedBody;
use super::{attempt, count, outcome, passthrough, respond, stored, trace};
use crate::upstreams::is_out_of_files;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorSource, ErrorType, RetryType};
use pingora_proxy::Session;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate_routing::UpstreamModel;
use tollgate_telemetry::events;
use tollgate_telemetry::recent::FailedAttempt;
use tollgate_types::PublicError;
use tollgate_wire::fault::{FaultClass, UpstreamFault};

/// Marks an error that stands for [`Failures::shown`].
const ATTEMPT_FAILED: ErrorType = ErrorType::Custom("attempt failed");

/// How soon a kept connection that the provider has closed shows an error.
const STALE_WITHIN: Duration = Duration::from_secs(2);

/// The longest wait for an only candidate.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The failures of a request's attempts.
#[derive(Default)]
pub struct Failures {
    shown: Option<UpstreamFault>,
    attempts: Vec<FailedAttempt>,
}

impl Failures {
    /// The most attempts that are noted.
    const MOST: usize = 16;

    /// The failure that the client gets.
    pub const fn shown(&self) -> Option<&UpstreamFault> {
        self.shown.as_ref()
    }

    /// The attempts that failed, for the dashboard.
    pub fn attempts(&self) -> &[FailedAttempt] {
        &self.attempts
    }

    /// Whether the request failed because the answer does not have the form that it asks for.
    pub fn has_unfit_answer(&self) -> bool {
        let fault = self.shown.as_ref();
        fault.is_some_and(|fault| fault.class == FaultClass::UnfitAnswer)
    }

    /// Notes that a deployment has failed, or that its provider has no address.
    pub fn note_attempt(&mut self, deployment: Arc<str>, fault: &UpstreamFault, after: Duration) {
        if self.attempts.len() < Self::MOST {
            self.attempts.push(FailedAttempt {
                deployment,
                class: fault.class.as_str(),
                status: fault.status,
                after,
            });
        }
    }

    /// Shows this failure to the client if it is more useful than the earlier ones. After the head was sent, only
    /// the failure of this answer counts.
    fn show(&mut self, fault: UpstreamFault, is_committed: bool) {
        self.shown = Some(match self.shown.take() {
            Some(earlier) if !is_committed => earlier.or_better(fault),
            _ => fault,
        });
    }
}

/// Ends the attempts, because no candidate is left. A failure of an earlier attempt is more useful to the client
/// than the reason for that.
pub fn end_attempts(exchange: &mut Exchange) -> Box<Error> {
    if exchange.failures.shown.is_none() {
        exchange.failures.shown = Some(attempt::none_asked(exchange));
    }
    end_attempt(false)
}

/// Notes the failure of an attempt, and returns whether another attempt follows. The cause is only for the
/// log.
pub fn note(exchange: &mut Exchange, fault: UpstreamFault, cause: Option<&Error>) -> bool {
    let mut fault = passthrough::of_open_path(exchange, fault);
    let candidate = exchange.attempts.current();
    if let Some(proof) = candidate.and_then(|it| it.credential()?.proof(it.format)) {
        if let Some(words) = &mut fault.words {
            words.message = proof.without_secret(&words.message).into();
        }
        let code = fault.provider_code.as_deref();
        fault.provider_code = code.map(|code| proof.without_secret(code).into());
    }
    let deployment = candidate.map(|it| &*it.deployment);
    if let Some(deployment) = deployment {
        // No client has to wait for longer, and no breaker stays open for longer.
        let longest = deployment.provider.max_retry_after;
        fault.retry_after = fault.retry_after.map(|it| it.min(longest));
    }
    // Under a pattern, the client has chosen the name; elsewhere, it has chosen the path.
    let is_of_model = exchange.stage.admitted().is_some();
    let named =
        deployment.filter(|it| is_of_model && matches!(it.upstream_model, UpstreamModel::Fixed(_)));
    events::upstream_fault(
        &exchange.id,
        deployment.map_or("", |it| &it.provider.name),
        named.map(|it| &*it.name),
        &fault,
        cause.map(|it| it as _),
    );
    if let Some(name) = deployment.map(|it| Arc::clone(&it.name)) {
        let after = exchange.arrival.at.elapsed();
        exchange.failures.note_attempt(name, &fault, after);
    }
    trace::fail_attempt(exchange, &fault);
    // The cached count of one candidate must not come from another.
    if let Stage::Admitted(admitted) = &mut exchange.stage {
        admitted.count_key = None;
    }
    let is_late = Instant::now() >= exchange.request_ends();
    match fault.class {
        // The time-out of the whole request is not the fault of a deployment.
        FaultClass::ResponseTimeout if is_late => outcome::over(exchange),
        FaultClass::OutOfFiles => outcome::reached_no_provider(exchange),
        _ => outcome::failed(exchange, &fault),
    }
    let again = follows(exchange, &fault);
    let is_committed = exchange.sent.has_head();
    exchange.failures.show(fault, is_committed);
    again
}

/// Whether another attempt follows this failure. Takes it from the retry budget.
fn follows(exchange: &mut Exchange, fault: &UpstreamFault) -> bool {
    let failover = exchange.snapshot.failover;
    let attempts = &exchange.attempts;
    if exchange.sent.has_head()
        || exchange.caller.is_draining()
        || !fault.try_elsewhere()
        || !exchange.can_send_body()
        || passthrough::may_have_acted(exchange, fault)
        || attempts.tally.made() >= usize::from(failover.attempts)
    {
        return false;
    }
    let left = exchange
        .request_ends()
        .saturating_duration_since(Instant::now());
    // Before it counts the candidates: some cannot be asked.
    attempt::prepare_next(exchange);
    let next = if exchange.attempts.has_next() {
        Some(None)
    } else if count::is_count(exchange) {
        // The gateway counts itself, which is faster.
        None
    } else {
        pause_before_another(exchange, fault).map(Some)
    };
    let Some(pause) = next.filter(|pause| pause.unwrap_or_default() < left) else {
        return false;
    };
    // An attempt that reached no provider costs nothing.
    let is_free = fault.class == FaultClass::Unreachable;
    let budget = exchange.retries.of(exchange.is_unbilled());
    if !is_free && !budget.take(&failover.budget) {
        events::retry_refused();
        return false;
    }
    if let Some(pause) = pause {
        exchange.attempts.ask_again(pause);
    }
    true
}

/// How long to wait before the only candidate is tried again. `None`: it is not.
fn pause_before_another(exchange: &Exchange, fault: &UpstreamFault) -> Option<Duration> {
    let failover = &exchange.snapshot.failover;
    let attempts = &exchange.attempts;
    let repeats = attempts.tally.repeats();
    if !fault.is_transient() || repeats >= usize::from(failover.again) || !attempts.has_only_one() {
        return None;
    }
    let doublings = u32::try_from(repeats).unwrap_or(u32::MAX);
    let usual = failover
        .pause
        .get()
        .saturating_mul(2_u32.saturating_pow(doublings));
    // Jittered between 0.5 and 1.5, so that requests that failed together do not return together.
    let pause = usual.mul_f64(0.5 + fastrand::f64()).min(LONGEST_PAUSE);
    let pause = pause.max(fault.retry_after.unwrap_or_default());
    (pause <= LONGEST_PAUSE).then_some(pause)
}

/// Ends an attempt with this failure. The cause is only for the log.
pub fn fail_attempt(
    exchange: &mut Exchange,
    fault: UpstreamFault,
    cause: Option<&Error>,
) -> Box<Error> {
    let again = note(exchange, fault, cause);
    end_attempt(again)
}

/// Ends an attempt. The exchange has the error for the client.
pub fn end_attempt(again: bool) -> Box<Error> {
    let mut error = Error::new_up(ATTEMPT_FAILED);
    error.set_retry(again);
    error
}

/// Ends an attempt of which nothing was sent: the same candidate is tried again.
pub fn ask_again_unsent(exchange: &mut Exchange) -> Box<Error> {
    retract(exchange);
    end_attempt(exchange.attempts.tally.may_go_on())
}

/// Takes back an attempt of which nothing was sent: it does not count.
pub fn retract(exchange: &mut Exchange) {
    take_back(exchange);
    exchange.attempts.step_back();
}

fn take_back(exchange: &mut Exchange) {
    outcome::not_sent(exchange);
    trace::retract_attempt(exchange);
}

/// Ends an attempt whose connection failed. If the provider has another address, the same attempt continues
/// there: a provider has failed only if none of its addresses can be reached.
pub fn connecting(exchange: &mut Exchange, peer: &HttpPeer, cause: &Error) -> Box<Error> {
    let fault = of_connecting(exchange, peer, cause);
    let has_timed_out = matches!(
        cause.etype,
        ErrorType::ConnectTimedout | ErrorType::TLSHandshakeTimedout
    );
    let attempts = &exchange.attempts;
    if fault.class == FaultClass::Unreachable
        && outcome::unreachable(exchange, peer)
        && attempts
            .tally
            .may_try_address(has_timed_out, attempts.has_next())
    {
        let candidate = exchange.attempts.current();
        let provider = candidate.map_or("", |it| &it.deployment.provider.name);
        events::upstream_fault(&exchange.id, provider, None, &fault, Some(cause));
        take_back(exchange);
        exchange.attempts.step_back_to_address();
        return end_attempt(true);
    }
    fail_attempt(exchange, fault, Some(cause))
}

/// The failure if the connection to a provider failed.
fn of_connecting(exchange: &Exchange, peer: &HttpPeer, cause: &Error) -> UpstreamFault {
    let usual = exchange.attempts.current();
    let usual = usual.map(|it| it.deployment.provider.timeouts.connect);
    let is_cut_short = peer.options.total_connection_timeout < usual;
    match cause.etype {
        _ if is_out_of_files(cause) => UpstreamFault::out_of_files(),
        // The rest of the request's own time was too short to connect.
        ErrorType::ConnectTimedout | ErrorType::TLSHandshakeTimedout if is_cut_short => {
            UpstreamFault::response_timeout()
        }
        _ => UpstreamFault::unreachable(),
    }
}

/// Decides what follows an error of Pingora within an attempt. `reused`: over a kept connection.
pub fn broken(
    session: &Session,
    exchange: &mut Exchange,
    mut error: Box<Error>,
    reused: bool,
) -> Box<Error> {
    let sends_body = exchange.timer.sends_body();
    if error.etype == ErrorType::WriteTimedout && *error.esource() == ErrorSource::Upstream {
        // Over HTTP/2, Pingora resets only the stream and keeps the connection.
        exchange.timer.shut_down();
    }
    exchange.timer.stop();
    if error.etype == ATTEMPT_FAILED {
        return error;
    }
    if error.etype == ErrorType::H2Downgrade {
        outcome::requires_http1(exchange);
    }
    let committed = is_committed(session);
    if *error.esource() == ErrorSource::Downstream {
        if sends_body && session.upstream_body_bytes_sent() == Some(0) {
            // The client left before the provider had the request, mostly while the gateway connected.
            retract(exchange);
            exchange.attempts.end_unsent();
        }
        error.retry = RetryType::Decided(false);
        return error;
    }
    let connection = BrokenConnection::of(exchange, &error, reused, sends_body);
    let was_stale = !connection.was_taken() && !exchange.timer.has_fired();
    let can_be_sent = exchange.can_send_body();
    if was_stale && !committed && can_be_sent && exchange.attempts.tally.may_go_on() {
        // The provider closed a kept connection: this is not its fault and does not count as an attempt.
        // The same candidate is tried again.
        retract(exchange);
        error.retry = RetryType::Decided(true);
        return error;
    }
    if committed && exchange.answer.is_complete() {
        error.retry = RetryType::Decided(false);
        return error;
    }
    if exchange.awaits_body() {
        // The provider is not at fault if the body does not end.
        outcome::over(exchange);
    }
    if is_slow_client(exchange, &error) {
        // The provider was silent because the client was.
        let mut error = Error::explain(ErrorType::ReadTimedout, "the body does not end");
        error.retry = RetryType::Decided(false);
        return error.into_down();
    }
    let fault = of_connection(exchange, &error);
    let again = note(exchange, fault, Some(&*error)) && !committed;
    error.retry = RetryType::Decided(again);
    error
}

/// A connection to a provider that broke: the facts that decide whether it has worked on the request.
#[derive(Clone, Copy, Debug)]
struct BrokenConnection {
    /// Whether the provider says over HTTP/2 that the request can be sent again: by GOAWAY, REFUSED_STREAM, or
    /// HTTP/1.1 required. `None`: it has said neither.
    reported: Option<bool>,
    /// The provider has sent malformed frames.
    is_malformed: bool,
    /// It broke while the body was sent.
    is_at_body: bool,
    /// It was kept from an earlier request.
    was_kept: bool,
    /// The request must not be sent twice.
    has_effects: bool,
    /// How long the attempt has run.
    ran: Duration,
    tally: Tally,
}

impl BrokenConnection {
    fn of(exchange: &Exchange, error: &Error, reused: bool, sends_body: bool) -> Self {
        Self {
            reported: match error.retry {
                RetryType::Decided(again) => Some(again),
                RetryType::ReusedOnly => None,
            },
            is_malformed: error.etype == ErrorType::InvalidH2,
            is_at_body: sends_body && error.etype == ErrorType::WriteError,
            was_kept: reused,
            has_effects: passthrough::has_effects(exchange),
            ran: exchange.timer.ran(),
            tally: exchange.attempts.tally,
        }
    }

    /// Whether the provider may have worked on the request.
    fn was_taken(&self) -> bool {
        match self.reported {
            // Malformed frames do not show whether it has worked on the request.
            Some(again) if !self.is_at_body => {
                !again || self.is_malformed || !self.tally.may_be_refused()
            }
            // A connection that was closed before fails at its first bytes, or within a large body, which a
            // provider may also refuse by a reset.
            _ => {
                !self.was_kept
                    || self.is_at_body && !self.tally.may_be_refused()
                    || self.has_effects
                    || self.ran >= STALE_WITHIN
                    || !self.tally.may_be_stale()
            }
        }
    }
}

/// Whether the provider was silent because the client does not send the rest of its body.
fn is_slow_client(exchange: &Exchange, error: &Error) -> bool {
    let upload = exchange.upload();
    exchange.awaits_body()
        && !upload.is_some_and(StreamedBody::waits_for_provider)
        && (exchange.timer.has_fired() || error.etype == ErrorType::ReadTimedout)
}

/// The failure if the connection to a provider has an error.
fn of_connection(exchange: &Exchange, error: &Error) -> UpstreamFault {
    // A provider that has sent an error may close the connection before it has read the body, or leave its
    // answer unfinished.
    if let Some(fault) = exchange.answer.reported_fault()
        && !exchange.timer.is_over(Instant::now())
    {
        return fault;
    }
    if exchange.timer.has_fired() {
        return UpstreamFault::response_timeout();
    }
    match error.etype {
        ErrorType::ReadTimedout => UpstreamFault::response_timeout(),
        ErrorType::InvalidHTTPHeader | ErrorType::InvalidH2 => UpstreamFault::broken_answer(),
        _ => UpstreamFault::connection_broken(),
    }
}

/// The error for the client: of all failures, the most useful one.
pub fn public_error(exchange: &Exchange) -> PublicError {
    let status = exchange.failures.shown().and_then(|fault| fault.status);
    let request = exchange.stage.request();
    if status == Some(404) && request.is_some_and(|request| request.endpoint.is_stored()) {
        return stored::unknown();
    }
    let Some(fault) = exchange.failures.shown() else {
        return respond::internal_error();
    };
    if let Some(error) = passthrough::public_error(exchange, fault) {
        return error;
    }
    let error = fault.public_in(exchange.format());
    match refused_field(exchange, fault) {
        Some(field) => {
            let message = format!("{}: see '{field}'", error.message);
            PublicError {
                message: message.into(),
                ..error.with_param(field)
            }
        }
        None => error,
    }
}

/// The field of the client's request that a provider has named in its refusal. In a translated request, or
/// one with an inserted conversation, nested fields have other places: only top-level fields are named.
fn refused_field(exchange: &Exchange, fault: &UpstreamFault) -> Option<String> {
    let path = fault.words.as_ref()?.field.as_deref()?;
    let body = exchange
        .stage
        .body()
        .filter(|_| exchange.opened.is_none())?;
    let field = body.field_at(path)?;
    let is_rewritten = exchange.attempts.outgoing.notes.is_some() || body.original().is_some();
    (!is_rewritten || !field.contains(['.', '['])).then_some(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_sent_again_unasked_only_if_no_provider_can_have_worked_on_it() {
        let kept = BrokenConnection {
            reported: None,
            is_malformed: false,
            is_at_body: false,
            was_kept: true,
            has_effects: false,
            ran: Duration::ZERO,
            tally: Tally::default(),
        };
        let says = |again| BrokenConnection {
            reported: Some(again),
            was_kept: false,
            ..kept
        };
        let at_body = BrokenConnection {
            is_at_body: true,
            ..kept
        };
        // Tallies of two attempts that were taken back, and of as many as a request can have.
        let (few, many) = (Tally::of_stale(2), Tally::of_stale(Tally::MOST));
        #[rustfmt::skip]
        let table = [
            ("a kept connection was closed", kept, false),
            ("a new connection broke", BrokenConnection { was_kept: false, ..kept }, true),
            ("it broke late", BrokenConnection { ran: STALE_WITHIN, ..kept }, true),
            ("the request has effects", BrokenConnection { has_effects: true, ..kept }, true),
            ("the third kept connection", BrokenConnection { tally: few, ..kept }, false),
            ("too many kept connections", BrokenConnection { tally: many, ..kept }, true),
            ("it broke at the body", at_body, false),
            ("a third one broke at the body", BrokenConnection { tally: few, ..at_body }, true),
            ("the provider has not taken it", says(true), false),
            ("it has not taken it again", BrokenConnection { tally: few, ..says(true) }, true),
            ("the provider has taken it", says(false), true),
            ("malformed frames", BrokenConnection { is_malformed: true, ..says(true) }, true),
            ("a report at the body", BrokenConnection { is_at_body: true, ..says(true) }, true),
        ];
        for (case, connection, expected) in table {
            assert_eq!(connection.was_taken(), expected, "{case}");
        }
    }
}
