//! Prices, and the cost of a request.

use crate::{Money, ProviderTool, ServiceTier, Usage, UsageDetails, Weight};
use serde::{Deserialize, Serialize};

/// The prices of a model at a point in time: per million tokens, and of a call of a provider's tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prices {
    /// Uncached input.
    pub input: Money,
    /// Input read from a cache.
    pub cache_read: Money,
    /// Input written to a cache.
    pub cache_write: Money,
    /// Output, reasoning included.
    pub output: Money,
    /// The prices of parts of the usage, and of calls of tools.
    #[serde(default, skip_serializing_if = "SpecialPrices::are_none")]
    pub special: SpecialPrices,
}

/// Prices of parts of the usage. Parts without one cost as much as the rest of their kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpecialPrices {
    /// Input written to a cache for an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<Money>,
    /// Sound in the uncached input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_input: Option<Money>,
    /// Sound read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_cache_read: Option<Money>,
    /// Sound in the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_output: Option<Money>,
    /// Images in the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_output: Option<Money>,
    /// One call of each of [`ProviderTool::ALL`].
    #[serde(with = "by_tool")]
    pub tool_calls: [Money; ProviderTool::ALL.len()],
    /// The factors of token prices in tiers other than the standard one.
    pub flex: Weight,
    /// The same in the tier `priority`. `None`: its price is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Weight>,
    /// The same in the tier `batch`.
    pub batch: Weight,
    /// The same in fast mode. `None`: its price is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast: Option<Weight>,
    /// The prices of requests with long prompts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_prompt: Option<LongPrompt>,
}

/// The prices of calls as they are stored: by the name of the tool, so that a version with other tools reads them.
mod by_tool {
    use super::{Money, ProviderTool};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Default, Serialize, Deserialize)]
    #[serde(default)]
    struct ByTool {
        web_search: Money,
        file_search: Money,
        code_execution: Money,
        rerank: Money,
    }

    pub(super) fn serialize<S: Serializer>(
        prices: &[Money; ProviderTool::ALL.len()],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let [web_search, file_search, code_execution, rerank] = *prices;
        let by_tool = ByTool {
            web_search,
            file_search,
            code_execution,
            rerank,
        };
        by_tool.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<[Money; ProviderTool::ALL.len()], D::Error> {
        let it = ByTool::deserialize(deserializer)?;
        Ok([it.web_search, it.file_search, it.code_execution, it.rerank])
    }
}

/// The factors of token prices if a prompt is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongPrompt {
    /// Prompts of more input tokens than this, cached or not, are long.
    pub above: u64,
    /// For all input.
    pub input: Weight,
    /// For all output.
    pub output: Weight,
}

impl Default for SpecialPrices {
    fn default() -> Self {
        Self {
            cache_write_1h: None,
            audio_input: None,
            audio_cache_read: None,
            audio_output: None,
            image_output: None,
            tool_calls: [Money::ZERO; ProviderTool::ALL.len()],
            flex: Weight::ONE,
            priority: None,
            batch: Weight::ONE,
            fast: None,
            long_prompt: None,
        }
    }
}

impl SpecialPrices {
    fn are_none(&self) -> bool {
        *self == Self::default()
    }

    /// The factor of token prices in a tier. `None`: its price is unknown.
    pub const fn factor(&self, tier: ServiceTier) -> Option<Weight> {
        match tier {
            ServiceTier::Fast => self.fast,
            ServiceTier::Standard => Some(Weight::ONE),
            ServiceTier::Flex => Some(self.flex),
            ServiceTier::Priority => self.priority,
            ServiceTier::Batch => Some(self.batch),
        }
    }
}

impl Prices {
    /// How many tokens a price is for.
    pub const TOKENS: u64 = 1_000_000;

    /// The same for a request of at most so much input: without the prices of long prompts if it is not long.
    #[must_use]
    pub fn of_input(mut self, most: u64) -> Self {
        self.special.long_prompt = self.special.long_prompt.filter(|it| most > it.above);
        self
    }

    /// The same for a request that does not ask for fast mode.
    #[must_use]
    pub const fn without_fast_mode(mut self) -> Self {
        self.special.fast = None;
        self
    }

    /// The highest price of input, because neither the state of a cache nor the tier is known beforehand.
    pub fn dearest_input(&self) -> Money {
        let SpecialPrices {
            cache_write_1h,
            audio_input,
            audio_cache_read,
            ..
        } = self.special;
        let special = [cache_write_1h, audio_input, audio_cache_read];
        let plain = self.input.max(self.cache_read).max(self.cache_write);
        let price = special.into_iter().flatten().fold(plain, Money::max);
        self.at_most(price, self.special.long_prompt.map(|it| it.input))
    }

