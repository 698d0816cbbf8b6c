//! The attempts of a request: which candidate is next. `outgoing` prepares the request to it.

use super::deadlines::Deadlines;
use super::exchange::Exchange;
use super::load;
use super::memory_permit::MemoryPermit;
use super::outgoing::{self, NotReady, Outgoing};
use super::remembered::Kept;
use super::timer::AttemptTimer;
use super::trace;
use crate::upstreams::Pool;
use bytes::Bytes;
use http::Version;
use pingora_core::upstreams::peer::{ALPN, HttpPeer};
use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tollgate_engine::candidate::{self, full_fault, no_token_fault};
use tollgate_providers::Proof;
use tollgate_routing::health::{Blame, CredentialHandle, DeploymentHandle, Full, Refusal, Ticket};
use tollgate_routing::plan::{Choice, LeftOuts, Why};
use tollgate_routing::{Http2, Provider};
use tollgate_telemetry::{clock, events};
use tollgate_translate::{EmbeddingsNotes, TranslationNotes};
use tollgate_types::{Format, Prices, PublicError};
use tollgate_wire::fault::UpstreamFault;

/// The candidates of a request, in order, and the current one.
#[derive(Default)]
pub struct Attempts {
    candidates: Vec<Candidate>,
    /// The index of the next candidate. Those before it were tried, or had no room.
    next: usize,
    /// How many attempts were started.
    started: usize,
    /// How many of them used a connection that the provider had just closed.
    stale: usize,
    /// How many of them found an address unreachable, so that another one is tried.
    unreached: usize,
    /// The name of the current attempt's credential; empty for none.
    credential: Option<Arc<str>>,
    /// How often the only candidate was asked again.
    repeats: usize,
    /// How long to wait before the next attempt.
    pause: Option<Duration>,
    /// An attempt has failed, and no provider has the request of the next.
    is_paused: bool,
    /// The prepared request to the next candidate.
    ready: Option<Outgoing>,
    /// The request of the current attempt. Its body is taken once.
    sent: Outgoing,
    /// When the first attempt began.
    began: Option<Instant>,
    /// The current attempt's ticket, and when the attempt began. `None` for a free request.
    ticket: Option<(Ticket, Instant)>,
    /// Whether the current attempt has brought content.
    has_content: bool,
    /// The deployments and credentials that cannot be asked, and why.
    pub left_out: LeftOuts,
    /// Candidates whose breaker was open when they were reached.
    last_resorts: Vec<Candidate>,
    /// Of candidates that have become full since the plan was made: the shortest wait.
    full: Option<Full>,
}

/// A deployment and a credential that can be asked.
#[derive(Clone)]
pub struct Candidate {
    /// The deployment and its health.
    pub handle: Arc<DeploymentHandle>,
    /// The index of its credential.
    pub credential: usize,
    /// The reason for its position in the order.
    pub why: Why,
    /// The connections to its provider.
    pub pool: Arc<Pool>,
    /// The format of the request to it: the client's, or the one that the request is translated to. Final
    /// once the request is prepared.
    pub format: Format,
    /// Whether an attempt with it was started.
    pub was_asked: bool,
}

/// A candidate gives access to its deployment.
impl Deref for Candidate {
    type Target = DeploymentHandle;

    fn deref(&self) -> &DeploymentHandle {
        &self.handle
    }
}

impl Candidate {
    /// A choice of the plan, which was not asked yet.
    pub fn new(choice: &Choice, handle: &Arc<DeploymentHandle>, pool: &Arc<Pool>) -> Self {
        Self {
            handle: Arc::clone(handle),
            credential: choice.credential,
            why: choice.why,
            pool: Arc::clone(pool),
            format: choice.format,
            was_asked: false,
        }
    }

    /// Its credential.
    pub fn credential(&self) -> Option<&CredentialHandle> {
        self.handle.credentials.get(self.credential)
    }

