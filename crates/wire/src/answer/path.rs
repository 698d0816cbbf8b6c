//! Where in an answer the reader is: the keys around it, packed into one integer, so that one
//! comparison recognises a place.

/// The meaning of a key, or the element of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Key {
    /// No key has been read yet in this object.
    None = 0,
    /// Any key without a meaning.
    Other,
    /// An element of an array.
    Item,
    Arguments,
    Audio,
    BlockReason,
    CacheDetails,
    CacheRead,
    CacheWrite,
    CacheWriteHour,
    Choices,
    CompletionDetails,
    Container,
    ContentBlock,
    ContainerId,
    Content,
    Conversation,
    CreatedAt,
    Delta,
    Error,
    FinishReason,
    /// Metadata of which some is read.
    Grounding,
    Id,
    ImageGen,
    IncompleteDetails,
    Index,
    Input,
    Iterations,
    Message,
    /// Metadata and opaque values: nothing in it is text of the answer.
    Metadata,
    PartKind,
    Model,
    Object,
    Output,
    OutputItem,
    PromptDetails,
    PromptFeedback,
    Reason,
    Reasoning,
    ReasoningContent,
    ReasoningDetails,
    Response,
    Role,
    SearchCalls,
    SearchUnits,
    SequenceNumber,
    ServiceTier,
    Speed,
    Status,
    StopReason,
    Tokens,
    ToolInput,
    ToolUsage,
    Total,
    Type,
    Usage,
    UsageReasoning,
    XGroq,
}

impl Key {
    /// The longest key with a meaning, in bytes, in any format.
    pub(crate) const MAX_LEN: usize = 27;

    /// The meaning of a key in the formats of OpenAI and Anthropic. They share one table, because
    /// servers of one format use keys of another. Only `input` and `output` have two meanings, and
    /// these stand in different places.
    pub(crate) fn of(name: &[u8]) -> Self {
        match name {
            b"arguments" | b"input" => Self::Arguments,
            b"audio_tokens" => Self::Audio,
            b"cached_tokens"
            | b"num_cached_tokens"
            | b"cache_read_input_tokens"
            | b"prompt_cache_hit_tokens" => Self::CacheRead,
            b"cache_write_tokens" | b"cache_creation_input_tokens" => Self::CacheWrite,
            b"ephemeral_1h_input_tokens" => Self::CacheWriteHour,
            b"choices" => Self::Choices,
            b"completion_tokens_details" | b"output_tokens_details" => Self::CompletionDetails,
            b"container" => Self::Container,
            b"container_id" => Self::ContainerId,
            b"content" => Self::Content,
            b"content_block" => Self::ContentBlock,
            b"conversation" => Self::Conversation,
            b"created" | b"created_at" => Self::CreatedAt,
            b"delta" => Self::Delta,
            b"error" => Self::Error,
            b"finish_reason" => Self::FinishReason,
            b"id" => Self::Id,
            b"item" => Self::OutputItem,
            b"image_gen" => Self::ImageGen,
            b"incomplete_details" => Self::IncompleteDetails,
            b"index" => Self::Index,
            b"prompt_tokens" | b"input_tokens" => Self::Input,
            b"iterations" => Self::Iterations,
            b"message" => Self::Message,
            b"model" => Self::Model,
            b"object" => Self::Object,
            b"output" | b"completion_tokens" | b"output_tokens" => Self::Output,
            b"prompt_tokens_details" | b"input_tokens_details" => Self::PromptDetails,
            b"reason" => Self::Reason,
            b"reasoning" => Self::Reasoning,
            b"reasoning_content" => Self::ReasoningContent,
            b"reasoning_details" | b"thinking_blocks" => Self::ReasoningDetails,
            b"response" => Self::Response,
            b"role" => Self::Role,
            b"sequence_number" => Self::SequenceNumber,
            b"service_tier" => Self::ServiceTier,
            b"speed" => Self::Speed,
            b"status" => Self::Status,
            b"stop_reason" => Self::StopReason,
            b"tool_usage" => Self::ToolUsage,
            b"total_tokens" => Self::Total,
            b"type" => Self::Type,
            b"usage" => Self::Usage,
            b"web_search_requests" => Self::SearchCalls,
            b"x_groq" => Self::XGroq,
            b"reasoning_tokens" | b"thinking_tokens" => Self::UsageReasoning,
            // Names and reasons.
            b"call_id"
            | b"caller"
            | b"channel"
            | b"event_id"
            | b"expires_at"
            | b"format"
            | b"item_id"
            | b"matched_stop"
            | b"namespace"
            | b"native_finish_reason"
            | b"phase"
            | b"stop_details"
            | b"stop_sequence"
            | b"system_fingerprint"
            | b"tool_use_id" => Self::Metadata,
            // Descriptions of the text.
            b"annotation"
            | b"annotations"
            | b"citation"
            | b"citations"
            | b"content_filter_offsets"
            | b"content_filter_raw"
            | b"content_filter_results"
            | b"logprobs"
            | b"obfuscation" => Self::Metadata,
            // Sound, images, signatures and encrypted values.
            b"b64_json" | b"data" | b"encrypted_content" | b"partial_image_b64" | b"result"
            | b"signature" | b"thought_signature" | b"extra_content" | b"image_url" | b"images" => {
                Self::Metadata
            }
            // Calls of the provider's own tools and their results.
            b"executed_tools" | b"search_results" => Self::Metadata,
            _ => Self::Other,
        }
    }
}

