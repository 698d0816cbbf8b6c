//! Lists of a report's parts: tokens by modality or time in a cache, and calls of the provider's tools.

use tollgate_types::{ProviderTool, UsageDetails};

/// The entry that is being read. Its members can stand in any order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
    kind: PartKind,
    pub(super) tokens: u64,
    tool: Option<ProviderTool>,
    /// A search that only opens a page that it has found: providers do not charge it.
    is_reading: bool,
    /// It has not ended yet.
    is_running: bool,
    /// A call, in the messages format, of a tool that the provider runs.
    pub(super) is_server_call: bool,
    /// Its name is that of the web search.
    is_web_search: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum PartKind {
    Audio,
    /// Written to a cache for an hour.
    CacheHour,
    Image,
    #[default]
    Other,
}

impl Part {
    pub(super) fn set_kind(&mut self, name: &str) {
        self.kind = match name {
            "AUDIO" => PartKind::Audio,
            "IMAGE" => PartKind::Image,
            "1h" => PartKind::CacheHour,
            _ => PartKind::Other,
        };
    }

    pub(super) fn set_type(&mut self, name: &str) {
        self.tool = match name {
            "web_search_call" => Some(ProviderTool::WebSearch),
            "file_search_call" => Some(ProviderTool::FileSearch),
            "code_interpreter_call" => Some(ProviderTool::CodeExecution),
            _ => None,
        };
        self.is_server_call = name == "server_tool_use";
    }

    pub(super) fn set_name(&mut self, name: &str) {
        self.is_web_search |= name == "web_search";
    }

    pub(super) fn set_status(&mut self, status: &str) {
        self.is_running = matches!(status, "in_progress" | "searching" | "interpreting");
    }

    pub(super) fn set_action(&mut self, name: &str) {
        self.is_reading = matches!(name, "open_page" | "find_in_page");
    }

    pub(super) fn end_input(self, details: &mut UsageDetails) {
        match self.kind {
            PartKind::Audio => details.audio_input = self.tokens,
            PartKind::CacheHour => {
                details.cache_write_1h = details.cache_write_1h.saturating_add(self.tokens);
            }
            PartKind::Image | PartKind::Other => {}
        }
    }

    pub(super) const fn end_cached(self, details: &mut UsageDetails) {
        if matches!(self.kind, PartKind::Audio) {
            details.audio_cache_read = self.tokens;
        }
    }

    pub(super) fn end_output(self, details: &mut UsageDetails) {
        match self.kind {
            PartKind::Audio => details.audio_output = self.tokens,
            PartKind::Image => details.image_output = self.tokens,
            PartKind::CacheHour | PartKind::Other => {}
        }
    }

    pub(super) fn end_item(self, details: &mut UsageDetails) {
        if let Some(tool) = self.tool.filter(|_| !self.is_reading) {
            let calls = details.calls_mut(tool);
            *calls = calls.saturating_add(1);
        }
    }

    /// Notes a call that has arrived in a stream, or with its answer, before a report says how many there were.
    pub(super) fn end_seen(self, seen: &mut SeenCalls) {
        if self.is_server_call && self.is_web_search {
            seen.ended.add(ProviderTool::WebSearch);
        }
        match self.tool {
            Some(tool) if self.is_running => seen.begun.add(tool),
            Some(tool) if self.is_reading => seen.reading.add(tool),
            Some(tool) => seen.ended.add(tool),
            None => {}
        }
    }
}

/// Calls of each of [`ProviderTool::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Calls([u64; ProviderTool::ALL.len()]);

impl Calls {
    const fn add(&mut self, tool: ProviderTool) {
        let [web_search, file_search, code_execution, rerank] = &mut self.0;
        let calls = match tool {
            ProviderTool::WebSearch => web_search,
            ProviderTool::FileSearch => file_search,
            ProviderTool::CodeExecution => code_execution,
            ProviderTool::Rerank => rerank,
        };
        *calls = calls.saturating_add(1);
    }
}

/// Calls of the provider's tools among the items that have arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeenCalls {
    begun: Calls,
    ended: Calls,
    /// Ended ones that providers do not charge.
    reading: Calls,
}

impl SeenCalls {
    /// How many calls of each tool are to be paid for.
    pub(crate) fn charged(&self) -> [u64; ProviderTool::ALL.len()] {
        let mut charged = self.ended.0;
        let begun = self.begun.0.into_iter().zip(self.reading.0);
        for (calls, (begun, reading)) in charged.iter_mut().zip(begun) {
            *calls = begun.saturating_sub(reading).max(*calls);
        }
        charged
    }
}
