//! Events at the edge: connections, malformed heads, and requests that are refused under load.

use super::builder::Builder;
use super::{METRICS, inc};
use prometheus::{IntCounter, IntCounterVec, IntGauge};

/// The metrics of the edge.
pub(super) struct Edge {
    connections: IntGauge,
    connections_refused: IntCounterVec,
    handshakes_failed: IntCounter,
    heads_refused: IntCounterVec,
    requests_shed: IntCounterVec,
    http2_floods: IntCounter,
    slow_readers: IntCounter,
    resident: IntGauge,
}

tollgate_types::named! {
    /// Why a request is refused under load.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Shed {
        /// The limit of requests in flight is reached.
        Requests = "requests",
        /// The limit of memory for request bodies is reached.
        Bodies = "bodies",
        /// The memory limit of the process is reached.
        Memory = "memory",
        /// The limit of open files is reached.
        Files = "files",
        /// The limit of requests in flight that the gateway answers by itself is reached.
        LocalRequests = "local_requests",
        /// The key has its share of the requests in flight.
        KeyRequests = "key_requests",
        /// The key has its share of those that the gateway answers by itself.
        KeyLocalRequests = "key_local_requests",
        /// The requests of the key have their share of the open files.
        KeyFiles = "key_files",
        /// The bodies of the key have their share of the memory.
        KeyBodies = "key_bodies",
    }
}

impl Shed {
    /// Whether the key's own requests are the cause: a request with another key would be served.
    pub const fn is_for_the_key(self) -> bool {
        matches!(
            self,
            Self::KeyRequests | Self::KeyLocalRequests | Self::KeyFiles | Self::KeyBodies
        )
    }
}

tollgate_types::named! {
    /// Why a connection is closed on arrival.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ConnectionRefusal {
        /// The connection limit of the listener is reached.
        Total = "total",
        /// The connection limit of the client's address is reached.
        Address = "address",
        /// The listener expects the PROXY protocol, and the peer is no trusted proxy.
        Untrusted = "untrusted",
        /// The PROXY header is missing, malformed or late.
        ProxyHeader = "proxy_header",
    }
}

tollgate_types::named! {
    /// Why a request head is refused.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum HeadRefusal {
        /// It is not HTTP, or malformed.
        Malformed = "malformed",
        /// Its body could end in two places.
        Framing = "framing",
        /// It names no host, or two.
        Host = "host",
        /// A method that the gateway never serves.
        Method = "method",
        /// Too many bytes or headers.
        TooLarge = "too_large",
        /// Its end did not come in time.
        Timeout = "timeout",
    }
}

impl Edge {
    pub(super) fn new(make: &Builder) -> Self {
        Self {
            connections: make.gauge("tollgate_connections", "Open connections of clients."),
            connections_refused: make.counters_of(
                "tollgate_connections_refused_total",
                "Connections closed on arrival, by reason.",
                "reason",
                ConnectionRefusal::ALL.map(ConnectionRefusal::as_str),
            ),
            handshakes_failed: make.counter(
                "tollgate_tls_handshakes_failed_total",
                "Connections without a complete TLS handshake, refused ones included.",
            ),
            heads_refused: make.counters_of(
                "tollgate_heads_refused_total",
                "HTTP/1.1 request heads that were malformed or too slow, by reason.",
                "reason",
                HeadRefusal::ALL.map(HeadRefusal::as_str),
            ),
            requests_shed: make.counters_of(
                "tollgate_requests_shed_total",
                "Requests refused because of overload, by what was used up; key_… is a key's own share.",
                "reason",
                Shed::ALL.map(Shed::as_str),
            ),
            http2_floods: make.counter(
                "tollgate_http2_floods_total",
                "Connections ended for floods of HTTP/2 frames.",
            ),
            slow_readers: make.counter(
                "tollgate_slow_readers_total",
                "Connections ended because the client read too slowly.",
            ),
            resident: make.gauge(
                "tollgate_resident_memory_bytes",
                "Resident memory of the process.",
            ),
        }
    }
}

/// A caller has a connection.
pub fn connection_opened() {
    METRICS.edge.connections.inc();
}

/// How many connections callers have.
pub fn connections() -> i64 {
    METRICS.edge.connections.get()
}

/// It has it no more.
pub fn connection_closed() {
    METRICS.edge.connections.dec();
}

/// A connection was closed as it came.
pub fn connection_refused(reason: ConnectionRefusal) {
    inc(&METRICS.edge.connections_refused, [reason.as_str()]);
}

/// A handshake of TLS came to nothing. The proxy writes the line, as far as there is room.
pub fn handshake_failed() {
    METRICS.edge.handshakes_failed.inc();
}

/// A head was refused.
pub fn head_refused(reason: HeadRefusal) {
    inc(&METRICS.edge.heads_refused, [reason.as_str()]);
}

/// A request was refused that came at a bad time.
pub fn request_shed(reason: Shed) {
    inc(&METRICS.edge.requests_shed, [reason.as_str()]);
}

/// A connection was ended for its frames.
pub fn http2_flood() {
    METRICS.edge.http2_floods.inc();
}

/// A connection was ended for its slowness.
pub fn slow_reader_cut() {
    METRICS.edge.slow_readers.inc();
}

/// How much memory the program has, in bytes.
pub fn resident_memory(bytes: u64) {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    METRICS.edge.resident.set(bytes);
}
