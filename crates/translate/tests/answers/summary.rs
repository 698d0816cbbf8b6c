//! The contents of an answer, whatever its format: to be compared across formats.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

/// An answer without its form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    pub text: String,
    pub refusal: String,
    pub thinking: String,
    pub calls: Vec<Call>,
    /// Sealed or native state of the reasoning.
    pub state: Vec<String>,
    /// Pages that the text refers to.
    pub pages: Vec<String>,
    /// In the format's own word.
    pub stop: Option<String>,
    pub usage: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    pub id: String,
    pub name: String,
    pub namespace: Option<String>,
    pub is_custom: bool,
    /// As it was written: JSON, or free text of a custom tool.
    pub contents: String,
}

impl Call {
    /// The arguments as a value, where they are JSON; nothing is the empty object.
    pub fn arguments(&self) -> Value {
        match self.contents.trim() {
            "" => Value::Object(serde_json::Map::new()),
            text => serde_json::from_str(text).unwrap_or(Value::String(text.into())),
        }
    }
}

/// The text of a value, or nothing.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The contents of a recorded stream, in a reading that tolerates deviations of providers.
pub fn of_stream(format: tollgate_types::Format, events: &[(Option<String>, String)]) -> Summary {
    use tollgate_types::Format;
    let documents: Vec<Value> = events
        .iter()
        .filter_map(|(_, data)| serde_json::from_str(data).ok())
        .collect();
    match format {
        Format::Chat => of_chat(documents.iter().flat_map(|chunk| {
            let choice = &chunk["choices"][0];
            (!choice.is_null()).then(|| (&choice["delta"], &choice["finish_reason"]))
        })),
        Format::Messages => of_blocks(
            &messages_blocks(&documents),
            documents
                .iter()
                .find_map(|event| event["delta"]["stop_reason"].as_str().map(str::to_owned)),
        ),
        Format::Gemini | Format::Converse => panic!("there are no recordings"),
        Format::Responses => {
            let done = documents
                .iter()
                .rev()
                .find(|event| event["response"]["output"].is_array());
            done.map(|event| of_response(&event["response"]))
                .unwrap_or_default()
        }
        Format::Embeddings | Format::Rerank => unreachable!("no conversation"),
    }
}

/// The contents of a recorded answer.
pub fn of_body(format: tollgate_types::Format, answer: &Value) -> Summary {
    use tollgate_types::Format;
    match format {
        Format::Chat => {
            let choice = &answer["choices"][0];
            of_chat([(&choice["message"], &choice["finish_reason"])].into_iter())
        }
        Format::Messages => {
            let blocks = answer["content"].as_array().map(Vec::as_slice);
            of_blocks(blocks.unwrap_or_default(), None)
        }
        Format::Responses => of_response(answer),
        Format::Gemini | Format::Converse => panic!("there are no recordings"),
        Format::Embeddings | Format::Rerank => unreachable!("no conversation"),
    }
}

/// Chat: messages or deltas, each with its finish reason.
pub fn of_chat<'a>(pieces: impl Iterator<Item = (&'a Value, &'a Value)>) -> Summary {
    let mut summary = Summary::default();
    let mut indexes: Vec<(u64, String)> = Vec::new();
    for (piece, reason) in pieces {
        match &piece["content"] {
            Value::String(content) => summary.text.push_str(content),
            Value::Array(parts) => {
                for part in parts {
                    summary.text.push_str(text(&part["text"]));
                    for thought in part["thinking"].as_array().into_iter().flatten() {
                        summary.thinking.push_str(text(&thought["text"]));
                    }
                }
            }
            _ => {}
        }
        summary.refusal.push_str(text(&piece["refusal"]));
        let named = ["reasoning_content", "reasoning"].map(|name| text(&piece[name]));
        let named = named.into_iter().find(|text| !text.is_empty());
        summary.thinking.push_str(named.unwrap_or_default());
        for detail in piece["reasoning_details"].as_array().into_iter().flatten() {
            if named.is_none() {
                summary.thinking.push_str(text(&detail["text"]));
                summary.thinking.push_str(text(&detail["summary"]));
            }
            let state = [text(&detail["signature"]), text(&detail["data"])];
            summary.state.extend(
                state
                    .into_iter()
                    .filter(|it| !it.is_empty())
                    .map(str::to_owned),
            );
        }
        for page in piece["annotations"].as_array().into_iter().flatten() {
            summary
                .pages
                .push(text(&page["url_citation"]["url"]).to_owned());
        }
        let whole = piece["tool_calls"].as_array().into_iter().flatten();
        for (place, call) in whole.enumerate() {
            let index = call["index"].as_u64().unwrap_or(place as u64);
            let id = text(&call["id"]);
            let is_new = !indexes
                .iter()
                .any(|(known, known_id)| *known == index && (id.is_empty() || id == known_id));
            if is_new {
                indexes.push((index, id.to_owned()));
                summary.calls.push(Call {
                    id: id.into(),
                    ..Call::default()
                });
            }
            let at = indexes
                .iter()
                .rposition(|(known, _)| *known == index)
                .unwrap();
            let known = &mut summary.calls[at];
            for (kind, field) in [("function", "arguments"), ("custom", "input")] {
                known.name.push_str(text(&call[kind]["name"]));
                known.contents.push_str(text(&call[kind][field]));
            }
            known.is_custom |= call["type"] == "custom";
        }
        if let Some(reason) = reason.as_str().filter(|reason| !reason.is_empty()) {
            summary.stop = Some(reason.to_owned());
        }
    }
    summary
}

