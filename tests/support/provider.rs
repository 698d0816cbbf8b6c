//! A simulated provider within the test.

use super::bounded;
use std::net::SocketAddr;
use tollgate_sim::{Counters, Handle, Received, Sim, SimOptions};

/// A simulated provider that runs for one test and remembers what it was asked.
pub struct Provider {
    pub address: SocketAddr,
    pub handle: Handle,
}

impl Provider {
    pub async fn start() -> Self {
        Self::with(Sim::builder().remember(64)).await
    }

    pub async fn with(options: SimOptions) -> Self {
        let sim = options.bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let provider = Self {
            address: sim.local_addr().unwrap(),
            handle: sim.handle(),
        };
        tokio::spawn(sim.serve(std::future::pending()));
        provider
    }

    /// Waits until the counters are as wanted.
    pub async fn when(&self, what: &str, wanted: impl FnMut(&Counters) -> bool) -> Counters {
        bounded(what, self.handle.when(wanted)).await
    }

    /// The requests that came, oldest first.
    pub fn received(&self) -> Vec<Received> {
        self.handle.received()
    }

    /// The request that came last.
    pub fn last(&self) -> Received {
        self.received().pop().expect("no request has come")
    }
}
