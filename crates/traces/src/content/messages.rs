//! The messages of a request and of its answer in the form of the semantic conventions: a role and parts.
//!
//! It looks at the shape of a body, not at its format, and passes over what it does not know: a body that
//! a provider accepts may have fields that no table here has.

use super::is_empty_part;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};

/// The messages of a request.
#[derive(Default)]
pub(super) struct Prompt {
    /// Parts of the instructions, if they have a member of their own.
    pub(super) instructions: Vec<Value>,
    pub(super) messages: Vec<Value>,
}

/// Reads the body of a request.
pub(super) fn prompt(body: &[u8]) -> Prompt {
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return Prompt::default();
    };
    let members = [
        "system",
        "instructions",
        "systemInstruction",
        "system_instruction",
    ];
    let instructions = members.iter().filter_map(|name| body.get(name));
    let members = ["messages", "input", "contents", "query", "documents"];
    let messages = members.iter().filter_map(|name| body.get(name));
    Prompt {
        instructions: instructions.flat_map(parts).collect(),
        messages: messages
            .flat_map(|it| match it {
                Value::Array(items) => items.iter().filter_map(message).collect(),
                Value::String(_) => Vec::from_iter(message(it)),
                _ => Vec::new(),
            })
            .collect(),
    }
}

/// Reads an answer: a stream of events, or a body. `lacks_end`: its end is missing.
pub(super) fn answer(body: &[u8], lacks_end: bool) -> Vec<Value> {
    let text = String::from_utf8_lossy(body);
    if let Ok(body) = serde_json::from_str::<Value>(&text) {
        return whole(&body);
    }
    let mut stream = Stream::default();
    for line in text.lines() {
        let event = line.strip_prefix("data:").map(str::trim_start);
        let event = event.and_then(|event| serde_json::from_str::<Value>(event).ok());
        if let Some(event) = event {
            stream.take(&event);
        }
    }
    stream.into_messages(lacks_end)
}

/// The messages of an answer in one piece: those of its choices, or one of its own parts.
fn whole(body: &Value) -> Vec<Value> {
    if let Some(choices) = list(body, "choices").or_else(|| list(body, "candidates")) {
        let messages = choices.iter().map(|choice| {
            let message = choice.get("message").or_else(|| choice.get("content"));
            output(message.map_or_else(Vec::new, parts), stop(choice), false)
        });
        return messages.collect();
    }
    let parts: Vec<_> = match list(body, "output") {
        Some(items) => items.iter().flat_map(parts).collect(),
        None => body.get("content").map_or_else(Vec::new, parts),
    };
    match parts.is_empty() {
        true => Vec::new(),
        false => vec![output(parts, stop(body), false)],
    }
}

/// The stops of answers that have their end. Limits and filters cut an answer.
const WHOLE: [&str; 8] = [
    "STOP",
    "completed",
    "end_turn",
    "function_call",
    "stop",
    "stop_sequence",
    "tool_calls",
    "tool_use",
];

/// `lacks_end`: the end is missing, whatever the stop says.
fn output(mut parts: Vec<Value>, stop: &str, lacks_end: bool) -> Value {
    if lacks_end || !WHOLE.contains(&stop) {
        parts.iter_mut().for_each(leave_out_end);
        parts.retain(|part| !is_empty_part(part));
    }
    json!({"role": "assistant", "parts": parts, "finish_reason": stop})
}

/// Leaves out the last word of a text, and what may be the first groups of a number before it: half a secret
/// matches no pattern.
fn leave_out_end(part: &mut Value) {
    let is_of_number = |c: char| c.is_ascii_digit() || c.is_whitespace() || "@.()+-".contains(c);
    for name in ["content", "arguments"] {
        if let Some(Value::String(text)) = part.get_mut(name) {
            let words = text.rsplit_once(char::is_whitespace);
            let words = words.map_or("", |(words, _)| words);
            let end = words.trim_end_matches(is_of_number).len();
            text.truncate(end);
        }
    }
}

fn list<'a>(value: &'a Value, name: &str) -> Option<&'a Vec<Value>> {
    value.get(name)?.as_array()
}

fn string<'a>(value: &'a Value, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| value.get(name)?.as_str())
}

/// Why the model stopped, in the provider's word. Empty: it has not said so.
fn stop(value: &Value) -> &str {
    string(
        value,
        &["finish_reason", "finishReason", "stop_reason", "status"],
    )
    .unwrap_or_default()
}

/// A message or an item of the conversation.
fn message(value: &Value) -> Option<Value> {
    let parts = parts(value);
    if parts.is_empty() {
        return None;
    }
    let of_kind = match string(value, &["type"]) {
        Some(kind) if kind.ends_with("_output") => "tool",
        Some(kind) if kind.ends_with("_call") || kind == "reasoning" => "assistant",
        _ => "user",
    };
    let role = match string(value, &["role"]) {
        Some("model") => "assistant",
        Some(role) => role,
        None => of_kind,
    };
    Some(json!({"role": role, "parts": parts}))
}

