//! What a conversation looks like, as far as `auto` looks: counts over its shape and over
//! a bounded sample of its text. Nothing of the text itself is kept.

/// What one bounded look at a conversation found. All counts saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConversationFacts {
    /// Messages or items of the conversation.
    pub messages: u32,
    /// Messages of the role `user`.
    pub user_messages: u32,
    /// Tools that are offered.
    pub tools: u32,
    /// Calls of tools and results of calls.
    pub tool_traffic: u32,
    /// Bytes of the conversation's text as it stands in the body, escapes included; neither
    /// instructions nor tools count.
    pub text_bytes: u64,
    /// Names the beginning of the conversation: instructions and first question. Equal for
    /// every request of a conversation; zero where there is no text.
    pub beginning: u64,
    /// The sample of the text.
    pub sample: TextSample,
}

/// What was counted in the first and the last of a conversation's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextSample {
    /// Bytes that were looked at.
    pub bytes: u32,
    /// Words.
    pub words: u32,
    /// Letters of any script.
    pub letters: u32,
    /// Letters that are not Latin.
    pub other_letters: u32,
    /// Marks that code is full of and prose is not: braces, semicolons, `=`, `<`, `_` …
    pub symbols: u32,
    /// Fences around code: lines of three back quotes.
    pub fences: u32,
    /// Words with an underscore or a capital letter inside.
    pub identifiers: u32,
    /// Words of programming languages.
    pub code_words: u32,
    /// TeX commands and mathematical signs.
    pub math_marks: u32,
    /// Words of mathematics.
    pub math_words: u32,
    /// Words that ask for work (`prove`, `design`, `debug`), in what the user says.
    pub hard_words: u32,
    /// Words that ask for little (`translate`, `hello`), in what the user says.
    pub easy_words: u32,
    /// Items of lists, in what the user says.
    pub list_items: u32,
}
