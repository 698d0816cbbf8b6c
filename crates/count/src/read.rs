//! What of a request the model reads: the text, the media, and how much framing stands around
//! them, over all three formats.
//!
//! One reading serves the three: their messages, parts, calls and results differ in names more
//! than in shape. What is known to be no text for the model (identifiers, signatures, marks of
//! caching) is left out; what is not known is counted by its strings, a field of the request
//! that is not known as JSON. The bytes of all the rest are added up, so that a bound covers them.

mod parts;
mod passed_over;
mod tools;

use crate::{Rules, json::Json};
use std::borrow::Cow;
use tollgate_types::{Format, is_free_of_tokens};

/// What was read of a body.
#[derive(Debug)]
pub(crate) struct Reading<'j> {
    rules: &'j Rules,
    /// All that is text to the model.
    pub(crate) texts: Vec<Cow<'j, str>>,
    /// Tokens around messages, tools, calls and results.
    pub(crate) framing: u64,
    /// Tokens of images, documents and sound.
    pub(crate) media: u64,
    /// Whether the size of something among the media had to be assumed.
    pub(crate) assumed: bool,
    /// Whether tools are offered.
    pub(crate) tools: bool,
    /// Bytes that the model is taken not to read, where that is not sure.
    pub(crate) passed_over: u64,
    /// Whether what is read belongs to the turn that goes on.
    in_turn: bool,
}

/// How deep content is followed into content. Deeper is not how any provider reads it.
const MAX_DEPTH: u8 = 16;

impl<'j> Reading<'j> {
    pub(crate) fn of(format: Format, body: &'j Json<'j>, rules: &'j Rules) -> Self {
        let mut reading = Self {
            rules,
            texts: Vec::new(),
            framing: rules.constant.into(),
            media: 0,
            assumed: false,
            tools: false,
            passed_over: 0,
            in_turn: true,
        };
        for (key, value) in body.members() {
            reading.field(format, key, value);
        }
        reading
    }

    fn field(&mut self, format: Format, key: &str, value: &'j Json<'j>) {
        match (format, key) {
            (Format::Chat, "messages") => value.elements().iter().for_each(|it| self.message(it)),
            (Format::Messages, "messages") => self.conversation(value.elements()),
            (Format::Responses, "input") => match value {
                Json::Text(_) => self.framed(value),
                _ => self.items(value.elements()),
            },
            (Format::Responses, "instructions") => {
                if value.as_text() != Some("") {
                    self.framed(value);
                }
            }
            (Format::Messages, "system") => self.content(value, 0),
            (_, "tools" | "functions") if matches!(value, Json::Array(_)) => {
                self.offered(value.elements());
            }
            (Format::Chat, "response_format") | (Format::Messages, "output_format") => {
                self.answer_schema(value)
            }
            (Format::Responses, "text") | (Format::Messages, "output_config") => {
                value
                    .get("format")
                    .into_iter()
                    .for_each(|it| self.answer_schema(it));
                self.rest_of(value, &["format", "verbosity", "effort"]);
            }
            (Format::Messages, "thinking") if value.text_of("type") != "disabled" => {
                self.frame(self.rules.thinking);
            }
            (Format::Chat, "reasoning") if value.text_of("effort") != "none" => {
                self.frame(self.rules.thinking);
            }
            (_, "tool_choice") if demands_a_call(value) => self.frame(self.rules.tools_forced),
            (Format::Chat, "prediction") => self.content(value, 0),
            (Format::Responses, "previous_response_id" | "conversation")
            | (Format::Messages, "container" | "mcp_servers") => {
                self.assumed |= !matches!(value, Json::Null);
            }
            (Format::Responses, "prompt") => {
                self.assumed = true;
                let variables = value.get("variables").map_or(&[][..], Json::members);
                variables.iter().for_each(|(_, it)| self.content(it, 0));
                self.rest_of(value, &["variables"]);
            }
            (Format::Messages, "context_management") => self.pass_over(value),
            _ if is_free_of_tokens(key.as_bytes()) => {}
            _ => self.json(value),
        }
    }

