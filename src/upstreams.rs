//! The network side of providers: resolved addresses and Pingora's peers.
//!
//! Names are resolved in the background, repeatedly. If a resolution fails, the last addresses stay. `routing`
//! chooses the provider.

mod address;
mod authorities;
mod check;
mod files;

pub use authorities::Authorities;
pub use check::Checks;
pub use files::is_out_of_files;

use address::Address;
use arc_swap::ArcSwap;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT,
};
use http::{HeaderMap, Uri};
use parking_lot::Mutex;
use pingora_core::protocols::TcpKeepalive;
use pingora_core::upstreams::peer::{ALPN, HttpPeer, HttpUpstreamRequestPolicy};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tollgate_routing::health::{Fleet, ProviderHealth};
use tollgate_routing::{BodyPatch, Http2, MODEL, Provider, Purpose, Target};
use tollgate_settings::{Fault, KeyPath};
use tollgate_telemetry::clock;
use tollgate_types::Format;
use tollgate_wire::address::with_model;

/// How often names are resolved anew. The system's resolver does not report the DNS time to live;
/// most resolvers cache for at least half a minute.
const RESOLVE_EVERY: Duration = Duration::from_secs(30);
/// The interval for a name that has no address yet.
const RESOLVE_AGAIN: Duration = Duration::from_secs(1);

/// The prefix that the standard library adds to the error of the resolver.
const LOOKUP_FAILED: &str = "failed to lookup address information: ";

/// The gateway's `user-agent`.
const AGENT: &str = concat!("tollgate/", env!("CARGO_PKG_VERSION"));

/// The providers of one configuration, by name.
pub struct Upstreams {
    pools: HashMap<Arc<str>, Arc<Pool>, foldhash::fast::RandomState>,
}

/// One provider: its peers, one for each address.
pub struct Pool {
    provider: Arc<Provider>,
    health: Option<Arc<ProviderHealth>>,
    addresses: ArcSwap<Vec<Arc<Address>>>,
    /// Why the last look-up of the host failed, if it did.
    lookup_failure: Mutex<Option<String>>,
    template: HttpPeer,
    next_peer: AtomicUsize,
    /// The provider has refused a request over HTTP/2 because it requires HTTP/1.1.
    requires_http1: AtomicBool,
    bases: Bases,
}

/// One for each endpoint of a provider: too few for a table.
type Bases = Vec<(Format, Purpose, Base)>;

/// The parts that all requests to one endpoint of a provider share.
pub struct Base {
    path: BasePath,
    /// The headers that are the same for each request.
    pub headers: HeaderMap,
    /// The fields to set and remove in bodies.
    pub patch: Arc<BodyPatch>,
}

/// The path and query of an endpoint.
enum BasePath {
    /// For every model.
    Fixed(Uri),
    /// With a place for the model.
    WithModel(Arc<str>),
}

impl Base {
    fn new(provider: &Provider, target: &Target, purpose: Purpose) -> Option<Self> {
        // Bedrock reads the type of an unstreamed answer as that of the model, which has only one.
        let accepted = match purpose {
            Purpose::Stream => {
                "text/event-stream, application/vnd.amazon.eventstream, application/json"
            }
            Purpose::Answer | Purpose::Count => "application/json",
        };
        let path = match target.path.contains(MODEL) {
            true => BasePath::WithModel(Arc::clone(&target.path)),
            false => BasePath::Fixed(target.path.parse().ok()?),
        };
        let base = Self {
            path,
            headers: common_headers(provider, accepted),
            patch: Arc::clone(&target.patch),
        };
        base.uri("model").is_some().then_some(base)
    }

    /// The URI for the upstream model. `None` if a path cannot contain its name.
    pub fn uri(&self, model: &str) -> Option<Uri> {
        match &self.path {
            BasePath::Fixed(uri) => Some(uri.clone()),
            BasePath::WithModel(path) => with_model(path, model)?.parse().ok(),
        }
    }
}

