//! Providers repeat the caller's words in errors. These words must not put a deployment or a
//! credential in cooldown.

use super::*;

/// What would be trouble of the gateway's own if a provider said it by itself.
const WORDS: &[&str] = &[
    "credit balance is too low",
    "Your credit balance is too low to access the Anthropic API.",
    "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.",
    "exceeded your current quota",
    "You exceeded your current quota, please check your plan and billing details.",
    "used all available credits",
    "monthly spending limit",
    "doesn't have any credits",
    "requires more credits",
    "credits are required",
    "free allocated quota",
    "account is in good standing",
    "incorrect api key",
    "Incorrect API key provided: xa***.",
    "Incorrect API key provided: xa***. You can obtain an API key from https://console.x.ai.",
    "API key not valid. Please pass a valid API key.",
    "invalid_api_key",
    "insufficient_quota",
    "Arrearage",
    "AccessDeniedException",
    "rate_limit_exceeded",
    "overloaded_error",
    "The provided model identifier is invalid.",
    "Model Not Exist",
    "x is not a valid model ID",
    "unknown model",
    "Unknown Model, please check the model code.",
    "The model x does not exist",
    "model: x",
    "models/x is not found for API version v1beta",
    "Model does not exist. Please check it carefully.",
    "invalid params, unknown model 'x' (2013)",
    "model 'x' not found",
    "Publisher Model `x` was not found or your project does not have access to it.",
    "model",
];

/// Texts that would change the class if they stood outside the quotes; some have quotes of their own.
fn variants(words: &str) -> [String; 3] {
    let escaping = format!("a' {words} 'b");
    [words.to_owned(), words.to_uppercase(), escaping]
}

/// No failure that is final for the request opens a breaker.
#[track_caller]
fn opens_no_breaker(status: u16, body: &str) {
    let fault = upstream(status, body);
    assert!(!fault.try_elsewhere(), "{status} {body}: {fault:?}");
}

/// The shapes of bodies in which a message comes.
fn bodies(message: &str) -> [String; 5] {
    [
        openai(message, "invalid_request_error", "unknown_parameter"),
        anthropic("invalid_request_error", message),
        serde_json::json!({"code": "Client specified an invalid argument", "error": message})
            .to_string(),
        // A sentence with the caller's words where others have a code.
        serde_json::json!({"code": message, "error": message}).to_string(),
        serde_json::json!({"object": "error", "message": message, "type": "BadRequestError", "code": 400})
            .to_string(),
    ]
}

/// Each of the words between each pair of what a provider may say before and after them.
fn no_echo_opens_a_breaker(frames: &[(&str, &str)]) {
    for words in WORDS.iter().copied().flat_map(variants) {
        for (before, after) in frames {
            let message = format!("{before}{words}{after}");
            // Where a sentence is the code as well it is no code.
            for body in bodies(&message) {
                for status in [400, 404, 413, 422] {
                    opens_no_breaker(status, &body);
                }
            }
        }
    }
}

#[test]
fn words_of_the_request_in_quotes_open_no_breaker() {
    let frames = [
        ("Unknown parameter: '", "'."),
        ("Unknown parameter: \"", "\"."),
        ("unknown field `", "`, expected one of `a`, `b`"),
        ("Invalid value: '", "'. Supported values are: 'a' and 'b'."),
        ("Unexpected role \"", "\". The role must be \"user\"."),
        ("File '", "' not found"),
        ("Item with id '", "' not found."),
        ("'", "' is not one of ['low', 'high'] - 'reasoning_effort'"),
    ];
    no_echo_opens_a_breaker(&frames);
}

#[test]
fn words_of_the_request_without_quotes_open_no_breaker() {
    let frames = [
        ("", ": Extra inputs are not permitted"),
        ("", ": Field required\nend"),
        ("Unrecognized request argument supplied: ", ""),
        ("#: extraneous key [", "] is not permitted"),
        ("messages.0.", ": Input should be a valid string"),
        ("Failed to deserialize the JSON body: ", " at line 1"),
        ("Invalid\n", "\nvalue"),
    ];
    no_echo_opens_a_breaker(&frames);
}

#[test]
fn another_fields_model_is_the_callers_choice() {
    for status in [400, 404] {
        let body = serde_json::json!({"error": {
            "message": "The requested model 'x' does not exist.", "type": "invalid_request_error",
            "param": "tools[0].model", "code": "model_not_found",
        }});
        opens_no_breaker(status, &body.to_string());
    }
}

#[test]
fn a_choice_of_providers_by_the_caller_is_the_callers_fault() {
    let metadata = serde_json::json!({"requested_providers": ["p"], "available_providers": ["q"]});
    let message = "No allowed providers are available for the selected model.";
    for (message, metadata) in [
        (message, serde_json::Value::Null),
        (message, metadata.clone()),
        ("No endpoints found for this model.", metadata),
    ] {
        let body =
            serde_json::json!({"error": {"message": message, "code": 404, "metadata": metadata}});
        opens_no_breaker(404, &body.to_string());
    }
}

#[test]
fn words_of_the_request_are_no_wait() {
    let message = "Internal error at 'try again in 20h'";
    let fault = upstream(500, &openai(message, "server_error", ""));
    assert_eq!((fault.class, fault.retry_after), (C::ServerError, None));
}

#[test]
fn documented_messages_under_400_are_known_as_a_whole() {
    let of = |message| upstream(400, &anthropic("invalid_request_error", message)).class;
    for message in [
        "Your credit balance is too low to access the API.",
        "Your credit balance is too low to access the Claude API. Please go to Plans & Billing to upgrade or purchase credits.",
    ] {
        assert_eq!(of(message), C::Quota, "{message}");
    }
    let of = |message| upstream(400, &openai(message, "invalid_request_error", "")).class;
    for message in [
        "Model Not Exist",
        "Unknown Model, please check the model code.",
        "vendor/x is not a valid model ID",
        "The model `x` does not exist.",
        "The model 'x' does not exist or you do not have access to it.",
    ] {
        assert_eq!(of(message), C::InvalidModel, "{message}");
    }
    let bare = |message| {
        let body =
            serde_json::json!({"code": "Client specified an invalid argument", "error": message});
        upstream(400, &body.to_string()).class
    };
    let with_advice =
        "Incorrect API key provided: xa***. You can obtain an API key from https://console.x.ai.";
    assert_eq!(bare(with_advice), C::Credential);
    assert_eq!(
        of("API key not valid. Please pass a valid API key."),
        C::Credential
    );
}
