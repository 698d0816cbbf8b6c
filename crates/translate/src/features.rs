//! The features of a conversation that a wire format may have or lack.
//!
//! A row of a [field table](crate::table) names the feature that its field feeds. A format
//! declares once, as a target, what it does with each feature. Both together decide what becomes
//! of a field on its way into another format, so that no list of pairs of formats is needed.

use crate::table::Fate::{self, Dropped, Implied, Refused};

/// Declares the features, one a line: its name, its label in the docs, and what becomes of it in
/// a format that does not declare it. A feature without such a loss must be declared by every
/// format.
macro_rules! features {
    (@loss $loss:expr) => { Some($loss) };
    (@loss) => { None };
    ($($name:ident $label:literal $(: $loss:expr)?;)*) => {
        /// A feature of a conversation, named in the plural if a request can have several.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Feature {
            $(#[doc = $label] $name,)*
        }

        impl Feature {
            /// Every feature, in the order in which documents list them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name of the feature in documents.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }

            /// The fate of the feature in a format that does not declare it.
            const fn loss(self) -> Option<Fate> {
                match self { $(Self::$name => features!(@loss $($loss)?),)* }
            }
        }
    };
}

/// Tools that run at the provider.
const HOSTED: Fate = Dropped(
    "the provider's own tools are taken out, unless `tool_choice` demands them or nothing else is offered",
);

features! {
    Core "the conversation itself: roles, texts, calls of functions";
    Instructions "instructions";
    SystemTurns "instructions between turns";
    Refusals "refusals in the history";
    Images "images";
    ImageSources "addresses and data of images";
    ImageDetail "level of detail of images": Dropped("it has no level of detail");
    ImageTransformations "transformations of images": Refused("it does not say what is done to images");
    Files "documents";
    FileData "data of documents";
    FileAddresses "addresses of documents": Refused("it takes files by their data alone");
    FileNames "names of documents";
    FileDetail "level of detail of documents": Dropped("it has no level of detail for files");
    DocumentCitations "citations of documents": Refused("it cites no documents");
    StoredFiles "files stored at the provider": Refused("only the provider that stores a file knows it; 404 `not_found` if the file does not belong to the API key");
    AudioInput "sound as input": Refused("it hears nothing");
    AudioOutput "sound as output": Refused("it answers in text alone");
    AudioHistory "sound in earlier answers": Refused("it reads text alone");
    ParticipantNames "names of participants": Dropped("it has no names of participants");
    AnswerPhases "phases of an answer": Dropped("it has no phases of an answer");
    AnswerPrefix "a begun answer": Refused("it does not go on with a begun answer");
    Citations "citations in the history": Dropped("citations are output only");
    Tools "tools";
    CustomTools "tools that take free text";
    Grammars "grammars of free text";
    Parameters "schemas of tools";
    Strictness "strict schemas of tools";
    OutputSchemas "schemas of what tools return": Dropped("tools do not say what they answer there");
    ToolExamples "examples of tools": Dropped("tools have no examples there");
    EagerStreaming "eager streaming of arguments": Dropped("arguments are streamed as the provider does");
    AllowedCallers "callers of tools": Dropped("only the model itself calls tools there");
    ToolCallers "callers of earlier calls": Refused("only the model itself calls tools there");
    Toolsets "toolsets": Refused("it has no toolsets");
    AsyncCalls "asynchronous calls": Refused("calls are answered before the next turn there");
    ToolChoice "choice of tools";
    ChosenTools "choice of one tool";
    ParallelCalls "parallel calls";
    Calls "calls of functions";
    CallIds "ids of calls";
    Arguments "arguments of calls";
    CustomCalls "calls with free text";
    FreeInputs "free text of calls";
    Results "results of calls";
    ResultIds "ids of results";
    ResultContents "contents of results";
    ResultImages "images in results";
    ResultFiles "documents in results";
    WebSearch "web search": HOSTED;
    SearchChoice "choice of web search": Refused("it has no such tool");
    SearchCalls "searches in the history";
    SearchResults "results of searches in the history";
    SearchContextSize "context size of web search": Dropped("it decides by itself how much it reads");
    SearchContentTypes "content types of web search": Dropped("it finds text");
    SearchInclusion "selection of search results": Dropped("results are always sent");
    HostedTools "other tools of the provider": HOSTED;
    HostedChoice "choice of such a tool": Refused("it has no such tool");
    HostedHistory "such tools in the history": Refused("it is about a tool of another provider");
    HostedCallLimit "limit on calls of the provider's tools": Implied("no tool of the provider's is offered there, so that none is called");
    McpServers "MCP servers": Refused("it calls no servers");
    Containers "containers": Refused("it has no containers");
    OutputLimit "output limit";
    StopSequences "stop sequences";
    Temperature "temperature";
    TopP "`top_p`";
    TopK "`top_k` of chat, which is known to few providers": Refused("it has no `top_k`");
    TopKHint "`top_k` of messages and Gemini": Dropped("it has no `top_k`");
    Seed "seed": Dropped("it has no seed");
    Penalties "penalties": Refused("it has no penalties");
    LogitBias "logit bias": Refused("it has no logit bias");
    Logprobs "log probabilities": Refused("it gives no log probabilities");
    TopLogprobs "number of log probabilities": Refused("it gives no log probabilities");
    ManyAnswers "several answers": Refused("one request gives one answer there");
    Prediction "predicted output": Refused("it takes no predicted output");
    Verbosity "verbosity": Dropped("it has no verbosity");
    AnswerFormats "form of the answer";
    JsonObjects "JSON without a schema";
    SchemaNames "names of answer schemas";
    SchemaDescriptions "descriptions of answer schemas": Dropped("schemas have no descriptions of their own there");
    SchemaStrictness "strict answer schemas";
    Effort "effort of reasoning";
    ReasoningShown "whether reasoning is shown";
    Thoughts "reasoning in the history";
    SealedThoughts "redacted reasoning in the history": Dropped("it belongs to another provider");
    HiddenReasoning "exclusion of reasoning": Dropped("reasoning that is asked for is shown");
    ReasoningContext "selection of earlier reasoning": Dropped("the provider decides which reasoning the model sees again");
    ReasoningModes "modes of reasoning": Refused("it reasons in one mode");
    BlockBinding "binding of reasoning to a model": Dropped("a block of another provider is left out by itself");
    TaskBudgets "budgets for tasks": Refused("it has no budgets for tasks");
    CacheBreakpoints "cache marks on texts";
    BlockMarks "cache marks on other blocks": Dropped("nothing but text is marked for caching there");
    ToolMarks "cache marks on tools": Dropped("tools are not marked for caching there");
    MarkLifetimes "lifetime of cache marks of messages": Dropped("its times to live are others");
    CacheOptions "cache options";
    CacheKey "cache key";
    CacheModes "cache mode";
    CacheLifetimes "lifetime of caches": Dropped("its times to live are others");
    CacheRetention "cache retention": Dropped("caching lasts as long as the provider decides");
    CacheComparison "comparison of caches": Refused("it keeps no answers");
    CacheWarming "warming of caches": Refused("it does not warm caches");
    Truncation "truncation of the history": Dropped("it does not shorten the history");
    HistoryEdits "edits of the history": Refused("it does not shorten the history");
    ContextManagement "management of the context": Refused("it does not manage the context");
    Compaction "compaction": Refused("it does not compact the history");
    CompactedHistory "compacted history": Refused("a compacted history is known at its own provider alone");
    ConfigurationUpdates "settings that change within a request": Refused("its settings do not change within a request");
    StoredConversations "stored conversations": Refused("it keeps no conversations: send the whole history");
    StoredPrompts "stored prompts": Refused("it keeps no prompts: send the prompt itself");
    Background "answers in the background": Refused("it answers while the caller waits");
    Includes "further contents of the answer";
    StreamPadding "padding of streams": Dropped("a translated stream is not padded");
    Moderation "moderation": Refused("it has no moderation");
    Metadata "metadata";
    UserId "id of the user";
    UserProfiles "user profiles": Refused("it has no user profiles");
    Workspaces "workspaces": Refused("it has no workspaces");
    ServiceTier "service tier";
    Speed "speed": Refused("it has one speed");
    InferenceRegion "region of inference": Refused("it does not choose where it runs");
    BillingPolicies "billing policies": Refused("it has no billing policies");
    AccessPrograms "access programs": Refused("it has no access programs");
    ImageOptions "options for images": Refused("it has no options for images");
    Fallbacks "fallbacks": Refused("it has no fallbacks");
    Diagnostics "diagnostics": Dropped("it has no diagnostics");
}

