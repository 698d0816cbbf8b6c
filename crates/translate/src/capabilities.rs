//! A request that needs no translation, made to fit what its provider accepts.
//!
//! It decides what the capabilities of a provider change in a body of the provider's own format, which
//! a lexer has checked. The bytes between the changes stay as the client wrote them. Whole fields that a
//! provider does not know, and fields with another name, are patched elsewhere (`BodyPatch`).

use crate::{
    Refusal, Strict,
    document::{Document, Kind, Text, Value},
    formats::{
        gemini::spelling::spelled,
        messages::thinking::{goes_on_unthought, without_members},
    },
    request::{
        reasoning::beside_tools,
        write::shared::{REMINDER, short_call_id},
    },
};
use bytes::Bytes;
use memchr::memmem;
use std::{borrow::Cow, ops::Range};
use tollgate_types::{Capabilities, Effort, Format, ReasoningMode, ThinkingRoom};
use tollgate_wire::{json::Span, splice::Splice};

/// Fields of chat that came later than most providers' copies of it (`capabilities.chat.openai`).
const NEWER_FIELDS: [&str; 7] = [
    "metadata",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "verbosity",
];

/// The beginning of the escape of any letter.
const ESCAPED_LETTER: &[u8] = b"\\u00";
const ENCRYPTED: &str = "reasoning.encrypted_content";

/// The sampling settings that a body has.
pub fn sampling_settings(body: &[u8]) -> Vec<&'static str> {
    let Ok(document) = Document::of_valid(body) else {
        return Vec::new();
    };
    let is_given = |name: &&str| document.root().given(name).is_some();
    let all = ["temperature", "top_p", "top_k"];
    all.into_iter().filter(is_given).collect()
}

/// A body without sampling settings that its model does not accept.
///
/// # Errors
/// The operator does not allow one of them to be dropped.
pub fn without_sampling(
    body: Bytes,
    settings: &[&'static str],
    strict: Strict<'_>,
) -> Result<Bytes, Refusal> {
    if let Some(path) = settings.iter().find(|path| strict.forbids(path)) {
        return Err(must_stay(path, "model"));
    }
    match settings {
        [] => Ok(body),
        settings => Ok(without_members(&body, settings).unwrap_or(body)),
    }
}

/// A body within the capabilities of its provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fitted {
    /// The body to send. It is the same memory as before if nothing changed.
    pub body: Bytes,
    /// The fields that were left out, by their paths, each once.
    pub dropped: Vec<&'static str>,
}

/// Whether a provider lacks a capability of the format. `has_top_k`: the request has `top_k`.
pub fn lacks_any(format: Format, capabilities: &Capabilities, has_top_k: bool) -> bool {
    !words(format, capabilities, has_top_k).is_empty() || !capabilities.refused_fields.is_empty()
}

/// A body without the top-level fields that its provider refuses, and the names of those that it had.
///
/// # Errors
/// The operator does not allow one of them to be dropped.
pub fn without_refused<'a>(
    body: Bytes,
    refused: &'a [String],
    strict: Strict<'_>,
) -> Result<(Bytes, Vec<&'a str>), Refusal> {
    let refused = refused.iter().map(String::as_str);
    let mut found: Vec<_> = refused.filter(|name| has_word(&body, name)).collect();
    if found.is_empty() {
        return Ok((body, found));
    }
    let Ok(document) = Document::of_valid(&body) else {
        return Ok((body, Vec::new()));
    };
    let top = document.root();
    found.retain(|name| top.get(name).is_some());
    let is_said = |name: &&&str| top.given(name).is_some();
    let dropped: Vec<_> = found.iter().filter(is_said).copied().collect();
    if let Some(path) = dropped.iter().find(|path| strict.forbids(path)) {
        return Err(must_stay(path, "provider"));
    }
    let rest = without_members(&body, &found);
    Ok((rest.unwrap_or(body), dropped))
}

fn must_stay(path: &str, by: &str) -> Refusal {
    let why =
        format!("is not accepted by this {by}, and it must not be dropped (`translation.strict`)");
    Refusal::new(path, why)
}

/// The refusal of more stop sequences than a provider accepts.
pub(crate) fn too_many_stops(path: &str, most: usize) -> Refusal {
    let message = match most {
        0 => "is not accepted by this model: leave it out".to_owned(),
        most => format!("must hold at most {most} entries for this model"),
    };
    Refusal::new(path, message)
}

