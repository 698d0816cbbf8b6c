//! Amazon Bedrock, as what a provider speaks: Converse and ConverseStream.

pub(crate) mod answer_reader;
pub(crate) mod features;
pub(crate) mod request_writer;

use super::{FormatRules, ProviderRules, TargetRules};

pub(crate) static RULES: FormatRules = FormatRules {
    client: None,
    target: TargetRules {
        // Models of several makers stand behind one provider.
        binds_reasoning: true,
        image_types: Some(&["image/png", "image/jpeg", "image/gif", "image/webp"]),
        has_tool_marks: true,
        marks_of_result: 1,
        merges_schemas: true,
        has_json_objects: false,
        has_plain_ids: true,
        ..TargetRules::of(&features::FEATURES, |writer, conversation| {
            writer.converse(conversation)
        })
    },
    provider: ProviderRules {
        reader: || Box::<answer_reader::ConverseReader>::default(),
        signs_reasoning: true,
    },
    has_begun_answers: true,
};
