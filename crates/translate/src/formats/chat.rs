//! The chat completions format.

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
        request_fields::messages::SHAPES,
        request_fields::tools::SHAPES,
    ],
    kinds: &[
        request_fields::KINDS,
        request_fields::messages::KINDS,
        request_fields::tools::KINDS,
    ],
    rewrite: None,
    read: request_reader::read,
    spelling: None,
    paths: SourcePaths {
        turns: "messages",
        stop: "stop",
        parallel: "parallel_tool_calls",
        arguments: "messages[].tool_calls[].function.arguments",
        tool_schema: "tools[].function.parameters",
        answer_format: "response_format",
        answer_schema: "response_format.json_schema.schema",
        json_object: "response_format.json_object",
        own: &[],
    },
    has_open_schemas: false,
    remembered: None,
    asked_reasoning,
    unseal: unsealed::unseal,
};

pub(crate) static CLIENT: ClientRules = ClientRules {
    stream: |notes| Box::new(answer_writer::ChatStream::new(notes.include_usage)),
    body: |_| Box::<answer_writer::ChatBody>::default(),
    call_id_prefix: "call",
    has_plain_ids: false,
    has_object_arguments: false,
    search_seals: SealPlace::None,
};

pub(crate) static RULES: FormatRules = FormatRules {
    client: Some((&SOURCE, &CLIENT)),
    target: TargetRules {
        has_custom_tools: |target| target.chat.custom_tools,
        returns_reasoning: |target| target.chat.reasoning_content,
        has_effort_with_tools: |target| target.chat.effort_with_tools,
        has_top_k: |target| target.chat.top_k,
        call_id_length: 40,
        has_short_ids: |target| target.chat.short_call_ids,
        ..TargetRules::of(&features::FEATURES, |writer, conversation| {
            writer.chat(conversation)
        })
    },
    provider: ProviderRules {
        reader: || Box::<answer_reader::ChatReader>::default(),
        signs_reasoning: false,
    },
    has_begun_answers: false,
};

/// Clients are given the text of the reasoning and no seals.
const fn asked_reasoning(_: &Conversation<'_>, _: ReasoningUse) -> AskedReasoning {
    AskedReasoning {
        text: true,
        state: false,
        hidden: false,
    }
}
