//! message_start, {content_block_start, content_block_delta*, content_block_stop}*,
//! message_delta, message_stop; pings between.

use super::{document, ensure};
use crate::summary::{Summary, of_blocks, text};
use serde_json::{Value, json};

#[derive(Debug, Default)]
struct Machine {
    blocks: Vec<Value>,
    open: Option<Open>,
    stage: Stage,
    summary: Summary,
}

#[derive(Debug)]
struct Open {
    kind: String,
    input: String,
    is_signed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Stage {
    #[default]
    Before,
    Blocks,
    Delta,
    Over,
}

pub fn read(events: &[(Option<String>, String)]) -> Result<Summary, String> {
    let mut machine = Machine::default();
    for (name, data) in events {
        let event = document(data)?;
        ensure(name.as_deref() == event["type"].as_str(), || {
            format!("named {name:?}: {data}")
        })?;
        machine
            .step(&event)
            .map_err(|complaint| format!("{complaint}: {data}"))?;
    }
    ensure(machine.stage == Stage::Over, || "no message_stop".into())?;
    let summary = of_blocks(&machine.blocks, machine.summary.stop.clone());
    let calls = machine
        .blocks
        .iter()
        .any(|block| block["type"] == "tool_use");
    ensure(calls || summary.stop.as_deref() != Some("tool_use"), || {
        "tool_use without a call".into()
    })?;
    Ok(Summary {
        usage: machine.summary.usage,
        ..summary
    })
}

impl Machine {
    fn step(&mut self, event: &Value) -> Result<(), String> {
        let kind = text(&event["type"]);
        ensure(self.stage != Stage::Over, || "after the end".into())?;
        ensure(
            (kind == "message_start") == (self.stage == Stage::Before),
            || "not in its place".into(),
        )?;
        match kind {
            "ping" => Ok(()),
            "message_start" => self.start(&event["message"]),
            "content_block_start" => self.begin(event),
            "content_block_delta" => self.delta(event),
            "content_block_stop" => self.stop(event),
            "message_delta" => self.end(event),
            "message_stop" => {
                ensure(self.stage == Stage::Delta, || "no message_delta".into())?;
                self.stage = Stage::Over;
                Ok(())
            }
            _ => Err("unknown event".into()),
        }
    }

    fn start(&mut self, message: &Value) -> Result<(), String> {
        self.stage = Stage::Blocks;
        check_message(message)?;
        ensure(message["content"] == json!([]), || {
            "content at the start".into()
        })?;
        ensure(message["stop_reason"].is_null(), || {
            "stopped at the start".into()
        })
    }

    fn begin(&mut self, event: &Value) -> Result<(), String> {
        ensure(self.stage == Stage::Blocks && self.open.is_none(), || {
            "a block is open".into()
        })?;
        ensure(event["index"] == self.blocks.len(), || "wrong index".into())?;
        let block = &event["content_block"];
        let kind = text(&block["type"]);
        match kind {
            "text" => {
                ensure(block["text"] == "", || "text at the start".into())?;
                check_citations(block)?;
            }
            "thinking" => ensure(block["thinking"] == "" && block["signature"] == "", || {
                "thinking at the start".into()
            })?,
            "tool_use" => {
                ensure(block["input"] == json!({}), || "input at the start".into())?;
                check_call(block)?;
            }
            "server_tool_use" => {
                ensure(block["input"] == json!({}), || "input at the start".into())?;
                check_search(block)?;
            }
            "web_search_tool_result" => check_result(self.blocks.last(), block)?,
            _ => return Err("unknown block".into()),
        }
        self.open = Some(Open {
            kind: kind.into(),
            input: String::new(),
            is_signed: false,
        });
        self.blocks.push(block.clone());
        Ok(())
    }

