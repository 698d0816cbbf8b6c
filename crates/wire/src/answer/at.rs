//! The places where the three formats keep what the gateway reads. Members of the wrappers
//! (`message`, `response`, `x_groq`) stand here as the document's own.

use super::path::{
    Key::{self, *},
    Path,
};

const fn at<const N: usize>(keys: [Key; N]) -> u64 {
    Path::of(keys)
}

pub(super) const ROOT: u64 = at([None]);

// Identity.
pub(super) const TYPE: u64 = at([Type]);
pub(super) const OBJECT: u64 = at([Object]);
pub(super) const ID: u64 = at([Id]);
pub(super) const MODEL: u64 = at([Model]);
pub(super) const CREATED_AT: u64 = at([CreatedAt]);
pub(super) const SEQUENCE_NUMBER: u64 = at([SequenceNumber]);

// What is stored with a response: told in events, and again in the whole.
pub(super) const ITEM_ID: u64 = at([OutputItem, Id]);
pub(super) const OUTPUT_ID: u64 = at([Output, Item, Id]);
pub(super) const CONVERSATION_ID: u64 = at([Conversation, Id]);

// In what a provider's tool ran, which is there after the answer, stored or not.
pub(super) const ITEM_CONTAINER: u64 = at([OutputItem, ContainerId]);
pub(super) const OUTPUT_CONTAINER: u64 = at([Output, Item, ContainerId]);
pub(super) const CONTAINER: u64 = at([Container, Id]);
pub(super) const DELTA_CONTAINER: u64 = at([Delta, Container, Id]);

// Failure.
pub(super) const ERROR: u64 = at([Error]);
pub(super) const CHOICE_ERROR: u64 = at([Choices, Item, Error]);

// How it ended.
pub(super) const STATUS: u64 = at([Status]);
pub(super) const INCOMPLETE_REASON: u64 = at([IncompleteDetails, Reason]);
pub(super) const STOP_REASON: u64 = at([StopReason]);
pub(super) const DELTA_STOP_REASON: u64 = at([Delta, StopReason]);
pub(super) const FINISH_REASON: u64 = at([Choices, Item, FinishReason]);

// The lists that an answer consists of.
pub(super) const CHOICES: u64 = at([Choices]);
pub(super) const CHOICE: u64 = at([Choices, Item]);
pub(super) const CHOICE_INDEX: u64 = at([Choices, Item, Index]);
pub(super) const OUTPUT: u64 = at([Output]);
pub(super) const CONTENT: u64 = at([Content]);

// A piece of a chat stream.
pub(super) const DELTA: u64 = at([Choices, Item, Delta]);
pub(super) const MESSAGE: u64 = at([Choices, Item, Message]);
pub(super) const DELTA_ROLE: u64 = at([Choices, Item, Delta, Role]);

// Usage. Details stand under the name of what they detail.
pub(super) const USAGE: u64 = at([Usage]);
pub(super) const USAGE_INPUT: u64 = at([Usage, Input]);
pub(super) const USAGE_OUTPUT: u64 = at([Usage, Output]);
pub(super) const USAGE_TOTAL: u64 = at([Usage, Total]);
pub(super) const USAGE_CACHE_READ: u64 = at([Usage, CacheRead]);
pub(super) const USAGE_CACHE_WRITE: u64 = at([Usage, CacheWrite]);
pub(super) const DETAILS_CACHE_READ: u64 = at([Usage, PromptDetails, CacheRead]);
pub(super) const DETAILS_CACHE_WRITE: u64 = at([Usage, PromptDetails, CacheWrite]);
pub(super) const DETAILS_REASONING: u64 = at([Usage, CompletionDetails, UsageReasoning]);
