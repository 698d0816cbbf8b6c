//! The fates of the features of a conversation in chat completions as a target.

use crate::{
    features::target_features,
    table::{CARRIED, Fate::Dropped, mapped},
};

const THOUGHTS: &str = "`reasoning_content` where this provider made it, else left out with notice";

target_features! {
    Core: CARRIED;
    Instructions: mapped("the first message, as `developer` or `system`");
    SystemTurns: CARRIED;
    Refusals: CARRIED;
    Images: mapped("`image_url`");
    ImageSources: CARRIED;
    ImageDetail: mapped("`original` is `high`");
    Files: mapped("`file`, or text");
    FileData: CARRIED;
    FileNames: CARRIED;
    Tools: mapped("functions and custom tools; the provider's own are taken out with notice");
    CustomTools: mapped("as it is, or as a function with one string, `input`");
    Grammars: CARRIED;
    Parameters: CARRIED;
    Strictness: CARRIED;
    ToolChoice: mapped("its own spelling");
    ChosenTools: CARRIED;
    ParallelCalls: CARRIED;
    Calls: mapped("`tool_calls` of the assistant's message");
    CallIds: CARRIED;
    Arguments: CARRIED;
    CustomCalls: mapped("`tool_calls` of the assistant's message");
    FreeInputs: CARRIED;
    Results: mapped("a message of the role `tool`");
    ResultIds: mapped("`tool_call_id`");
    ResultContents: mapped("text in the message, other parts in a user message after it");
    ResultImages: mapped("in a user message after the result");
    ResultFiles: mapped("in a user message after the result, or text");
    SearchCalls: mapped("a search of the web is left out with notice; other tools are refused");
    SearchResults: mapped("left out with notice: the provider searches for itself");
    OutputLimit: mapped("`max_completion_tokens` or `max_tokens`, as the provider knows it");
    StopSequences: mapped("`stop`, four at most");
    Temperature: CARRIED;
    TopP: CARRIED;
    Seed: CARRIED;
    Penalties: CARRIED;
    TopKHint: mapped("where the provider knows it; else dropped with notice");
    Logprobs: mapped("`logprobs`");
    TopLogprobs: CARRIED;
    Verbosity: CARRIED;
    AnswerFormats: mapped("`response_format`");
    JsonObjects: CARRIED;
    SchemaNames: CARRIED;
    SchemaDescriptions: CARRIED;
    SchemaStrictness: CARRIED;
    Effort: mapped("`reasoning_effort`");
    ReasoningShown: mapped("shown, where the provider gives it");
    Thoughts: mapped(THOUGHTS);
    CacheBreakpoints: mapped("`prompt_cache_breakpoint` on text where the provider knows it, at most the last four; else dropped with notice");
    CacheOptions: mapped("`mode` and `ttl`");
    CacheKey: CARRIED;
    CacheModes: CARRIED;
    CacheLifetimes: CARRIED;
    CacheRetention: CARRIED;
    Includes: mapped("encrypted reasoning as seals; log probabilities; what belongs to the provider's own tools is dropped with notice");
    Moderation: mapped("the provider checks the conversation, and its findings are left out with notice; refused if it has no moderation (`capabilities.chat.openai: false`)");
    Metadata: Dropped("it accepts metadata only with `store`, and the gateway stores no translated request");
    UserId: CARRIED;
    ServiceTier: CARRIED;
}
