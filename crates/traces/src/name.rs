//! The names of attributes that the semantic conventions of OpenTelemetry define.

pub(crate) const ERROR_TYPE: &str = "error.type";
pub(crate) const GEN_AI_CONVERSATION_ID: &str = "gen_ai.conversation.id";
pub(crate) const GEN_AI_INPUT_MESSAGES: &str = "gen_ai.input.messages";
pub(crate) const GEN_AI_OPERATION_NAME: &str = "gen_ai.operation.name";
pub(crate) const GEN_AI_OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
pub(crate) const GEN_AI_OUTPUT_TYPE: &str = "gen_ai.output.type";
pub(crate) const GEN_AI_PROVIDER_NAME: &str = "gen_ai.provider.name";
pub(crate) const GEN_AI_REQUEST_CHOICE_COUNT: &str = "gen_ai.request.choice.count";
pub(crate) const GEN_AI_REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
pub(crate) const GEN_AI_REQUEST_MODEL: &str = "gen_ai.request.model";
pub(crate) const GEN_AI_REQUEST_SEED: &str = "gen_ai.request.seed";
pub(crate) const GEN_AI_REQUEST_STREAM: &str = "gen_ai.request.stream";
pub(crate) const GEN_AI_RESPONSE_FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(crate) const GEN_AI_RESPONSE_ID: &str = "gen_ai.response.id";
pub(crate) const GEN_AI_RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(crate) const GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
pub(crate) const GEN_AI_SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";
pub(crate) const GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS: &str =
    "gen_ai.usage.cache_creation.input_tokens";
pub(crate) const GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: &str =
    "gen_ai.usage.cache_read.input_tokens";
pub(crate) const GEN_AI_USAGE_INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(crate) const GEN_AI_USAGE_OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(crate) const GEN_AI_USAGE_REASONING_OUTPUT_TOKENS: &str =
    "gen_ai.usage.reasoning.output_tokens";
pub(crate) const HTTP_REQUEST_METHOD: &str = "http.request.method";
pub(crate) const HTTP_RESPONSE_STATUS_CODE: &str = "http.response.status_code";
pub(crate) const HTTP_ROUTE: &str = "http.route";
pub(crate) const SERVER_ADDRESS: &str = "server.address";
pub(crate) const SERVER_PORT: &str = "server.port";
