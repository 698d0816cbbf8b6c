//! Finds the conversation of a request, by its head and its body.

use super::exchange::Exchange;
use super::stage::Admitted;
use http::HeaderMap;
use tollgate_engine::conversation::{beginning, cache_key, cached, named};

/// The hash of the request's conversation. `None` if it belongs to none.
pub fn of(exchange: &Exchange, admitted: &Admitted, headers: &HeaderMap) -> Option<u64> {
    let affinity = exchange.snapshot.catalog.catalog().affinity();
    if !affinity.enabled {
        return None;
    }
    let key = admitted.identity.key.as_str().as_bytes();
    let said = affinity.headers.iter().find_map(|name| headers.get(name));
    if let Some(name) = said.filter(|name| !name.is_empty()) {
        return Some(named(key, name.as_bytes()));
    }
    let body = &admitted.body;
    let spans = &body.peeked().spans;
    if let Some(span) = cache_key(spans) {
        return Some(cached(key, body.part(span)));
    }
    let whole = spans.beginning.filter(|span| !span.is_empty())?;
    if body.len() < affinity.min_bytes {
        return None;
    }
    Some(beginning(key, whole, |span| body.part(span)))
}
