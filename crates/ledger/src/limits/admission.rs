//! An admitted request, until it ends.

use super::{
    Limiter, Standing,
    meter::Meter,
    pace::Taken,
    shared::{Settlement, SharedLimits},
};
use std::sync::Arc;
use tollgate_types::{AdmissionGuard, KeyId};

/// The amounts that a request took from its key's limits. Dropping it gives everything back, as for a request
/// that a later check refuses.
#[derive(Debug)]
#[must_use = "dropping it gives everything back"]
pub struct Admission {
    pub(super) meter: Arc<Meter>,
    pub(super) limiter: Limiter,
    pub(super) taken: Taken,
    /// If there is a shared server.
    pub(super) at_server: Option<AtServer>,
    /// Input and output tokens, once it has ended.
    pub(super) used: Option<(u64, u64)>,
}

/// What an admission has to correct at the server when the request ends.
#[derive(Debug)]
pub(super) struct AtServer {
    pub(super) key: KeyId,
    pub(super) server: SharedLimits,
    /// The server has given it one of the concurrent requests.
    pub(super) has_slot: bool,
}

impl Admission {
    /// Ends the request with its actual tokens: a surplus goes back, a shortage becomes a debt.
    pub fn finish(mut self, input: u64, output: u64) {
        self.used = Some((input, output));
    }

    /// The state of the key's limits, including this request.
    pub fn standing(&self) -> Standing {
        self.meter.paces().standing(|| self.limiter.now_ms())
    }
}

impl AdmissionGuard for Admission {
    fn finish(self: Box<Self>, input: u64, output: u64) {
        Self::finish(*self, input, output);
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if self.taken.is_nothing() && self.at_server.is_none() {
            self.meter.leave();
            return;
        }
        // Locked until the command is in the queue of the server: a renewal must not come between.
        let mut paces = self.meter.paces();
        // Even if the limit was removed meanwhile, an amount can have to be given back.
        match self.used {
            Some((input, output)) => {
                paces.correct(&self.taken, input, output, self.limiter.now_ms());
            }
            None => paces.give_back(&self.taken),
        }
        self.meter.leave();
        let Some(AtServer {
            key,
            server,
            has_slot,
        }) = &self.at_server
        else {
            return;
        };
        // While the server is unreachable, the debt of the bucket keeps it.
        if server.is_open() {
            let settlement =
                Settlement::of_request(key, &paces.share.whole, *has_slot, &self.taken, self.used);
            paces.uncounted(self.limiter.now_ms());
            server.settle(settlement);
            if !has_slot {
                server.renew(key, &paces, &self.meter);
            }
        }
    }
}
