//! One attempt after another: which candidate is asked. What it is sent is decided in
//! `outgoing`.

use super::deadlines::Deadlines;
use super::exchange::Exchange;
use super::load;
use super::memory_permit::MemoryPermit;
use super::outgoing::{self, NotReady, Outgoing};
use super::remembered::Kept;
use super::timer::AttemptTimer;
use crate::candidate::{self, full_fault};
use crate::clock;
use crate::upstreams::Pool;
use bytes::Bytes;
use pingora_core::upstreams::peer::{ALPN, HttpPeer};
use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate_routing::health::{Blame, Full, Place, Refusal, Seat, Ticket};
use tollgate_routing::plan::Why;
use tollgate_routing::{Credential, Http2, Provider};
use tollgate_translate::TranslationNotes;
use tollgate_types::{Format, PublicError};
use tollgate_wire::fault::UpstreamFault;

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
    /// When the first attempt began.
    began: Option<Instant>,
    /// What the attempt under way holds of those that it asks, and when it began; nothing where
    /// it uses no model.
    ticket: Option<(Ticket, Instant)>,
    /// The attempt under way has brought content.
    has_content: bool,
    /// Those that were benched when their turn came.
    spares: Vec<Candidate>,
    /// What kept a candidate from being asked that had room a moment before: the shortest wait.
    full: Option<Full>,
}

/// Who can be asked.
#[derive(Clone)]
pub struct Candidate {
    /// The deployment and how it is doing.
    pub place: Arc<Place>,
    /// Which of its credentials is used.
    pub seat: usize,
    /// Why it stands where it does.
    pub why: Why,
    /// The connections to its provider.
    pub pool: Arc<Pool>,
    /// The format in which it is asked: the caller's, or the one that its request is
    /// translated to. Settled when it is made ready what it is sent.
    pub format: Format,
}

/// What is asked is a place.
impl Deref for Candidate {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

impl Candidate {
    fn seat(&self) -> Option<&Seat> {
        self.place.seats.get(self.seat)
    }

    /// Whether it can be asked for what is no use of a model: nothing is taken of its limits,
    /// and what comes of it says nothing of how it is doing.
    fn can_serve_unbilled(&self, now: u64) -> Result<(), Refusal> {
        let is_well = |seat| self.place.is_closed(seat, now);
        match self.why == Why::LastResort || self.seat().is_some_and(is_well) {
            true => Ok(()),
            false => Err(Refusal::Benched),
        }
    }

    /// What to log in with.
    pub fn log_in(&self) -> Option<LogIn<'_>> {
        let credential = self.seat()?.credential.as_ref();
        Some(credential.map_or(LogIn::Without, LogIn::With))
    }

