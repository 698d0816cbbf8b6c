//! Fields that no format defines and that servers of one understand nevertheless.
//!
//! Any format can carry them: several servers turn whatever they receive into a chat request
//! and pass on fields that they do not know. Sources:
//!
//! - Output limits and numbers of answers: llama.cpp (`n_predict` and `n_cmpl`, which have the
//!   names of chat as aliases), Ollama, text-generation-inference and its like,
//!   text-generation-webui (`auto_max_new_tokens`), `KoboldCpp` and `TabbyAPI` (`max_length`),
//!   vLLM (`best_of`), and the names that the formats have from each other.
//! - Models: OpenRouter, `LiteLLM`, NanoGPT, the messages format, the gateway of Vercel.
//! - Thinking: vLLM and its like (`chat_template_kwargs`), Google (in its chat endpoint).
//! - Input from elsewhere: OpenRouter, xAI, Azure, `DashScope`, Google (in its chat endpoint).

use super::location::{Location, Slot, THINKING_ARGUMENTS};
use tollgate_types::is_free_of_tokens;

/// The field of Anthropic's fast mode.
pub(super) const SPEED: &str = "speed";

/// What a key of the body means that is not one of its format.
pub(super) fn slot(key: &[u8]) -> Slot {
    match key {
        b"max_tokens" => Slot::OtherLimit("max_tokens"),
        b"max_completion_tokens" => Slot::OtherLimit("max_completion_tokens"),
        b"max_output_tokens" => Slot::OtherLimit("max_output_tokens"),
        b"n_predict" => Slot::OtherLimit("n_predict"),
        b"num_predict" => Slot::OtherLimit("num_predict"),
        b"max_new_tokens" => Slot::OtherLimit("max_new_tokens"),
        b"max_length" => Slot::OtherLimit("max_length"),
        b"auto_max_new_tokens" => Slot::OtherLimit("auto_max_new_tokens"),
        b"max_tokens_to_sample" => Slot::OtherLimit("max_tokens_to_sample"),
        b"maxTokens" => Slot::OtherLimit("maxTokens"),

        b"n" => Slot::Choices("n"),
        b"n_cmpl" => Slot::Choices("n_cmpl"),
        b"best_of" => Slot::Choices("best_of"),

        b"models" => Slot::FurtherModels("models"),
        b"route" => Slot::FurtherModels("route"),
        b"preset" => Slot::FurtherModels("preset"),
        b"fallbacks" => Slot::FurtherModels("fallbacks"),
        b"context_window_fallbacks" => Slot::FurtherModels("context_window_fallbacks"),
        b"content_policy_fallbacks" => Slot::FurtherModels("content_policy_fallbacks"),
        b"user_config" => Slot::FurtherModels("user_config"),
        b"router_settings_override" => Slot::FurtherModels("router_settings_override"),
        b"advisor" => Slot::FurtherModels("advisor"),
        b"providerOptions" => Slot::Within(Location::ProviderOptions),
        b"extra_body" => Slot::Within(Location::Extra),
        b"google" => Slot::Within(Location::Google),

        b"chat_template_kwargs" => THINKING_ARGUMENTS,
        b"enable_thinking" | b"output_config" | b"thinking" | b"thinking_budget" => Slot::Thinks,
        b"speed" => Slot::Tier(SPEED),
        b"service_tier" => Slot::Tier("service_tier"),
        b"serviceTier" => Slot::Tier("serviceTier"),
        b"inference_geo" => Slot::InferenceGeo,
        b"provider" => Slot::Place("provider"),

        b"deferred" => Slot::Background("deferred"),
        b"plugins" => Slot::Plugins,
        b"chat_template" => Slot::Template,
        b"search_parameters" => Slot::Search,
        b"web_search_options" | b"data_sources" | b"enable_search" => Slot::HostedTools,
        _ if is_free_of_tokens(key) => Slot::Ignored,
        // A chat template may read it.
        _ => Slot::Json,
    }
}
