//! The error bodies of real vendors, by the name under which `vendor-<name>` orders them.
//!
//! The shapes and the classes are those that a gateway must distinguish; the sentences are
//! the vendors' own where classification needs them (a phrase, a number), and shortened
//! elsewhere.

use serde_json::{Value, json};

/// One error of one vendor.
#[derive(Debug)]
pub struct VendorError {
    /// Vendor and kind: `anthropic-context`.
    pub name: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// Further response headers.
    pub headers: &'static [(&'static str, &'static str)],
    /// The body, as it goes over the wire.
    pub body: &'static str,
}

const fn error(name: &'static str, status: u16, body: &'static str) -> VendorError {
    VendorError {
        name,
        status,
        headers: &[],
        body,
    }
}

const fn with(
    name: &'static str,
    status: u16,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
) -> VendorError {
    VendorError {
        name,
        status,
        headers,
        body,
    }
}

/// Every vendor error.
pub const VENDORS: &[VendorError] = &[
    error(
        "openai-context",
        400,
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 8227 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
    ),
    error(
        "openai-content",
        400,
        r#"{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy.","type":"invalid_request_error","param":null,"code":"invalid_prompt"}}"#,
    ),
    error(
        "openai-model",
        404,
        r#"{"error":{"message":"The model `gpt-0` does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#,
    ),
    error(
        "openai-model-responses",
        400,
        r#"{"error":{"message":"The requested model 'gpt-0' does not exist.","type":"invalid_request_error","param":"model","code":"model_not_found"}}"#,
    ),
    error(
        "openai-quota",
        429,
        r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#,
    ),
    with(
        "openai-rate",
        429,
        &[
            ("retry-after", "3"),
            ("retry-after-ms", "2500"),
            ("x-ratelimit-remaining-tokens", "0"),
        ],
        r#"{"error":{"message":"Rate limit reached for gpt-5 in organization org-x on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2.5s.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#,
    ),
    error(
        "openai-too-large",
        429,
        r#"{"error":{"message":"Request too large for gpt-5 in organization org-x on tokens per min (TPM): Limit 30000, Requested 61000.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#,
    ),
    error(
        "openai-busy",
        503,
        r#"{"error":{"message":"The server is currently overloaded with other requests.","type":"server_error","param":null,"code":"server_is_overloaded"}}"#,
    ),
    error(
        "openai-auth",
        401,
        r#"{"error":{"message":"Incorrect API key provided: sk-wrong.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
    ),
    error(
        "openai-server",
        500,
        r#"{"error":{"message":"The server had an error while processing your request.","type":"server_error","param":null,"code":null}}"#,
    ),
    error(
        "openai-encrypted",
        400,
        r#"{"error":{"message":"The encrypted content could not be verified.","type":"invalid_request_error","param":null,"code":"invalid_encrypted_content"}}"#,
    ),
    error(
        "azure-content",
        400,
        r#"{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
    ),
    error(
        "azure-model",
        404,
        r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#,
    ),
    with(
        "azure-rate",
        429,
        &[("retry-after", "26")],
        r#"{"error":{"code":"429","message":"Requests have exceeded the call rate limit. Please retry after 26 seconds."}}"#,
    ),
    error(
        "azure-auth",
        401,
        r#"{"error":{"code":"401","message":"Access denied due to invalid subscription key or wrong API endpoint."}}"#,
    ),
    error(
        "anthropic-context",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"},"request_id":"req_sim"}"#,
    ),
    error(
        "anthropic-context-output",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 189136 + 20000 > 204648, decrease input length or `max_tokens` and try again"},"request_id":"req_sim"}"#,
    ),
    error(
        "anthropic-too-large",
        413,
        r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"},"request_id":"req_sim"}"#,
    ),
    error(
        "anthropic-content",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"},"request_id":"req_sim"}"#,
    ),
    error(
        "anthropic-model",
        404,
        r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-0"},"request_id":"req_sim"}"#,
    ),
    error(
        "anthropic-quota",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."},"request_id":"req_sim"}"#,
    ),
    error(
        "anthropic-billing",
        402,
        r#"{"type":"error","error":{"type":"billing_error","message":"There is a problem with your billing details."},"request_id":"req_sim"}"#,
    ),
    error(
        "anthropic-spend-limit",
        429,
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"The workspace reached its spend limit.","details":{"error_code":"enforced_spend_limit_reached"}},"request_id":"req_sim"}"#,
    ),
    with(
        "anthropic-rate",
        429,
        &[
            ("retry-after", "12"),
            ("anthropic-ratelimit-tokens-remaining", "0"),
        ],
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your account's rate limit. Please try again later."},"request_id":"req_sim"}"#,
    ),
    error(
        "anthropic-busy",
        529,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_sim"}"#,
    ),
    error(
        "anthropic-timeout",
        504,
        r#"{"type":"error","error":{"type":"timeout_error","message":"Request timed out"},"request_id":"req_sim"}"#,
    ),
    error(
        "anthropic-auth",
        401,
        r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"},"request_id":"req_sim"}"#,
    ),
    error(
        "anthropic-permission",
        403,
        r#"{"type":"error","error":{"type":"permission_error","message":"Your API key does not have permission to use the specified resource."},"request_id":"req_sim"}"#,
    ),
    error(
        "anthropic-signature",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0: Invalid `signature` in `thinking` block"},"request_id":"req_sim"}"#,
    ),
    error(
        "xai-context",
        400,
        r#"{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 136973 tokens."}"#,
    ),
    error(
        "xai-quota",
        403,
        r#"{"code":"The caller does not have permission to execute the specified operation","error":"Your team has used all available credits or reached its monthly spending limit."}"#,
    ),
    error(
        "xai-auth",
        400,
        r#"{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***ng."}"#,
    ),
    error(
        "dashscope-context",
        400,
        r#"{"error":{"message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]","type":"invalid_request_error","param":null,"code":"invalid_parameter_error"},"id":"chatcmpl-sim","request_id":"sim"}"#,
    ),
    error(
        "dashscope-content",
        400,
        r#"{"error":{"message":"<400> InternalError.Algo.DataInspectionFailed: Input data may contain inappropriate content.","type":"data_inspection_failed","param":null,"code":"data_inspection_failed"},"request_id":"sim"}"#,
    ),
    error(
        "dashscope-quota",
        429,
        r#"{"code":"Throttling.AllocationQuota","message":"Free allocated quota exceeded.","request_id":"sim"}"#,
    ),
    error(
        "dashscope-rate",
        429,
        r#"{"code":"Throttling.RateQuota","message":"Requests rate limit exceeded, please try again later.","request_id":"sim"}"#,
    ),
    error(
        "dashscope-arrears",
        400,
        r#"{"code":"Arrearage","message":"Access denied, please make sure your account is in good standing.","request_id":"sim"}"#,
    ),
    with(
        "bedrock-context",
        400,
        &[("x-amzn-errortype", "ValidationException")],
        r#"{"message":"Input is too long for requested model."}"#,
    ),
    with(
        "bedrock-model",
        400,
        &[("x-amzn-errortype", "ValidationException")],
        r#"{"message":"The provided model identifier is invalid."}"#,
    ),
    with(
        "bedrock-rate",
        429,
        &[("x-amzn-errortype", "ThrottlingException")],
        r#"{"message":"Too many tokens, please wait before trying again."}"#,
    ),
    with(
        "bedrock-busy",
        503,
        &[("x-amzn-errortype", "ServiceUnavailableException")],
        r#"{"message":"Bedrock is unable to process your request."}"#,
    ),
    with(
        "bedrock-auth",
        403,
        &[("x-amzn-errortype", "AccessDeniedException")],
        r#"{"message":"You don't have access to the model with the specified model ID."}"#,
    ),
    error(
        "google-model",
        404,
        r#"{"error":{"code":404,"message":"models/gemini-0 is not found for API version v1beta.","status":"NOT_FOUND"}}"#,
    ),
    error(
        "google-rate",
        429,
        r#"{"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}}"#,
    ),
    error(
        "groq-tool",
        400,
        r#"{"error":{"message":"Tool choice is required, but model did not call a tool","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"maybe"}}"#,
    ),
    error(
        "openrouter-quota",
        402,
        r#"{"error":{"message":"This request requires more credits, or fewer max_tokens.","code":402},"user_id":"user_sim"}"#,
    ),
    error(
        "openrouter-rate",
        429,
        r#"{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"model is temporarily rate-limited upstream.","provider_name":"Sim"}},"user_id":"user_sim"}"#,
    ),
    error(
        "vllm-context",
        400,
        r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.","type":"BadRequestError","param":null,"code":400}"#,
    ),
    error(
        "vllm-model",
        404,
        r#"{"error":{"message":"The model `x` does not exist.","type":"NotFoundError","param":"model","code":404}}"#,
    ),
    error(
        "llamacpp-context",
        400,
        r#"{"error":{"code":400,"message":"request (10019 tokens) exceeds the available context size (2048 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":10019,"n_ctx":2048}}"#,
    ),
    error(
        "llamacpp-image",
        500,
        r#"{"error":{"code":500,"message":"image input is not supported - hint: if this is unexpected, you may need to provide the mmproj","type":"server_error"}}"#,
    ),
    error(
        "llamacpp-endpoint",
        501,
        r#"{"error":{"code":501,"message":"This server does not support reranking. Start it with `--reranking`","type":"not_supported_error"}}"#,
    ),
    error(
        "cohere-auth",
        401,
        r#"{"id":"sim","message":"invalid api token"}"#,
    ),
    error(
        "cohere-model",
        404,
        r#"{"id":"sim","message":"model 'command-0' not found, make sure the correct model ID was used and that you have access to the model."}"#,
    ),
    error(
        "cohere-context",
        400,
        r#"{"id":"sim","message":"too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 6354. Try using a shorter prompt."}"#,
    ),
    error(
        "cohere-rate",
        429,
        r#"{"id":"sim","message":"You are using a Trial key, which is limited to 20 API calls / minute."}"#,
    ),
    error(
        "fireworks-model",
        404,
        r#"{"message":"Model not found, inaccessible, and/or not deployed","param":"model","code":"NOT_FOUND","type":"error"}"#,
    ),
    error(
        "mistral-auth",
        401,
        r#"{"message":"Unauthorized","request_id":"sim"}"#,
    ),
    error(
        "mistral-model",
        400,
        r#"{"object":"error","message":"Invalid model: mistral-0","type":"invalid_model","param":null,"code":"1500"}"#,
    ),
    error(
        "mistral-rate",
        429,
        r#"{"object":"error","message":"Rate limit exceeded","type":"rate_limited","param":null,"code":"1300","raw_status_code":429}"#,
    ),
    error(
        "ollama-model",
        404,
        r#"{"error":{"message":"model \"x\" not found, try pulling it first","type":"api_error","param":null,"code":null}}"#,
    ),
    error(
        "ollama-tool",
        400,
        r#"{"error":{"message":"registry.ollama.ai/library/x:latest does not support tools","type":"api_error","param":null,"code":null}}"#,
    ),
    error(
        "sglang-context",
        400,
        r#"{"object":"error","message":"The input (61709 tokens) is longer than the model's context length (40960 tokens).","type":"BadRequestError","param":null,"code":400}"#,
    ),
    error(
        "together-auth",
        401,
        r#"{"error":{"message":"Invalid API key provided. You can find your API key at https://api.together.xyz/settings/api-keys.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
    ),
    error(
        "together-model",
        400,
        r#"{"id":"sim","error":{"message":"Unable to access non-serverless model x/X-0. Please visit https://api.together.ai/models/x/X-0 to create and start a new dedicated endpoint for the model.","type":"invalid_request_error","param":null,"code":"model_not_available"}}"#,
    ),
    error(
        "together-context",
        422,
        r#"{"id":"sim","error":{"message":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 65537. Given: 79993 `inputs` tokens and 1024 `max_new_tokens`","type":"invalid_request_error","param":"max_tokens","code":null}}"#,
    ),
    error(
        "deepseek-tool",
        400,
        r#"{"error":{"message":"No tool output found for tool call call-a.","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#,
    ),
];

