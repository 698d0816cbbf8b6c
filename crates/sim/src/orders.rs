//! Orders: how a caller makes the simulated provider misbehave.
//!
//! They come in the header `x-sim` or as a model name that begins with `sim-`, joined by
//! `+` or `,`. [`TABLE`] is the one list of them: parsing, the message for an unknown
//! order and the page in `docs/` all read it. What an order does is for
//! [`crate::faults`], [`crate::plan`] and the renderers.

use std::{fmt::Write as _, time::Duration};

/// The request header that carries orders.
pub const HEADER: &str = "x-sim";
/// How a model name that carries orders begins.
pub const MODEL_PREFIX: &str = "sim-";

/// All that can be ordered for one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Orders {
    pub(crate) status: Option<u16>,
    pub(crate) vendor: Option<String>,
    pub(crate) retry_after: Option<u64>,
    pub(crate) html: bool,
    pub(crate) fail_rate: Option<u64>,
    pub(crate) delay: Duration,
    pub(crate) chunk_delay: Duration,
    pub(crate) chunk_bytes: Option<usize>,
    pub(crate) cut: Option<usize>,
    pub(crate) error_after: Option<usize>,
    pub(crate) stall_after: Option<usize>,
    pub(crate) pings: Duration,
    pub(crate) hang: bool,
    pub(crate) reset: bool,
    pub(crate) garbage: bool,
    pub(crate) not_json: bool,
    pub(crate) empty: bool,
    pub(crate) gzip: bool,
    pub(crate) slow_body: bool,
    pub(crate) early_answer: bool,
    pub(crate) usage: UsageFault,
    pub(crate) tokens: Option<u64>,
    pub(crate) input: Option<u64>,
    pub(crate) huge: Option<usize>,
    pub(crate) refusal: bool,
    pub(crate) open_reasoning: bool,
    pub(crate) replay: Option<usize>,
    pub(crate) canned: Option<CannedOrder>,
}

/// What is wrong with the usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UsageFault {
    #[default]
    Right,
    Absent,
    Twice,
    Negative,
}

/// A prebuilt answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CannedOrder {
    /// A JSON body of the size that the server was started with.
    Body,
    /// An event stream.
    Stream { chunks: usize, bytes: usize },
}

/// One line of the table.
pub struct Order {
    /// The order as it is written, its argument in angle brackets: `cut-<bytes>`.
    pub pattern: &'static str,
    /// What it does.
    pub means: &'static str,
    set: Set,
}

enum Set {
    Flag(fn(&mut Orders)),
    /// A number from the first bound to the second, both included.
    Number(u64, u64, fn(&mut Orders, u64)),
    /// `<a>x<b>`, each from 1 to its bound.
    Pair(u64, u64, fn(&mut Orders, usize, usize)),
    /// A word that the setter must know.
    Word(fn(&mut Orders, &str) -> bool),
}

const fn order(pattern: &'static str, set: Set, means: &'static str) -> Order {
    Order {
        pattern,
        means,
        set,
    }
}

