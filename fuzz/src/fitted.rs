//! Request bodies within what their model, its provider and the operator accept.

use crate::{
    input::Input,
    requests::{MODEL, is_addressed, is_json, peek},
};
use bytes::Bytes;
use serde_json::{Map, Value};
use tollgate_translate::{
    AcceptedEfforts, ModelReasoning, Refusal, Strict, ThinkingObstacles, sampling_settings,
    with_default_effort, within_capabilities, without_refused, without_sampling, without_seals,
};
use tollgate_types::{Capabilities, Effort, Format, ReasoningMode, ThinkingStyle};
use tollgate_wire::{
    body::BodyEdits,
    patch,
    peek::{PeekError, PeekLimits, Peeked},
    reasoning::{self, Bounds},
};

/// The most output of the model, in tokens.
const MOST_OUTPUT: u64 = 50_000;

/// What a model and its provider accept.
struct Accepted {
    mode: ReasoningMode,
    efforts: &'static [Effort],
    thinking: Option<ThinkingStyle>,
    sampling: bool,
    output_limit: Option<u64>,
    capabilities: Capabilities,
}

impl Accepted {
    fn of(input: Input<'_>) -> Self {
        let mode = match (input.chooses(0), input.chooses(1)) {
            (false, false) => ReasoningMode::ProviderDefault,
            (false, true) => ReasoningMode::Extended,
            (true, false) => ReasoningMode::Adaptive,
            (true, true) => ReasoningMode::None,
        };
        let mut capabilities = Capabilities::default();
        if input.chooses(2) {
            capabilities.cache_breakpoints = false;
            capabilities.refused_fields = ["seed", "metadata", "generationConfig"]
                .map(str::to_owned)
                .to_vec();
            capabilities.max_stop_sequences = Some(1);
            capabilities.chat.developer_role = false;
            capabilities.chat.system_in_the_middle = false;
            capabilities.chat.effort_with_tools = false;
            capabilities.chat.openai = false;
            capabilities.responses.encrypted_reasoning = false;
            capabilities.messages.system_in_the_middle = false;
            capabilities.messages.adaptive_thinking = false;
            capabilities.messages.thinking_can_be_disabled = false;
            capabilities.messages.structured_output = false;
        }
        let thinking = match (input.chooses(4), input.chooses(7)) {
            (false, _) => None,
            (true, false) => Some(ThinkingStyle::Adaptive),
            (true, true) => Some(ThinkingStyle::Budget),
        };
        // An adaptive model accepts it, whatever its provider is said to accept.
        capabilities.messages.adaptive_thinking |= thinking == Some(ThinkingStyle::Adaptive);
        Self {
            mode,
            efforts: match input.chooses(3) {
                true => &[Effort::Low, Effort::High],
                false => &[],
            },
            thinking,
            sampling: !input.chooses(5),
            output_limit: input.chooses(6).then_some(5000),
            capabilities,
        }
    }

    /// The passes for the model, of which `crates/engine/src/model_request/untranslated.rs` says why they are in this
    /// order.
    fn of_model(&self, format: Format, body: &Bytes, peeked: &Peeked) -> Result<Bytes, Refusal> {
        let has_levels = self.thinking != Some(ThinkingStyle::Budget);
        let (mut body, sampling) = self.edited(format, body, peeked);
        body = without_sampling(body, &sampling, Strict::default())?;
        if peeked.has_seals
            && let Some(unsealed) = without_seals(format, &body, has_levels)
        {
            body = unsealed.body;
        }
        let efforts = AcceptedEfforts {
            efforts: self.efforts,
            thinking_levels: has_levels,
            beside_tools: self.capabilities.chat.effort_with_tools,
        };
        if reasoning::adds_effort(self.mode, format, &peeked.facts)
            && let Some(with_effort) = with_default_effort(format, &body, efforts)
        {
            body = with_effort;
        }
        Ok(body)
    }

    /// The body after the edits, and the sampling settings that are in the way.
    fn edited(&self, format: Format, body: &Bytes, peeked: &Peeked) -> (Bytes, Vec<&'static str>) {
        let obstacles = match reasoning::adds_thinking(self.mode, format, &peeked.facts) {
            true => ThinkingObstacles::of(body),
            false => ThinkingObstacles::default(),
        };
        let mut edits = BodyEdits::new(format, peeked);
        edits.set_model(MODEL);
        edits.ask_for_usage();
        if let Some(tokens) = self.output_limit {
            edits.set_output_limit(tokens);
        }
        let bounds = Bounds {
            output_limit: self.output_limit,
            most_output: Some(MOST_OUTPUT),
            excluded: obstacles.excluded,
            adaptive: self.thinking == Some(ThinkingStyle::Adaptive),
            efforts: self.efforts,
        };
        reasoning::fit(self.mode, format, &peeked.facts, &bounds, &mut edits);
        let sampling = match edits.says_how_to_think() {
            _ if !self.sampling && peeked.has_sampling => sampling_settings(body),
            true => obstacles.sampling,
            false => Vec::new(),
        };
        let spliced = edits.into_splice().apply(std::slice::from_ref(body));
        (spliced.expect("the edits fit").into_bytes(), sampling)
    }

