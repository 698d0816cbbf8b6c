//! created, in_progress, {output_item.added, its parts, output_item.done}*, and the terminal
//! event that repeats everything; numbered without a gap.

use super::{document, ensure};
use crate::summary::{Summary, of_response, text};
use serde_json::{Value, json};

#[derive(Debug, Default)]
struct Machine {
    response: Option<Value>,
    stage: Stage,
    done: Vec<Value>,
    item: Option<Item>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Stage {
    #[default]
    Before,
    Created,
    Items,
    Over,
}

#[derive(Debug, Default)]
struct Item {
    id: String,
    kind: String,
    /// The parts that ended, and the one that is open.
    parts: Vec<Value>,
    open: Option<String>,
    annotations: Vec<Value>,
    /// The text of the open part, or the arguments.
    text: String,
    /// Of which everything is said.
    is_said: bool,
}

pub fn read(events: &[(Option<String>, String)]) -> Result<Summary, String> {
    let mut machine = Machine::default();
    for (number, (name, data)) in events.iter().enumerate() {
        ensure(data != "[DONE]", || "an end marker".into())?;
        let event = document(data)?;
        ensure(name.as_deref() == event["type"].as_str(), || {
            format!("named {name:?}: {data}")
        })?;
        ensure(event["sequence_number"] == number, || {
            format!("not {number}: {data}")
        })?;
        machine
            .step(&event)
            .map_err(|complaint| format!("{complaint}: {data}"))?;
    }
    ensure(machine.stage == Stage::Over, || "no terminal event".into())?;
    let response = machine.response.ok_or("no response")?;
    ensure(response["output"] == json!(machine.done), || {
        format!(
            "the end repeats {}\nafter {:?}",
            response["output"], machine.done
        )
    })?;
    Ok(of_response(&response))
}

impl Machine {
    fn step(&mut self, event: &Value) -> Result<(), String> {
        let kind = text(&event["type"])
            .strip_prefix("response.")
            .ok_or("unknown event")?;
        match (kind, self.stage) {
            ("created", Stage::Before) => {
                self.stage = Stage::Created;
                self.identify(&event["response"], "in_progress")
            }
            ("in_progress", Stage::Created) => {
                self.stage = Stage::Items;
                self.identify(&event["response"], "in_progress")
            }
            ("completed" | "incomplete", Stage::Items) => {
                ensure(self.item.is_none(), || "an item is open".into())?;
                self.stage = Stage::Over;
                self.identify(&event["response"], kind)?;
                let details = &event["response"]["incomplete_details"];
                ensure(details.is_null() == (kind == "completed"), || {
                    "details".into()
                })
            }
            ("output_item.added", Stage::Items) => self.add(event),
            ("output_item.done", Stage::Items) => self.end(event),
            (_, Stage::Items) => self.within(kind, event),
            _ => Err("not in its place".into()),
        }
    }

    fn identify(&mut self, response: &Value, status: &str) -> Result<(), String> {
        check_response(response)?;
        ensure(response["status"] == status, || "another status".into())?;
        if let Some(known) = self.response.replace(response.clone()) {
            for field in ["id", "created_at", "model"] {
                ensure(known[field] == response[field], || {
                    format!("{field} changed")
                })?;
            }
        }
        Ok(())
    }

    fn add(&mut self, event: &Value) -> Result<(), String> {
        ensure(self.item.is_none(), || "an item is open".into())?;
        ensure(event["output_index"] == self.done.len(), || {
            "wrong index".into()
        })?;
        let item = &event["item"];
        let kind = text(&item["type"]);
        let prefix = match kind {
            "message" => "msg_",
            "reasoning" => "rs_",
            "function_call" => "fc_",
            "custom_tool_call" => "ctc_",
            "web_search_call" => "ws_",
            _ => return Err("unknown item".into()),
        };
        ensure(text(&item["id"]).starts_with(prefix), || {
            "an id of another kind".into()
        })?;
        let is_known = self.done.iter().any(|done| done["id"] == item["id"]);
        ensure(!is_known, || "an id twice".into())?;
        ensure(
            kind == "reasoning" || item["status"] == "in_progress",
            || "status".into(),
        )?;
        if kind == "web_search_call" {
            ensure(item["action"]["type"] == "search", || "no action".into())?;
        } else if kind.ends_with("call") {
            ensure(!text(&item["call_id"]).is_empty(), || "no call_id".into())?;
            ensure(!text(&item["name"]).is_empty(), || "no name".into())?;
        }
        self.item = Some(Item {
            id: text(&item["id"]).into(),
            kind: kind.into(),
            ..Item::default()
        });
        Ok(())
    }

