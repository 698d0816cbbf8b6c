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

/// The gateway's key is wrong: xAI, whose error is a string, and Google.
pub(super) fn is_wrong_key(fields: &ErrorFields) -> bool {
    let of_xai = || {
        let rest = fields
            .message
            .strip_prefix("incorrect api key provided: ")?;
        let (key, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let is_advice = rest == "you can obtain an api key from https://console.x.ai.";
        Some(key.ends_with('.') && (rest.is_empty() || is_advice))
    };
    let of_google = ["api key not valid. please pass a valid api key."];
    (fields.is_bare && of_xai().unwrap_or(false)) || of_google.contains(&&*fields.message)
}

/// The model is unknown: Bedrock, DeepSeek, Z.ai, OpenRouter, and those that follow OpenAI.
pub(super) fn is_unknown_model(fields: &ErrorFields) -> bool {
    const WHOLE: &[&str] = &[
        "the provided model identifier is invalid.",
        "model not exist",
        "unknown model, please check the model code.",
    ];
    let message = &*fields.message;
    let named = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
    let of_openrouter = || {
        let name = message.trim_end_matches('.');
        name.strip_suffix(" is not a valid model id")
            .is_some_and(named)
    };
    let of_openai = || {
        let rest = ["the requested model ", "the model "];
        let rest = rest.iter().find_map(|it| message.strip_prefix(it))?;
        let rest = rest
            .strip_suffix(" or you do not have access to it.")
            .unwrap_or_else(|| rest.trim_end_matches('.'));
        rest.strip_suffix(" does not exist").map(named)
    };
    WHOLE.contains(&message) || of_openrouter() || of_openai().unwrap_or(false)
}

/// A 404 is about the model where the provider's own words say so.
pub(super) fn is_about_the_model(fields: &ErrorFields) -> bool {
    own_words(&fields.text)
        .split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-')
        .any(|word| word == "model" || word == "models")
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