/// A set of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeySet(u64);

impl KeySet {
    pub(crate) const NONE: Self = Self(0);
    /// Every key, and no key at all.
    pub(crate) const ALL: Self = Self(u64::MAX);
    /// Every key.
    pub(crate) const ANY: Self = Self(!(1 << Key::None as u64));

    pub(crate) const fn of(keys: &[Key]) -> Self {
        let (mut set, mut rest) = (0, keys);
        while let [key, after @ ..] = rest {
            set |= 1 << *key as u64;
            rest = after;
        }
        Self(set)
    }

    /// Whether the set has the key of this number.
    pub(super) const fn contains(self, key: u8) -> bool {
        self.0 & (1 << (key & 63)) != 0
    }
}

// A key is a bit of a set.
const _: () = assert!((Key::XGroq as u8) < 64, "a set holds 64 keys");

/// The keys from the top of the document to here, the innermost in the lowest byte.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Path {
    packed: u64,
    /// Containers below one whose keys have no meaning, or too deep to have one.
    beyond: u32,
    /// These containers are metadata.
    is_metadata: bool,
    /// The key of the wrapper around here, which the packed path leaves out.
    wrapper: Option<Key>,
}

impl Path {
    /// The path of these keys, to compare with.
    pub(crate) const fn of<const N: usize>(keys: [Key; N]) -> u64 {
        let mut packed = 0;
        let mut rest: &[Key] = &keys;
        while let [key, after @ ..] = rest {
            packed = (packed << 8) | *key as u64;
            rest = after;
        }
        packed
    }

    /// The place; `None` if no place here has a meaning.
    pub(super) const fn here(self) -> Option<u64> {
        if self.beyond == 0 {
            Some(self.packed)
        } else {
            None
        }
    }

    /// The innermost key.
    pub(super) const fn key(self) -> u8 {
        self.packed.to_le_bytes()[0]
    }

    /// Whether keys here can mean anything.
    pub(super) const fn is_live(self) -> bool {
        self.beyond == 0
    }

    /// The key at this level, the outermost being the first.
    pub(super) const fn level(self, level: u32) -> u8 {
        match self.depth().checked_sub(level) {
            Some(from_last) => (self.packed >> (from_last * 8)).to_le_bytes()[0],
            None => 0,
        }
    }

    /// The two outermost keys.
    pub(super) const fn outermost(self) -> (u8, u8) {
        let depth = self.depth();
        let outer = (self.packed >> (depth * 8)).to_le_bytes()[0];
        let inner = match depth.checked_sub(1) {
            Some(from_last) => (self.packed >> (from_last * 8)).to_le_bytes()[0],
            None => 0,
        };
        (outer, inner)
    }

    /// The number of keys around the innermost one.
    const fn depth(self) -> u32 {
        match self.packed {
            0 => 0,
            packed => packed.ilog2() / 8,
        }
    }

    /// Whether the value here names or describes something and is no text of the answer. Keys
    /// in the arguments of a tool call have no meaning.
    pub(super) const fn is_metadata(self) -> bool {
        const METADATA: KeySet = KeySet::of(&[
            Key::Metadata,
            Key::Id,
            Key::Type,
            Key::Role,
            Key::ServiceTier,
            Key::Speed,
            Key::Model,
            Key::Object,
            Key::Status,
            Key::FinishReason,
            Key::StopReason,
            Key::ContainerId,
        ]);
        if self.beyond > 0 {
            self.is_metadata
        } else {
            METADATA.contains(self.key()) || self.is_in_grounding()
        }
    }

    const fn is_in_grounding(self) -> bool {
        self.level(2) == Key::Grounding as u8
    }

    /// Whether a wrapper is around here.
    pub(super) const fn is_wrapped(self) -> bool {
        self.wrapper.is_some()
    }

    pub(super) const fn begin(&mut self, first: Key) {
        let is_full = self.packed >> 56 != 0;
        let key = self.key();
        let is_unread = key == Key::Metadata as u8 || key == Key::Arguments as u8;
        if self.beyond > 0 || is_full || is_unread {
            if self.beyond == 0 {
                self.is_metadata = key == Key::Metadata as u8 || self.is_in_grounding();
            }
            self.beyond = self.beyond.saturating_add(1);
        } else {
            self.packed = (self.packed << 8) | first as u64;
        }
    }

    /// Begins a wrapper: an object at the top whose members count as the document's own.
    pub(super) const fn begin_wrapper(&mut self, key: Key) {
        self.wrapper = Some(key);
        self.packed = Key::None as u64;
    }

    pub(super) fn end(&mut self) {
        if self.beyond > 0 {
            self.beyond = self.beyond.saturating_sub(1);
        } else if self.packed <= 0xff
            && let Some(key) = self.wrapper.take()
        {
            self.packed = key as u64;
        } else {
            self.packed >>= 8;
        }
    }

    pub(super) const fn set(&mut self, key: Key) {
        if self.beyond == 0 {
            self.packed = (self.packed & !0xff) | key as u64;
        }
    }
}