impl Upstreams {
    /// Prepares the providers with their authorities. Providers with an IP address are ready at once.
    ///
    /// # Errors
    ///
    /// Every provider whose TLS settings cannot be used.
    pub fn new(
        providers: &[Arc<Provider>],
        authorities: &Authorities,
        fleet: &Fleet,
    ) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut pools = HashMap::default();
        for provider in providers {
            let health = fleet.provider(&provider.name);
            match Pool::new(provider, authorities, health.cloned()) {
                Ok(pool) => drop(pools.insert(Arc::clone(&provider.name), Arc::new(pool))),
                Err(fault) => faults.push(fault),
            }
        }
        if faults.is_empty() {
            Ok(Self { pools })
        } else {
            Err(faults)
        }
    }

    /// The pool of a provider.
    pub fn pool(&self, provider: &str) -> Option<&Arc<Pool>> {
        self.pools.get(provider)
    }

    /// Takes over the addresses of an earlier configuration for the same hosts, so that providers stay available
    /// if the resolver fails during a reload.
    pub fn take_over(&self, earlier: &Self) {
        for (name, pool) in &self.pools {
            if let Some(earlier) = earlier.pools.get(name) {
                pool.take_over(earlier);
            }
        }
    }

    /// Resolves all names now, each within `limit`.
    pub async fn resolve(&self, limit: Duration) {
        let all = self.pools.values().map(|pool| pool.resolve(limit));
        futures::future::join_all(all).await;
    }

    /// How long to wait before the next [`Upstreams::resolve`].
    pub fn resolve_in(&self) -> Duration {
        let all_known = self
            .pools
            .values()
            .all(|pool| !pool.addresses.load().is_empty());
        if all_known {
            RESOLVE_EVERY
        } else {
            RESOLVE_AGAIN
        }
    }
}

impl Pool {
    fn new(
        provider: &Arc<Provider>,
        authorities: &Authorities,
        health: Option<Arc<ProviderHealth>>,
    ) -> Result<Self, Fault> {
        let template = template(provider, authorities)?;
        let addresses = match provider.host.trim_matches(['[', ']']).parse() {
            Ok(address) => {
                let address = SocketAddr::new(address, provider.port);
                vec![Address::new(&template, address)]
            }
            Err(_) => Vec::new(),
        };
        Ok(Self {
            provider: Arc::clone(provider),
            health,
            addresses: ArcSwap::from_pointee(addresses),
            lookup_failure: Mutex::new(None),
            template,
            next_peer: AtomicUsize::new(0),
            requires_http1: AtomicBool::new(false),
            bases: bases(provider)?,
        })
    }

    /// The shared parts of requests to an endpoint. `None` if the provider does not have the endpoint.
    pub fn base(&self, format: Format, purpose: Purpose) -> Option<&Base> {
        let mut bases = self.bases.iter();
        let base = bases.find(|(of, to, _)| (*of, *to) == (format, purpose));
        base.map(|(.., base)| base)
    }

    /// The peer to connect to: the provider's addresses in rotation, recently unreachable ones last. `None` if
    /// there is no address.
    pub fn peer(&self) -> Option<Box<HttpPeer>> {
        let addresses = self.addresses.load();
        let now = match addresses.len() {
            0 | 1 => 0,
            _ => clock::steady_ms(Instant::now()),
        };
        let peer = Address::choose(&addresses, &self.next_peer, now)?;
        let mut peer = Box::new(peer.clone());
        if self.requires_http1.load(Ordering::Relaxed) {
            peer.options.alpn = ALPN::H1;
        }
        Some(peer)
    }