/// Declares what a format does with features: `FEATURES`, one feature a line.
macro_rules! target_features {
    ($($name:ident: $fate:expr;)*) => {
        pub(crate) static FEATURES: $crate::features::TargetFeatures =
            $crate::features::TargetFeatures::new(&[
                $(($crate::features::Feature::$name, $fate)),*
            ]);
    };
}
pub(crate) use target_features;

const COUNT: usize = Feature::ALL.len();

/// The fate of each feature in a format as a target.
#[derive(Debug)]
pub(crate) struct TargetFeatures([Fate; COUNT]);

impl TargetFeatures {
    /// The features that a format declares; all others are lost as they say. A feature that is
    /// declared twice, or neither declared nor lost, does not compile.
    #[expect(clippy::indexing_slicing, reason = "evaluated at compile time")]
    #[expect(clippy::panic, reason = "evaluated at compile time")]
    pub(crate) const fn new(declared: &[(Feature, Fate)]) -> Self {
        let mut fates = [None; COUNT];
        let mut at = 0;
        while at < declared.len() {
            let (feature, fate) = declared[at];
            assert!(fates[feature as usize].is_none(), "declared twice");
            fates[feature as usize] = Some(fate);
            at += 1;
        }
        let mut all = [Fate::Carried; COUNT];
        at = 0;
        while at < COUNT {
            all[at] = match (fates[at], Feature::ALL[at].loss()) {
                (Some(fate), _) | (None, Some(fate)) => fate,
                (None, None) => panic!("a feature that every format must declare is not declared"),
            };
            at += 1;
        }
        Self(all)
    }

    /// The fate of a feature in this format.
    pub(crate) fn fate(&self, feature: Feature) -> Fate {
        // The array has a fate for each feature.
        self.0
            .get(feature as usize)
            .copied()
            .unwrap_or(Fate::Carried)
    }
}