    /// Begins an attempt, for a request of this many tokens. `None`: a free request has no ticket.
    fn enter(
        &self,
        tokens: u64,
        is_unbilled: bool,
        began: Instant,
    ) -> Result<Option<(Ticket, Instant)>, Refusal> {
        let now = clock::steady_ms(began);
        if is_unbilled {
            return self.can_serve_unbilled(now).map(|()| None);
        }
        let is_last_resort = self.why == Why::LastResort;
        let ticket = self
            .handle
            .enter(self.credential, tokens, now, is_last_resort)?;
        Ok(Some((ticket, began)))
    }

    /// Whether it can serve a free request, which takes nothing from its limits and does not count for its
    /// health.
    fn can_serve_unbilled(&self, now: u64) -> Result<(), Refusal> {
        let has_token = self.credential().is_some_and(|it| it.lack(now).is_none());
        let is_closed = |credential| self.handle.is_closed(credential, now);
        let passes = self.why == Why::LastResort || self.credential().is_some_and(is_closed);
        match has_token && passes {
            true => Ok(()),
            false => Err(Refusal::Open),
        }
    }

    /// The prices of its deployment now.
    pub fn prices(&self) -> Option<&Prices> {
        let list = self.handle.deployment.price.as_ref()?;
        Some(list.at(SystemTime::now()))
    }

    /// How to log in for a request of its format. `None`: there is no token yet.
    pub fn log_in(&self) -> Option<LogIn> {
        let credential = self.credential()?;
        let Some(configured) = &credential.configured else {
            return Some(LogIn {
                name: "".into(),
                proof: None,
            });
        };
        Some(LogIn {
            name: Arc::clone(&configured.name),
            proof: Some(credential.proof(self.format)?),
        })
    }

    /// The provider has refused the credential: a token is fetched anew.
    pub fn refused(&self, sent: u64, now: u64) {
        let token = self.credential().and_then(|it| it.account.token.as_ref());
        if let Some(token) = token {
            token.refused(sent, now);
        }
    }

    /// Whether a failure of this candidate also concerns the other one.
    fn shares(&self, other: &Self, blame: Blame) -> bool {
        let provider = Arc::ptr_eq(&self.provider, &other.provider);
        let deployment = Arc::ptr_eq(&self.health, &other.health);
        let account = || {
            let accounts = self.credential().zip(other.credential());
            accounts.is_some_and(|(one, another)| Arc::ptr_eq(&one.account, &another.account))
        };
        match blame {
            Blame::None => false,
            Blame::Provider => provider,
            Blame::Deployment | Blame::Model => deployment,
            Blame::Credential => account(),
            Blame::DeploymentCredential | Blame::DeploymentCredentialInDoubt => {
                deployment && account()
            }
        }
    }
}

/// How the gateway logs in to a provider.
pub struct LogIn {
    /// The credential's name; empty for none.
    pub name: Arc<str>,
    /// Its proof. `None`: the provider needs no credential.
    pub proof: Option<Proof>,
}

impl Attempts {
    /// The most candidates of a request.
    pub const MOST_CANDIDATES: usize = candidate::MOST;
    /// The most attempts of a request: a candidate can need several if its provider has just closed a
    /// connection.
    pub const MOST: usize = 16;

    /// Adds a candidate after the others, as far as there is room for it.
    pub fn add(&mut self, candidate: Candidate) {
        let same = |one: &Candidate, other: &Candidate| one.shares(other, Blame::Deployment);
        candidate::add(&mut self.candidates, candidate, same);
    }

    /// Moves the candidates that share the cause of the current one's failure behind the others. Removes
    /// them if the provider does not know the model.
    pub fn put_behind(&mut self, blame: Blame) {
        if self.next >= self.candidates.len() {
            return;
        }
        let mut waiting = self.candidates.split_off(self.next);
        if let Some(failed) = self.candidates.last() {
            if blame == Blame::Model {
                waiting.retain(|it| !it.shares(failed, blame));
            }
            // A stable sort: `false` comes first, and last resorts stay last.
            waiting.sort_by_key(|it| (it.why == Why::LastResort, it.shares(failed, blame)));
        }
        self.candidates.append(&mut waiting);
    }

