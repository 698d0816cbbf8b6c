//! Accepts a connection: it counts against the limits, and behind a load balancer the header of the PROXY
//! protocol, before TLS, names its client.

use super::connection_limits::{Connections, Place};
use super::proxy_protocol::{self, Read};
use crate::access_log::AccessLog;
use crate::events::{self, ConnectionRefusal};
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

/// Lets connections in, on listeners of one kind.
#[derive(Clone)]
pub(in crate::server) struct Gate {
    pub(in crate::server) connections: Arc<Connections>,
    pub(in crate::server) current: Arc<Current>,
    /// Whether each connection begins with a header of the PROXY protocol.
    pub(in crate::server) proxy_protocol: bool,
    /// Where requests leave their lines that never reach the gateway.
    pub(in crate::server) access_log: AccessLog,
}

impl Gate {
    /// Gives a connection its place. Bytes read behind a header stand in `ahead`. The time that a
    /// head may take is that of the header, too.
    ///
    /// # Errors
    ///
    /// There are too many connections, or none may be opened from there, or in this way.
    pub(super) async fn let_in<S>(
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
            // A proxy brings the connections of all its clients.
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

/// From here on the connection is this client's. Its port is dropped.
fn name(stream: &mut (impl GetSocketDigest + UniqueID + ?Sized), client: IpAddr) {
    let digest = SocketDigest::from_raw_fd(stream.id());
    let client = SocketAddr::Inet((client, 0).into());
    // It is new, so nothing is set.
    let _ = digest.peer_addr.set(Some(client));
    stream.set_socket_digest(digest);
}

/// Reads a header, and keeps what follows it. `None`: none came.
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

/// Lets connections in before the handshake of TLS.
#[async_trait]
impl PreTlsProcess for Gate {
    async fn process(&self, stream: &mut L4Stream) -> Result<()> {
        let mut ahead = BytesMut::new();
        match self.let_in(stream, &mut ahead).await {
            Ok(place) => {
                stream.rewind(&ahead);
                // The one thing that lives as long as the socket whatever becomes of it.
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
