//! The facts about an answer that outlive it.

use std::borrow::Cow;

tollgate_types::named! {
    /// Why the model stopped, in words common to the formats.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum StopReason {
        /// The model was done, or met a stop sequence.
        Done = "done",
        /// The model calls tools.
        ToolCalls = "tool_calls",
        /// An output limit or the end of the context.
        MaxTokens = "max_tokens",
        /// The provider's filter, or the model's refusal.
        Refused = "refused",
        /// The provider paused a long turn, to be sent again.
        Paused = "paused",
        /// A reason that this gateway does not know.
        Other = "other",
    }
}

impl StopReason {
    /// Whether the answer is complete; otherwise the upstream stopped early.
    pub const fn is_complete(self) -> bool {
        matches!(self, Self::Done | Self::ToolCalls | Self::Other)
    }

    /// Whether a finish reason means that the provider failed, in any format. vLLM, DeepSeek and Z.ai have
    /// words of their own.
    pub(super) fn is_failure(reason: &str) -> bool {
        let is_other = matches!(
            reason,
            "error"
                | "abort"
                | "insufficient_system_resource"
                | "network_error"
                | "MISSING_THOUGHT_SIGNATURE"
                | "PUP_LIMITED_DISABLED"
        );
        is_other || Self::is_malformed(reason)
    }

    /// Whether a finish reason of Gemini or Converse means that the model wrote a malformed answer or tool call. The
    /// prompt can cause that.
    pub(super) fn is_malformed(reason: &str) -> bool {
        matches!(
            reason,
            "MALFORMED_FUNCTION_CALL"
                | "UNEXPECTED_TOOL_CALL"
                | "TOO_MANY_TOOL_CALLS"
                | "MALFORMED_RESPONSE"
                | "malformed_model_output"
                | "malformed_tool_use"
        )
    }

    /// Reads `finish_reason`, `stop_reason`, `status` of a finished response, or the reason
    /// of its `incomplete_details`.
    pub(super) fn parse(reason: &str) -> Self {
        match reason {
            "stop" | "end_turn" | "stop_sequence" | "completed" | "STOP" => Self::Done,
            "tool_calls" | "tool_use" | "function_call" => Self::ToolCalls,
            "length"
            | "max_tokens"
            | "max_output_tokens"
            | "model_context_window_exceeded"
            // Mistral.
            | "model_length"
            | "MAX_TOKENS"
            | "CONTINUATION" => Self::MaxTokens,
            // `sensitive`: Z.ai.
            "content_filter" | "refusal" | "content_filtered" | "guardrail_intervened"
            | "sensitive" => Self::Refused,
            // Gemini.
            "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "LANGUAGE"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION"
            | "MODEL_ARMOR"
            | "ESCALATION" => Self::Refused,
            "pause_turn" => Self::Paused,
            _ => Self::Other,
        }
    }
}

/// What an answer said of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerFacts {
    /// Its id, at most 256 bytes of it.
    pub id: Option<Box<str>>,
    /// The model that answered, as the provider names it; at most 256 bytes.
    pub model: Option<Box<str>>,
    /// When it began, in unix seconds.
    pub created_at: Option<u64>,
    /// Why the model stopped.
    pub stop: Option<StopReason>,
    /// The same in the provider's word, at most 64 bytes of it; of the first choice.
    pub stop_word: Option<Cow<'static, str>>,
    /// The words of further choices, by the index of the choice.
    pub further_stop_words: Vec<(u64, Cow<'static, str>)>,
    /// A usage was reported with or after the stop reason, or the reason of a malformed answer. With one choice, it is
    /// not a running total.
    pub has_final_usage: bool,
    /// Responses: the last status is of one that has not ended.
    pub is_running: bool,
    /// It has long values other than text: sound, images, encrypted reasoning, tool results.
    pub has_unmeasured_output: bool,
    /// Responses: the ids of its items and of its conversation, in the order of the
    /// answer, each once, at most [`Self::MOST_STORED`].
    pub stored_ids: Vec<Box<str>>,
    /// The ids of the containers in which the provider's tools ran, in the same way.
    pub containers: Vec<Box<str>>,
}

impl AnswerFacts {
    /// The provider's words for why each choice stopped, in the order of the choices.
    pub fn stop_words(&self) -> impl Iterator<Item = &str> {
        let further = self.further_stop_words.iter().map(|(_, word)| &**word);
        self.stop_word.as_deref().into_iter().chain(further)
    }

    /// Notes why the model stopped.
    pub(super) fn set_stop(&mut self, reason: &str) {
        self.stop = Some(StopReason::parse(reason));
        self.stop_word = Some(Self::word(reason));
    }

    /// Notes the word for why a choice stopped.
    pub(super) fn set_choice_word(&mut self, choice: u64, word: Cow<'static, str>) {
        if choice == 0 {
            self.stop_word = Some(word);
            return;
        }
        let words = &mut self.further_stop_words;
        words.retain(|(other, _)| *other != choice);
        if words.len() < Self::MOST_STORED {
            let at = words.partition_point(|(other, _)| *other < choice);
            words.insert(at, (choice, word));
        }
    }

    pub(super) fn word(reason: &str) -> Cow<'static, str> {
        /// Words that need no copy.
        const USUAL: [&str; 8] = [
            "stop",
            "tool_calls",
            "end_turn",
            "tool_use",
            "completed",
            "STOP",
            "length",
            "max_tokens",
        ];
        let usual = USUAL.into_iter().find(|it| *it == reason);
        usual.map_or_else(|| reason.to_owned().into(), Cow::Borrowed)
    }

    /// How many ids are kept of what is stored with an answer.
    pub const MOST_STORED: usize = 128;
}
