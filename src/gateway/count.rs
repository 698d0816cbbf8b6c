//! `count_tokens`: the provider's count, a cached count of the same request, or else the gateway's own.
//!
//! `counts` decides how a body is counted, and on which thread.

use super::exchange::Exchange;
use super::respond::{self, COUNT_SOURCE, Local};
use super::stage::Stage;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use pingora_core::upstreams::peer::HttpPeer;
use pingora_proxy::Session;
use tollgate_count::Count;
use tollgate_engine::counts::{CountKey, How};
use tollgate_telemetry::events::{self, CountSource};
use tollgate_types::{Format, PublicError, RequestFacts};

const ERROR: HeaderName = HeaderName::from_static("x-token-count-error-p95");

/// The longest body whose count is cached, in bytes: hashing it takes less than 0.2 ms.
const LONGEST_REMEMBERED: u64 = 1 << 20;

/// The count that needs no provider: the gateway's own if no provider counts, or a cached one.
///
/// # Errors
///
/// A fault of the gateway's own.
pub async fn without_asking(
    session: &Session,
    exchange: &mut Exchange,
) -> Result<Option<Local>, PublicError> {
    if !is_count(exchange) {
        return Ok(None);
    }
    if exchange.attempts.is_empty() {
        return answer(exchange).await.map(Some);
    }
    let key = key(exchange, &session.req_header().headers);
    if let Stage::Admitted(admitted) = &mut exchange.stage {
        admitted.count_key = key;
    }
    let Some(body) = remembered(exchange, key) else {
        return Ok(None);
    };
    events::tokens_counted(CountSource::Cache);
    let mut answer = Local::json(body);
    answer.add(COUNT_SOURCE, HeaderValue::from_static("upstream"));
    Ok(Some(answer))
}

fn remembered(exchange: &Exchange, key: Option<CountKey>) -> Option<Bytes> {
    let ttl = exchange.snapshot.counting.cache?;
    exchange.snapshot.count_cache.get(&key?, ttl.get())
}

/// Whether the request asks for a count.
pub fn is_count(exchange: &Exchange) -> bool {
    let request = exchange.stage.request();
    request.is_some_and(|request| request.endpoint.is_count())
}

/// The key of a provider's count: the deployment, the upstream model name, the headers that
/// change how the provider reads the body, and the whole body. The key is part of it: a count that
/// came faster than a provider can answer would show that another key had sent the same body.
fn key(exchange: &Exchange, caller: &HeaderMap) -> Option<CountKey> {
    let snapshot = &exchange.snapshot;
    snapshot.counting.cache?;
    let admitted = exchange.stage.admitted()?;
    if admitted.body.len() > LONGEST_REMEMBERED {
        return None;
    }
    let body = admitted.body.whole();
    let deployment = &exchange.attempts.next_candidate()?.deployment;
    let names = [
        admitted.identity.key.as_str().as_bytes(),
        deployment.name.as_bytes(),
        deployment.upstream_model(admitted.model_asked()).as_bytes(),
    ];
    let passed = &deployment.provider.pass_headers;
    let passed = passed.iter().flat_map(|name| {
        let values = caller.get_all(name).into_iter();
        values.map(move |value| (name, value))
    });
    let set = admitted.request.upstream_headers.iter();
    let headers = set.map(|(name, value)| (name, value)).chain(passed);
    let headers = headers.flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()]);
    let parts: Vec<&[u8]> = names.into_iter().chain(headers).chain([&*body]).collect();
    Some(snapshot.count_cache.key(&parts))
}

/// Limits the time-outs of an attempt to the rest of the time for a count: after that, the gateway counts
/// itself. `None`: the time is over.
pub fn limit_timeouts(exchange: &Exchange, mut peer: Box<HttpPeer>) -> Option<Box<HttpPeer>> {
    if !is_count(exchange) {
        return Some(peer);
    }
    let limit = exchange.snapshot.counting.timeout.get();
    let taken = exchange.attempts.began()?.elapsed();
    let left = limit.checked_sub(taken)?;
    if left.is_zero() {
        return None;
    }
    let options = &mut peer.options;
    for time in [
        &mut options.connection_timeout,
        &mut options.total_connection_timeout,
        &mut options.read_timeout,
        &mut options.write_timeout,
    ] {
        *time = Some(time.map_or(left, |time| time.min(left)));
    }
    Some(peer)
}

/// Notes that a provider's count is about to be sent.
pub fn before_send(exchange: &Exchange, body: &Bytes) {
    if !is_count(exchange) {
        return;
    }
    events::tokens_counted(CountSource::Upstream);
    if let Some(key) = exchange.stage.admitted().and_then(|it| it.count_key) {
        exchange.snapshot.count_cache.put(key, body);
    }
}

/// Whether the gateway counts instead of sending an error: the client cannot avoid the error, or the
/// provider does not have the counter that the configuration names.
pub fn can_stand_in(exchange: &Exchange) -> bool {
    const NOT_THERE: [u16; 3] = [404, 405, 501];
    let fault = exchange.failures.shown();
    let is_there = |status: Option<u16>| status.is_none_or(|it| !NOT_THERE.contains(&it));
    is_count(exchange) && fault.is_none_or(|fault| fault.try_elsewhere() || !is_there(fault.status))
}

/// The gateway's count, if no provider has counted. `None` if the request does not ask for a count, or if
/// the client must correct the request.
pub async fn instead(exchange: &Exchange) -> Option<Local> {
    if !can_stand_in(exchange) {
        return None;
    }
    answer(exchange).await.ok()
}

/// Counts the input tokens of the request that was read.
///
/// # Errors
///
/// A fault of the gateway's own.
async fn answer(exchange: &Exchange) -> Result<Local, PublicError> {
    let fault = || {
        log::error!("{}: there is nothing to count", exchange.id);
        respond::internal_error()
    };
    let admitted = exchange.stage.admitted().ok_or_else(fault)?;
    let counts = &exchange.snapshot.counts;
    let how = counts.how_routed(&admitted.request);
    let How { format, rules } = how.ok_or_else(fault)?;
    let body = admitted.body.whole();
    let pool = counts.pool();
    let counted = match pool.count_now(format, &body, &rules) {
        Some(count) => Some(count),
        None => {
            let key = &admitted.identity.key;
            pool.count(key, format, body, rules).await
        }
    };
    let (count, source) = match counted {
        Some(count) => (count, CountSource::Local),
        None => (by_length(admitted.facts()), CountSource::Length),
    };
    events::tokens_counted(source);
    Ok(local(admitted.format, &count))
}

/// The count of a request while too many are counted at once.
fn by_length(facts: &RequestFacts) -> Count {
    let media = facts.media_tokens();
    Count::by_bytes(facts.text_bytes, media, facts.needs.tools)
}

fn local(format: Format, count: &Count) -> Local {
    let before = match format {
        Format::Responses => r#""object":"response.input_tokens","input_tokens""#,
        Format::Gemini => r#""totalTokens""#,
        _ => r#""input_tokens""#,
    };
    let body = format!("{{{before}:{}}}", count.tokens);
    let mut answer = Local::json(Bytes::from(body));
    answer.add(COUNT_SOURCE, HeaderValue::from_static("local"));
    let error = format!("{:.2}", count.error_p95.min(1.0));
    if let Ok(error) = HeaderValue::from_maybe_shared(Bytes::from(error)) {
        answer.add(ERROR, error);
    }
    answer
}
