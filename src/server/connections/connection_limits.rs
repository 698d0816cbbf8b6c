//! Limits the connections of clients, in total and from one address.
//!
//! A connection counts from its acceptance, TLS handshake included, until its socket is closed.

use crate::limits::Limits;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use tollgate_engine::client::ClientNetwork;
use tollgate_telemetry::events::{self, ConnectionRefusal};

/// The connections of all clients.
#[derive(Debug, Default)]
pub(in crate::server) struct Connections {
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: u32,
    by_network: HashMap<ClientNetwork, u32, foldhash::fast::RandomState>,
}

/// A connection's place, for as long as this lives.
#[derive(Debug)]
pub(super) struct Place {
    connections: Arc<Connections>,
    network: Option<ClientNetwork>,
}

impl Connections {
    /// Takes a place for a connection from an address.
    pub(super) fn take(
        self: &Arc<Self>,
        from: Option<IpAddr>,
        limits: &Limits,
    ) -> Result<Place, ConnectionRefusal> {
        let mut taken = self.taken.lock();
        if taken.total >= limits.connections {
            return Err(ConnectionRefusal::Total);
        }
        let network = from.map(ClientNetwork::from);
        if let Some(network) = network {
            taken.add(network, limits)?;
        }
        taken.total = taken.total.saturating_add(1);
        drop(taken);
        events::connection_opened();
        Ok(Place {
            connections: Arc::clone(self),
            network,
        })
    }
}

impl Taken {
    fn add(&mut self, network: ClientNetwork, limits: &Limits) -> Result<(), ConnectionRefusal> {
        let here = self.by_network.entry(network).or_default();
        let most = limits.connections_per_address;
        if most.is_some_and(|most| *here >= most) {
            return Err(ConnectionRefusal::Address);
        }
        *here = here.saturating_add(1);
        Ok(())
    }
}

impl Place {
    /// Counts the connection for its client, once that is known.
    pub(super) fn come_from(
        &mut self,
        client: IpAddr,
        limits: &Limits,
    ) -> Result<(), ConnectionRefusal> {
        let network = ClientNetwork::from(client);
        self.connections.taken.lock().add(network, limits)?;
        self.network = Some(network);
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.connections.taken.lock();
        taken.total = taken.total.saturating_sub(1);
        if let Some(network) = self.network
            && let Some(here) = taken.by_network.get_mut(&network)
        {
            *here = here.saturating_sub(1);
            if *here == 0 {
                taken.by_network.remove(&network);
            }
        }
        drop(taken);
        events::connection_closed();
    }
}
