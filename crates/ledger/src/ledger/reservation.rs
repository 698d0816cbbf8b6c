//! One request's reservation of its key's balances, until its one settlement.

use super::{
    Inner, RequestInfo,
    account::{Account, Reserved},
    bill::{Bill, Terms},
    writer::Command,
};
use crate::{
    balance::{Payment, Piece},
    charge::{BillingState, CountSource},
    entry::{Entry, kept_name, kept_reason, pieces_in, slots_for},
    journal::Slot,
};
use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};
pub use tollgate_types::{Ending, Settled, UsageDetails};
use tollgate_types::{ErrorCode, Money, PerUnit, Prices, RequestId, ReservationGuard, Unit, Usage};

/// The longest age of a running request's progress in the settlement file while pieces pass.
const KEEP_AFTER: Duration = Duration::from_millis(250);

/// The reservation of one request.
///
/// Settled once: by [`Reservation::settle`], or on drop. A drop charges the delivered tokens as after a
/// disconnect; if nothing was delivered, the request is free.
#[must_use = "dropping it settles the request as failed"]
pub struct Reservation {
    ledger: Arc<Inner>,
    account: Arc<Account>,
    reserved: Reserved,
    terms: Terms,
    request: RequestInfo,
    /// When the request arrived, or else the reservation was made.
    begun: Instant,
    first_byte: Option<Duration>,
    delivered: Usage,
    details: UsageDetails,
    /// When the progress was last written into the slot, or the request began.
    kept_at: Instant,
    /// Progress was written.
    has_kept: bool,
    /// `None` once it is settled.
    slot: Option<Slot>,
}

impl Reservation {
    pub(super) fn new(
        ledger: Arc<Inner>,
        account: Arc<Account>,
        slot: Slot,
        reserved: Reserved,
        terms: Terms,
        request: RequestInfo,
    ) -> Self {
        let begun = Instant::now();
        Self {
            ledger,
            account,
            reserved,
            terms,
            request,
            begun,
            first_byte: None,
            delivered: Usage::default(),
            details: UsageDetails::default(),
            kept_at: begun,
            has_kept: false,
            slot: Some(slot),
        }
    }

    /// The request of the reservation.
    pub fn request(&self) -> RequestId {
        self.request.id
    }

    /// The reserved amount in a unit; `None` if the request need not be covered in it.
    pub fn reserved(&self, unit: Unit) -> Option<u64> {
        *self.terms.reserved.get(unit)
    }

    /// Ends the request. Must be called before the last bytes of the answer are sent: from here on the
    /// charge survives the process.
    pub fn settle(mut self, ending: &Ending) -> Settled {
        match self.slot.take() {
            Some(slot) => self.finish(slot, ending),
            // Unreachable: only settling takes the slot.
            None => Settled::nothing(),
        }
    }

    /// Gives everything back without a record: for a request that was refused before an attempt.
    pub fn release(mut self) -> Settled {
        if let Some(slot) = self.slot.take() {
            let shared = &self.ledger.shared;
            self.account.release(&self.reserved, shared.clock.now());
            if self.has_kept {
                shared.journal.discard(slot);
            } else {
                shared.journal.give_back(slot);
            }
        }
        Settled::nothing()
    }

    fn finish(&self, mut slot: Slot, ending: &Ending) -> Settled {
        let bill = self.terms.bill(ending);
        let amounts = bill.amounts();
        let shared = &self.ledger.shared;
        let now = shared.clock.now();
        let is_above = |unit| {
            self.reserved(unit)
                .is_some_and(|it| *amounts.get(unit) > it)
        };
        if Unit::ALL.into_iter().any(is_above) {
            let payers = self.account.payers(&self.reserved, &amounts, now);
            // Without a free slot, only the grants pay for which the record has room.
            shared.journal.widen(&mut slot, slots_for(payers));
        }
        let room = pieces_in(slot.count());
        let (mut payment, must_refill) = self.account.settle(&self.reserved, &amounts, room, now);
        if !ending.state.is_free(bill.charge.usage.output) {
            self.account.begin(&self.reserved, &mut payment, now);
        }
        let entry = self.entry(ending, &bill, &payment, now.unix_ms());
        let settled = Settled {
            charged: entry.charged(),
            overdraft: entry.overdraft,
            source: entry.source,
            clamped: entry.clamped,
            usage: entry.usage,
            cost: entry.cost,
            cost_overdraft: entry.cost_overdraft,
        };
        self.note(&settled, &payment);
        self.write_ahead(&slot, &entry);
        self.ledger.send(Command::Settle(slot, entry));
        if must_refill {
            let key = self.account.id.clone();
            self.ledger.send(Command::Refill(key));
        }
        settled
    }

    fn note(&self, settled: &Settled, payment: &PerUnit<Payment>) {
        let shared = &self.ledger.shared;
        let stats = &shared.stats;
        stats.settlements.fetch_add(1, Ordering::Relaxed);
        stats.add_paid(&PerUnit::from_fn(|unit| payment.get(unit).paid()));
        if settled.source == CountSource::Estimated {
            stats.estimated.fetch_add(1, Ordering::Relaxed);
        }
        if settled.clamped {
            stats.clamped.fetch_add(1, Ordering::Relaxed);
            log::warn!(
                "{}: the reported usage was implausible and was corrected",
                self.request.id
            );
        }
        // On a server, free tokens can still pay it: the commit reports what they have not paid.
        if shared.term.is_none() {
            let overdraft = PerUnit::from_fn(|unit| payment.get(unit).overdraft);
            shared.note_overdraft(&self.request.id, self.account.id.as_str(), &overdraft);
        }
    }

