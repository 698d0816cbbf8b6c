//! Reads a responses request.

mod compaction;
mod items;
mod search;
mod tool_search;
mod tools;

use crate::request::read::rewrites::Rewritten;
use crate::request::read::{
    openai::{answer_schema, take_cache_requests, take_user},
    shared::{take_effort, take_model, text_block},
};
use crate::{
    AnswerMemory, Refusal,
    document::{Text, Value},
    features::Feature,
    formats::responses::request_fields as table,
    notes::{Json, ResponsesEcho},
    request::{
        conversation::{AnswerFormat, Conversation, Role, Sampling, Turn},
        fields::text,
        path::Path,
        scope::{Scope, refuse},
    },
    table::Fate,
};
use items::read_items;
use std::collections::HashSet;
use tools::{check_descriptions, choice, tools};

pub(crate) fn read<'d>(
    body: Value<'d>,
    _: &Rewritten<'d>,
    scope: &mut Scope<'_>,
) -> Result<Conversation<'d>, Refusal> {
    let mut top = scope.open(body, &table::TOP, &Path::ROOT)?;
    let mut conversation = Conversation {
        model: take_model(&mut top, scope)?,
        stream: top.bool("stream")?.unwrap_or_default(),
        limit_field: "max_output_tokens",
        echo: Some(Box::new(echo(body))),
        ..Conversation::default()
    };
    if let Some(instructions) = top.text("instructions")? {
        conversation.turns.push(Turn {
            role: Role::System,
            blocks: vec![text_block(instructions, None)],
            at: None,
        });
    }
    if let Some(offered) = top.array("tools")? {
        tools(
            scope,
            offered,
            &Path::ROOT.field("tools"),
            None,
            &mut conversation,
        )?;
    }
    let input = top.require("input")?;
    read_input(scope, input, &mut conversation)?;
    // Lists of tools in the input repeat what was offered before.
    let mut names = HashSet::new();
    conversation
        .tools
        .retain(|tool| names.insert((tool.name, tool.namespace)));
    check_descriptions(&conversation.tools)?;
    if let Some(value) = top.take("tool_choice") {
        choice(scope, value, &mut conversation)?;
    }
    if let Some(most) = top.integer("max_tool_calls", 1)? {
        // Where no tool of the provider's is offered, none is called too often.
        if let Some(search) = &mut conversation.search {
            search.max_uses = Some(most);
        }
    }
    conversation.parallel = top.bool("parallel_tool_calls")?;
    conversation.limit = top.integer("max_output_tokens", 1)?;
    conversation.sampling = Sampling {
        temperature: top.number("temperature", 0.0, 2.0)?,
        top_p: top.number("top_p", 0.0, 1.0)?,
        top_k: None,
        ..Sampling::default()
    };
    if let Some(value) = top.take("text") {
        text_config(scope, value, &mut conversation)?;
    }
    if let Some(value) = top.take("reasoning") {
        reasoning(scope, value, &mut conversation)?;
    }
    if let Some(value) = top.array("include")? {
        include(scope, value, &mut conversation)?;
    }
    conversation.user = take_user(&mut top)?;
    conversation.service_tier = top.text("service_tier")?;
    if top.bool("store")? == Some(true) {
        check_store(scope)?;
    }
    conversation.moderation = top.object("moderation")?;
    conversation.top_logprobs = top.number("top_logprobs", 0.0, 20.0)?;
    conversation.cache = take_cache_requests(scope, &mut top, &table::CACHE_OPTIONS)?;
    if let Some(value) = top.take("stream_options") {
        let path = Path::ROOT.field("stream_options");
        scope.open(value, &table::STREAM_OPTIONS, &path)?.close()?;
    }
    top.close()?;
    if conversation.compacts {
        compaction::ask_for_text(scope, &mut conversation);
    }
    Ok(conversation)
}

