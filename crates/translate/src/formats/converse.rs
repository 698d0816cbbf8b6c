//! Amazon Bedrock, as what a provider speaks: Converse and ConverseStream.

pub(crate) mod answer_reader;
pub(crate) mod features;
pub(crate) mod request_writer;

use super::{FormatRules, ProviderRules, TargetRules};
use crate::names::NameLimits;

pub(crate) static RULES: FormatRules = FormatRules {
    client: None,
    target: TargetRules {
        features: &features::FEATURES,
        write: |writer, conversation| writer.converse(conversation),
        has_search: |_| false,
        has_custom_tools: |_| false,
        returns_reasoning: |_| false,
        // Models of several makers stand behind one provider.
        binds_reasoning: true,
        has_effort_with_tools: |_| true,
        has_top_k: |_| true,
        image_types: Some(&["image/png", "image/jpeg", "image/gif", "image/webp"]),
        has_text_documents: false,
        has_tool_marks: true,
        marks_of_result: 1,
        merges_schemas: true,
        declares_strictness: false,
        has_stop_sequences: true,
        has_json_objects: false,
        tool_names: NameLimits::up_to(64),
        call_id_length: 64,
        has_plain_ids: true,
    },
    provider: ProviderRules {
        reader: || Box::<answer_reader::ConverseReader>::default(),
        signs_reasoning: true,
    },
    has_begun_answers: true,
};
