//! Entries of lists that say what a report consists of: tokens by modality, and calls of the provider's tools.

use tollgate_types::{ProviderTool, UsageDetails};

/// The entry that is being read. Its members can stand in any order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
    modality: Modality,
    pub(super) tokens: u64,
    tool: Option<ProviderTool>,
    /// A search that only opens a page that it has found: providers do not charge it.
    is_reading: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum Modality {
    Audio,
    Image,
    #[default]
    Other,
}

impl Part {
    pub(super) fn set_modality(&mut self, name: &str) {
        self.modality = match name {
            "AUDIO" => Modality::Audio,
            "IMAGE" => Modality::Image,
            _ => Modality::Other,
        };
    }

    pub(super) fn set_type(&mut self, name: &str) {
        self.tool = match name {
            "web_search_call" => Some(ProviderTool::WebSearch),
            "file_search_call" => Some(ProviderTool::FileSearch),
            "code_interpreter_call" => Some(ProviderTool::CodeExecution),
            _ => None,
        };
    }

    pub(super) fn set_action(&mut self, name: &str) {
        self.is_reading = matches!(name, "open_page" | "find_in_page");
    }

    pub(super) fn end_input(self, details: &mut UsageDetails) {
        if let Modality::Audio = self.modality {
            details.audio_input = self.tokens;
        }
    }

    pub(super) fn end_output(self, details: &mut UsageDetails) {
        match self.modality {
            Modality::Audio => details.audio_output = self.tokens,
            Modality::Image => details.image_output = self.tokens,
            Modality::Other => {}
        }
    }

    pub(super) fn end_item(self, details: &mut UsageDetails) {
        if let Some(tool) = self.tool.filter(|_| !self.is_reading) {
            let calls = details.calls_mut(tool);
            *calls = calls.saturating_add(1);
        }
    }
}
