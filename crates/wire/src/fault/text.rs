//! Integers and waiting times in error texts and headers: all that is kept of them.

use super::ContextNumbers;
use http::{HeaderMap, header::RETRY_AFTER};
use std::time::{Duration, SystemTime};

/// Longer waits are cut to this.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Phrases before the model's limit.
const BEFORE_LIMIT: &[&str] = &[
    "maximum context length is",
    "maximum prompt length is",
    "input length should be [1,",
    "available context size (",
    "maximum number of tokens allowed (",
    "maximum model length of",
    "context window of",
    "model's context length (",
    "`max_new_tokens` must be <=",
    "in the prompt cannot exceed",
];

/// Phrases before the tokens of the input.
const BEFORE_INPUT: &[&str] = &[
    "messages resulted in",
    "request contains",
    "input token count (",
    "prompt is too long:",
    "prompt (length",
    "your request has",
    "prompt contains at least",
    "prompt contains",
    "request (",
    "the input (",
    ". given:",
];

/// Reads the integers of a context error (lower case).
pub(super) fn context_numbers(text: &str) -> ContextNumbers {
    let numbers = sum(text).unwrap_or_else(|| ContextNumbers {
        input: integer_before(text, " in the messages")
            .or_else(|| BEFORE_INPUT.iter().find_map(|p| integer_after(text, p))),
        output: integer_before(text, " in the completion")
            .or_else(|| integer_after(text, "is too large:")),
        limit: BEFORE_LIMIT
            .iter()
            .find_map(|phrase| integer_after(text, phrase))
            .or_else(|| integer_after(text, "tokens >")),
    });
    ContextNumbers {
        input: plausible(numbers.input),
        output: plausible(numbers.output),
        limit: plausible(numbers.limit),
    }
}

/// ``input length and `max_tokens` exceed context limit: 189136 + 20000 > 204648``
fn sum(text: &str) -> Option<ContextNumbers> {
    let (_, terms) = text.split_once("exceed context limit:")?;
    Some(ContextNumbers {
        input: integer_after(terms, ""),
        output: integer_after(terms, "+"),
        limit: integer_after(terms, ">"),
    })
}

/// No model has a context of a billion tokens; zero is no length.
fn plausible(tokens: Option<u64>) -> Option<u64> {
    tokens.filter(|n| (1..1_000_000_000).contains(n))
}

/// The integer that follows `phrase`, with at most a few signs between.
fn integer_after(text: &str, phrase: &str) -> Option<u64> {
    let (_, rest) = text.split_once(phrase)?;
    let rest = rest.trim_start_matches([' ', ':', '(', '\'', '`', '"', '=']);
    // A comma groups digits where three of them follow ("1,048,576").
    let mut digits = String::new();
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        match c {
            '0'..='9' => digits.push(c),
            ',' if starts_with_a_group(chars.as_str()) => {}
            _ => break,
        }
    }
    digits.parse().ok()
}

fn starts_with_a_group(rest: &str) -> bool {
    rest.bytes().take_while(u8::is_ascii_digit).count() == 3
}

/// The integer that stands right before `phrase`.
fn integer_before(text: &str, phrase: &str) -> Option<u64> {
    let (head, _) = text.split_once(phrase)?;
    let digits = head.bytes().rev().take_while(u8::is_ascii_digit).count();
    head.get(head.len().saturating_sub(digits)..)?.parse().ok()
}

/// How long the provider's headers ask to wait: `retry-after-ms`, then `retry-after` (seconds
/// or a date in any form of RFC 9110, sections 10.2.3 and 5.6.7).
pub(super) fn wait(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let header = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    header("retry-after-ms")
        .and_then(|ms| scaled(ms, 0.001))
        .or_else(|| header(RETRY_AFTER.as_str()).and_then(|value| retry_after(value, now)))
        .map(|wait| wait.min(MAX_WAIT))
}

fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    scaled(value, 1.0).or_else(|| {
        let date = httpdate::parse_http_date(value).ok()?;
        Some(date.duration_since(now).unwrap_or_default())
    })
}

/// A decimal number of units of `seconds` each.
fn scaled(number: &str, seconds: f64) -> Option<Duration> {
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let value: f64 = if plain {
        number.parse().ok()?
    } else {
        return None;
    };
    Duration::try_from_secs_f64((value * seconds).min(MAX_WAIT.as_secs_f64())).ok()
}

/// "Please retry after 26 seconds", "Please try again in 1m30.5s", "… in 120ms", "Please wait 46
/// seconds before retrying".
pub(super) fn wait_in_text(text: &str) -> Option<Duration> {
    [
        "retry after ",
        "try again in ",
        "retry in ",
        "try again after ",
        "please wait ",
    ]
    .into_iter()
    .find_map(|phrase| wait_of(text.split_once(phrase)?.1))
}

/// The wait at the start of a text: "34.07s".
pub(super) fn wait_of(text: &str) -> Option<Duration> {
    duration(text).map(|wait| wait.min(MAX_WAIT))
}

/// A run of numbers with units at the start of `text`.
fn duration(mut text: &str) -> Option<Duration> {
    let mut total = None;
    while let Some((part, rest)) = one_unit(text) {
        total = Some(total.unwrap_or(Duration::ZERO).saturating_add(part));
        text = rest;
    }
    total
}

fn one_unit(text: &str) -> Option<(Duration, &str)> {
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at_checked(number_end)?;
    let rest = rest.trim_start_matches(' ');
    let unit_end = rest
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(rest.len());
    let (unit, rest) = rest.split_at_checked(unit_end)?;
    let seconds = match unit {
        "ms" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        _ => return None,
    };
    Some((scaled(number, seconds)?, rest))
}
