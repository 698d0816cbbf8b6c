//! The state of one exchange: a request, its attempts and its answer.
//!
//! The phases in `mod.rs` share it.

use super::{
    answer::Answer, arrival::Arrival, attempt::Attempts, body::RequestBody, budget::RetryBudgets,
    drain::CallerWatch, failure::Failures, load::Concurrent, passthrough::Opened, record,
    sent::Sent, settlement::SettlementGuard, stage::Stage, stored::StoredNotes,
    streamed_body::StreamedBody, timer::AttemptTimer,
};
use crate::snapshot::Snapshot;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tollgate_filter::RequestContext;
use tollgate_routing::ModelKind;
use tollgate_telemetry::access_log::AccessLog;
use tollgate_traces::RequestTrace;
use tollgate_types::{Format, PublicError, RequestId};

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
    /// The answer so far.
    pub answer: Answer,
    /// Whether the client has disconnected.
    pub caller: CallerWatch,
    /// The part of its key's limits and balance that it holds.
    pub settlement: SettlementGuard,
    /// What the ledger knows of stored responses: those that the request names, and its own.
    pub stored: StoredNotes,
    /// The failures upstream.
    pub failures: Failures,
    /// What the client has got of the answer.
    pub sent: Sent,
    /// The access log; taken when the request is recorded.
    pub log: Option<AccessLog>,
    /// Its trace; taken when the request is recorded. `None`: traces are off.
    pub trace: Option<Box<RequestTrace>>,
    /// Counts it among the concurrent requests.
    pub concurrent: Concurrent,
}

impl Exchange {
    /// A request that has just arrived.
    pub fn new(
        id: RequestId,
        snapshot: Arc<Snapshot>,
        retries: Arc<RetryBudgets>,
        log: AccessLog,
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
            answer: Answer::default(),
            caller: CallerWatch::default(),
            settlement: SettlementGuard::default(),
            stored: StoredNotes::default(),
            failures: Failures::default(),
            sent: Sent::default(),
            log: Some(log),
            trace: None,
            concurrent: Concurrent::begin(),
        }
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
