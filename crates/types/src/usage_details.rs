//! What a report of usage says beyond the tokens of each kind, as far as it can have a price of its own.

use crate::Usage;

/// A tool that providers run themselves, and charge by the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProviderTool {
    /// A search of the web.
    WebSearch,
    /// A search of stored files.
    FileSearch,
    /// A run of code.
    CodeExecution,
}

impl ProviderTool {
    /// Every tool, in the order of [`UsageDetails::tool_calls`].
    pub const ALL: [Self; 3] = [Self::WebSearch, Self::FileSearch, Self::CodeExecution];
}

/// The tier in which a provider has served a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ServiceTier {
    /// The one that prices are for, and every tier without a factor of its own.
    #[default]
    Standard,
    /// Slower and cheaper.
    Flex,
    /// Faster and dearer.
    Priority,
    /// Within a day.
    Batch,
    /// Anthropic's fast mode (`speed: "fast"`).
    Fast,
}

impl ServiceTier {
    /// The tier of this name in an answer.
    pub fn from_name(name: &str) -> Self {
        match name {
            "flex" => Self::Flex,
            "priority" => Self::Priority,
            "batch" => Self::Batch,
            "fast" => Self::Fast,
            _ => Self::Standard,
        }
    }
}

/// Parts of a request's usage that can have prices of their own. In tokens they count like the rest of their
/// kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageDetails {
    /// Of the tokens written to a cache, those that stay for an hour.
    pub cache_write_1h: u64,
    /// Of the uncached input, sound.
    pub audio_input: u64,
    /// Of the output, sound.
    pub audio_output: u64,
    /// Of the output, images.
    pub image_output: u64,
    /// Calls of each of [`ProviderTool::ALL`].
    pub tool_calls: [u64; ProviderTool::ALL.len()],
    /// The tier of the whole request.
    pub tier: ServiceTier,
}

impl UsageDetails {
    /// The calls of a tool.
    pub const fn calls_mut(&mut self, tool: ProviderTool) -> &mut u64 {
        let [web_search, file_search, code_execution] = &mut self.tool_calls;
        match tool {
            ProviderTool::WebSearch => web_search,
            ProviderTool::FileSearch => file_search,
            ProviderTool::CodeExecution => code_execution,
        }
    }

    /// The same with parts that are no greater than the whole.
    #[must_use]
    pub fn within(self, usage: &Usage) -> Self {
        let audio_output = self.audio_output.min(usage.output);
        let other_output = usage.output.saturating_sub(audio_output);
        Self {
            cache_write_1h: self.cache_write_1h.min(usage.cache_write),
            audio_input: self.audio_input.min(usage.input),
            audio_output,
            image_output: self.image_output.min(other_output),
            ..self
        }
    }
}
