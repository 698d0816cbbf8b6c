//! A request that was let through, until it ends.

use super::{
    Limiter, Standing,
    meter::{Meter, Paces},
    pace::Taken,
    shared::SharedLimits,
};
use std::sync::Arc;
use tollgate_types::{AdmissionGuard, KeyId};

/// What a request took of its key's limits. Dropped without more: everything goes back,
/// as for a request that a later check refuses.
#[derive(Debug)]
#[must_use = "dropping it gives everything back"]
pub struct Admission {
    pub(super) meter: Arc<Meter>,
    pub(super) limiter: Limiter,
    pub(super) taken: Taken,
    pub(super) origin: Origin,
}

/// Where a request was counted.
#[derive(Debug)]
pub(super) enum Origin {
    /// In this process, for itself alone.
    Node,
    /// In this process, while the shared server was away.
    Share(KeyId, SharedLimits),
    /// In the shared server, with a slot there if concurrent requests are limited.
    Shared {
        key: KeyId,
        server: SharedLimits,
        has_slot: bool,
    },
    /// It has ended.
    Over,
}

impl Admission {
    /// Ends the request, which used so many tokens: what was taken too much goes back,
    /// what was taken too little is a debt.
    pub fn finish(mut self, input: u64, output: u64) {
        self.end(Some((input, output)));
    }

    /// How the key stands with this request counted.
    pub fn standing(&self) -> Standing {
        self.meter.paces().standing(|| self.limiter.now_ms())
    }

    fn end(&mut self, used: Option<(u64, u64)>) {
        let origin = std::mem::replace(&mut self.origin, Origin::Over);
        if matches!(origin, Origin::Over) {
            return;
        }
        // Held until the server's command is in the queue: a renewal must not come between.
        let mut paces = self.meter.paces();
        let taken = self.taken;
        // Even where the limit was lifted meanwhile, there may be something to give back.
        match used {
            _ if taken.is_nothing() => {}
            Some((input, output)) => paces.correct(&taken, input, output, self.limiter.now_ms()),
            None => paces.give_back(&taken),
        }
        self.meter.leave();
        tell(&origin, &paces, &self.meter, &taken, used);
    }
}

/// Tells the shared server, if it counts this request.
fn tell(origin: &Origin, paces: &Paces, meter: &Meter, taken: &Taken, used: Option<(u64, u64)>) {
    match origin {
        Origin::Node | Origin::Over => {}
        // The server has counted it since it came back.
        Origin::Share(key, server) => server.renew(key, paces, meter),
        Origin::Shared {
            key,
            server,
            has_slot,
        } => {
            server.settle(key, &paces.limits, *has_slot, taken, used);
            if !has_slot {
                server.renew(key, paces, meter);
            }
        }
    }
}

impl AdmissionGuard for Admission {
    fn finish(self: Box<Self>, input: u64, output: u64) {
        Self::finish(*self, input, output);
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.end(None);
    }
}
