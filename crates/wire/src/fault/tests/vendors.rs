//! The class of each vendor's errors, by their published or reported examples.

use super::*;

#[test]
fn a_context_error_of_any_vendor_gives_its_numbers() {
    let four_hundred: &[(&str, String, C)] = &[
        (
            "chat completions",
            openai("This model's maximum context length is 8192 tokens. However, your messages resulted in 8227 tokens. Please reduce the length of the messages.", "invalid_request_error", "context_length_exceeded"),
            context(Some(8227), None, Some(8192)),
        ),
        (
            "with the completion counted in",
            openai("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (5000 in the messages, 4000 in the completion).", "invalid_request_error", "context_length_exceeded"),
            context(Some(5000), Some(4000), Some(8192)),
        ),
        (
            "responses",
            openai("Your input exceeds the context window of this model. Please adjust your input and try again.", "invalid_request_error", "context_length_exceeded"),
            context(None, None, None),
        ),
        (
            "messages",
            anthropic("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
            context(Some(210_000), None, Some(200_000)),
        ),
        (
            "messages, output as the cause",
            anthropic("invalid_request_error", "input length and `max_tokens` exceed context limit: 189136 + 20000 > 204648, decrease input length or `max_tokens` and try again"),
            context(Some(189_136), Some(20_000), Some(204_648)),
        ),
        (
            "error as a string",
            r#"{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 136973 tokens."}"#.to_owned(),
            context(Some(136_973), None, Some(131_072)),
        ),
        (
            "a range",
            openai("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]", "invalid_request_error", "invalid_parameter_error"),
            context(None, None, Some(129_024)),
        ),
        (
            "message alone",
            r#"{"message":"Input is too long for requested model."}"#.to_owned(),
            context(None, None, None),
        ),
        (
            "flat, code a number",
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens in the messages, Please reduce the length of the messages.","type":"BadRequestError","param":null,"code":400}"#.to_owned(),
            context(None, None, Some(4096)),
        ),
        (
            "code without meaning",
            openai("This model's maximum context length is 65536 tokens. However, you requested 70000 tokens (66000 in the messages, 4000 in the completion).", "invalid_request_error", "invalid_request_error"),
            context(Some(66_000), Some(4000), Some(65_536)),
        ),
        (
            "local server",
            openai("request (10019 tokens) exceeds the available context size (2048 tokens), try increasing it", "exceed_context_size_error", ""),
            context(Some(10_019), None, Some(2048)),
        ),
        (
            "another local server",
            r#"{"object":"error","message":"The input (61709 tokens) is longer than the model's context length (40960 tokens).","type":"BadRequestError","param":null,"code":400}"#.to_owned(),
            context(Some(61_709), None, Some(40_960)),
        ),
        (
            "sum of input and output",
            openai("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 65537. Given: 79993 `inputs` tokens and 1024 `max_new_tokens`", "invalid_request_error", ""),
            context(Some(79_993), None, Some(65_537)),
        ),
        (
            "grouped digits",
            openai("The input token count (1,200,000) exceeds the maximum number of tokens allowed (1,048,576).", "", ""),
            context(Some(1_200_000), None, Some(1_048_576)),
        ),
    ];
    for (name, body, class) in four_hundred {
        assert_eq!(upstream(400, body).class, *class, "{name}");
    }
}

#[test]
fn too_many_bytes_and_long_fields_are_not_context_errors() {
    all_are(
        C::InvalidRequest,
        &[
            (
                "bytes",
                413,
                anthropic("request_too_large", "Request exceeds the maximum size"),
            ),
            (
                "user",
                400,
                openai(
                    "Invalid 'user': string too long. Expected a string with maximum length 64; the context window is not the matter.",
                    "invalid_request_error",
                    "string_above_max_length",
                ),
            ),
        ],
    );
}

#[test]
fn content_blocks_are_recognised() {
    all_are(
        C::ContentPolicy,
        &[
            ("policy", 400, openai("Your request was rejected", "invalid_request_error", "content_policy_violation")),
            ("prompt", 400, openai("Invalid prompt", "invalid_request_error", "invalid_prompt")),
            ("cyber", 400, openai("x", "invalid_request_error", "cyber_policy")),
            ("bio", 400, openai("x", "invalid_request_error", "bio_policy")),
            ("filter", 400, r#"{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#.to_owned()),
            ("output", 400, anthropic("invalid_request_error", "Output blocked by content filtering policy")),
            ("inspection", 400, openai("<400> InternalError.Algo.DataInspectionFailed: Input data may contain inappropriate content.", "data_inspection_failed", "data_inspection_failed")),
            ("safety", 403, openai("Rejected by our safety system", "", "")),
            ("check", 403, r#"{"code":"permission-denied","error":"Content violates usage guidelines. Team: t, API key ID: k, Model: m, Failed check: SAFETY_CHECK_TYPE_BIO"}"#.to_owned()),
            ("check, code a sentence", 403, r#"{"code":"The caller does not have permission to execute the specified operation","error":"Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_CYBER"}"#.to_owned()),
            ("moderation", 403, r#"{"error":{"code":403,"message":"openai/m requires moderation on OpenAI. Your input was flagged for \"violence\".","metadata":{"reasons":["violence"],"flagged_input":"x","provider_name":"OpenAI"}},"user_id":"u"}"#.to_owned()),
            ("moderation, in words", 403, r#"{"error":{"code":403,"message":"Your input was flagged"}}"#.to_owned()),
            ("moderation, in fields", 403, r#"{"error":{"code":403,"message":"x","metadata":{"reasons":["violence"]}}}"#.to_owned()),
        ],
    );
}

#[test]
fn text_of_a_request_under_403_is_content_policy() {
    for body in [
        r#"{"code":"permission-denied","error":"Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO"}"#,
        r#"{"error":{"code":403,"message":"x","metadata":{"flagged_input":"x"}}}"#,
    ] {
        for fault in [upstream(403, body), classify_body(body.as_bytes())] {
            assert_eq!(fault.class, C::ContentPolicy, "{body}");
        }
    }
}

#[test]
fn unknown_models_are_recognised_under_400_and_404() {
    all_are(
        C::InvalidModel,
        &[
            ("responses", 400, openai("The requested model 'x' does not exist.", "invalid_request_error", "model_not_found")),
            ("chat", 404, openai("The model `x` does not exist or you do not have access to it.", "invalid_request_error", "model_not_found")),
            ("messages", 404, anthropic("not_found_error", "model: x")),
            ("identifier", 400, r#"{"message":"The provided model identifier is invalid."}"#.to_owned()),
            ("on demand", 400, r#"{"message":"Invocation of model ID anthropic.claude-x-v1:0 with on-demand throughput isn\u2019t supported. Retry your request with the ID or ARN of an inference profile that contains this model."}"#.to_owned()),
            ("region", 404, r#"{"__type":"ResourceNotFoundException","message":"Could not resolve the foundation model from the provided model identifier."}"#.to_owned()),
            ("legacy", 404, r#"{"__type":"ResourceNotFoundException","message":"Access denied. This Model is marked by provider as Legacy and you have not been actively using the model in the last 30 days. Please upgrade to an active model on Amazon Bedrock"}"#.to_owned()),
            ("list", 404, r#"[{"error":{"code":404,"message":"models/x is not found for API version v1beta","status":"NOT_FOUND"}}]"#.to_owned()),
            ("deployment", 404, r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#.to_owned()),
            ("native", 404, r#"{"code":"ModelNotFound","message":"Model not found","request_id":"r"}"#.to_owned()),
            ("server", 404, r#"{"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","param":null,"code":404}"#.to_owned()),
            ("missing", 400, r#"{"code":20012,"message":"Model does not exist. Please check it carefully.","data":null}"#.to_owned()),
            ("parameters", 400, r#"{"type":"error","error":{"type":"bad_request_error","message":"invalid params, unknown model 'x' (2013)","http_code":"400"}}"#.to_owned()),
            ("with a team", 404, r#"{"code":"not-found","error":"The model x does not exist or your team t does not have access to it. If you believe this is a mistake, please contact support and quote your team ID and the model name."}"#.to_owned()),
            ("with advice", 404, r#"{"error":{"code":404,"message":"models/x is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods.","status":"NOT_FOUND"}}"#.to_owned()),
            ("publisher", 404, r#"[{"error":{"code":404,"message":"Publisher Model `projects/p/models/x` was not found or your project does not have access to it. Please ensure you are using a valid model version. For more information, see: https://cloud.google.com/vertex-ai/generative-ai/docs/learn/model-versions","status":"NOT_FOUND"}}]"#.to_owned()),
            ("local", 404, openai("model \"x\" not found, try pulling it first", "api_error", "")),
            ("forbidden", 403, openai("Project `p` does not have access to model `x`", "invalid_request_error", "model_not_found")),
        ],
    );
}

#[test]
fn another_404_is_the_upstreams_own() {
    let fault = upstream(
        404,
        &openai(
            "Previous response with id 'x' not found.",
            "invalid_request_error",
            "previous_response_not_found",
        ),
    );
    assert_eq!(fault.class, C::InvalidRequest);
    let public = fault.public();
    assert_eq!(
        (public.status, public.code),
        (404, ErrorCode::UpstreamError)
    );
}

#[test]
fn an_account_without_credit_is_not_a_rate_limit() {
    all_are(
        C::Quota,
        &[
            ("quota", 429, openai("You exceeded your current quota, please check your plan and billing details.", "insufficient_quota", "insufficient_quota")),
            ("balance", 400, anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API.")),
            ("billing", 402, anthropic("billing_error", "Payment required")),
            ("spend limit", 429, r#"{"type":"error","error":{"type":"rate_limit_error","message":"x","details":{"error_code":"enforced_spend_limit_reached"}}}"#.to_owned()),
            ("contract", 429, r#"{"type":"error","error":{"type":"rate_limit_error","message":"x","details":{"error_code":"contract_spend_limit_reached"}}}"#.to_owned()),
            ("no credits", 403, r#"{"code":"The caller does not have permission to execute the specified operation","error":"Your newly created team doesn’t have any credits yet."}"#.to_owned()),
            ("all used, 429", 429, r#"{"code":"Some resource has been exhausted","error":"Your team has either used all available credits or reached its monthly spending limit."}"#.to_owned()),
            ("all used, 403", 403, r#"{"code":"x y","error":"Your team has either used all available credits or reached its monthly spending limit."}"#.to_owned()),
            ("more credits", 402, r#"{"error":{"code":402,"message":"This request requires more credits, or fewer max_tokens."},"user_id":"u"}"#.to_owned()),
            ("arrears", 400, r#"{"code":"Arrearage","message":"Access denied, please make sure your account is in good standing.","request_id":"r"}"#.to_owned()),
            ("free quota", 429, r#"{"code":"Throttling.AllocationQuota","message":"Free allocated quota exceeded.","request_id":"r"}"#.to_owned()),
        ],
    );
}

#[test]
fn rate_limits_are_recognised_and_are_not_context_errors() {
    all_are(
        C::RateLimit,
        &[
            ("tokens a minute", 429, openai("Rate limit reached for m on tokens per min (TPM): Limit 30000, Used 29000, Requested 4000.", "tokens", "rate_limit_exceeded")),
            ("account", 429, anthropic("rate_limit_error", "This request would exceed your account's rate limit. Please try again later.")),
            ("ramp", 429, r#"{"type":"error","error":{"type":"x","message":"x","details":{"error_code":"ramp_limit_exceeded"}}}"#.to_owned()),
            ("too many tokens", 429, r#"{"message":"Too many tokens, please wait before trying again."}"#.to_owned()),
            ("throttling", 429, r#"{"code":"Throttling.RateQuota","message":"Requests rate limit exceeded.","request_id":"r"}"#.to_owned()),
            ("limit_requests", 429, openai("You have exceeded your request limit.", "limit_requests", "limit_requests")),
            ("behind", 429, r#"{"error":{"code":429,"message":"Provider returned error","metadata":{"raw":"x is temporarily rate-limited upstream.","provider_name":"P"}},"user_id":"u"}"#.to_owned()),
            ("page", 429, "<html>slow down</html>".to_owned()),
        ],
    );
    let fault = with_headers(
        400,
        &[(
            "x-amzn-errortype",
            "ThrottlingException:http://internal.example/",
        )],
        r#"{"message":"Too many tokens, please wait before trying again."}"#,
    );
    assert_eq!(fault.class, C::RateLimit);
}

#[test]
fn a_403_can_be_the_rate_limit_of_github() {
    let by_code = openai(
        "Rate limit of 10 per 60s exceeded for UserByModelByMinute. Please wait 46 seconds before retrying.",
        "",
        "RateLimitReached",
    );
    for status in [403, 429] {
        let fault = upstream(status, &by_code);
        assert_eq!(fault.class, C::RateLimit, "{status}");
        assert_eq!(fault.retry_after, Some(Duration::from_secs(46)), "{status}");
    }
    let by_headers =
        r#"{"message":"API rate limit exceeded for user ID 1.","documentation_url":"x"}"#;
    let none_left = ("x-ratelimit-remaining", "0");
    for body in [by_headers, ""] {
        let fault = with_headers(403, &[none_left, ("retry-after", "60")], body);
        assert_eq!(fault.class, C::RateLimit, "{body}");
        assert_eq!(fault.retry_after, Some(Duration::from_secs(60)), "{body}");
    }
    let others = [
        (403, ("x-ratelimit-remaining", "1"), C::Forbidden),
        (403, ("retry-after", "60"), C::Forbidden),
        (401, none_left, C::Credential),
        (400, none_left, C::InvalidRequest),
    ];
    for (status, header, class) in others {
        let fault = with_headers(status, &[header], by_headers);
        assert_eq!(fault.class, class, "{status} {header:?}");
    }
}

#[test]
fn a_request_over_the_rate_is_never_to_be_sent_again() {
    let rate = openai(
        "Request too large for m in organization o on tokens per min (TPM): Limit 10000, Requested 24000.",
        "tokens",
        "rate_limit_exceeded",
    );
    // Of the same account shorter requests are served.
    let long_context = anthropic(
        "rate_limit_error",
        "Usage credits are required for long context requests.",
    );
    for body in [rate, long_context] {
        let fault = upstream(429, &body);
        assert_eq!(fault.class, C::RequestOverRateLimit, "{body}");
        assert!(fault.try_elsewhere());
        let public = fault.public();
        assert_eq!(public.status, 429);
        assert_eq!(public.should_retry, Some(false));
    }
}

#[test]
fn overload_is_recognised() {
    all_are(
        C::Busy,
        &[
            ("overloaded", 529, anthropic("overloaded_error", "Overloaded")),
            ("timeout", 504, anthropic("timeout_error", "x")),
            ("keys", 503, r#"{"type":"error","error":{"type":"api_error","message":"x","details":{"error_code":"cmek_unavailable"}}}"#.to_owned()),
            ("plain", 503, String::new()),
            ("code under 500", 500, openai("x", "server_error", "server_is_overloaded")),
            ("request time-out", 408, "<html></html>".to_owned()),
        ],
    );
    for name in ["ServiceUnavailableException", "ModelNotReadyException"] {
        let fault = with_headers(424, &[("x-amzn-errortype", name)], r#"{"message":"x"}"#);
        assert_eq!(fault.class, C::Busy, "{name}");
    }
}

#[test]
fn trouble_with_our_own_key_never_looks_like_the_callers() {
    let examples = [
        ("bearer", 401, openai("Incorrect API key provided: sk-secret.", "invalid_request_error", "invalid_api_key")),
        ("x-api-key", 401, anthropic("authentication_error", "invalid x-api-key")),
        ("under 403", 403, r#"{"__type":"com.amazon.coral.service#UnrecognizedClientException","message":"The security token included in the request is invalid."}"#.to_owned()),
        ("on hold", 400, r#"{"type":"error","error":{"type":"invalid_request_error","message":"x","details":{"error_code":"organization_on_hold"}}}"#.to_owned()),
        ("under 400", 400, r#"{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***."}"#.to_owned()),
        ("subscription", 401, openai("Access denied due to invalid subscription key or wrong API endpoint.", "", "401")),
    ];
    all_are(C::Credential, &examples);
    let forbidden = [
        ("anthropic", 403, anthropic("permission_error", "Your API key does not have permission to use the specified resource.")),
        ("country", 403, openai("Country, region, or territory not supported", "request_forbidden", "unsupported_country_region_territory")),
        ("google", 403, r#"{"error":{"code":403,"message":"The caller does not have permission","status":"PERMISSION_DENIED"}}"#.to_owned()),
        ("blocked", 403, openai("The model `x` is blocked at the project level.", "permissions_error", "model_permission_blocked_project")),
        ("denied", 403, r#"{"code":"Model.AccessDenied","message":"Model access denied.","request_id":"r"}"#.to_owned()),
        ("not enabled", 403, r#"{"__type":"AccessDeniedException","message":"You don't have access to the model with the specified model ID."}"#.to_owned()),
        ("dashscope", 403, r#"{"code":"AccessDenied.Unpurchased","message":"Access to model denied.","request_id":"r"}"#.to_owned()),
    ];
    all_are(C::Forbidden, &forbidden);
    for (name, status, body) in examples.into_iter().chain(forbidden) {
        let fault = upstream(status, &body);
        assert!(fault.try_elsewhere(), "{name}");
        let public = fault.public();
        assert_eq!(
            (public.status, public.code),
            (502, ErrorCode::UpstreamError)
        );
    }
    for (name, class) in [
        ("AccessDeniedException", C::Forbidden),
        ("UnrecognizedClientException", C::Credential),
        ("InvalidSignatureException", C::Credential),
        ("ExpiredTokenException", C::Credential),
        ("MissingAuthenticationTokenException", C::Credential),
    ] {
        let fault = with_headers(400, &[("x-amzn-errortype", name)], r#"{"message":"x"}"#);
        assert_eq!(fault.class, class, "{name}");
    }
}

#[test]
fn a_refused_signature_shows_how_far_the_clocks_are_apart() {
    let ahead = |name: &str, date: &str| {
        let headers = [("x-amzn-errortype", name), ("date", date)];
        with_headers(403, &headers, r#"{"message":"Signature expired"}"#).clock_ahead
    };
    let name = "InvalidSignatureException:http://internal.example/";
    assert_eq!(ahead(name, "Sun, 06 Nov 1994 08:39:37 GMT"), Some(600));
    assert_eq!(ahead(name, "Sun, 06 Nov 1994 08:59:37 GMT"), Some(-600));
    assert_eq!(ahead(name, "Sun, 06 Nov 1994 08:49:00 GMT"), None);
    assert_eq!(ahead(name, "yesterday"), None);
    let other = "AccessDeniedException";
    assert_eq!(ahead(other, "Sun, 06 Nov 1994 08:39:37 GMT"), None);
}

#[test]
fn a_page_before_the_api_says_too_little_to_rest_a_key_for_it() {
    for body in ["<html>Sorry, you have been blocked</html>", "", "{}"] {
        let fault = upstream(403, body);
        assert_eq!(fault.class, C::Blocked, "{body}");
        assert!(fault.try_elsewhere());
        let public = fault.public();
        assert_eq!(
            (public.status, public.code),
            (502, ErrorCode::UpstreamError)
        );
    }
}

#[test]
fn a_403_for_every_key_is_the_callers_fault() {
    for body in [
        openai("You are not allowed to request logprobs from this model", "invalid_request_error", ""),
        r#"[{"error":{"code":403,"message":"You do not have permission to access the File abc or it may not exist.","status":"PERMISSION_DENIED"}}]"#.to_owned(),
    ] {
        let fault = upstream(403, &body);
        assert_eq!(fault.class, C::InvalidRequest, "{body}");
        let public = fault.public();
        assert_eq!(
            (public.status, public.code),
            (400, ErrorCode::UpstreamError)
        );
    }
}

#[test]
fn reasoning_made_elsewhere_can_be_left_out() {
    all_are(
        C::UnreadableReasoning,
        &[
            (
                "blob",
                400,
                openai(
                    "The encrypted content could not be verified.",
                    "invalid_request_error",
                    "invalid_encrypted_content",
                ),
            ),
            (
                "signature",
                400,
                anthropic(
                    "invalid_request_error",
                    "messages.1.content.0: Invalid `signature` in `thinking` block",
                ),
            ),
        ],
    );
}

#[test]
fn the_rest_goes_by_status() {
    all_are(
        C::InvalidRequest,
        &[
            (
                "tool use",
                400,
                openai(
                    "Tool choice is required, but model did not call a tool",
                    "invalid_request_error",
                    "tool_use_failed",
                ),
            ),
            ("page", 400, "<html>bad</html>".to_owned()),
            ("empty", 422, String::new()),
        ],
    );
    all_are(
        C::ServerError,
        &[
            ("api", 500, anthropic("api_error", "Internal server error")),
            ("page", 502, "<html>bad gateway</html>".to_owned()),
            ("unheard of", 599, String::new()),
        ],
    );
}

#[test]
fn errors_of_gemini_are_recognised() {
    let google = |code: u16, message: &str, status: &str| {
        (
            code,
            format!(r#"{{"error":{{"code":{code},"message":"{message}","status":"{status}"}}}}"#),
        )
    };
    for (class, (status, body)) in [
        (
            C::RateLimit,
            google(
                429,
                "Resource has been exhausted (e.g. check quota).",
                "RESOURCE_EXHAUSTED",
            ),
        ),
        (
            C::Busy,
            google(
                503,
                "The model is overloaded. Please try again later.",
                "UNAVAILABLE",
            ),
        ),
        (
            C::Busy,
            google(
                504,
                "Deadline expired before operation could complete.",
                "DEADLINE_EXCEEDED",
            ),
        ),
        (
            C::ServerError,
            google(500, "An internal error has occurred.", "INTERNAL"),
        ),
        (
            C::Credential,
            google(
                400,
                "API key not valid. Please pass a valid API key.",
                "INVALID_ARGUMENT",
            ),
        ),
        (
            C::Credential,
            google(
                400,
                "API key expired. Please renew the API key.",
                "INVALID_ARGUMENT",
            ),
        ),
        (
            C::Credential,
            google(
                403,
                "Your API key was reported as leaked. Please use another API key.",
                "PERMISSION_DENIED",
            ),
        ),
        (
            C::Credential,
            google(
                400,
                "User location is not supported for the API use.",
                "FAILED_PRECONDITION",
            ),
        ),
        (
            C::Quota,
            google(
                429,
                "Your prepayment credits are depleted. Please go to AI Studio at https://ai.studio/projects to manage your project and billing.",
                "RESOURCE_EXHAUSTED",
            ),
        ),
        (
            C::UnreadableReasoning,
            google(400, "Corrupted thought signature.", "INVALID_ARGUMENT"),
        ),
        (
            C::UnreadableReasoning,
            google(
                400,
                "Unable to submit request because Thought signature is not valid..",
                "INVALID_ARGUMENT",
            ),
        ),
        (
            C::Forbidden,
            google(403, "Permission denied on resource.", "PERMISSION_DENIED"),
        ),
        (
            C::InvalidRequest,
            google(
                400,
                "Request contains an invalid argument.",
                "INVALID_ARGUMENT",
            ),
        ),
        (
            C::InvalidModel,
            google(
                404,
                "models/x is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods.",
                "NOT_FOUND",
            ),
        ),
    ] {
        assert_eq!(upstream(status, &body).class, class, "{body}");
    }
    // The details say what the status does not.
    let detailed = |code: u16, message: &str, details: &str| {
        let body = format!(
            r#"[{{"error":{{"code":{code},"message":"{message}","status":"S","details":[{details}]}}}}]"#
        );
        upstream(code, &body)
    };
    let reason = |reason: &str| {
        format!(
            r#"{{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"{reason}","domain":"googleapis.com"}}"#
        )
    };
    let fault = detailed(400, "Other words.", &reason("API_KEY_INVALID"));
    assert_eq!(fault.class, C::Credential);
    assert_eq!(fault.provider_code.as_deref(), Some("API_KEY_INVALID"));
    let suspended = "Permission denied: Consumer 'api_key:SECRET' has been suspended.";
    let fault = detailed(403, suspended, &reason("CONSUMER_SUSPENDED"));
    assert_eq!(fault.class, C::Credential);
    let fault = detailed(403, "No billing.", &reason("BILLING_DISABLED"));
    assert_eq!(fault.class, C::Quota);
    // The message is the same for a quota of a minute and one of a day.
    const EXCEEDED: &str = "You exceeded your current quota, please check your plan and billing details. Please retry in 9s.";
    let quota = |id: &str, value: &str| {
        format!(
            r#"{{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{{"quotaId":"GenerateContentInputTokensPerModelPerMinute","quotaValue":"1000"}},{{"quotaId":"{id}","quotaValue":"{value}"}}]}},{{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}}"#
        )
    };
    for (class, id, value) in [
        (
            C::RateLimit,
            "GenerateRequestsPerMinutePerProjectPerModel",
            "5",
        ),
        (C::Quota, "GenerateRequestsPerDayPerProjectPerModel", "250"),
        (
            C::Quota,
            "GenerateRequestsPerMinutePerProjectPerModel-FreeTier",
            "0",
        ),
    ] {
        let fault = detailed(429, EXCEEDED, &quota(id, value));
        assert_eq!(fault.class, class, "{id}");
        assert_eq!(fault.retry_after, Some(Duration::from_millis(34_500)));
    }
    let fault = detailed(429, EXCEEDED, "");
    assert_eq!(fault.class, C::Quota);
    assert_eq!(fault.retry_after, Some(Duration::from_secs(9)));
    let blocked =
        r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":4}}"#;
    assert_eq!(classify_body(blocked.as_bytes()).class, C::ContentPolicy);
}