    fn entry(
        &self,
        ending: &Ending,
        Bill { charge, cost }: &Bill,
        payment: &PerUnit<Payment>,
        at: u64,
    ) -> Entry {
        let served = ending.model_served.as_ref().unwrap_or(&self.request.model);
        let pieces = |paid: &[Piece]| paid.iter().map(|it| (it.grant.0, it.amount)).collect();
        let asked = kept_name(&self.request.model);
        let served = if Arc::ptr_eq(served, &self.request.model) {
            Arc::clone(&asked)
        } else {
            kept_name(served)
        };
        Entry {
            request: self.request.id,
            key: self.account.key,
            at,
            asked,
            served,
            reason: self.request.reason.as_deref().map(kept_reason),
            format: self.request.format,
            streamed: self.request.streamed,
            status: ending.status,
            error: ending.error,
            state: ending.state,
            usage: charge.usage,
            source: charge.source,
            clamped: charge.clamped,
            paid: pieces(&payment.tokens.pieces),
            overdraft: payment.tokens.overdraft,
            cost: *cost,
            cost_paid: pieces(&payment.money.pieces),
            // A cost that no grant of money has to cover is not charged.
            cost_overdraft: cost
                .filter(|_| self.pays_money())
                .map(|_| Money::from_nanos(payment.money.overdraft)),
            first_byte_ms: self.first_byte.map(millis),
            duration_ms: millis(self.begun.elapsed()),
            is_progress: false,
        }
    }

    /// A record that cannot be written ahead is still entered. Until its commit, about 200 ms later, a crash
    /// would lose it.
    fn write_ahead(&self, slot: &Slot, entry: &Entry) {
        let shared = &self.ledger.shared;
        let written = shared
            .journal
            .write(slot, entry.request, |out| entry.write_record(out));
        if let Err(fault) = written {
            self.report_unwritten(&fault);
        }
    }

    fn report_unwritten(&self, fault: &io::Error) {
        let stats = &self.ledger.shared.stats;
        stats.failed_writes.fetch_add(1, Ordering::Relaxed);
        log::error!(
            "{}: the settlement file cannot be written: {fault}",
            self.request.id
        );
    }
}

impl ReservationGuard for Reservation {
    fn output_limit(&self) -> Option<u64> {
        self.terms.output_limit()
    }

    fn most_tokens(&self) -> u64 {
        let bound = &self.terms.bound;
        let output = self.output_limit().unwrap_or(bound.output);
        bound
            .input
            .saturating_add(bound.hidden_input)
            .saturating_add(output)
    }

    fn pays_money(&self) -> bool {
        self.terms.reserved.money.is_some()
    }

    fn set_arrival(&mut self, at: Instant) {
        self.begun = at;
    }

    fn first_byte(&mut self) {
        let elapsed = self.begun.elapsed();
        self.first_byte.get_or_insert(elapsed);
    }

    fn set_prices(&mut self, prices: Option<Prices>) {
        self.terms.prices = prices;
    }

    fn progress(&mut self, delivered: Usage, details: UsageDetails) {
        (self.delivered, self.details) = (delivered, details);
    }

    fn is_keeping_due(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.kept_at) >= KEEP_AFTER
    }

    /// Stores into memory, without a system call.
    fn keep_progress(&mut self, now: Instant, model_served: Option<Arc<str>>) {
        self.kept_at = now;
        // A crash would be a failure of the gateway.
        let ending = Ending {
            status: 200,
            error: Some(ErrorCode::ServiceUnavailable),
            model_served,
            details: self.details,
            ..Ending::unreported(BillingState::UpstreamFailed, self.delivered)
        };
        let bill = self.terms.bill(&ending);
        let amounts = bill.amounts();
        let is_charged = amounts.iter().any(|amount| *amount > 0);
        let Some(slot) = self.slot.as_ref().filter(|_| is_charged) else {
            return;
        };
        let shared = &self.ledger.shared;
        let payment = PerUnit::from_fn(|unit| {
            let reserved = self.reserved.of(unit);
            reserved.map_or_else(Payment::default, |reserved| {
                Payment::from_reserved(reserved, *amounts.get(unit))
            })
        });
        let entry = Entry {
            is_progress: true,
            ..self.entry(&ending, &bill, &payment, shared.clock.now().unix_ms())
        };
        let request = entry.request;
        let written = shared
            .journal
            .write_progress(slot, request, |out| entry.write_record(out));
        match written {
            Ok(()) => self.has_kept = true,
            Err(fault) => self.report_unwritten(&fault),
        }
    }

    fn settle(self: Box<Self>, ending: &Ending) -> Settled {
        Self::settle(*self, ending)
    }

    fn release(self: Box<Self>) -> Settled {
        Self::release(*self)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        let state = if self.delivered.output > 0 {
            BillingState::ClientClosed
        } else {
            BillingState::UpstreamFailed
        };
        let ending = Ending {
            details: self.details,
            ..Ending::unreported(state, self.delivered)
        };
        self.finish(slot, &ending);
    }
}

impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservation")
            .field("request", &self.request.id)
            .field("reserved", &self.reserved)
            .finish_non_exhaustive()
    }
}

fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}
