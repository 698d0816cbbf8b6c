//! Complete answers: status, headers and pieces, with the orders that change what an
//! answer says (its usage, its failure) applied.

use crate::{
    faults::Prepared,
    format::{Answering, CREATED, Fault, Format},
    orders::{Orders, UsageFault},
    seed::Seed,
    sse::{Data, Event},
    tokens, vendors,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

/// Headers of OpenAI's API that do not change.
const OPENAI: &[(&str, &str)] = &[
    ("openai-organization", "sim"),
    ("openai-version", "2020-10-01"),
    ("openai-processing-ms", "12"),
    ("x-ratelimit-limit-requests", "10000"),
    ("x-ratelimit-limit-tokens", "2000000"),
    ("x-ratelimit-remaining-requests", "9999"),
    ("x-ratelimit-remaining-tokens", "1999000"),
    ("x-ratelimit-reset-requests", "6ms"),
    ("x-ratelimit-reset-tokens", "30ms"),
];
/// Headers of Anthropic's API that do not change.
const ANTHROPIC: &[(&str, &str)] = &[
    (
        "anthropic-organization-id",
        "00000000-0000-4000-8000-000000000000",
    ),
    ("anthropic-ratelimit-requests-limit", "4000"),
    ("anthropic-ratelimit-requests-remaining", "3999"),
    ("anthropic-ratelimit-requests-reset", "2026-01-01T00:00:01Z"),
    ("anthropic-ratelimit-input-tokens-limit", "400000"),
    ("anthropic-ratelimit-input-tokens-remaining", "399000"),
    (
        "anthropic-ratelimit-input-tokens-reset",
        "2026-01-01T00:00:01Z",
    ),
    ("anthropic-ratelimit-output-tokens-limit", "80000"),
    ("anthropic-ratelimit-output-tokens-remaining", "79000"),
    (
        "anthropic-ratelimit-output-tokens-reset",
        "2026-01-01T00:00:01Z",
    ),
];
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream; charset=utf-8";

/// The planned answer, as JSON or as a stream, as the request asks.
pub(crate) fn prepare(format: Format, answering: Answering<'_>, number: u64) -> Prepared {
    let orders = answering.orders;
    if answering.ask.stream {
        let mut events = format.events(answering);
        if let Some(sent) = orders.error_after {
            events.truncate(sent);
            events.extend(format.error_events(answering, events.len()));
        }
        let mut pieces = stream_pieces(events, orders);
        if orders.not_json {
            pieces.insert(
                1.min(pieces.len()),
                Bytes::from_static(b"data: {\"this is\": not JSON\n\n"),
            );
        }
        return prepared(StatusCode::OK, EVENTS, pieces, format, number);
    }
    let mut body = match orders.error_after {
        Some(_) => Fault::new(
            500,
            "The server had an error while processing your request.",
        )
        .body(format, &request_id(number)),
        None => format.json(answering),
    };
    change_usage(&mut body, orders.usage);
    let mut text = body.to_string();
    if orders.not_json {
        text.truncate(tokens::head(&text, text.len() / 2).len());
    }
    prepared(
        StatusCode::OK,
        JSON,
        vec![Bytes::from(text)],
        format,
        number,
    )
}

/// A JSON body.
pub(crate) fn json(status: StatusCode, body: &Value, format: Format, number: u64) -> Prepared {
    prepared(
        status,
        JSON,
        vec![Bytes::from(body.to_string())],
        format,
        number,
    )
}

/// A refusal of a request that is at fault.
pub(crate) fn refusal(fault: &Fault, format: Format, number: u64) -> Prepared {
    let status = StatusCode::from_u16(fault.status).unwrap_or(StatusCode::BAD_REQUEST);
    json(
        status,
        &fault.body(format, &request_id(number)),
        format,
        number,
    )
}

/// The failure that was ordered in place of an answer, if any.
pub(crate) fn failure(orders: &Orders, format: Format, number: u64) -> Option<Prepared> {
    if let Some(vendor) = orders.vendor.as_deref().and_then(vendors::find) {
        let status = orders.status.unwrap_or(vendor.status);
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
        let mut prepared = bare(
            status,
            JSON,
            vec![Bytes::from_static(vendor.body.as_bytes())],
        );
        extend(&mut prepared.head.headers, vendor.headers);
        return Some(prepared);
    }
    let status = StatusCode::from_u16(orders.status?).ok()?;
    if orders.html {
        let page = Bytes::from(vendors::html_page(status.as_u16()));
        return Some(bare(status, "text/html", vec![page]));
    }
    let message = status.canonical_reason().unwrap_or("The request failed");
    Some(refusal(
        &Fault::new(status.as_u16(), message),
        format,
        number,
    ))
}

/// What is ordered for any answer, whatever it is.
pub(crate) fn finish_head(prepared: &mut Prepared, orders: &Orders) {
    if let Some(seconds) = orders.retry_after {
        prepared
            .head
            .headers
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if orders.empty {
        prepared.pieces.clear();
    }
}

/// The models that it claims to have.
pub(crate) fn models(format: Format) -> Value {
    const NAMES: &[&str] = &["sim", "gpt-5", "claude-sonnet-5"];
    if format == Format::Messages {
        let data: Vec<_> = NAMES
            .iter()
            .map(|id| json!({"type": "model", "id": id, "display_name": id, "created_at": "2026-01-01T00:00:00Z"}))
            .collect();
        return json!({
            "data": data, "has_more": false, "first_id": NAMES.first(), "last_id": NAMES.last(),
        });
    }
    let model = |id| json!({"id": id, "object": "model", "created": CREATED, "owned_by": "sim"});
    json!({"object": "list", "data": NAMES.iter().map(model).collect::<Vec<_>>()})
}

fn stream_pieces(events: Vec<Event>, orders: &Orders) -> Vec<Bytes> {
    let mut pieces = Vec::with_capacity(events.len());
    for mut event in events {
        let counted = match &mut event.data {
            Data::Json(data) => change_usage(data, orders.usage),
            Data::Word(_) => false,
        };
        // A chat chunk that holds usage alone says nothing without it.
        let hollow = counted
            && orders.usage == UsageFault::Absent
            && matches!(&event.data, Data::Json(data) if data.get("choices") == Some(&json!([])));
        if hollow {
            continue;
        }
        let bytes = event.to_bytes();
        if counted && orders.usage == UsageFault::Twice {
            pieces.push(bytes.clone());
        }
        pieces.push(bytes);
    }
    pieces
}

/// Makes the usage in a body or event as wrong as ordered; gives whether there was any.
fn change_usage(body: &mut Value, fault: UsageFault) -> bool {
    let mut found = false;
    for holder in ["", "/message", "/response"] {
        let Some(fields) = body.pointer_mut(holder).and_then(Value::as_object_mut) else {
            continue;
        };
        let Some(usage) = fields.get_mut("usage").filter(|usage| usage.is_object()) else {
            continue;
        };
        found = true;
        match fault {
            UsageFault::Right | UsageFault::Twice => {}
            UsageFault::Absent => drop(fields.shift_remove("usage")),
            UsageFault::Negative => negate(usage),
        }
    }
    found
}

fn negate(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(positive) = number.as_i64() {
                *value = json!(-positive.max(1));
            }
        }
        Value::Object(fields) => fields.values_mut().for_each(negate),
        _ => {}
    }
}

