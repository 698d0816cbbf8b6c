//! Owns the part of its key's limits and balance that a request holds, until the request is settled.

use super::rules;
use std::sync::Arc;
use std::time::Instant;
use tollgate_filter::{FixedCharge, RequestContext};
use tollgate_ledger::{Payable, Paying, Reservation};
use tollgate_types::{
    AdmissionGuard, BillingState, ChargedBefore, Ending, Prices, RequestId, ReservationGuard,
    Settled, Usage, UsageDetails,
};

/// The part of its key's limits and balance that a request holds. Dropping it charges what was delivered.
#[derive(Default)]
pub struct SettlementGuard {
    admission: Option<Box<dyn AdmissionGuard>>,
    reservation: Option<Box<dyn ReservationGuard>>,
    /// The stored response that the reservation pays for, if it does.
    due: Option<Box<(Payable, Paying)>>,
    /// The model that made it.
    made_by: Option<Arc<str>>,
    /// The id of the record, if it has one of its own.
    record: Option<RequestId>,
    settled: Option<(BillingState, Settled)>,
    /// The prices of the deployment that was asked last.
    prices: Option<Prices>,
    /// The bytes of text that the stored progress includes.
    kept_text: u64,
    /// The weight of one token of output in the limits, if the charge is fixed.
    fixed: Option<u64>,
}

impl SettlementGuard {
    /// Takes over the reservation and limits that the filters have taken, even if one has refused the request.
    pub fn take(&mut self, request: &mut RequestContext, arrival: Instant) {
        if let Some(admission) = request.admission.take() {
            self.admission = Some(admission);
        }
        if let Some(mut reservation) = request.reservation.take() {
            reservation.set_arrival(arrival);
            self.reservation = Some(reservation);
        }
        self.fixed = request.fixed.as_ref().map(FixedCharge::tokens);
    }

    /// How the request has ended and what it was charged, once it is settled.
    pub const fn settled(&self) -> Option<&(BillingState, Settled)> {
        self.settled.as_ref()
    }

    /// Adds a reservation for a stored response that is not paid yet.
    pub fn reserve_due(&mut self, reservation: Reservation, due: Payable, paying: Paying) {
        self.reservation = Some(Box::new(reservation));
        self.made_by = Some(Arc::clone(&due.served));
        self.due = Some(Box::new((due, paying)));
    }

    /// The model that made the stored response that the request pays for.
    pub const fn made_by(&self) -> Option<&Arc<str>> {
        self.made_by.as_ref()
    }

    /// The id of the request's record, if the request has paid for a stored response.
    pub const fn record(&self) -> Option<RequestId> {
        self.record
    }

    /// Whether the client has already got the stored response that is to be paid for.
    pub fn is_seen(&self) -> bool {
        self.due.as_ref().is_some_and(|due| due.0.is_seen())
    }

    /// Whether a stored response is to be paid for.
    pub const fn is_of_stored(&self) -> bool {
        self.due.is_some()
    }

    /// The id of the request's record, if it is charged.
    pub fn charged(&self, id: RequestId) -> Option<RequestId> {
        (self.reservation.is_some() || self.settled.is_some()).then_some(id)
    }

    /// Whether the cost is charged: only deployments with a price can serve the request.
    pub fn pays_money(&self) -> bool {
        self.reservation.as_ref().is_some_and(|it| it.pays_money())
    }

    pub(super) fn is_open(&self) -> bool {
        self.reservation.is_some() || self.admission.is_some()
    }

    /// Sets the prices of the deployment that is asked. A stored response keeps those of the model that
    /// made it.
    pub fn set_prices(&mut self, prices: Option<Prices>) {
        self.prices = prices;
        if let Some(reservation) = self.reservation.as_mut().filter(|_| self.due.is_none()) {
            reservation.set_prices(prices);
        }
    }

    /// The prices of the deployment that was asked last.
    pub const fn prices(&self) -> Option<Prices> {
        self.prices
    }

