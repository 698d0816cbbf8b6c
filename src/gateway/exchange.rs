//! The state of one exchange: a request, its attempts and its answer.
//!
//! The phases in `mod.rs` hand it from one to the next. Each part of the work has a field; what
//! the caller was told stands in `told`, which whoever ends the exchange sets.

use super::{
    answer::Answer, attempt::Attempts, budget::RetryBudgets, drain::CallerWatch, record,
    settlement::SettlementGuard, stage::Stage, stored::Noted, timer::AttemptTimer,
};
use crate::{access_log::AccessLog, events::InFlight, snapshot::Snapshot};
use http::{HeaderValue, Method, Uri};
use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tollgate_filter::RequestContext;
use tollgate_ledger::Unpaid;
use tollgate_routing::ModelKind;
use tollgate_routing::plan::LeftOuts;
use tollgate_types::{ErrorCode, Format, RequestId, Share};
use tollgate_wire::fault::{FaultClass, UpstreamFault};

/// One request on its way through the gateway.
pub struct Exchange {
    /// The request's identifier.
    pub id: RequestId,
    /// When its head had arrived.
    pub started: Instant,
    /// The client's address, where it is known.
    pub client: Option<IpAddr>,
    /// The origin of the web page that may read its answer.
    pub origin: Option<HeaderValue>,
    /// What it was sent to.
    pub target: (Method, Uri),
    /// The configuration that it began with and keeps to its end.
    pub snapshot: Arc<Snapshot>,
    /// How far it has come, and what is known of it.
    pub stage: Stage,
    /// Who was and who can be asked.
    pub attempts: Attempts,
    /// What all requests may try again.
    pub retries: Arc<RetryBudgets>,
    /// How long the attempt under way may take.
    pub timer: AttemptTimer,
    /// The caller wants to know why it was asked where it was.
    pub explains: bool,
    /// Who cannot be asked, and why.
    pub left_out: LeftOuts,
    /// What has come back.
    pub answer: Answer,
    /// Whether its caller has disconnected.
    pub caller: CallerWatch,
    /// What it holds of its key's limits and balance.
    pub settlement: SettlementGuard,
    /// What the request names that is not paid for: the input of its response shows it.
    pub unpaid: Vec<Unpaid>,
    /// What is remembered of whose the answer is that the provider stores.
    pub noted: Noted,
    /// Of what went wrong upstream, that of which the caller is told.
    pub fault: Option<UpstreamFault>,
    /// The status that the caller was told, and the code where it was an error.
    pub told: Option<Told>,
    /// The code of the error event that ended a stream after its head had left.
    pub broken: Option<ErrorCode>,
    /// An attempt has failed, and the next has not begun.
    pub is_in_pause: bool,
    /// When the first byte of an answer left.
    pub first_byte: Option<Instant>,
    /// Bytes of an answer's body that have left.
    pub answer_bytes: usize,
    /// Where it is told of; taken by whoever does so.
    pub log: Option<AccessLog>,
    /// Counts it among those of its key, once that is known.
    pub of_key: Option<Share>,
    /// Counts the request among those with which it competes.
    pub in_flight: InFlight,
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
    /// Whether the request failed because the model answered in another form than it asks for.
    pub fn has_unfit_answer(&self) -> bool {
        let fault = self.fault.as_ref();
        fault.is_some_and(|fault| fault.class == FaultClass::UnfitAnswer)
    }

    /// A request of which nothing is known yet.
    pub fn new(
        id: RequestId,
        snapshot: Arc<Snapshot>,
        retries: Arc<RetryBudgets>,
        log: AccessLog,
        in_flight: InFlight,
    ) -> Self {
        Self {
            id,
            started: Instant::now(),
            client: None,
            origin: None,
            target: (Method::GET, Uri::default()),
            snapshot,
            stage: Stage::default(),
            attempts: Attempts::default(),
            retries,
            timer: AttemptTimer::default(),
            explains: false,
            left_out: LeftOuts::default(),
            answer: Answer::default(),
            caller: CallerWatch::default(),
            settlement: SettlementGuard::default(),
            unpaid: Vec::new(),
            noted: Noted::default(),
            fault: None,
            told: None,
            broken: None,
            is_in_pause: false,
            first_byte: None,
            answer_bytes: 0,
            log: Some(log),
            of_key: None,
            in_flight,
        }
    }

    /// It is answered, and takes nobody's place while its caller may still send. `false`: too many do
    /// for this one to be waited for.
    pub fn linger(&mut self) -> bool {
        self.of_key = None;
        self.in_flight.linger()
    }

    /// The caller's format, where the endpoint has one.
    pub fn format(&self) -> Option<Format> {
        self.stage.request().and_then(RequestContext::format)
    }

    /// The model that answers, by its own name: under a wildcard that is the name asked for.
    pub fn model_name(&self) -> Option<&str> {
        let request = self.stage.request()?;
        let route = request.route.as_ref()?;
        match self.snapshot.catalog.model(route.model)?.kind {
            ModelKind::Wildcard { .. } => request.facts.as_ref()?.model.as_deref(),
            _ => Some(&route.model_id),
        }
    }

    /// The model on record: that of the catalog, under a wildcard the pattern. Names that callers ask
    /// for can be made up, and totals are kept for ever.
    pub fn model_served(&self) -> Option<Arc<str>> {
        let route = self.stage.request()?.route.as_ref()?;
        Some(Arc::clone(&route.model_id))
    }

    /// Whether it uses no model: it counts tokens, or looks up what is stored. Callers pay
    /// nothing for that, so none of it may bench or fill a deployment for others.
    pub fn is_unbilled(&self) -> bool {
        let request = self.stage.request();
        request.is_some_and(|request| request.endpoint.is_count() || request.endpoint.is_stored())
    }

    /// When it has to be over, whoever is asked.
    pub fn request_ends(&self) -> Instant {
        let end = self.started.checked_add(self.snapshot.failover.total);
        // No clock reaches further.
        end.unwrap_or_else(|| self.started + Duration::from_secs(86_400 * 365))
    }
}

impl Drop for Exchange {
    /// A request that nobody has ended was cut, with the task that served it.
    fn drop(&mut self) {
        record::cut(self);
    }
}