    /// Moves on to the next candidate.
    pub fn advance(&mut self) -> Option<&Candidate> {
        let next = self.candidates.get(self.next)?;
        self.next = self.next.saturating_add(1);
        Some(next)
    }

    /// When the first attempt began.
    pub const fn began(&self) -> Option<Instant> {
        self.began
    }

    /// The current attempt's ticket. Only `outcome` reports to it.
    pub fn ticket(&mut self) -> Option<(&mut Ticket, Instant)> {
        self.ticket.as_mut().map(|(ticket, began)| (ticket, *began))
    }

    /// Whether the current attempt has brought content.
    pub const fn has_content(&self) -> bool {
        self.has_content
    }

    /// Notes that the current attempt has brought content.
    pub const fn note_content(&mut self) {
        self.has_content = true;
    }

    /// Gives back the current attempt's ticket.
    pub fn drop_ticket(&mut self) {
        self.ticket = None;
    }

    /// Keeps the reached candidate for later: its breaker opened after the plan was made.
    fn keep_as_last_resort(&mut self) {
        let reached = self.reached().cloned();
        self.last_resorts.extend(reached);
    }

    /// The candidate that [`Self::advance`] returned last.
    fn reached(&mut self) -> Option<&mut Candidate> {
        let at = self.next.checked_sub(1)?;
        self.candidates.get_mut(at)
    }

    /// Adds the last resorts after the others, each once. `false`: there are none.
    fn add_last_resorts(&mut self) -> bool {
        let kept = std::mem::take(&mut self.last_resorts);
        let has_some = !kept.is_empty();
        self.candidates.truncate(self.next);
        self.candidates.extend(kept.into_iter().map(|it| Candidate {
            why: Why::LastResort,
            was_asked: false,
            ..it
        }));
        has_some
    }

    /// Notes that an attempt with the reached candidate starts, with the request that was prepared for it.
    fn note_asked(&mut self, ready: Option<Outgoing>) {
        self.sent = ready.unwrap_or_default();
        if let Some(candidate) = self.reached() {
            candidate.was_asked = true;
        }
    }

    /// The candidate that was asked last.
    pub fn current(&self) -> Option<&Candidate> {
        self.candidates.iter().rfind(|it| it.was_asked)
    }

    /// Whether this credential of this deployment was asked.
    pub fn has_asked(&self, handle: &Arc<DeploymentHandle>, credential: usize) -> bool {
        let mut asked = self.candidates.iter().filter(|it| it.was_asked);
        asked.any(|it| Arc::ptr_eq(&it.handle, handle) && it.credential == credential)
    }

    /// Asks the current candidate again, because it was not reached.
    pub const fn step_back(&mut self) {
        self.next = self.next.saturating_sub(1);
        self.stale = self.stale.saturating_add(1);
    }

    /// Asks the current candidate again, at another address.
    pub const fn step_back_to_address(&mut self) {
        self.next = self.next.saturating_sub(1);
        self.unreached = self.unreached.saturating_add(1);
    }

    /// Asks the current candidate again after a pause.
    pub const fn ask_again(&mut self, pause: Duration) {
        self.next = self.next.saturating_sub(1);
        self.repeats = self.repeats.saturating_add(1);
        self.pause = Some(pause);
    }

    /// How often the only candidate was asked again.
    pub const fn repeats(&self) -> usize {
        self.repeats
    }

    /// Begins the pause before the next attempt, and returns its length. `None`: there is none.
    pub const fn begin_pause(&mut self) -> Option<Duration> {
        let pause = self.pause.take();
        self.is_paused = pause.is_some();
        pause
    }

    /// Ends the pause: the next attempt begins.
    pub const fn end_pause(&mut self) {
        self.is_paused = false;
    }

    /// Notes that no provider has the request, and no attempt follows.
    pub const fn end_unsent(&mut self) {
        self.is_paused = true;
    }