    /// Content that makes a message of its own.
    fn framed(&mut self, content: &'j Json<'j>) {
        if matches!(content, Json::Null) {
            return;
        }
        self.frame(self.rules.per_message);
        self.content(content, 0);
    }

    /// The messages of a messages request. Thinking of turns that are over is taken out by the
    /// provider: it counts from the last message on that is not made of results alone.
    fn conversation(&mut self, messages: &'j [Json<'j>]) {
        let turn = messages.iter().rposition(starts_turn).unwrap_or_default();
        for (place, message) in messages.iter().enumerate() {
            self.in_turn = place > turn;
            self.message(message);
        }
    }

    fn message(&mut self, message: &'j Json<'j>) {
        self.frame(self.rules.per_message);
        if message.members().is_empty() {
            self.pass_over(message);
        }
        for (key, value) in message.members() {
            match key.as_ref() {
                "content" if self.rules.drops_think && message.text_of("role") == "assistant" => {
                    self.answer(value);
                }
                "content" | "refusal" | "name" => self.content(value, 0),
                "tool_calls" => value.elements().iter().for_each(|it| self.call(it)),
                "function_call" => self.call(value),
                "tools" => self.offered(value.elements()),
                _ => self.pass_over_member(key, value),
            }
        }
    }

    /// An earlier answer, of which the model does not read how it came to it.
    fn answer(&mut self, content: &'j Json<'j>) {
        let Some(text) = content.as_text() else {
            return self.content(content, 0);
        };
        let said = text
            .rsplit_once("</think>")
            .map_or(text, |(_, said)| said.trim_start());
        self.add_passed_over(text.len().saturating_sub(said.len()));
        self.text(said);
    }

    /// The items of a responses request. Reasoning counts from the caller's last message on.
    fn items(&mut self, items: &'j [Json<'j>]) {
        let turn = items.iter().rposition(|it| it.text_of("role") == "user");
        for (place, item) in items.iter().enumerate() {
            self.in_turn = turn.is_none_or(|turn| place > turn);
            self.item(item);
        }
    }

    /// An item of a responses request.
    fn item(&mut self, item: &'j Json<'j>) {
        match item.text_of("type") {
            "" | "message" => self.message(item),
            "function_call" | "custom_tool_call" => self.call(item),
            "additional_tools" | "tool_search_output" => {
                self.offered(item.get("tools").map_or(&[][..], Json::elements));
                self.rest_of(item, &["tools"]);
            }
            "function_call_output" | "custom_tool_call_output" => self.result(item, "output", 0),
            _ => self.part(item, 0),
        }
    }

    fn text(&mut self, text: &'j str) {
        if !text.is_empty() {
            self.texts.push(Cow::Borrowed(text));
        }
    }

    /// JSON that the model reads as JSON.
    fn json(&mut self, value: &Json<'_>) {
        if !matches!(value, Json::Null) {
            self.texts.push(Cow::Owned(value.to_line()));
        }
    }

    fn frame(&mut self, tokens: u32) {
        self.framing = self.framing.saturating_add(tokens.into());
    }

    fn medium(&mut self, tokens: u64, is_known: bool) {
        self.media = self.media.saturating_add(tokens);
        self.assumed |= !is_known;
    }
}

/// Whether a message is the caller's own, and not the results of tools.
fn starts_turn(message: &Json<'_>) -> bool {
    let is_result = |part: &Json<'_>| part.text_of("type").ends_with("tool_result");
    let parts = message.get("content").map_or(&[][..], Json::elements);
    message.text_of("role") == "user" && (parts.is_empty() || !parts.iter().all(is_result))
}

/// Whether a choice of tools leaves none, or one of them at least, to the model.
fn demands_a_call(choice: &Json<'_>) -> bool {
    let word = choice.as_text().unwrap_or_else(|| choice.text_of("type"));
    !matches!(word, "" | "auto" | "none")
}