/// Judges a request to store the answer.
fn check_store(scope: &mut Scope<'_>) -> Result<(), Refusal> {
    let is_dropped = match scope.target.memory {
        AnswerMemory::Keep => return Ok(()),
        AnswerMemory::Skip => true,
        AnswerMemory::Off => scope.target.lossy.allows("store"),
    };
    if !is_dropped {
        let why = "what the gateway translates is not stored: send the whole history";
        return Err(refuse(&Path::ROOT.field("store"), scope.cannot(why)));
    }
    scope.note_dropped("store");
    Ok(())
}

fn read_input<'d>(
    scope: &mut Scope<'_>,
    input: Value<'d>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    match input.text() {
        Some(text) => {
            conversation.turns.push(Turn {
                role: Role::User,
                blocks: vec![text_block(text, None)],
                at: None,
            });
            Ok(())
        }
        None => read_items(scope, input, conversation),
    }
}

fn text_config<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    let path = Path::ROOT.field("text");
    let mut config = scope.open(value, &table::TEXT_CONFIG, &path)?;
    conversation.verbosity = config.text("verbosity")?;
    let format = config.take("format");
    config.close()?;
    let Some(format) = format else {
        return Ok(());
    };
    let path = path.field("format");
    conversation.format = match scope.kind(format, &table::FORMATS, &path)? {
        None => None,
        Some("json_object") => {
            scope.open(format, &table::FORMAT_OBJECT, &path)?.close()?;
            Some(AnswerFormat::JsonObject)
        }
        Some(_) => {
            let fields = scope.open(format, &table::FORMAT_SCHEMA, &path)?;
            Some(answer_schema(fields)?)
        }
    };
    Ok(())
}

fn reasoning(
    scope: &mut Scope<'_>,
    value: Value<'_>,
    conversation: &mut Conversation<'_>,
) -> Result<(), Refusal> {
    let path = Path::ROOT.field("reasoning");
    let mut fields = scope.open(value, &table::REASONING, &path)?;
    conversation.reasoning.effort = take_effort(&mut fields, "effort")?;
    conversation.reasoning.effort_field = "reasoning.effort";
    let summary = fields.text("summary")?;
    let older = fields.text("generate_summary")?;
    let asks = |text: Text<'_>| !text.is("none");
    conversation.reasoning.shown = Some(summary.or(older).is_some_and(asks));
    fields.close()
}

/// Reads `include`: the parts besides the answer that the caller asks for.
fn include(
    scope: &mut Scope<'_>,
    list: Value<'_>,
    conversation: &mut Conversation<'_>,
) -> Result<(), Refusal> {
    /// Further contents of the provider's own tools, which are not offered.
    const HOSTED: [&str; 6] = [
        "file_search_call.results",
        "web_search_call.results",
        SOURCES,
        "message.input_image.image_url",
        "computer_call_output.output.image_url",
        "code_interpreter_call.outputs",
    ];
    const SOURCES: &str = "web_search_call.action.sources";
    let path = Path::ROOT.field("include");
    for (at, entry) in list.elements().enumerate() {
        let path = path.index(at);
        let word = text(entry, &path)?;
        if word.is("reasoning.encrypted_content") {
            conversation.encrypted_reasoning = true;
        } else if word.is("message.output_text.logprobs") {
            if let Fate::Refused(why) = scope.rules.features.fate(Feature::Logprobs) {
                return Err(refuse(&path, scope.cannot(why)));
            }
            conversation.logprobs = true;
        } else if word.is(SOURCES) && conversation.search.is_some() {
            conversation.search_sources = true;
        } else if HOSTED.iter().any(|hosted| word.is(hosted)) {
            scope.note_dropped("include");
        } else {
            return Err(refuse(&path, "is not something that can be included"));
        }
    }
    Ok(())
}

/// The fields of the request that the answer repeats.
fn echo(body: Value<'_>) -> ResponsesEcho {
    let mut echo = ResponsesEcho::default();
    for (key, value) in body.members() {
        if let Ok(key) = std::str::from_utf8(key.json()) {
            echo.set(key, json(value));
        }
    }
    echo
}

fn json(value: Value<'_>) -> Option<Json> {
    if value.is_null() {
        return None;
    }
    std::str::from_utf8(value.raw()).ok().map(Json::from)
}