    /// The highest price of output.
    pub fn dearest_output(&self) -> Money {
        let special = [self.special.audio_output, self.special.image_output];
        let price = special.into_iter().flatten().fold(self.output, Money::max);
        self.at_most(price, self.special.long_prompt.map(|it| it.output))
    }

    /// The highest price of a tool call.
    pub fn dearest_call(&self) -> Money {
        let calls = self.special.tool_calls.into_iter();
        calls.max().unwrap_or_default()
    }

    /// A price in the most expensive tier, and for a long prompt if that costs more.
    fn at_most(&self, price: Money, long: Option<Weight>) -> Money {
        let SpecialPrices {
            flex,
            priority,
            batch,
            fast,
            ..
        } = self.special;
        let known = priority.max(fast).unwrap_or(Weight::ONE);
        let factor = Weight::ONE.max(flex).max(batch).max(known);
        let long = long.unwrap_or(Weight::ONE).max(Weight::ONE);
        let parts = factor.of(price.nanos()).saturating_mul(long.of(1));
        let nanos = parts.div_ceil(Weight::ONE.of(1) * Weight::ONE.of(1));
        Money::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Of each kind of tokens, and of everything else, the higher price.
    #[must_use]
    pub fn dearest(&self, other: &Self) -> Self {
        let (ours, theirs) = (&self.special, &other.special);
        let part = |a: Option<Money>, of_a: Money, b: Option<Money>, of_b: Money| {
            let is_special = a.is_some() || b.is_some();
            is_special.then(|| a.unwrap_or(of_a).max(b.unwrap_or(of_b)))
        };
        let mut tool_calls = ours.tool_calls;
        for (price, other) in tool_calls.iter_mut().zip(theirs.tool_calls) {
            *price = other.max(*price);
        }
        Self {
            input: self.input.max(other.input),
            cache_read: self.cache_read.max(other.cache_read),
            cache_write: self.cache_write.max(other.cache_write),
            output: self.output.max(other.output),
            special: SpecialPrices {
                cache_write_1h: part(
                    ours.cache_write_1h,
                    self.cache_write,
                    theirs.cache_write_1h,
                    other.cache_write,
                ),
                audio_input: part(
                    ours.audio_input,
                    self.input,
                    theirs.audio_input,
                    other.input,
                ),
                audio_cache_read: part(
                    ours.audio_cache_read,
                    self.cache_read,
                    theirs.audio_cache_read,
                    other.cache_read,
                ),
                audio_output: part(
                    ours.audio_output,
                    self.output,
                    theirs.audio_output,
                    other.output,
                ),
                image_output: part(
                    ours.image_output,
                    self.output,
                    theirs.image_output,
                    other.output,
                ),
                tool_calls,
                flex: ours.flex.max(theirs.flex),
                priority: ours.priority.max(theirs.priority),
                batch: ours.batch.max(theirs.batch),
                fast: ours.fast.max(theirs.fast),
                long_prompt: match (ours.long_prompt, theirs.long_prompt) {
                    (Some(a), Some(b)) => Some(LongPrompt {
                        above: a.above.min(b.above),
                        input: a.input.max(b.input),
                        output: a.output.max(b.output),
                    }),
                    (a, b) => a.or(b),
                },
            },
        }
    }

    /// The cost of a request: the exact sum, rounded half up once, to a nano-unit. At most 4.5 million units,
    /// which fits every field that stores it, and their sums.
    pub fn cost(&self, usage: &Usage, details: &UsageDetails) -> Money {
        const MOST: u64 = 1 << 52;
        let special = &self.special;
        let details = details.within(usage);
        let rest = |all: u64, part: u64| all.saturating_sub(part);
        let special_output = details.audio_output.saturating_add(details.image_output);
        let long = special
            .long_prompt
            .filter(|it| usage.total_input() > it.above);
        let (of_input, of_output) =
            long.map_or((Weight::ONE, Weight::ONE), |it| (it.input, it.output));
        let input = sum([
            (self.input, rest(usage.input, details.audio_input)),
            (
                special.audio_input.unwrap_or(self.input),
                details.audio_input,
            ),
            (
                self.cache_read,
                rest(usage.cache_read, details.audio_cache_read),
            ),
            (
                special.audio_cache_read.unwrap_or(self.cache_read),
                details.audio_cache_read,
            ),
            (
                self.cache_write,
                rest(usage.cache_write, details.cache_write_1h),
            ),
            (
                special.cache_write_1h.unwrap_or(self.cache_write),
                details.cache_write_1h,
            ),
        ]);
        let output = sum([
            (self.output, rest(usage.output, special_output)),
            (
                special.audio_output.unwrap_or(self.output),
                details.audio_output,
            ),
            (
                special.image_output.unwrap_or(self.output),
                details.image_output,
            ),
        ]);
        let input = input.saturating_mul(of_input.of(1));
        let sum = input.saturating_add(output.saturating_mul(of_output.of(1)));
        let factor = special.factor(details.tier).unwrap_or(Weight::ONE).of(1);
        let parts = Weight::ONE
            .of(Self::TOKENS)
            .saturating_mul(Weight::ONE.of(1));
        let nanos = sum.saturating_mul(factor).saturating_add(parts / 2) / parts;
        let calls = special.tool_calls.iter().zip(details.tool_calls);
        let calls =
            calls.map(|(price, calls)| u128::from(price.nanos()).saturating_mul(calls.into()));
        let nanos = calls.fold(nanos, u128::saturating_add);
        let nanos = u64::try_from(nanos).unwrap_or(MOST);
        Money::from_nanos(nanos.min(MOST))
    }
}

/// The cost of these tokens, in millionths of a nano-unit.
fn sum<const N: usize>(parts: [(Money, u64); N]) -> u128 {
    let costs = parts.into_iter();
    let costs =
        costs.map(|(price, tokens)| u128::from(price.nanos()).saturating_mul(tokens.into()));
    costs.fold(0, u128::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn money(text: &str) -> Money {
        text.parse().expect("an amount")
    }

    fn prices() -> Prices {
        Prices {
            input: money("3"),
            cache_read: money("0.3"),
            cache_write: money("3.75"),
            output: money("15"),
            ..Prices::default()
        }
    }

    const USAGE: Usage = Usage {
        input: 1000,
        cache_read: 10,
        cache_write: 100,
        output: 20,
        reasoning: 15,
    };

    fn plain(prices: Prices, usage: Usage) -> Money {
        prices.cost(&usage, &UsageDetails::default())
    }

    #[test]
    fn a_request_costs_the_exact_sum_rounded_once() {
        let prices = prices();
        // 3000 + 3 + 375 + 300 millionths.
        assert_eq!(plain(prices, USAGE).to_string(), "0.003678");
        let of = |input, price| {
            let input_price = money(price);
            let usage = Usage {
                input,
                ..Usage::default()
            };
            let prices = Prices {
                input: input_price,
                ..prices
            };
            plain(prices, usage).nanos()
        };
        // Three tenths of a nano-unit, half of one, and nine tenths.
        assert_eq!(
            (of(1, "0.0003"), of(1, "0.0005"), of(3, "0.0003")),
            (0, 1, 1)
        );
        assert_eq!(of(u64::MAX, "999999999"), 1 << 52);
        assert_eq!(plain(prices, Usage::default()), Money::ZERO);
    }

    #[test]
    fn parts_and_calls_have_their_own_prices_and_parts_without_one_cost_as_the_rest() {
        let details = UsageDetails {
            cache_write_1h: 40,
            audio_input: 100,
            audio_cache_read: 5,
            audio_output: 4,
            image_output: 1,
            tool_calls: [2, 1, 0, 5],
            tier: ServiceTier::Standard,
        };
        assert_eq!(prices().cost(&USAGE, &details), plain(prices(), USAGE));
        let special = SpecialPrices {
            cache_write_1h: Some(money("6")),
            audio_input: Some(money("40")),
            audio_cache_read: Some(money("0.5")),
            audio_output: Some(money("80")),
            image_output: Some(money("30")),
            tool_calls: [
                money("0.01"),
                money("0.0025"),
                money("0.03"),
                money("0.002"),
            ],
            ..SpecialPrices::default()
        };
        let prices = Prices {
            special,
            ..prices()
        };
        // Input 900 x 3 + 100 x 40, cache 5 x 0.3 + 5 x 0.5 + 60 x 3.75 + 40 x 6, output 15 x 15 + 4 x 80 + 30
        // millionths; calls 0.0325.
        assert_eq!(prices.cost(&USAGE, &details).to_string(), "0.040244");
        // No part is greater than the whole.
        let all = UsageDetails {
            cache_write_1h: u64::MAX,
            audio_input: u64::MAX,
            audio_cache_read: u64::MAX,
            audio_output: u64::MAX,
            image_output: u64::MAX,
            ..UsageDetails::default()
        };
        // 1000 x 40 + 10 x 0.5 + 100 x 6 + 20 x 80 millionths.
        assert_eq!(prices.cost(&USAGE, &all).to_string(), "0.042205");
    }

    #[test]
    fn stored_prices_are_read_by_a_version_with_other_tools() {
        let special = SpecialPrices {
            tool_calls: ["0.01", "0.02", "0.03", "0.04"].map(money),
            ..SpecialPrices::default()
        };
        let mut stored = serde_json::to_value(special).unwrap();
        let read = |stored: &serde_json::Value| {
            serde_json::from_value::<SpecialPrices>(stored.clone()).unwrap()
        };
        assert_eq!(read(&stored), special);
        let calls = stored["tool_calls"].as_object_mut().unwrap();
        calls.remove("rerank").unwrap();
        calls.insert("another".to_owned(), serde_json::json!(7));
        let mut others = special.tool_calls;
        others[3] = Money::ZERO;
        assert_eq!(read(&stored).tool_calls, others);
    }

    #[test]
    fn a_tier_multiplies_the_prices_of_tokens_alone() {
        let special = SpecialPrices {
            flex: Weight::from_thousandths(500),
            priority: Some(Weight::from_thousandths(2000)),
            tool_calls: [money("0.01"), Money::ZERO, Money::ZERO, Money::ZERO],
            ..SpecialPrices::default()
        };
        let prices = Prices {
            special,
            ..prices()
        };
        let at = |tier| {
            let details = UsageDetails {
                tool_calls: [1, 0, 0, 0],
                tier: ServiceTier::from_name(tier),
                ..UsageDetails::default()
            };
            prices.cost(&USAGE, &details).to_string()
        };
        assert_eq!(at("default"), "0.013678");
        assert_eq!(at("flex"), "0.011839");
        assert_eq!(at("priority"), "0.017356");
        assert_eq!(at("fast"), "0.017356", "OpenAI's new name");
        assert_eq!(at("batch"), "0.013678");
    }

    #[test]
    fn fast_mode_multiplies_the_prices_of_tokens_and_is_reserved_for_requests_that_ask_for_it() {
        let special = SpecialPrices {
            fast: Some(Weight::from_thousandths(2000)),
            ..SpecialPrices::default()
        };
        let prices = Prices {
            special,
            ..prices()
        };
        let details = UsageDetails {
            tier: ServiceTier::Fast,
            ..UsageDetails::default()
        };
        assert_eq!(prices.cost(&USAGE, &details).to_string(), "0.007356");
        assert_eq!(prices.dearest_output(), money("30"));
        assert_eq!(prices.without_fast_mode().dearest_output(), money("15"));
    }

    #[test]
    fn no_usage_costs_more_than_the_dearest_prices_say() {
        let special = SpecialPrices {
            cache_write_1h: Some(money("6")),
            image_output: Some(money("30")),
            priority: Some(Weight::from_thousandths(1750)),
            ..SpecialPrices::default()
        };
        let prices = Prices {
            special,
            ..prices()
        };
        assert_eq!(prices.dearest_input(), money("10.5"));
        assert_eq!(prices.dearest_output(), money("52.5"));
        let other = Prices {
            input: money("1"),
            output: money("40"),
            special: SpecialPrices {
                audio_input: Some(money("2")),
                ..SpecialPrices::default()
            },
            ..Prices::default()
        };
        let both = prices.dearest(&other);
        // What has no price of its own at one of them costs there as the rest of its kind.
        assert_eq!(both.special.audio_input, Some(money("3")));
        assert_eq!(both.special.image_output, Some(money("40")));
        assert_eq!(both.special.cache_write_1h, Some(money("6")));
    }

    #[test]
    fn a_long_prompt_has_other_prices_for_the_whole_request() {
        let special = SpecialPrices {
            long_prompt: Some(LongPrompt {
                above: 1000,
                input: Weight::from_thousandths(2000),
                output: Weight::from_thousandths(1500),
            }),
            priority: Some(Weight::from_thousandths(2000)),
            ..SpecialPrices::default()
        };
        let prices = Prices {
            special,
            ..prices()
        };
        let of = |input, tier| {
            let usage = Usage {
                input,
                cache_read: 10,
                output: 20,
                ..Usage::default()
            };
            let details = UsageDetails {
                tier,
                ..UsageDetails::default()
            };
            prices.cost(&usage, &details).to_string()
        };
        // 990 x 3 + 3 + 20 x 15 millionths; 991 x 6 + 6 + 20 x 22.5.
        assert_eq!(of(990, ServiceTier::Standard), "0.003273");
        assert_eq!(of(991, ServiceTier::Standard), "0.006402");
        assert_eq!(of(991, ServiceTier::Priority), "0.012804");
        let dearest = |most| {
            let prices = prices.of_input(most);
            (prices.dearest_input(), prices.dearest_output())
        };
        assert_eq!(dearest(1000), (money("7.5"), money("30")));
        assert_eq!(dearest(1001), (money("15"), money("45")));
    }
}
