//! What a request holds of its key's limits and balance, and what it comes to.
//!
//! One owner for both, from the last filter to the end: the phases report to it, the first
//! that knows how the request ended settles it, and dropping it settles what nobody has. How
//! much is charged by which rule is the ledger's.

use super::answer::Answer;
use super::exchange::Exchange;
use super::record;
use super::stored;
use tollgate_filter::Holds;
use tollgate_ledger::{Admission, BillingState, Ending, Reservation, Settled};
use tollgate_types::{ErrorCode, RequestFacts, Usage};

/// What a request holds until it is settled.
#[derive(Default)]
pub struct Toll {
    admission: Option<Box<Admission>>,
    reservation: Option<Box<Reservation>>,
    settled: Option<(BillingState, Settled)>,
}

impl Toll {
    /// Takes over what the filters hold, whether all of them let the request through or not.
    pub fn take(holds: &mut Holds) -> Self {
        Self {
            admission: holds.take(),
            reservation: holds.take(),
            settled: None,
        }
    }

    /// How the request ended and what it was charged, once it is settled.
    pub const fn settled(&self) -> Option<&(BillingState, Settled)> {
        self.settled.as_ref()
    }

    fn is_open(&self) -> bool {
        self.reservation.is_some() || self.admission.is_some()
    }

    /// The answer has begun to flow.
    pub fn first_byte(&mut self) {
        if let Some(reservation) = &mut self.reservation {
            reservation.first_byte();
        }
    }

    fn settle(&mut self, used: Used, how: How) {
        if let Some(admission) = self.admission.take() {
            // What never left takes nothing of any limit: dropping it gives everything back.
            if how.was_sent {
                let usage = used.reported.unwrap_or(used.delivered);
                admission.finish(usage.total_input(), usage.output);
            }
        }
        if let Some(reservation) = self.reservation.take() {
            let settled = reservation.settle(&Ending {
                state: how.state,
                status: how.status,
                error: how.code,
                reported: used.reported,
                absurd: used.absurd,
                delivered: used.delivered,
                model_served: how.model,
            });
            self.settled = Some((how.state, settled));
        }
    }
}

/// How a request ended.
struct How {
    state: BillingState,
    status: u16,
    code: Option<ErrorCode>,
    model: Option<std::sync::Arc<str>>,
    /// A provider was asked.
    was_sent: bool,
}

/// What a request used, as far as it is known.
#[derive(Clone, Copy)]
struct Used {
    /// What the provider reported at the end of its answer.
    reported: Option<Usage>,
    /// It reported what is no count of tokens.
    absurd: bool,
    /// What was sent and delivered: by the gateway's own count, or by what the provider
    /// reported on the way where that is more.
    delivered: Usage,
}

/// A piece of the answer is about to pass: what was delivered is charged for from here on,
/// whoever goes away, and an answer that is whole is settled.
pub fn passed(exchange: &mut Exchange) {
    stored::note(exchange);
    if exchange.answer.is_complete() {
        let state = record::ending(exchange, None);
        return settle(exchange, state);
    }
    let delivered = delivered(exchange);
    if let Some(reservation) = &mut exchange.toll.reservation {
        reservation.progress(delivered);
    }
}

/// The answer ends with this error after its head has left.
pub fn break_off(exchange: &mut Exchange, code: ErrorCode) {
    exchange.broken = Some(code);
    settle(exchange, BillingState::UpstreamFailed);
}

/// Settles what the request holds, where it is not settled yet. Must come before the last
/// bytes of an answer leave.
pub fn settle(exchange: &mut Exchange, state: BillingState) {
    if !exchange.toll.is_open() {
        return;
    }
    let free = matches!(state, BillingState::Rejected);
    let used = Used {
        reported: reported(&exchange.answer).filter(|_| !free),
        absurd: exchange.answer.usage().is_some_and(|report| report.absurd),
        delivered: if free {
            Usage::default()
        } else {
            delivered(exchange)
        },
    };
    let told = exchange.told;
    let how = How {
        state,
        status: told.map_or(record::CLIENT_CLOSED, |told| told.status),
        code: exchange.broken.or(told.and_then(|told| told.code)),
        model: exchange.model_served(),
        was_sent: exchange.attempts.made() > 0,
    };
    exchange.toll.settle(used, how);
}

/// The provider's report, where its answer is whole or it has said why it ends: before that
/// its numbers grow.
fn reported(answer: &Answer) -> Option<Usage> {
    let ends = || answer.facts().is_some_and(|facts| facts.stop.is_some());
    answer
        .usage()
        .filter(|_| answer.is_complete() || ends())?
        .believed()
}

/// What was sent and delivered so far.
fn delivered(exchange: &Exchange) -> Usage {
    /// Text and arguments of tool calls, in the scripts that most answers are in.
    const BYTES_PER_TOKEN: u64 = 4;
    if exchange.attempts.made() == 0 {
        return Usage::default();
    }
    let facts = exchange.request.as_ref().and_then(|it| it.facts.as_ref());
    let sent = facts.map_or(0, RequestFacts::likely_input_tokens);
    let answer = &exchange.answer;
    // What is still held back was delivered to nobody.
    let left = exchange.first_byte.map_or(0, |_| answer.text_bytes());
    let counted = Usage {
        input: sent,
        output: left.div_ceil(BYTES_PER_TOKEN),
        ..Usage::default()
    };
    on_the_way(answer).map_or(counted, |said| Usage {
        output: match exchange.first_byte {
            Some(_) => counted.output.max(said.output),
            None => 0,
        },
        ..said
    })
}

/// What the provider has said of its usage before its end, where that can be believed.
fn on_the_way(answer: &Answer) -> Option<Usage> {
    let report = answer.usage()?;
    // No request has no input: a provider that says so says nothing.
    (report.usage.total_input() > 0 && !report.absurd).then_some(report.usage)
}
