//! The prices of a deployment over time.

use crate::settings::PriceSettings;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tollgate_types::{Prices, ServiceTier};

/// Prices with the dates from which they apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceList {
    /// Before the first change.
    first: Prices,
    /// Seconds since 1970 and the prices from then on, in order.
    changes: Vec<(i64, Prices)>,
}

impl PriceList {
    /// The prices at a time.
    pub fn at(&self, time: SystemTime) -> &Prices {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        let applied = self.changes.iter().rev().find(|(from, _)| *from <= now);
        applied.map_or(&self.first, |(_, prices)| prices)
    }

    /// Whether the price in a tier is known at all times.
    pub fn has_tier(&self, tier: ServiceTier) -> bool {
        let changes = self.changes.iter().map(|(_, prices)| prices);
        let mut all = changes.chain([&self.first]);
        all.all(|prices| prices.special.factor(tier).is_some())
    }

    /// Of each kind of tokens the highest price in the time that begins now.
    pub fn dearest(&self, now: SystemTime, span: Duration) -> Prices {
        let seconds = |time: SystemTime| {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
            i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
        };
        let end = now.checked_add(span).unwrap_or(now);
        let later = seconds(now).saturating_add(1)..=seconds(end);
        let changes = self.changes.iter();
        let later = changes.filter(|(from, _)| later.contains(from));
        later.fold(*self.at(now), |all, (_, prices)| all.dearest(prices))
    }

    /// The index of the first change that is not later than the one before it.
    pub(crate) fn misplaced(&self) -> Option<usize> {
        let pairs = self.changes.windows(2);
        let is_late = |pair: &[(i64, Prices)]| matches!(pair, [(a, _), (b, _)] if a >= b);
        let mut places = pairs.zip(1..);
        places.find_map(|(pair, place)| is_late(pair).then_some(place))
    }
}

impl From<&PriceSettings> for PriceList {
    fn from(settings: &PriceSettings) -> Self {
        let changes = settings.changes.iter();
        let first = PriceSettings {
            changes: Vec::new(),
            ..settings.clone()
        };
        let changes = changes.scan(first, |current, change| {
            *current = current.clone().after(change);
            Some((change.from.unix_seconds(), Prices::from(&*current)))
        });
        Self {
            first: Prices::from(settings),
            changes: changes.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn list(settings: Value) -> PriceList {
        let settings: PriceSettings = from_value(settings).expect("prices");
        PriceList::from(&settings)
    }

    #[test]
    fn a_price_applies_from_the_beginning_of_its_date_on() {
        let list = list(json!({
            "input": 3, "cache_read": "0.30", "output": 15,
            "changes": [
                {"from": "1970-01-02", "input": 2, "output": 10},
                {"from": "1970-01-03", "input": 1, "cache_write": 1.25, "output": 5},
            ],
        }));
        let at = |seconds| {
            let prices = list.at(UNIX_EPOCH + Duration::from_secs(seconds));
            let Prices {
                input,
                cache_read,
                cache_write,
                output,
                ..
            } = prices;
            format!("{input} {cache_read} {cache_write} {output}")
        };
        assert_eq!(at(0), "3 0.3 3 15");
        assert_eq!(at(86_399), "3 0.3 3 15");
        assert_eq!(at(86_400), "2 0.3 2 10");
        assert_eq!(at(172_799), "2 0.3 2 10");
        assert_eq!(at(172_800), "1 0.3 1.25 5");
        assert_eq!(at(u64::from(u32::MAX)), "1 0.3 1.25 5");
        assert_eq!(list.misplaced(), None);
    }

    #[test]
    fn a_change_keeps_every_price_that_it_does_not_name() {
        let first = json!({
            "input": 3, "cache_read": "0.30", "cache_write": 3.75, "cache_write_1h": 6, "audio_input": 40,
            "audio_cache_read": 4, "output": 15, "audio_output": 80, "image_output": 30,
            "tool_calls": {"web_search": 0.01, "file_search": 0.0025, "rerank": 0.002}, "tiers": {"flex": 0.5, "fast": 2},
            "long_prompt": {"above": 200_000, "input": 2, "output": 1.5},
        });
        let with = |changes: Value| {
            let mut settings = first.clone();
            settings["changes"] = changes;
            *list(settings).at(UNIX_EPOCH + Duration::from_secs(200_000))
        };
        let before = with(json!([]));
        assert_eq!(with(json!([{"from": "1970-01-02"}])), before);
        let cheaper = with(json!([
            {"from": "1970-01-02", "input": 2, "tool_calls": {"web_search": 0.02}},
            {"from": "1970-01-03", "output": 10, "tiers": {"fast": 3}},
        ]));
        let mut expected = before;
        expected.input = "2".parse().expect("an amount");
        expected.output = "10".parse().expect("an amount");
        expected.special.tool_calls[0] = "0.02".parse().expect("an amount");
        expected.special.fast = Some(tollgate_types::Weight::from_thousandths(3000));
        assert_eq!(cheaper, expected);
    }

    #[test]
    fn the_dearest_price_is_that_of_a_change_which_comes_in_time() {
        let list = list(json!({
            "input": 3, "output": 15,
            "changes": [{"from": "1970-01-02", "input": 4, "cache_read": 1, "output": 10}],
        }));
        let dearest = |seconds, span| {
            let now = UNIX_EPOCH + Duration::from_secs(seconds);
            let prices = list.dearest(now, Duration::from_secs(span));
            format!("{} {} {}", prices.input, prices.cache_read, prices.output)
        };
        assert_eq!(dearest(86_000, 399), "3 3 15");
        assert_eq!(dearest(86_000, 400), "4 3 15");
        assert_eq!(dearest(86_400, 400), "4 1 10");
    }

    #[test]
    fn changes_that_are_not_in_order_are_found() {
        let change = |from| json!({"from": from, "input": 1, "output": 1});
        let changes = ["2026-01-01", "2026-02-01", "2026-02-01"].map(change);
        let list = list(json!({"input": 1, "output": 1, "changes": changes}));
        assert_eq!(list.misplaced(), Some(2));
    }
}
