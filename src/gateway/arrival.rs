//! The head of a client's request, as it arrived.

use crate::snapshot::Snapshot;
use http::{HeaderValue, Method, Uri, Version};
use pingora_proxy::Session;
use std::net::IpAddr;
use std::time::Instant;

/// The head of a client's request, as it arrived.
pub struct Arrival {
    /// When it arrived.
    pub at: Instant,
    /// The client's address, if it is known.
    pub client: Option<IpAddr>,
    /// The origin of the web page that may read the answer.
    pub origin: Option<HeaderValue>,
    /// Its method.
    pub method: Method,
    /// Its URI.
    pub uri: Uri,
    /// Its version of HTTP.
    pub version: Version,
}

impl Arrival {
    /// A head that arrives now. [`read`](Self::read) fills in the rest.
    pub fn now() -> Self {
        Self {
            at: Instant::now(),
            client: None,
            origin: None,
            method: Method::GET,
            uri: Uri::default(),
            version: Version::HTTP_11,
        }
    }

    /// Reads the head, before any filter changes it.
    pub fn read(&mut self, session: &Session, snapshot: &Snapshot) {
        let head = session.req_header();
        let peer = session.client_addr().and_then(|it| it.as_inet());
        self.client = peer.map(|it| snapshot.trusted_proxies.client(it.ip(), &head.headers));
        self.origin = snapshot.cors.origin(&head.headers);
        self.method = head.method.clone();
        self.uri = head.uri.clone();
        self.version = head.version;
    }
}
