//! What a request for a response asks for, checked as OpenAI's API checks it.

use super::ENCRYPTED;
use crate::{
    ask::{self, Ask, Shape, Thinking, Tool, ToolChoice, ToolInput},
    fields::{Fields, Vendor, element, wrong_type},
    format::Fault,
    search::{self, Offer},
    seed, tokens,
};
use serde_json::{Value, json};

const VENDOR: Vendor = Vendor::OpenAi;
/// The parameters of the API, and `client_metadata`, which its own agent sends.
const KNOWN: &[&str] = &[
    "access_programs",
    "background",
    "client_metadata",
    "context_management",
    "conversation",
    "image",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "moderation",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];

/// # Errors
/// The fault that the API would report.
pub(crate) fn read(request: &Value) -> Result<Ask, Fault> {
    let fields = Fields::of(request, "", VENDOR)?;
    fields.only(KNOWN)?;
    fields.required("model")?;
    let model = fields.text("model")?.unwrap_or("");
    fields.required("input")?;
    fields.number("temperature", 0.0, 2.0)?;
    fields.number("top_p", 0.0, 1.0)?;
    fields.integer("top_logprobs", 0, 20)?;
    fields.flag("store")?;
    fields.text("instructions")?;
    let items = input_items(request);
    let turns = Turns::read(&fields, &items)?;
    let mut tools = Vec::new();
    collect_tools(request.get("tools"), None, &mut tools)?;
    for item in items.iter().filter(|item| kind(item) == "additional_tools") {
        collect_tools(item.get("tools"), None, &mut tools)?;
    }
    let search = search_offer(request);
    let input: u64 = ["input", "instructions", "tools", "text"]
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
        tool_choice: tool_choice(&fields, &tools, search.is_some())?,
        tools,
        search,
        searches: turns.searches,
        parallel: fields.flag("parallel_tool_calls")?.unwrap_or(true),
        max_tokens: fields.integer("max_output_tokens", 16, u64::MAX)?,
        shape: shape(&fields)?,
        thinking: thinking(&fields)?,
        input: ask::prompt_cache(input, turns.continues),
        ..Ask::plain(model, "")
    })
}

/// The input as a list of items, also where it was given as a text.
pub(crate) fn input_items(request: &Value) -> Vec<Value> {
    match request.get("input") {
        Some(Value::String(text)) => vec![json!({
            "type": "message", "role": "user",
            "content": [{"type": "input_text", "text": text}],
        })],
        Some(Value::Array(items)) => items.clone(),
        _ => Vec::new(),
    }
}

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
    continues: bool,
}

impl Turns {
    fn read(fields: &Fields<'_>, items: &[Value]) -> Result<Self, Fault> {
        let input = fields.required("input")?;
        if !(input.is_string() || input.is_array()) {
            return Err(wrong_type(
                VENDOR,
                "input",
                "one of a string or an array of input items",
                input,
            ));
        }
        let mut turns = Self {
            continues: fields.get("previous_response_id").is_some(),
            ..Self::default()
        };
        // What an earlier response called is not in this input.
        let mut calls: Option<Vec<&str>> = (!turns.continues).then(Vec::new);
        let mut open: Vec<&str> = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let path = element(VENDOR, "input", index);
            Fields::of(item, &path, VENDOR)?;
            turns.item(item, &path, &mut calls, &mut open)?;
        }
        match open.first() {
            Some(call) => Err(Fault::bad_request(format!(
                "No tool output found for function call {call}."
            ))
            .at("input")),
            None => Ok(turns),
        }
    }

    fn item<'a>(
        &mut self,
        item: &'a Value,
        path: &str,
        calls: &mut Option<Vec<&'a str>>,
        open: &mut Vec<&'a str>,
    ) -> Result<(), Fault> {
        match kind(item) {
            "message" => self.message(item, path)?,
            "function_call" | "custom_tool_call" | "local_shell_call" => {
                let id = required(item, path, "call_id")?;
                self.continues = true;
                self.results.clear();
                self.called += 1;
                open.push(id);
                if let Some(calls) = calls {
                    calls.push(id);
                }
            }
            "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
                let id = required(item, path, "call_id")?;
                if calls.as_ref().is_some_and(|calls| !calls.contains(&id)) {
                    return Err(Fault::bad_request(format!(
                        "No tool call found for function call output with call_id {id}."
                    ))
                    .at("input"));
                }
                open.retain(|call| *call != id);
                self.results.push(texts(item.get("output")));
            }
            "reasoning" => {
                check_encrypted(item)?;
                self.thoughts += usize::from(item.get("encrypted_content").is_some());
            }
            "web_search_call" => {
                required(item, path, "id")?;
                self.searches += 1;
            }
            _ => {}
        }
        Ok(())
    }

    fn message(&mut self, item: &Value, path: &str) -> Result<(), Fault> {
        const ROLES: &[&str] = &["assistant", "system", "developer", "user"];
        let fields = Fields::of(item, path, VENDOR)?;
        fields.required("role")?;
        fields.required("content")?;
        match fields.text("role")?.unwrap_or("") {
            "user" => {
                self.said = texts(item.get("content"));
                self.results.clear();
                self.called = 0;
            }
            "assistant" => self.continues = true,
            role if ROLES.contains(&role) => {}
            role => return Err(fields.not_one_of("role", role, ROLES)),
        }
        Ok(())
    }
}

