//! The facts of a request that the gateway reads.
//!
//! The wire crate fills these facts in one pass over the body; filters and
//! routing decide on them and never see the body itself.

use crate::{ConversationFacts, Effort, ReasoningMode, ServiceTier, Thinking};

/// The lowest output limit that the responses format accepts, in tokens.
pub const LEAST_RESPONSES_OUTPUT: u64 = 16;

/// A field that asks for a tier, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedTier {
    /// `speed`, `service_tier` or `serviceTier`.
    pub field: &'static str,
    /// The name of the tier there.
    pub value: &'static str,
    /// The tier.
    pub tier: ServiceTier,
}

/// The facts of a request body, from one pass over it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFacts {
    /// The `model` field, unescaped. `None`: the field is absent.
    pub model: Option<String>,
    /// `stream: true`.
    pub stream: bool,
    /// Chat only: `stream_options.include_usage`, if given.
    pub include_usage: Option<bool>,
    /// The output limit in tokens: `max_tokens`, `max_completion_tokens` or `max_output_tokens`.
    /// The largest of several; `None` if one of them sets no limit.
    pub output_limit: Option<u64>,
    /// The number of answers: the largest of `n` and the fields that some servers accept (`best_of`,
    /// `n_cmpl`); 1 if none is given.
    pub choices: u64,
    /// The requested effort: `reasoning_effort`, `reasoning.effort`, `output_config.effort`. The
    /// greater of two; `None` also for an unknown level.
    pub effort: Option<Effort>,
    /// Messages only: `thinking.type`.
    pub thinking: Option<Thinking>,
    /// Messages only: `thinking.budget_tokens`.
    pub thinking_budget: Option<u64>,
    /// The tiers other than the standard one that the request asks for.
    pub tiers: Vec<AskedTier>,
    /// The field that chooses where the model runs, at a price of its own: `inference_geo` other than `global`, or a
    /// preference among the providers of a gateway.
    pub place: Option<&'static str>,
    /// The field by which the request asks for an id instead of an answer, which it retrieves later: `background` of
    /// responses, or `deferred` of xAI.
    pub background: Option<&'static str>,
    /// Responses only: `store`, if given; providers store by default.
    pub store: Option<bool>,
    /// Messages only: `thread`, a conversation that the provider stores.
    pub thread: bool,
    /// The number of tools that the provider runs (a search, an interpreter, a tool server): the body does
    /// not show their results.
    pub hosted_tools: u64,
    /// The provider summarizes the conversation if it is long, and reads all of it for that.
    pub compacts: bool,
    /// Embeddings and rerank only: the number of texts or documents in their list.
    pub documents: u64,
    /// Rerank only: bytes of the query in the body. Many providers read it once for each document.
    pub query_bytes: u64,
    /// The request has a template for the prompt (`chat_template`), of which a few bytes can expand to the
    /// whole context window.
    pub template: bool,
    /// The field that names models besides `model` (`models`, `fallbacks`, an adviser): a provider that is a
    /// gateway would use them.
    pub further_models: Option<&'static str>,
    /// A tool of type `advisor_…` is offered: the provider calls the model that it names.
    pub adviser: bool,
    /// The models that tools name, a few at most; empty if a value is not a name.
    pub tool_models: Vec<String>,
    /// The features that the model needs to answer the request.
    pub needs: RequestNeeds,
    /// Bytes of text in the body, unescaped, without media.
    pub text_bytes: u64,
    /// Bytes of the body without inline media: no model reads more of it.
    pub readable_bytes: u64,
    /// Images, documents and sound.
    pub media: MediaFacts,
    /// The requested kind of output, if the request names one.
    pub output: Option<OutputKind>,
    /// The seed, if it is an integer.
    pub seed: Option<i64>,
    /// Thinking is requested by a setting other than an effort or `thinking`.
    pub thinks: bool,
    /// Chat only: the request predicts the answer. Providers count what the model rejects of it as output.
    pub predicts: bool,
    /// Identifiers of items stored at a provider that the request names (`previous_response_id`,
    /// `conversation`, item references, files, containers, vector stores, prompts, skills), unescaped, each
    /// once.
    pub stored_ids: Vec<StoredId>,
    /// Responses only: the other items of the input that have an `id`, in their order.
    pub items: Vec<NamedItem>,
    /// The facts of the conversation for `auto`; `None` if the client names the model.
    pub conversation: Option<Box<ConversationFacts>>,
}