    /// The provider requires HTTP/1.1: further peers use it, if the configuration allows both versions.
    pub fn require_http1(&self) {
        // Pingora itself would go on using the HTTP/2 connections that it keeps.
        if self.provider.http2 == Http2::Auto {
            self.requires_http1.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it has an address.
    pub fn has_address(&self) -> bool {
        !self.addresses.load().is_empty()
    }

    /// Its addresses, as far as they are known.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let addresses = self.addresses.load();
        addresses.iter().map(|it| it.address()).collect()
    }

    /// A peer could not be reached. Returns whether there is an address that was not found unreachable since then.
    pub fn unreachable(&self, peer: &HttpPeer, since: Instant) -> bool {
        let [since, now] = [since, Instant::now()].map(clock::steady_ms);
        Address::rest(&self.addresses.load(), peer, since, now)
    }

    fn take_over(&self, earlier: &Self) {
        let (ours, theirs) = (&self.provider, &earlier.provider);
        if ours.host != theirs.host || ours.port != theirs.port || !self.addresses.load().is_empty()
        {
            return;
        }
        let earlier = earlier.addresses.load();
        let addresses = earlier.iter().map(|it| it.address());
        let addresses = addresses.map(|it| Address::new(&self.template, it));
        self.addresses.store(Arc::new(addresses.collect()));
    }

    async fn resolve(&self, limit: Duration) {
        self.look_up(limit).await;
        if let Some(health) = &self.health {
            health.note_address(self.has_address());
        }
    }

    async fn look_up(&self, limit: Duration) {
        let provider = &self.provider;
        let host = (provider.host.as_ref(), provider.port);
        let addresses = match tokio::time::timeout(limit, tokio::net::lookup_host(host)).await {
            Ok(Ok(addresses)) => addresses.collect::<Vec<_>>(),
            Ok(Err(fault)) => {
                let cause = fault.to_string();
                return self.unresolved(cause.strip_prefix(LOOKUP_FAILED).unwrap_or(&cause));
            }
            Err(_) => return self.unresolved("the resolver does not answer"),
        };
        if addresses.is_empty() {
            return self.unresolved("it has no address");
        }
        let known = self.addresses.load();
        let addresses = addresses.into_iter().map(|address| {
            let known = known.iter().find(|it| it.address() == address);
            known
                .cloned()
                .unwrap_or_else(|| Address::new(&self.template, address))
        });
        self.addresses.store(Arc::new(addresses.collect()));
        if self.lookup_failure.lock().take().is_some() {
            let Provider { name, host, .. } = &**provider;
            log::info!("provider {name}: the host '{host}' is resolved again");
        }
    }

    /// Logs a failed look-up, unless the one before failed for the same cause: a host without
    /// an address is looked up every second.
    fn unresolved(&self, cause: &str) {
        let mut last = self.lookup_failure.lock();
        if last.as_deref() == Some(cause) {
            return;
        }
        let Provider { name, host, .. } = &*self.provider;
        log::warn!("provider {name}: the host '{host}' cannot be resolved ({cause})");
        *last = Some(cause.to_owned());
    }
}

fn bases(provider: &Provider) -> Result<Bases, Fault> {
    let mut bases = Bases::new();
    for format in Format::ALL {
        let targets = Purpose::ALL.into_iter().filter_map(|purpose| {
            let target = provider.endpoint(format)?.target(purpose)?;
            Some((purpose, target))
        });
        for (purpose, target) in targets {
            let base = Base::new(provider, target, purpose).ok_or_else(|| {
                let section = KeyPath::root().key("providers").key(&*provider.name);
                section
                    .key("formats")
                    .fault(format!("'{}' is not a path", target.path))
            })?;
            bases.push((format, purpose, base));
        }
    }
    Ok(bases)
}

fn common_headers(provider: &Provider, accepted: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(16);
    headers.insert(HOST, provider.authority.clone());
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static(accepted));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    // Reserves its place only, so that copies of these headers need not grow.
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    headers
}

/// Detects a peer that does not read. Otherwise, an HTTP/2 connection whose provider does not read the replies to
/// its own frames would stay open after its last request.
fn liveness(write: Duration) -> TcpKeepalive {
    /// The system takes milliseconds that fit 31 bits.
    const LONGEST: Duration = Duration::from_secs(86_400);
    TcpKeepalive {
        idle: Duration::from_secs(60),
        interval: Duration::from_secs(15),
        count: 4,
        // Longer than Pingora's write time-out, which reports the cause.
        user_timeout: write.saturating_mul(2).min(LONGEST),
    }
}

/// A peer with everything but the address.
fn template(provider: &Arc<Provider>, authorities: &Authorities) -> Result<HttpPeer, Fault> {
    let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let tls = provider.tls.as_ref();
    let server_name = tls.map_or_else(String::new, |tls| tls.server_name.to_string());
    #[expect(
        clippy::disallowed_methods,
        reason = "an address in numbers resolves to itself"
    )]
    let mut peer = HttpPeer::new(nowhere, tls.is_some(), server_name);
    let timeouts = &provider.timeouts;
    peer.options.connection_timeout = Some(timeouts.connect);
    peer.options.total_connection_timeout = Some(timeouts.connect);
    // Until an attempt sets its own.
    peer.options.read_timeout = Some(timeouts.answer.first_byte);
    // The gateway replaces the whole head. Pingora would refuse a head whose `Connection` names certain fields.
    peer.options.http_upstream_request_policy = HttpUpstreamRequestPolicy::preserve();
    // An attempt that takes too long also ends its connection.
    peer.options.max_h2_streams = 1;
    peer.options.write_timeout = Some(timeouts.write);
    peer.options.tcp_keepalive = Some(liveness(timeouts.write));
    peer.options.idle_timeout = Some(timeouts.idle);
    peer.options.alpn = match provider.http2 {
        Http2::Auto => ALPN::H2H1,
        Http2::Always => ALPN::H2,
        Http2::Never => ALPN::H1,
    };
    // Connections are not shared between providers: two at one address may have different credentials and
    // authorities.
    let mut hasher = DefaultHasher::new();
    provider.name.hash(&mut hasher);
    if let Some(tls) = tls {
        peer.options.verify_cert = tls.verify;
        peer.options.verify_hostname = tls.verify;
        if let Some(trusted) = authorities.of(&provider.name) {
            let trusted = trusted?;
            // Nor between different authorities.
            trusted
                .iter()
                .for_each(|it| it.borrow_raw_cert().hash(&mut hasher));
            peer.options.ca = Some(trusted);
        }
    }
    peer.group_key = hasher.finish();
    Ok(peer)
}