/// Whether the request offers tools of free text to a chat provider that has none. Only a translation can
/// turn calls of a function back into calls of such a tool.
pub fn needs_custom_tools(format: Format, body: &[u8], capabilities: &Capabilities) -> bool {
    if format != Format::Chat || capabilities.chat.custom_tools {
        return false;
    }
    if !has_word(body, "custom") && memmem::find(body, ESCAPED_LETTER).is_none() {
        return false;
    }
    let Ok(document) = Document::of_valid(body) else {
        return false;
    };
    let top = document.root();
    let messages = top.get("messages").into_iter();
    has_custom(top, "tools")
        || messages
            .flat_map(Value::elements)
            .any(|message| has_custom(message, "tool_calls"))
}

/// Whether a list of tools or calls has one of free text.
fn has_custom(object: Value<'_>, list: &str) -> bool {
    let list = object.get(list).into_iter();
    list.flat_map(Value::elements)
        .any(|tool| tool.has("type", "custom"))
}

/// How a model reasons.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelReasoning<'a> {
    /// Its mode.
    pub mode: ReasoningMode,
    /// Its efforts; empty: all of the format.
    pub efforts: &'a [Effort],
}

/// Makes a body of the provider's own format fit its capabilities.
///
/// # Errors
/// The provider cannot do what the request depends on, or the operator does not allow a field to be
/// dropped.
pub fn within_capabilities(
    format: Format,
    body: Bytes,
    capabilities: &Capabilities,
    reasoning: ModelReasoning<'_>,
    has_top_k: bool,
    strict: Strict<'_>,
) -> Result<Fitted, Refusal> {
    let words = words(format, capabilities, has_top_k);
    let unchanged = |body| Fitted {
        body,
        dropped: Vec::new(),
    };
    let is_escaped = || memmem::find(&body, ESCAPED_LETTER).is_some();
    let has_words = words.iter().any(|word| has_word(&body, word));
    if words.is_empty() || !(has_words || is_escaped()) {
        return Ok(unchanged(body));
    }
    let (splice, dropped) = {
        let Ok(document) = Document::of_valid(&body) else {
            return Ok(unchanged(body));
        };
        let mut fitter = Fitter {
            can: capabilities,
            reasoning,
            splice: Splice::default(),
            dropped: Vec::new(),
        };
        match format {
            Format::Chat => fitter.chat(document.root())?,
            Format::Responses => fitter.responses(document.root()),
            Format::Messages => fitter.messages(document.root())?,
            _ => {}
        }
        check_stops(format, document.root(), capabilities)?;
        (fitter.splice, fitter.dropped)
    };
    if let Some(path) = dropped.iter().find(|path| strict.forbids(path)) {
        return Err(must_stay(path, "provider"));
    }
    if splice.is_empty() {
        return Ok(unchanged(body));
    }
    let spliced = splice.apply(std::slice::from_ref(&body));
    let spliced = spliced.map_err(|fault| Refusal::new("", fault.to_string()))?;
    Ok(Fitted {
        body: spliced.into_bytes(),
        dropped,
    })
}

/// Checks the number of stop sequences.
fn check_stops(format: Format, top: Value<'_>, can: &Capabilities) -> Result<(), Refusal> {
    let (stops, path) = match format {
        Format::Chat => (top.get("stop"), "stop"),
        Format::Messages => (top.get("stop_sequences"), "stop_sequences"),
        Format::Gemini => {
            let config = spelled(top, "generationConfig");
            let stops = config.and_then(|config| spelled(config, "stopSequences"));
            (stops, "generationConfig.stopSequences")
        }
        _ => return Ok(()),
    };
    let count = stops.map_or(0, |stops| match stops.as_str() {
        Some(text) => usize::from(!text.is_empty()),
        None => stops.elements().count(),
    });
    match can.max_stop_sequences.map(usize::from) {
        Some(most) if count > most => Err(too_many_stops(path, most)),
        _ => Ok(()),
    }
}