/// Every order.
pub const TABLE: &[Order] = &[
    order(
        "status-<code>",
        Set::Number(200, 599, |o, n| o.status = u16::try_from(n).ok()),
        "answers with this status and an error body as this format's vendor writes it",
    ),
    order(
        "vendor-<name>",
        Set::Word(|o, word| {
            o.vendor = crate::vendors::find(word).map(|known| known.name.to_owned());
            o.vendor.is_some()
        }),
        "answers with an error of a real vendor, status, headers and body (names below)",
    ),
    order(
        "html-<code>",
        Set::Number(200, 599, |o, n| {
            o.html = true;
            o.status = u16::try_from(n).ok();
        }),
        "answers with this status and the HTML page of a proxy in between",
    ),
    order(
        "retry-after-<seconds>",
        Set::Number(0, 1_000_000, |o, n| o.retry_after = Some(n)),
        "adds `retry-after` to the answer",
    ),
    order(
        "fail-rate-<percent>",
        Set::Number(0, 100, |o, n| o.fail_rate = Some(n)),
        "applies the other orders to this share of the requests, evenly spread by a counter; alone, that share gets status 500",
    ),
    order(
        "delay-<n>ms",
        Set::Number(0, 600_000, |o, n| o.delay = Duration::from_millis(n)),
        "waits before the head of the answer",
    ),
    order(
        "chunk-delay-<n>ms",
        Set::Number(0, 600_000, |o, n| o.chunk_delay = Duration::from_millis(n)),
        "waits before every piece of the body but the first",
    ),
    order(
        "chunks-<bytes>",
        Set::Number(1, 1 << 20, |o, n| o.chunk_bytes = usize::try_from(n).ok()),
        "flushes the body in pieces of so many bytes, wherever they fall",
    ),
    order(
        "cut-<bytes>",
        Set::Number(0, 1 << 30, |o, n| o.cut = usize::try_from(n).ok()),
        "cuts the connection after so many bytes of the body; with `reset`, by a RST",
    ),
    order(
        "error-first",
        Set::Flag(|o| o.error_after = Some(0)),
        "answers 200 and then an error as the first event (as the body where it is no stream)",
    ),
    order(
        "error-after-<events>",
        Set::Number(0, 1_000_000, |o, n| o.error_after = usize::try_from(n).ok()),
        "ends a stream with an error event after so many events",
    ),
    order(
        "stall-after-<events>",
        Set::Number(0, 1_000_000, |o, n| o.stall_after = usize::try_from(n).ok()),
        "sends so many events, or pieces, and then nothing until the peer disconnects",
    ),
    order(
        "pings-<n>ms",
        Set::Number(1, 600_000, |o, n| o.pings = Duration::from_millis(n)),
        "with `stall-after`: sends a comment this often instead of nothing",
    ),
    order(
        "hang",
        Set::Flag(|o| o.hang = true),
        "reads the request and never answers",
    ),
    order(
        "reset",
        Set::Flag(|o| o.reset = true),
        "resets the connection (RST) instead of answering",
    ),
    order(
        "garbage",
        Set::Flag(|o| o.garbage = true),
        "answers with bytes that are not HTTP, and closes",
    ),
    order(
        "not-json",
        Set::Flag(|o| o.not_json = true),
        "answers 200 with a body, or a second event, that is labelled as JSON and is not",
    ),
    order(
        "empty",
        Set::Flag(|o| o.empty = true),
        "answers 200 with an empty body",
    ),
    order("gzip", Set::Flag(|o| o.gzip = true), "compresses the body"),
    order(
        "slow-body",
        Set::Flag(|o| o.slow_body = true),
        "reads the request's body slowly, 20 ms a piece; by header only",
    ),
    order(
        "early-answer",
        Set::Flag(|o| o.early_answer = true),
        "answers before it has read the request's body; by header only",
    ),
    order(
        "no-usage",
        Set::Flag(|o| o.usage = UsageFault::Absent),
        "leaves the usage out",
    ),
    order(
        "usage-twice",
        Set::Flag(|o| o.usage = UsageFault::Twice),
        "sends every event that carries usage twice",
    ),
    order(
        "usage-negative",
        Set::Flag(|o| o.usage = UsageFault::Negative),
        "reports negative token counts",
    ),
    order(
        "tokens-<n>",
        Set::Number(1, 1_000_000, |o, n| o.tokens = Some(n)),
        "answers with exactly so many tokens of text, unless the request's limits end it before",
    ),
    order(
        "input-<n>",
        Set::Number(0, 1_000_000_000, |o, n| o.input = Some(n)),
        "reports so many input tokens, whatever the request holds",
    ),
    order(
        "huge-<n>mb",
        Set::Number(1, 64, |o, n| o.huge = usize::try_from(n << 20).ok()),
        "answers with so many mebibytes of text",
    ),
    order(
        "refusal",
        Set::Flag(|o| o.refusal = true),
        "declines in the words of the format: `refusal`, `content_filter` or a refusal part",
    ),
    order(
        "open-reasoning",
        Set::Flag(|o| o.open_reasoning = true),
        "shows reasoning in chat completions as `reasoning_content`, as the vendors of open models do",
    ),
    order(
        "replay-<n>",
        Set::Number(0, 1_000_000, |o, n| o.replay = usize::try_from(n).ok()),
        "answers with the n-th recording, from 0, of the file given at the start",
    ),
    order(
        "canned",
        Set::Flag(|o| o.canned = Some(CannedOrder::Body)),
        "answers with a prebuilt body, whatever the request",
    ),
    order(
        "canned-stream-<chunks>x<bytes>",
        Set::Pair(1_000_000, 1 << 20, |o, chunks, bytes| {
            o.canned = Some(CannedOrder::Stream { chunks, bytes });
        }),
        "answers with a prebuilt stream: so many events of so many bytes of text, each flushed alone",
    ),
];

impl Orders {
    /// Reads orders joined by `+` or `,` into these.
    ///
    /// # Errors
    /// A message that names the unknown order and lists all known ones.
    pub(crate) fn read(&mut self, text: &str) -> Result<(), String> {
        let each = text
            .split(['+', ','])
            .map(str::trim)
            .filter(|word| !word.is_empty());
        for word in each {
            if !TABLE.iter().any(|order| order.give(word, self)) {
                return Err(unknown(word));
            }
        }
        Ok(())
    }

    /// The same for the orders in a model name; other names order nothing.
    ///
    /// # Errors
    /// As [`Orders::read`].
    pub(crate) fn read_model(&mut self, model: &str) -> Result<(), String> {
        model
            .strip_prefix(MODEL_PREFIX)
            .map_or(Ok(()), |orders| self.read(orders))
    }

    /// Whether these orders hit request number `count`, counted from 1.
    pub(crate) fn hit(&self, count: u64) -> bool {
        self.fail_rate
            .is_none_or(|rate| count * rate / 100 != (count - 1) * rate / 100)
    }

