//! The fates of the features of a conversation in Converse as a target.

use crate::{
    features::target_features,
    table::{
        CARRIED,
        Fate::{Dropped, Refused},
        mapped,
    },
};

const DATA_ALONE: &str = "it takes files by their data alone";
const IMAGE: &str = "`image`, by its data alone";
const DOCUMENT: &str =
    "`document`, by its data alone: PDF, text, CSV, HTML, Markdown and formats of Word and Excel";
const CACHING: &str = "models cache what requests share, or take marks";

target_features! {
    Core: CARRIED;
    Instructions: mapped("`system`");
    SystemTurns: mapped("before the first turn `system`, later a text of the user's in `<system-reminder>`");
    Refusals: mapped("text");
    Images: mapped(IMAGE);
    ImageSources: mapped("a `data:` URL becomes `source.bytes`; another address is refused");
    Files: mapped(DOCUMENT);
    FileData: mapped("`source.bytes`, with the format by the type");
    FileAddresses: Refused(DATA_ALONE);
    FileNames: mapped("`name`, with a blank for each character that it does not take; without a name `document-1` and so on; also sent as the text of a message without text");
    Tools: mapped("`toolSpec`; the provider's own are taken out with notice");
    CustomTools: mapped("a function with one string, `input`; the grammar in its description");
    Grammars: mapped("written into the description");
    Parameters: mapped("`inputSchema.json`, of type object");
    Strictness: mapped("left out with notice if the schema has bounds");
    ToolChoice: mapped("`toolConfig.toolChoice`; `required` is `any`; for `none` no tools are offered, or with calls in the history it is dropped with notice");
    ChosenTools: mapped("`toolChoice.tool`");
    ParallelCalls: mapped("`false` is dropped with notice: it may always call several tools");
    Calls: mapped("`toolUse`");
    CallIds: CARRIED;
    Arguments: mapped("`input`, as an object; text that is no JSON object becomes its member `malformed_arguments`, with notice");
    CustomCalls: mapped("`toolUse` with the text as `input`");
    FreeInputs: mapped("the member `input` of the call's input");
    Results: mapped("`toolResult`");
    ResultIds: mapped("`toolUseId`");
    ResultContents: mapped("the content of a `toolResult`");
    ResultImages: mapped(IMAGE);
    ResultFiles: mapped(DOCUMENT);
    SearchCalls: mapped("a search of the web is left out with notice; other tools are refused");
    SearchResults: mapped("left out with notice: the provider searches for itself");
    OutputLimit: mapped("`inferenceConfig.maxTokens`");
    StopSequences: mapped("`inferenceConfig.stopSequences`; white space alone is dropped with notice");
    Temperature: mapped("refused above 1; dropped with notice if the model takes none or thinks");
    TopP: mapped("left out with notice if the model takes none or thinks, or if a Claude model also gets a temperature");
    TopK: mapped("`additionalModelRequestFields.top_k` of Claude; else left out with notice");
    TopKHint: mapped("`additionalModelRequestFields.top_k` of Claude; else left out with notice");
    AnswerFormats: mapped("`outputConfig.textFormat`");
    JsonObjects: mapped("an instruction, with notice; an answer that is not one JSON object is an error");
    SchemaNames: mapped("`name`, and kept for the answer");
    SchemaStrictness: mapped("answers follow the schema there even if it is `false`");
    Effort: mapped("`additionalModelRequestFields`: `thinking` of Claude with `outputConfig.effort` or a budget, `reasoningConfig` of Nova, `reasoning_effort` of gpt-oss, Kimi K3 and GLM 5; of other models left out with notice");
    ReasoningShown: mapped("`thinking.display` of Claude; other models show what they show");
    Thoughts: mapped("`reasoningContent` where this model made it, else left out with notice");
    CacheBreakpoints: mapped("`cachePoint` behind the text, at most the last four");
    ToolMarks: mapped("`cachePoint` behind the tool; at most the last four marks");
    MarkLifetimes: CARRIED;
    CacheOptions: Dropped(CACHING);
    CacheKey: Dropped(CACHING);
    CacheModes: Dropped(CACHING);
    Includes: mapped("encrypted reasoning as seals; what belongs to the provider's own tools is dropped with notice; log probabilities are refused");
    Metadata: Dropped("its metadata is for the operator's logs");
    UserId: Dropped("it has no ids of users");
    ServiceTier: Dropped("its tiers have other prices: the operator chooses them");
}
