//! One attempt after another: which candidate is asked. What it is sent is decided in
//! `outgoing`.

use super::deadlines::Deadlines;
use super::exchange::Exchange;
use super::outgoing::{self, Outgoing};
use super::timer::AttemptTimer;
use crate::upstreams::Pool;
use bytes::Bytes;
use pingora_core::upstreams::peer::HttpPeer;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate_routing::health::Ticket;
use tollgate_routing::{Credential, Deployment};
use tollgate_translate::TranslationNotes;
use tollgate_types::{Format, PublicError};

/// The candidates of a request, in order, and the one that is being asked.
#[derive(Default)]
pub struct Attempts {
    candidates: Vec<Candidate>,
    /// How many candidates were begun with.
    begun: usize,
    /// How many attempts were made, on whichever candidate.
    made: usize,
    /// How many of them met a connection that its provider had just closed.
    stale: usize,
    /// The name of the credential that the attempt under way uses; empty for none.
    credential: Option<Arc<str>>,
    /// How often the only candidate was asked again.
    again: usize,
    /// How long to wait before the next attempt.
    pause: Option<Duration>,
    /// What the candidate that comes next is sent.
    ready: Option<Outgoing>,
    /// What the attempt under way sends; its body is taken out once.
    sent: Outgoing,
    /// What the attempt under way holds of those that it asks.
    ticket: Option<Ticket>,
}

/// Who can be asked.
#[derive(Clone)]
pub struct Candidate {
    /// The deployment.
    pub deployment: Arc<Deployment>,
    /// The connections to its provider.
    pub pool: Arc<Pool>,
    /// The format in which it is asked: the caller's, or the one that its request is
    /// translated to.
    pub format: Format,
    /// The credential that must be used, by name; else the provider's in turn.
    pub credential: Option<Arc<str>>,
}

impl Candidate {
    /// What to log in with: `None` where a certain one must be used and is gone.
    pub fn log_in(&self) -> Option<LogIn<'_>> {
        let Some(wanted) = &self.credential else {
            return Some(self.pool.credential().map_or(LogIn::Without, LogIn::With));
        };
        let known = &self.deployment.provider.credentials;
        let found = known.iter().find(|it| it.name == *wanted);
        match found {
            Some(credential) => Some(LogIn::With(credential)),
            None => wanted.is_empty().then_some(LogIn::Without),
        }
    }
}

/// How the gateway logs in to a provider.
#[derive(Clone, Copy)]
pub enum LogIn<'a> {
    /// With this credential.
    With(&'a Credential),
    /// The provider asks for nothing.
    Without,
}

impl LogIn<'_> {
    /// The credential's name; empty for none.
    pub fn name(self) -> Arc<str> {
        match self {
            Self::With(credential) => Arc::clone(&credential.name),
            Self::Without => "".into(),
        }
    }
}

impl Attempts {
    /// How many candidates are tried at most.
    const MOST_CANDIDATES: usize = 8;
    /// How many attempts are made at most: each candidate may meet a connection or two
    /// that its provider has just closed.
    pub const MOST: usize = 16;

    /// Nothing tried yet.
    pub fn over(candidates: impl Iterator<Item = Candidate>) -> Self {
        Self {
            candidates: candidates.take(Self::MOST_CANDIDATES).collect(),
            ..Self::default()
        }
    }

    /// Goes on to the next candidate, with what was made ready for it.
    pub fn advance(&mut self) -> Option<&Candidate> {
        let next = self.candidates.get(self.begun)?;
        self.begun = self.begun.saturating_add(1);
        self.sent = self.ready.take().unwrap_or_default();
        Some(next)
    }

    /// What the attempt under way holds; reports go through `outcome`.
    pub const fn ticket(&mut self) -> Option<&mut Ticket> {
        self.ticket.as_mut()
    }

    /// Gives back what the attempt under way holds.
    pub fn drop_ticket(&mut self) {
        self.ticket = None;
    }

    /// The candidate that is being asked.
    pub fn current(&self) -> Option<&Candidate> {
        self.candidates.get(self.begun.checked_sub(1)?)
    }

    /// Goes back to the candidate that is being asked, to ask it again: it was not reached.
    pub const fn step_back(&mut self) {
        self.begun = self.begun.saturating_sub(1);
        self.stale = self.stale.saturating_add(1);
    }

    /// Asks the candidate again after a pause.
    pub const fn ask_again(&mut self, pause: Duration) {
        self.begun = self.begun.saturating_sub(1);
        self.again = self.again.saturating_add(1);
        self.pause = Some(pause);
    }

    /// How often the only candidate was asked again.
    pub const fn asked_again(&self) -> usize {
        self.again
    }

    /// How long to wait before the next attempt.
    pub const fn take_pause(&mut self) -> Option<Duration> {
        self.pause.take()
    }