    /// Notes that the answer has begun to flow.
    pub fn first_byte(&mut self) {
        if let Some(reservation) = &mut self.reservation {
            reservation.first_byte();
        }
    }

    /// Whether to store the progress with the piece that is about to be sent. The first text and a long one are
    /// stored at once, because no later piece need follow. `text_bytes`: of the answer so far.
    pub(super) fn is_keeping_due(&self, now: Instant, text_bytes: u64) -> bool {
        /// A crash loses fewer bytes of text than this.
        const MUCH: u64 = 1024;
        let least = if self.kept_text == 0 { 1 } else { MUCH };
        self.reservation.as_ref().is_some_and(|it| {
            text_bytes.saturating_sub(self.kept_text) >= least || it.is_keeping_due(now)
        })
    }

    /// Notes what was delivered so far: it is charged if the guard is dropped.
    pub(super) fn note_delivered(&mut self, delivered: Usage, details: UsageDetails) {
        if let Some(reservation) = &mut self.reservation {
            reservation.progress(delivered, details);
        }
    }

    /// Stores the progress, which is charged even after a crash.
    pub(super) fn keep_progress(&mut self, now: Instant, text_bytes: u64, model: Option<Arc<str>>) {
        if let Some(reservation) = &mut self.reservation {
            self.kept_text = text_bytes;
            reservation.keep_progress(now, model);
        }
    }

    /// The most tokens that the request can use; 0 without a reservation.
    pub(super) fn most_tokens(&self) -> u64 {
        let reservation = self.reservation.as_ref();
        reservation.map_or(0, |it| it.most_tokens())
    }

    /// Charges the request. `was_done`: a provider got it, or the gateway has done the work itself. Returns the
    /// charge, if there is one.
    pub(super) fn settle(&mut self, ending: Ending, was_done: bool) -> Option<Settled> {
        let ending = self.limit_to_due(ending);
        let state = ending.state;
        let settled = self.reservation.take().map(|it| {
            // A request that ends before an attempt costs nothing and leaves no record.
            let is_unused = matches!(state, BillingState::Rejected | BillingState::ClientClosed);
            match is_unused && !was_done {
                true => it.release(),
                false => it.settle(&ending),
            }
        });
        // Dropping the admission of a refused request gives everything back.
        if let Some(admission) = self.admission.take().filter(|_| was_done) {
            let usage = match settled {
                // As charged: an implausible report does not count for the limits either.
                Some(settled) => settled.usage,
                // Free requests count as zero usage.
                None if state.is_free(ending.delivered.output) => Usage::default(),
                None => ending.reported.unwrap_or(ending.delivered),
            };
            let output = usage.output.saturating_mul(self.fixed.unwrap_or(1));
            admission.finish(usage.total_input(), output);
        }
        if let Some(settled) = settled {
            self.settled = Some((state, settled));
        }
        settled
    }

    /// Charges a stored response at most the amount due, and nothing if the client does not get it.
    fn limit_to_due(&mut self, ending: Ending) -> Ending {
        let Some((due, paying)) = self.due.take().map(|due| *due) else {
            return ending;
        };
        let of_nothing = Ending {
            status: ending.status,
            error: ending.error,
            ..Ending::unreported(ending.state, Usage::default())
        };
        let Some(whole) = rules::payable(&ending, due.has_ended) else {
            if let Some(reservation) = self.reservation.take() {
                reservation.release();
            }
            return Ending {
                model_served: ending.model_served,
                ..of_nothing
            };
        };
        paying.done();
        self.record = Some(due.request);
        Ending {
            reported: Some(due.rest(&whole)),
            details: ending.details,
            before: Some(ChargedBefore {
                whole,
                charged: due.charged,
                cost: due.cost,
            }),
            absurd: ending.absurd,
            model_served: Some(due.served),
            ..of_nothing
        }
    }
}