/// The type of an item; one with a role and no type is a message.
fn kind(item: &Value) -> &str {
    let implied = if item.get("role").is_some() {
        "message"
    } else {
        ""
    };
    item.get("type").and_then(Value::as_str).unwrap_or(implied)
}

fn required<'a>(item: &'a Value, path: &str, name: &str) -> Result<&'a str, Fault> {
    let fields = Fields::of(item, path, VENDOR)?;
    fields.required(name)?;
    Ok(fields.text(name)?.unwrap_or(""))
}

fn check_encrypted(item: &Value) -> Result<(), Fault> {
    match item.get("encrypted_content").and_then(Value::as_str) {
        Some(blob) if !seed::is_sealed(ENCRYPTED, blob) => {
            let start: String = blob.chars().take(8).collect();
            Err(Fault::bad_request(format!(
                "The encrypted content {start}... could not be verified."
            ))
            .code("invalid_encrypted_content"))
        }
        Some(_) | None => Ok(()),
    }
}

fn texts(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

fn collect_tools(
    offered: Option<&Value>,
    namespace: Option<&str>,
    tools: &mut Vec<Tool>,
) -> Result<(), Fault> {
    let offered = match offered {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Array(offered)) => offered,
        Some(other) => return Err(wrong_type(VENDOR, "tools", "an array of objects", other)),
    };
    for (index, offer) in offered.iter().enumerate() {
        let path = element(VENDOR, "tools", index);
        let fields = Fields::of(offer, &path, VENDOR)?;
        fields.required("type")?;
        let input = match fields.text("type")?.unwrap_or("") {
            "function" => {
                let any = json!({"type": "object", "properties": {}});
                ToolInput::Schema(fields.object("parameters")?.cloned().unwrap_or(any))
            }
            "custom" => ToolInput::Text,
            "namespace" => {
                collect_tools(offer.get("tools"), fields.text("name")?, tools)?;
                continue;
            }
            // The provider's own tools: but for the search they are never used here.
            _ => continue,
        };
        fields.required("name")?;
        tools.push(Tool {
            name: fields.text("name")?.unwrap_or("").to_owned(),
            description: fields.text("description")?.unwrap_or("").to_owned(),
            namespace: namespace.map(str::to_owned),
            input,
        });
    }
    Ok(())
}

fn is_search(value: &Value) -> bool {
    let kind = value.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| kind.starts_with(search::NAME))
}

/// The search of the web, as it is offered.
fn search_offer(request: &Value) -> Option<Offer> {
    let offered = request.get("tools")?.as_array()?;
    let tool = offered.iter().find(|tool| is_search(tool))?;
    Some(Offer::of(tool.get("filters")))
}

fn tool_choice(fields: &Fields<'_>, tools: &[Tool], has_search: bool) -> Result<ToolChoice, Fault> {
    const KINDS: &[&str] = &["none", "auto", "required"];
    match fields.get("tool_choice") {
        None => Ok(ToolChoice::Auto),
        Some(Value::String(word)) => match word.as_str() {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" => Ok(ToolChoice::Required),
            other => Err(fields.not_one_of("tool_choice", other, KINDS)),
        },
        Some(choice) => match choice.get("name").and_then(Value::as_str) {
            Some(name) if tools.iter().any(|tool| tool.name == name) => {
                Ok(ToolChoice::Named(name.to_owned()))
            }
            Some(name) => Err(Fault::bad_request(format!(
                "Tool choice '{name}' not found in 'tools' parameter."
            ))
            .at("tool_choice")),
            None if has_search && is_search(choice) => {
                Ok(ToolChoice::Named(search::NAME.to_owned()))
            }
            None if choice.is_object() => Ok(ToolChoice::Auto),
            None => Err(wrong_type(
                VENDOR,
                "tool_choice",
                "one of auto, none, required or an object",
                choice,
            )),
        },
    }
}

fn shape(fields: &Fields<'_>) -> Result<Shape, Fault> {
    let Some(format) = fields.object("text")?.and_then(|text| text.get("format")) else {
        return Ok(Shape::Text);
    };
    let format = Fields::of(format, "text.format", VENDOR)?;
    format.required("type")?;
    match format.text("type")? {
        Some("json_schema") => {
            format.required("name")?;
            Ok(Shape::Schema(format.required("schema")?.clone()))
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
    let Some(reasoning) = fields.object("reasoning")? else {
        return Ok(Thinking::Off);
    };
    let reasoning = Fields::of(reasoning, "reasoning", VENDOR)?;
    match reasoning.text("effort")? {
        Some("none") => Ok(Thinking::Off),
        Some(effort) if !EFFORTS.contains(&effort) => {
            Err(reasoning.not_one_of("effort", effort, EFFORTS))
        }
        _ if reasoning.text("summary")?.is_some() => Ok(Thinking::Shown),
        Some(_) => Ok(Thinking::Hidden),
        None => Ok(Thinking::Off),
    }
}
