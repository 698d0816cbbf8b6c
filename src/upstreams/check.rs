//! Active checks: providers that ask for it are looked after beside the requests, so that one
//! that is down is known before a request meets it, and one that is back as well.

use super::{Pool, Upstreams, is_out_of_files};
use pingora::http::RequestHeader;
use pingora_core::Error;
use pingora_core::connectors::TransportConnector;
use pingora_core::connectors::http::Connector;
use pingora_core::protocols::http::client::HttpSession;
use pingora_core::upstreams::peer::HttpPeer;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_routing::Check;
use tollgate_routing::health::{Fleet, LastFailure, ProviderHealth, Severity};
use tollgate_telemetry::{clock, events};

/// How often it is looked which checks are due.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Consecutive failed checks that open the breaker of a provider: a single one can be chance.
const MOST_FAILED: u32 = 2;

/// What a check has found of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Well,
    NotWell,
    /// No connection to the address.
    Unreachable,
    /// The program itself had no file for a connection, which says nothing of the provider.
    Nothing,
}

impl Found {
    fn of_connecting(fault: &Error) -> Self {
        match is_out_of_files(fault) {
            true => Self::Nothing,
            false => Self::Unreachable,
        }
    }
}

/// The checks of all providers, as they were and as they are to be.
#[derive(Default)]
pub struct Checks {
    /// Made when first needed: they load the system's certificate authorities.
    connectors: Option<(Arc<Connector>, Arc<TransportConnector>)>,
    of: HashMap<Arc<str>, Series>,
    under_way: JoinSet<(Arc<str>, Arc<ProviderHealth>, Found)>,
}

/// The checks of one provider, for as long as it is at the same address.
struct Series {
    health: Arc<ProviderHealth>,
    /// When the last one began.
    begun: Option<Instant>,
    /// How many have failed in a row.
    failed: u32,
}

