//! Reads a chat completions request.

mod tools;

use crate::request::read::rewrites::Rewritten;
use crate::request::read::{
    media,
    openai::{answer_schema, take_cache_requests, take_user},
    shared::{answer_call, say, stops, take_effort, take_mark, take_model, text_block},
};
use crate::{
    Refusal,
    document::{Kind, Text, Value},
    formats::chat::request_fields as table,
    request::{
        conversation::{
            AnswerFormat, Block, CacheMark, CallResult, Conversation, Image, Reasoning, Role,
            Sampling, TextBlock, Thought, Words,
        },
        fields::Fields,
        path::Path,
        scope::{Scope, must_be, refuse, shown},
    },
};
use tollgate_types::Effort;
use tools::{choice, read_calls, tools};

pub(crate) fn read<'d>(
    body: Value<'d>,
    _: &Rewritten<'d>,
    scope: &mut Scope<'_>,
) -> Result<Conversation<'d>, Refusal> {
    let mut top = scope.open(body, &table::TOP, &Path::ROOT)?;
    let mut conversation = Conversation {
        model: take_model(&mut top, scope)?,
        stream: top.bool("stream")?.unwrap_or_default(),
        ..Conversation::default()
    };
    let messages = top.array("messages")?;
    let messages = messages.ok_or_else(|| refuse(&Path::ROOT.field("messages"), "is missing"))?;
    read_messages(scope, messages, &mut conversation)?;
    if let Some(offered) = top.array("tools")? {
        tools(scope, offered, &mut conversation)?;
    }
    if let Some(value) = top.take("tool_choice") {
        choice(scope, value, &mut conversation)?;
    }
    conversation.parallel = top.bool("parallel_tool_calls")?;
    let older = top.integer("max_tokens", 1)?;
    conversation.limit = top.integer("max_completion_tokens", 1)?;
    conversation.limit_field = "max_completion_tokens";
    if conversation.limit.is_none() && older.is_some() {
        conversation.limit = older;
        conversation.limit_field = "max_tokens";
    }
    conversation.sampling = Sampling {
        temperature: top.number("temperature", 0.0, 2.0)?,
        top_p: top.number("top_p", 0.0, 1.0)?,
        top_k: top
            .number("top_k", -1.0, f64::MAX)?
            .filter(|it| !table::ALL_TOKENS.iter().any(|all| it.says(all))),
        seed: top.number("seed", f64::MIN, f64::MAX)?,
        ..Sampling::default()
    };
    if let Some(value) = top.take("stop") {
        conversation.stop = stops(value, &Path::ROOT.field("stop"))?;
    }
    if let Some(value) = top.take("response_format") {
        conversation.format = answer_format(scope, value)?;
    }
    conversation.reasoning = reasoning(scope, &mut top)?;
    conversation.moderation = top.object("moderation")?;
    conversation.verbosity = top.text("verbosity")?;
    conversation.user = take_user(&mut top)?;
    conversation.service_tier = top.text("service_tier")?;
    conversation.cache = take_cache_requests(scope, &mut top, &table::CACHE_OPTIONS)?;
    conversation.logprobs = top.bool("logprobs")?.unwrap_or_default();
    conversation.top_logprobs = top.number("top_logprobs", 0.0, 20.0)?;
    conversation.include_usage = include_usage(scope, &mut top)?;
    top.close()?;
    Ok(conversation)
}

fn include_usage(scope: &mut Scope<'_>, top: &mut Fields<'_, '_>) -> Result<bool, Refusal> {
    let Some(value) = top.take("stream_options") else {
        return Ok(false);
    };
    let path = Path::ROOT.field("stream_options");
    let mut options = scope.open(value, &table::STREAM_OPTIONS, &path)?;
    let include = options.bool("include_usage")?.unwrap_or_default();
    options.close()?;
    Ok(include)
}

/// The effort, in the format's own field or in the object that some providers know.
fn reasoning(scope: &mut Scope<'_>, top: &mut Fields<'_, '_>) -> Result<Reasoning, Refusal> {
    let of = |effort, effort_field| Reasoning {
        effort,
        effort_field,
        ..Reasoning::default()
    };
    let effort = take_effort(top, "reasoning_effort")?;
    let Some(value) = top.take("reasoning") else {
        return Ok(of(effort, "reasoning_effort"));
    };
    let path = Path::ROOT.field("reasoning");
    let mut reasoning = scope.open(value, &table::REASONING, &path)?;
    let other = take_effort(&mut reasoning, "effort")?;
    let enabled = reasoning.bool("enabled")?;
    reasoning.close()?;
    let implied = match enabled {
        Some(false) => Some(Effort::None),
        Some(true) => Some(Effort::Medium),
        None => None,
    };
    Ok(match (effort, other) {
        (Some(_), _) => of(effort, "reasoning_effort"),
        (None, Some(_)) => of(other, "reasoning.effort"),
        (None, None) => of(implied, "reasoning.enabled"),
    })
}