    fn within(&mut self, kind: &str, event: &Value) -> Result<(), String> {
        let index = self.done.len();
        let item = self.item.as_mut().ok_or("no item is open")?;
        ensure(event["item_id"] == *item.id, || "another item".into())?;
        ensure(event["output_index"] == index, || "another index".into())?;
        let part = item.parts.len();
        let (index, shape) = match item.kind.as_str() {
            "message" => ("content_index", "content_part"),
            "reasoning" => ("summary_index", "reasoning_summary_part"),
            "web_search_call" => return item.search(kind),
            _ => return item.call(kind, event),
        };
        ensure(event[index] == part, || "another part".into())?;
        match kind.strip_prefix(shape) {
            Some(".added") => item.begin_part(&event["part"]),
            Some(".done") => item.end_part(&event["part"]),
            _ => item.part(kind, event),
        }
    }

    fn end(&mut self, event: &Value) -> Result<(), String> {
        let item = self.item.take().ok_or("no item is open")?;
        ensure(event["output_index"] == self.done.len(), || {
            "wrong index".into()
        })?;
        let done = &event["item"];
        ensure(done["id"] == *item.id && done["type"] == *item.kind, || {
            "another item".into()
        })?;
        ensure(item.open.is_none(), || "a part is open".into())?;
        match item.kind.as_str() {
            "message" => {
                ensure(done["content"] == json!(item.parts), || {
                    "other parts".into()
                })?;
                ensure(!item.parts.is_empty(), || "an empty message".into())?;
                ensure(done["status"] != "in_progress", || "status".into())?;
            }
            "reasoning" => ensure(done["summary"] == json!(item.parts), || {
                "other parts".into()
            })?,
            "web_search_call" => {
                let has_found = done["status"] == "completed";
                let events = if has_found { 3 } else { 2 };
                ensure(item.parts.len() == events, || "events".into())?;
                check_search(done)?;
            }
            "function_call" => {
                ensure(item.is_said && done["arguments"] == *item.text, || {
                    "arguments".into()
                })?;
            }
            _ => ensure(item.is_said && done["input"] == *item.text, || {
                "input".into()
            })?,
        }
        self.done.push(done.clone());
        Ok(())
    }
}

impl Item {
    fn search(&mut self, kind: &str) -> Result<(), String> {
        const EVENTS: [&str; 3] = ["in_progress", "searching", "completed"];
        let name = kind
            .strip_prefix("web_search_call.")
            .ok_or("unknown event")?;
        ensure(EVENTS.get(self.parts.len()) == Some(&name), || {
            "not in its place".into()
        })?;
        self.parts.push(json!(name));
        Ok(())
    }

    fn call(&mut self, kind: &str, event: &Value) -> Result<(), String> {
        let (name, field) = match self.kind.as_str() {
            "function_call" => ("function_call_arguments", "arguments"),
            _ => ("custom_tool_call_input", "input"),
        };
        ensure(!self.is_said, || "after the end of the call".into())?;
        match kind.strip_prefix(name) {
            Some(".delta") => {
                self.text
                    .push_str(event["delta"].as_str().ok_or("no delta")?);
                Ok(())
            }
            Some(".done") => {
                self.is_said = true;
                ensure(event[field] == *self.text, || "another text".into())
            }
            _ => Err("unknown event".into()),
        }
    }

    fn begin_part(&mut self, part: &Value) -> Result<(), String> {
        ensure(self.open.is_none(), || "a part is open".into())?;
        let kind = text(&part["type"]);
        let is_known = match self.kind.as_str() {
            "message" => matches!(kind, "output_text" | "refusal"),
            _ => kind == "summary_text",
        };
        ensure(is_known, || "unknown part".into())?;
        self.open = Some(kind.into());
        self.text.clear();
        self.annotations.clear();
        self.is_said = false;
        Ok(())
    }

