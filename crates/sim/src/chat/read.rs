//! What a chat completion request asks for, checked as OpenAI's API checks it.

use crate::{
    ask::{self, Ask, Shape, Thinking, Tool, ToolChoice, ToolInput},
    fields::{self, Fields, Vendor, element},
    format::Fault,
    tokens,
};
use serde_json::{Value, json};

const VENDOR: Vendor = Vendor::OpenAi;
/// The parameters of the API, and `reasoning`, which routers of this format know.
const KNOWN: &[&str] = &[
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "modalities",
    "model",
    "moderation",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "web_search_options",
];
const ROLES: &[&str] = &[
    "system",
    "developer",
    "user",
    "assistant",
    "tool",
    "function",
];

/// # Errors
/// The fault that the API would report.
pub(crate) fn read(request: &Value) -> Result<Ask, Fault> {
    let fields = Fields::of(request, "", VENDOR)?;
    fields.only(KNOWN)?;
    let model = fields
        .text("model")?
        .map_or_else(|| fields.required("model").map(|_| ""), Ok)?;
    let messages = fields.list("messages")?;
    let messages = messages.map_or_else(|| Err(missing(&fields)), Ok)?;
    if messages.is_empty() {
        let message = "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.";
        return Err(Fault::bad_request(message)
            .at("messages")
            .code("empty_array"));
    }
    check_numbers(&fields)?;
    let turns = Turns::read(messages)?;
    let tools = tools(&fields)?;
    let input: u64 = ["messages", "tools", "response_format"]
        .iter()
        .filter_map(|name| fields.get(name))
        .map(tokens::estimate)
        .sum();
    Ok(Ask {
        seed: ask::seed(request),
        stream: fields.flag("stream")?.unwrap_or(false),
        said: turns.said,
        tool_results: turns.results,
        called: turns.called,
        thoughts: turns.thoughts,
        tool_choice: tool_choice(&fields, &tools)?,
        tools,
        parallel: fields.flag("parallel_tool_calls")?.unwrap_or(true),
        max_tokens: limit(&fields)?,
        stop: stop(&fields)?,
        shape: shape(&fields)?,
        thinking: thinking(&fields)?,
        choices: count(&fields)?,
        input: ask::prompt_cache(input, turns.continues),
        ..Ask::plain(model, "")
    })
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
    /// Whether the model has answered before.
    continues: bool,
}

impl Turns {
    fn read(messages: &[Value]) -> Result<Self, Fault> {
        let mut turns = Self::default();
        let mut open: Vec<&str> = Vec::new();
        for (index, message) in messages.iter().enumerate() {
            let path = element(VENDOR, "messages", index);
            let fields = Fields::of(message, &path, VENDOR)?;
            let role = fields
                .required("role")
                .and_then(|_| fields.text("role"))?
                .unwrap_or("");
            if role != "tool" && !open.is_empty() {
                let ids = open.join(", ");
                return Err(Fault::bad_request(format!("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {ids}")).at(&path));
            }
            match role {
                "user" => {
                    turns.said = content(&fields)?;
                    turns.results.clear();
                    turns.called = 0;
                }
                "assistant" => {
                    turns.continues = true;
                    open = call_ids(&fields)?;
                    turns.results.clear();
                    turns.called += open.len();
                    // Vendors of open models need it back; OpenAI passes over it.
                    let thought = fields.text("reasoning_content")?.unwrap_or("");
                    turns.thoughts += usize::from(!thought.is_empty());
                }
                "tool" => turns.result(&fields, &mut open, &path)?,
                role if ROLES.contains(&role) => {}
                role => return Err(fields.not_one_of("role", role, ROLES)),
            }
        }
        Ok(turns)
    }

    fn result(
        &mut self,
        fields: &Fields<'_>,
        open: &mut Vec<&str>,
        path: &str,
    ) -> Result<(), Fault> {
        fields.required("tool_call_id")?;
        let id = fields.text("tool_call_id")?.unwrap_or("");
        let Some(at) = open.iter().position(|call| *call == id) else {
            let message = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.";
            return Err(Fault::bad_request(message).at(&format!("{path}.role")));
        };
        open.swap_remove(at);
        self.results.push(content(fields)?);
        Ok(())
    }
}

fn call_ids<'a>(fields: &Fields<'a>) -> Result<Vec<&'a str>, Fault> {
    let calls = fields
        .list("tool_calls")?
        .map(Vec::as_slice)
        .unwrap_or_default();
    Ok(calls
        .iter()
        .filter_map(|call| call.get("id")?.as_str())
        .collect())
}

fn content(fields: &Fields<'_>) -> Result<String, Fault> {
    match fields.required("content")? {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            Ok(texts.collect::<Vec<_>>().join("\n"))
        }
        _ => fields.text("content").map(|_| String::new()),
    }
}

fn missing(fields: &Fields<'_>) -> Fault {
    match fields.required("messages") {
        Err(fault) => fault,
        Ok(other) => fields::wrong_type(VENDOR, "messages", "an array of objects", other),
    }
}

fn check_numbers(fields: &Fields<'_>) -> Result<(), Fault> {
    fields.number("temperature", 0.0, 2.0)?;
    fields.number("top_p", 0.0, 1.0)?;
    fields.number("frequency_penalty", -2.0, 2.0)?;
    fields.number("presence_penalty", -2.0, 2.0)?;
    fields.integer("top_logprobs", 0, 20)?;
    fields.flag("logprobs")?;
    fields.flag("store")?;
    if fields.object("stream_options")?.is_some() && fields.flag("stream")? != Some(true) {
        let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
        return Err(Fault::bad_request(message).at("stream_options"));
    }
    Ok(())
}

