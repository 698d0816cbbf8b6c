//! The fates of the features of a conversation in responses as a target.

use crate::{
    features::target_features,
    table::{CARRIED, mapped},
};

const THOUGHTS: &str = "a `reasoning` item where this provider made it, else left out with notice";

target_features! {
    Core: CARRIED;
    Instructions: mapped("`instructions`, or the first message where it has several blocks");
    SystemTurns: CARRIED;
    Refusals: CARRIED;
    Images: mapped("`input_image`");
    ImageSources: CARRIED;
    ImageDetail: CARRIED;
    Files: mapped("`input_file`, or text");
    FileData: CARRIED;
    FileAddresses: mapped("`file_url`");
    FileNames: CARRIED;
    Citations: mapped("`annotations` where this provider made them, else left out with notice");
    Tools: mapped("functions, custom tools, and web search where the provider has it; the provider's other tools are taken out with notice");
    CustomTools: CARRIED;
    Grammars: CARRIED;
    Parameters: CARRIED;
    Strictness: mapped("`false` where it is not given");
    ToolChoice: mapped("its own spelling");
    ChosenTools: CARRIED;
    ParallelCalls: CARRIED;
    Calls: mapped("`function_call`");
    CallIds: mapped("`call_id`");
    Arguments: CARRIED;
    CustomCalls: mapped("`custom_tool_call`");
    FreeInputs: CARRIED;
    Results: mapped("`function_call_output`");
    ResultIds: mapped("`call_id`");
    ResultContents: mapped("`output`");
    ResultImages: mapped("`input_image`");
    ResultFiles: mapped("`input_file`, or text");
    WebSearch: mapped("`web_search` where the provider has it (`capabilities.responses.web_search`); else it is taken out like the provider's other tools");
    SearchChoice: mapped("`web_search`; refused where that is not offered");
    SearchCalls: mapped("a search of the web is restored with its result, else left out with notice; other tools are refused");
    SearchResults: mapped("the `web_search_call` that it was where this provider made it, else left out with notice");
    HostedCallLimit: mapped("`max_tool_calls`");
    OutputLimit: mapped("`max_output_tokens`, 16 at least");
    StopSequences: mapped("the gateway ends the answer at the sequence (16 at most, of 1,024 bytes at most), with notice");
    Temperature: CARRIED;
    TopP: CARRIED;
    Logprobs: mapped("`include: [message.output_text.logprobs]`");
    TopLogprobs: CARRIED;
    Verbosity: mapped("`text.verbosity`");
    AnswerFormats: mapped("`text.format`");
    JsonObjects: CARRIED;
    SchemaNames: CARRIED;
    SchemaDescriptions: CARRIED;
    SchemaStrictness: CARRIED;
    Effort: mapped("`reasoning.effort`");
    ReasoningShown: mapped("`reasoning.summary`");
    Thoughts: mapped(THOUGHTS);
    SealedThoughts: mapped(THOUGHTS);
    CacheBreakpoints: mapped("`prompt_cache_breakpoint` on text where the provider knows it, at most the last four; else dropped with notice");
    CacheOptions: mapped("`mode` and `ttl`");
    CacheKey: CARRIED;
    CacheModes: CARRIED;
    CacheLifetimes: CARRIED;
    CacheRetention: CARRIED;
    Includes: CARRIED;
    Moderation: mapped("the provider checks the conversation, and its findings are left out with notice");
    Metadata: CARRIED;
    UserId: CARRIED;
    ServiceTier: CARRIED;
}
