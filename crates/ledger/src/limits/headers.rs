//! The state of a key's limits, in the headers of both families of clients.
//!
//! `x-ratelimit-*` has resets as durations (`1m30s`) and one kind of tokens: those of the input limit, or of
//! the output limit if there is no other, so that all answers report the same limit. `anthropic-ratelimit-*`
//! has resets as times (RFC 3339) and both kinds of tokens.

use super::{Level, Standing};
use crate::clock::Timestamp;
use std::time::Duration;

impl Standing {
    /// Names and values, for an answer that is sent at `now`. Empty if nothing is limited.
    pub fn headers(&self, now: Timestamp) -> Vec<(&'static str, String)> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut headers = Vec::with_capacity(18);
        let mut durations = |names: [&'static str; 3], level: Option<Level>| {
            let reset = |level: &Level| duration(level.reset_after);
            push(&mut headers, names, level, reset);
        };
        durations(
            [
                "x-ratelimit-limit-requests",
                "x-ratelimit-remaining-requests",
                "x-ratelimit-reset-requests",
            ],
            self.requests,
        );
        durations(
            [
                "x-ratelimit-limit-tokens",
                "x-ratelimit-remaining-tokens",
                "x-ratelimit-reset-tokens",
            ],
            self.input_tokens.or(self.output_tokens),
        );
        let mut times = |names: [&'static str; 3], level: Option<Level>| {
            let reset = |level: &Level| time(now.plus(level.reset_after));
            push(&mut headers, names, level, reset);
        };
        times(
            [
                "anthropic-ratelimit-requests-limit",
                "anthropic-ratelimit-requests-remaining",
                "anthropic-ratelimit-requests-reset",
            ],
            self.requests,
        );
        times(
            [
                "anthropic-ratelimit-input-tokens-limit",
                "anthropic-ratelimit-input-tokens-remaining",
                "anthropic-ratelimit-input-tokens-reset",
            ],
            self.input_tokens,
        );
        times(
            [
                "anthropic-ratelimit-output-tokens-limit",
                "anthropic-ratelimit-output-tokens-remaining",
                "anthropic-ratelimit-output-tokens-reset",
            ],
            self.output_tokens,
        );
        headers
    }

    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn push(
    headers: &mut Vec<(&'static str, String)>,
    [limit, remaining, reset]: [&'static str; 3],
    level: Option<Level>,
    shown: impl Fn(&Level) -> String,
) {
    if let Some(level) = level {
        headers.push((limit, level.limit.to_string()));
        headers.push((remaining, level.remaining.to_string()));
        headers.push((reset, shown(&level)));
    }
}

/// Hours, minutes and seconds, or milliseconds below a second.
fn duration(span: Duration) -> String {
    let (all, ms) = (span.as_secs(), span.subsec_millis());
    let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
    let rest = match ms {
        0 => format!("{seconds}s"),
        ms => {
            let fraction = format!("{ms:03}");
            format!("{seconds}.{}s", fraction.trim_end_matches('0'))
        }
    };
    match (hours, minutes) {
        (0, 0) if all == 0 && ms > 0 => format!("{ms}ms"),
        (0, 0) => rest,
        (0, minutes) => format!("{minutes}m{rest}"),
        (hours, minutes) => format!("{hours}h{minutes}m{rest}"),
    }
}

/// In whole seconds, rounded up: a retry after that time is admitted.
fn time(at: Timestamp) -> String {
    let seconds = at.unix_ms().div_ceil(1000);
    let text = Timestamp::from_unix_ms(seconds.saturating_mul(1000)).to_string();
    // As in the messages API.
    text.replace(".000Z", "Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(limit: u64, remaining: u64, reset_ms: u64) -> Option<Level> {
        Some(Level {
            limit,
            remaining,
            reset_after: Duration::from_millis(reset_ms),
        })
    }

    #[test]
    fn both_families_of_headers_show_the_same_values() {
        let standing = Standing {
            requests: level(60, 59, 1000),
            input_tokens: level(1000, 900, 6000),
            output_tokens: level(100, 50, 30_500),
        };
        let now = Timestamp::from_unix_ms(1_790_000_000_000);
        let lines: Vec<String> = standing
            .headers(now)
            .iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        assert_eq!(
            lines,
            [
                "x-ratelimit-limit-requests: 60",
                "x-ratelimit-remaining-requests: 59",
                "x-ratelimit-reset-requests: 1s",
                "x-ratelimit-limit-tokens: 1000",
                "x-ratelimit-remaining-tokens: 900",
                "x-ratelimit-reset-tokens: 6s",
                "anthropic-ratelimit-requests-limit: 60",
                "anthropic-ratelimit-requests-remaining: 59",
                "anthropic-ratelimit-requests-reset: 2026-09-21T14:13:21Z",
                "anthropic-ratelimit-input-tokens-limit: 1000",
                "anthropic-ratelimit-input-tokens-remaining: 900",
                "anthropic-ratelimit-input-tokens-reset: 2026-09-21T14:13:26Z",
                "anthropic-ratelimit-output-tokens-limit: 100",
                "anthropic-ratelimit-output-tokens-remaining: 50",
                "anthropic-ratelimit-output-tokens-reset: 2026-09-21T14:13:51Z",
            ]
        );
    }

    #[test]
    fn a_limit_of_output_alone_is_shown() {
        let standing = Standing {
            output_tokens: level(100, 50, 1000),
            ..Standing::default()
        };
        let headers = standing.headers(Timestamp::from_unix_ms(0));
        assert_eq!(headers[0], ("x-ratelimit-limit-tokens", "100".to_owned()));
    }

    #[test]
    fn no_limit_is_no_header() {
        assert!(Standing::default().headers(Timestamp::MAX).is_empty());
    }

    #[test]
    fn durations_are_short_and_exact() {
        for (ms, text) in [
            (0, "0s"),
            (7, "7ms"),
            (1000, "1s"),
            (1050, "1.05s"),
            (60_000, "1m0s"),
            (360_000, "6m0s"),
            (3_661_500, "1h1m1.5s"),
        ] {
            assert_eq!(duration(Duration::from_millis(ms)), text);
        }
    }
}