/// The parts of a text, a message, an item or a list of parts.
fn parts(value: &Value) -> Vec<Value> {
    match value {
        Value::String(text) => Vec::from_iter(text_part("text", text)),
        Value::Array(values) => values.iter().flat_map(parts).collect(),
        Value::Object(members) => object_parts(value, members),
        _ => Vec::new(),
    }
}

fn text_part(kind: &str, text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| json!({"type": kind, "content": text}))
}

fn object_parts(value: &Value, members: &Map<String, Value>) -> Vec<Value> {
    if let Some(part) = tool_result(value).or_else(|| tool_call(value)) {
        return vec![part];
    }
    let mut found = Vec::new();
    for name in ["reasoning_content", "reasoning", "thinking"] {
        let text = string(value, &[name]);
        found.extend(text.and_then(|text| text_part("reasoning", text)));
    }
    let is_thought = members.get("thought").and_then(Value::as_bool) == Some(true);
    let is_reasoning = is_thought || string(value, &["type"]) == Some("reasoning");
    let kind = if is_reasoning { "reasoning" } else { "text" };
    for name in ["text", "refusal"] {
        let text = string(value, &[name]);
        found.extend(text.and_then(|text| text_part(kind, text)));
    }
    for name in ["summary", "content", "parts", "tool_calls"] {
        let inner = members.get(name).map_or_else(Vec::new, parts);
        found.extend(inner.into_iter().map(|mut part| {
            let kind = part.get_mut("type").filter(|kind| **kind == "text");
            if let (Some(kind), true) = (kind, is_reasoning) {
                *kind = json!("reasoning");
            }
            part
        }));
    }
    // A picture, a file, a search: named without what is in it.
    let has_role = members.contains_key("role");
    if found.is_empty() && !has_role {
        let media = ["inlineData", "fileData"];
        let media = media.into_iter().find(|name| members.contains_key(*name));
        let texts = ["text", "thinking", "reasoning", "message", "refusal"];
        let kind = string(value, &["type"]).or(media);
        let kind = kind.filter(|kind| !texts.iter().any(|it| kind.ends_with(it)));
        found.extend(kind.map(|kind| json!({"type": kind})));
    }
    found
}

fn tool_call(value: &Value) -> Option<Value> {
    let inner = value.get("function").or_else(|| value.get("functionCall"));
    let inner = inner.unwrap_or(value);
    let name = string(inner, &["name"])?;
    let arguments = ["arguments", "args", "input"];
    let arguments = arguments.iter().find_map(|it| inner.get(it))?;
    let parsed = arguments
        .as_str()
        .and_then(|text| serde_json::from_str(text).ok());
    let id = string(value, &["call_id", "id"]).or_else(|| string(inner, &["id"]));
    Some(json!({
        "type": "tool_call", "id": id, "name": name,
        "arguments": parsed.unwrap_or_else(|| arguments.clone()),
    }))
}

fn tool_result(value: &Value) -> Option<Value> {
    if let Some(inner) = value.get("functionResponse") {
        let id = string(inner, &["id", "name"]);
        let response = inner.get("response");
        return Some(json!({"type": "tool_call_response", "id": id, "response": response}));
    }
    let id = string(value, &["tool_call_id", "tool_use_id", "call_id"])?;
    let content = value.get("output").or_else(|| value.get("content"))?;
    let response = match content {
        // Pictures among the results are named, too.
        Value::Array(_) => Value::Array(parts(content)),
        _ => content.clone(),
    };
    Some(json!({"type": "tool_call_response", "id": id, "response": response}))
}

/// An answer that comes in events.
#[derive(Default)]
struct Stream {
    /// The parts of all choices.
    parts: Vec<StreamedPart>,
    /// Where each of them stands, by its choice, which part of that it is, and its kind.
    places: HashMap<(u64, String, &'static str), usize>,
    /// The last stop of each choice.
    stops: HashMap<u64, String>,
    /// The whole answer, if an event has repeated it.
    whole: Vec<Value>,
}

struct StreamedPart {
    choice: u64,
    kind: &'static str,
    id: Option<String>,
    name: Option<String>,
    text: String,
}

impl Stream {
    fn take(&mut self, event: &Value) {
        if let Some(choices) = list(event, "choices") {
            choices.iter().for_each(|choice| self.take_choice(choice));
        } else if let Some(candidates) = list(event, "candidates") {
            candidates.iter().for_each(|it| self.take_candidate(it));
        } else if let Some(response) = event.get("response") {
            let repeated = whole(response);
            if !repeated.is_empty() {
                self.whole = repeated;
            }
        } else {
            self.take_typed(event);
        }
    }

    fn add(&mut self, choice: u64, place: String, kind: &'static str, text: &str) {
        let part = self.part(choice, place, kind);
        part.text.push_str(text);
    }

