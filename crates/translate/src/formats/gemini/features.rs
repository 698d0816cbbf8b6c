//! The fates of the features of a conversation in Gemini as a target.

use crate::{
    features::target_features,
    table::{
        CARRIED,
        Fate::{Dropped, Refused},
        mapped,
    },
};

const INLINE: &str = "`inlineData`, or `fileData` for an address";
const FILES: &str = "`inlineData` or `fileData` after the results";
const CACHING: &str = "what requests share is cached without being asked";

target_features! {
    Core: CARRIED;
    Instructions: mapped("`systemInstruction`");
    SystemTurns: mapped("before the first turn `systemInstruction`, later a text of the user's in `<system-reminder>`");
    Refusals: mapped("text");
    Images: mapped(INLINE);
    ImageSources: mapped("a `data:` URL becomes `inlineData`; another is passed on as `fileUri`, never fetched");
    Files: mapped(INLINE);
    FileData: mapped("`inlineData`");
    FileAddresses: mapped("`fileUri`, never fetched");
    FileNames: Dropped("parts have no names there");
    Tools: mapped("`functionDeclarations`; the provider's own are taken out with notice");
    CustomTools: mapped("a function with one string, `input`; the grammar in its description");
    Grammars: mapped("written into the description");
    Parameters: mapped("`parametersJsonSchema`");
    Strictness: Dropped("its tools have no strict schemas");
    ToolChoice: mapped("`functionCallingConfig.mode`");
    ChosenTools: mapped("`ANY`, with the name in `allowedFunctionNames`");
    ParallelCalls: mapped("`false` is dropped with notice: it may always call several tools");
    Calls: mapped("`functionCall`");
    CallIds: CARRIED;
    Arguments: mapped("`args`, as an object; text that is no JSON object becomes its member `malformed_arguments`, with notice");
    CustomCalls: mapped("`functionCall` with the text as `input`");
    FreeInputs: mapped("the member `input` of the call's `args`");
    Results: mapped("`functionResponse`, with the name that the call has");
    ResultIds: mapped("`functionResponse.id`");
    ResultContents: mapped("`response.output`, or `response.error` if the tool failed");
    ResultImages: mapped(FILES);
    ResultFiles: mapped(FILES);
    SearchCalls: mapped("a search of the web is left out with notice; other tools are refused");
    SearchResults: mapped("left out with notice: the provider searches for itself");
    OutputLimit: mapped("`generationConfig.maxOutputTokens`");
    StopSequences: mapped("`generationConfig.stopSequences`, five at most");
    Temperature: CARRIED;
    TopP: CARRIED;
    TopK: CARRIED;
    TopKHint: CARRIED;
    Seed: mapped("left out with notice beyond 32 bits");
    Penalties: Refused("its models refuse penalties");
    Logprobs: Refused("its log probabilities are not translated");
    TopLogprobs: Refused("its log probabilities are not translated");
    AnswerFormats: mapped("`responseMimeType` and `responseJsonSchema`");
    JsonObjects: mapped("`responseMimeType: application/json`");
    SchemaNames: mapped("kept for the answer; schemas have no names there");
    SchemaStrictness: mapped("answers follow the schema there even if it is `false`");
    Effort: mapped("`thinkingConfig.thinkingLevel` or `thinkingBudget`, as the model takes it; one that always thinks does so least for `none`, with notice");
    ReasoningShown: mapped("`thinkingConfig.includeThoughts`");
    Thoughts: mapped("`thoughtSignature` of the call after it where this model made it, else left out with notice");
    CacheBreakpoints: Dropped(CACHING);
    CacheOptions: Dropped(CACHING);
    CacheKey: Dropped(CACHING);
    CacheModes: Dropped(CACHING);
    Includes: mapped("encrypted reasoning as seals; what belongs to the provider's own tools is dropped with notice; log probabilities are refused");
    Metadata: Dropped("it has no metadata");
    UserId: Dropped("it has no ids of users");
    ServiceTier: Dropped("its tiers are others, with other prices");
}