    fn part(&mut self, kind: &str, event: &Value) -> Result<(), String> {
        let open = self.open.as_deref().ok_or("no part is open")?;
        let (name, field) = match open {
            "output_text" => ("output_text", "text"),
            "refusal" => ("refusal", "refusal"),
            _ => ("reasoning_summary_text", "text"),
        };
        ensure(!self.is_said, || "after the end of the text".into())?;
        match kind.strip_prefix(name).ok_or("another part")? {
            ".delta" => {
                let piece = event["delta"].as_str().ok_or("no delta")?;
                ensure(!piece.is_empty(), || "an empty delta".into())?;
                self.text.push_str(piece);
                Ok(())
            }
            ".annotation.added" => {
                ensure(event["annotation_index"] == self.annotations.len(), || {
                    "index".into()
                })?;
                self.annotations.push(event["annotation"].clone());
                Ok(())
            }
            ".done" => {
                self.is_said = true;
                ensure(event[field] == *self.text, || "another text".into())
            }
            _ => Err("unknown event".into()),
        }
    }

    fn end_part(&mut self, part: &Value) -> Result<(), String> {
        let open = self.open.take().ok_or("no part is open")?;
        ensure(self.is_said, || "the text has not ended".into())?;
        ensure(part["type"] == open, || "another part".into())?;
        let field = if open == "refusal" { "refusal" } else { "text" };
        ensure(part[field] == *self.text, || "another text".into())?;
        if open == "output_text" {
            ensure(part["annotations"] == json!(self.annotations), || {
                "annotations".into()
            })?;
        }
        self.parts.push(part.clone());
        Ok(())
    }
}

pub fn body(response: &Value) -> Result<Summary, String> {
    check_response(response)?;
    let mut ids = std::collections::BTreeSet::new();
    for item in response["output"].as_array().ok_or("no output")? {
        let kind = text(&item["type"]);
        ensure(ids.insert(text(&item["id"])), || "an id twice".into())?;
        ensure(
            kind == "reasoning" || text(&item["status"]) != "in_progress",
            || "status".into(),
        )?;
        match kind {
            "message" => {
                let parts = item["content"].as_array().ok_or("no content")?;
                ensure(!parts.is_empty() && item["role"] == "assistant", || {
                    format!("{item}")
                })?;
            }
            "reasoning" => ensure(item["summary"].is_array(), || "no summary".into())?,
            "web_search_call" => {
                check_search(item)?;
                continue;
            }
            "function_call" => ensure(item["arguments"].is_string(), || format!("{item}"))?,
            "custom_tool_call" => ensure(item["input"].is_string(), || format!("{item}"))?,
            _ => return Err(format!("unknown item {item}")),
        }
        let is_call = kind.ends_with("call");
        let is_named = !text(&item["call_id"]).is_empty() && !text(&item["name"]).is_empty();
        ensure(is_call <= is_named, || format!("{item}"))?;
    }
    Ok(of_response(response))
}

/// A search that has ended.
fn check_search(item: &Value) -> Result<(), String> {
    let status = text(&item["status"]);
    ensure(matches!(status, "completed" | "failed"), || "status".into())?;
    let action = &item["action"];
    ensure(
        action["type"] == "search" && action["query"].is_string() && action["queries"].is_array(),
        || format!("{item}"),
    )
}

/// What every response has, whole or within an event.
pub fn check_response(response: &Value) -> Result<(), String> {
    ensure(text(&response["id"]).starts_with("resp_"), || {
        "id of another format".into()
    })?;
    ensure(response["object"] == "response", || "no response".into())?;
    ensure(response["model"] == "the-model", || "another model".into())?;
    ensure(response["created_at"].is_u64(), || "no created_at".into())?;
    for field in [
        "error",
        "incomplete_details",
        "instructions",
        "metadata",
        "output",
        "parallel_tool_calls",
        "temperature",
        "tool_choice",
        "tools",
        "top_p",
        "usage",
        "status",
        "text",
        "reasoning",
        "truncation",
        "store",
        "previous_response_id",
    ] {
        ensure(response.get(field).is_some(), || format!("no {field}"))?;
    }
    let usage = &response["usage"];
    let is_usage = usage.is_null()
        || usage["input_tokens"].is_u64()
            && usage["output_tokens"].is_u64()
            && usage["total_tokens"].is_u64()
            && usage["input_tokens_details"]["cached_tokens"].is_u64()
            && usage["input_tokens_details"]["cache_write_tokens"].is_u64()
            && usage["output_tokens_details"]["reasoning_tokens"].is_u64();
    ensure(is_usage, || format!("usage {usage}"))
}