    /// Whether there is nobody else to ask.
    pub const fn has_only_one(&self) -> bool {
        self.candidates.len() == 1
    }

    /// The candidate that comes next.
    pub fn coming(&self) -> Option<&Candidate> {
        self.candidates.get(self.begun)
    }

    /// Leaves the candidate out that comes next: it cannot take the request.
    pub fn leave_out(&mut self) {
        if self.begun < self.candidates.len() {
            self.candidates.remove(self.begun);
        }
    }

    /// Keeps what the candidate that comes next is sent.
    pub fn make_ready(&mut self, outgoing: Outgoing) {
        self.ready = Some(outgoing);
    }

    /// Whether it is known what the candidate that comes next is sent.
    pub const fn is_ready(&self) -> bool {
        self.ready.is_some()
    }

    /// Begins to send what was made ready, under a credential of this name.
    pub fn begin(&mut self, credential: Arc<str>) -> &Outgoing {
        self.credential = Some(credential);
        &self.sent
    }

    /// The body of the attempt under way; nothing the second time.
    pub const fn take_body(&mut self) -> Option<Bytes> {
        self.sent.body.take()
    }

    /// How many attempts were made, without those that never reached their provider.
    pub const fn made(&self) -> usize {
        self.made.saturating_sub(self.stale)
    }

    /// The name of the credential of the attempt under way; empty where there is none.
    pub fn credential(&self) -> Arc<str> {
        self.credential.clone().unwrap_or_default()
    }

    /// The caller's fields that the attempt under way leaves out.
    pub fn dropped(&self) -> &[Cow<'static, str>] {
        &self.sent.dropped
    }

    /// What is remembered of a request that was translated, until its answer is.
    pub const fn notes(&self) -> Option<&Arc<TranslationNotes>> {
        self.sent.notes.as_ref()
    }

    /// Whether another attempt is within bounds.
    pub const fn may_go_on(&self) -> bool {
        self.made < Self::MOST
    }

    /// Whether there is nobody to ask.
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    /// Whether there is another candidate to ask.
    pub fn has_next(&self) -> bool {
        self.begun < self.candidates.len() && self.may_go_on()
    }
}

/// Makes ready what the next candidate is sent that can take the request; those before it
/// are left out.
///
/// # Errors
///
/// Why none can take it.
pub fn make_ready(exchange: &mut Exchange) -> Result<(), PublicError> {
    let mut refusal = None;
    while let Some(candidate) = exchange.attempts.coming() {
        match outgoing::prepare(exchange, candidate) {
            Ok(outgoing) => {
                exchange.attempts.make_ready(outgoing);
                return Ok(());
            }
            Err(error) => {
                refusal.get_or_insert(error);
                exchange.attempts.leave_out();
            }
        }
    }
    refusal.map_or(Ok(()), Err)
}

/// The peer of the next attempt: the next candidate that has an address.
pub fn next_peer(exchange: &mut Exchange) -> Option<Box<HttpPeer>> {
    loop {
        if !exchange.attempts.is_ready() {
            make_ready(exchange).ok()?;
        }
        let attempts = &mut exchange.attempts;
        if let Some(mut peer) = attempts.advance()?.pool.peer() {
            if attempts.made == 0 {
                exchange.retries.note_request();
            }
            attempts.made = attempts.made.saturating_add(1);
            attempts.ticket = Some(Ticket::default());
            start_timer(exchange, &mut peer);
            return Some(peer);
        }
    }
}

/// Begins to count the time of the attempt with this peer.
fn start_timer(exchange: &mut Exchange, peer: &mut HttpPeer) {
    let request = exchange.request.as_ref();
    let Some(candidate) = exchange.attempts.current() else {
        return;
    };
    let model = request
        .and_then(|request| request.route.as_ref())
        .and_then(|route| exchange.snapshot.catalog.model(route.model));
    let usual = candidate.deployment.provider.timeouts.answer;
    let bounds = model.map_or(usual, |model| usual.under(&model.timeouts));
    let streams = request
        .and_then(|request| request.facts.as_ref())
        .is_some_and(|facts| facts.stream);
    let (now, ends) = (Instant::now(), exchange.request_ends());
    let timer = AttemptTimer::begin(Deadlines::new(bounds, streams, now, ends));
    // Zero would be no time-out at all to some and one that has fired to others.
    const LEAST: Duration = Duration::from_millis(1);
    let left = ends.saturating_duration_since(now).max(LEAST);
    let options = &mut peer.options;
    options.read_timeout = timer.longest_silence().map(|it| it.max(LEAST));
    options.connection_timeout = options.connection_timeout.map(|it| it.min(left));
    options.total_connection_timeout = options.total_connection_timeout.map(|it| it.min(left));
    exchange.timer = timer;
}