impl Checks {
    /// Starts the checks that are due and applies the results of those that have ended, then waits.
    pub async fn step(&mut self, upstreams: &Upstreams, fleet: &Fleet) {
        while let Some(ended) = self.under_way.try_join_next() {
            if let Ok((provider, health, found)) = ended {
                self.apply(upstreams, &provider, &health, found);
            }
        }
        let now = Instant::now();
        // Requests that began under an earlier configuration open breakers by that one.
        fleet.release(clock::steady_ms(now));
        for (name, pool) in &upstreams.pools {
            let Some(health) = fleet.provider(name) else {
                continue;
            };
            let Some(check) = &pool.provider.check else {
                self.of.remove(name);
                health.breaker.hold(false);
                continue;
            };
            let fresh = || Series {
                health: Arc::clone(health),
                begun: None,
                failed: 0,
            };
            let series = self.of.entry(Arc::clone(name)).or_insert_with(fresh);
            if !Arc::ptr_eq(&series.health, health) {
                // A reload has changed the address: earlier results do not apply.
                *series = fresh();
            }
            let is_due = |it| now.saturating_duration_since(it) >= check.every;
            if series.begun.is_none_or(is_due) {
                series.begun = Some(now);
                self.begin(pool, health, check);
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }

    /// Stops the checks. Requests decide again about the providers that they held back.
    pub fn end(self) {
        for series in self.of.values() {
            series.health.breaker.hold(false);
        }
    }

    fn begin(&mut self, pool: &Arc<Pool>, health: &Arc<ProviderHealth>, check: &Check) {
        let (pool, health, check) = (Arc::clone(pool), Arc::clone(health), check.clone());
        let connectors = self.connectors.get_or_insert_with(|| {
            let transport = TransportConnector::new(None);
            (Arc::new(Connector::new(None)), Arc::new(transport))
        });
        let (http, transport) = connectors.clone();
        self.under_way.spawn(async move {
            let (mut found, limit, began) = (Found::Unreachable, check.timeout, Instant::now());
            for _ in pool.addresses() {
                let Some(peer) = pool.peer() else {
                    break;
                };
                found = match &check.path {
                    None => connect(&transport, &peer, limit).await,
                    Some(path) => fetch(&http, &peer, &pool, path, limit).await,
                };
                if found != Found::Unreachable || !pool.unreachable(&peer, began) {
                    break;
                }
            }
            (Arc::clone(&pool.provider.name), health, found)
        });
    }

    /// Reports the result of a check to the provider's breaker, unless its address has changed since.
    fn apply(
        &mut self,
        upstreams: &Upstreams,
        name: &Arc<str>,
        health: &Arc<ProviderHealth>,
        found: Found,
    ) {
        let Some(pool) = upstreams.pool(name) else {
            self.of.remove(name);
            return;
        };
        let series = self.of.get_mut(name);
        let Some(series) = series.filter(|it| Arc::ptr_eq(&it.health, health)) else {
            return;
        };
        if found == Found::Nothing {
            return;
        }
        let now = clock::steady_ms(Instant::now());
        let mut pass = health
            .breaker
            .enter(now)
            .unwrap_or_else(|| health.breaker.force());
        let failed = &mut series.failed;
        let change = if found == Found::Well {
            *failed = 0;
            health.breaker.hold(false);
            health.breaker.succeeded(&mut pass, now)
        } else {
            *failed = failed.saturating_add(1);
            let severity = match *failed < MOST_FAILED {
                true => Severity::Counts,
                false => Severity::Opens,
            };
            // As long as checks fail no request has to find that out.
            health.breaker.hold(*failed >= MOST_FAILED);
            let random = fastrand::u64(..);
            health.breaker.note(LastFailure {
                class: "check",
                at: now,
            });
            pool.provider.health.as_ref().and_then(|policy| {
                let breaker = &health.breaker;
                breaker.failed(&mut pass, severity, policy, now, random)
            })
        };
        health.breaker.abandoned(&mut pass);
        if let Some(change) = change {
            events::provider_changed(name, change);
        }
    }
}

/// Opens a connection, with TLS where the provider has any.
async fn connect(transport: &TransportConnector, peer: &HttpPeer, limit: Duration) -> Found {
    match timeout(limit, transport.new_stream(peer)).await {
        Ok(Ok(_)) => Found::Well,
        Ok(Err(fault)) => Found::of_connecting(&fault),
        Err(_) => Found::Unreachable,
    }
}

/// Fetches a path: any answer below 500 counts as available.
async fn fetch(
    http: &Connector,
    peer: &HttpPeer,
    pool: &Pool,
    path: &str,
    limit: Duration,
) -> Found {
    let begun = Instant::now();
    let session = match timeout(limit, http.get_http_session(peer)).await {
        Ok(Ok((session, _))) => session,
        Ok(Err(fault)) => return Found::of_connecting(&fault),
        Err(_) => return Found::Unreachable,
    };
    let left = limit.saturating_sub(begun.elapsed());
    match timeout(left, status(session, pool, path)).await {
        Ok(Some(status)) if status < 500 => Found::Well,
        _ => Found::NotWell,
    }
}

async fn status(mut session: HttpSession, pool: &Pool, path: &str) -> Option<u16> {
    /// Heads of 1xx that may come before the one that answers (RFC 9110, section 15.2), and that one.
    const MOST_HEADS: usize = 8;
    let mut head = RequestHeader::build("GET", path.as_bytes(), Some(2)).ok()?;
    let host = &pool.provider.authority;
    head.insert_header(http::header::HOST, host).ok()?;
    head.insert_header(http::header::USER_AGENT, super::AGENT)
        .ok()?;
    session.write_request_header(Box::new(head)).await.ok()?;
    session.finish_request_body().await.ok()?;
    let mut status = None;
    for _ in 0..MOST_HEADS {
        session.read_response_header().await.ok()?;
        let said = session.response_header()?.status;
        if !said.is_informational() {
            status = Some(said.as_u16());
            break;
        }
    }
    session.shutdown().await;
    status
}
