//! Events at the edge: connections, malformed heads, and requests that are refused under load.

use once_cell::sync::Lazy;
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts, Registry};

/// The metrics of the edge.
struct Edge {
    registry: Registry,
    connections: IntGauge,
    connections_refused: IntCounterVec,
    handshakes_failed: IntCounter,
    heads_refused: IntCounterVec,
    requests_shed: IntCounterVec,
    http2_floods: IntCounter,
    slow_readers: IntCounter,
    resident: IntGauge,
}

static EDGE: Lazy<Edge> = Lazy::new(Edge::new);

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
    /// Whether others would have been served: it is the key that holds too much.
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
    #[expect(
        clippy::expect_used,
        reason = "names and labels are fixed here: a wrong one fails the first test that runs"
    )]
    fn new() -> Self {
        fn kept<C: Collector + Clone + 'static>(registry: &Registry, metric: C) -> C {
            let copy = Box::new(metric.clone());
            registry.register(copy).expect("registered once");
            metric
        }
        let registry = Registry::new();
        let gauge = |name, help| kept(&registry, IntGauge::new(name, help).expect("valid metric"));
        let counter = |name, help| {
            kept(
                &registry,
                IntCounter::new(name, help).expect("valid metric"),
            )
        };
        let counters = |name, help, reasons: &[&str]| {
            let vec = IntCounterVec::new(Opts::new(name, help), &["reason"]);
            let vec = kept(&registry, vec.expect("valid metric"));
            for reason in reasons {
                vec.with_label_values(&[reason]);
            }
            vec
        };
        Self {
            connections: gauge("tollgate_connections", "Open connections of clients."),
            connections_refused: counters(
                "tollgate_connections_refused_total",
                "Connections closed on arrival, by reason.",
                &ConnectionRefusal::ALL.map(ConnectionRefusal::as_str),
            ),
            handshakes_failed: counter(
                "tollgate_tls_handshakes_failed_total",
                "Connections without a complete TLS handshake, refused ones included.",
            ),
            heads_refused: counters(
                "tollgate_heads_refused_total",
                "HTTP/1.1 request heads that were malformed or too slow, by reason.",
                &HeadRefusal::ALL.map(HeadRefusal::as_str),
            ),
            requests_shed: counters(
                "tollgate_requests_shed_total",
                "Requests refused because of overload, by what was used up; key_… is a key's own share.",
                &Shed::ALL.map(Shed::as_str),
            ),
            http2_floods: counter(
                "tollgate_http2_floods_total",
                "Connections ended for floods of HTTP/2 frames.",
            ),
            slow_readers: counter(
                "tollgate_slow_readers_total",
                "Connections ended because the client read too slowly.",
            ),
            resident: gauge(
                "tollgate_resident_memory_bytes",
                "Resident memory of the process.",
            ),
            registry,
        }
    }
}

/// The families of the edge for the page of metrics.
pub(super) fn gather() -> Vec<MetricFamily> {
    EDGE.registry.gather()
}

/// A caller has a connection.
pub fn connection_opened() {
    EDGE.connections.inc();
}

/// How many connections callers have.
pub fn connections() -> i64 {
    EDGE.connections.get()
}

/// It has it no more.
pub fn connection_closed() {
    EDGE.connections.dec();
}

/// A connection was closed as it came.
pub fn connection_refused(reason: ConnectionRefusal) {
    EDGE.connections_refused
        .with_label_values(&[reason.as_str()])
        .inc();
}

/// A handshake of TLS came to nothing. The proxy writes the line, as far as there is room.
pub fn handshake_failed() {
    EDGE.handshakes_failed.inc();
}

/// A head was refused.
pub fn head_refused(reason: HeadRefusal) {
    EDGE.heads_refused
        .with_label_values(&[reason.as_str()])
        .inc();
}

/// A request was refused that came at a bad time.
pub fn request_shed(reason: Shed) {
    EDGE.requests_shed
        .with_label_values(&[reason.as_str()])
        .inc();
}

/// A connection was ended for its frames.
pub fn http2_flood() {
    EDGE.http2_floods.inc();
}

/// A connection was ended for its slowness.
pub fn slow_reader_cut() {
    EDGE.slow_readers.inc();
}

/// How much memory the program has, in bytes.
pub fn resident_memory(bytes: u64) {
    EDGE.resident.set(i64::try_from(bytes).unwrap_or(i64::MAX));
}