fn answer_format<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
) -> Result<Option<AnswerFormat<'d>>, Refusal> {
    let path = Path::ROOT.field("response_format");
    let Some(kind) = scope.kind(value, &table::FORMATS, &path)? else {
        return Ok(None);
    };
    if kind == "json_object" {
        scope.open(value, &table::FORMAT_OBJECT, &path)?.close()?;
        return Ok(Some(AnswerFormat::JsonObject));
    }
    let mut format = scope.open(value, &table::FORMAT_SCHEMA, &path)?;
    let schema = format.require("json_schema")?;
    format.close()?;
    let path = path.field("json_schema");
    answer_schema(scope.open(schema, &table::SCHEMA, &path)?).map(Some)
}

fn read_messages<'d>(
    scope: &mut Scope<'_>,
    messages: Value<'d>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    let path = Path::ROOT.field("messages");
    for (at, message) in messages.elements().enumerate() {
        let path = path.index(at);
        if message.kind() != Kind::Object {
            return Err(must_be(&path, "an object", message));
        }
        let role = message.get("role").and_then(Value::text);
        let role = role.ok_or_else(|| refuse(&path.field("role"), "is missing"))?;
        let (role, blocks) = if role.is("user") {
            let mut fields = scope.open(message, &table::USER, &path)?;
            fields.take("tool_calls");
            (Role::User, require_content(scope, fields)?)
        } else if role.is("assistant") {
            (Role::Assistant, assistant(scope, message, &path)?)
        } else if role.is("tool") {
            let result = tool_result(scope, message, &path)?;
            answer_call(&mut conversation.turns, result, at);
            continue;
        } else if role.is("system") {
            let fields = scope.open(message, &table::SYSTEM, &path)?;
            (Role::System, require_content(scope, fields)?)
        } else if role.is("developer") {
            let fields = scope.open(message, &table::DEVELOPER, &path)?;
            (Role::Developer, require_content(scope, fields)?)
        } else if role.is("function") {
            return Err(refuse(
                &path.field("role"),
                scope.cannot("use the role tool"),
            ));
        } else {
            let message = format!(
                "is '{}'; expected one of: system, developer, user, assistant, tool",
                shown(role)
            );
            return Err(refuse(&path.field("role"), message));
        };
        say(&mut conversation.turns, role, blocks, at);
    }
    Ok(())
}

/// The content of a message that has nothing else. The format requires it.
fn require_content<'d>(
    scope: &mut Scope<'_>,
    mut fields: Fields<'d, '_>,
) -> Result<Vec<Block<'d>>, Refusal> {
    let mut blocks = Vec::new();
    let value = fields.require("content")?;
    content(scope, value, &fields.path.field("content"), &mut blocks)?;
    fields.close()?;
    Ok(blocks)
}

/// A string, or a list of parts.
fn content<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    path: &Path<'_>,
    blocks: &mut Vec<Block<'d>>,
) -> Result<(), Refusal> {
    if let Some(text) = value.text() {
        blocks.push(text_block(text, None));
        return Ok(());
    }
    if value.kind() != Kind::Array {
        return Err(must_be(path, "a string or an array of parts", value));
    }
    for (at, part) in value.elements().enumerate() {
        if let Some(block) = read_part(scope, part, &path.index(at))? {
            blocks.push(block);
        }
    }
    Ok(())
}

fn read_part<'d>(
    scope: &mut Scope<'_>,
    part: Value<'d>,
    path: &Path<'_>,
) -> Result<Option<Block<'d>>, Refusal> {
    let Some(kind) = scope.kind(part, &table::PARTS, path)? else {
        return Ok(None);
    };
    let block = match kind {
        "text" => {
            let mut fields = scope.open(part, &table::TEXT, path)?;
            let text = fields.require_text("text")?;
            let cache = marks(scope, &mut fields)?;
            fields.close()?;
            text_block(text, cache)
        }
        "image_url" => {
            let mut fields = scope.open(part, &table::IMAGE, path)?;
            let image = fields.require("image_url")?;
            media_mark(scope, &mut fields)?;
            fields.close()?;
            image_url(scope, image, &path.field("image_url"))?
        }
        "file" => {
            let mut fields = scope.open(part, &table::FILE, path)?;
            let file = fields.require("file")?;
            media_mark(scope, &mut fields)?;
            fields.close()?;
            let path = path.field("file");
            // A target without names needs it for the type.
            let given = file.get("filename").and_then(Value::text);
            let mut file = scope.open(file, &table::FILE_DATA, &path)?;
            let name = file.text("filename")?.or(given);
            let data = file.require_text("file_data")?;
            file.close()?;
            media::document(scope, data, name, &path.field("file_data"))?
        }
        _ => {
            let mut fields = scope.open(part, &table::REFUSAL, path)?;
            let text = fields.require_text("refusal")?;
            fields.close()?;
            Block::Refusal(TextBlock::of(Words::Asked(text)))
        }
    };
    Ok(Some(block))
}

