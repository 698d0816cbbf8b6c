//! The responses format.

pub(crate) mod answer_reader;
pub(crate) mod answer_writer;
pub(crate) mod features;
pub(crate) mod request_fields;
pub(crate) mod request_reader;
pub(crate) mod request_writer;
pub(crate) mod unsealed;

use super::{
    ClientRules, FormatRules, ProviderRules, ReasoningUse, SealPlace, SourcePaths, SourceRules,
    TargetRules,
};
use crate::{AskedReasoning, request::conversation::Conversation};

static SOURCE: SourceRules = SourceRules {
    shapes: &[
        request_fields::SHAPES,
        request_fields::items::SHAPES,
        request_fields::tools::SHAPES,
    ],
    kinds: &[
        request_fields::KINDS,
        request_fields::items::KINDS,
        request_fields::tools::KINDS,
    ],
    rewrite: None,
    read: request_reader::read,
    spelling: None,
    paths: SourcePaths {
        turns: "input",
        stop: "stop",
        parallel: "parallel_tool_calls",
        arguments: "input[].arguments",
        tool_schema: "tools[].parameters",
        answer_format: "text.format",
        answer_schema: "text.format.schema",
        json_object: "text.format.json_object",
        own: &[],
    },
    has_open_schemas: false,
    remembered: Some("input"),
    asked_reasoning,
    unseal: unsealed::unseal,
};

static CLIENT: ClientRules = ClientRules {
    stream: answer_writer::stream,
    body: answer_writer::body,
    call_id_prefix: "call",
    has_plain_ids: false,
    has_object_arguments: false,
    search_seals: SealPlace::Beside,
};

pub(crate) static RULES: FormatRules = FormatRules {
    client: Some((&SOURCE, &CLIENT)),
    target: TargetRules {
        has_search: |target| target.responses.web_search,
        has_custom_tools: |_| true,
        has_top_k: |_| false,
        marks_of_result: usize::MAX,
        // Without a declaration, a tool is strict if its schema allows it.
        declares_strictness: true,
        has_stop_sequences: false,
        ..TargetRules::of(&features::FEATURES, |writer, conversation| {
            writer.responses(conversation)
        })
    },
    provider: ProviderRules {
        reader: || Box::<answer_reader::ResponsesReader>::default(),
        signs_reasoning: true,
    },
    has_begun_answers: false,
};

fn asked_reasoning(conversation: &Conversation<'_>, used: ReasoningUse) -> AskedReasoning {
    let is_sealed = conversation.encrypted_reasoning || used.is_remembered;
    AskedReasoning {
        text: conversation.reasoning.shown == Some(true),
        state: is_sealed,
        hidden: is_sealed,
    }
}