fn limit(fields: &Fields<'_>) -> Result<Option<u64>, Fault> {
    let old = fields.integer("max_tokens", 1, u64::MAX)?;
    let new = fields.integer("max_completion_tokens", 1, u64::MAX)?;
    if old.is_some() && new.is_some() {
        let message =
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.";
        return Err(Fault::bad_request(message)
            .at("max_tokens")
            .code("invalid_parameter_combination"));
    }
    Ok(new.or(old))
}

fn count(fields: &Fields<'_>) -> Result<usize, Fault> {
    let choices = fields.integer("n", 1, 128)?.unwrap_or(1);
    Ok(usize::try_from(choices).unwrap_or(1))
}

fn stop(fields: &Fields<'_>) -> Result<Vec<String>, Fault> {
    match fields.get("stop") {
        Some(Value::String(one)) => Ok(vec![one.clone()]),
        _ => {
            let list = fields.list("stop")?.map(Vec::as_slice).unwrap_or_default();
            if list.len() > 4 {
                let message =
                    "Invalid 'stop': array too long. Expected an array with maximum length 4.";
                return Err(Fault::bad_request(message)
                    .at("stop")
                    .code("array_above_max_length"));
            }
            Ok(list
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect())
        }
    }
}

fn shape(fields: &Fields<'_>) -> Result<Shape, Fault> {
    let Some(format) = fields.object("response_format")? else {
        return Ok(Shape::Text);
    };
    let format = Fields::of(format, "response_format", VENDOR)?;
    format.required("type")?;
    match format.text("type")? {
        Some("json_schema") => {
            format.required("json_schema")?;
            let wrapped = format
                .object("json_schema")?
                .and_then(|outer| outer.get("schema"));
            Ok(Shape::Schema(
                wrapped
                    .cloned()
                    .unwrap_or_else(|| json!({"type": "object"})),
            ))
        }
        Some("json_object") => Ok(Shape::AnyObject),
        Some("text") => Ok(Shape::Text),
        other => Err(format.not_one_of(
            "type",
            other.unwrap_or(""),
            &["text", "json_object", "json_schema"],
        )),
    }
}

fn thinking(fields: &Fields<'_>) -> Result<Thinking, Fault> {
    const EFFORTS: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    match fields.text("reasoning_effort")? {
        None | Some("none") => Ok(Thinking::Off),
        Some(effort) if EFFORTS.contains(&effort) => Ok(Thinking::Hidden),
        Some(effort) => Err(fields.not_one_of("reasoning_effort", effort, EFFORTS)),
    }
}

fn tools(fields: &Fields<'_>) -> Result<Vec<Tool>, Fault> {
    let offered = fields.list("tools")?.map(Vec::as_slice).unwrap_or_default();
    let each = offered.iter().enumerate();
    each.map(|(index, offer)| {
        let path = element(VENDOR, "tools", index);
        let outer = Fields::of(offer, &path, VENDOR)?;
        outer.required("type")?;
        let kind = outer.text("type")?.unwrap_or("");
        if !matches!(kind, "function" | "custom") {
            return Err(outer.not_one_of("type", kind, &["function", "custom"]));
        }
        let path = format!("{path}.{kind}");
        let inner = Fields::of(outer.required(kind)?, &path, VENDOR)?;
        inner.required("name")?;
        let any = json!({"type": "object", "properties": {}});
        Ok(Tool {
            name: inner.text("name")?.unwrap_or("").to_owned(),
            description: inner.text("description")?.unwrap_or("").to_owned(),
            namespace: None,
            input: if kind == "custom" {
                ToolInput::Text
            } else {
                ToolInput::Schema(inner.object("parameters")?.cloned().unwrap_or(any))
            },
        })
    })
    .collect()
}

fn tool_choice(fields: &Fields<'_>, tools: &[Tool]) -> Result<ToolChoice, Fault> {
    const KINDS: &[&str] = &["none", "auto", "required"];
    let Some(choice) = fields.get("tool_choice") else {
        return Ok(ToolChoice::Auto);
    };
    if tools.is_empty() && choice != "none" {
        let message = "'tool_choice' is only allowed when 'tools' are specified.";
        return Err(Fault::bad_request(message).at("tool_choice"));
    }
    match choice {
        Value::String(word) => match word.as_str() {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" => Ok(ToolChoice::Required),
            other => Err(fields.not_one_of("tool_choice", other, KINDS)),
        },
        choice => {
            let name = ["/function/name", "/custom/name"]
                .iter()
                .find_map(|at| choice.pointer(at)?.as_str());
            match name {
                Some(name) if tools.iter().any(|tool| tool.name == name) => {
                    Ok(ToolChoice::Named(name.to_owned()))
                }
                Some(name) => Err(Fault::bad_request(format!(
                    "Tool choice '{name}' not found in 'tools' parameter."
                ))
                .at("tool_choice")),
                None if choice
                    .get("type")
                    .is_some_and(|kind| kind == "allowed_tools") =>
                {
                    Ok(ToolChoice::Auto)
                }
                None => Err(fields::wrong_type(
                    VENDOR,
                    "tool_choice",
                    "one of auto, none, required or an object",
                    choice,
                )),
            }
        }
    }
}
