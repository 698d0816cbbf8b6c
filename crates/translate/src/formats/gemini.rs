//! Google Gemini: `generateContent` and `streamGenerateContent`.

pub(crate) mod answer_reader;
pub(crate) mod answer_writer;
pub(crate) mod features;
pub(crate) mod request_fields;
pub(crate) mod request_reader;
pub(crate) mod request_writer;
pub(crate) mod seals;
pub(crate) mod spelling;
pub(crate) mod unsealed;

use super::{
    ClientRules, FormatRules, ProviderRules, ReasoningUse, SealPlace, SourcePaths, SourceRules,
    TargetRules,
};
use crate::{AskedReasoning, names::NameLimits, request::conversation::Conversation};
use tollgate_types::Effort;

/// The level of thinking for an effort. `efforts`: those that the model accepts.
pub(crate) fn level(effort: Effort, efforts: &[Effort]) -> &'static str {
    match effort {
        Effort::None | Effort::Minimal => "MINIMAL",
        Effort::Low => "LOW",
        Effort::Medium => "MEDIUM",
        // Few models have more, and they list it.
        Effort::Xhigh | Effort::Max if efforts.contains(&Effort::Xhigh) => "XHIGH",
        Effort::High | Effort::Xhigh | Effort::Max => "HIGH",
    }
}

static SOURCE: SourceRules = SourceRules {
    shapes: &[request_fields::SHAPES],
    kinds: &[request_fields::KINDS],
    rewrite: Some(request_reader::rewrites::rewrite),
    read: request_reader::read,
    spelling: Some(spelling::camel),
    paths: SourcePaths {
        turns: "contents",
        stop: "generationConfig.stopSequences",
        parallel: "toolConfig",
        arguments: "contents[].parts[].functionCall.args",
        tool_schema: "tools[].functionDeclarations[].parameters",
        answer_format: "generationConfig.responseMimeType",
        answer_schema: "generationConfig.responseSchema",
        json_object: "generationConfig.responseMimeType",
        own: &[
            ("frequency_penalty", "generationConfig.frequencyPenalty"),
            ("metadata", "labels"),
            ("presence_penalty", "generationConfig.presencePenalty"),
            ("seed", "generationConfig.seed"),
            ("service_tier", "serviceTier"),
            ("stop", "generationConfig.stopSequences"),
            ("temperature", "generationConfig.temperature"),
            ("tool_choice", "toolConfig.functionCallingConfig"),
            ("top_k", "generationConfig.topK"),
            ("top_p", "generationConfig.topP"),
        ],
    },
    has_open_schemas: true,
    remembered: None,
    asked_reasoning,
    unseal: unsealed::unseal,
};

static CLIENT: ClientRules = ClientRules {
    stream: |_| Box::new(answer_writer::GeminiWriter::new(true)),
    body: |_| Box::new(answer_writer::GeminiWriter::new(false)),
    call_id_prefix: "call",
    has_plain_ids: false,
    has_object_arguments: true,
    search_seals: SealPlace::None,
};

pub(crate) static RULES: FormatRules = FormatRules {
    client: Some((&SOURCE, &CLIENT)),
    target: TargetRules {
        binds_reasoning: true,
        image_types: Some(&[
            "image/png",
            "image/jpeg",
            "image/webp",
            "image/heic",
            "image/heif",
        ]),
        tool_names: NameLimits {
            max_len: 64,
            starts_with_letter: true,
        },
        has_plain_ids: true,
        ..TargetRules::of(&features::FEATURES, |writer, conversation| {
            writer.gemini(conversation)
        })
    },
    provider: ProviderRules {
        reader: || Box::<answer_reader::GeminiReader>::default(),
        signs_reasoning: true,
    },
    has_begun_answers: true,
};

fn asked_reasoning(conversation: &Conversation<'_>, used: ReasoningUse) -> AskedReasoning {
    let asked = &conversation.reasoning;
    let thinks = asked.effort.is_some_and(|it| it != Effort::None);
    AskedReasoning {
        text: asked.shown == Some(true),
        state: true,
        hidden: used.is_returned || thinks || asked.shown == Some(true),
    }
}