fn image_url<'d>(
    scope: &mut Scope<'_>,
    image: Value<'d>,
    path: &Path<'_>,
) -> Result<Block<'d>, Refusal> {
    let mut fields = scope.open(image, &table::IMAGE_URL, path)?;
    let url = fields.require_text("url")?;
    let source = media::image(scope, url, &path.field("url"))?;
    let detail = fields.text("detail")?;
    fields.close()?;
    Ok(Block::Image(Image { source, detail }))
}

/// A mark for caching, in either of its forms.
fn marks<'d>(
    scope: &mut Scope<'_>,
    fields: &mut Fields<'d, '_>,
) -> Result<Option<CacheMark<'d>>, Refusal> {
    let own = take_mark(scope, fields, "prompt_cache_breakpoint", &table::BREAKPOINT)?;
    let other = take_mark(scope, fields, "cache_control", &table::CACHE_CONTROL)?;
    Ok(own.or(other))
}

/// A mark on media: those are not marked anywhere else.
fn media_mark(scope: &mut Scope<'_>, fields: &mut Fields<'_, '_>) -> Result<(), Refusal> {
    for name in ["prompt_cache_breakpoint", "cache_control"] {
        if fields.take(name).is_some() {
            scope.note_dropped(format!("messages[].content[].{name}"));
        }
    }
    Ok(())
}

fn assistant<'d>(
    scope: &mut Scope<'_>,
    message: Value<'d>,
    path: &Path<'_>,
) -> Result<Vec<Block<'d>>, Refusal> {
    let mut fields = scope.open(message, &table::ASSISTANT, path)?;
    let mut blocks = Vec::new();
    thoughts(scope, &mut fields, &mut blocks)?;
    if let Some(value) = fields.take("content") {
        content(scope, value, &path.field("content"), &mut blocks)?;
    }
    if let Some(refusal) = fields.text("refusal")? {
        blocks.push(Block::Refusal(TextBlock::of(Words::Asked(refusal))));
    }
    if let Some(calls) = fields.array("tool_calls")? {
        read_calls(scope, calls, &path.field("tool_calls"), &mut blocks)?;
    }
    fields.close()?;
    Ok(blocks)
}

/// The reasoning before an answer: its text under either name, and seals beside it.
fn thoughts<'d>(
    scope: &mut Scope<'_>,
    fields: &mut Fields<'d, '_>,
    blocks: &mut Vec<Block<'d>>,
) -> Result<(), Refusal> {
    const CONTENT: &str = "messages[].reasoning_content";
    const REASONING: &str = "messages[].reasoning";
    const DETAILS: &str = "messages[].reasoning_details";
    let other = fields.text("reasoning")?;
    let own = fields.text("reasoning_content")?;
    let (alone, beside): (&[&str], &[&str]) = match own {
        Some(_) => (&[CONTENT], &[CONTENT, DETAILS]),
        None => (&[REASONING], &[REASONING, DETAILS]),
    };
    let text = own.or(other).filter(|text| !text.is_empty());
    let mut text: Vec<Text<'d>> = text.into_iter().collect();
    if let Some(details) = fields.array("reasoning_details")? {
        for entry in details.elements() {
            let seal = ["data", "signature"];
            let seal = seal.iter().find_map(|name| entry.get(name)?.text());
            if seal.is_none() {
                // It belongs to the provider that wrote it, and nothing shows which that was.
                scope.note_dropped(DETAILS);
                continue;
            }
            let paths = if text.is_empty() { &[DETAILS] } else { beside };
            blocks.push(Block::Thought(Thought {
                text: std::mem::take(&mut text),
                state: seal,
                paths,
            }));
        }
    }
    if !text.is_empty() {
        blocks.push(Block::Thought(Thought {
            text,
            state: None,
            paths: alone,
        }));
    }
    Ok(())
}

fn tool_result<'d>(
    scope: &mut Scope<'_>,
    message: Value<'d>,
    path: &Path<'_>,
) -> Result<CallResult<'d>, Refusal> {
    let mut fields = scope.open(message, &table::TOOL_RESULT, path)?;
    let id = fields.require_text("tool_call_id")?;
    let mut blocks = Vec::new();
    // The format requires it, but clients leave it out if a tool returns nothing.
    if let Some(value) = fields.take("content") {
        content(scope, value, &path.field("content"), &mut blocks)?;
    }
    fields.close()?;
    Ok(CallResult {
        id,
        content: blocks,
        is_error: false,
    })
}