    /// The orders for one request that [`Orders::hit`] chose or passed over.
    pub(crate) fn for_request(self, count: u64) -> Self {
        let rate = self.fail_rate;
        if !self.hit(count) {
            return Self::default();
        }
        let alone = rate.is_some()
            && self
                == Self {
                    fail_rate: rate,
                    ..Self::default()
                };
        if alone {
            Self {
                status: Some(500),
                ..self
            }
        } else {
            self
        }
    }
}

impl Order {
    /// Sets what `word` orders, if it is this order with a good argument.
    fn give(&self, word: &str, orders: &mut Orders) -> bool {
        let (before, after) = self.around_argument();
        let argument = word
            .strip_prefix(before)
            .and_then(|rest| rest.strip_suffix(after));
        match (&self.set, argument) {
            (Set::Flag(set), Some("")) => {
                set(orders);
                true
            }
            (Set::Number(least, most, set), Some(digits)) => number(digits)
                .filter(|number| (*least..=*most).contains(number))
                .map(|number| set(orders, number))
                .is_some(),
            (Set::Pair(first, second, set), Some(pair)) => pair
                .split_once('x')
                .and_then(|(a, b)| Some((size(a, *first)?, size(b, *second)?)))
                .map(|(a, b)| set(orders, a, b))
                .is_some(),
            (Set::Word(set), Some(word)) => set(orders, word),
            (_, Some(_) | None) => false,
        }
    }

    fn around_argument(&self) -> (&str, &str) {
        let before = self.pattern.split('<').next().unwrap_or(self.pattern);
        let after = self
            .pattern
            .rsplit('>')
            .next()
            .filter(|_| self.pattern.contains('>'));
        (before, after.unwrap_or(""))
    }
}

fn number(digits: &str) -> Option<u64> {
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| digits.parse().ok()).flatten()
}

fn size(digits: &str, most: u64) -> Option<usize> {
    number(digits)
        .filter(|n| (1..=most).contains(n))
        .and_then(|n| usize::try_from(n).ok())
}

fn unknown(word: &str) -> String {
    let known: Vec<_> = TABLE.iter().map(|order| order.pattern).collect();
    let shown: String = word.chars().take(80).collect();
    format!("unknown order '{shown}'; known are: {}", known.join(", "))
}

/// The table as the page in `docs/` shows it, a line an order.
pub fn table_as_markdown() -> String {
    let mut page = String::from("| Order | What it does |\n|---|---|\n");
    for order in TABLE {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "| `{}` | {} |", order.pattern, order.means);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(text: &str) -> Orders {
        let mut orders = Orders::default();
        orders.read(text).unwrap();
        orders
    }

    #[test]
    fn orders_combine_with_plus_and_comma() {
        let orders = orders("cut-300+delay-200ms, chunks-7");
        assert_eq!(orders.cut, Some(300));
        assert_eq!(orders.delay, Duration::from_millis(200));
        assert_eq!(orders.chunk_bytes, Some(7));
    }

    #[test]
    fn a_model_name_orders_only_behind_the_prefix() {
        let mut orders = Orders::default();
        orders.read_model("gpt-5-hang").unwrap();
        assert_eq!(orders, Orders::default());
        orders.read_model("sim-status-529+retry-after-7").unwrap();
        assert_eq!((orders.status, orders.retry_after), (Some(529), Some(7)));
    }

    #[test]
    fn an_unknown_order_and_a_bad_argument_get_the_list() {
        for word in [
            "hangs",
            "cut-",
            "cut-x",
            "cut--1",
            "status-42",
            "delay-5",
            "chunks-0",
            "canned-stream-5",
            "vendor-unknown",
        ] {
            let fault = Orders::default().read(word).unwrap_err();
            assert!(fault.contains(&format!("'{word}'")), "{fault}");
            assert!(fault.contains("canned-stream-<chunks>x<bytes>"), "{fault}");
        }
    }

    #[test]
    fn a_fail_rate_hits_its_share_evenly() {
        let hit: Vec<_> = (1..=10)
            .filter(|n| orders("fail-rate-20").hit(*n))
            .collect();
        assert_eq!(hit, [5, 10]);
        assert!((1..=10).all(|n| orders("fail-rate-100").hit(n)));
        assert!(!(1..=10).any(|n| orders("fail-rate-0").hit(n)));
        assert_eq!(orders("fail-rate-20").for_request(5).status, Some(500));
        assert_eq!(orders("fail-rate-20+hang").for_request(5).status, None);
        assert_eq!(
            orders("fail-rate-20+hang").for_request(4),
            Orders::default()
        );
    }

    #[test]
    fn every_order_of_the_table_can_be_given() {
        for entry in TABLE {
            let example = entry
                .pattern
                .replace("<chunks>x<bytes>", "5x5")
                .replace("<code>", "500")
                .replace("<name>", "openai-quota");
            let example = match example.split_once('<') {
                Some((before, rest)) => format!("{before}7{}", rest.split_once('>').unwrap().1),
                None => example,
            };
            assert_ne!(orders(&example), Orders::default(), "{example}");
        }
    }
}
