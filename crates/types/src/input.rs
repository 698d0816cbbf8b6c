//! The input tokens of a request, counted or estimated.
//!
//! The count crate counts; this file has its result, and the estimate from the length of a request.

use crate::RequestFacts;

/// The result of counting the input of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InputCount {
    /// Tokens, as the provider is expected to report them.
    pub tokens: u64,
    /// A lower bound of the tokens, rarely missed.
    pub at_least: u64,
    /// An upper bound of the tokens.
    pub at_most: u64,
    /// The relative error of `tokens` that 95% of counts stay below.
    pub error_p95: f32,
}

/// Tokens that a provider adds around a request, and the prompt for tools
/// (docs/reference/token-counts.md). The JSON of a message is longer than its frame there.
const FRAME: u64 = 128;
const TOOLS_FRAME: u64 = 600;
/// The most tokens of an image, by the rules of all models.
pub const MOST_OF_A_MEDIUM: u64 = 6_192;

/// Input tokens that a model can read if the catalog states no `context_window`: more than widely offered
/// models read.
pub const LARGEST_WINDOW: u64 = 2_000_000;

/// How often a model can read its input again in one request: after each call of a tool that the provider runs,
/// and for each summary.
pub const MOST_ROUNDS: u64 = 32;

impl RequestFacts {
    /// The most tokens that the body can have: one per byte, in any field. Media and additions of
    /// providers count by their rules.
    pub fn most_input(&self) -> u64 {
        let media = self.media.parts.saturating_mul(MOST_OF_A_MEDIUM);
        let frame = if self.needs.tools {
            FRAME + TOOLS_FRAME
        } else {
            FRAME
        };
        self.readable_bytes
            .saturating_add(media.max(self.media_tokens()))
            .saturating_add(self.repeated_query(1))
            .saturating_add(frame)
    }
}

/// Whether a top-level field adds no input tokens in any format or server: it selects how to
/// answer, how to bill or where to run. Unknown fields are not among them.
pub const fn is_free_of_tokens(field: &[u8]) -> bool {
    matches!(
        field,
        b"audio"
            | b"auto_max_new_tokens"
            | b"background"
            | b"best_of"
            | b"betas"
            | b"cache_control"
            | b"clear_thinking"
            | b"client_metadata"
            | b"container"
            | b"conversation"
            | b"enable_search"
            | b"enable_thinking"
            | b"frequency_penalty"
            | b"function_call"
            | b"ignore_eos"
            | b"include"
            | b"inference_geo"
            | b"logit_bias"
            | b"logprobs"
            | b"maxTokens"
            | b"max_completion_tokens"
            | b"max_length"
            | b"max_new_tokens"
            | b"max_output_tokens"
            | b"max_tokens"
            | b"max_tokens_to_sample"
            | b"max_tool_calls"
            | b"mcp_servers"
            | b"metadata"
            | b"min_p"
            | b"min_tokens"
            | b"modalities"
            | b"model"
            | b"models"
            | b"moderation"
            | b"n"
            | b"n_cmpl"
            | b"n_predict"
            | b"num_predict"
            | b"output_config"
            | b"parallel_tool_calls"
            | b"plugins"
            | b"presence_penalty"
            | b"previous_response_id"
            | b"prompt_cache_key"
            | b"prompt_cache_options"
            | b"prompt_cache_retention"
            | b"provider"
            | b"reasoning"
            | b"reasoning_effort"
            | b"reasoning_format"
            | b"repetition_penalty"
            | b"route"
            | b"safety_identifier"
            | b"search_parameters"
            | b"seed"
            | b"service_tier"
            | b"speed"
            | b"stop"
            | b"stop_sequences"
            | b"store"
            | b"stream"
            | b"stream_options"
            | b"temperature"
            | b"thinking"
            | b"thinking_budget"
            | b"thread"
            | b"tool_choice"
            | b"top_k"
            | b"top_logprobs"
            | b"top_p"
            | b"transforms"
            | b"truncation"
            | b"usage"
            | b"user"
            | b"user_profile_id"
            | b"verbosity"
            | b"web_search_options"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MediaFacts, RequestNeeds};

    fn facts(text_bytes: u64, tools: bool) -> RequestFacts {
        RequestFacts {
            text_bytes,
            readable_bytes: text_bytes,
            needs: RequestNeeds {
                tools,
                ..RequestNeeds::default()
            },
            ..RequestFacts::default()
        }
    }

    #[test]
    fn no_byte_of_text_is_more_than_a_token() {
        for bytes in [0, 1, 1000, u64::MAX] {
            for tools in [false, true] {
                let facts = facts(bytes, tools);
                assert!(facts.most_input() >= bytes);
                assert!(facts.most_input() >= facts.likely_input_tokens());
            }
        }
        let mut image = facts(10, false);
        image.media = MediaFacts {
            parts: 2,
            bytes: 1_000_000,
            unmeasured: 0,
        };
        assert!(image.most_input() >= 2 * MOST_OF_A_MEDIUM);
        assert!(image.most_input() < 20_000, "base64 is no text");
    }
}