crate::named! {
    /// The kind of output that a request asks for. Of several, the last one in this order counts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum OutputKind {
        /// Plain text.
        Text = "text",
        /// JSON, with a schema or without.
        Json = "json",
        /// Pictures.
        Image = "image",
        /// Sound.
        Speech = "speech",
    }
}

/// The identifier of an item stored at a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredId {
    /// The identifier.
    pub id: String,
    /// The field that names it, such as `previous_response_id`; of a nested field its last name.
    pub field: Box<str>,
}

/// An item of the input with an `id`, as it came with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedItem {
    /// Its `id`, unescaped.
    pub id: String,
    /// Whether it has contents besides its type and id: without contents it refers to a stored
    /// item.
    pub has_contents: bool,
}

impl RequestFacts {
    /// The documents of one search for a rerank, and the tokens of one document.
    const RERANK_DOCUMENTS: u64 = 100;
    const RERANK_TOKENS: u64 = 500;

    /// The thinking budget, in tokens, that a model of this mode gets if the caller gave none;
    /// `None`: the request stays as it is.
    pub fn thinking_to_add(&self, mode: ReasoningMode) -> Option<u64> {
        let is_open = self.thinking_budget.is_none()
            && !matches!(self.thinking, Some(Thinking::Disabled | Thinking::Other));
        if mode != ReasoningMode::Extended || !is_open {
            return None;
        }
        self.effort.unwrap_or(Effort::Medium).thinking_budget()
    }

    /// The output limit, in tokens, of a request to which thinking is added: the caller's limit, raised if
    /// [`ThinkingRoom`] requires it.
    pub fn limit_with_thinking(limit: u64, budget: u64) -> u64 {
        ThinkingRoom::within(budget, limit, None).map_or(limit, |room| room.limit)
    }

    /// Whether sound or pictures are requested: deltas do not show how much output they are.
    pub const fn asks_for_media(&self) -> bool {
        matches!(self.output, Some(OutputKind::Image | OutputKind::Speech))
    }

    /// Whether the model can read the whole input several times: after each call of a tool that the provider
    /// runs, and for each summary.
    pub const fn reads_again(&self) -> bool {
        self.hosted_tools > 0 || self.compacts
    }

    /// The searches that Cohere can bill for a rerank: one for 100 documents. Each 500 tokens of a longer
    /// document count as one more.
    pub const fn most_rerank_searches(&self) -> u64 {
        let more = self.cautious_input_tokens() / Self::RERANK_TOKENS;
        self.documents
            .saturating_add(more)
            .div_ceil(Self::RERANK_DOCUMENTS)
    }

    /// The searches that it is likely to bill: long documents are rare.
    pub fn likely_rerank_searches(&self) -> u64 {
        let pieces = self.input_tokens(4) / Self::RERANK_TOKENS;
        self.documents.max(pieces).div_ceil(Self::RERANK_DOCUMENTS)
    }

    /// The likely tokens of uncounted input: four bytes of text per token, and images by the rules
    /// of the large providers.
    pub const fn likely_input_tokens(&self) -> u64 {
        self.input_tokens(4).saturating_add(self.repeated_query(4))
    }

    /// The tokens that the query of a rerank adds with the documents after the first.
    pub(crate) const fn repeated_query(&self, bytes_per_token: u64) -> u64 {
        let query = self.query_bytes.div_ceil(bytes_per_token);
        query.saturating_mul(self.documents.saturating_sub(1))
    }

    /// Tokens that the input rarely exceeds, except for adversarial text: code, numbers and most scripts have
    /// more than two bytes per token.
    pub const fn cautious_input_tokens(&self) -> u64 {
        self.input_tokens(2)
    }

    const fn input_tokens(&self, bytes_per_token: u64) -> u64 {
        let text = self.text_bytes.div_ceil(bytes_per_token);
        text.saturating_add(self.media_tokens())
    }