fn prepared(
    status: StatusCode,
    kind: &'static str,
    pieces: Vec<Bytes>,
    format: Format,
    number: u64,
) -> Prepared {
    let mut prepared = bare(status, kind, pieces);
    let (id, fixed) = match format {
        Format::Messages => ("request-id", ANTHROPIC),
        Format::Chat | Format::Responses => ("x-request-id", OPENAI),
    };
    if let Ok(value) = HeaderValue::from_str(&request_id(number)) {
        prepared
            .head
            .headers
            .insert(HeaderName::from_static(id), value);
    }
    extend(&mut prepared.head.headers, fixed);
    prepared
}

fn bare(status: StatusCode, kind: &'static str, pieces: Vec<Bytes>) -> Prepared {
    let (mut head, ()) = Response::new(()).into_parts();
    head.status = status;
    head.headers
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if kind == EVENTS {
        head.headers
            .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    Prepared {
        head,
        pieces,
        stream: kind == EVENTS,
    }
}

fn extend(headers: &mut HeaderMap, fixed: &'static [(&'static str, &'static str)]) {
    headers.extend(fixed.iter().map(|(name, value)| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    }));
}

/// Each request has an id of its own, also the second of two that are the same.
fn request_id(number: u64) -> String {
    Seed::of(&number.to_le_bytes()).id("req_", 24)
}
