//! The configuration of a gateway under test. JSON is YAML, and easier to put together.

use serde_json::{Map, Value, json};
use std::net::{SocketAddr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The variable that holds the provider's credential.
pub const PROVIDER_KEY: (&str, &str) = ("TEST_PROVIDER_KEY", "credential-of-the-provider");

/// The variable that holds the secret under which keys are stored.
pub const PEPPER: (&str, &str) = ("TOLLGATE_PEPPER", "pepper-of-the-tests-and-of-nothing-else");

/// The plan of a key that never runs out.
pub const PLENTY: &str = "plenty";

/// A configuration under construction.
#[derive(Clone, Debug)]
pub struct Config(pub Value);

impl Config {
    /// No provider and no model yet, one family.
    pub fn new() -> Self {
        Self(json!({
            "server": { "threads": 1 },
            "store": { "path": "tollgate.db" },
            "keys": { "pepper": format!("env:{}", PEPPER.0) },
            "providers": {},
            "families": { "test": { "group": "other" } },
            "models": {},
            "plans": { PLENTY: { "tokens": "1G", "validity": "365d" } },
        }))
    }

    /// One provider `sim`, and a model `test-model` that it knows as `upstream-model`.
    pub fn of(provider: &super::Provider) -> Self {
        Self::new()
            .provider("sim", self::provider(provider.address))
            .model("test-model", json!(["sim/upstream-model"]))
    }

    /// Providers `a` and `b`, of which `a` alone hears orders, and a model `m` for which `b` is
    /// asked when `a` cannot be had.
    pub fn first_and_second(a: SocketAddr, b: SocketAddr) -> Self {
        Self::two(a, b).model("m", json!(["a", {"provider": "b", "priority": 1}]))
    }

    /// The same two, and `m` is asked at either.
    pub fn side_by_side(a: SocketAddr, b: SocketAddr) -> Self {
        Self::two(a, b).model("m", json!(["a", "b"]))
    }

    fn two(a: SocketAddr, b: SocketAddr) -> Self {
        Self::new()
            .provider("a", provider(a))
            .provider("b", provider(b))
            .with("providers.b.pass_headers", json!([]))
    }

    /// Puts `value` at a path whose steps stand between dots.
    #[must_use]
    pub fn with(mut self, path: &str, value: Value) -> Self {
        let place = path.split('.').fold(&mut self.0, |place, step| {
            if place.is_null() {
                *place = Value::Object(Map::new());
            }
            &mut place[step]
        });
        *place = value;
        self
    }

    #[must_use]
    pub fn provider(self, name: &str, settings: Value) -> Self {
        self.with(&format!("providers.{name}"), settings)
    }

    /// A model with deployments, in the family `test`.
    #[must_use]
    pub fn model(mut self, name: &str, deployments: Value) -> Self {
        self.0["models"][name] = json!({ "family": "test" });
        self.0["models"][name]["deployments"] = deployments;
        self
    }

    /// The address for callers and the one for operators, put in.
    pub fn on(mut self, ports: Ports) -> Self {
        let listen = &mut self.0["server"]["listen"];
        if listen.is_null() {
            *listen = json!([{}]);
        }
        listen[0]["address"] = json!(ports.callers.to_string());
        self.0["admin"]["listen"] = json!(ports.operators.to_string());
        self
    }
}

/// A provider at `address` that speaks everything, in HTTP/1.1, and hears orders.
pub fn provider(address: SocketAddr) -> Value {
    provider_at(&format!("http://{address}"))
}

/// The same with a scheme of its own.
pub fn provider_at(base: &str) -> Value {
    json!({
        "address": base,
        "formats": [
            "chat",
            "responses",
            { "name": "messages", "count_tokens": "/v1/messages/count_tokens" },
        ],
        "credentials": [format!("env:{}", PROVIDER_KEY.0)],
        "pass_headers": ["x-sim"],
    })
}

/// Where a gateway listens.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    pub callers: SocketAddr,
    pub operators: SocketAddr,
}

impl Ports {
    /// Two that were free when asked for, and that the system gives to no other process: a
    /// provider of another test on a port that was just let go would answer in the gateway's
    /// place.
    pub fn free() -> Self {
        let [callers, operators] = [(), ()].map(|()| free_address());
        Self { callers, operators }
    }
}

/// An address whose port was free when asked for. Neither the system nor this function gives the port to another
/// program before its own binds it.
pub(super) fn free_address() -> SocketAddr {
    /// Below what systems give away (from 32768, or from 49152), and below the ranges of other tests.
    const OURS: std::ops::Range<u16> = 10_000..20_000;
    /// Each port is given out once. Other processes begin elsewhere.
    static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| AtomicU32::new(fastrand::u16(..).into()));
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % u32::from(OURS.end - OURS.start);
        let port = OURS.start + u16::try_from(number).unwrap();
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            return listener.local_addr().unwrap();
        }
    }
}
