//! Reads a messages request.

mod blocks;
mod search;
mod tools;

use crate::request::read::rewrites::Rewritten;
use crate::request::read::shared::{
    assistant_says, stops, take_effort, take_model, take_word, text_block,
};
use crate::{
    Refusal,
    document::{Kind, Text, Value},
    formats::messages::request_fields as table,
    request::{
        conversation::{
            AnswerFormat, Block, Conversation, Role, Sampling, ThinkingMode, Turn, User,
        },
        fields::Fields,
        path::Path,
        scope::{Scope, must_be, refuse, shown},
    },
};
use blocks::{Removed, blocks_of, remove, system_message};
use tools::{choice, tools};

pub(crate) fn read<'d>(
    body: Value<'d>,
    _: &Rewritten<'d>,
    scope: &mut Scope<'_>,
) -> Result<Conversation<'d>, Refusal> {
    let mut top = scope.open(body, &table::TOP, &Path::ROOT)?;
    let mut conversation = Conversation {
        model: take_model(&mut top, scope)?,
        stream: top.bool("stream")?.unwrap_or_default(),
        limit_field: "max_tokens",
        encrypted_reasoning: true,
        search_sources: true,
        ..Conversation::default()
    };
    top.require("max_tokens")?;
    conversation.limit = top.integer("max_tokens", 1)?;
    if let Some(offered) = top.array("tools")? {
        tools(scope, offered, &mut conversation)?;
    }
    if let Some(value) = top.take("system") {
        read_system(scope, value, &mut conversation)?;
    }
    thinking(scope, &mut top, &mut conversation)?;
    output_config(scope, &mut top, &mut conversation)?;
    let messages = top.array("messages")?;
    let messages = messages.ok_or_else(|| refuse(&Path::ROOT.field("messages"), "is missing"))?;
    read_messages(scope, messages, &mut conversation)?;
    if let Some(value) = top.take("tool_choice") {
        choice(scope, value, &mut conversation)?;
    }
    conversation.sampling = Sampling {
        temperature: top.number("temperature", 0.0, 1.0)?,
        top_p: top.number("top_p", 0.0, 1.0)?,
        top_k: top.number("top_k", 0.0, f64::MAX)?,
        ..Sampling::default()
    };
    if let Some(value) = top.array("stop_sequences")? {
        conversation.stop = stops(value, &Path::ROOT.field("stop_sequences"))?;
    }
    if let Some(value) = top.take("metadata") {
        let path = Path::ROOT.field("metadata");
        let mut metadata = scope.open(value, &table::METADATA, &path)?;
        conversation.user = User {
            user_id: metadata.text("user_id")?,
            ..User::default()
        };
        metadata.close()?;
    }
    if let Some(value) = top.take("context_management") {
        context_management(scope, value)?;
    }
    conversation.service_tier =
        top.text("service_tier")?
            .map(|tier| match tier.is("standard_only") {
                true => Text::of_word("default"),
                false => tier,
            });
    top.close()?;
    Ok(conversation)
}

fn read_system<'d>(
    scope: &mut Scope<'_>,
    value: Value<'d>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    let path = Path::ROOT.field("system");
    let blocks = match value.text() {
        Some(text) => vec![text_block(text, None)],
        None => blocks_of(scope, value, &table::SYSTEM_BLOCKS, &path)?,
    };
    conversation.turns.push(Turn {
        role: Role::System,
        blocks,
        at: None,
    });
    Ok(())
}

fn thinking(
    scope: &mut Scope<'_>,
    top: &mut Fields<'_, '_>,
    conversation: &mut Conversation<'_>,
) -> Result<(), Refusal> {
    let Some(value) = top.take("thinking") else {
        return Ok(());
    };
    let path = Path::ROOT.field("thinking");
    let mut fields = scope.open(value, &table::THINKING_CONFIG, &path)?;
    let kinds = ["enabled", "disabled", "adaptive", "between_tools"];
    let kind = take_word(&mut fields, "type", &kinds)?;
    let kind = kind.ok_or_else(|| refuse(&path.field("type"), "is missing"))?;
    let budget = fields.integer("budget_tokens", 1024)?;
    let display = take_word(
        &mut fields,
        "display",
        &["omitted", "summarized", "updates"],
    )?;
    fields.close()?;
    let mode = match kind {
        "enabled" => ThinkingMode::Enabled,
        "disabled" => ThinkingMode::Disabled,
        "adaptive" => ThinkingMode::Adaptive,
        _ => ThinkingMode::BetweenTools,
    };
    if mode == ThinkingMode::Enabled && budget.is_none() {
        return Err(refuse(&path.field("budget_tokens"), "is missing"));
    }
    let reasoning = &mut conversation.reasoning;
    reasoning.mode = Some(mode);
    reasoning.budget = budget.filter(|_| mode == ThinkingMode::Enabled);
    reasoning.shown = match mode {
        ThinkingMode::Disabled => Some(false),
        _ => Some(display != Some("omitted")),
    };
    Ok(())
}

