//! What a request for a message asks for, checked as Anthropic's API checks it.

mod searched;

use super::{SIGNATURE, signature};
use crate::{
    ask::{self, Ask, InputTokens, Shape, Thinking, Tool, ToolChoice, ToolInput},
    fields::{Fields, Vendor, element},
    format::Fault,
    search, seed, tokens,
};
use searched::{check_citations, check_search, search_offer};
use serde_json::{Value, json};

const VENDOR: Vendor = Vendor::Anthropic;
/// The parameters of the API, its betas included.
const KNOWN: &[&str] = &[
    "billing_policy",
    "cache_control",
    "compaction",
    "container",
    "context_management",
    "diagnostics",
    "fallback_credit_token",
    "fallbacks",
    "inference_geo",
    "max_tokens",
    "mcp_servers",
    "messages",
    "metadata",
    "model",
    "output_config",
    "output_format",
    "service_tier",
    "speed",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "thread",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
    "user_profile_id",
    "workspace_id",
];
/// What a request only for a count may not hold.
const NOT_COUNTED: &[&str] = &[
    "max_tokens",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "metadata",
];
/// The fields whose words are input.
const INPUT: &[&str] = &["system", "tools", "messages"];
/// How agents mark text that the user has not written.
const REMINDER: &str = "<system-reminder>";

/// # Errors
/// The fault that the API would report.
pub(crate) fn read(request: &Value) -> Result<Ask, Fault> {
    let fields = Fields::of(request, "", VENDOR)?;
    fields.only(KNOWN)?;
    fields.required("model")?;
    fields.required("max_tokens")?;
    let max_tokens = fields.integer("max_tokens", 1, 1_000_000)?;
    fields.number("temperature", 0.0, 1.0)?;
    fields.number("top_p", 0.0, 1.0)?;
    fields.integer("top_k", 0, u64::MAX)?;
    let stop = fields
        .list("stop_sequences")?
        .map(Vec::as_slice)
        .unwrap_or_default();
    let thinking = thinking(&fields, max_tokens.unwrap_or(0))?;
    let tools = tools(&fields)?;
    let search = search_offer(&fields)?;
    let (tool_choice, parallel) = tool_choice(&fields, &tools, search.is_some(), thinking)?;
    let turns = Turns::read(&fields)?;
    turns.check_thought(&fields)?;
    let input = input_tokens(&fields, &turns);
    Ok(Ask {
        seed: ask::seed(request),
        stream: fields.flag("stream")?.unwrap_or(false),
        said: turns.said,
        tool_results: turns.results,
        called: turns.called,
        thoughts: turns.thoughts,
        tools,
        search,
        searches: turns.searches,
        tool_choice,
        parallel,
        max_tokens,
        stop: stop
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        shape: shape(&fields)?,
        thinking,
        input,
        ..Ask::plain(fields.text("model")?.unwrap_or(""), "")
    })
}

/// The number of input tokens of a request for a count.
///
/// # Errors
/// The fault that the API would report.
pub(crate) fn read_count(request: &Value) -> Result<u64, Fault> {
    let fields = Fields::of(request, "", VENDOR)?;
    fields.only(KNOWN)?;
    if let Some(name) = NOT_COUNTED.iter().find(|name| fields.get(name).is_some()) {
        return Err(Fault::bad_request(format!(
            "{name}: Extra inputs are not permitted"
        )));
    }
    fields.required("model")?;
    fields.text("model")?;
    tools(&fields)?;
    let turns = Turns::read(&fields)?;
    Ok(input_tokens(&fields, &turns).total())
}

/// What matters of a conversation.
#[derive(Default)]
struct Turns {
    said: String,
    results: Vec<String>,
    /// Calls since the user spoke.
    called: usize,
    /// Thoughts that came back.
    thoughts: usize,
    /// Searches that came back.
    searches: usize,
    /// How the model's last turn began.
    began_with: String,
    /// Whether the model has answered before.
    continues: bool,
}