/// Words of which a body has one if it needs a change: a body without them is not parsed.
fn words(format: Format, can: &Capabilities, has_top_k: bool) -> Vec<&'static str> {
    let mut words = Vec::new();
    let mut unless = |is_known: bool, more: &[&'static str]| {
        if !is_known {
            words.extend_from_slice(more);
        }
    };
    let has_stops = can.max_stop_sequences.is_none();
    match format {
        Format::Chat => {
            let chat = &can.chat;
            unless(has_stops, &["stop"]);
            unless(chat.top_k || !has_top_k, &["top_k"]);
            unless(can.cache_breakpoints, &["prompt_cache_breakpoint"]);
            unless(chat.developer_role, &["developer"]);
            unless(chat.system_in_the_middle, &["system", "developer"]);
            unless(chat.effort_with_tools, &["reasoning_effort", "tools"]);
            unless(!chat.short_call_ids, &["tool_calls", "tool_call_id"]);
            unless(chat.openai, &NEWER_FIELDS);
            // Lists of parts.
            unless(chat.openai, &["moderation", "text"]);
        }
        Format::Responses => {
            unless(can.cache_breakpoints, &["prompt_cache_breakpoint"]);
            unless(
                can.responses.encrypted_reasoning,
                &[ENCRYPTED, "encrypted_content"],
            );
        }
        Format::Messages => {
            let messages = &can.messages;
            unless(has_stops, &["stop_sequences"]);
            unless(can.cache_breakpoints, &["cache_control"]);
            unless(messages.system_in_the_middle, &["system"]);
            unless(messages.adaptive_thinking, &["adaptive", "effort"]);
            unless(messages.thinking_can_be_disabled, &["disabled"]);
            unless(messages.structured_output, &["output_config"]);
        }
        Format::Gemini => unless(has_stops, &["stopSequences", "stop_sequences"]),
        _ => {}
    }
    words
}

/// Whether the body has this word as a string without escapes.
fn has_word(body: &[u8], word: &str) -> bool {
    memmem::find_iter(body, word).any(|at| {
        let end = at.saturating_add(word.len());
        let before = at.checked_sub(1).and_then(|before| body.get(before));
        before == Some(&b'"') && body.get(end) == Some(&b'"')
    })
}

/// In a JSON string.
fn escaped(text: &str) -> String {
    text.replace('\n', "\\n")
}

/// The texts of a list of text parts; `None` if it has other parts.
fn texts<'d>(content: Value<'d>) -> Option<Vec<Text<'d>>> {
    let text = |part: Value<'d>| match part.has("type", "text") {
        true => part.get("text").and_then(Value::text),
        false => None,
    };
    content.elements().map(text).collect()
}

/// The texts of a message; `None` if it has other parts.
fn said<'d>(message: Value<'d>) -> Option<Vec<Text<'d>>> {
    let content = message.get("content")?;
    match content.text() {
        Some(text) => Some(vec![text]),
        None => texts(content),
    }
}

/// Collects the changes of a body.
struct Fitter<'a> {
    can: &'a Capabilities,
    reasoning: ModelReasoning<'a>,
    splice: Splice,
    dropped: Vec<&'static str>,
}

