//! Messages of trouble with the gateway's own account, key or model, under a status that
//! otherwise means the request.
//!
//! Providers repeat the caller's words in what they refuse: in quotes, behind a colon, or as
//! the first words of the message. So nothing that stands somewhere in such a message is
//! evidence. What counts is the documented form as a whole, from its first word to its last:
//! around words that were repeated stand others of the provider's. All text is lower case.

use super::body::ErrorFields;

/// The account is empty: Anthropic, 400 `invalid_request_error`.
pub(super) fn is_empty_account(fields: &ErrorFields) -> bool {
    const MOST_OF_A_NAME: usize = 24;
    let Some(rest) = fields
        .message
        .strip_prefix("your credit balance is too low to access the ")
    else {
        return false;
    };
    let advice = " please go to plans & billing to upgrade or purchase credits.";
    let name = rest.strip_suffix(advice).unwrap_or(rest);
    // "the Anthropic API.", or "the API." of some.
    let name = name.strip_suffix("api.").map(str::trim_end);
    name.is_some_and(|name| name.len() <= MOST_OF_A_NAME && !name.contains(':'))
}

/// The gateway's key is wrong, or is not served where the gateway runs: xAI, whose error is a
/// string, and Google.
pub(super) fn is_wrong_key(fields: &ErrorFields) -> bool {
    let of_xai = || {
        let rest = fields
            .message
            .strip_prefix("incorrect api key provided: ")?;
        let (key, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let is_advice = rest == "you can obtain an api key from https://console.x.ai.";
        Some(key.ends_with('.') && (rest.is_empty() || is_advice))
    };
    let of_google = [
        "api key not valid. please pass a valid api key.",
        "api key not found. please pass a valid api key.",
        "api key expired. please renew the api key.",
        "your api key was reported as leaked. please use another api key.",
        "user location is not supported for the api use.",
        "gemini api free tier is not available in your country. please enable billing on your \
         project in google ai studio.",
    ];
    (fields.is_bare && of_xai().unwrap_or(false)) || of_google.contains(&&*fields.message)
}

/// Messages under 403 about a request that every key is refused, or that this model refuses; without
/// the full stop at the end.
const FORBIDDEN_REQUEST: &[&str] = &[
    // OpenAI.
    "you are not allowed to request logprobs from this model",
    // Google.
    "you do not have permission to access the file * or it may not exist",
];

/// Messages of llama.cpp under 500 about a request that its model cannot read.
const UNREADABLE_REQUEST: &[&str] =
    &["* input is not supported - hint: if this is unexpected, you may need to provide the mmproj"];

/// The provider refuses the request with any key, under a status that otherwise means something else.
pub(super) fn is_about_the_request(fields: &ErrorFields, status: Option<u16>) -> bool {
    let forms = match status {
        Some(403) => FORBIDDEN_REQUEST,
        Some(500) => UNREADABLE_REQUEST,
        _ => return false,
    };
    let message = fields.message.trim_end_matches('.');
    forms.iter().any(|form| fits(message, form))
}

/// What providers write of a model that they do not know or do not serve; a star is one word,
/// such as a name with its quotes. Without the full stop at the end.
const UNKNOWN_MODEL: &[&str] = &[
    // OpenAI, Groq, vLLM.
    "the model * does not exist",
    "the requested model * does not exist",
    "the model * does not exist or you do not have access to it",
    "the requested model * does not exist or you do not have access to it",
    // Cerebras.
    "model * does not exist or you do not have access to it",
    // xAI.
    "the model * does not exist or your team does not have access to it",
    "the model * does not exist or your team * does not have access to it",
    "the model * does not exist or your team * does not have access to it. if you believe this \
     is a mistake, please contact support and quote your team id and the model name",
    "model not found: *",
    // Bedrock.
    "the provided model identifier is invalid",
    "invocation of model id * with on-demand throughput isn't supported. retry your request with the \
     id or arn of an inference profile that contains this model",
    "this model version has reached the end of its life. please refer to the aws documentation \
     for more details",
    "model use case details have not been submitted for this account. fill out the anthropic use \
     case details form before using the model. if you have already filled out the form, try again \
     in 15 minutes",
    // Google.
    "models/* is not found for api version *",
    "models/* is not found for api version * or is not supported for *",
    "models/* is not found for api version * or is not supported for * call * to see the list of \
     available models and their supported methods",
    "publisher model * was not found or your project does not have access to it",
    "publisher model * was not found or your project does not have access to it. please ensure \
     you are using a valid model version. for more information, see: *",
    "publisher model * was not found or your project does not have access to it. ensure you are \
     using a valid model name and that the model is available in the specified region. for more \
     information, see: *",
    // DeepSeek, Z.ai, SiliconFlow, MiniMax, DashScope, Fireworks, Together.
    "model not exist",
    "unknown model, please check the model code",
    "model does not exist. please check it carefully",
    "invalid params, unknown model *",
    "invalid params, unknown model * (2013)",
    "model not found",
    "model not found, inaccessible, and/or not deployed",
    "unable to access model * please visit https://api.together.ai/models to view the list of \
     supported models",
    "unable to access non-serverless model * please visit * to create and start a new dedicated \
     endpoint for the model",
    // Cohere.
    "model * not found, make sure the correct model id was used and that you have access to the \
     model",
    // OpenRouter.
    "* is not a valid model id",
    "no endpoints found for this model",
    // Ollama.
    "model '* not found",
    "model \"* not found",
    "model '* not found, try pulling it first",
    "model \"* not found, try pulling it first",
];

/// The model is unknown.
pub(super) fn is_unknown_model(fields: &ErrorFields) -> bool {
    // Anthropic says no more than the name, so that its type must say the rest.
    let of_anthropic =
        || fields.names.iter().any(|it| it == "notfounderror") && fits(&fields.message, "model: *");
    let message = fields.message.trim_end_matches('.');
    UNKNOWN_MODEL.iter().any(|form| fits(message, form)) || of_anthropic()
}

/// Whether the text is the form from its first word to its last.
fn fits(text: &str, form: &str) -> bool {
    let Some((before, after)) = form.split_once('*') else {
        return text == form;
    };
    let Some(rest) = text.strip_prefix(before) else {
        return false;
    };
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    rest.split_at_checked(end)
        .is_some_and(|(word, rest)| !word.is_empty() && fits(rest, after))
}

/// What stands before the first quote or bracket: words of the provider's own. Behind it
/// nothing is sure, for what is repeated may hold quotes itself.
pub(super) fn own_words(text: &str) -> &str {
    let mut before = ' ';
    let end = text.char_indices().find(|(_, c)| {
        let opens = matches!(
            c,
            '\'' | '"' | '`' | '\u{2018}' | '\u{201c}' | '(' | '[' | '{'
        );
        // An apostrophe stands in a word.
        let ends_here = opens && !(*c == '\'' && before.is_alphanumeric());
        before = *c;
        ends_here
    });
    end.and_then(|(at, _)| text.get(..at)).unwrap_or(text)
}
