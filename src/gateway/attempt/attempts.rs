//! The candidates of a request, in order, and the current attempt.

use super::candidate::Candidate;
use super::tally::Tally;
use crate::gateway::outgoing::Outgoing;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate_engine::candidate::{self, full_fault, no_token_fault};
use tollgate_routing::health::{Blame, DeploymentHandle, Full, Ticket};
use tollgate_routing::plan::{LeftOuts, Why};
use tollgate_types::{Format, PublicError};

/// The candidates of a request, in order, and the current one.
#[derive(Default)]
pub struct Attempts {
    candidates: Vec<Candidate>,
    /// The index of the next candidate. Those before it were tried, or had no room.
    next: usize,
    /// How many attempts were made.
    pub tally: Tally,
    /// The name of the current attempt's credential; empty for none.
    credential: Option<Arc<str>>,
    /// How long to wait before the next attempt.
    pause: Option<Duration>,
    /// An attempt has failed, and no provider has the request of the next.
    is_paused: bool,
    /// The prepared request to the next candidate.
    ready: Option<Outgoing>,
    /// The request of the current attempt. Its body is taken once.
    pub outgoing: Outgoing,
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

impl Attempts {
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
    pub(super) fn keep_as_last_resort(&mut self) {
        let reached = self.reached().cloned();
        self.last_resorts.extend(reached);
    }

    /// The candidate that [`Self::advance`] returned last.
    fn reached(&mut self) -> Option<&mut Candidate> {
        let at = self.next.checked_sub(1)?;
        self.candidates.get_mut(at)
    }

    /// Adds the last resorts after the others, each once. `false`: there are none.
    pub(super) fn add_last_resorts(&mut self) -> bool {
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

    /// Starts an attempt with the reached candidate and the request that was prepared for it. Returns whether it
    /// is the first one.
    pub(super) fn start(
        &mut self,
        ready: Option<Outgoing>,
        ticket: Option<(Ticket, Instant)>,
        began: Instant,
    ) -> bool {
        if let Some(candidate) = self.reached() {
            candidate.was_asked = true;
        }
        self.outgoing = ready.unwrap_or_default();
        self.ticket = ticket;
        self.has_content = false;
        self.tally.started = self.tally.started.saturating_add(1);
        let is_first = self.began.is_none();
        self.began.get_or_insert(began);
        is_first
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
        self.tally.stale = self.tally.stale.saturating_add(1);
    }

    /// Asks the current candidate again, at another address.
    pub const fn step_back_to_address(&mut self) {
        self.next = self.next.saturating_sub(1);
        self.tally.unreached = self.tally.unreached.saturating_add(1);
    }

    /// Asks the current candidate again after a pause.
    pub const fn ask_again(&mut self, pause: Duration) {
        self.next = self.next.saturating_sub(1);
        self.tally.repeats = self.tally.repeats.saturating_add(1);
        self.pause = Some(pause);
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

    /// Takes the prepared request to the next candidate.
    pub(super) const fn take_ready(&mut self) -> Option<Outgoing> {
        self.ready.take()
    }

    /// Notes that a candidate has become full since the plan was made.
    pub(super) fn note_full(&mut self, full: Full) {
        let known = self.full.get_or_insert(full);
        known.wait = known.wait.min(full.wait);
    }

    /// Of candidates that have become full since the plan was made: the shortest wait.
    pub(super) const fn full(&self) -> Option<Full> {
        self.full
    }

    /// Begins to send what was prepared, with the credential of this name.
    pub fn begin(&mut self, credential: Arc<str>) -> &Outgoing {
        self.credential = Some(credential);
        &self.outgoing
    }

    /// The name of the current attempt's credential; empty for none.
    pub fn credential(&self) -> Arc<str> {
        self.credential.clone().unwrap_or_default()
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
        has_more && self.tally.may_go_on()
    }
}
