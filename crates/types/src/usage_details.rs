//! The parts of a usage report, besides the tokens of each kind, that can have their own price.

use crate::Usage;

/// A tool that providers run and charge by the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProviderTool {
    /// A web search.
    WebSearch,
    /// A search of stored files.
    FileSearch,
    /// A run of code.
    CodeExecution,
    /// A search in the documents of a rerank.
    Rerank,
}

impl ProviderTool {
    /// Every tool, in the order of [`UsageDetails::tool_calls`].
    pub const ALL: [Self; 4] = [
        Self::WebSearch,
        Self::FileSearch,
        Self::CodeExecution,
        Self::Rerank,
    ];
}

/// The tier in which a provider has served a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceTier {
    /// The standard tier, and every tier without its own factor.
    #[default]
    Standard,
    /// Within a day.
    Batch,
    /// Slower and cheaper.
    Flex,
    /// Faster and more expensive. OpenAI also calls it `fast`.
    Priority,
    /// Anthropic's fast mode (`speed: "fast"`), and OpenAI's tier `ultrafast`.
    Fast,
}

impl ServiceTier {
    /// The names in requests and answers of the tiers other than the standard one. The last two are Vertex
    /// AI's (`trafficType`).
    const NAMES: [(&str, Self); 7] = [
        ("flex", Self::Flex),
        ("priority", Self::Priority),
        ("batch", Self::Batch),
        ("fast", Self::Priority),
        ("ultrafast", Self::Fast),
        ("ON_DEMAND_FLEX", Self::Flex),
        ("ON_DEMAND_PRIORITY", Self::Priority),
    ];

    /// The tier of this name, in any case.
    pub fn from_name(name: &str) -> Self {
        Self::named(name).map_or(Self::Standard, |it| it.1)
    }

    /// The same with its name, unless it is the standard one.
    pub fn named(name: &str) -> Option<(&'static str, Self)> {
        let mut known = Self::NAMES.into_iter();
        known.find(|(known, _)| known.eq_ignore_ascii_case(name))
    }
}

/// Parts of a request's usage that can have their own prices. In tokens, they count like the rest of their
/// kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageDetails {
    /// Tokens written to a cache for an hour.
    pub cache_write_1h: u64,
    /// Tokens of sound in the uncached input.
    pub audio_input: u64,
    /// Tokens of sound read from a cache.
    pub audio_cache_read: u64,
    /// Tokens of sound in the output.
    pub audio_output: u64,
    /// Tokens of images in the output.
    pub image_output: u64,
    /// Calls of each of [`ProviderTool::ALL`].
    pub tool_calls: [u64; ProviderTool::ALL.len()],
    /// The tier of the whole request.
    pub tier: ServiceTier,
}

impl UsageDetails {
    /// The calls of a tool.
    pub const fn calls_mut(&mut self, tool: ProviderTool) -> &mut u64 {
        let [web_search, file_search, code_execution, rerank] = &mut self.tool_calls;
        match tool {
            ProviderTool::WebSearch => web_search,
            ProviderTool::FileSearch => file_search,
            ProviderTool::CodeExecution => code_execution,
            ProviderTool::Rerank => rerank,
        }
    }

    /// The same, with at most so many calls of each tool.
    #[must_use]
    pub fn with_calls_within(mut self, most: u64) -> Self {
        self.tool_calls = self.tool_calls.map(|calls| calls.min(most));
        self
    }

    /// The same, with parts reduced so that none exceeds its kind.
    #[must_use]
    pub fn within(self, usage: &Usage) -> Self {
        let audio_output = self.audio_output.min(usage.output);
        let other_output = usage.output.saturating_sub(audio_output);
        Self {
            cache_write_1h: self.cache_write_1h.min(usage.cache_write),
            audio_input: self.audio_input.min(usage.input),
            audio_cache_read: self.audio_cache_read.min(usage.cache_read),
            audio_output,
            image_output: self.image_output.min(other_output),
            ..self
        }
    }
}