/// The vendor error of this name.
pub fn find(name: &str) -> Option<&'static VendorError> {
    VENDORS.iter().find(|known| known.name == name)
}

/// The page of a proxy between here and there.
pub(crate) fn html_page(status: u16) -> String {
    let reason = http::StatusCode::from_u16(status)
        .ok()
        .and_then(|s| s.canonical_reason());
    let title = format!("{status} {}", reason.unwrap_or("Error"));
    format!(
        "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
    )
}

/// An error as OpenAI writes it.
pub(crate) fn openai_error(
    kind: &str,
    message: &str,
    param: Option<&str>,
    code: Option<&str>,
) -> Value {
    json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
}

/// An error as Anthropic writes it.
pub(crate) fn anthropic_error(kind: &str, message: &str, request_id: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id})
}

/// `error.type` and `error.code` of OpenAI for a status.
pub(crate) fn openai_kind(status: u16) -> (&'static str, Option<&'static str>) {
    match status {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        404 => ("invalid_request_error", Some("model_not_found")),
        429 => ("requests", Some("rate_limit_exceeded")),
        400..=499 => ("invalid_request_error", None),
        503 => ("server_error", Some("server_is_overloaded")),
        _ => ("server_error", None),
    }
}

/// `error.type` of Anthropic for a status.
pub(crate) fn anthropic_kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        _ => "api_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_body_is_json_and_every_name_stands_once() {
        for (at, vendor) in VENDORS.iter().enumerate() {
            assert!(
                serde_json::from_str::<Value>(vendor.body).is_ok(),
                "{}",
                vendor.name
            );
            assert!(
                VENDORS
                    .iter()
                    .skip(at + 1)
                    .all(|other| other.name != vendor.name),
                "{}",
                vendor.name
            );
        }
    }
}