impl Fitter<'_> {
    fn drop(&mut self, path: &'static str) {
        if !self.dropped.contains(&path) {
            self.dropped.push(path);
        }
    }

    fn replace(&mut self, range: Range<usize>, text: impl Into<Bytes>) {
        let offset = |at: usize| u64::try_from(at).unwrap_or(u64::MAX);
        let (start, end) = (offset(range.start), offset(range.end));
        self.splice.replace(Span { start, end }, text);
    }

    fn insert(&mut self, at: usize, text: impl Into<Bytes>) {
        self.replace(at..at, text);
    }

    /// Takes members out of an object, each with a comma beside it; whether there was one.
    fn take_out(&mut self, object: Value<'_>, is_out: impl Fn(Text<'_>) -> bool) -> bool {
        let mut members = object.members_with_places().peekable();
        let mut kept_before = false;
        let mut previous_end = object.span().start.saturating_add(1);
        let mut has_taken = false;
        while let Some((key, value)) = members.next() {
            let (start, end) = (key.span().start, value.span().end);
            if key.text().is_some_and(&is_out) {
                let next = members.peek().map_or(end, |(key, _)| key.span().start);
                let gap = match kept_before {
                    true => previous_end..end,
                    false => start..next,
                };
                self.replace(gap, Bytes::new());
                has_taken = true;
            } else {
                kept_before = true;
            }
            previous_end = end;
        }
        has_taken
    }

    /// Takes the cache marks of the elements of a list out.
    fn take_marks(&mut self, list: Value<'_>, mark: &str, path: &'static str) {
        for element in list.elements() {
            if self.take_out(element, |key| key.is(mark)) {
                self.drop(path);
            }
        }
    }

    fn set_role(&mut self, role: Value<'_>, name: &'static str) {
        self.replace(role.span(), format!("\"{name}\""));
    }

    fn chat(&mut self, top: Value<'_>) -> Result<(), Refusal> {
        let can = self.can.chat;
        let tools = top.get("tools").into_iter();
        let has_tools = tools.flat_map(Value::elements).next().is_some();
        let has_user = top.given("user").is_some();
        let mut out = Vec::new();
        if has_tools && !can.effort_with_tools && self.effort_beside_tools(top) {
            out.push("reasoning_effort");
        }
        for (key, value) in top.members_with_places() {
            let name = key.as_str().unwrap_or_default();
            match &*name {
                "messages" => self.chat_messages(value),
                "top_k" if !can.top_k => {
                    self.drop("top_k");
                    out.push("top_k");
                }
                "moderation" if !can.openai && !value.is_null() => {
                    let why = "cannot be sent: this provider has no moderation; leave it out";
                    return Err(Refusal::new("moderation", why));
                }
                "safety_identifier" if !can.openai && !has_user && !value.is_null() => {
                    self.replace(key.span(), r#""user""#);
                }
                name if !can.openai => {
                    let Some(field) = NEWER_FIELDS.iter().find(|field| **field == name) else {
                        continue;
                    };
                    out.push(field);
                    if !value.is_null() && !value.is("auto") {
                        self.drop(field);
                    }
                }
                _ => {}
            }
        }
        self.take_out(top, |key| out.iter().any(|name| key.is(name)));
        Ok(())
    }

    /// Sets the effort of a request with tools. `true`: it must be taken out.
    fn effort_beside_tools(&mut self, top: Value<'_>) -> bool {
        const FIELD: &str = "reasoning_effort";
        let given = top.get(FIELD);
        let asked = given.filter(|effort| !effort.is_null());
        let ModelReasoning { mode, efforts } = self.reasoning;
        let sent = beside_tools(asked.is_some(), mode, efforts);
        if asked.is_some() && (sent.is_none() || !top.has(FIELD, "none")) {
            self.drop(FIELD);
        }
        match (given, sent) {
            (given, None) => return given.is_some(),
            (Some(value), Some(_)) if value.is("none") => {}
            (Some(value), Some(_)) => self.replace(value.span(), r#""none""#),
            (None, Some(_)) => {
                let start = top.span().start.saturating_add(1);
                self.insert(start, r#""reasoning_effort":"none","#);
            }
        }
        false
    }

    fn chat_messages(&mut self, messages: Value<'_>) {
        let can = self.can.chat;
        let mut has_begun = false;
        let joined = match can.system_in_the_middle {
            true => 0,
            false => self.join_leading(messages),
        };
        for message in messages.elements().skip(joined) {
            if can.short_call_ids {
                self.shorten_call_ids(message);
            }
            let Some(role) = message.get("role") else {
                continue;
            };
            let instructs = role.is("system") || role.is("developer");
            let reminds = has_begun && instructs && !can.system_in_the_middle;
            has_begun |= !instructs;
            if reminds {
                self.set_role(role, "user");
            } else if role.is("developer") && !can.developer_role {
                self.set_role(role, "system");
            }
            let Some(content) = message.get("content") else {
                continue;
            };
            let joins = reminds || !(can.openai || role.is("user"));
            match content.kind() {
                Kind::String if reminds => self.remind(content),
                Kind::Array => match texts(content).filter(|_| joins) {
                    Some(texts) => {
                        // The texts of an answer are pieces of one.
                        let between: &[u8] = match () {
                            () if role.is("assistant") => b"",
                            () if role.is("tool") => b"\\n",
                            () => b"\\n\\n",
                        };
                        self.join(content, &texts, reminds, between);
                    }
                    None if !self.can.cache_breakpoints => {
                        let path = "messages[].content[].prompt_cache_breakpoint";
                        self.take_marks(content, "prompt_cache_breakpoint", path);
                    }
                    None => {}
                },
                _ => {}
            }
        }
    }

    /// Shortens the ids of the calls of a message, and the one that its result names.
    fn shorten_call_ids(&mut self, message: Value<'_>) {
        let calls = message.get("tool_calls").into_iter();
        let ids = calls
            .flat_map(Value::elements)
            .filter_map(|call| call.get("id"));
        for id in ids.chain(message.get("tool_call_id")) {
            if let Some(Cow::Owned(short)) = id.text().map(short_call_id) {
                self.replace(id.span(), format!("\"{short}\""));
            }
        }
    }

    /// Joins the instructions at the beginning into one message; returns how many these were, 0 if they stay
    /// as they are.
    fn join_leading(&mut self, messages: Value<'_>) -> usize {
        let instructs =
            |message: &Value<'_>| message.has("role", "system") || message.has("role", "developer");
        let leading: Vec<_> = messages.elements().take_while(instructs).collect();
        let [first, rest @ ..] = leading.as_slice() else {
            return 0;
        };
        let said: Option<Vec<_>> = leading.iter().copied().map(said).collect();
        let content = first.get("content");
        let (Some(content), Some(said), Some(last)) = (content, said, rest.last()) else {
            return 0;
        };
        if rest.iter().any(|message| message.given("name").is_some()) {
            self.drop("messages[].name");
        }
        let parts = rest.iter().filter_map(|message| message.get("content"));
        let mut parts = parts.flat_map(Value::elements);
        let mark = "prompt_cache_breakpoint";
        if parts.any(|part| part.given(mark).is_some()) {
            self.drop("messages[].content[].prompt_cache_breakpoint");
        }
        let is_developer = leading
            .iter()
            .all(|message| message.has("role", "developer"));
        if let Some(role) = first.get("role")
            && !(is_developer && self.can.chat.developer_role)
        {
            self.set_role(role, "system");
        }
        let mut said = said.concat();
        said.retain(|text| !text.is_blank());
        self.join(content, &said, false, b"\\n\\n");
        self.replace(first.span().end..last.span().end, Bytes::new());
        leading.len()
    }

    /// Turns an instruction, a string, into a reminder.
    fn remind(&mut self, content: Value<'_>) {
        let [open, close] = REMINDER.map(escaped);
        let Range { start, end } = content.span();
        self.insert(start.saturating_add(1), open);
        self.insert(end.saturating_sub(1), close);
    }

    /// Puts one string in the place of a list of texts.
    fn join(&mut self, content: Value<'_>, texts: &[Text<'_>], reminds: bool, between: &[u8]) {
        let mark = "prompt_cache_breakpoint";
        let is_marked = |part: Value<'_>| part.given(mark).is_some();
        if content.elements().any(is_marked) {
            self.drop("messages[].content[].prompt_cache_breakpoint");
        }
        let parts: Vec<_> = texts.iter().map(|text| text.json()).collect();
        let [open, close] = match reminds {
            true => REMINDER.map(escaped),
            false => Default::default(),
        };
        let text = [open.as_bytes(), &parts.join(between), close.as_bytes()].concat();
        self.replace(content.span(), [b"\"", &*text, b"\""].concat());
    }

    fn responses(&mut self, top: Value<'_>) {
        let has_state = self.can.responses.encrypted_reasoning;
        let include = top.get("include").filter(|_| !has_state);
        if let Some(include) = include
            && include.elements().any(|it| it.is(ENCRYPTED))
        {
            let kept = include.elements().filter(|it| !it.is(ENCRYPTED));
            let kept: Vec<_> = kept.map(Value::raw).collect();
            let list = [b"[".as_slice(), &kept.join(&b','), b"]"].concat();
            self.replace(include.span(), list);
            self.drop("include");
        }
        let items = top.get("input").into_iter();
        for item in items.flat_map(Value::elements) {
            if !has_state && item.has("type", "reasoning") {
                let is_given = item.given("encrypted_content").is_some();
                self.take_out(item, |key| key.is("encrypted_content"));
                if is_given {
                    self.drop("input[].encrypted_content");
                }
            }
            if self.can.cache_breakpoints {
                continue;
            }
            for (list, path) in [
                ("content", "input[].content[].prompt_cache_breakpoint"),
                ("output", "input[].output[].prompt_cache_breakpoint"),
            ] {
                if let Some(list) = item.get(list) {
                    self.take_marks(list, "prompt_cache_breakpoint", path);
                }
            }
        }
    }

    fn messages(&mut self, top: Value<'_>) -> Result<(), Refusal> {
        let can = self.can.messages;
        let has_marks = self.can.cache_breakpoints;
        let config = top.get("output_config");
        let format = config.and_then(|config| config.get("format"));
        if !can.structured_output && format.is_some_and(|format| !format.is_null()) {
            let why = "cannot be kept to by this model: it takes no schemas";
            return Err(Refusal::new("output_config.format", why));
        }
        let mut out = Vec::new();
        for (key, value) in top.members_with_places() {
            let name = key.as_str().unwrap_or_default();
            match &*name {
                "messages" => self.messages_turns(value),
                "system" if !has_marks => {
                    self.take_marks(value, "cache_control", "system[].cache_control");
                }
                "tools" if !has_marks => {
                    self.take_marks(value, "cache_control", "tools[].cache_control");
                }
                "cache_control" if !has_marks => {
                    self.drop("cache_control");
                    out.push("cache_control");
                }
                "thinking" if !self.messages_thinking(top, value) => {
                    self.drop("thinking");
                    out.push("thinking");
                }
                "output_config" if !can.adaptive_thinking => {
                    let others = value.members().any(|(key, _)| !key.is("effort"));
                    if value.get("effort").is_some() {
                        match others {
                            true => _ = self.take_out(value, |key| key.is("effort")),
                            false => out.push("output_config"),
                        }
                    }
                }
                _ => {}
            }
        }
        self.take_out(top, |key| out.iter().any(|name| key.is(name)));
        Ok(())
    }

    /// Asks for thinking as the provider can be asked. `false`: it cannot.
    fn messages_thinking(&mut self, top: Value<'_>, thinking: Value<'_>) -> bool {
        let can = self.can.messages;
        if thinking.has("type", "disabled") {
            return can.thinking_can_be_disabled;
        }
        if !thinking.has("type", "adaptive") || can.adaptive_thinking {
            return true;
        }
        if goes_on_unthought(top) {
            // Adaptive thinking may begin without the earlier thought, enabled thinking may not.
            return false;
        }
        let effort = top
            .get("output_config")
            .and_then(|config| config.get("effort"));
        let effort = effort.and_then(|effort| serde_json::from_slice(effort.raw()).ok());
        let budget = effort.unwrap_or(Effort::High).thinking_budget();
        let limit = top.get("max_tokens").and_then(Value::as_u64);
        let room = budget
            .zip(limit)
            .and_then(|(budget, limit)| ThinkingRoom::within(budget, limit, Some(limit)));
        let Some(ThinkingRoom { budget, .. }) = room else {
            return false;
        };
        let enabled = format!(r#"{{"type":"enabled","budget_tokens":{budget}}}"#);
        self.replace(thinking.span(), enabled);
        true
    }

    fn messages_turns(&mut self, messages: Value<'_>) {
        for message in messages.elements() {
            let content = message.get("content");
            let role = message.get("role").filter(|role| role.is("system"));
            if let Some(role) = role.filter(|_| !self.can.messages.system_in_the_middle) {
                self.set_role(role, "user");
                match content {
                    Some(text) if text.kind() == Kind::String => self.remind(text),
                    Some(blocks) if blocks.elements().next().is_some() => {
                        let [open, close] = REMINDER.map(str::trim);
                        let block = |text| format!(r#"{{"type":"text","text":"{text}"}}"#);
                        let Range { start, end } = blocks.span();
                        self.insert(start.saturating_add(1), format!("{},", block(open)));
                        self.insert(end.saturating_sub(1), format!(",{}", block(close)));
                    }
                    _ => {}
                }
            }
            if self.can.cache_breakpoints {
                continue;
            }
            for block in content.into_iter().flat_map(Value::elements) {
                let path = "messages[].content[].cache_control";
                if let Some(inner) = block.get("content") {
                    let path = "messages[].content[].content[].cache_control";
                    self.take_marks(inner, "cache_control", path);
                }
                if self.take_out(block, |key| key.is("cache_control")) {
                    self.drop(path);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