    fn delta(&mut self, event: &Value) -> Result<(), String> {
        let last = self.blocks.len().wrapping_sub(1);
        let open = self.open.as_mut().ok_or("no block is open")?;
        ensure(event["index"] == last, || "wrong index".into())?;
        let delta = &event["delta"];
        let field = match (open.kind.as_str(), text(&delta["type"])) {
            ("text", "text_delta") => "text",
            ("thinking", "thinking_delta") if !open.is_signed => "thinking",
            ("thinking", "signature_delta") if !open.is_signed => {
                open.is_signed = true;
                "signature"
            }
            ("text", "citations_delta") => {
                check_citation(&delta["citation"])?;
                let block = self.blocks.last_mut().ok_or("no block")?;
                if !block["citations"].is_array() {
                    block["citations"] = json!([]);
                }
                let citations = block["citations"].as_array_mut();
                citations.ok_or("no list")?.push(delta["citation"].clone());
                return Ok(());
            }
            ("tool_use" | "server_tool_use", "input_json_delta") => {
                open.input
                    .push_str(delta["partial_json"].as_str().ok_or("no text")?);
                return Ok(());
            }
            _ => return Err("a delta of another kind".into()),
        };
        let piece = delta[field].as_str().ok_or("no text")?;
        let block = self.blocks.last_mut().ok_or("no block")?;
        block[field] = json!(format!("{}{piece}", text(&block[field])));
        Ok(())
    }

    fn stop(&mut self, event: &Value) -> Result<(), String> {
        let last = self.blocks.len().wrapping_sub(1);
        let open = self.open.take().ok_or("no block is open")?;
        ensure(event["index"] == last, || "wrong index".into())?;
        let block = self.blocks.last_mut().ok_or("no block")?;
        match open.kind.as_str() {
            "text" => ensure(block["text"] != "", || "an empty text".into()),
            "thinking" => ensure(open.is_signed, || "no signature".into()),
            "web_search_tool_result" => Ok(()),
            _ => {
                let input = match open.input.as_str() {
                    "" => json!({}),
                    input => serde_json::from_str(input).unwrap_or(json!(input)),
                };
                block["input"] = input;
                Ok(())
            }
        }
    }

