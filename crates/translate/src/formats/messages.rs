//! The messages format.

pub(crate) mod answer_reader;
pub(crate) mod answer_writer;
pub(crate) mod features;
pub(crate) mod request_fields;
pub(crate) mod request_reader;
pub(crate) mod request_writer;
pub(crate) mod thinking;
pub(crate) mod unsealed;

use super::{
    ClientRules, FormatRules, ProviderRules, ReasoningUse, SealPlace, SourcePaths, SourceRules,
    TargetRules,
};
use crate::{
    AskedReasoning,
    names::NameLimits,
    request::conversation::{Conversation, ThinkingMode},
};

static SOURCE: SourceRules = SourceRules {
    shapes: &[
        request_fields::SHAPES,
        request_fields::blocks::SHAPES,
        request_fields::tools::SHAPES,
    ],
    kinds: &[
        request_fields::KINDS,
        request_fields::blocks::KINDS,
        request_fields::tools::KINDS,
    ],
    rewrite: None,
    read: request_reader::read,
    spelling: None,
    paths: SourcePaths {
        turns: "messages",
        stop: "stop_sequences",
        parallel: "tool_choice.disable_parallel_tool_use",
        arguments: "messages[].content[].input",
        tool_schema: "tools[].input_schema",
        answer_format: "output_config.format",
        answer_schema: "output_config.format.schema",
        json_object: "output_config.format",
        own: &[],
    },
    has_open_schemas: true,
    remembered: None,
    asked_reasoning,
    unseal: unsealed::unseal,
};

static CLIENT: ClientRules = ClientRules {
    stream: |_| Box::<answer_writer::MessagesStream>::default(),
    body: |_| Box::<answer_writer::MessagesBody>::default(),
    call_id_prefix: "toolu",
    has_plain_ids: true,
    has_object_arguments: true,
    search_seals: SealPlace::Inside,
};

pub(crate) static RULES: FormatRules = FormatRules {
    client: Some((&SOURCE, &CLIENT)),
    target: TargetRules {
        has_search: |target| target.messages.web_search,
        image_types: Some(&["image/png", "image/jpeg", "image/gif", "image/webp"]),
        has_text_documents: true,
        has_tool_marks: true,
        marks_of_result: usize::MAX,
        merges_schemas: true,
        has_json_objects: false,
        tool_names: NameLimits::up_to(128),
        call_id_length: 128,
        has_plain_ids: true,
        ..TargetRules::of(&features::FEATURES, |writer, conversation| {
            writer.messages(conversation)
        })
    },
    provider: ProviderRules {
        reader: || Box::<answer_reader::MessagesReader>::default(),
        signs_reasoning: true,
    },
    // Newer models refuse it in this format, too.
    has_begun_answers: true,
};

fn asked_reasoning(conversation: &Conversation<'_>, used: ReasoningUse) -> AskedReasoning {
    let mode = conversation.reasoning.mode;
    AskedReasoning {
        text: conversation.reasoning.shown == Some(true),
        state: true,
        hidden: used.is_returned || mode.is_some_and(|mode| mode != ThinkingMode::Disabled),
    }
}
