//! The state of one exchange: a request, its attempts and its answer.
//!
//! The phases in `mod.rs` hand it from one to the next; each part of the work owns its
//! own field and none reaches into another's.

use super::{
    answer::Answer, attempt::Attempts, body::RequestBody, record, stored::Noted, toll::Toll,
};
use crate::{access_log::AccessLog, events::InFlight, snapshot::Snapshot};
use http::{Method, Uri};
use std::{sync::Arc, time::Instant};
use tollgate_filter::RequestContext;
use tollgate_routing::ModelKind;
use tollgate_types::{ErrorCode, Format, RequestId};
use tollgate_wire::fault::UpstreamFault;

/// One request on its way through the gateway.
pub struct Exchange {
    /// The request's identifier.
    pub id: RequestId,
    /// When its head had arrived.
    pub started: Instant,
    /// What it was sent to.
    pub target: (Method, Uri),
    /// The configuration that it began with and keeps to its end.
    pub snapshot: Arc<Snapshot>,
    /// What filters see; set once the path is known.
    pub request: Option<RequestContext>,
    /// The body, once read.
    pub body: Option<RequestBody>,
    /// Who was and who can be asked.
    pub attempts: Attempts,
    /// What has come back.
    pub answer: Answer,
    /// What it holds of its key's limits and balance.
    pub toll: Toll,
    /// What is remembered of whose the answer is that the provider stores.
    pub noted: Noted,
    /// What went wrong upstream last.
    pub fault: Option<UpstreamFault>,
    /// The status that the caller was told, and the code where it was an error.
    pub told: Option<Told>,
    /// The code of the error event that ended a stream after its head had left.
    pub broken: Option<ErrorCode>,
    /// When the first byte of an answer left.
    pub first_byte: Option<Instant>,
    /// Bytes of an answer's body that have left.
    pub answer_bytes: usize,
    /// Where it is told of; taken by whoever does so.
    pub log: Option<AccessLog>,
    /// Counts the request among those under way for as long as it lives.
    _in_flight: InFlight,
}

/// What the caller was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The HTTP status.
    pub status: u16,
    /// The error's code, where it was one.
    pub code: Option<ErrorCode>,
}

impl Exchange {
    /// A request of which nothing is known yet.
    pub fn new(
        id: RequestId,
        snapshot: Arc<Snapshot>,
        log: AccessLog,
        in_flight: InFlight,
    ) -> Self {
        Self {
            id,
            started: Instant::now(),
            target: (Method::GET, Uri::default()),
            snapshot,
            request: None,
            body: None,
            attempts: Attempts::default(),
            answer: Answer::default(),
            toll: Toll::default(),
            noted: Noted::default(),
            fault: None,
            told: None,
            broken: None,
            first_byte: None,
            answer_bytes: 0,
            log: Some(log),
            _in_flight: in_flight,
        }
    }

    /// The caller's format, where the endpoint has one.
    pub fn format(&self) -> Option<Format> {
        self.request.as_ref().and_then(RequestContext::format)
    }

    /// The model that answers, by its own name: under a wildcard that is the name asked for.
    pub fn model_name(&self) -> Option<&str> {
        let request = self.request.as_ref()?;
        let route = request.route.as_ref()?;
        match self.snapshot.catalog.model(route.model)?.kind {
            ModelKind::Wildcard { .. } => request.facts.as_ref()?.model.as_deref(),
            _ => Some(&route.model_id),
        }
    }

    /// The same, kept.
    pub fn model_served(&self) -> Option<Arc<str>> {
        let name = self.model_name()?;
        let route = self.request.as_ref()?.route.as_ref()?;
        Some(match *route.model_id == *name {
            true => Arc::clone(&route.model_id),
            false => name.into(),
        })
    }

    /// Whether another candidate may still take the request over.
    pub fn can_try_elsewhere(&self) -> bool {
        self.attempts.has_next() && self.body.as_ref().is_none_or(RequestBody::can_be_sent)
    }
}

impl Drop for Exchange {
    /// A request that nobody has ended was cut, with the task that served it.
    fn drop(&mut self) {
        record::cut(self);
    }
}
