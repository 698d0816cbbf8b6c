//! The places where answers keep what the gateway reads. Members of a wrapper (`message`,
//! `response`, `x_groq`) have the places of the document's own.

use super::path::{
    Key::{self, *},
    Path,
};

const fn at<const N: usize>(keys: [Key; N]) -> u64 {
    Path::of(keys)
}

pub(crate) const ROOT: u64 = at([None]);

// Identity.
pub(crate) const TYPE: u64 = at([Type]);
pub(crate) const OBJECT: u64 = at([Object]);
pub(crate) const ID: u64 = at([Id]);
pub(crate) const MODEL: u64 = at([Model]);
pub(crate) const CREATED_AT: u64 = at([CreatedAt]);
pub(crate) const SEQUENCE_NUMBER: u64 = at([SequenceNumber]);

// Stored items and conversations: reported in events, and again in the whole answer.
pub(crate) const ITEM_ID: u64 = at([OutputItem, Id]);
pub(crate) const OUTPUT_ID: u64 = at([Output, Item, Id]);
pub(crate) const CONVERSATION_ID: u64 = at([Conversation, Id]);

// Containers of the provider's tools: they outlive the answer, stored or not.
pub(crate) const ITEM_CONTAINER: u64 = at([OutputItem, ContainerId]);
pub(crate) const OUTPUT_CONTAINER: u64 = at([Output, Item, ContainerId]);
pub(crate) const CONTAINER: u64 = at([Container, Id]);
pub(crate) const DELTA_CONTAINER: u64 = at([Delta, Container, Id]);

// Failure.
pub(crate) const ERROR: u64 = at([Error]);
/// Why a provider does not answer such a request.
pub(crate) const BLOCK_REASON: u64 = at([PromptFeedback, BlockReason]);
pub(crate) const CHOICE_ERROR: u64 = at([Choices, Item, Error]);

// How the answer ended.
pub(crate) const STATUS: u64 = at([Status]);
pub(crate) const INCOMPLETE_REASON: u64 = at([IncompleteDetails, Reason]);
pub(crate) const STOP_REASON: u64 = at([StopReason]);
pub(crate) const DELTA_STOP_REASON: u64 = at([Delta, StopReason]);
pub(crate) const FINISH_REASON: u64 = at([Choices, Item, FinishReason]);

// The list that an answer consists of.
pub(crate) const CHOICES: u64 = at([Choices]);
pub(crate) const CHOICE: u64 = at([Choices, Item]);
pub(crate) const CHOICE_INDEX: u64 = at([Choices, Item, Index]);
pub(crate) const OUTPUT: u64 = at([Output]);
pub(crate) const CONTENT: u64 = at([Content]);
pub(crate) const OUTPUT_CONTENT: u64 = at([Output, Message, Content]);

// A choice in a stream.
pub(crate) const DELTA: u64 = at([Choices, Item, Delta]);
pub(crate) const MESSAGE: u64 = at([Choices, Item, Message]);
pub(crate) const DELTA_ROLE: u64 = at([Choices, Item, Delta, Role]);

// Usage, with its details.
pub(crate) const USAGE: u64 = at([Usage]);
pub(crate) const USAGE_INPUT: u64 = at([Usage, Input]);
pub(crate) const USAGE_OUTPUT: u64 = at([Usage, Output]);
pub(crate) const USAGE_TOTAL: u64 = at([Usage, Total]);
pub(crate) const USAGE_CACHE_READ: u64 = at([Usage, CacheRead]);
pub(crate) const USAGE_CACHE_WRITE: u64 = at([Usage, CacheWrite]);
pub(crate) const DETAILS_CACHE_READ: u64 = at([Usage, PromptDetails, CacheRead]);
pub(crate) const DETAILS_CACHE_WRITE: u64 = at([Usage, PromptDetails, CacheWrite]);
pub(crate) const USAGE_TOOL_INPUT: u64 = at([Usage, ToolInput]);
pub(crate) const USAGE_REASONING: u64 = at([Usage, UsageReasoning]);
pub(crate) const DETAILS_REASONING: u64 = at([Usage, CompletionDetails, UsageReasoning]);