impl Turns {
    fn read(fields: &Fields<'_>) -> Result<Self, Fault> {
        fields.required("messages")?;
        let messages = fields
            .list("messages")?
            .map(Vec::as_slice)
            .unwrap_or_default();
        if messages.is_empty() {
            return Err(Fault::bad_request(
                "messages: at least one message is required",
            ));
        }
        let mut turns = Self::default();
        let mut open: Vec<&str> = Vec::new();
        for (index, message) in messages.iter().enumerate() {
            let path = element(VENDOR, "messages", index);
            let fields = Fields::of(message, &path, VENDOR)?;
            fields.required("role")?;
            fields.required("content")?;
            match fields.text("role")?.unwrap_or("") {
                "user" => turns.user(&fields, &path, &mut open)?,
                "assistant" => {
                    turns.continues = true;
                    open = turns.assistant(&fields, &path)?;
                }
                "system" => {}
                _ => {
                    return Err(Fault::bad_request(format!(
                        "{path}.role: Input should be 'user' or 'assistant'"
                    )));
                }
            }
        }
        Ok(turns)
    }

    /// A model that thinks goes on from its own thought, not from a call without one. One that
    /// may choose whether it thinks takes both.
    fn check_thought(&self, fields: &Fields<'_>) -> Result<(), Fault> {
        let thinking = fields.object("thinking")?.and_then(|it| it.get("type"));
        let is_thought = self.began_with.ends_with("thinking");
        if thinking.is_none_or(|it| it != "enabled") || self.results.is_empty() || is_thought {
            return Ok(());
        }
        Err(Fault::bad_request(format!(
            "messages: Expected `thinking` or `redacted_thinking`, but found `{}`. When `thinking` is enabled, a final `assistant` message must start with a thinking block.",
            self.began_with
        )))
    }

    fn user(&mut self, fields: &Fields<'_>, path: &str, open: &mut Vec<&str>) -> Result<(), Fault> {
        let Some(Value::Array(blocks)) = fields.get("content") else {
            self.said = fields.text("content")?.unwrap_or("").to_owned();
            self.results.clear();
            self.called = 0;
            return answered(path, open);
        };
        let mut said = Vec::new();
        let mut results = Vec::new();
        for (index, block) in blocks.iter().enumerate() {
            let path = element(VENDOR, &format!("{path}.content"), index);
            let fields = Fields::of(block, &path, VENDOR)?;
            fields.required("type")?;
            match fields.text("type")?.unwrap_or("") {
                "text" => said.push(text_block(&fields, &path)?),
                "tool_result" => results.push(tool_result(&fields, &path, open)?),
                _ => {}
            }
        }
        answered(path, open)?;
        said.retain(|text| !text.trim_start().starts_with(REMINDER));
        if !said.is_empty() || results.is_empty() {
            self.said = said.join("\n");
            self.called = 0;
        }
        self.results = results;
        Ok(())
    }

    fn assistant<'a>(&mut self, fields: &Fields<'a>, path: &str) -> Result<Vec<&'a str>, Fault> {
        self.results.clear();
        self.began_with.clear();
        let Some(Value::Array(blocks)) = fields.get("content") else {
            fields.text("content")?;
            return Ok(Vec::new());
        };
        let mut calls = Vec::new();
        let mut searched = "";
        for (index, block) in blocks.iter().enumerate() {
            let path = element(VENDOR, &format!("{path}.content"), index);
            let fields = Fields::of(block, &path, VENDOR)?;
            fields.required("type")?;
            let kind = fields.text("type")?.unwrap_or("");
            if index == 0 {
                kind.clone_into(&mut self.began_with);
            }
            match kind {
                "text" => drop(text_block(&fields, &path)?),
                "thinking" => {
                    check_signature(&fields, &path)?;
                    self.thoughts += 1;
                }
                "tool_use" => calls.push(call(&fields, &path)?),
                "server_tool_use" => searched = call(&fields, &path)?,
                "web_search_tool_result" => {
                    check_search(&fields, &path, searched)?;
                    self.searches += 1;
                }
                _ => {}
            }
        }
        self.called += calls.len();
        Ok(calls)
    }
}

