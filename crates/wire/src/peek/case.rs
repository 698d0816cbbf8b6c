//! Keys that differ from a known one in case only. Servers in Go take such a key for the known one,
//! and the last of several (`encoding/json`); all others take it for an unknown one.

/// The known keys with capitals, of all tables.
const CAPITALS: [&str; 18] = [
    "cachedContent",
    "candidateCount",
    "fileData",
    "fileUri",
    "functionDeclarations",
    "generateContentRequest",
    "generationConfig",
    "inlineData",
    "maxOutputTokens",
    "maxTokens",
    "mimeType",
    "providerOptions",
    "responseMimeType",
    "serviceTier",
    "systemInstruction",
    "thinkingBudget",
    "thinkingConfig",
    "thinkingLevel",
];

/// The key in the case in which tables have it; `None` if it is in that case.
pub(super) fn known_case(key: &[u8]) -> Option<String> {
    let is_lower = |byte: &u8| byte.is_ascii() && !byte.is_ascii_uppercase();
    if key.iter().all(is_lower) || CAPITALS.iter().any(|it| it.as_bytes() == key) {
        return None;
    }
    let lower = |it| match it {
        // The two letters beyond ASCII that Go folds to one of ASCII.
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        it => it.to_ascii_lowercase(),
    };
    let folded: String = std::str::from_utf8(key).ok()?.chars().map(lower).collect();
    let known = CAPITALS.iter().find(|it| it.eq_ignore_ascii_case(&folded));
    Some(known.map_or(folded, |it| (*it).to_owned()))
}