    /// Whether what fails here fails there as well.
    fn shares(&self, other: &Self, blame: Blame) -> bool {
        let provider = Arc::ptr_eq(&self.provider, &other.provider);
        let deployment = Arc::ptr_eq(&self.health, &other.health);
        let account = || {
            let accounts = self.seat().zip(other.seat());
            accounts.is_some_and(|(one, another)| Arc::ptr_eq(&one.account, &another.account))
        };
        match blame {
            Blame::Nobody => false,
            Blame::Provider => provider,
            Blame::Deployment | Blame::Model => deployment,
            Blame::Credential => account(),
            Blame::Seat | Blame::SeatInDoubt => deployment && account(),
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
    pub const MOST_CANDIDATES: usize = candidate::MOST;
    /// How many attempts are made at most: each candidate may meet a connection or two
    /// that its provider has just closed.
    pub const MOST: usize = 16;

    /// Adds one more to ask, behind the others.
    pub fn add(&mut self, candidate: Candidate) {
        if self.candidates.len() < Self::MOST_CANDIDATES {
            self.candidates.push(candidate);
        }
    }

    /// Puts those that share what the candidate under way has failed at behind all others.
    /// Where the provider does not know the model, they are not asked at all.
    pub fn put_behind(&mut self, blame: Blame) {
        if self.begun >= self.candidates.len() {
            return;
        }
        let mut waiting = self.candidates.split_off(self.begun);
        if let Some(failed) = self.candidates.last() {
            if blame == Blame::Model {
                waiting.retain(|it| !it.shares(failed, blame));
            }
            // Stable: `false` comes first. Who is benched stays behind all others.
            waiting.sort_by_key(|it| (it.why == Why::LastResort, it.shares(failed, blame)));
        }
        self.candidates.append(&mut waiting);
    }

    /// Goes on to the next candidate, with what was made ready for it.
    pub fn advance(&mut self) -> Option<&Candidate> {
        let next = self.candidates.get(self.begun)?;
        self.begun = self.begun.saturating_add(1);
        self.sent = self.ready.take().unwrap_or_default();
        Some(next)
    }

    /// When the first attempt began.
    pub const fn began(&self) -> Option<Instant> {
        self.began
    }

    /// What the attempt under way holds; reports go through `outcome`.
    pub fn ticket(&mut self) -> Option<(&mut Ticket, Instant)> {
        self.ticket.as_mut().map(|(ticket, began)| (ticket, *began))
    }

    /// Whether the attempt under way has brought content.
    pub const fn has_content(&self) -> bool {
        self.has_content
    }

    /// The attempt under way has brought content.
    pub const fn note_content(&mut self) {
        self.has_content = true;
    }

    /// Gives back what the attempt under way holds.
    pub fn drop_ticket(&mut self) {
        self.ticket = None;
    }

    /// Keeps the candidate at hand for a last resort: since it became one, it was benched.
    fn pass_over(&mut self) {
        self.spares.extend(self.current().cloned());
    }

    /// Nobody is left: those that were passed over are the last resort, each once.
    fn resort(&mut self) -> bool {
        let spares = std::mem::take(&mut self.spares);
        let has_some = !spares.is_empty();
        self.candidates.truncate(self.begun);
        self.candidates
            .extend(spares.into_iter().map(|spare| Candidate {
                why: Why::LastResort,
                ..spare
            }));
        has_some
    }

    /// The candidate that is being asked.
    pub fn current(&self) -> Option<&Candidate> {
        self.candidates.get(self.begun.checked_sub(1)?)
    }

    /// Whether the turn of this credential at this place has come.
    pub fn has_begun(&self, place: &Arc<Place>, seat: usize) -> bool {
        let mut begun = self.candidates.iter().take(self.begun);
        begun.any(|it| Arc::ptr_eq(&it.place, place) && it.seat == seat)
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
    pub fn has_only_one(&self) -> bool {
        self.candidates.len() == 1 && self.spares.is_empty()
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

    /// Keeps what the candidate that comes next is sent, and in which format.
    pub fn make_ready(&mut self, format: Format, outgoing: Outgoing) {
        if let Some(coming) = self.candidates.get_mut(self.begun) {
            coming.format = format;
            self.ready = Some(outgoing);
        }
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

    /// The output limit of the attempt under way, where that is more than its caller's.
    pub const fn raised_limit(&self) -> Option<u64> {
        self.sent.raised_limit
    }

    /// What is remembered of a request that was translated, until its answer is.
    pub const fn notes(&self) -> Option<&Arc<TranslationNotes>> {
        self.sent.notes.as_ref()
    }

    /// What is kept of the request until its answer is remembered; nothing the second time.
    pub const fn take_kept(&mut self) -> Option<Kept> {
        self.sent.kept.take()
    }

    /// Whether another attempt is within bounds.
    pub const fn may_go_on(&self) -> bool {
        self.made < Self::MOST
    }

    /// Whether a connection may once more have been closed before it was used: some attempts are
    /// left for the others.
    pub const fn may_be_stale(&self) -> bool {
        self.stale < Self::MOST - Self::MOST_CANDIDATES
    }

    /// Whether a provider may once more leave a request untaken without having failed: those
    /// that end their connections in good order take the next.
    pub const fn may_be_refused(&self) -> bool {
        const MOST_REFUSED: usize = 2;
        self.stale < MOST_REFUSED
    }

    /// Whether there is nobody to ask.
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    /// Whether there is another candidate to ask.
    pub fn has_next(&self) -> bool {
        let has_more = self.begun < self.candidates.len() || !self.spares.is_empty();
        has_more && self.may_go_on()
    }
}

/// Makes ready what the next candidate is sent that can take the request; those before it
/// are left out. `room`: the memory that the first of them was waited for.
///
/// # Errors
///
/// Why none can take it.
pub fn make_ready(
    exchange: &mut Exchange,
    mut room: Option<MemoryPermit>,
) -> Result<(), PublicError> {
    let (mut refusal, mut shed) = (None, None);
    while let Some(candidate) = exchange.attempts.coming() {
        match outgoing::prepare(exchange, candidate, room.take()) {
            Ok((format, outgoing)) => {
                exchange.attempts.make_ready(format, outgoing);
                return Ok(());
            }
            Err(NotReady::Refused(error)) => drop(refusal.get_or_insert(error)),
            Err(NotReady::Shed(why)) => shed = Some(why),
        }
        exchange.attempts.leave_out();
    }
    // What passes by itself comes before what the others cannot carry.
    let refusal = shed.map(load::shed).or(refusal);
    refusal.map_or(Ok(()), Err)
}

/// The peer of the next attempt: the next candidate that has an address.
pub fn next_peer(exchange: &mut Exchange) -> Option<Box<HttpPeer>> {
    loop {
        if !exchange.attempts.is_ready() {
            make_ready(exchange, None).ok()?;
        }
        let admitted = exchange.stage.admitted();
        let tokens = admitted.map_or(0, |it| it.facts().likely_input_tokens());
        let is_unbilled = exchange.is_unbilled();
        let attempts = &mut exchange.attempts;
        attempts.ticket = None;
        if attempts.coming().is_none() && attempts.resort() {
            continue;
        }
        let candidate = attempts.advance()?;
        let Some(mut peer) = candidate.pool.peer() else {
            continue;
        };
        let began = Instant::now();
        let now = clock::steady_ms(began);
        let is_last_resort = candidate.why == Why::LastResort;
        let entered = if is_unbilled {
            candidate.can_serve_unbilled(now).map(|()| None)
        } else {
            let place = &candidate.place;
            let entered = place.enter(candidate.seat, tokens, now, is_last_resort);
            entered.map(|ticket| Some((ticket, began)))
        };
        match entered {
            Ok(ticket) => {
                if attempts.made == 0 {
                    attempts.began = Some(began);
                    exchange.retries.of(is_unbilled).note_request();
                }
                attempts.made = attempts.made.saturating_add(1);
                attempts.ticket = ticket;
                attempts.has_content = false;
                let body = attempts.sent.body.as_ref();
                if let Some(candidate) = attempts.current() {
                    choose_http(&mut peer, &candidate.deployment.provider, body);
                }
                start_timer(exchange, &mut peer, began);
                return Some(peer);
            }
            Err(Refusal::Full(full)) => {
                let known = attempts.full.get_or_insert(full);
                known.wait = known.wait.min(full.wait);
            }
            // A last resort passes every breaker: whoever cannot now is asked once more at most.
            Err(Refusal::Benched) if !is_last_resort => attempts.pass_over(),
            Err(Refusal::Benched) => {}
        }
    }
}

/// Speaks HTTP/1.1 where the body is more than HTTP/2 takes at once and the provider is free to
/// choose. Pingora hands a body of HTTP/2 over whole before it looks for an answer, and what a provider
/// says in the middle of it, that it is too large or comes too often, would be lost.
fn choose_http(peer: &mut HttpPeer, provider: &Provider, body: Option<&Bytes>) {
    /// What a stream takes before its peer has taken any of it (RFC 9113, section 6.9.2).
    const FIRST_WINDOW: usize = 65_535;
    let is_large = body.is_some_and(|body| body.len() > FIRST_WINDOW);
    if is_large && provider.http2 == Http2::Auto {
        peer.options.alpn = ALPN::H1;
    }
}

/// Begins to count the time of the attempt with this peer, `now`.
fn start_timer(exchange: &mut Exchange, peer: &mut HttpPeer, now: Instant) {
    let admitted = exchange.stage.admitted();
    let Some(candidate) = exchange.attempts.current() else {
        return;
    };
    let usual = candidate.deployment.provider.timeouts.answer;
    let bounds = admitted.map_or(usual, |it| usual.under(&it.model.timeouts));
    let streams = admitted.is_some_and(|it| it.facts().stream);
    let ends = exchange.request_ends();
    let deadlines = Deadlines::new(bounds, streams, now, ends);
    let timer = AttemptTimer::begin(deadlines, now, &exchange.timer);
    // Zero would be no time-out at all to some and one that has fired to others.
    const LEAST: Duration = Duration::from_millis(1);
    let left = ends.saturating_duration_since(now).max(LEAST);
    let options = &mut peer.options;
    options.read_timeout = timer.read_timeout(now).map(|it| it.max(LEAST));
    options.connection_timeout = options.connection_timeout.map(|it| it.min(left));
    options.total_connection_timeout = options.total_connection_timeout.map(|it| it.min(left));
    exchange.timer = timer;
}

/// The body of the attempt under way, about to be sent.
pub fn send(exchange: &mut Exchange, body: Bytes) -> Bytes {
    match exchange.attempts.current() {
        Some(candidate) => {
            let longest = candidate.deployment.provider.timeouts.write;
            exchange.timer.send(body, longest)
        }
        None => body,
    }
}

/// Why nobody was asked, where candidates were there.
pub fn nobody(exchange: &Exchange) -> UpstreamFault {
    let full = exchange.attempts.full;
    full.map_or_else(UpstreamFault::unreachable, full_fault)
}