    /// The passes for the provider.
    fn within(&self, format: Format, body: Bytes, peeked: &Peeked) -> Result<Bytes, Refusal> {
        let reasoning = ModelReasoning {
            mode: self.mode,
            efforts: self.efforts,
        };
        let (capabilities, strict) = (&self.capabilities, Strict::default());
        let top_k = peeked.has_top_k;
        let fitted = within_capabilities(format, body, capabilities, reasoning, top_k, strict)?;
        Ok(without_refused(fitted.body, &capabilities.refused_fields, strict)?.0)
    }
}

/// A body that the gateway forwards in the client's format.
///
/// - A refusal has a message.
/// - A fitted body is JSON, and the gateway's own reader accepts it: with the model that was set, the client's `stream`,
///   and an output limit if one was set.
/// - What fits the provider is not changed again.
/// - An operator's changes to its members change nothing else.
pub fn fitted(input: &[u8]) {
    let Some(input) = Input::of(input) else {
        return;
    };
    let format = input.format(&Format::OF_CLIENTS);
    let limits = PeekLimits {
        model_required: !is_addressed(format),
        ..PeekLimits::default()
    };
    let Ok(peeked) = peek(format, &limits, [input.data]) else {
        return;
    };
    let accepted = Accepted::of(input);
    let body = Bytes::copy_from_slice(input.data);
    let edited = accepted.of_model(format, &body, &peeked);
    let body = match edited.and_then(|body| accepted.within(format, body, &peeked)) {
        Ok(body) => body,
        Err(refusal) => return assert!(!refusal.message.is_empty()),
    };
    let text = String::from_utf8_lossy(&body);
    assert!(is_json(&body), "{text}");
    let limits = PeekLimits {
        keys: 1024,
        ..limits
    };
    let again = match peek(format, &limits, [&*body]) {
        Ok(again) => again,
        // Only seals stood in the conversation.
        Err(PeekError::Field { field, .. })
            if peeked.has_seals && ["messages", "input", "contents"].contains(&field) =>
        {
            return;
        }
        Err(error) => panic!("{error}: {text}"),
    };
    assert_eq!(again.facts.stream, peeked.facts.stream, "{text}");
    // Gemini's limit stands in a field that the provider refuses.
    if accepted.output_limit.is_some() && format != Format::Gemini {
        let limit = again.facts.output_limit;
        assert!(
            limit.is_some_and(|it| it <= MOST_OUTPUT),
            "{limit:?}: {text}"
        );
    }
    if !is_addressed(format) {
        assert_eq!(again.facts.model.as_deref(), Some(MODEL));
    }
    let twice = accepted.within(format, body.clone(), &again);
    let twice = twice.unwrap_or_else(|refusal| panic!("{}: {text}", refusal.message));
    assert_eq!(String::from_utf8_lossy(&twice), text);
    patched(&body);
}

/// A patch sets one member, removes two, and renames one unless the new name has a value.
fn patched(body: &Bytes) {
    const VERSION: &str = "anthropic_version";
    const LIMIT: [&str; 2] = ["max_completion_tokens", "max_tokens"];
    let set = [(VERSION.into(), "1".into())];
    let rename = [LIMIT.map(Into::into).into()];
    let patched = patch::apply(body, &set, &["model".into(), "seed".into()], &rename);
    let patched = patched.expect("an object");
    // JSON has numbers and surrogates that this reader refuses.
    let Ok(before) = serde_json::from_slice::<Map<String, Value>>(body) else {
        return assert!(is_json(&patched));
    };
    let is_given = before.get(LIMIT[1]).is_some_and(|it| !it.is_null());
    let mut expected = Map::from_iter([(VERSION.to_owned(), 1.into())]);
    for (key, value) in &before {
        let key = match key.as_str() {
            "model" | "seed" | VERSION => continue,
            name if name == LIMIT[0] && is_given => continue,
            name if name == LIMIT[0] => LIMIT[1],
            name if name == LIMIT[1] && !is_given && before.contains_key(LIMIT[0]) => continue,
            name => name,
        };
        expected.insert(key.to_owned(), value.clone());
    }
    let after: Map<String, Value> = serde_json::from_slice(&patched).expect("JSON");
    assert_eq!(after, expected, "{}", String::from_utf8_lossy(&patched));
}
