//! Accepts a connection: counts it against the limits, and behind a load balancer reads its client from the header
//! of the PROXY protocol, before TLS.

use super::connection_limits::{Connections, Place};
use super::proxy_protocol::{self, Read};
use crate::snapshot::Current;
use async_trait::async_trait;
use bytes::BytesMut;
use pingora_core::listeners::PreTlsProcess;
use pingora_core::protocols::l4::socket::SocketAddr;
use pingora_core::protocols::l4::stream::Stream as L4Stream;
use pingora_core::protocols::{GetSocketDigest, SocketDigest, UniqueID};
use pingora_core::upstreams::peer::{Tracer, Tracing};
use pingora_core::{Error, ErrorType, Result};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt};
use tollgate_telemetry::access_log::AccessLog;
use tollgate_telemetry::events::{self, ConnectionRefusal};

/// Accepts the connections of listeners of one kind.
#[derive(Clone)]
pub(in crate::server) struct Gate {
    pub(in crate::server) connections: Arc<Connections>,
    pub(in crate::server) current: Arc<Current>,
    /// Whether each connection begins with a header of the PROXY protocol.
    pub(in crate::server) proxy_protocol: bool,
    /// The access log, for requests that never reach the gateway.
    pub(in crate::server) access_log: AccessLog,
}

impl Gate {
    /// Counts a connection. Adds the bytes that follow a PROXY header to `ahead`. The time limit of a head also
    /// applies to the header.
    ///
    /// # Errors
    ///
    /// There are too many connections, the address is not allowed, or the header is missing or invalid.
    pub(super) async fn admit<S>(
        &self,
        stream: &mut S,
        ahead: &mut BytesMut,
    ) -> std::result::Result<Place, ConnectionRefusal>
    where
        S: AsyncRead + GetSocketDigest + UniqueID + Unpin + ?Sized,
    {
        let snapshot = self.current.load_full();
        let (limits, trusted) = (&snapshot.limits, &snapshot.trusted_proxies);
        let peer = peer(stream);
        let is_trusted = peer.is_some_and(|peer| trusted.trusts(peer));
        if !self.proxy_protocol {
            // The load balancer has the connections of all its clients.
            let from = peer.filter(|_| !is_trusted);
            return self.connections.take(from, limits);
        }
        if !is_trusted {
            return Err(ConnectionRefusal::Untrusted);
        }
        let mut place = self.connections.take(None, limits)?;
        let header = tokio::time::timeout(limits.head_timeout, read_header(stream, ahead)).await;
        let Ok(Some(client)) = header else {
            return Err(ConnectionRefusal::ProxyHeader);
        };
        if let Some(client) = client {
            name(stream, client);
            if !trusted.trusts(client) {
                place.come_from(client, limits)?;
            }
        }
        Ok(place)
    }
}

/// The address at the other end of a connection.
pub(super) fn peer(stream: &(impl GetSocketDigest + ?Sized)) -> Option<IpAddr> {
    let digest = stream.get_socket_digest()?;
    let peer = digest.peer_addr()?.as_inet()?.ip();
    Some(peer.to_canonical())
}

/// Makes this client the peer of the connection, without its port.
fn name(stream: &mut (impl GetSocketDigest + UniqueID + ?Sized), client: IpAddr) {
    let digest = SocketDigest::from_raw_fd(stream.id());
    let client = SocketAddr::Inet((client, 0).into());
    // It is new, so nothing is set.
    let _ = digest.peer_addr.set(Some(client));
    stream.set_socket_digest(digest);
}

/// Reads a header, and keeps the bytes after it. `None`: there is none.
async fn read_header<S>(stream: &mut S, ahead: &mut BytesMut) -> Option<Option<IpAddr>>
where
    S: AsyncRead + Unpin + ?Sized,
{
    loop {
        match proxy_protocol::read(ahead) {
            Read::Header { size, client } => {
                drop(ahead.split_to(size));
                return Some(client.map(|client| client.to_canonical()));
            }
            Read::Malformed => return None,
            Read::Incomplete if ahead.len() >= proxy_protocol::LONGEST => return None,
            Read::Incomplete => {}
        }
        let read = stream.read_buf(ahead).await;
        if !matches!(read, Ok(1..)) {
            return None;
        }
    }
}

/// Accepts connections before the TLS handshake.
#[async_trait]
impl PreTlsProcess for Gate {
    async fn process(&self, stream: &mut L4Stream) -> Result<()> {
        let mut ahead = BytesMut::new();
        match self.admit(stream, &mut ahead).await {
            Ok(place) => {
                stream.rewind(&ahead);
                // Lives exactly as long as the socket.
                stream.tracer = Some(Tracer(Box::new(Held(Arc::new(place)))));
                Ok(())
            }
            Err(refused) => {
                events::connection_refused(refused);
                Error::e_explain(ErrorType::AcceptError, "the connection is refused")
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
