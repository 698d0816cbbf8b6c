//! The fields of a Gemini request. Google's servers read each name in camel case or in snake case,
//! and so does the gateway.

use crate::{
    features::Feature as F,
    table::{core, declare_kinds, declare_shapes, dropped, field, implied, refused},
};

const INLINE_AT: &[&str] = &[
    "contents[].parts[].inlineData",
    "contents[].parts[].functionResponse.parts[].inlineData",
];

const FILES_AT: &[&str] = &[
    "contents[].parts[].fileData",
    "contents[].parts[].functionResponse.parts[].fileData",
];

const MEDIA: &str = "an image or a document; sound and film are refused";
const SOUND: &str = "the translation carries no sound";
const INSTRUCTION: &str = "an instruction is text for this model";
const CUT: &str = "the provider reads a medium whole";

declare_shapes! {
    TOP: &[""], &[] => &[
        core("contents").how("turn by turn, in order"),
        field("systemInstruction", F::Instructions),
        field("tools", F::Tools),
        field("toolConfig", F::ToolChoice),
        core("generationConfig").how("sampling, limits, thinking and the form of the answer"),
        dropped("safetySettings", "the provider has settings of its own").whole().unless(&["[]"]),
        refused("cachedContent", "only the provider that keeps a cache knows it: send its contents").whole(),
        field("labels", F::Metadata).how("`metadata`").whole().unless(&["{}"]),
        field("serviceTier", F::ServiceTier).how("`standard` is `default`").unless(&["\"unspecified\""]),
        refused("store", "what the gateway translates is not stored").unless(&["false"]),
        refused("continuationToken", "only the provider that made an answer goes on with it").whole(),
        implied("model", "the address has it").extra(),
        implied("stream", "the address has it").extra(),
    ];

    CONTENT: &["contents[]"], &[] => &[
        core("role").how("`model` is the assistant; the last content must be the user's"),
        core("parts"),
    ];

    SYSTEM: &["systemInstruction"], &[] => &[
        implied("role", "it is the system's"),
        core("parts").how("texts"),
    ];

    SYSTEM_PART: &["systemInstruction.parts[]"], &[] => &[
        core("text"),
        implied("thought", "an instruction is no reasoning"),
        refused("thoughtSignature", INSTRUCTION),
        refused("inlineData", INSTRUCTION).whole(),
        refused("fileData", INSTRUCTION).whole(),
        refused("functionCall", INSTRUCTION).whole(),
        refused("functionResponse", INSTRUCTION).whole(),
        refused("executableCode", INSTRUCTION).whole(),
        refused("codeExecutionResult", INSTRUCTION).whole(),
        refused("toolCall", INSTRUCTION).whole(),
        refused("toolResponse", INSTRUCTION).whole(),
        dropped("videoMetadata", CUT).whole(),
        dropped("mediaResolution", CUT).whole(),
        dropped("mediaProcessing", CUT).whole(),
        dropped("documentMetadata", CUT).whole(),
        dropped("spreadsheetMetadata", CUT).whole(),
        dropped("audioMetadata", CUT).whole(),
        dropped("speechMetadata", CUT).whole(),
        dropped("audioTranscription", CUT).whole(),
        dropped("partMetadata", "the client's own record").whole(),
    ];

    PART: &["contents[].parts[]"], &[] => &[
        core("text"),
        implied("thought", "reasoning returns in the signature of the part behind it"),
        field("thoughtSignature", F::Thoughts).how("the seals in it are opened where this provider made them"),
        core("inlineData").how(MEDIA),
        core("fileData").how(MEDIA),
        field("functionCall", F::Calls),
        field("functionResponse", F::Results),
        field("executableCode", F::HostedHistory).whole(),
        field("codeExecutionResult", F::HostedHistory).whole(),
        field("toolCall", F::HostedHistory).whole(),
        field("toolResponse", F::HostedHistory).whole(),
        dropped("videoMetadata", CUT).whole(),
        dropped("mediaResolution", CUT).whole(),
        dropped("mediaProcessing", CUT).whole(),
        dropped("documentMetadata", CUT).whole(),
        dropped("spreadsheetMetadata", CUT).whole(),
        dropped("audioMetadata", CUT).whole(),
        dropped("speechMetadata", CUT).whole(),
        dropped("audioTranscription", CUT).whole(),
        dropped("partMetadata", "the client's own record").whole(),
    ];

    INLINE: INLINE_AT, &[] => &[
        core("mimeType"),
        core("data").how("base64 in the alphabet of URLs becomes plain base64"),
        field("displayName", F::FileNames),
    ];

    FILE: FILES_AT, &[] => &[
        core("mimeType").how("whether it is an image or a document"),
        core("fileUri").how("an http or https address is passed on, never fetched; a file that Google stores is refused"),
        field("displayName", F::FileNames),
    ];

    FUNCTION_CALL: &["contents[].parts[].functionCall"], &[] => &[
        field("id", F::CallIds).how("made by the gateway if there is none"),
        core("name").how("shortened where the target takes less"),
        field("args", F::Arguments).how("`arguments`, as a string, or the object").whole(),
        refused("partialArgs", "calls of earlier turns are whole").whole().unless(&["[]"]),
        refused("willContinue", "calls of earlier turns are whole").unless(&["false"]),
    ];

    FUNCTION_RESPONSE: &["contents[].parts[].functionResponse"], &[] => &[
        field("id", F::ResultIds).how("without one it answers the first open call of its `name`"),
        implied("name", "the call has it"),
        field("response", F::ResultContents)
            .how("`output`, `result` or `error` alone is the text of the result, anything else the whole object as JSON")
            .whole(),
        core("parts").how("images and documents of the result"),
        field("willContinue", F::AsyncCalls).unless(&["false"]),
        field("scheduling", F::AsyncCalls).unless(&["\"SCHEDULING_UNSPECIFIED\""]),
    ];

    RESPONSE_PART: &["contents[].parts[].functionResponse.parts[]"], &[] => &[
        core("inlineData").how(MEDIA),
        core("fileData").how(MEDIA),
        dropped("videoMetadata", CUT).whole(),
        dropped("mediaResolution", CUT).whole(),
        dropped("mediaProcessing", CUT).whole(),
        dropped("documentMetadata", CUT).whole(),
        dropped("spreadsheetMetadata", CUT).whole(),
        dropped("audioMetadata", CUT).whole(),
    ];

    TOOL: &["tools[]"], &[] => &[
        core("functionDeclarations"),
        field("googleSearch", F::HostedTools).whole(),
        field("googleSearchRetrieval", F::HostedTools).whole(),
        field("enterpriseWebSearch", F::HostedTools).whole(),
        field("parallelAiSearch", F::HostedTools).whole(),
        field("exaAiSearch", F::HostedTools).whole(),
        field("googleMaps", F::HostedTools).whole(),
        field("urlContext", F::HostedTools).whole(),
        field("fileSearch", F::HostedTools).whole(),
        field("codeExecution", F::HostedTools).whole(),
        field("computerUse", F::HostedTools).whole(),
        field("retrieval", F::HostedTools).whole(),
        field("mcpServers", F::McpServers).whole().unless(&["[]"]),
    ];

    DECLARATION: &["tools[].functionDeclarations[]"], &[] => &[
        core("name").how("shortened where the target takes less"),
        core("description"),
        field("parameters", F::Parameters).how("as JSON schema: types in small letters, `nullable` as the type `null`").whole(),
        field("parametersJsonSchema", F::Parameters).how("as it is; it goes before `parameters`").whole(),
        field("response", F::OutputSchemas).whole(),
        field("responseJsonSchema", F::OutputSchemas).whole(),
        field("behavior", F::AsyncCalls).unless(&["\"BLOCKING\"", "\"UNSPECIFIED\""]),
    ];

    TOOL_CONFIG: &["toolConfig"], &[] => &[
        core("functionCallingConfig"),
        dropped("retrievalConfig", "the provider's own tools are taken out").whole(),
        dropped("includeServerSideToolInvocations", "the provider's own tools are taken out").unless(&["false"]),
    ];

    CALLING_CONFIG: &["toolConfig.functionCallingConfig"], &[] => &[
        field("mode", F::ToolChoice).how("`ANY` is `required`, `VALIDATED` is `auto`"),
        field("allowedFunctionNames", F::ChosenTools).how("a single one is chosen; of several the others are not offered").whole(),
        implied("streamFunctionCallArguments", "calls come whole"),
    ];

    GENERATION_CONFIG: &["generationConfig"], &[] => &[
        field("temperature", F::Temperature),
        field("topP", F::TopP),
        field("topK", F::TopKHint),
        field("seed", F::Seed),
        field("candidateCount", F::ManyAnswers).unless(&["1"]),
        field("maxOutputTokens", F::OutputLimit),
        field("stopSequences", F::StopSequences).unless(&["[]"]),
        field("presencePenalty", F::Penalties).unless(&["0"]),
        field("frequencyPenalty", F::Penalties).unless(&["0"]),
        refused("responseLogprobs", "log probabilities are not translated").unless(&["false"]),
        refused("logprobs", "log probabilities are not translated").unless(&["0"]),
        field("responseMimeType", F::AnswerFormats).unless(&["\"text/plain\""]),
        field("responseSchema", F::AnswerFormats).how("as JSON schema, with a name of the gateway's").whole(),
        field("responseJsonSchema", F::AnswerFormats).how("with a name of the gateway's; it goes before `responseSchema`").whole(),
        refused("responseFormat", "use `responseMimeType` and `responseJsonSchema`").whole().unless(&["[]"]),
        field("thinkingConfig", F::Effort).how("the effort, and whether reasoning is shown"),
        field("responseModalities", F::AudioOutput).whole().unless(&["[\"TEXT\"]", "[]"]),
        field("speechConfig", F::AudioOutput).whole(),
        refused("audioTranscriptionConfig", SOUND).whole(),
        dropped("audioTimestamp", SOUND).unless(&["false"]),
        refused("translationConfig", SOUND).whole(),
        dropped("enableAffectiveDialog", SOUND).unless(&["false"]),
        dropped("mediaResolution", CUT).unless(&["\"MEDIA_RESOLUTION_UNSPECIFIED\""]),
        field("imageConfig", F::ImageOptions).whole().extra(),
        dropped("enableEnhancedCivicAnswers", "the provider has no such answers").unless(&["false"]),
        refused("routingConfig", "the model is the one that the address names").whole(),
        refused("modelSelectionConfig", "the model is the one that the address names").whole(),
    ];

    THINKING_CONFIG: &["generationConfig.thinkingConfig"], &[] => &[
        field("includeThoughts", F::ReasoningShown).how("whether reasoning is asked for and shown"),
        field("thinkingBudget", F::Effort).how("the effort that thinks as much; `-1` is `medium`, `0` is `none`"),
        field("thinkingLevel", F::Effort).how("the effort of that name; it goes before `thinkingBudget`"),
    ];
}

declare_kinds! {}