/// Gemini: an answer of these parts.
pub fn of_parts(parts: &[Value]) -> Summary {
    let mut summary = Summary::default();
    for part in parts {
        match part["thought"] == true {
            true => summary.thinking.push_str(text(&part["text"])),
            false => summary.text.push_str(text(&part["text"])),
        }
        if let Some(call) = part.get("functionCall") {
            summary.calls.push(Call {
                id: text(&call["id"]).into(),
                name: text(&call["name"]).into(),
                contents: call["args"].to_string(),
                ..Call::default()
            });
        }
        let signature = STANDARD.decode(text(&part["thoughtSignature"])).unwrap();
        let lines = String::from_utf8(signature).unwrap();
        // A line without a space seals nothing.
        let seals = lines.lines().filter_map(|line| line.split_once(' '));
        let seals = seals.map(|(seal, _)| seal);
        summary.state.extend(seals.map(str::to_owned));
    }
    summary
}

/// Messages: the blocks of a stream, put together.
fn messages_blocks(documents: &[Value]) -> Vec<Value> {
    let mut blocks: Vec<Value> = Vec::new();
    let mut inputs: Vec<String> = Vec::new();
    for event in documents {
        let append = |place: &mut Value, piece: &Value| {
            *place = Value::String(format!("{}{}", text(place), text(piece)));
        };
        match text(&event["type"]) {
            "content_block_start" => {
                blocks.push(event["content_block"].clone());
                inputs.push(String::new());
            }
            "content_block_delta" => {
                let (block, delta) = (blocks.last_mut().unwrap(), &event["delta"]);
                for field in ["text", "thinking", "signature"] {
                    if !delta[field].is_null() {
                        append(&mut block[field], &delta[field]);
                    }
                }
                if let Some(citation) = delta.get("citation") {
                    match &mut block["citations"] {
                        Value::Array(citations) => citations.push(citation.clone()),
                        none => *none = Value::Array(vec![citation.clone()]),
                    }
                }
                inputs
                    .last_mut()
                    .unwrap()
                    .push_str(text(&delta["partial_json"]));
            }
            _ => {}
        }
    }
    for (block, input) in blocks.iter_mut().zip(inputs) {
        if !input.is_empty() {
            block["input"] = serde_json::from_str(&input).unwrap_or(Value::String(input));
        }
    }
    blocks
}

/// Messages: an answer of these blocks.
pub fn of_blocks(blocks: &[Value], stop: Option<String>) -> Summary {
    let mut summary = Summary {
        stop,
        ..Summary::default()
    };
    for block in blocks {
        match text(&block["type"]) {
            "text" => {
                summary.text.push_str(text(&block["text"]));
                for citation in block["citations"].as_array().into_iter().flatten() {
                    if citation["type"] == "web_search_result_location" {
                        summary.pages.push(text(&citation["url"]).to_owned());
                    }
                }
            }
            "thinking" | "redacted_thinking" => {
                summary.thinking.push_str(text(&block["thinking"]));
                let state = [text(&block["signature"]), text(&block["data"])];
                summary.state.extend(
                    state
                        .into_iter()
                        .filter(|it| !it.is_empty())
                        .map(str::to_owned),
                );
            }
            "tool_use" => summary.calls.push(Call {
                id: text(&block["id"]).into(),
                name: text(&block["name"]).into(),
                contents: block["input"].to_string(),
                ..Call::default()
            }),
            _ => {}
        }
    }
    summary
}

/// Responses: a response object.
pub fn of_response(response: &Value) -> Summary {
    let mut summary = Summary {
        stop: response["status"].as_str().map(str::to_owned),
        usage: Some(response["usage"].clone()),
        ..Summary::default()
    };
    for item in response["output"].as_array().into_iter().flatten() {
        match text(&item["type"]) {
            "message" => {
                for part in item["content"].as_array().into_iter().flatten() {
                    summary.text.push_str(text(&part["text"]));
                    summary.refusal.push_str(text(&part["refusal"]));
                    for page in part["annotations"].as_array().into_iter().flatten() {
                        if page["type"] == "url_citation" {
                            summary.pages.push(text(&page["url"]).to_owned());
                        }
                    }
                }
            }
            "reasoning" => {
                let parts = [&item["summary"], &item["content"]];
                let parts = parts.into_iter().filter_map(Value::as_array).flatten();
                let texts: Vec<&str> = parts.map(|part| text(&part["text"])).collect();
                summary.thinking.push_str(&texts.join("\n\n"));
                let state = item["encrypted_content"].as_str();
                summary.state.extend(state.map(str::to_owned));
            }
            kind @ ("function_call" | "custom_tool_call") => summary.calls.push(Call {
                id: text(&item["call_id"]).into(),
                name: text(&item["name"]).into(),
                namespace: item["namespace"].as_str().map(str::to_owned),
                is_custom: kind == "custom_tool_call",
                contents: [text(&item["arguments"]), text(&item["input"])].concat(),
            }),
            _ => {}
        }
    }
    summary
}