    /// The likely tokens of images, documents and sound.
    pub const fn media_tokens(&self) -> u64 {
        /// The tokens of an image of full size.
        const PER_MEDIA_PART: u64 = 1600;
        /// Base64 bytes of a document per token: a page of 60 kB is 3,000 tokens.
        const MEDIA_BYTES_PER_TOKEN: u64 = 20;
        let media = self.media.parts.saturating_mul(PER_MEDIA_PART);
        let documents = if self.needs.documents {
            self.media.bytes / MEDIA_BYTES_PER_TOKEN
        } else {
            0
        };
        media.saturating_add(documents)
    }
}

/// A thinking budget, and the output limit for it and an answer, both in tokens: providers of messages
/// require the limit to be larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThinkingRoom {
    /// The thinking budget.
    pub budget: u64,
    /// The output limit: tokens for thinking and answer.
    pub limit: u64,
}

impl ThinkingRoom {
    /// The smallest budget that providers accept.
    pub const LEAST_BUDGET: u64 = 1024;

    /// Fits `budget` into a caller's output limit, which includes thinking: the budget is lowered first, and
    /// at least a quarter of the limit is for text. A limit without room for the smallest budget is raised by
    /// that budget. `None`: the raised limit would exceed `most`.
    pub fn within(budget: u64, limit: u64, most: Option<u64>) -> Option<Self> {
        let within = limit.saturating_sub(limit / 4);
        if within >= Self::LEAST_BUDGET {
            let budget = budget.min(within);
            return Some(Self { budget, limit });
        }
        let raised = limit.saturating_add(Self::LEAST_BUDGET);
        most.is_none_or(|most| raised <= most).then_some(Self {
            budget: Self::LEAST_BUDGET,
            limit: raised,
        })
    }
}

/// Features that a model needs to answer a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestNeeds {
    /// Tools are offered, or the history has tool calls or their results.
    pub tools: bool,
    /// An image is in the input.
    pub images: bool,
    /// A document (PDF or other file) is in the input.
    pub documents: bool,
    /// Sound is in the input, or is requested.
    pub audio: bool,
    /// Reasoning is requested by an effort or a thinking budget.
    pub reasoning: bool,
    /// The answer must follow a JSON schema.
    pub schema: bool,
}

/// Media in a request, counted separately from text because a 20 MB image is not seven million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaFacts {
    /// The number of media parts.
    pub parts: u64,
    /// Bytes of base64 text in them.
    pub bytes: u64,
    /// How many of them are not images: neither a link nor the bytes show the length of a document, sound or
    /// film.
    pub unmeasured: u64,
}

#[cfg(test)]
mod tests {
    use super::{RequestFacts, ThinkingRoom};

    #[test]
    fn a_rerank_of_a_hundred_short_documents_is_one_search() {
        let facts = RequestFacts {
            documents: 100,
            text_bytes: 50_000,
            ..RequestFacts::default()
        };
        assert_eq!(facts.likely_rerank_searches(), 1);
        assert_eq!(facts.most_rerank_searches(), 2);
    }

    #[test]
    fn the_query_of_a_rerank_is_read_once_for_each_document() {
        let mut facts = RequestFacts {
            documents: 1000,
            text_bytes: 11_000,
            readable_bytes: 15_000,
            ..RequestFacts::default()
        };
        let (likely, most) = (facts.likely_input_tokens(), facts.most_input());
        let searches = facts.most_rerank_searches();
        facts.query_bytes = 10_000;
        assert_eq!(facts.likely_input_tokens(), likely + 999 * 2500);
        assert_eq!(facts.most_input(), most + 999 * 10_000);
        assert_eq!(facts.most_rerank_searches(), searches);
    }

    #[test]
    fn a_budget_leaves_room_for_the_answer() {
        let room = |budget, limit, most| {
            ThinkingRoom::within(budget, limit, most).map(|room| (room.budget, room.limit))
        };
        assert_eq!(room(2048, 100_000, None), Some((2048, 100_000)));
        assert_eq!(room(31_999, 8000, None), Some((6000, 8000)));
        assert_eq!(room(8192, 100, None), Some((1024, 1124)));
        assert_eq!(room(8192, 100, Some(1124)), Some((1024, 1124)));
        assert_eq!(room(8192, 100, Some(1123)), None);
        assert_eq!(room(2048, u64::MAX, None), Some((2048, u64::MAX)));
    }
}