    fn end(&mut self, event: &Value) -> Result<(), String> {
        ensure(self.stage == Stage::Blocks && self.open.is_none(), || {
            "a block is open".into()
        })?;
        self.stage = Stage::Delta;
        let delta = &event["delta"];
        let stop = delta["stop_reason"].as_str().ok_or("no stop_reason")?;
        for field in ["stop_sequence", "stop_details"] {
            ensure(delta.get(field).is_some(), || format!("no {field}"))?;
        }
        check_usage(&event["usage"])?;
        for block in &self.blocks {
            let is_cut = stop == "max_tokens" || stop == "refusal";
            ensure(
                block["type"] != "tool_use" || block["input"].is_object() || is_cut,
                || format!("input is no object: {block}"),
            )?;
        }
        check_searches(&self.blocks)?;
        self.summary.stop = Some(stop.into());
        self.summary.usage = Some(event["usage"].clone());
        Ok(())
    }
}

pub fn body(message: &Value) -> Result<Summary, String> {
    check_message(message)?;
    let stop = message["stop_reason"].as_str().ok_or("no stop_reason")?;
    let blocks = message["content"].as_array().ok_or("no content")?;
    check_searches(blocks)?;
    for block in blocks {
        match text(&block["type"]) {
            "server_tool_use" | "web_search_tool_result" => {}
            "text" => {
                ensure(!text(&block["text"]).is_empty(), || "an empty text".into())?;
                ensure(block["citations"].is_array(), || "no citations".into())?;
            }
            "thinking" => ensure(
                block["thinking"].is_string() && block["signature"].is_string(),
                || format!("{block}"),
            )?,
            "tool_use" => {
                check_call(block)?;
                ensure(block["input"].is_object(), || format!("{block}"))?;
            }
            _ => return Err(format!("unknown block {block}")),
        }
    }
    let is_calling = blocks.iter().any(|block| block["type"] == "tool_use");
    ensure(is_calling || stop != "tool_use", || {
        "tool_use without a call".into()
    })?;
    Ok(Summary {
        usage: Some(message["usage"].clone()),
        ..of_blocks(blocks, Some(stop.into()))
    })
}

/// What every message has, whole or as its stream begins.
pub fn check_message(message: &Value) -> Result<(), String> {
    ensure(text(&message["id"]).starts_with("msg_"), || {
        "id of another format".into()
    })?;
    ensure(
        message["type"] == "message" && message["role"] == "assistant",
        || "no message of the assistant".into(),
    )?;
    ensure(message["model"] == "the-model", || "another model".into())?;
    for field in ["stop_reason", "stop_sequence", "stop_details", "container"] {
        ensure(message.get(field).is_some(), || format!("no {field}"))?;
    }
    check_usage(&message["usage"])
}

pub fn check_call(block: &Value) -> Result<(), String> {
    let id = text(&block["id"]);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    ensure(!id.is_empty() && id.chars().all(is_plain), || {
        format!("id {id}")
    })?;
    ensure(!text(&block["name"]).is_empty(), || "no name".into())
}

fn check_search(block: &Value) -> Result<(), String> {
    let id = text(&block["id"]).strip_prefix("srvtoolu_");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    ensure(
        id.is_some_and(|id| !id.is_empty() && id.chars().all(is_plain)),
        || format!("id of a search: {block}"),
    )?;
    ensure(block["name"] == "web_search", || format!("{block}"))
}

/// A result stands right after its search, and says where it is from or why there is none.
fn check_result(call: Option<&Value>, block: &Value) -> Result<(), String> {
    let id = call.map(|call| &call["id"]);
    ensure(id == Some(&block["tool_use_id"]), || {
        format!("a result without its search: {block}")
    })?;
    let Some(pages) = block["content"].as_array() else {
        return ensure(
            block["content"]["type"] == "web_search_tool_result_error"
                && block["content"]["error_code"].is_string(),
            || format!("{block}"),
        );
    };
    for page in pages {
        let is_page = page["type"] == "web_search_result"
            && ["url", "title", "encrypted_content"]
                .iter()
                .all(|field| page[field].is_string())
            && page.get("page_age").is_some();
        ensure(is_page, || format!("{page}"))?;
    }
    Ok(())
}

/// Every search has its words and its result.
fn check_searches(blocks: &[Value]) -> Result<(), String> {
    let mut last = None;
    for block in blocks {
        let is_result = block["type"] == "web_search_tool_result";
        if let Some(call) = last.take() {
            ensure(is_result, || format!("a search without a result: {call}"))?;
            check_result(Some(call), block)?;
        } else {
            ensure(!is_result, || {
                format!("a result without its search: {block}")
            })?;
        }
        if block["type"] == "server_tool_use" {
            check_search(block)?;
            ensure(block["input"]["query"].is_string(), || format!("{block}"))?;
            last = Some(block);
        }
        for citation in block["citations"].as_array().into_iter().flatten() {
            check_citation(citation)?;
        }
    }
    ensure(last.is_none(), || "a search without a result".into())
}

/// Some clients refuse `null`.
fn check_citations(block: &Value) -> Result<(), String> {
    let citations = block.get("citations");
    ensure(citations.is_none_or(Value::is_array), || format!("{block}"))
}

fn check_citation(citation: &Value) -> Result<(), String> {
    let fields = ["url", "title", "cited_text", "encrypted_index"];
    let is_whole = fields.iter().all(|field| citation[field].is_string());
    ensure(
        is_whole && citation["type"] == "web_search_result_location",
        || format!("{citation}"),
    )
}

fn check_usage(usage: &Value) -> Result<(), String> {
    for field in [
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
    ] {
        ensure(usage[field].is_u64(), || format!("no {field}"))?;
    }
    Ok(())
}