    /// Whether an attempt has failed and no provider has the request of the next.
    pub const fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Whether there is only one candidate.
    pub fn has_only_one(&self) -> bool {
        self.candidates.len() == 1 && self.last_resorts.is_empty()
    }

    /// The next candidate.
    pub fn next_candidate(&self) -> Option<&Candidate> {
        self.candidates.get(self.next)
    }

    /// Removes the next candidate: it cannot serve the request.
    pub fn leave_out(&mut self) {
        self.ready = None;
        if self.next < self.candidates.len() {
            self.candidates.remove(self.next);
        }
    }

    /// Keeps the prepared request to the next candidate, and its format.
    pub fn set_ready(&mut self, format: Format, outgoing: Outgoing) {
        if let Some(next) = self.candidates.get_mut(self.next) {
            next.format = format;
            self.ready = Some(outgoing);
        }
    }

    /// Whether the request to the next candidate is prepared.
    pub const fn is_ready(&self) -> bool {
        self.ready.is_some()
    }

    /// Begins to send what was prepared, with the credential of this name.
    pub fn begin(&mut self, credential: Arc<str>) -> &Outgoing {
        self.credential = Some(credential);
        &self.sent
    }

    /// Takes the body of the current attempt. `None` the second time.
    pub const fn take_body(&mut self) -> Option<Bytes> {
        self.sent.body.take()
    }

    /// Where the request of the current attempt goes. `None` for a request without a model.
    pub const fn uri(&self) -> Option<&http::Uri> {
        self.sent.uri.as_ref()
    }

    /// How many attempts have reached their provider.
    pub const fn made(&self) -> usize {
        self.started.saturating_sub(self.taken_back())
    }

    const fn taken_back(&self) -> usize {
        self.stale.saturating_add(self.unreached)
    }

    /// The name of the current attempt's credential; empty for none.
    pub fn credential(&self) -> Arc<str> {
        self.credential.clone().unwrap_or_default()
    }

    /// The fields of the request that the current attempt leaves out.
    pub fn dropped(&self) -> &[Cow<'static, str>] {
        &self.sent.dropped
    }

    /// The output limit of the current attempt, if it is higher than the client's.
    pub const fn raised_limit(&self) -> Option<u64> {
        self.sent.raised_limit
    }

    /// The facts of the request that the translation of the answer needs.
    pub const fn notes(&self) -> Option<&Arc<TranslationNotes>> {
        self.sent.notes.as_ref()
    }

    /// The same for embeddings in another API.
    pub const fn embeddings(&self) -> Option<&EmbeddingsNotes> {
        self.sent.embeddings.as_ref()
    }

    /// Takes what is kept of the request until its answer is remembered. `None` the second time.
    pub const fn take_kept(&mut self) -> Option<Kept> {
        self.sent.kept.take()
    }

    /// Whether another attempt is allowed.
    pub const fn may_go_on(&self) -> bool {
        self.started < Self::MOST
    }

    /// Whether another attempt may use a connection that could be closed already: some attempts are reserved
    /// for the other candidates.
    pub const fn may_be_stale(&self) -> bool {
        self.taken_back() < Self::MOST - Self::MOST_CANDIDATES
    }

    /// Whether another address may be tried within the same attempt. After a time-out another candidate comes
    /// first, and the only one gets few addresses, because each takes the time to connect.
    pub const fn may_try_address(&self, has_timed_out: bool) -> bool {
        const MOST_AFTER_TIMEOUTS: usize = 2;
        let is_worth_it =
            !has_timed_out || !self.has_next() && self.unreached < MOST_AFTER_TIMEOUTS;
        is_worth_it && self.may_be_stale() && self.may_go_on()
    }

    /// Whether a provider may once more refuse a request without having failed: one that closes its
    /// connections properly accepts the next.
    pub const fn may_be_refused(&self) -> bool {
        const MOST_REFUSED: usize = 2;
        self.stale < MOST_REFUSED
    }

