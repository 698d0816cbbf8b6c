//! The state of one exchange: a request, its attempts and its answer.
//!
//! The phases in `mod.rs` share it.

use super::{
    answer::Answer, arrival::Arrival, attempt::Attempts, body::RequestBody, budget::RetryBudgets,
    drain::CallerWatch, failure::Failures, passthrough::Opened, record, sent::Sent,
    settlement::SettlementGuard, stage::Stage, stored::Noted, streamed_body::StreamedBody,
    timer::AttemptTimer,
};
use crate::snapshot::Snapshot;
use bytes::Bytes;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tollgate_filter::RequestContext;
use tollgate_ledger::Unpaid;
use tollgate_routing::ModelKind;
use tollgate_routing::plan::LeftOuts;
use tollgate_telemetry::{access_log::AccessLog, events::InFlight};
use tollgate_traces::RequestTrace;
use tollgate_types::{Format, PublicError, RequestId, Share};

/// One request in the gateway.
pub struct Exchange {
    /// The request's identifier.
    pub id: RequestId,
    /// Its head, as it arrived.
    pub arrival: Arrival,
    /// The configuration that was current when it began.
    pub snapshot: Arc<Snapshot>,
    /// How far it has come, and what is known of it.
    pub stage: Stage,
    /// The open path of a provider, if the request is for one.
    pub opened: Option<Box<Opened>>,
    /// The candidates, asked or not.
    pub attempts: Attempts,
    /// The budget for retries of all requests.
    pub retries: Arc<RetryBudgets>,
    /// The time limits of the current attempt.
    pub timer: AttemptTimer,
    /// Whether the client gets the reason of the route.
    pub explains: bool,
    /// The candidates that cannot be asked, and why.
    pub left_out: LeftOuts,
    /// The answer so far.
    pub answer: Answer,
    /// The last piece of an answer that ends in trailers.
    pub before_trailers: Option<Bytes>,
    /// Whether the client has disconnected.
    pub caller: CallerWatch,
    /// The part of its key's limits and balance that it holds.
    pub settlement: SettlementGuard,
    /// Responses that the request names and that are not paid: the input of its own response shows them.
    pub unpaid: Vec<Unpaid>,
    /// The facts of the stored answer that the ledger has already.
    pub noted: Noted,
    /// The failures upstream.
    pub failures: Failures,
    /// What the client has got of the answer.
    pub sent: Sent,
    /// Whether an attempt has failed and no provider has the request of the next.
    pub is_in_pause: bool,
    /// The access log; taken when the request is recorded.
    pub log: Option<AccessLog>,
    /// Its trace; taken when the request is recorded. `None`: traces are off.
    pub trace: Option<Box<RequestTrace>>,
    /// Counts it for its key, once that is known.
    pub of_key: Option<Share>,
    /// Counts it among all concurrent requests.
    pub in_flight: InFlight,
}

impl Exchange {
    /// A request that has just arrived.
    pub fn new(
        id: RequestId,
        snapshot: Arc<Snapshot>,
        retries: Arc<RetryBudgets>,
        log: AccessLog,
        in_flight: InFlight,
    ) -> Self {
        Self {
            id,
            arrival: Arrival::now(),
            snapshot,
            stage: Stage::default(),
            opened: None,
            attempts: Attempts::default(),
            retries,
            timer: AttemptTimer::default(),
            explains: false,
            left_out: LeftOuts::default(),
            answer: Answer::default(),
            before_trailers: None,
            caller: CallerWatch::default(),
            settlement: SettlementGuard::default(),
            unpaid: Vec::new(),
            noted: Noted::default(),
            failures: Failures::default(),
            sent: Sent::default(),
            is_in_pause: false,
            log: Some(log),
            trace: None,
            of_key: None,
            in_flight,
        }
    }

    /// Stops counting the request, which is answered, while its client still sends. `false`: too many
    /// clients do, and the gateway does not wait for this one.
    pub fn linger(&mut self) -> bool {
        self.of_key = None;
        self.in_flight.linger()
    }

    /// The client's format, if the endpoint has one.
    pub fn format(&self) -> Option<Format> {
        self.stage.request().and_then(RequestContext::format)
    }

    /// The name of the model that answers: under a wildcard, the name that the request asks for.
    pub fn model_name(&self) -> Option<&str> {
        let request = self.stage.request()?;
        if let Some(fixed) = &request.fixed {
            return Some(&fixed.name);
        }
        let Some(route) = &request.route else {
            return self.settlement.made_by().map(|made_by| &**made_by);
        };
        match self.snapshot.catalog.model(route.model)?.kind {
            ModelKind::Wildcard { .. } => request.model_asked(),
            _ => Some(&route.model_id),
        }
    }

    /// The model in the usage record: its id in the catalog, under a wildcard the pattern. Clients can invent
    /// names, and totals are kept for ever.
    pub fn model_served(&self) -> Option<Arc<str>> {
        self.label().cloned()
    }

    /// The name in metrics and usage records: of the model in the catalog, of the entry of an open path, or of
    /// the model that made a stored response.
    pub fn label(&self) -> Option<&Arc<str>> {
        let request = self.stage.request()?;
        let route = request.route.as_ref().map(|route| &route.model_id);
        let fixed = || request.fixed.as_ref().map(|fixed| &fixed.name);
        route.or_else(fixed).or_else(|| self.settlement.made_by())
    }

    /// The body, if it is forwarded while it arrives.
    pub fn upload(&self) -> Option<&StreamedBody> {
        self.opened.as_ref()?.upload.as_ref()
    }

    /// The same, to be changed.
    pub fn upload_mut(&mut self) -> Option<&mut StreamedBody> {
        self.opened.as_mut()?.upload.as_mut()
    }

    /// Whether the client has not sent the whole body yet, so that its provider cannot answer.
    pub fn awaits_body(&self) -> bool {
        self.upload().is_some_and(StreamedBody::is_awaited)
    }

    /// Whether another attempt can send the body.
    pub fn can_send_body(&self) -> bool {
        self.upload().is_none_or(StreamedBody::can_be_sent)
    }

    /// Bytes of the body.
    pub fn request_bytes(&self) -> u64 {
        let read = self.stage.body().map_or(0, RequestBody::len);
        self.upload().map_or(read, StreamedBody::forwarded)
    }

    /// Why the body is not sent after all.
    pub fn take_refusal(&mut self) -> Option<PublicError> {
        self.upload_mut().and_then(StreamedBody::take_refusal)
    }

    /// Whether the request is free: it counts tokens, or retrieves what is stored. A free request must not
    /// open a breaker or use up its limits.
    pub fn is_unbilled(&self) -> bool {
        let request = self.stage.request();
        request.is_some_and(|request| request.endpoint.is_count() || request.endpoint.is_stored())
    }

    /// When the request times out.
    pub fn request_ends(&self) -> Instant {
        let end = self
            .arrival
            .at
            .checked_add(self.snapshot.failover.total.get());
        // Beyond the range of the clock: a year.
        end.unwrap_or_else(|| self.arrival.at + Duration::from_secs(86_400 * 365))
    }
}

impl Drop for Exchange {
    /// Settles and records a request whose task was dropped.
    fn drop(&mut self) {
        record::record_dropped(self);
    }
}
