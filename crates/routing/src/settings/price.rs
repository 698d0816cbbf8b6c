//! Prices, as they stand in the configuration file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate_settings::{Date, TokenCount};
use tollgate_types::{LongPrompt, Money, Prices, SpecialPrices, Weight};

/// What tokens cost, per million, in the one currency that all prices of the file are in.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceSettings {
    /// Input.
    pub input: Money,
    /// Input read from a cache. Default: as `input`.
    pub cache_read: Option<Money>,
    /// Input written to a cache. Default: as `input`.
    pub cache_write: Option<Money>,
    /// Input written to a cache for an hour. Default: as `cache_write`.
    pub cache_write_1h: Option<Money>,
    /// Sound in the input. Default: as `input`.
    pub audio_input: Option<Money>,
    /// Sound read from a cache. Default: as `cache_read`.
    pub audio_cache_read: Option<Money>,
    /// Output, reasoning included.
    pub output: Money,
    /// Sound in the output. Default: as `output`.
    pub audio_output: Option<Money>,
    /// Images in the output. Default: as `output`.
    pub image_output: Option<Money>,
    /// Calls of the provider's own tools, each.
    #[serde(default)]
    pub tool_calls: ToolPriceSettings,
    /// Service tiers in which tokens have other prices.
    #[serde(default)]
    pub tiers: TierSettings,
    /// Prompts that are so long that their requests have other prices. Default: none.
    pub long_prompt: Option<LongPromptSettings>,
    /// Later prices, in the order of their dates. Requests that are sent before keep their cost.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub changes: Vec<PriceChangeSettings>,
}

/// Prices from a date on. Omitted ones stay as they were.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceChangeSettings {
    /// The first day, in UTC.
    pub from: Date,
    /// Input.
    pub input: Option<Money>,
    /// Input read from a cache.
    pub cache_read: Option<Money>,
    /// Input written to a cache.
    pub cache_write: Option<Money>,
    /// Input written to a cache for an hour.
    pub cache_write_1h: Option<Money>,
    /// Sound in the input.
    pub audio_input: Option<Money>,
    /// Sound read from a cache.
    pub audio_cache_read: Option<Money>,
    /// Output, reasoning included.
    pub output: Option<Money>,
    /// Sound in the output.
    pub audio_output: Option<Money>,
    /// Images in the output.
    pub image_output: Option<Money>,
    /// Calls of the provider's own tools, each.
    #[serde(default)]
    pub tool_calls: ToolPriceSettings,
    /// Service tiers in which tokens have other prices.
    #[serde(default)]
    pub tiers: TierSettings,
    /// Prompts that are so long that their requests have other prices.
    pub long_prompt: Option<LongPromptSettings>,
}

impl PriceSettings {
    /// The prices after a change. A price that neither names follows the price that it defaults to.
    pub(crate) fn after(self, change: &PriceChangeSettings) -> Self {
        let (tools, new_tools) = (self.tool_calls, &change.tool_calls);
        let (tiers, new_tiers) = (self.tiers, change.tiers);
        Self {
            input: change.input.unwrap_or(self.input),
            cache_read: change.cache_read.or(self.cache_read),
            cache_write: change.cache_write.or(self.cache_write),
            cache_write_1h: change.cache_write_1h.or(self.cache_write_1h),
            audio_input: change.audio_input.or(self.audio_input),
            audio_cache_read: change.audio_cache_read.or(self.audio_cache_read),
            output: change.output.unwrap_or(self.output),
            audio_output: change.audio_output.or(self.audio_output),
            image_output: change.image_output.or(self.image_output),
            tool_calls: ToolPriceSettings {
                web_search: new_tools.web_search.or(tools.web_search),
                file_search: new_tools.file_search.or(tools.file_search),
                code_execution: new_tools.code_execution.or(tools.code_execution),
                rerank: new_tools.rerank.or(tools.rerank),
            },
            tiers: TierSettings {
                flex: new_tiers.flex.or(tiers.flex),
                priority: new_tiers.priority.or(tiers.priority),
                batch: new_tiers.batch.or(tiers.batch),
                fast: new_tiers.fast.or(tiers.fast),
            },
            long_prompt: change.long_prompt.or(self.long_prompt),
            changes: Vec::new(),
        }
    }
}

impl From<&PriceSettings> for Prices {
    fn from(settings: &PriceSettings) -> Self {
        let tools = &settings.tool_calls;
        let tools = [
            tools.web_search,
            tools.file_search,
            tools.code_execution,
            tools.rerank,
        ];
        let tiers = &settings.tiers;
        Self {
            input: settings.input,
            cache_read: settings.cache_read.unwrap_or(settings.input),
            cache_write: settings.cache_write.unwrap_or(settings.input),
            output: settings.output,
            special: SpecialPrices {
                cache_write_1h: settings.cache_write_1h,
                audio_input: settings.audio_input,
                audio_cache_read: settings.audio_cache_read,
                audio_output: settings.audio_output,
                image_output: settings.image_output,
                tool_calls: tools.map(Option::unwrap_or_default),
                flex: factor(tiers.flex),
                priority: tiers.priority.map(Weight::from_factor),
                batch: factor(tiers.batch),
                fast: tiers.fast.map(Weight::from_factor),
                long_prompt: settings.long_prompt.as_ref().map(|it| LongPrompt {
                    above: it.above.get(),
                    input: factor(it.input),
                    output: factor(it.output),
                }),
            },
        }
    }
}

/// What a call of a tool costs that the provider runs, in the currency of the prices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolPriceSettings {
    /// A search of the web. Default: 0, or as before a change.
    pub web_search: Option<Money>,
    /// A search of stored files. Default: 0, or as before a change.
    pub file_search: Option<Money>,
    /// A run of code. Default: 0, or as before a change.
    pub code_execution: Option<Money>,
    /// A search of a rerank: a query with up to 100 documents. Default: 0, or as before a change.
    pub rerank: Option<Money>,
}

/// By what the prices of tokens are multiplied in a service tier that the answer names. Three decimal places
/// count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TierSettings {
    /// `flex`. Default: 1.
    #[schemars(range(min = 0, max = 1000))]
    pub flex: Option<f64>,
    /// `priority`, which OpenAI also calls `fast`. Default: unknown; keys that pay in money cannot ask for it.
    #[schemars(range(min = 0, max = 1000))]
    pub priority: Option<f64>,
    /// `batch`. Default: 1.
    #[schemars(range(min = 0, max = 1000))]
    pub batch: Option<f64>,
    /// `speed: fast` and `service_tier: ultrafast`. Default: unknown; keys that pay in money cannot ask for them.
    #[schemars(range(min = 0, max = 1000))]
    pub fast: Option<f64>,
}

/// By what the prices of tokens are multiplied for the whole of a request whose prompt is long. Three decimal
/// places count.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LongPromptSettings {
    /// Prompts of more input tokens than this, cached or not.
    pub above: TokenCount,
    /// Input, cached or not. Default: 1.
    #[schemars(range(min = 0, max = 1000))]
    pub input: Option<f64>,
    /// Output. Default: 1.
    #[schemars(range(min = 0, max = 1000))]
    pub output: Option<f64>,
}

fn factor(factor: Option<f64>) -> Weight {
    factor.map_or(Weight::ONE, Weight::from_factor)
}