    fn part(&mut self, choice: u64, place: String, kind: &'static str) -> &mut StreamedPart {
        let end = self.parts.len();
        let at = *self.places.entry((choice, place, kind)).or_insert(end);
        if at == end {
            self.parts.push(StreamedPart {
                choice,
                kind,
                id: None,
                name: None,
                text: String::new(),
            });
        }
        // It is there: it was found, or added as the last one.
        #[expect(clippy::indexing_slicing, reason = "the place was found above")]
        &mut self.parts[at]
    }

    fn stop_at(&mut self, choice: u64, value: &Value) {
        let reason = stop(value);
        if !reason.is_empty() {
            self.stops.insert(choice, reason.to_owned());
        }
    }

    fn take_choice(&mut self, value: &Value) {
        let choice = number(value, "index");
        self.stop_at(choice, value);
        let Some(delta) = value.get("delta") else {
            return;
        };
        for (names, kind) in [
            (["reasoning_content", "reasoning"], "reasoning"),
            (["content", "refusal"], "text"),
        ] {
            if let Some(text) = string(delta, &names) {
                self.add(choice, String::new(), kind, text);
            }
        }
        for call in list(delta, "tool_calls").into_iter().flatten() {
            let place = number(call, "index").to_string();
            let part = self.part(choice, place, "tool_call");
            let function = call.get("function").unwrap_or(&Value::Null);
            part.set(string(call, &["id"]), string(function, &["name"]));
            part.text
                .push_str(string(function, &["arguments"]).unwrap_or_default());
        }
    }

    fn take_candidate(&mut self, value: &Value) {
        let choice = number(value, "index");
        self.stop_at(choice, value);
        let Some(content) = value.get("content") else {
            return;
        };
        for part in parts(content) {
            let text = string(&part, &["content"]).unwrap_or_default();
            match string(&part, &["type"]) {
                Some("text") => self.add(choice, String::new(), "text", text),
                Some("reasoning") => self.add(choice, String::new(), "reasoning", text),
                Some("tool_call") => {
                    let place = self.parts.len().to_string();
                    let call = self.part(choice, place, "tool_call");
                    call.set(string(&part, &["id"]), string(&part, &["name"]));
                    call.text = part
                        .get("arguments")
                        .map(Value::to_string)
                        .unwrap_or_default();
                }
                _ => {}
            }
        }
    }

    /// An event that has its name in `type`: it is about a block or an item.
    fn take_typed(&mut self, event: &Value) {
        let block = ["index", "output_index"];
        let place = block.iter().find_map(|name| event.get(name)?.as_u64());
        let place = place.unwrap_or(0).to_string();
        if let Some(begun) = event.get("content_block").or_else(|| event.get("item")) {
            let kind = string(begun, &["type"]).unwrap_or_default();
            if let (Some(name), "tool_use" | "function_call") = (string(begun, &["name"]), kind) {
                let id = string(begun, &["call_id", "id"]);
                self.part(0, place, "tool_call").set(id, Some(name));
            }
            return;
        }
        let Some(delta) = event.get("delta") else {
            return;
        };
        self.stop_at(0, delta);
        let name = string(event, &["type"]).unwrap_or_default();
        let (kind, text) = match delta {
            Value::String(text) if name.contains("arguments") => ("tool_call", Some(&**text)),
            Value::String(text) if name.contains("reasoning") => ("reasoning", Some(&**text)),
            Value::String(text) => ("text", Some(&**text)),
            _ => ["partial_json", "thinking", "text"]
                .into_iter()
                .zip(["tool_call", "reasoning", "text"])
                .find_map(|(member, kind)| Some((kind, Some(string(delta, &[member])?))))
                .unwrap_or(("text", None)),
        };
        if let Some(text) = text {
            self.add(0, place, kind, text);
        }
    }

    fn into_messages(self, lacks_end: bool) -> Vec<Value> {
        if !self.whole.is_empty() {
            return self.whole;
        }
        let mut choices: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
        for part in &self.parts {
            let parts = choices.entry(part.choice).or_default();
            parts.extend(part.written());
        }
        let message = |(choice, parts): (u64, Vec<Value>)| {
            let stop = self.stops.get(&choice).map_or("", String::as_str);
            output(parts, stop, lacks_end || stop.is_empty())
        };
        choices.into_iter().map(message).collect()
    }
}

impl StreamedPart {
    fn set(&mut self, id: Option<&str>, name: Option<&str>) {
        self.id = id.map(str::to_owned).or_else(|| self.id.take());
        self.name = name.map(str::to_owned).or_else(|| self.name.take());
    }

    fn written(&self) -> Option<Value> {
        if self.kind != "tool_call" {
            return text_part(self.kind, &self.text);
        }
        let arguments = serde_json::from_str(&self.text);
        Some(json!({
            "type": "tool_call", "id": self.id, "name": self.name,
            "arguments": arguments.unwrap_or_else(|_| Value::String(self.text.clone())),
        }))
    }
}

fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or(0)
}
