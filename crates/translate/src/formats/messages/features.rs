//! The fates of the features of a conversation in messages as a target.

use crate::{
    features::target_features,
    table::{CARRIED, mapped},
};

const THOUGHTS: &str = "`thinking` where this provider made it, else left out with notice";
const USER_ID: &str = "`metadata.user_id`, hashed";
const IMAGE: &str = "`image`, by data or by address";
const DOCUMENT: &str = "`document`; PDF and plain text alone";

target_features! {
    Core: CARRIED;
    Instructions: mapped("`system`");
    SystemTurns: mapped("before the first turn `system`, later a message in its place");
    Refusals: mapped("text");
    Images: mapped(IMAGE);
    ImageSources: mapped("a `data:` URL becomes base64 data; another is passed on, never fetched");
    Files: mapped(DOCUMENT);
    FileData: mapped("a `source`; PDF and plain text alone");
    FileAddresses: mapped("a `source`, never fetched");
    FileNames: mapped("`title`");
    Citations: mapped("`citations` where this provider made them and the seal beside the message came back, else left out with notice");
    Tools: mapped("`input_schema` for `parameters`; custom tools as functions; web search where the provider has it; the provider's other tools are taken out with notice");
    CustomTools: mapped("a function with one string, `input`; the grammar in its description");
    Grammars: mapped("written into the description");
    Parameters: mapped("`input_schema`, of type object");
    Strictness: mapped("left out with notice if the schema has bounds");
    ToolChoice: mapped("`required` is `any`");
    ChosenTools: mapped("`tool`");
    ParallelCalls: mapped("`tool_choice.disable_parallel_tool_use`");
    Calls: mapped("`tool_use`");
    CallIds: CARRIED;
    Arguments: mapped("`input`, as an object; text that is no JSON object becomes its member `malformed_arguments`, with notice");
    CustomCalls: mapped("`tool_use` with the text as `input`");
    FreeInputs: mapped("the member `input` of the call's input");
    Results: mapped("`tool_result`");
    ResultIds: mapped("`tool_use_id`");
    ResultContents: mapped("the content of a `tool_result`");
    ResultImages: mapped(IMAGE);
    ResultFiles: mapped(DOCUMENT);
    WebSearch: mapped("`web_search_20250305` where the provider has it (`capabilities.messages.web_search`); else it is taken out like the provider's other tools");
    SearchChoice: mapped("`tool` of the name `web_search`; refused where that is not offered");
    SearchCalls: CARRIED;
    SearchResults: mapped("the blocks that it was where this provider made it and the seal beside it came back, else left out with notice");
    HostedCallLimit: mapped("`max_uses` of web search, the only one of the provider's tools that is offered there");
    OutputLimit: mapped("`max_tokens`");
    StopSequences: mapped("`stop_sequences`; white space alone is dropped with notice");
    Temperature: mapped("refused above 1; dropped with notice if the model takes none or thinks");
    TopP: mapped("left out with notice if the model takes none or thinks, or if a Claude model also gets a temperature");
    TopK: CARRIED;
    TopKHint: CARRIED;
    AnswerFormats: mapped("`output_config.format`");
    JsonObjects: mapped("an instruction, with notice; an answer that is not one JSON object is an error");
    SchemaNames: mapped("kept for the answer; schemas have no names there");
    SchemaStrictness: mapped("answers follow the schema there even if it is `false`");
    Effort: mapped("`thinking` and `output_config.effort`, or a budget, as the model takes it");
    ReasoningShown: mapped("`thinking.display`");
    Thoughts: mapped(THOUGHTS);
    CacheBreakpoints: mapped("`cache_control`, at most the last four");
    ToolMarks: mapped("at most the last four marks; the others are dropped with notice");
    MarkLifetimes: CARRIED;
    CacheOptions: mapped("`mode: implicit` is a top-level `cache_control`");
    CacheKey: mapped("a top-level `cache_control`, which caches what requests share");
    CacheModes: mapped("`implicit` is a top-level `cache_control`");
    Includes: mapped("encrypted reasoning as seals; the sources of web searches; what belongs to the provider's other tools is dropped with notice; log probabilities are refused");
    Metadata: mapped("`metadata.user_id`, hashed; other entries are dropped with notice");
    UserId: mapped(USER_ID);
    ServiceTier: mapped("`default` is `standard_only`; `flex` and `priority` are dropped with notice");
}
