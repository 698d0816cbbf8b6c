//! The rates of a gateway between two pages of metrics, by model.

use crate::status::metrics::Metrics;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Instant;

/// The counters of a model.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    requests: f64,
    /// Requests with an answer of 500 or more.
    failed: f64,
    tokens: f64,
}

/// The counters of the last page.
#[derive(Default)]
pub(super) struct Rates(Option<(Instant, BTreeMap<String, Counts>)>);

impl Rates {
    /// A table of what has changed since the last page, the busiest model first.
    pub(super) fn since_last(&mut self, page: &str) -> String {
        let now = (Instant::now(), counts(page));
        let Some((begun, earlier)) = self.0.replace(now.clone()) else {
            return String::new();
        };
        let seconds = now.0.saturating_duration_since(begun).as_secs_f64();
        table(&earlier, &now.1, seconds)
    }
}

fn counts(page: &str) -> BTreeMap<String, Counts> {
    let metrics = Metrics(page);
    let mut counts = BTreeMap::<String, Counts>::new();
    for sample in metrics.samples("tollgate_requests_total") {
        let Some(model) = sample.label("model").filter(|it| !it.is_empty()) else {
            continue;
        };
        let counts = counts.entry(model.to_owned()).or_default();
        counts.requests += sample.value;
        let status = sample.label("status").unwrap_or_default();
        if status.starts_with('5') {
            counts.failed += sample.value;
        }
    }
    for sample in metrics.samples("tollgate_tokens_total") {
        if let Some(counts) = sample.label("model").and_then(|it| counts.get_mut(it)) {
            counts.tokens += sample.value;
        }
    }
    counts
}

fn table(
    earlier: &BTreeMap<String, Counts>,
    now: &BTreeMap<String, Counts>,
    seconds: f64,
) -> String {
    let mut rows: Vec<_> = now
        .iter()
        .map(|(model, now)| {
            let earlier = earlier.get(model).copied().unwrap_or_default();
            let rate = |now: f64, earlier: f64| (now - earlier).max(0.0) / seconds.max(0.001);
            let rates = Counts {
                requests: rate(now.requests, earlier.requests),
                failed: rate(now.failed, earlier.failed),
                tokens: rate(now.tokens, earlier.tokens),
            };
            (model, rates, now.requests)
        })
        .filter(|(.., total)| *total > 0.0)
        .collect();
    let busier = |it: &(&String, Counts, f64)| (it.1.requests, it.2);
    rows.sort_by(|one, other| {
        let (one, other) = (busier(one), busier(other));
        other.partial_cmp(&one).unwrap_or(std::cmp::Ordering::Equal)
    });
    let names = rows.iter().map(|(model, ..)| model.chars().count());
    let width = names.chain(["MODEL".len()]).max().unwrap_or(0);
    let mut table = format!(
        "{:width$}  {:>10}  {:>10}  {:>10}\n",
        "MODEL", "REQUESTS/S", "FAILED/S", "TOKENS/S"
    );
    for (model, rates, _) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "{model:width$}  {:>10.1}  {:>10.1}  {:>10.0}",
            rates.requests, rates.failed, rates.tokens
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_by_time_the_busiest_model_first() {
        let page = |a: u32, b: u32, failed: u32| {
            format!(
                "tollgate_requests_total{{model=\"a\",status=\"200\"}} {a}\n\
                 tollgate_requests_total{{model=\"b\",status=\"200\"}} {b}\n\
                 tollgate_requests_total{{model=\"b\",status=\"502\"}} {failed}\n\
                 tollgate_requests_total{{model=\"unused\",status=\"200\"}} 0\n\
                 tollgate_requests_total{{model=\"\",status=\"404\"}} 9\n\
                 tollgate_tokens_total{{model=\"b\",kind=\"input\"}} {}\n",
                b * 100
            )
        };
        let (earlier, now) = (counts(&page(10, 1, 0)), counts(&page(12, 21, 4)));
        let table = table(&earlier, &now, 2.0);
        assert_eq!(
            table,
            "MODEL  REQUESTS/S    FAILED/S    TOKENS/S\n\
             b            12.0         2.0        1000\n\
             a             1.0         0.0           0\n"
        );
        let mut rates = Rates::default();
        assert_eq!(rates.since_last(&page(1, 1, 1)), "");
        assert!(rates.since_last(&page(1, 1, 1)).starts_with("MODEL"));
    }
}