    /// Checks why no deployment can be asked.
    ///
    /// # Errors
    ///
    /// One of them is full or lacks a token.
    pub fn check_left_out(&self, now: u64) -> Result<(), PublicError> {
        let full = self.left_out.wait(now).map(full_fault);
        let fault = full.or_else(|| self.left_out.token_wait().map(no_token_fault));
        fault.map_or(Ok(()), |fault| Err(fault.public()))
    }

    /// Whether there is no candidate.
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    /// Whether there is another candidate.
    pub const fn has_next(&self) -> bool {
        let has_more = self.next < self.candidates.len() || !self.last_resorts.is_empty();
        has_more && self.may_go_on()
    }
}

/// Prepares the request for the next candidate that can carry it, and leaves out the candidates before it.
/// `room`: the memory that the request has waited for.
///
/// # Errors
///
/// Why no candidate can carry it.
pub fn make_ready(
    exchange: &mut Exchange,
    mut room: Option<MemoryPermit>,
) -> Result<(), PublicError> {
    let (mut refusal, mut shed) = (None, None);
    while let Some(candidate) = exchange.attempts.next_candidate() {
        match outgoing::prepare(exchange, candidate, room.take()) {
            Ok((format, outgoing)) => {
                exchange.attempts.set_ready(format, outgoing);
                return Ok(());
            }
            Err(NotReady::Refused(error)) => drop(refusal.get_or_insert(error)),
            Err(NotReady::Shed(why)) => shed = Some(why),
        }
        exchange.attempts.leave_out();
    }
    // A lack of memory is temporary, so it is the better error.
    let refusal = shed.map(load::shed).or(refusal);
    refusal.map_or(Ok(()), Err)
}

/// Prepares the request for the next candidate that has an address and can carry it, and leaves out the
/// candidates before it.
pub fn prepare_next(exchange: &mut Exchange) {
    loop {
        if !exchange.attempts.is_ready() {
            // After an error, the last resorts are left.
            let _ = make_ready(exchange, None);
        }
        let next = exchange.attempts.next_candidate();
        let Some(next) = next.filter(|it| !it.pool.has_address()) else {
            return;
        };
        let provider = &next.deployment.provider.name;
        let fault = UpstreamFault::unreachable();
        events::upstream_fault(&exchange.id, provider, None, &fault, None);
        let deployment = Arc::clone(&next.deployment.name);
        let after = exchange.arrival.at.elapsed();
        exchange.failures.note_attempt(deployment, &fault, after);
        exchange.attempts.leave_out();
    }
}

/// The peer of the next attempt: the address of the next candidate that has one. `None`: there is none, or
/// the time of the request is over.
pub fn next_peer(exchange: &mut Exchange) -> Option<Box<HttpPeer>> {
    while Instant::now() < exchange.request_ends() {
        prepare_next(exchange);
        let admitted = exchange.stage.admitted();
        let tokens = admitted.map_or(0, |it| it.facts().likely_input_tokens());
        let is_unbilled = exchange.is_unbilled();
        let attempts = &mut exchange.attempts;
        attempts.ticket = None;
        if attempts.next_candidate().is_none() && attempts.add_last_resorts() {
            continue;
        }
        let ready = attempts.ready.take();
        let candidate = attempts.advance()?;
        let Some(mut peer) = candidate.pool.peer() else {
            continue;
        };
        let began = Instant::now();
        let is_last_resort = candidate.why == Why::LastResort;
        match candidate.enter(tokens, is_unbilled, began) {
            Ok(ticket) => {
                start(exchange, &mut peer, ready, ticket, began);
                return Some(peer);
            }
            Err(Refusal::Full(full)) => {
                let known = attempts.full.get_or_insert(full);
                known.wait = known.wait.min(full.wait);
            }
            // A last resort passes every breaker, so a candidate in cooldown is kept only once.
            Err(Refusal::Open) if !is_last_resort => attempts.keep_as_last_resort(),
            Err(Refusal::Open) => {}
        }
    }
    None
}

