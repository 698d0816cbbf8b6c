//! What the model reads of a request: the text, the media, and the framing around them.
//!
//! One reading serves every format: their messages, parts, calls and results differ in names more
//! than in shape. `formats` has the fields of each. Values that are known to be no text for the
//! model (identifiers, signatures, marks of caching) are left out. Of unknown values the strings
//! count; an unknown field of the request counts as JSON. The bytes of the rest are added up, so
//! that a bound covers them.

mod formats;
mod parts;
mod payloads;
mod tools;
mod uncounted;

use crate::{Rules, json::Json};
use std::borrow::Cow;
use tollgate_types::{Format, is_free_of_tokens};
use tollgate_wire::document::Kind;

/// What was read of a body.
#[derive(Debug)]
pub(crate) struct Reading<'j> {
    rules: &'j Rules,
    /// Text that the model reads.
    pub(crate) texts: Vec<Cow<'j, str>>,
    /// Tokens around messages, tools, calls and results.
    pub(crate) framing: u64,
    /// Tokens of images, documents and sound.
    pub(crate) media: u64,
    /// Tokens that media of unknown size can have beyond those.
    pub(crate) media_margin: u64,
    /// Whether the size of a medium had to be assumed.
    pub(crate) assumed: bool,
    /// Whether the request offers tools.
    pub(crate) tools: bool,
    /// Bytes that are not counted but reserved for.
    pub(crate) uncounted: u64,
    /// Bytes of labels so far that are free.
    labels: usize,
    /// Whether the reading is in the current turn.
    in_turn: bool,
}

/// The depth to which content is followed into content. No provider reads deeper.
const MAX_DEPTH: u8 = 16;

impl<'j> Reading<'j> {
    /// Reads these fields of a body.
    pub(crate) fn of(
        format: Format,
        fields: impl Iterator<Item = (Cow<'j, str>, Json<'j>)>,
        rules: &'j Rules,
    ) -> Self {
        let mut reading = Self {
            rules,
            texts: Vec::new(),
            framing: rules.constant.into(),
            media: 0,
            media_margin: 0,
            assumed: false,
            tools: false,
            uncounted: 0,
            labels: 0,
            in_turn: true,
        };
        for (key, value) in fields {
            reading.field(format, &key, value);
        }
        reading
    }

    fn field(&mut self, format: Format, key: &str, value: Json<'j>) {
        if formats::FIELDS[format](self, key, value) {
            return;
        }
        match key {
            "tools" | "functions" if value.kind() == Kind::Array => {
                self.offered(value.elements());
            }
            "tool_choice" if demands_a_call(value) => self.frame(self.rules.tools_forced),
            _ if is_free_of_tokens(key.as_bytes()) => {}
            _ => {
                self.add_uncounted(key.len());
                self.json(value);
            }
        }
    }

    /// An object of settings with the shape of the answer in it.
    fn answer_settings(&mut self, settings: Json<'j>) {
        if let Some(shape) = settings.get("format") {
            self.answer_schema(shape);
        }
        self.reserve_for_rest(settings, &["format"]);
    }

    /// Content that is a message of its own.
    fn framed(&mut self, content: Json<'j>) {
        if content.kind() == Kind::Null {
            return;
        }
        self.frame(self.rules.per_message);
        self.content(content, 0);
    }

    /// Messages of which the provider removes the thinking of past turns: thinking counts after the
    /// last message that is more than results.
    fn conversation(&mut self, messages: impl Iterator<Item = Json<'j>> + Clone) {
        let turn = last_place(messages.clone(), starts_turn).unwrap_or_default();
        for (place, message) in messages.enumerate() {
            self.in_turn = place > turn;
            self.message(message);
        }
    }

    fn message(&mut self, message: Json<'j>) {
        self.frame(self.rules.per_message);
        if message.members().next().is_none() {
            self.reserve_for(message);
        }
        for (key, value) in message.members() {
            match key.as_ref() {
                "content" if self.rules.drops_think && message.text_of("role") == "assistant" => {
                    self.answer(value);
                }
                "content" | "refusal" | "name" => self.content(value, 0),
                "tool_calls" if value.kind() == Kind::Array => {
                    value.elements().for_each(|it| self.call(it));
                }
                "function_call" if value.kind() == Kind::Object => self.call(value),
                _ => self.tools_of(&key, value),
            }
        }
    }

    /// A member of a message or an item that can be more tools.
    fn tools_of(&mut self, key: &str, value: Json<'j>) {
        if key == "tools" && value.kind() == Kind::Array {
            self.offered(value.elements());
        } else {
            self.reserve_for_member(key, value);
        }
    }

    /// An earlier answer, of which the model does not read the thinking.
    fn answer(&mut self, content: Json<'j>) {
        let Some(text) = content.as_text() else {
            return self.content(content, 0);
        };
        let thought = text.rsplit_once("</think>");
        let said = thought.map_or(&*text, |(_, said)| said.trim_start());
        let uncounted = text.len().saturating_sub(said.len());
        self.add_uncounted(uncounted);
        self.text(match uncounted {
            0 => text,
            _ => Cow::Owned(said.to_owned()),
        });
    }

    /// A list of items. Reasoning counts after the last message of the user.
    fn items(&mut self, items: impl Iterator<Item = Json<'j>> + Clone) {
        let turn = last_place(items.clone(), |it| it.text_of("role") == "user");
        for (place, item) in items.enumerate() {
            self.in_turn = turn.is_none_or(|turn| place > turn);
            self.item(item);
        }
    }

    /// An item of such a list.
    fn item(&mut self, item: Json<'j>) {
        match &*item.text_of("type") {
            "" | "message" => self.message(item),
            "function_call" | "custom_tool_call" => self.call(item),
            "additional_tools" | "tool_search_output" => {
                let members = item.members();
                members.for_each(|(key, value)| self.tools_of(&key, value));
            }
            "function_call_output" | "custom_tool_call_output" => self.result(item, "output", 0),
            _ => self.part(item, 0),
        }
    }

    fn text(&mut self, text: Cow<'j, str>) {
        if !text.is_empty() {
            self.texts.push(text);
        }
    }

    /// JSON that the model reads as JSON.
    fn json(&mut self, value: Json<'_>) {
        if value.kind() != Kind::Null {
            self.texts.push(Cow::Owned(value.to_line()));
        }
    }

    fn frame(&mut self, tokens: u32) {
        self.framing = self.framing.saturating_add(tokens.into());
    }
}

/// Whether a message is the user's own, and not only results of tools.
fn starts_turn(message: Json<'_>) -> bool {
    let is_result = |part: Json<'_>| part.text_of("type").ends_with("tool_result");
    let mut parts = message.elements_of("content").peekable();
    message.text_of("role") == "user" && (parts.peek().is_none() || !parts.all(is_result))
}

/// The place of the last value of a list that is found.
fn last_place<'j>(
    list: impl Iterator<Item = Json<'j>>,
    is_found: impl Fn(Json<'j>) -> bool,
) -> Option<usize> {
    let found = list.enumerate().filter(|(_, it)| is_found(*it));
    found.last().map(|(place, _)| place)
}

/// Whether a choice of tools requires the model to call one.
fn demands_a_call(choice: Json<'_>) -> bool {
    let word = choice.as_text().unwrap_or_else(|| choice.text_of("type"));
    !matches!(&*word, "" | "auto" | "none")
}