fn output_config<'d>(
    scope: &mut Scope<'_>,
    top: &mut Fields<'d, '_>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    let Some(value) = top.take("output_config") else {
        return Ok(());
    };
    let path = Path::ROOT.field("output_config");
    let mut fields = scope.open(value, &table::OUTPUT_CONFIG, &path)?;
    conversation.reasoning.effort = take_effort(&mut fields, "effort")?;
    conversation.reasoning.effort_field = "output_config.effort";
    if let Some(format) = fields.take("format") {
        let path = path.field("format");
        let mut fields = scope.open(format, &table::FORMAT_SCHEMA, &path)?;
        take_word(&mut fields, "type", &["json_schema"])?;
        let schema = fields.object("schema")?;
        fields.close()?;
        conversation.format = Some(AnswerFormat::Schema {
            name: None,
            description: None,
            schema,
            // Messages promises this always, chat and responses only on request.
            strict: Some(true),
        });
    }
    fields.close()
}

/// Agents ask for all thinking to be kept as a habit: that is what happens anyway.
fn context_management(scope: &mut Scope<'_>, value: Value<'_>) -> Result<(), Refusal> {
    let path = Path::ROOT.field("context_management");
    let mut fields = scope.open(value, &table::CONTEXT_MANAGEMENT, &path)?;
    let edits = fields.array("edits")?;
    fields.close()?;
    let path = path.field("edits");
    for (at, edit) in edits.into_iter().flat_map(Value::elements).enumerate() {
        let path = path.index(at);
        if scope.kind(edit, &table::EDITS, &path)?.is_some() {
            scope.open(edit, &table::CLEAR_THINKING, &path)?.close()?;
        }
    }
    Ok(())
}

fn read_messages<'d>(
    scope: &mut Scope<'_>,
    messages: Value<'d>,
    conversation: &mut Conversation<'d>,
) -> Result<(), Refusal> {
    let path = Path::ROOT.field("messages");
    let last_user = messages
        .elements()
        .enumerate()
        .filter(|(_, message)| message.has("role", "user"))
        .map(|(at, _)| at)
        .last();
    conversation.turns.reserve(messages.elements().count());
    let mut removed = Removed::new();
    for (at, message) in messages.elements().enumerate() {
        let path = path.index(at);
        if message.kind() != Kind::Object {
            return Err(must_be(&path, "an object", message));
        }
        let role = message.get("role").and_then(Value::text);
        let role = role.ok_or_else(|| refuse(&path.field("role"), "is missing"))?;
        let (role, blocks) = if role.is("user") {
            let fields = scope.open(message, &table::USER, &path)?;
            (Role::User, take_blocks(scope, fields)?)
        } else if role.is("assistant") {
            let fields = scope.open(message, &table::ASSISTANT, &path)?;
            let blocks = take_blocks(scope, fields)?;
            assistant_says(&mut conversation.turns, blocks, at);
            continue;
        } else if role.is("system") {
            let is_over = last_user.is_some_and(|user| user > at);
            let blocks =
                system_message(scope, message, is_over, &path, conversation, &mut removed)?;
            (Role::System, blocks)
        } else {
            let message = format!("is '{}'; expected user, assistant or system", shown(role));
            return Err(refuse(&path.field("role"), message));
        };
        conversation.turns.push(Turn {
            role,
            blocks,
            at: Some(at),
        });
    }
    remove(&mut conversation.tools, &removed);
    Ok(())
}

fn take_blocks<'d>(
    scope: &mut Scope<'_>,
    mut fields: Fields<'d, '_>,
) -> Result<Vec<Block<'d>>, Refusal> {
    let content = fields.require("content")?;
    let path = fields.path.field("content");
    let blocks = match content.text() {
        Some(text) => vec![text_block(text, None)],
        None => blocks_of(scope, content, &table::BLOCKS, &path)?,
    };
    fields.close()?;
    Ok(blocks)
}
