//! The query of `GET /v1/usage/history`, read strictly: a filter that is misspelt would show
//! what was not asked for.

use form_urlencoded::parse;
use std::borrow::Cow;
use tollgate_ledger::{BillingState, HistoryQuery, Timestamp};
use tollgate_settings::did_you_mean;
use tollgate_types::PublicError;

const NAMES: [&str; 7] = ["limit", "after", "before", "model", "status", "from", "to"];

/// Reads a query.
///
/// # Errors
///
/// 400 `invalid_request` for the first parameter that is not understood.
pub(super) fn read(text: &str) -> Result<HistoryQuery, PublicError> {
    let mut query = HistoryQuery::default();
    let mut seen: Vec<Cow<'_, str>> = Vec::new();
    for (name, value) in parse(text.as_bytes()) {
        if seen.contains(&name) {
            return Err(refusal(format!("'{name}' is given twice")));
        }
        take(&mut query, &name, &value)?;
        seen.push(name);
    }
    if query.after.is_some() && query.before.is_some() {
        return Err(refusal("'after' and 'before' cannot be given together"));
    }
    let span = query.from.zip(query.to);
    if span.is_some_and(|(from, to)| from >= to) {
        return Err(refusal("'from' must be earlier than 'to'"));
    }
    Ok(query)
}

fn take(query: &mut HistoryQuery, name: &str, value: &str) -> Result<(), PublicError> {
    match name {
        "limit" => query.limit = limit(value)?,
        "after" => query.after = Some(given(name, value)?),
        "before" => query.before = Some(given(name, value)?),
        "model" => query.model = Some(given(name, value)?),
        "status" => status(value, query)?,
        "from" => query.from = Some(time(name, value)?),
        "to" => query.to = Some(time(name, value)?),
        _ => return Err(unknown(name)),
    }
    Ok(())
}

fn refusal(message: impl Into<Cow<'static, str>>) -> PublicError {
    PublicError::invalid_request(message)
}

fn unknown(name: &str) -> PublicError {
    /// The most characters of an unknown name that the message repeats.
    const SHOWN: usize = 40;
    let shown: String = name.chars().take(SHOWN).collect();
    refusal(match did_you_mean(name, NAMES) {
        Some(near) => format!("there is no parameter '{shown}'; did you mean '{near}'?"),
        None => format!(
            "there is no parameter '{shown}'; parameters: {}",
            NAMES.join(", ")
        ),
    })
}

fn given(name: &str, value: &str) -> Result<String, PublicError> {
    if value.is_empty() {
        return Err(refusal(format!("'{name}' is empty")));
    }
    Ok(value.to_owned())
}

fn limit(value: &str) -> Result<u32, PublicError> {
    let most = HistoryQuery::MAX_LIMIT;
    let limit = value.parse().ok();
    limit
        .filter(|limit| (1..=most).contains(limit))
        .ok_or_else(|| {
            refusal(format!(
                "'limit' must be a whole number from 1 to {most}; default: {}",
                HistoryQuery::DEFAULT_LIMIT
            ))
        })
}

/// An HTTP status, or how the request ended.
fn status(value: &str, query: &mut HistoryQuery) -> Result<(), PublicError> {
    if let Some(state) = BillingState::from_name(value) {
        query.state = Some(state);
        return Ok(());
    }
    let number = value.parse().ok();
    query.status = number.filter(|status| (100..=599).contains(status));
    if query.status.is_some() {
        return Ok(());
    }
    let states: Vec<_> = BillingState::ALL.iter().map(|it| it.as_str()).collect();
    Err(refusal(format!(
        "'status' must be an HTTP status such as 200, or how the request ended: {}",
        states.join(", ")
    )))
}

fn time(name: &str, value: &str) -> Result<Timestamp, PublicError> {
    Timestamp::parse_rfc3339(value).map_err(|_| {
        refusal(format!(
            "'{name}' must be a time such as 2026-12-31T23:59:59Z (RFC 3339; a '+' in it is \
             written %2B)"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_is_read_and_decoded() {
        let query = read(
            "limit=7&after=abc&model=a%2Fb+c&status=completed&from=2026-11-21T00:00:00Z\
             &to=2026-11-21T02%3A00%3A00%2B01%3A00",
        )
        .unwrap();
        assert_eq!(query.limit, 7);
        assert_eq!(query.after.as_deref(), Some("abc"));
        assert_eq!(query.model.as_deref(), Some("a/b c"));
        assert_eq!(query.state, Some(BillingState::Completed));
        let hour = |query: &HistoryQuery| {
            let (from, to) = query.from.zip(query.to).unwrap();
            to.unix_ms() - from.unix_ms()
        };
        assert_eq!(hour(&query), 3_600_000);
        assert_eq!(read("status=429").unwrap().status, Some(429));
        assert_eq!(read("").unwrap().limit, 0);
    }

    #[test]
    fn each_bad_parameter_is_named_with_what_would_be_right() {
        for (text, part) in [
            ("limit=0", "'limit' must be a whole number from 1 to 500"),
            ("limit=501", "from 1 to 500"),
            ("limit=-1", "from 1 to 500"),
            ("limit=ten", "from 1 to 500"),
            ("limit=", "from 1 to 500"),
            ("limit=1&limit=2", "'limit' is given twice"),
            ("after=", "'after' is empty"),
            ("after=a&before=b", "cannot be given together"),
            ("model=", "'model' is empty"),
            ("status=done", "'status' must be an HTTP status"),
            ("status=99", "'status' must be"),
            ("from=yesterday", "'from' must be a time such as"),
            ("to=1790000000", "'to' must be a time"),
            ("from=1969-12-31T23:59:59Z", "'from' must be a time"),
            (
                "from=2026-11-21T00:00:00Z&to=2026-11-21T00:00:00Z",
                "earlier than",
            ),
            ("modle=x", "did you mean 'model'"),
            ("page=2", "parameters: limit, after"),
        ] {
            let fault = read(text).unwrap_err();
            assert_eq!(fault.status, 400, "{text}");
            assert!(fault.message.contains(part), "{text}: {}", fault.message);
        }
        let long = "x".repeat(10_000);
        let fault = read(&long).unwrap_err();
        assert!(fault.message.len() < 200, "{}", fault.message);
    }
}
