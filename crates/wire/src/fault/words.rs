//! What a provider says of a request that it refuses: the field that it names, and its message
//! as it may stand in the operator's log.
//!
//! Providers repeat what they were sent. So what reads like a credential, an address or a long
//! quotation is left out, and then the message is cut.

use crate::field_path::is_path;
use std::borrow::Cow;
use tollgate_types::is_hidden;

/// Characters of a message that are kept.
const MOST_CHARS: usize = 300;
/// The longest quotation that is kept, in bytes: names and values of settings are shorter.
const MOST_QUOTED: usize = 48;
/// Stands for what was left out.
const LEFT_OUT: &str = "[…]";

/// What a provider says of a request that it refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderWords {
    /// The field that it names. Its author is not trusted: only what of it the caller's request
    /// has may be shown to the caller.
    pub field: Option<Box<str>>,
    /// Its message without what must not be logged; for the operator's log alone. [`shortened`] cuts it
    /// after the secrets that the gateway knows are removed: the gateway cannot recognise a part of a secret.
    pub message: Box<str>,
}

impl ProviderWords {
    /// Of its message, and of what it gives as the parameter at fault.
    pub(super) fn new(message: &str, param: Option<&str>) -> Self {
        // "messages.0.role: Input should be …"
        let before_colon = message.split_once(": ").map(|(before, _)| before);
        let named = [param, before_colon].into_iter().flatten();
        Self {
            field: named.map(str::trim).find(|it| is_path(it)).map(Into::into),
            message: without_secrets(message).into(),
        }
    }
}

/// A message for the log, without hidden characters, long quotations, credentials and addresses.
pub fn redacted(message: &str) -> String {
    shortened(&without_secrets(message)).into_owned()
}

/// A message as long as a line of the log may be.
pub fn shortened(message: &str) -> Cow<'_, str> {
    let end = message.char_indices().nth(MOST_CHARS);
    match end.and_then(|(end, _)| message.get(..end)) {
        Some(beginning) => format!("{beginning}…").into(),
        None => message.into(),
    }
}

fn without_secrets(message: &str) -> String {
    let plain = |c: char| if is_hidden(c) { ' ' } else { c };
    let mut kept: String = message.chars().map(plain).collect();
    for quote in ['"', '\'', '`'] {
        kept = without_long_quotations(&kept, quote);
    }
    let words: Vec<&str> = kept.split_whitespace().map(without_secret).collect();
    words.join(" ")
}

/// Leaves out what stands between two of these quotes and is long, or has no end.
fn without_long_quotations(text: &str, quote: char) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(quote) {
        out.push_str(before);
        out.push(quote);
        // An apostrophe stands in a word.
        if quote == '\'' && before.ends_with(char::is_alphanumeric) {
            rest = after;
            continue;
        }
        let (quoted, behind) = after.split_once(quote).unwrap_or((after, ""));
        let is_long = quoted.len() > MOST_QUOTED;
        out.push_str(if is_long { LEFT_OUT } else { quoted });
        out.push(quote);
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// A word, or what stands for it if a part of it reads like a credential or an address.
fn without_secret(word: &str) -> &str {
    let is_boundary = |c: char| !(c.is_ascii_alphanumeric() || "-_.@+/".contains(c));
    match word.split(is_boundary).any(is_secret) {
        true => LEFT_OUT,
        false => word,
    }
}

fn is_secret(part: &str) -> bool {
    const PREFIXES: [&str; 7] = ["sk-", "xai-", "gsk_", "AIza", "AKIA", "pk-", "eyJ"];
    /// Names of models and ids of errors are shorter, or have no capitals.
    const LONG: usize = 24;
    let bare = part.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let has = |test: fn(&u8) -> bool| bare.as_bytes().iter().any(test);
    let is_random = bare.len() >= LONG
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase);
    let is_hex = bare.len() >= 32 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_mail = bare.contains('@');
    let has_prefix = PREFIXES.iter().any(|prefix| bare.starts_with(prefix));
    has_prefix || is_random || is_hex || is_mail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_the_parameter_or_stands_before_the_first_colon() {
        let field = |message, param| ProviderWords::new(message, param).field;
        assert_eq!(
            field("no", Some("messages[0].role")).as_deref(),
            Some("messages[0].role")
        );
        let of_messages = "messages.0.content: Field required";
        assert_eq!(
            field(of_messages, None).as_deref(),
            Some("messages.0.content")
        );
        assert_eq!(field("Your request is bad: sorry", None), None);
        assert_eq!(field("no", Some("no path")), None);
    }

    #[test]
    fn secrets_are_left_out_of_logs() {
        let long = "a secret recipe for soup that is longer than any setting";
        for (message, kept) in [
            (
                "Unsupported value: 'temperature' does not support 0.5",
                "Unsupported value: 'temperature' does not support 0.5",
            ),
            (
                "Incorrect API key provided: sk-abcdef.",
                "Incorrect API key provided: […]",
            ),
            ("Ask ops@example.com\r\nnow", "Ask […] now"),
            ("the model \u{202e}evil\u{2066}", "the model evil"),
            (
                "api_key=sk-abc123def456 {\"key\":\"xai-1\"} user=ops@localhost",
                "[…] […] […]",
            ),
            (
                "key Zm9vYmFyMTIzNDU2Nzg5MEFCQw== refused",
                "key […] refused",
            ),
            (
                "the model claude-3-5-sonnet-20241022 doesn't do that",
                "the model claude-3-5-sonnet-20241022 doesn't do that",
            ),
            (
                &format!("invalid value: '{long}' in \"{long}\""),
                "invalid value: '[…]' in \"[…]\"",
            ),
            (&format!("you said `{long}"), "you said `[…]`"),
        ] {
            assert_eq!(redacted(message), kept);
        }
        let endless = redacted(&"word ".repeat(1000));
        assert!(endless.chars().count() <= MOST_CHARS + 1, "{endless}");
        assert!(endless.ends_with('…'));
        let before = "word ".repeat(58);
        let straddling = format!("{before} AIzaSyA-1234567890abcdefghijklmnopqrs");
        assert_eq!(redacted(&straddling), format!("{before}[…]"));
    }
}