fn text_block<'a>(fields: &Fields<'a>, path: &str) -> Result<&'a str, Fault> {
    fields.required("text")?;
    check_citations(fields, path)?;
    match fields.text("text")?.unwrap_or("") {
        "" => {
            let message = format!("{path}: text content blocks must be non-empty");
            Err(Fault::bad_request(
                message.replace(&format!("{path}: "), "messages: "),
            ))
        }
        text => Ok(text),
    }
}

fn call<'a>(fields: &Fields<'a>, path: &str) -> Result<&'a str, Fault> {
    fields.required("id")?;
    fields.required("name")?;
    if !fields.required("input")?.is_object() {
        return Err(Fault::bad_request(format!(
            "{path}.input: Input should be a valid dictionary"
        )));
    }
    Ok(fields.text("id")?.unwrap_or(""))
}

fn tool_result(fields: &Fields<'_>, path: &str, open: &mut Vec<&str>) -> Result<String, Fault> {
    fields.required("tool_use_id")?;
    let id = fields.text("tool_use_id")?.unwrap_or("");
    let Some(at) = open.iter().position(|call| *call == id) else {
        return Err(Fault::bad_request(format!(
            "{path}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
        )));
    };
    open.swap_remove(at);
    Ok(match fields.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    })
}

/// Every call of the turn before must have its result in this one.
fn answered(path: &str, open: &mut Vec<&str>) -> Result<(), Fault> {
    if open.is_empty() {
        return Ok(());
    }
    let ids = open.join(", ");
    Err(Fault::bad_request(format!(
        "{path}: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )))
}

fn check_signature(fields: &Fields<'_>, path: &str) -> Result<(), Fault> {
    fields.required("thinking")?;
    fields.required("signature")?;
    let thought = fields.text("thinking")?.unwrap_or("");
    let proof = fields.text("signature")?.unwrap_or("");
    // A thought that was not shown comes back without its text.
    let is_of_thought = thought.is_empty() || signature(thought) == proof;
    if is_of_thought && seed::is_sealed(SIGNATURE, proof) {
        return Ok(());
    }
    Err(Fault::bad_request(format!(
        "{path}: Invalid `signature` in `thinking` block"
    )))
}

fn thinking(fields: &Fields<'_>, max_tokens: u64) -> Result<Thinking, Fault> {
    let Some(thinking) = fields.object("thinking")? else {
        return Ok(Thinking::Off);
    };
    let thinking = Fields::of(thinking, "thinking", VENDOR)?;
    thinking.required("type")?;
    match thinking.text("type")?.unwrap_or("") {
        "disabled" => return Ok(Thinking::Off),
        "adaptive" => {}
        "enabled" => {
            thinking.required("budget_tokens")?;
            let budget = thinking
                .integer("budget_tokens", 1024, u64::MAX)?
                .unwrap_or(0);
            if budget >= max_tokens {
                return Err(Fault::bad_request(
                    "`max_tokens` must be greater than `thinking.budget_tokens`.",
                ));
            }
        }
        other => {
            return Err(thinking.not_one_of("type", other, &["enabled", "disabled", "adaptive"]));
        }
    }
    if fields
        .number("temperature", 0.0, 1.0)?
        .is_some_and(|it| it < 1.0)
    {
        return Err(Fault::bad_request(
            "`temperature` may only be set to 1 when thinking is enabled.",
        ));
    }
    Ok(Thinking::Shown)
}

fn tools(fields: &Fields<'_>) -> Result<Vec<Tool>, Fault> {
    let offered = fields.list("tools")?.map(Vec::as_slice).unwrap_or_default();
    let mut tools = Vec::new();
    for (index, offer) in offered.iter().enumerate() {
        let path = element(VENDOR, "tools", index);
        let fields = Fields::of(offer, &path, VENDOR)?;
        if fields.text("type")?.is_some_and(|kind| kind != "custom") {
            // The provider's own tools: but for the search they are never used here.
            continue;
        }
        fields.required("name")?;
        let shape = fields.required("input_schema")?;
        if shape.get("type").is_none_or(|kind| kind != "object") {
            return Err(Fault::bad_request(format!(
                "{path}.custom.input_schema.type: Field required"
            )));
        }
        tools.push(Tool {
            name: fields.text("name")?.unwrap_or("").to_owned(),
            description: fields.text("description")?.unwrap_or("").to_owned(),
            namespace: None,
            input: ToolInput::Schema(shape.clone()),
        });
    }
    Ok(tools)
}

fn tool_choice(
    fields: &Fields<'_>,
    tools: &[Tool],
    has_search: bool,
    thinking: Thinking,
) -> Result<(ToolChoice, bool), Fault> {
    let Some(choice) = fields.object("tool_choice")? else {
        return Ok((ToolChoice::Auto, true));
    };
    let inner = Fields::of(choice, "tool_choice", VENDOR)?;
    inner.required("type")?;
    let parallel = !inner.flag("disable_parallel_tool_use")?.unwrap_or(false);
    let kind = inner.text("type")?.unwrap_or("");
    if matches!(kind, "any" | "tool") && thinking != Thinking::Off {
        return Err(Fault::bad_request(
            "Thinking may not be enabled when tool_choice forces tool use.",
        ));
    }
    let choice = match kind {
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::None,
        "any" => ToolChoice::Required,
        "tool" => {
            inner.required("name")?;
            let name = inner.text("name")?.unwrap_or("");
            let is_search = has_search && name == search::NAME;
            if !is_search && !tools.iter().any(|tool| tool.name == name) {
                return Err(Fault::bad_request(format!(
                    "Tool '{name}' not found in provided tools"
                )));
            }
            ToolChoice::Named(name.to_owned())
        }
        other => return Err(inner.not_one_of("type", other, &["auto", "any", "tool", "none"])),
    };
    Ok((choice, parallel))
}

fn shape(fields: &Fields<'_>) -> Result<Shape, Fault> {
    let config = fields
        .object("output_config")?
        .and_then(|config| config.get("format"));
    let Some(format) = config
        .or(fields.object("output_format")?)
        .filter(|it| !it.is_null())
    else {
        return Ok(Shape::Text);
    };
    let format = Fields::of(format, "output_config.format", VENDOR)?;
    format.required("type")?;
    match format.text("type")?.unwrap_or("") {
        "json_schema" => {
            let shape = format.required("schema")?;
            let open = json!({"type": "object"});
            Ok(Shape::Schema(if shape.is_object() {
                shape.clone()
            } else {
                open
            }))
        }
        other => Err(format.not_one_of("type", other, &["json_schema"])),
    }
}

/// A marked prompt is written to the cache on the first turn and read from it later;
/// then the last message alone is fresh.
fn input_tokens(fields: &Fields<'_>, turns: &Turns) -> InputTokens {
    let parts = INPUT.iter().filter_map(|name| fields.get(name));
    let total: u64 = parts.clone().map(tokens::estimate).sum();
    let last = fields
        .get("messages")
        .and_then(|all| all.as_array()?.last())
        .map_or(0, tokens::estimate);
    if !parts.chain(fields.get("cache_control")).any(has_mark) {
        return InputTokens {
            fresh: total,
            ..InputTokens::default()
        };
    }
    let marked = total.saturating_sub(last);
    if turns.continues {
        InputTokens {
            fresh: total - marked,
            cache_read: marked,
            cache_write: 0,
        }
    } else {
        InputTokens {
            fresh: total - marked,
            cache_read: 0,
            cache_write: marked,
        }
    }
}

fn has_mark(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.get("type").is_some_and(|kind| kind == "ephemeral")
                || fields.get("cache_control").is_some_and(Value::is_object)
                || fields.values().any(has_mark)
        }
        Value::Array(items) => items.iter().any(has_mark),
        _ => false,
    }
}