/// Starts the attempt with the reached candidate and this peer.
fn start(
    exchange: &mut Exchange,
    peer: &mut HttpPeer,
    ready: Option<Outgoing>,
    ticket: Option<(Ticket, Instant)>,
    began: Instant,
) {
    let is_unbilled = exchange.is_unbilled();
    let attempts = &mut exchange.attempts;
    attempts.note_asked(ready);
    if attempts.started == 0 {
        attempts.began = Some(began);
        exchange.retries.of(is_unbilled).note_request();
    }
    attempts.started = attempts.started.saturating_add(1);
    attempts.ticket = ticket;
    attempts.has_content = false;
    let body = attempts.sent.body.as_ref();
    let opened = exchange.opened.as_ref();
    let is_streamed = opened.is_some_and(|it| it.upload.is_some());
    if let Some(candidate) = attempts.current() {
        choose_http(peer, &candidate.deployment.provider, body, is_streamed);
    }
    // A body that is still on its way does not hold back its head.
    peer.options.join_request_header = !exchange.awaits_body();
    start_timer(exchange, peer, began);
    trace::begin_attempt(exchange);
}

/// Chooses HTTP/1.1 for a body that exceeds the first window of HTTP/2, if the provider accepts both.
/// Over HTTP/2, Pingora sends the whole body before it reads an answer, and would lose an error that the
/// provider sends in between, such as 413 or 429.
fn choose_http(peer: &mut HttpPeer, provider: &Provider, body: Option<&Bytes>, is_streamed: bool) {
    /// The initial window of a stream (RFC 9113, section 6.9.2).
    const FIRST_WINDOW: usize = 65_535;
    let is_large = body.is_some_and(|body| body.len() > FIRST_WINDOW);
    if (is_large || is_streamed) && provider.http2 == Http2::Auto {
        peer.options.alpn = ALPN::H1;
    }
}

/// Starts the timer of the attempt with this peer.
fn start_timer(exchange: &mut Exchange, peer: &mut HttpPeer, now: Instant) {
    let admitted = exchange.stage.admitted();
    let Some(candidate) = exchange.attempts.current() else {
        return;
    };
    let usual = candidate.deployment.provider.timeouts.answer;
    let bounds = admitted.map_or(usual, |it| usual.under(&it.model.timeouts));
    let streams = admitted.is_some_and(|it| it.facts().stream);
    let ends = exchange.request_ends();
    // Pingora limits the time for a piece of the body over HTTP/1.1 alone.
    let upload = exchange
        .upload()
        .filter(|_| exchange.arrival.version == Version::HTTP_2);
    let patience = upload.map(|_| exchange.snapshot.limits.body.time);
    let deadlines = Deadlines::new(bounds, streams, patience, now, ends);
    let timer = AttemptTimer::begin(deadlines, now, &exchange.timer);
    // Zero means no time-out in one place and an expired one in another.
    const LEAST: Duration = Duration::from_millis(1);
    let left = ends.saturating_duration_since(now).max(LEAST);
    let options = &mut peer.options;
    options.read_timeout = timer.read_timeout(now).map(|it| it.max(LEAST));
    options.connection_timeout = options.connection_timeout.map(|it| it.min(left));
    options.total_connection_timeout = options.total_connection_timeout.map(|it| it.min(left));
    exchange.timer = timer;
}

/// The body of the current attempt, about to be sent.
pub fn send(exchange: &mut Exchange, body: Bytes) -> Bytes {
    match exchange.attempts.current() {
        Some(candidate) => {
            let longest = candidate.deployment.provider.timeouts.write;
            exchange.timer.send(body, longest)
        }
        None => body,
    }
}

/// Why no candidate was asked, although there were some.
pub fn none_asked(exchange: &Exchange) -> UpstreamFault {
    if Instant::now() >= exchange.request_ends() {
        return UpstreamFault::response_timeout();
    }
    let full = exchange.attempts.full;
    full.map_or_else(UpstreamFault::unreachable, full_fault)
}
