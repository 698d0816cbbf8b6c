//! The facts of a conversation for `auto`, beside those of every request. No text is kept.

use serde::{Deserialize, Serialize};

/// The result of a bounded look at a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConversationFacts {
    /// Messages or items of the conversation.
    pub messages: u32,
    /// Identifies the beginning of the conversation: instructions and first question. Equal for
    /// every request of a conversation; zero if the user has said nothing.
    pub beginning: u64,
    /// Whether the user's last message has a fenced block (three back quotes) in it.
    pub code: bool,
    /// The script of the user's last message.
    pub script: Script,
}

/// The script in which a text is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Script {
    /// More than two thirds of the letters are Latin, or there are none.
    #[default]
    Latin,
    /// A third of the letters or more are not Latin.
    NotLatin,
}
