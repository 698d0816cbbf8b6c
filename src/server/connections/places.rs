//! How many connections callers may hold, in total and from one address.
//!
//! A connection has its place from the moment it was accepted, so that the handshake of TLS
//! counts too, to the moment its socket is closed.

use crate::events;
use crate::snapshot::{Current, Limits};
use async_trait::async_trait;
use parking_lot::Mutex;
use pingora_core::listeners::PreTlsProcess;
use pingora_core::protocols::GetSocketDigest;
use pingora_core::protocols::l4::stream::Stream as L4Stream;
use pingora_core::upstreams::peer::{Tracer, Tracing};
use pingora_core::{Error, ErrorType, Result};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Where a connection comes from, as far as it counts: whoever has an address of IPv6 has
/// the rest of its /64 too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Network {
    V4([u8; 4]),
    V6([u8; 8]),
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

/// The connections of all callers.
#[derive(Debug, Default)]
pub(in crate::server) struct Connections {
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: u32,
    by_network: HashMap<Network, u32, foldhash::fast::RandomState>,
}

/// Why a connection is closed as it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// There are as many as there may be.
    Total,
    /// There are as many from its address.
    Address,
}

/// A connection's place, for as long as this lives.
#[derive(Debug)]
pub(super) struct Place {
    connections: Arc<Connections>,
    network: Option<Network>,
}

impl Connections {
    /// Takes a place for a connection from an address.
    pub(super) fn take(
        self: &Arc<Self>,
        from: Option<IpAddr>,
        limits: &Limits,
    ) -> Result<Place, Full> {
        let network = from.map(Network::from);
        let mut taken = self.taken.lock();
        if taken.total >= limits.connections {
            return Err(Full::Total);
        }
        if let Some(network) = network {
            let here = taken.by_network.entry(network).or_default();
            if limits
                .connections_per_address
                .is_some_and(|most| *here >= most)
            {
                return Err(Full::Address);
            }
            *here = here.saturating_add(1);
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

/// Gives connections their places before the handshake of TLS.
pub(in crate::server) struct BeforeTls {
    pub(in crate::server) connections: Arc<Connections>,
    pub(in crate::server) current: Arc<Current>,
}

#[async_trait]
impl PreTlsProcess for BeforeTls {
    async fn process(&self, stream: &mut L4Stream) -> Result<()> {
        let digest = stream.get_socket_digest();
        let peer = digest.as_ref().and_then(|digest| digest.peer_addr());
        let from = peer.and_then(|peer| peer.as_inet()).map(|peer| peer.ip());
        match self.connections.take(from, &self.current.load().limits) {
            Ok(place) => {
                // The one thing that lives as long as the socket whatever becomes of it.
                stream.tracer = Some(Tracer(Box::new(Held(Arc::new(place)))));
                Ok(())
            }
            Err(full) => {
                events::connection_refused(full.as_str());
                Error::e_explain(ErrorType::AcceptError, "there are too many connections")
            }
        }
    }
}

/// A place that goes with its socket.
#[derive(Clone, Debug)]
struct Held(#[expect(dead_code, reason = "it is held, not looked at")] Arc<Place>);

impl Tracing for Held {
    fn on_connected(&self) {}

    fn on_disconnected(&self) {}

    fn boxed_clone(&self) -> Box<dyn Tracing> {
        Box::new(self.clone())
    }
}

impl Full {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Address => "address",
        }
    }
}