// What is used beside it: by the image tool of responses, and in iterations of messages.
pub(crate) const IMAGES_INPUT: u64 = at([ToolUsage, ImageGen, Input]);
pub(crate) const IMAGES_CACHE_READ: u64 = at([ToolUsage, ImageGen, CacheRead]);
pub(crate) const IMAGES_OUTPUT: u64 = at([ToolUsage, ImageGen, Output]);
pub(crate) const ITERATIONS: u64 = at([Usage, Iterations]);
pub(crate) const ITERATION: u64 = at([Usage, Iterations, Item]);
pub(crate) const ITERATION_TYPE: u64 = at([Usage, Iterations, Item, Type]);
pub(crate) const ITERATION_INPUT: u64 = at([Usage, Iterations, Item, Input]);
pub(crate) const ITERATION_OUTPUT: u64 = at([Usage, Iterations, Item, Output]);
pub(crate) const ITERATION_CACHE_READ: u64 = at([Usage, Iterations, Item, CacheRead]);
pub(crate) const ITERATION_CACHE_WRITE: u64 = at([Usage, Iterations, Item, CacheWrite]);
pub(crate) const ITERATION_CACHE_HOUR: u64 = at([Usage, Iterations, Item, Other, CacheWriteHour]);

// Parts of it that can have prices of their own, and what is charged besides.
pub(crate) const SERVICE_TIER: u64 = at([ServiceTier]);
pub(crate) const SERVICE_TIER_TYPE: u64 = at([ServiceTier, Type]);
pub(crate) const USAGE_TIER: u64 = at([Usage, ServiceTier]);
pub(crate) const USAGE_SPEED: u64 = at([Usage, Speed]);
pub(crate) const USAGE_CACHE_HOUR: u64 = at([Usage, Other, CacheWriteHour]);
pub(crate) const USAGE_SEARCHES: u64 = at([Usage, Other, SearchCalls]);
pub(crate) const USAGE_RERANKS: u64 = at([Usage, Other, SearchUnits]);
/// What Gemini has searched for, and each query.
pub(crate) const SEARCHES: u64 = at([Choices, Item, Grounding, SearchCalls]);
pub(crate) const SEARCH: u64 = at([Choices, Item, Grounding, SearchCalls, Item]);
pub(crate) const INPUT_AUDIO: u64 = at([Usage, PromptDetails, Audio]);
pub(crate) const OUTPUT_AUDIO: u64 = at([Usage, CompletionDetails, Audio]);
/// Lists by modality, and their entries.
pub(crate) const INPUT_PARTS: u64 = at([Usage, PromptDetails]);
pub(crate) const OUTPUT_PARTS: u64 = at([Usage, CompletionDetails]);
pub(crate) const INPUT_PART: u64 = at([Usage, PromptDetails, Item]);
pub(crate) const INPUT_PART_KIND: u64 = at([Usage, PromptDetails, Item, PartKind]);
pub(crate) const INPUT_PART_TOKENS: u64 = at([Usage, PromptDetails, Item, Tokens]);
/// Of what Converse has written to a cache for this time to live.
pub(crate) const CACHE_PART_TOKENS: u64 = at([Usage, PromptDetails, Item, Input]);
pub(crate) const CACHED_PARTS: u64 = at([Usage, CacheDetails]);
pub(crate) const CACHED_PART: u64 = at([Usage, CacheDetails, Item]);
pub(crate) const CACHED_PART_KIND: u64 = at([Usage, CacheDetails, Item, PartKind]);
pub(crate) const CACHED_PART_TOKENS: u64 = at([Usage, CacheDetails, Item, Tokens]);
pub(crate) const OUTPUT_PART: u64 = at([Usage, CompletionDetails, Item]);
pub(crate) const OUTPUT_PART_KIND: u64 = at([Usage, CompletionDetails, Item, PartKind]);
pub(crate) const OUTPUT_PART_TOKENS: u64 = at([Usage, CompletionDetails, Item, Tokens]);
/// The items of a response: calls of tools are among them.
pub(crate) const OUTPUT_ENTRY: u64 = at([Output, Item]);
pub(crate) const OUTPUT_TYPE: u64 = at([Output, Item, Type]);
pub(crate) const OUTPUT_ACTION: u64 = at([Output, Item, Other, Type]);
/// An item in an event of a response, and a block of messages, alone or in its answer.
pub(crate) const ITEM: u64 = at([OutputItem]);
pub(crate) const ITEM_TYPE: u64 = at([OutputItem, Type]);
pub(crate) const ITEM_STATUS: u64 = at([OutputItem, Status]);
pub(crate) const ITEM_ACTION: u64 = at([OutputItem, Other, Type]);
pub(crate) const BLOCK: u64 = at([ContentBlock]);
pub(crate) const BLOCK_TYPE: u64 = at([ContentBlock, Type]);
/// The name of a tool is among them.
pub(crate) const BLOCK_OTHER: u64 = at([ContentBlock, Other]);
pub(crate) const CONTENT_ENTRY: u64 = at([Content, Item]);
pub(crate) const CONTENT_TYPE: u64 = at([Content, Item, Type]);
pub(crate) const CONTENT_OTHER: u64 = at([Content, Item, Other]);
